package model

import (
	"cmp"
	"math"
	"slices"

	"weir/internal/jsontext"
)

// Mixtures of experts out of pieces that other families have: LG's K-EXAONE, Cohere's Command A+, Ai2's OLMoE and
// FlexOlmo, rednote's dots.llm1, Arcee's Trinity, Upstage's Solar Open, Tencent's Hunyuan A13B and JetBrains'
// Mellum 2, as transformers/models/{exaone_moe,cohere2_moe,olmoe,flex_olmo,dots1,afmoe,solar_open,hunyuan_v1_moe,mellum}
// have them.

func init() {
	recipes["ExaoneMoeForCausalLM"] = recipe{modelType: "exaone_moe", read: exaoneMoE, skip: []string{"mtp.", "model.mtp."}}
	recipes["Cohere2MoeForCausalLM"] = recipe{modelType: "cohere2_moe", read: cohere2MoE}
	recipes["OlmoeForCausalLM"] = recipe{modelType: "olmoe", read: olmoe}
	recipes["FlexOlmoForCausalLM"] = recipe{modelType: "flex_olmo", read: flexOlmo}
	recipes["Dots1ForCausalLM"] = recipe{modelType: "dots1", read: dots1}
	recipes["AfmoeForCausalLM"] = recipe{modelType: "afmoe", read: afmoe}
	recipes["HunYuanMoEV1ForCausalLM"] = recipe{modelType: "hunyuan_v1_moe", read: hunyuanMoE}
	recipes["MellumForCausalLM"] = recipe{modelType: "mellum", read: mellum, skip: []string{"mtp."}}
	recipes["SolarOpenForCausalLM"] = recipe{modelType: "solar_open", read: solarOpen}
}

// exaoneMoE has the attention of EXAONE 4, with norms before the parts, and the experts of DeepSeek V3.
func exaoneMoE(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-5, kvHeads: 32})
	rope, types := f.rope(f.HeadDim, ropeKind{}), f.texts("layer_types")
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "mlp.gate", Bias: "mlp.e_score_correction_bias", Gate: "mlp.experts.%d.gate_proj", Up: "mlp.experts.%d.up_proj", Down: "mlp.experts.%d.down_proj"},
		Choice: Choice{TopK: f.int("num_experts_per_tok", 8), Score: SigmoidScore, Groups: f.int("n_group", 1), TopGroups: f.int("topk_group", 1), GroupBest2: true,
			Renorm: f.bool("norm_topk_prob", true), RenormAdd: 1e-20, Scale: f.float32("routed_scaling_factor", 2.5)},
		Experts: f.int("num_experts", 64),
		Inner:   f.int("moe_intermediate_size", 1024),
		Act:     f.activation("hidden_act", "silu"),
		Layout:  OneByOne,
	}
	f.shareExperts(&e, "mlp.shared_experts", f.int("num_shared_experts", 1))
	window := f.int("sliding_window", 4096)
	if f.v.Member("sliding_window") != nil && !f.has("sliding_window") { // null: all layers are alike
		window = 0
	}
	dense, feeds := f.int("first_k_dense_replace", 1), f.texts("mlp_layer_types")
	every := 4
	if window > 0 && types == nil {
		every = f.int("sliding_window_pattern", 4)
	}
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.QNorm, a.KNorm = rope, f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm")
		switch {
		case window == 0:
		case f.isWide(types, i, every):
			a.Rope = NoRope
		default:
			a.Window = f.window(i, window)
		}
		l.InNorm, l.Mixers, l.FeedNorm = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm")
		l.Feeds = []Feed{e}
		if feeds == nil && i < dense || feeds != nil && feeds[i] == "dense" {
			l.Feeds = []Feed{f.mlp(f.Intermediate)}
		}
	})
}

