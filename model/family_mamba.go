package model

// Mamba (Gu and Dao, "Mamba", 2023), Mamba 2 (Dao and Gu, "Transformers are SSMs", 2024), TII's Falcon Mamba, and AI21's Jamba, which
// puts attention and experts between layers of Mamba, as transformers/models/{mamba,mamba2,falcon_mamba,jamba} have them.

func init() {
	recipes["MambaForCausalLM"] = recipe{modelType: "mamba", read: mamba1, prefix: "backbone."}
	recipes["FalconMambaForCausalLM"] = recipe{modelType: "falcon_mamba", read: falconMamba, prefix: "backbone."}
	recipes["Mamba2ForCausalLM"] = recipe{modelType: "mamba2", read: mamba2, prefix: "backbone."}
	recipes["JambaForCausalLM"] = recipe{modelType: "jamba", read: jamba}
}

// states reads the fields of networks that have no attention at all, which are as if they had one head.
func (f *fields) states(tied bool) {
	f.unattended = true
	f.usual(usual{maxPositions: maxSize, eps: 1e-5, epsName: "layer_norm_epsilon", tied: tied})
	f.Network.Embed, f.Network.Final = f.prefix+"embeddings", f.norm("norm_f")
}

// selective is Mamba with its usual names below the given part of a layer. The settings have the names that they have in Mamba's
// configurations, or in Jamba's.
func (f *fields) selective(at string, state, width, expand, rank, convBias, bias string) SelectiveSpec {
	s := SelectiveSpec{In: at + "in_proj", Conv: at + "conv1d", X: at + "x_proj", Dt: at + "dt_proj", Out: at + "out_proj", ALog: at + "A_log", D: at + "D", AForm: negativeExp,
		Inner: f.int(expand, 2) * f.Hidden, StateDim: f.int(state, 16), DtRank: (f.Hidden + 15) / 16, ConvWidth: f.int(width, 4),
		ConvBias: f.bool(convBias, true), ProjBias: f.bool(bias, false), Act: f.activation("hidden_act", "silu")}
	if v, ok := f.member(rank); ok && string(v) != `"auto"` {
		s.DtRank = f.int(rank, s.DtRank)
	}
	const mostState = 1 << 8
	if s.Inner < 1 || s.Inner > maxSize || s.StateDim < 1 || s.StateDim > mostState || s.DtRank < 1 || s.ConvWidth < 2 {
		f.bad("%d columns with a state of %d (at most %d), a rank of %d and a convolution of %d make no Mamba layer", s.Inner, s.StateDim, mostState, s.DtRank, s.ConvWidth)
	}
	return s
}

// mamba1Layers are layers of nothing but Mamba.
func (f *fields) mamba1Layers(norm NormSpec) {
	s := f.selective("mixer.", "state_size", "conv_kernel", "expand", "time_step_rank", "use_conv_bias", "use_bias")
	s.DtNorm, s.BNorm, s.CNorm = norm, norm, norm
	f.layers(func(_ int, l *Layer) { l.InNorm, l.Mixers = f.norm("norm"), []Mixer{s} })
}

func mamba1(f *fields) {
	f.states(true)
	f.mamba1Layers(NormSpec{})
}

// falconMamba norms the time step, B and C.
func falconMamba(f *fields) {
	f.states(true)
	f.mamba1Layers(NormSpec{Name: Unweighted, Eps: f.float32("mixer_rms_eps", 1e-6)})
}

func mamba2(f *fields) {
	f.states(false)
	groups := f.int("n_groups", 8)
	s := MambaSpec{In: "mixer.in_proj", Conv: "mixer.conv1d", Out: "mixer.out_proj", ALog: "mixer.A_log", AForm: negativeExp, D: "mixer.D", DtBias: "mixer.dt_bias",
		Norm: f.norm("mixer.norm"), NormGroups: groups, Heads: f.int("num_heads", 128), HeadDim: f.int("head_dim", 64), Groups: groups, StateDim: f.int("state_size", 128),
		ConvWidth: f.int("conv_kernel", 4), ConvBias: f.bool("use_conv_bias", true), ProjBias: f.bool("use_bias", false)}
	s.DtMin, s.DtMax = f.timeLimits()
	f.checkMamba(&s)
	f.layers(func(_ int, l *Layer) { l.InNorm, l.Mixers = f.norm("norm"), []Mixer{s} })
}

// jamba has attention without positions in some layers, and experts in some.
func jamba(f *fields) {
	f.usual(usual{maxPositions: 262144, eps: 1e-6, kvHeads: 8})
	f.Network.Final = f.norm("final_layernorm")
	s := f.selective("mamba.", "mamba_d_state", "mamba_d_conv", "mamba_expand", "mamba_dt_rank", "mamba_conv_bias", "mamba_proj_bias")
	s.DtNorm, s.BNorm, s.CNorm = f.norm("mamba.dt_layernorm"), f.norm("mamba.b_layernorm"), f.norm("mamba.c_layernorm")
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "feed_forward.router", Gate: "feed_forward.experts.%d.gate_proj", Up: "feed_forward.experts.%d.up_proj", Down: "feed_forward.experts.%d.down_proj"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 2)},
		Experts:     f.int("num_experts", 16),
		Inner:       f.Intermediate,
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	f.checkExperts(&e)
	dense := MLPSpec{Gate: "feed_forward.gate_proj", Up: "feed_forward.up_proj", Down: "feed_forward.down_proj", Inner: f.Intermediate, Act: e.Act}
	// every says whether layer i is one of those that come in each period at an offset, or that have a kind in a list, as those of
	// GGUF files do.
	every := func(i int, name string, period, offset int, list, kind string) bool {
		if kinds := f.texts(list); kinds != nil {
			return kinds[i] == kind
		}
		return i%max(f.int(name+"_layer_period", period), 1) == f.int(name+"_layer_offset", offset)
	}
	f.layers(func(i int, l *Layer) {
		l.InNorm, l.Mixers = f.norm("input_layernorm"), []Mixer{s}
		if every(i, "attn", 8, 4, "layer_types", "full_attention") {
			a := f.attention()
			a.Rope = NoRope
			l.Mixers = []Mixer{a}
		}
		l.FeedNorm, l.Feeds = f.norm("pre_ff_layernorm"), []Feed{dense}
		if e.Experts > 1 && every(i, "expert", 2, 1, "mlp_layer_types", "sparse") {
			l.Feeds = []Feed{e}
		}
	})
}
