package model

// OpenAI's gpt-oss (transformers/models/gpt_oss): attention sinks, a window in every other layer, biases
// everywhere, and experts with a clamped SwiGLU.

func init() {
	recipes["GptOssForCausalLM"] = recipe{modelType: "gpt_oss", read: gptOss}
}

func gptOss(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-5, kvHeads: 8, headDim: 64})
	rope, types := f.rope(f.HeadDim, ropeKind{theta: 150_000}), f.texts("layer_types")
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "mlp.router", GateUp: "mlp.experts.gate_up_proj", DownAll: "mlp.experts.down_proj"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", f.int("experts_per_token", 4)), Score: SoftmaxTop},
		RouterBias:  true,
		Experts:     f.int("num_local_experts", 128),
		Inner:       f.Intermediate,
		ExpertBias:  true,
		Layout:      TransposedPairs,
		Act:         Activation{Kind: SiLU, Alpha: f.float32("swiglu_alpha", 1.702), Limit: f.float32("swiglu_limit", 7), UpPlus: 1},
	}
	f.checkExperts(&e)
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.Sinks = rope, "self_attn.sinks"
		a.QKVBias = f.bool("attention_bias", true)
		a.OutBias = a.QKVBias
		if !f.isWide(types, i, 2) {
			a.Window = f.window(i, f.int("sliding_window", 128))
		}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{e}
	})
}
