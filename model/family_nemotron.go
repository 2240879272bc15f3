package model

import "math"

// Nvidia's Nemotron-H and Nemotron 3 (transformers/models/nemotron_h): each layer is a Mamba-2 mixer,
// attention without positions, a feed-forward network without gate, or a mixture of such.

func init() {
	recipes["NemotronHForCausalLM"] = recipe{modelType: "nemotron_h", read: nemotronH, prefix: "backbone.", skip: []string{"mtp."}}
}

func nemotronH(f *fields) {
	types := f.nemotronTypes()
	f.Layers = len(types)
	f.described = len(types)
	f.usual(usual{maxPositions: 4096, eps: 1e-5, epsName: "layer_norm_epsilon", kvHeads: 8, headDim: 128})
	if f.Layers = len(types); f.Layers > maxLayers {
		f.bad("%d layers are more than %d", f.Layers, maxLayers)
		return
	}
	f.Windows = make([]int, f.Layers)
	f.Network.Embed, f.Network.Final = f.prefix+"embeddings", f.norm("norm_f")
	groups := f.int("n_groups", 8)
	mamba := MambaSpec{In: "mixer.in_proj", Conv: "mixer.conv1d", Out: "mixer.out_proj", ALog: "mixer.A_log", AForm: negativeExp, D: "mixer.D", DtBias: "mixer.dt_bias",
		Norm: f.norm("mixer.norm"), NormGroups: groups, Heads: f.int("mamba_num_heads", 128), HeadDim: f.int("mamba_head_dim", 64), Groups: groups,
		StateDim: f.int("ssm_state_size", 128), ConvWidth: f.int("conv_kernel", 4), ConvBias: f.bool("use_conv_bias", true), ProjBias: f.bool("use_bias", false),
		DtMin: f.float32("time_step_min", 0.001), DtMax: math.MaxFloat32}
	f.checkMamba(&mamba)
	act := f.activation("mlp_hidden_act", "relu2")
	f.layers(func(i int, l *Layer) {
		switch types[i] {
		case "mamba":
			l.InNorm, l.Mixers = f.norm("norm"), []Mixer{mamba}
		case "attention":
			a := f.attention()
			a.Q, a.K, a.V, a.O, a.Rope = "mixer.q_proj", "mixer.k_proj", "mixer.v_proj", "mixer.o_proj", NoRope
			l.InNorm, l.Mixers = f.norm("norm"), []Mixer{a}
		case "mlp":
			l.FeedNorm = f.norm("norm")
			l.Feeds = []Feed{MLPSpec{Up: "mixer.up_proj", Down: "mixer.down_proj", Inner: f.Intermediate, Bias: f.bool("mlp_bias", false), Act: act}}
		case "moe":
			l.FeedNorm, l.Feeds = f.norm("norm"), []Feed{f.nemotronExperts(act)}
		}
	})
}

// nemotronTypes are the kinds of layers, in any of their spellings.
func (f *fields) nemotronTypes() []string {
	kinds := map[string]string{"M": "mamba", "*": "attention", "-": "mlp", "E": "moe", "linear_attention": "mamba", "full_attention": "attention",
		"mamba": "mamba", "attention": "attention", "mlp": "mlp", "moe": "moe"}
	list := get[[]string](f, "layers_block_type", get[[]string](f, "layer_types", nil))
	if list == nil {
		for _, c := range f.text("hybrid_override_pattern", "") {
			list = append(list, string(c))
		}
	}
	if list == nil {
		f.bad("layers_block_type is missing")
	}
	types := make([]string, len(list))
	for i, name := range list {
		var ok bool
		if types[i], ok = kinds[name]; !ok {
			f.unsupported("layer type", name, "mamba, attention, mlp, moe")
		}
	}
	return types
}

func (f *fields) nemotronExperts(act Activation) ExpertsSpec {
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "mixer.gate", Bias: "mixer.gate.e_score_correction_bias", Up: "mixer.experts.%d.up_proj", Down: "mixer.experts.%d.down_proj"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 2), Score: SigmoidScore, Groups: f.int("n_group", 1), TopGroups: f.int("topk_group", 1), GroupBest2: true, Renorm: f.bool("norm_topk_prob", true), RenormAdd: 1e-20, Scale: f.float32("routed_scaling_factor", 1)},
		Experts:     f.int("n_routed_experts", 8),
		Inner:       f.int("moe_intermediate_size", 7688),
		Act:         act,
		Plain:       true,
		Layout:      OneByOne,
	}
	e.Shared = []MLPSpec{{Up: "mixer.shared_experts.up_proj", Down: "mixer.shared_experts.down_proj", Inner: f.int("moe_shared_expert_intermediate_size", 7688), Act: act}}
	if e.Latent = f.int("moe_latent_size", 0); e.Latent > 0 {
		e.LatentIn, e.LatentOut = "mixer.fc1_latent_proj", "mixer.fc2_latent_proj"
	}
	f.checkExperts(&e)
	return e
}

// checkMamba refuses sizes that make no network.
func (f *fields) checkMamba(m *MambaSpec) {
	if m.Heads < 1 || m.HeadDim < 1 || m.Groups < 1 || m.StateDim < 1 || m.ConvWidth < 2 || m.Heads%max(m.Groups, 1) != 0 {
		f.bad("%d heads of %d, %d groups, a state of %d and a convolution of %d make no Mamba layer", m.Heads, m.HeadDim, m.Groups, m.StateDim, m.ConvWidth)
	}
}

// timeLimits are the bounds of the time step of Mamba.
func (f *fields) timeLimits() (least, most float32) {
	limits := []float64{0, math.Inf(1)}
	if v, ok := f.member("time_step_limit"); ok {
		limits = nil
		for _, e := range v.Elements() {
			x, isNumber := e.Float()
			if !isNumber { // an infinity, in one of its spellings
				x = math.Inf(1)
			}
			limits = append(limits, x)
		}
	}
	if len(limits) != 2 || !(limits[0] <= limits[1]) {
		f.bad("time_step_limit %v is not two numbers in order", limits)
		return 0, 0
	}
	return float32(limits[0]), float32(min(limits[1], math.MaxFloat32))
}