// cohere2MoE is Command R7B's network with experts. Dense layers come first.
func cohere2MoE(f *fields) {
	f.usual(usual{maxPositions: 8192, eps: 1e-5, epsName: "layer_norm_eps", tied: true, headDim: 128})
	f.Network.LogitScale = f.float32("logit_scale", 0.0625)
	rope, types, feeds := f.rope(f.HeadDim, ropeKind{interleaved: true}), f.texts("layer_types"), f.texts("mlp_layer_types")
	norm := func(name string) NormSpec { return NormSpec{Name: name, Kind: LayerNorm, Eps: f.NormEps} }
	if f.has("rms_norm_eps") {
		f.NormEps = f.float32("rms_norm_eps", 1e-5)
		norm = f.norm
	}
	e := f.cohereExperts()
	first, every := f.int("first_k_dense_replace", 0), f.int("sliding_window_pattern", 4)
	prefix := f.int("prefix_dense_sliding_window_pattern", 1)
	f.Network.Final = norm("norm")
	f.layers(func(i int, l *Layer) {
		dense := feeds == nil && i < first || feeds != nil && feeds[i] == "dense"
		at, pattern := i, prefix // of the layer among those before or behind the border, when layer_types is not given
		if i >= first {
			at, pattern = i-first, every
		}
		wide := types != nil && types[i] == "full_attention" || types == nil && (pattern == 0 || (at+1)%pattern == 0)
		a := f.attention()
		a.Rope, a.QKVBias = rope, f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		switch {
		case !wide:
			a.Window = f.window(i, f.int("sliding_window", 4096))
		case !dense || prefix != 1:
			a.Rope = NoRope
		}
		l.InNorm, l.Mixers, l.Parallel, l.Feeds = norm("input_layernorm"), []Mixer{a}, true, []Feed{e}
		if dense {
			l.Feeds = []Feed{f.mlp(f.int("prefix_dense_intermediate_size", f.Intermediate))}
		}
	})
}

func (f *fields) cohereExperts() ExpertsSpec {
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "mlp.gate", Gate: "mlp.experts.%d.gate_proj", Up: "mlp.experts.%d.up_proj", Down: "mlp.experts.%d.down_proj"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 2)},
		Experts:     f.int("num_experts", 8),
		Inner:       f.Intermediate,
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	switch by := f.text("expert_selection_fn", "softmax"); by {
	case "softmax":
		e.Score = SoftmaxTop
	case "sigmoid":
		e.Score, e.Renorm = SigmoidScore, f.bool("norm_topk_prob", true)
	default:
		f.unsupported("expert_selection_fn", by, "softmax, sigmoid")
	}
	f.shareExperts(&e, "mlp.shared_experts", f.int("num_shared_experts", 0))
	if len(e.Shared) == 0 {
		return e
	}
	switch how := f.text("shared_expert_combination_strategy", "average"); how {
	case "average": // half of the sum, which is exact as half of each
		e.Scale, e.Shared[0].OutScale = 0.5, 0.5
	case "sum":
	default:
		f.unsupported("shared_expert_combination_strategy", how, "average, sum")
	}
	return e
}

// olmoExperts are all of the feed-forward network's width.
func (f *fields) olmoExperts(experts, topK int) ExpertsSpec {
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "mlp.gate", Gate: "mlp.experts.%d.gate_proj", Up: "mlp.experts.%d.up_proj", Down: "mlp.experts.%d.down_proj"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", topK), Renorm: f.bool("norm_topk_prob", false)},
		Experts:     f.int("num_experts", experts),
		Inner:       f.Intermediate,
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	f.checkExperts(&e)
	return e
}

func olmoe(f *fields) {
	f.usual(usual{maxPositions: 4096, eps: 1e-5})
	rope, e, clip := f.rope(f.HeadDim, ropeKind{}), f.olmoExperts(64, 8), f.clip(f.float("clip_qkv", 0))
	f.layers(func(_ int, l *Layer) {
		a := f.olmoAttention(rope)
		a.Clip = clip
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{e}
	})
}

func flexOlmo(f *fields) {
	f.usual(usual{maxPositions: 4096, eps: 1e-6})
	rope, e := f.rope(f.HeadDim, ropeKind{theta: 500_000}), f.olmoExperts(7, 5)
	f.layers(func(_ int, l *Layer) {
		f.postNormed(l, f.olmoAttention(rope))
		l.Feeds = []Feed{e}
	})
}

// dots1 has the attention of Qwen3 and the experts of DeepSeek V3.
func dots1(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-6, kvHeads: 32})
	rope, types := f.rope(f.HeadDim, ropeKind{}), f.texts("layer_types")
	e := f.deepseekExperts(0, 0, 1408)
	f.sigmoidScores(&e)
	e.Renorm = f.bool("norm_topk_prob", false)
	first, last := f.int("first_k_dense_replace", 0), f.int("max_window_layers", 62)
	window := f.int("sliding_window", 4096)
	if f.v.Member("sliding_window") != nil && !f.has("sliding_window") { // null: there is none
		window = 0
	}
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.QNorm, a.KNorm, a.QKVBias = rope, f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm"), f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		if types == nil && i >= last || types != nil && types[i] == "sliding_attention" {
			a.Window = f.window(i, window)
		}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{e}
		if i < first {
			l.Feeds = []Feed{f.mlp(f.Intermediate)}
		}
	})
}

