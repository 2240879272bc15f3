package model

import "slices"

// Qwen's networks since 2024, as transformers/models/{qwen2_moe,qwen3_moe,qwen3_next,qwen3_5,
// qwen3_5_moe,qwen3_vl} have them.

func init() {
	several := []string{"mtp.", "model.mtp."}
	recipes["Qwen2MoeForCausalLM"] = recipe{modelType: "qwen2_moe", read: qwen2MoE}
	recipes["Qwen3MoeForCausalLM"] = recipe{modelType: "qwen3_moe", read: qwen3MoE}
	recipes["Qwen3VLForConditionalGeneration"] = recipe{modelType: "qwen3_vl", read: qwen3VL, prefix: "model.language_model.", skip: several}
	recipes["Qwen3VLMoeForConditionalGeneration"] = recipe{modelType: "qwen3_vl_moe", read: qwen3VLMoE, prefix: "model.language_model.", skip: several}
	recipes["Qwen3NextForCausalLM"] = recipe{modelType: "qwen3_next", read: qwen3Next, skip: several}
	recipes["Qwen3_5ForCausalLM"] = recipe{modelType: "qwen3_5_text", read: qwen35, skip: several}
	recipes["Qwen3_5ForConditionalGeneration"] = recipe{modelType: "qwen3_5", read: qwen35, prefix: "model.language_model.", skip: several}
	recipes["Qwen3_5MoeForCausalLM"] = recipe{modelType: "qwen3_5_moe_text", read: qwen35MoE, skip: several}
	recipes["Qwen3_5MoeForConditionalGeneration"] = recipe{modelType: "qwen3_5_moe", read: qwen35MoE, prefix: "model.language_model.", skip: several}
}

// qwenExperts are experts chosen by a softmax.
func (f *fields) qwenExperts(renorm bool) ExpertsSpec {
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "mlp.gate", Gate: "mlp.experts.%d.gate_proj", Up: "mlp.experts.%d.up_proj", Down: "mlp.experts.%d.down_proj"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 0), Renorm: renorm},
		Experts:     f.int("num_experts", f.int("num_local_experts", 0)),
		Inner:       f.int("moe_intermediate_size", 0),
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	f.checkExperts(&e)
	return e
}

// shared adds the shared expert of Qwen, with a gate of its own.
func (f *fields) qwenShared(e *ExpertsSpec) {
	s := f.mlp(f.int("shared_expert_intermediate_size", 0))
	s.Gate, s.Up, s.Down = "mlp.shared_expert.gate_proj", "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj"
	e.Shared, e.SharedGate = []MLPSpec{s}, "mlp.shared_expert_gate"
}

// isSparse reports whether layer i has experts.
func (f *fields) isSparse(i int) bool {
	return !slices.Contains(f.ints("mlp_only_layers"), i) && (i+1)%max(f.int("decoder_sparse_step", 1), 1) == 0
}

func qwen2MoE(f *fields) {
	f.usual(usual{maxPositions: 32768, eps: 1e-6, kvHeads: 16})
	rope, types := f.rope(f.HeadDim, ropeKind{}), f.texts("layer_types")
	e := f.qwenExperts(f.bool("norm_topk_prob", false))
	f.qwenShared(&e)
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.QKVBias = rope, f.bool("qkv_bias", true)
		if f.bool("use_sliding_window", false) && (types == nil && i >= f.int("max_window_layers", 28) || types != nil && types[i] == "sliding_attention") {
			a.Window = f.window(i, f.int("sliding_window", 4096))
		}
		f.qwenLayer(i, l, a, &e)
	})
}

// qwenLayer is the usual layer, with experts if e is not nil and the layer has some.
func (f *fields) qwenLayer(i int, l *Layer, m Mixer, e *ExpertsSpec) {
	l.InNorm, l.Mixers, l.FeedNorm = f.norm("input_layernorm"), []Mixer{m}, f.norm("post_attention_layernorm")
	if e != nil && f.isSparse(i) {
		l.Feeds = []Feed{*e}
	} else {
		l.Feeds = []Feed{f.mlp(f.Intermediate)}
	}
}

func qwen3MoE(f *fields) {
	f.usual(usual{maxPositions: 32768, eps: 1e-6, kvHeads: 4})
	e := f.qwenExperts(f.bool("norm_topk_prob", false))
	f.qwen3Layers(&e)
}

// qwen3Layers are layers of Qwen3, with experts if e is not nil.
func (f *fields) qwen3Layers(e *ExpertsSpec) {
	rope := f.rope(f.HeadDim, ropeKind{})
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.QNorm, a.KNorm = rope, f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm")
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		if f.bool("use_sliding_window", false) {
			a.Window = f.window(i, f.int("sliding_window", 0))
		}
		f.qwenLayer(i, l, a, e)
	})
}

