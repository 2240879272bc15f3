package model

// TII's Falcon-H1 (transformers/models/falcon_h1): attention and Mamba 2 side by side in each layer,
// and a multiplier for nearly everything.

func init() {
	recipes["FalconH1ForCausalLM"] = recipe{modelType: "falcon_h1", read: falconH1}
}

func falconH1(f *fields) {
	f.usual(usual{maxPositions: 8192, eps: 1e-5, kvHeads: 8})
	f.Network.EmbedScale, f.Network.LogitScale = f.float32("embedding_multiplier", 1), f.float32("lm_head_multiplier", 1)
	f.Network.Final = f.norm("final_layernorm")
	rope := f.rope(f.HeadDim, ropeKind{})
	scales := f.multipliers("ssm_multipliers", 5)
	feed := f.multipliers("mlp_multipliers", 2)
	groups := f.int("mamba_n_groups", 1)
	mamba := MambaSpec{In: "mamba.in_proj", Conv: "mamba.conv1d", Out: "mamba.out_proj", ALog: "mamba.A_log", AForm: negativeExp, D: "mamba.D", DtBias: "mamba.dt_bias",
		Heads: f.int("mamba_n_heads", 128), Groups: groups, StateDim: f.int("mamba_d_state", 256), ConvWidth: f.int("mamba_d_conv", 4),
		ConvBias: f.bool("mamba_conv_bias", true), ProjBias: f.bool("mamba_proj_bias", false),
		InScale: f.float32("ssm_in_multiplier", 1), OutScale: f.float32("ssm_out_multiplier", 1)}
	copy(mamba.Scales[:], scales)
	if f.bool("mamba_rms_norm", false) {
		mamba.Norm, mamba.NormGroups, mamba.NormThenGate = f.norm("mamba.norm"), groups, f.bool("mamba_norm_before_gate", true)
	}
	inner := f.int("mamba_d_ssm", 1024)
	if !f.has("mamba_d_ssm") && f.v.Member("mamba_d_ssm") != nil {
		inner = f.int("mamba_expand", 2) * f.Hidden
	}
	if mamba.Heads > 0 {
		mamba.HeadDim = inner / mamba.Heads
	}
	mamba.DtMin, mamba.DtMax = f.timeLimits()
	f.checkMamba(&mamba)
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.InScale, a.KeyScale, a.OutScale = rope, f.float32("attention_in_multiplier", 1), f.float32("key_multiplier", 1), f.float32("attention_out_multiplier", 1)
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		m := MLPSpec{Gate: "feed_forward.gate_proj", Up: "feed_forward.up_proj", Down: "feed_forward.down_proj", Inner: f.Intermediate, Bias: f.bool("mlp_bias", false),
			Act: f.activation("hidden_act", "silu"), GateScale: feed[0], OutScale: feed[1]}
		l.InNorm, l.Mixers = f.norm("input_layernorm"), []Mixer{mamba, a}
		l.FeedNorm, l.Feeds = f.norm("pre_ff_layernorm"), []Feed{m}
	})
}

// multipliers is a list of n factors, all of which are 1 if it is not given.
func (f *fields) multipliers(name string, n int) []float32 {
	list := get[[]float32](f, name, nil)
	if list == nil {
		for range n {
			list = append(list, 1)
		}
	}
	if len(list) != n {
		f.bad("%s has %d numbers instead of %d", name, len(list), n)
		list = make([]float32, n)
	}
	return list
}