// afmoe has norms around the parts, a gate on what attention gives, and positions in the layers with a window alone.
func afmoe(f *fields) {
	f.usual(usual{maxPositions: 16384, eps: 1e-5, headDim: 128})
	if f.bool("mup_enabled", false) {
		f.Network.EmbedScale = float32(math.Sqrt(float64(f.Hidden)))
	}
	rope, types := f.rope(f.HeadDim, ropeKind{}), f.texts("layer_types")
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "mlp.router.gate", Bias: "mlp.expert_bias", Gate: "mlp.experts.%d.gate_proj", Up: "mlp.experts.%d.up_proj", Down: "mlp.experts.%d.down_proj"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 6), Score: SigmoidScore, Renorm: true, RenormAdd: 1e-20, Scale: f.float32("route_scale", 1)},
		Experts:     f.int("num_experts", 64),
		Inner:       f.int("moe_intermediate_size", 1408),
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	f.shareExperts(&e, "mlp.shared_experts", f.int("num_shared_experts", 2))
	every, dense := cmp.Or(f.int("global_attn_every_n_layers", 4), 4), f.int("num_dense_layers", 1)
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.QNorm, a.KNorm = NoRope, f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm")
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		a.Gate = OutputGate{Name: "self_attn.gate_proj", Wide: true}
		if !f.isWide(types, i, every) {
			a.Rope, a.Window = rope, f.window(i, f.int("sliding_window", 1024))
		}
		l.InNorm, l.Mixers, l.MixNorm = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm")
		l.FeedNorm, l.Feeds, l.OutNorm = f.norm("pre_mlp_layernorm"), []Feed{e}, f.norm("post_mlp_layernorm")
		if i < dense {
			l.Feeds = []Feed{f.mlp(f.Intermediate)}
		}
	})
}

// solarOpen is GLM-4.5 without dense layers and norms of heads.
func solarOpen(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-5, kvHeads: 8, headDim: 128})
	rope, e := f.rope(f.HeadDim, ropeKind{theta: 1_000_000}), f.deepseekExperts(128, 8, 1280)
	f.sigmoidScores(&e)
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.QKVBias = rope, f.bool("attention_bias", false)
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{e}
	})
}

// same is an integer that is given once, or as often as there are layers.
func (f *fields) same(name string, otherwise int) int {
	v, ok := f.member(name)
	if !ok || v.Kind() != jsontext.Array {
		return f.int(name, otherwise)
	}
	list := f.ints(name)
	if len(list) == 0 || slices.Min(list) != slices.Max(list) {
		f.unsupported(name, "different in some layers", "one number")
		return otherwise
	}
	return list[0]
}

// hunyuanMoE has the attention of Hunyuan's dense networks.
func hunyuanMoE(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-5})
	rope := f.rope(f.HeadDim, ropeKind{})
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "mlp.gate.wg", Gate: "mlp.experts.%d.gate_proj", Up: "mlp.experts.%d.up_proj", Down: "mlp.experts.%d.down_proj"},
		Choice:      Choice{TopK: f.same("moe_topk", 1), Renorm: true},
		Experts:     f.same("num_experts", 1),
		Inner:       f.Intermediate,
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	f.shareExperts(&e, "mlp.shared_mlp", 1)
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.NormAfterRope = rope, true
		a.QNorm, a.KNorm = f.norm("self_attn.query_layernorm"), f.norm("self_attn.key_layernorm")
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{e}
	})
}

// mellum is Qwen3-MoE with a window and a rotary table of its own in some layers.
func mellum(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-6, kvHeads: 4, headDim: 128})
	types, feeds, e := f.texts("layer_types"), f.texts("mlp_layer_types"), f.qwenExperts(f.bool("norm_topk_prob", true))
	local := f.rope(f.HeadDim, ropeKind{layers: "sliding_attention", theta: 10_000})
	wide := f.rope(f.HeadDim, ropeKind{layers: "full_attention", theta: 500_000})
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.QNorm, a.KNorm = wide, f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm")
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		if types != nil && types[i] == "sliding_attention" {
			a.Rope, a.Window = local, f.window(i, f.int("sliding_window", 1024))
		}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{e}
		if feeds != nil && feeds[i] == "dense" {
			l.Feeds = []Feed{f.mlp(f.Intermediate)}
		}
	})
}
