package model

// bailingHybrid is InclusionAI's Ling 3.0 (transformers/models/bailing_hybrid): Kimi delta attention whose decay has a
// lower bound, and latent attention with a gate for each head in between. The names of tensors are those of the
// published files.

func init() {
	recipes["BailingHybridForCausalLM"] = recipe{modelType: "bailing_hybrid", read: bailingHybrid}
}

func bailingHybrid(f *fields) {
	f.usual(usual{maxPositions: 262144, eps: 1e-6, headDim: 128})
	if f.has("model_max_length") {
		f.MaxSeqTokens = f.int("model_max_length", 0)
	}
	heads, dim, types := f.Heads, f.HeadDim, f.texts("layer_types")
	delta := DeltaSpec{
		DeltaNames: DeltaNames{Q: "attention.q_proj", K: "attention.k_proj", V: "attention.v_proj", B: "attention.b_proj", Z: "attention.g_proj", A: "attention.f_proj", ConvQ: "attention.q_conv1d", ConvK: "attention.k_conv1d", ConvV: "attention.v_conv1d", ALog: "attention.A_log", DtBias: "attention.dt_bias", O: "attention.dense"},
		ConvWidth:  f.int("short_conv_kernel_size", f.int("linear_conv_kernel_dim", 4)),
		AForm:      negativeExp,
		Norm:       f.norm("attention.o_norm"),
		GateBy:     Sigmoid,
		KeyHeads:   heads,
		ValueHeads: heads,
		KeyDim:     dim,
		ValueDim:   dim,
		PerChannel: true,
	}
	if f.bool("kda_safe_gate", true) {
		delta.Lower = f.float32("kda_lower_bound", -5)
	}
	if heads < 1 || dim < 1 || delta.ConvWidth < 2 || delta.Lower > 0 {
		f.bad("linear attention has %d heads of %d, a convolution of %d and a bound of %v", heads, dim, delta.ConvWidth, delta.Lower)
		return
	}
	m := f.latent(0, 512, 128, 64, 128)
	m.Q, m.KVA, m.KVB, m.O, m.Gate = "attention.q_proj", "attention.kv_a_proj_with_mqa", "attention.kv_b_proj", "attention.dense", "attention.g_proj"
	m.KVNorm.Name, m.QRank = "attention.kv_a_layernorm", 0
	e := f.deepseekExperts(f.int("num_experts", f.int("num_local_experts", 512)), f.int("num_experts_per_token", 8), 768)
	e.Groups, e.TopGroups = f.int("n_group", f.int("num_expert_group", 8)), f.int("topk_group", 4)
	f.sigmoidScores(&e)
	e.Bias, e.Renorm, e.Scale = "mlp.gate.expert_bias", f.bool("norm_topk_prob", f.bool("moe_renormalize", true)), f.float32("routed_scaling_factor", 2.5)
	e.Shared = nil
	f.shareExperts(&e, "mlp.shared_experts", f.int("num_shared_experts", f.int("n_shared_experts", 1)))
	f.Network.Embed = f.prefix + "word_embeddings"
	f.deepseekEach(func(i int) Mixer {
		if f.isWide(types, i, f.int("layer_group_size", 6)) {
			return m
		}
		return delta
	}, &e, f.int("first_k_dense_replace", 2))
	f.skipMTP(1)
}
