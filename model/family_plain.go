package model

import "math"

// Networks that differ from Llama in a few lines: Arcee's AFM, Kyutai's Helium, Nvidia's Nemotron-4, the first
// GLM-4 of the hub, Ai2's first OLMo, Google's first Gemma, Cohere's Command R, InternLM 3, IQuest-Coder and the
// Ministral of 2024, as transformers/models/{arcee,helium,nemotron,glm,olmo,gemma,cohere,internlm3,iquestcoder,
// ministral} have them.

func init() {
	recipes["ArceeForCausalLM"] = recipe{modelType: "arcee", read: arcee}
	recipes["HeliumForCausalLM"] = recipe{modelType: "helium", read: helium}
	recipes["NemotronForCausalLM"] = recipe{modelType: "nemotron", read: nemotron4}
	recipes["GlmForCausalLM"] = recipe{modelType: "glm", read: glm}
	recipes["OlmoForCausalLM"] = recipe{modelType: "olmo", read: olmo1}
	recipes["GemmaForCausalLM"] = recipe{modelType: "gemma", read: gemma1}
	recipes["CohereForCausalLM"] = recipe{modelType: "cohere", read: cohere1}
	recipes["InternLM3ForCausalLM"] = recipe{modelType: "internlm3", read: internLM3}
	recipes["IQuestCoderForCausalLM"] = recipe{modelType: "iquestcoder", read: iquestCoder}
	recipes["MinistralForCausalLM"] = recipe{modelType: "ministral", read: ministral}
}

// plainLayers are layers like Llama's: norms before attention and before a feed-forward network.
func (f *fields) plainLayers(norm func(string) NormSpec, k ropeKind, feed Feed) {
	rope := f.rope(f.HeadDim, k)
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.QKVBias = rope, f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = norm("input_layernorm"), []Mixer{a}, norm("post_attention_layernorm"), []Feed{feed}
	})
}

// ungated is a feed-forward network without gate.
func (f *fields) ungated() MLPSpec {
	return MLPSpec{Up: "mlp.up_proj", Down: "mlp.down_proj", Inner: f.Intermediate, Bias: f.bool("mlp_bias", false), Act: f.activation("hidden_act", "relu2")}
}

func (f *fields) biasedMLP() MLPSpec {
	m := f.mlp(f.Intermediate)
	m.Bias = f.bool("mlp_bias", false)
	return m
}

func arcee(f *fields) {
	f.usual(usual{maxPositions: 4096, eps: 1e-5})
	f.plainLayers(f.norm, ropeKind{}, f.ungated())
}

func nemotron4(f *fields) {
	f.usual(usual{maxPositions: 4096, eps: 1e-5, epsName: "norm_eps"})
	norm := func(name string) NormSpec {
		return NormSpec{Name: name, Kind: LayerNorm, Eps: f.NormEps, Bias: true, PlusOne: true}
	}
	f.Network.Final = norm("norm")
	f.plainLayers(norm, ropeKind{partial: 0.5}, f.ungated())
}

func helium(f *fields) {
	f.usual(usual{maxPositions: 4096, eps: 1e-8, kvHeads: 20, headDim: 128})
	rope := f.rope(f.HeadDim, ropeKind{theta: 100_000, interleaved: true})
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.QKVBias = rope, f.bool("attention_bias", false) // and none behind the output product
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{f.biasedMLP()}
	})
}

func glm(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1.5625e-07, kvHeads: 2, headDim: 128})
	rope := f.rope(f.HeadDim, ropeKind{partial: 0.5, interleaved: true})
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.QKVBias = rope, f.bool("attention_bias", true)
		m := MLPSpec{GateUp: "mlp.gate_up_proj", Down: "mlp.down_proj", Inner: f.Intermediate, Act: f.activation("hidden_act", "silu")}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{m}
	})
}

// clip is OLMo's bound on queries, keys and values; 0: there is none.
func (f *fields) clip(bound float64) float32 {
	if bound < 0 {
		f.bad("clip_qkv %v is negative", bound)
	}
	return float32(bound)
}

func olmo1(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-5})
	f.NormEps = 1e-5 // which no field changes
	norm := NormSpec{Name: Unweighted, Kind: LayerNorm, Eps: f.NormEps}
	f.Network.Final = norm
	rope, m, clip := f.rope(f.HeadDim, ropeKind{}), f.mlp(f.Intermediate), f.clip(f.float("clip_qkv", 0))
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.Clip, a.QKVBias = rope, clip, f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = norm, []Mixer{a}, norm, []Feed{m}
	})
}

func gemma1(f *fields) {
	f.usual(usual{maxPositions: 8192, eps: 1e-6, tied: true, kvHeads: 16, headDim: 256})
	if f.bool("use_bidirectional_attention", false) {
		f.unsupported("use_bidirectional_attention", true, "false")
	}
	f.Network.EmbedScale, f.Network.Final = float32(math.Sqrt(float64(f.Hidden))), f.norm1("norm")
	m := f.mlp(f.Intermediate)
	if m.Act = f.activation("hidden_act", "gelu_pytorch_tanh"); m.Act.Kind == GELU {
		m.Act.Kind = GELUTanh // what the published files mean by it
	}
	f.plainLayers(f.norm1, ropeKind{}, m)
}

func cohere1(f *fields) {
	f.usual(usual{maxPositions: 8192, eps: 1e-5, epsName: "layer_norm_eps", tied: true})
	f.Network.LogitScale = f.float32("logit_scale", 0.0625)
	norm := func(name string) NormSpec { return NormSpec{Name: name, Kind: LayerNorm, Eps: f.NormEps} }
	rope := f.rope(f.HeadDim, ropeKind{theta: 500_000, interleaved: true})
	f.Network.Final = norm("norm")
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.QKVBias = rope, f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		if f.bool("use_qk_norm", false) {
			a.QNorm, a.KNorm, a.PerHeadNorm = norm("self_attn.q_norm"), norm("self_attn.k_norm"), true
		}
		l.InNorm, l.Mixers, l.Parallel, l.Feeds = norm("input_layernorm"), []Mixer{a}, true, []Feed{f.mlp(f.Intermediate)}
	})
}

func internLM3(f *fields) {
	f.usual(usual{maxPositions: 32768, eps: 1e-5, kvHeads: 2, headDim: 128})
	rope := f.rope(f.HeadDim, ropeKind{})
	f.layers(func(_ int, l *Layer) {
		a, m := f.attention(), f.mlp(f.Intermediate)
		a.Rope, a.QKVBias, m.Bias = rope, f.bool("attention_bias", f.bool("qkv_bias", false)), f.bool("mlp_bias", f.bool("bias", false))
		a.OutBias = a.QKVBias
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{m}
	})
}

func iquestCoder(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-5, kvHeads: 8, headDim: 128})
	f.plainLayers(f.norm, ropeKind{}, f.biasedMLP())
}

func ministral(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-6, kvHeads: 8})
	rope, types := f.rope(f.HeadDim, ropeKind{}), f.texts("layer_types")
	window := f.int("sliding_window", 4096)
	if f.v.Member("sliding_window") != nil && !f.has("sliding_window") { // null: there is none
		window = 0
	}
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope = rope
		if types == nil || types[i] == "sliding_attention" {
			a.Window = f.window(i, window)
		}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{f.mlp(f.Intermediate)}
	})
}
