package model

// Microsoft's Phi-3 and 4 and Phi-MoE, BigCode's StarCoder2 and StableLM, as
// transformers/models/{phi3,phimoe,starcoder2,stablelm} have them.

func init() {
	recipes["Phi3ForCausalLM"] = recipe{modelType: "phi3", read: phi3}
	recipes["PhimoeForCausalLM"] = recipe{modelType: "phimoe", read: phiMoE}
	recipes["PhiMoEForCausalLM"] = recipe{modelType: "phimoe", read: phiMoE}
	recipes["Starcoder2ForCausalLM"] = recipe{modelType: "starcoder2", read: starcoder2}
	recipes["StableLmForCausalLM"] = recipe{modelType: "stablelm", read: stableLM}
}

func phi3(f *fields) {
	f.usual(usual{maxPositions: 4096, eps: 1e-5})
	rope := f.rope(f.HeadDim, ropeKind{})
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.QKV, a.Rope, a.Window = "self_attn.qkv_proj", rope, f.window(i, f.int("sliding_window", 0))
		m := MLPSpec{GateUp: "mlp.gate_up_proj", Down: "mlp.down_proj", Inner: f.Intermediate, Act: f.activation("hidden_act", "silu")}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{m}
	})
}

// layerNorm is a LayerNorm with a bias.
func (f *fields) layerNorm(name string) NormSpec {
	return NormSpec{Name: name, Kind: LayerNorm, Eps: f.NormEps, Bias: true}
}

func phiMoE(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-5, kvHeads: 8})
	rope := f.rope(f.HeadDim, ropeKind{theta: 1_000_000})
	f.Network.Final, f.Network.HeadBias = f.layerNorm("norm"), f.bool("lm_head_bias", false)
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "block_sparse_moe.gate", Gate: "block_sparse_moe.experts.%d.w1", Up: "block_sparse_moe.experts.%d.w3", Down: "block_sparse_moe.experts.%d.w2"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 2), Score: SparseMixer, Jitter: f.float32("router_jitter_noise", 0.01)},
		Experts:     f.int("num_local_experts", 16),
		Inner:       f.Intermediate,
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	f.checkExperts(&e)
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.Window, a.QKVBias = rope, f.window(i, f.int("sliding_window", 0)), f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.layerNorm("input_layernorm"), []Mixer{a}, f.layerNorm("post_attention_layernorm"), []Feed{e}
	})
}

func starcoder2(f *fields) {
	f.usual(usual{maxPositions: 4096, eps: 1e-5, epsName: "norm_epsilon", tied: true, kvHeads: 2})
	rope, bias := f.rope(f.HeadDim, ropeKind{}), f.bool("use_bias", true)
	f.Network.Final = f.layerNorm("norm")
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.Window, a.QKVBias, a.OutBias = rope, f.window(i, f.int("sliding_window", 0)), bias, bias
		m := MLPSpec{Up: "mlp.c_fc", Down: "mlp.c_proj", Inner: f.Intermediate, Bias: bias, Act: f.activation("hidden_act", "gelu_pytorch_tanh")}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.layerNorm("input_layernorm"), []Mixer{a}, f.layerNorm("post_attention_layernorm"), []Feed{m}
	})
}

func stableLM(f *fields) {
	f.usual(usual{maxPositions: 4096, eps: 1e-5, epsName: "layer_norm_eps"})
	rope := f.rope(f.HeadDim, ropeKind{partial: 0.25})
	f.Network.Final = f.layerNorm("norm")
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.QKVBias = rope, f.bool("use_qkv_bias", false)
		if f.bool("qk_layernorm", false) {
			// Each head has weights of its own.
			a.QNorm = NormSpec{Name: "self_attn.q_layernorm.norms.%d", Kind: LayerNorm, Eps: f.NormEps}
			a.KNorm = NormSpec{Name: "self_attn.k_layernorm.norms.%d", Kind: LayerNorm, Eps: f.NormEps}
			a.PerHeadNorm = true
		}
		l.InNorm, l.Mixers, l.Feeds = f.layerNorm("input_layernorm"), []Mixer{a}, []Feed{f.mlp(f.Intermediate)}
		if l.Parallel = f.bool("use_parallel_residual", false); !l.Parallel {
			l.FeedNorm = f.layerNorm("post_attention_layernorm")
		}
	})
}