// qwen3VL is Qwen3 for text: the positions of text are the same in all three axes.
func qwen3VL(f *fields) {
	f.usual(usual{maxPositions: 128000, eps: 1e-6, kvHeads: 32, headDim: 128})
	f.qwen3Layers(nil)
}

func qwen3VLMoE(f *fields) {
	f.usual(usual{maxPositions: 128000, eps: 1e-6, kvHeads: 16, headDim: 128})
	e := f.qwenExperts(true)
	e.EitherWay = true
	e.Layout, e.GateUp, e.DownAll = Transposed, "mlp.experts.gate_up_proj", "mlp.experts.down_proj"
	f.qwen3Layers(&e)
}

// qwenHybrid are layers of gated delta nets and, every fourth, of attention with an output gate.
func (f *fields) qwenHybrid(delta DeltaSpec, feed func(i int) Feed) {
	f.Network.Final = f.norm1("norm")
	rope, types := f.rope(f.HeadDim, ropeKind{partial: 0.25}), f.texts("layer_types")
	delta.Conv, delta.ConvWidth = "linear_attn.conv1d", f.int("linear_conv_kernel_dim", 4)
	delta.ALog, delta.DtBias, delta.AForm = "linear_attn.A_log", "linear_attn.dt_bias", negativeExp
	delta.Norm, delta.GateBy, delta.O = f.norm("linear_attn.norm"), SiLU, "linear_attn.out_proj"
	delta.KeyHeads, delta.ValueHeads = f.int("linear_num_key_heads", 16), f.int("linear_num_value_heads", 32)
	delta.KeyDim, delta.ValueDim = f.int("linear_key_head_dim", 128), f.int("linear_value_head_dim", 128)
	const most = 1 << 12 // of heads, each of which is described
	if delta.KeyHeads < 1 || delta.ValueHeads < 1 || delta.ValueHeads > most || delta.ValueHeads%max(delta.KeyHeads, 1) != 0 || delta.ConvWidth < 2 || delta.KeyDim < 1 || delta.ValueDim < 1 {
		f.bad("%d value heads of linear attention are not a multiple of %d key heads or more than %d, or its sizes are not positive", delta.ValueHeads, delta.KeyHeads, most)
	}
	f.layers(func(i int, l *Layer) {
		l.InNorm, l.FeedNorm = f.norm1("input_layernorm"), f.norm1("post_attention_layernorm")
		l.Feeds = []Feed{feed(i)}
		if !f.isWide(types, i, f.int("full_attention_interval", 4)) {
			l.Mixers = []Mixer{delta}
			return
		}
		a := f.attention()
		a.Rope, a.QNorm, a.KNorm = rope, f.norm1("self_attn.q_norm"), f.norm1("self_attn.k_norm")
		a.Gate.InQ, a.QKVBias = true, f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		l.Mixers = []Mixer{a}
	})
}

func qwen3Next(f *fields) {
	f.usual(usual{maxPositions: 32768, eps: 1e-6, kvHeads: 2, headDim: 256})
	e := f.qwenExperts(f.bool("norm_topk_prob", true))
	f.qwenShared(&e)
	f.qwenHybrid(DeltaSpec{
		DeltaNames: DeltaNames{QKVZ: "linear_attn.in_proj_qkvz", BA: "linear_attn.in_proj_ba"},
	}, func(i int) Feed {
		if f.isSparse(i) {
			return e
		}
		return f.mlp(f.Intermediate)
	})
}

var qwen35Delta = DeltaSpec{
	DeltaNames: DeltaNames{QKV: "linear_attn.in_proj_qkv", Z: "linear_attn.in_proj_z", B: "linear_attn.in_proj_b", A: "linear_attn.in_proj_a"},
}

func qwen35(f *fields) {
	f.usual(usual{maxPositions: 32768, eps: 1e-6, kvHeads: 4, headDim: 256})
	f.qwenHybrid(qwen35Delta, func(int) Feed { return f.mlp(f.Intermediate) })
}

func qwen35MoE(f *fields) {
	f.usual(usual{maxPositions: 32768, eps: 1e-6, kvHeads: 2, headDim: 256})
	e := f.qwenExperts(true)
	e.EitherWay = true
	e.Layout, e.GateUp, e.DownAll = Stacked, "mlp.experts.gate_up_proj", "mlp.experts.down_proj"
	f.qwenShared(&e)
	f.qwenHybrid(qwen35Delta, func(int) Feed { return e })
}
