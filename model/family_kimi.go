package model

import "slices"

// Moonshot's Kimi Linear (transformers/models/kimi_linear): Kimi delta attention, whose decay is one for
// each key channel, and latent attention without positions in between.

func init() {
	recipes["KimiLinearForCausalLM"] = recipe{modelType: "kimi_linear", read: kimiLinear}
}

func kimiLinear(f *fields) {
	f.usual(usual{maxPositions: f.int("model_max_length", 1048576), eps: 1e-5})
	linear := get(f, "linear_attn_config", struct {
		KDA     []int `json:"kda_layers"` // from 1
		HeadDim int   `json:"head_dim"`
		Heads   int   `json:"num_heads"`
		Conv    int   `json:"short_conv_kernel_size"`
	}{HeadDim: f.int("linear_head_dim", 128), Heads: f.int("linear_num_heads", 32), Conv: f.int("linear_conv_kernel_dim", 4)})
	types := f.texts("layer_types")
	isDelta := func(i int) bool {
		if linear.KDA != nil {
			return slices.Contains(linear.KDA, i+1)
		}
		return !f.isWide(types, i, 4)
	}
	delta := DeltaSpec{
		DeltaNames: DeltaNames{Q: "self_attn.q_proj", K: "self_attn.k_proj", V: "self_attn.v_proj", B: "self_attn.b_proj", Z: "self_attn.g_a_proj", ZUp: "self_attn.g_b_proj", A: "self_attn.f_a_proj", AUp: "self_attn.f_b_proj", ConvQ: "self_attn.q_conv1d", ConvK: "self_attn.k_conv1d", ConvV: "self_attn.v_conv1d", ALog: "self_attn.A_log", DtBias: "self_attn.dt_bias", O: "self_attn.o_proj"},
		LowRank:    linear.HeadDim,
		ConvWidth:  linear.Conv,
		AShape:     []int{1, 1, linear.Heads, 1},
		AForm:      negativeExp,
		Norm:       f.norm("self_attn.o_norm"),
		GateBy:     Sigmoid,
		KeyHeads:   linear.Heads,
		ValueHeads: linear.Heads,
		KeyDim:     linear.HeadDim,
		ValueDim:   linear.HeadDim,
		PerChannel: true,
	}
	if linear.Heads < 1 || linear.HeadDim < 1 || linear.Conv < 2 {
		f.bad("linear attention has %d heads of %d and a convolution of %d", linear.Heads, linear.HeadDim, linear.Conv)
		return
	}
	m := f.latent(0, 512, 128, 64, 128)
	m.Rope, f.Network.Ropes = NoRope, nil
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "block_sparse_moe.gate", Bias: "block_sparse_moe.gate.e_score_correction_bias", Gate: "block_sparse_moe.experts.%d.w1", Up: "block_sparse_moe.experts.%d.w3", Down: "block_sparse_moe.experts.%d.w2"},
		Choice:      Choice{TopK: f.int("num_experts_per_token", 8), Score: SigmoidScore, Groups: f.int("num_expert_group", 1), TopGroups: f.int("topk_group", 1), GroupBest2: true, Renorm: f.bool("moe_renormalize", true), RenormAdd: 1e-20, Scale: f.float32("routed_scaling_factor", 2.446)},
		Experts:     f.int("num_experts", 256),
		Inner:       f.int("moe_intermediate_size", 1024),
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	f.shareExperts(&e, "block_sparse_moe.shared_experts", f.int("num_shared_experts", 1))
	feeds, dense := f.texts("mlp_layer_types"), f.int("first_k_dense_replace", 1)
	f.layers(func(i int, l *Layer) {
		l.InNorm, l.Mixers, l.FeedNorm = f.norm("input_layernorm"), []Mixer{m}, f.norm("post_attention_layernorm")
		if isDelta(i) {
			l.Mixers = []Mixer{delta}
		}
		if feeds == nil && i < dense || feeds != nil && feeds[i] == "dense" {
			l.Feeds = []Feed{f.mlp(f.Intermediate)}
		} else {
			l.Feeds = []Feed{e}
		}
	})
}
