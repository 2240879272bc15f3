package model

// ByteDance's Seed-OSS, Baidu's ERNIE 4.5, Tencent's Hunyuan and the Swiss Apertus, as
// transformers/models/{seed_oss,ernie4_5,ernie4_5_moe,hunyuan_v1_dense,apertus} have them.

func init() {
	recipes["SeedOssForCausalLM"] = recipe{modelType: "seed_oss", read: seedOSS}
	recipes["Ernie4_5ForCausalLM"] = recipe{modelType: "ernie4_5", read: ernie45}
	recipes["Ernie4_5_MoeForCausalLM"] = recipe{modelType: "ernie4_5_moe", read: ernie45MoE}
	recipes["HunYuanDenseV1ForCausalLM"] = recipe{modelType: "hunyuan_v1_dense", read: hunyuan}
	recipes["ApertusForCausalLM"] = recipe{modelType: "apertus", read: apertus}
}

func seedOSS(f *fields) {
	f.usual(usual{maxPositions: 524288, eps: 1e-6, kvHeads: 8, headDim: 128})
	rope := f.rope(f.HeadDim, ropeKind{})
	f.layers(func(_ int, l *Layer) {
		a, m := f.attention(), f.mlp(f.Intermediate)
		a.Rope, a.QKVBias, a.OutBias = rope, f.bool("attention_bias", true), f.bool("attention_out_bias", false)
		m.Bias = f.bool("mlp_bias", false)
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{m}
	})
}

// ernieLayer is a layer without its feed-forward network.
func (f *fields) ernieLayer(l *Layer, rope int) {
	a := f.attention()
	a.Rope, a.QKVBias = rope, f.bool("use_bias", false)
	a.OutBias = a.QKVBias
	l.InNorm, l.Mixers, l.FeedNorm = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm")
}

func ernie45(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-5, tied: true, kvHeads: 2, headDim: 128})
	rope := f.rope(f.HeadDim, ropeKind{theta: 500_000, interleaved: true})
	f.layers(func(_ int, l *Layer) {
		f.ernieLayer(l, rope)
		m := f.mlp(f.Intermediate)
		m.Bias = f.bool("use_bias", false)
		l.Feeds = []Feed{m}
	})
}

func ernie45MoE(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-5, tied: true, kvHeads: 4})
	rope := f.rope(f.HeadDim, ropeKind{theta: 500_000, interleaved: true})
	bias := f.bool("use_bias", false)
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "mlp.gate", Bias: "mlp.moe_statics.e_score_correction_bias", Gate: "mlp.experts.%d.gate_proj", Up: "mlp.experts.%d.up_proj", Down: "mlp.experts.%d.down_proj"},
		Choice:      Choice{TopK: f.int("moe_k", 6), Renorm: true, Floor: f.float32("moe_norm_min", 1e-12)},
		BiasShape:   []int{1, f.int("moe_num_experts", 64)},
		Experts:     f.int("moe_num_experts", 64),
		Inner:       f.int("moe_intermediate_size", 1536),
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
		ExpertBias:  bias,
	}
	if n := f.int("moe_num_shared_experts", 2); n > 0 {
		s := f.mlp(n * e.Inner)
		s.Gate, s.Up, s.Down, s.Bias = "mlp.shared_experts.gate_proj", "mlp.shared_experts.up_proj", "mlp.shared_experts.down_proj", bias
		e.Shared = []MLPSpec{s}
	}
	f.checkExperts(&e)
	first, last, every := f.int("moe_layer_start_index", 1), f.int("moe_layer_end_index", -1), max(f.int("moe_layer_interval", 1), 1)
	if last < 0 {
		last = f.Layers - 1
	}
	f.layers(func(i int, l *Layer) {
		f.ernieLayer(l, rope)
		if (i+1)%every == 0 && i >= first && i <= last {
			l.Feeds = []Feed{e}
			return
		}
		m := f.mlp(f.Intermediate)
		m.Bias = bias
		l.Feeds = []Feed{m}
	})
	f.Network.Skip = append(f.Network.Skip, "model.mtp_block.", "model.mtp_emb_norm.", "model.mtp_hidden_norm.", "model.mtp_linear_proj.")
}

func hunyuan(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-5})
	rope := f.rope(f.HeadDim, ropeKind{})
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.NormAfterRope = rope, true
		a.QNorm, a.KNorm = f.norm("self_attn.query_layernorm"), f.norm("self_attn.key_layernorm")
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{f.mlp(f.Intermediate)}
	})
}

func apertus(f *fields) {
	f.usual(usual{maxPositions: 65536, eps: 1e-5})
	rope := f.rope(f.HeadDim, ropeKind{theta: 12_000_000})
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.QNorm, a.KNorm = rope, f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm")
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		m := MLPSpec{Up: "mlp.up_proj", Down: "mlp.down_proj", Inner: f.Intermediate, Act: f.activation("hidden_act", "xielu"), XIELU: "mlp.act_fn."}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("attention_layernorm"), []Mixer{a}, f.norm("feedforward_layernorm"), []Feed{m}
	})
}
