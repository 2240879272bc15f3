package model

// Liquid AI's LFM2, its mixture of experts and LFM3 (transformers/models/{lfm2,lfm2_moe,lfm3}): gated
// short convolutions, with attention in some layers.

func init() {
	recipes["Lfm2ForCausalLM"] = recipe{modelType: "lfm2", read: lfm2}
	recipes["Lfm2MoeForCausalLM"] = recipe{modelType: "lfm2_moe", read: lfm2MoE}
	recipes["Lfm3ForCausalLM"] = recipe{modelType: "lfm3", read: lfm3}
}

func (f *fields) lfm() (types []string, conv ConvSpec) {
	f.usual(usual{maxPositions: 128000, eps: 1e-5, epsName: "norm_eps", tied: f.bool("tie_embedding", true), kvHeads: 8})
	f.Network.Final = f.norm("embedding_norm")
	return f.texts("layer_types"), ConvSpec{In: "conv.in_proj", Conv: "conv.conv", Out: "conv.out_proj", Width: f.int("conv_L_cache", 3), Bias: f.bool("conv_bias", false)}
}

// lfmMLP is a network with the names that LFM gives its products.
func (f *fields) lfmMLP(inner int) MLPSpec {
	return MLPSpec{Gate: "feed_forward.w1", Up: "feed_forward.w3", Down: "feed_forward.w2", Inner: inner, Act: Activation{Kind: SiLU}}
}

// lfmInner is the size of the feed-forward network, which a configuration may give as that of a
// network without gate.
func (f *fields) lfmInner() int {
	inner := f.int("block_ff_dim", f.Intermediate)
	if !f.bool("block_auto_adjust_ff_dim", true) {
		return inner
	}
	inner = 2 * inner / 3
	inner = int(f.float("block_ffn_dim_multiplier", 1) * float64(inner))
	multiple := max(f.int("block_multiple_of", 256), 1)
	return (inner + multiple - 1) / multiple * multiple
}

// lfmLayers are layers of convolutions and of attention.
func (f *fields) lfmLayers(types []string, conv ConvSpec, feed func(i int) Feed) {
	rope := f.rope(f.HeadDim, ropeKind{theta: 1_000_000})
	full := f.ints("full_attn_idxs")
	isAttention := func(i int) bool {
		if types != nil {
			return types[i] != "conv"
		}
		for _, at := range full {
			if at == i {
				return true
			}
		}
		return full == nil
	}
	f.layers(func(i int, l *Layer) {
		l.InNorm, l.FeedNorm, l.Feeds = f.norm("operator_norm"), f.norm("ffn_norm"), []Feed{feed(i)}
		if !isAttention(i) {
			l.Mixers = []Mixer{conv}
			return
		}
		a := f.attention()
		a.O, a.Rope, a.QNorm, a.KNorm = "self_attn.out_proj", rope, f.norm("self_attn.q_layernorm"), f.norm("self_attn.k_layernorm")
		l.Mixers = []Mixer{a}
	})
}

func lfm2(f *fields) {
	types, conv := f.lfm()
	f.Intermediate = f.lfmInner()
	f.lfmLayers(types, conv, func(int) Feed { return f.lfmMLP(f.Intermediate) })
}

func lfm2MoE(f *fields) {
	types, conv := f.lfm()
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "feed_forward.gate", Gate: "feed_forward.experts.%d.w1", Up: "feed_forward.experts.%d.w3", Down: "feed_forward.experts.%d.w2"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 4), Score: SigmoidScore, Renorm: f.bool("norm_topk_prob", true), RenormAdd: 1e-6, Scale: f.float32("routed_scaling_factor", 1)},
		Experts:     f.int("num_experts", 32),
		Inner:       f.int("moe_intermediate_size", 1792),
		Act:         Activation{Kind: SiLU},
		Layout:      OneByOne,
	}
	if f.bool("use_expert_bias", true) {
		e.Bias = "feed_forward.expert_bias"
	}
	f.checkExperts(&e)
	f.lfmLayers(types, conv, func(i int) Feed {
		if i < f.int("num_dense_layers", 2) {
			return f.lfmMLP(f.Intermediate)
		}
		return e
	})
}

func lfm3(f *fields) {
	types, conv := f.lfm()
	conv.Width = f.int("conv_L_cache", 7)
	if types == nil {
		f.bad("layer_types is missing")
		return
	}
	f.HeadDim = f.int("head_dim", 128)
	local := f.rope(f.HeadDim, ropeKind{layers: "sliding_attention", theta: 10_000})
	wide := f.rope(f.HeadDim, ropeKind{layers: "full_attention", theta: 1_000_000, partial: 0.5})
	f.layers(func(i int, l *Layer) {
		l.InNorm, l.FeedNorm, l.Feeds = f.norm("operator_norm"), f.norm("ffn_norm"), []Feed{f.lfmMLP(f.Intermediate)}
		if f.bool("use_sandwich_norm", true) {
			l.MixNorm, l.OutNorm = f.norm("post_operator_norm"), f.norm("post_ffn_norm")
		}
		if types[i] == "conv" {
			l.Mixers = []Mixer{conv}
			return
		}
		a := f.attention()
		a.Rope, a.QNorm, a.KNorm = wide, f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm")
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		if types[i] == "sliding_attention" {
			a.Rope, a.Window = local, f.window(i, f.int("sliding_window", 256))
		}
		if f.bool("use_attention_gate", true) {
			a.Gate.Name = "self_attn.gate_proj"
		}
		l.Mixers = []Mixer{a}
	})
}
