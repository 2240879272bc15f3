package model

// IBM's Granite 3 and 4 (transformers/models/{granite,granitemoe,granitemoeshared,granite_swa,
// granitemoe_swa,granitemoehybrid}): four multipliers,
// experts chosen before the softmax, and in Granite 4 Mamba-2 layers and a shared network.

func init() {
	recipes["GraniteForCausalLM"] = recipe{modelType: "granite", read: granite}
	recipes["GraniteMoeForCausalLM"] = recipe{modelType: "granitemoe", read: graniteMoE}
	recipes["GraniteMoeSharedForCausalLM"] = recipe{modelType: "granitemoeshared", read: graniteShared}
	recipes["GraniteSWAForCausalLM"] = recipe{modelType: "granite_swa", read: graniteSWA}
	recipes["GraniteMoeSWAForCausalLM"] = recipe{modelType: "granitemoe_swa", read: graniteSWA}
	recipes["GraniteMoeHybridForCausalLM"] = recipe{modelType: "granitemoehybrid", read: graniteHybrid}
}

func (f *fields) granite(tied bool) {
	f.usual(usual{maxPositions: 2048, eps: 1e-6, tied: tied})
	f.Network.EmbedScale = f.float32("embedding_multiplier", 1)
	f.Network.LogitScale = float32(1 / f.float("logits_scaling", 1))
}

// graniteLayer is the attention of a layer with the multipliers of Granite.
func (f *fields) graniteLayer(l *Layer, rope int) {
	a := f.attention()
	a.Rope, a.Scale = rope, f.float32("attention_multiplier", 1)
	a.QKVBias = f.bool("attention_bias", false)
	a.OutBias = a.QKVBias
	l.InNorm, l.Mixers, l.FeedNorm = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm")
	l.Residual = f.float32("residual_multiplier", 1)
}

func granite(f *fields) {
	f.granite(false)
	rope := f.rope(f.HeadDim, ropeKind{})
	f.layers(func(_ int, l *Layer) {
		f.graniteLayer(l, rope)
		m := f.mlp(f.Intermediate)
		m.Bias = f.bool("mlp_bias", false)
		l.Feeds = []Feed{m}
	})
}

func (f *fields) graniteExperts() ExpertsSpec {
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "block_sparse_moe.router.layer", GateUp: "block_sparse_moe.input_linear.weight", DownAll: "block_sparse_moe.output_linear.weight"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 2), Score: SoftmaxTop},
		Experts:     f.int("num_local_experts", 8),
		Inner:       f.Intermediate,
		Act:         f.activation("hidden_act", "silu"),
		Layout:      Stacked,
	}
	f.checkExperts(&e)
	return e
}

func graniteMoE(f *fields) {
	f.granite(false)
	rope, e := f.rope(f.HeadDim, ropeKind{}), f.graniteExperts()
	f.layers(func(_ int, l *Layer) {
		f.graniteLayer(l, rope)
		l.Feeds = []Feed{e}
	})
}

func graniteHybrid(f *fields) {
	f.granite(false)
	rope := NoRope
	if f.text("position_embedding_type", "") == "rope" {
		rope = f.rope(f.HeadDim, ropeKind{})
	}
	types := f.texts("layer_types")
	shared := MLPSpec{GateUp: "shared_mlp.input_linear", Down: "shared_mlp.output_linear", Inner: f.int("shared_intermediate_size", 1024), Act: f.activation("hidden_act", "silu")}
	feeds := []Feed{shared}
	if f.int("num_local_experts", 8) > 0 {
		e := f.graniteExperts()
		e.Shared = []MLPSpec{shared}
		feeds = []Feed{e}
	}
	groups := f.int("mamba_n_groups", 1)
	mamba := MambaSpec{In: "mamba.in_proj", Conv: "mamba.conv1d", Out: "mamba.out_proj", ALog: "mamba.A_log", AForm: negativeExp, D: "mamba.D", DtBias: "mamba.dt_bias",
		Norm: f.norm("mamba.norm"), NormGroups: groups, Heads: f.int("mamba_n_heads", 128), Groups: groups, StateDim: f.int("mamba_d_state", 256),
		ConvWidth: f.int("mamba_d_conv", 4), ConvBias: f.bool("mamba_conv_bias", true), ProjBias: f.bool("mamba_proj_bias", false)}
	if mamba.HeadDim = get(f, "mamba_d_head", 0); mamba.HeadDim == 0 && mamba.Heads > 0 {
		mamba.HeadDim = f.int("mamba_expand", 2) * f.Hidden / mamba.Heads
	}
	mamba.DtMin, mamba.DtMax = f.timeLimits()
	f.checkMamba(&mamba)
	f.layers(func(i int, l *Layer) {
		f.graniteLayer(l, rope)
		if types == nil || types[i] == "mamba" || types[i] == "linear_attention" {
			l.Mixers = []Mixer{mamba}
		}
		l.Feeds = feeds
	})
}

// graniteMixture are experts with a network that every token goes through, if there is one.
func (f *fields) graniteMixture() ExpertsSpec {
	e := f.graniteExperts()
	if n := f.int("shared_intermediate_size", 0); n > 0 {
		e.Shared = []MLPSpec{{GateUp: "shared_mlp.input_linear", Down: "shared_mlp.output_linear", Inner: n, Act: f.activation("hidden_act", "silu")}}
	}
	return e
}

func graniteShared(f *fields) {
	f.granite(false)
	rope, e := f.rope(f.HeadDim, ropeKind{}), f.graniteMixture()
	f.layers(func(_ int, l *Layer) {
		f.graniteLayer(l, rope)
		l.Feeds = []Feed{e}
	})
}

// graniteSWA has sinks, windows, and a rotary base for each layer, where 0 stands for no rotation.
func graniteSWA(f *fields) {
	dense := !f.has("num_local_experts")
	f.granite(dense)
	types, thetas := f.texts("layer_types"), get[[]float64](f, "layer_rope_theta", nil)
	if thetas != nil && len(thetas) < f.Layers {
		f.bad("layer_rope_theta has %d entries for %d layers", len(thetas), f.Layers)
		return
	}
	ropes := map[float64]int{0: NoRope}
	m := f.mlp(f.Intermediate)
	m.Bias = f.bool("mlp_bias", false)
	feeds := []Feed{m}
	if !dense {
		e := f.graniteMixture()
		e.Router, e.GateUp, e.DownAll = "block_sparse_moe.router", "block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj"
		feeds = []Feed{e}
	}
	f.layers(func(i int, l *Layer) {
		theta := -1.0 // that of all layers
		if thetas != nil {
			theta = thetas[i]
		}
		if _, ok := ropes[theta]; !ok {
			ropes[theta] = f.rope(f.HeadDim, ropeKind{exactly: max(theta, 0)})
		}
		f.graniteLayer(l, ropes[theta])
		a := l.Mixers[0].(AttentionSpec)
		a.Sinks = "self_attn.sinks"
		if types == nil && i%4 != 0 || types != nil && types[i] == "sliding_attention" {
			a.Window = f.window(i, f.int("sliding_window", 128))
		}
		l.Mixers[0], l.Feeds = a, feeds
	})
}
