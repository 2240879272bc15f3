package model

// GLM-4 and GLM-4.5 to 4.7 (transformers/models/{glm4,glm4_moe}), and networks whose experts are chosen in
// the same way: MiniMax M2, Hunyuan 3 and MiMo V2 Flash (transformers/models/{minimax_m2,hy_v3,mimo_v2_flash}).

func init() {
	recipes["Glm4ForCausalLM"] = recipe{modelType: "glm4", read: glm4}
	recipes["Glm4MoeForCausalLM"] = recipe{modelType: "glm4_moe", read: glm4MoE}
	recipes["MiniMaxM2ForCausalLM"] = recipe{modelType: "minimax_m2", read: minimaxM2}
	recipes["HYV3ForCausalLM"] = recipe{modelType: "hy_v3", read: hyV3}
	recipes["MiMoV2FlashForCausalLM"] = recipe{modelType: "mimo_v2_flash", read: mimoV2Flash, skip: []string{"model.mtp.", "mtp."}}
}

func glm4(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1.5625e-07, kvHeads: 2, headDim: 128})
	rope := f.rope(f.HeadDim, ropeKind{partial: 0.5, interleaved: true})
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.QKVBias = rope, f.bool("attention_bias", true)
		m := MLPSpec{GateUp: "mlp.gate_up_proj", Down: "mlp.down_proj", Inner: f.Intermediate, Act: f.activation("hidden_act", "silu")}
		l.InNorm, l.Mixers, l.MixNorm = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_self_attn_layernorm")
		l.FeedNorm, l.Feeds, l.OutNorm = f.norm("post_attention_layernorm"), []Feed{m}, f.norm("post_mlp_layernorm")
	})
}

func glm4MoE(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-5, kvHeads: 8})
	rope, e := f.rope(f.HeadDim, ropeKind{partial: 0.5}), f.deepseekExperts(128, 8, 1408)
	f.sigmoidScores(&e)
	a := f.attention()
	a.Rope, a.QKVBias = rope, f.bool("attention_bias", false)
	if f.bool("use_qk_norm", false) {
		a.QNorm, a.KNorm = f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm")
	}
	f.deepseekLayers(a, &e, f.int("first_k_dense_replace", 1))
	f.skipMTP(1)
}

func minimaxM2(f *fields) {
	f.usual(usual{maxPositions: 196608, eps: 1e-6, kvHeads: 8, headDim: 128})
	if n := f.int("rotary_dim", f.HeadDim); n != f.HeadDim && !f.has("rope_parameters") {
		f.partial = float64(n) / float64(f.HeadDim)
	}
	rope := f.rope(f.HeadDim, ropeKind{theta: 5_000_000, partial: f.partial})
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "block_sparse_moe.gate", Bias: "block_sparse_moe.e_score_correction_bias", Gate: "block_sparse_moe.experts.%d.w1", Up: "block_sparse_moe.experts.%d.w3", Down: "block_sparse_moe.experts.%d.w2"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 8), Score: SigmoidScore, Renorm: true},
		Experts:     f.int("num_local_experts", 256),
		Inner:       f.Intermediate,
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	f.checkExperts(&e)
	a := f.attention()
	a.Rope, a.QNorm, a.KNorm, a.RowNorm = rope, f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm"), true
	f.deepseekLayers(a, &e, 0)
}

func hyV3(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-5, kvHeads: 8, headDim: 128})
	rope := f.rope(f.HeadDim, ropeKind{theta: 11158840})
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "mlp.router.gate", Bias: "mlp.expert_bias", Gate: "mlp.experts.%d.gate_proj", Up: "mlp.experts.%d.up_proj", Down: "mlp.experts.%d.down_proj"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 8), Score: SigmoidScore, Renorm: true, RenormAdd: 1e-20, Scale: f.float32("router_scaling_factor", 2.826)},
		Experts:     f.int("num_experts", 192),
		Inner:       f.int("moe_intermediate_size", 1536),
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	s := f.mlp(f.int("num_shared_experts", 1) * e.Inner)
	s.Gate, s.Up, s.Down = "mlp.shared_mlp.gate_proj", "mlp.shared_mlp.up_proj", "mlp.shared_mlp.down_proj"
	e.Shared = []MLPSpec{s}
	f.checkExperts(&e)
	a := f.attention()
	a.Rope, a.QNorm, a.KNorm = rope, f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm")
	a.QKVBias = f.bool("attention_bias", false)
	a.OutBias = a.QKVBias
	f.deepseekLayers(a, &e, 1)
}

func mimoV2Flash(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-5, kvHeads: 4, headDim: 192})
	types := f.texts("layer_types")
	local := f.rope(f.HeadDim, ropeKind{layers: "sliding_attention", theta: 10_000, partial: 0.334})
	wide := f.rope(f.HeadDim, ropeKind{layers: "full_attention", theta: 5_000_000, partial: 0.334})
	e := f.deepseekExperts(256, 8, 2048)
	e.Shared = nil
	f.sigmoidScores(&e)
	feeds := f.texts("mlp_layer_types")
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.ValueDim, a.ValueScale = wide, f.int("v_head_dim", 128), f.float32("attention_value_scale", 0.707)
		a.QKVBias = f.bool("attention_bias", false)
		if !f.isWide(types, i, 6) {
			a.Rope, a.KVHeads, a.Sinks, a.Window = local, 2*f.KVHeads, "self_attn.attention_sink_bias", f.window(i, f.int("sliding_window", 129))
		}
		l.InNorm, l.Mixers, l.FeedNorm = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm")
		if feeds == nil && i == 0 || feeds != nil && feeds[i] == "dense" {
			l.Feeds = []Feed{f.mlp(f.Intermediate)}
		} else {
			l.Feeds = []Feed{e}
		}
	})
}
