package model

// Networks whose recurrent layers take turns with attention: Ai2's OLMo Hybrid and IBM's Bamba, as
// transformers/models/{olmo_hybrid,bamba} have them.

func init() {
	recipes["OlmoHybridForCausalLM"] = recipe{modelType: "olmo_hybrid", read: olmoHybrid}
	recipes["BambaForCausalLM"] = recipe{modelType: "bamba", read: bamba}
}

// olmoHybrid has norms before the delta net and its feed-forward network, and behind attention and its own. Rotations are there
// if the configuration has parameters for them.
func olmoHybrid(f *fields) {
	f.usual(usual{maxPositions: 65536, eps: 1e-6})
	types, rope := f.texts("layer_types"), NoRope
	if f.has("rope_parameters") || f.has("rope_theta") {
		rope = f.rope(f.HeadDim, ropeKind{})
	}
	norm := f.norm("linear_attn.o_norm")
	norm.Eps = 1e-5 // which no field changes
	delta := DeltaSpec{
		DeltaNames: DeltaNames{Q: "linear_attn.q_proj", K: "linear_attn.k_proj", V: "linear_attn.v_proj", Z: "linear_attn.g_proj", B: "linear_attn.b_proj", A: "linear_attn.a_proj", ConvQ: "linear_attn.q_conv1d", ConvK: "linear_attn.k_conv1d", ConvV: "linear_attn.v_conv1d", ALog: "linear_attn.A_log", DtBias: "linear_attn.dt_bias", O: "linear_attn.o_proj"},
		ConvWidth:  f.int("linear_conv_kernel_dim", 4),
		AForm:      negativeExp,
		Norm:       norm,
		GateBy:     SiLU,
		KeyHeads:   f.int("linear_num_key_heads", f.Heads),
		ValueHeads: f.int("linear_num_value_heads", f.Heads),
	}
	if delta.KeyHeads < 1 || delta.ValueHeads < 1 || delta.ValueHeads%max(delta.KeyHeads, 1) != 0 || delta.ConvWidth < 2 {
		f.bad("a delta net has %d heads of keys, %d of values and a convolution of %d", delta.KeyHeads, delta.ValueHeads, delta.ConvWidth)
		return
	}
	delta.KeyDim = f.int("linear_key_head_dim", 3*f.Hidden/4/delta.KeyHeads)
	delta.ValueDim = f.int("linear_value_head_dim", 2*delta.KeyDim)
	if f.bool("linear_allow_neg_eigval", true) {
		delta.BetaScale = 2
	}
	if delta.KeyDim < 1 || delta.ValueDim < 1 {
		f.bad("a delta net has heads of %d and %d", delta.KeyDim, delta.ValueDim)
		return
	}
	f.layers(func(i int, l *Layer) {
		if f.isWide(types, i, 4) {
			f.postNormed(l, f.olmoAttention(rope))
			return
		}
		l.InNorm, l.Mixers = f.norm("attention_layer_norm"), []Mixer{delta}
		l.FeedNorm, l.Feeds = f.norm("feedforward_layer_norm"), []Feed{f.mlp(f.Intermediate)}
	})
}

func bamba(f *fields) {
	f.usual(usual{maxPositions: 262144, eps: 1e-5, kvHeads: 8})
	f.Network.Final = f.norm("final_layernorm")
	rope, groups := f.rope(f.HeadDim, ropeKind{partial: 0.5}), f.int("mamba_n_groups", 1)
	wide := map[int]bool{}
	for _, i := range f.ints("attn_layer_indices") {
		wide[i] = true
	}
	mamba := MambaSpec{In: "mamba.in_proj", Conv: "mamba.conv1d", Out: "mamba.out_proj", ALog: "mamba.A_log", AForm: negativeExp, D: "mamba.D", DtBias: "mamba.dt_bias",
		Norm: f.norm("mamba.norm"), NormGroups: groups, Heads: f.int("mamba_n_heads", 128), Groups: groups, StateDim: f.int("mamba_d_state", 256),
		ConvWidth: f.int("mamba_d_conv", 4), ConvBias: f.bool("mamba_conv_bias", true), ProjBias: f.bool("mamba_proj_bias", false)}
	if mamba.Heads > 0 {
		mamba.HeadDim = f.int("mamba_expand", 2) * f.Hidden / mamba.Heads // mamba_d_head is this, or "auto"
	}
	mamba.DtMin, mamba.DtMax = f.timeLimits()
	f.checkMamba(&mamba)
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.QKVBias = rope, f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		l.InNorm, l.Mixers = f.norm("input_layernorm"), []Mixer{mamba}
		if wide[i] {
			l.Mixers = []Mixer{a}
		}
		m := MLPSpec{Gate: "feed_forward.gate_proj", Up: "feed_forward.up_proj", Down: "feed_forward.down_proj", Inner: f.Intermediate, Bias: f.bool("mlp_bias", false), Act: f.activation("hidden_act", "silu")}
		l.FeedNorm, l.Feeds = f.norm("pre_ff_layernorm"), []Feed{m}
	})
}
