package model

// Mistral's networks of today (transformers/models/{mistral3,ministral3,mixtral}): the wrapper with a
// tower for images, whose text part is one of several, Ministral 3 with queries that grow with the
// position, and Mixtral.

func init() {
	recipes["Ministral3ForCausalLM"] = recipe{modelType: "ministral3", read: ministral3}
	recipes["Mistral3ForConditionalGeneration"] = recipe{modelType: "mistral3", read: mistral3, prefix: "language_model.model."}
	recipes["MixtralForCausalLM"] = recipe{modelType: "mixtral", read: mixtral}
}

// mistralTemper is the growth of queries (transformers, get_llama_4_attn_scale).
func (f *fields) mistralTemper() Temper {
	p := f.ropeParameters()
	if p.Beta == nil {
		return Temper{}
	}
	return Temper{Beta: float32(*p.Beta), Floor: float32(or(p.OriginalMax, float64(f.MaxSeqTokens)))}
}

func ministral3(f *fields) {
	f.usual(usual{maxPositions: 262144, eps: 1e-5, kvHeads: 8, headDim: 128})
	f.mistralLayers(0)
}

func (f *fields) mistralLayers(window int) {
	rope, temper := f.rope(f.HeadDim, ropeKind{}), f.mistralTemper()
	if f.v.Member("sliding_window") != nil {
		window = f.int("sliding_window", 0)
	}
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.Temper, a.Window = rope, temper, f.window(i, window)
		l.InNorm, l.Mixers = f.norm("input_layernorm"), []Mixer{a}
		l.FeedNorm, l.Feeds = f.norm("post_attention_layernorm"), []Feed{f.mlp(f.Intermediate)}
	})
}

// mistral3 is a wrapper, whose text part says what it is.
func mistral3(f *fields) {
	f.Network.Head = "language_model.lm_head"
	switch kind := f.text("model_type", "mistral"); kind {
	case "ministral3":
		ministral3(f)
	case "mistral4":
		mistral4(f)
	case "mistral":
		f.usual(usual{maxPositions: 131072, eps: 1e-6, kvHeads: 8})
		f.mistralLayers(4096)
	default:
		f.unsupported("text_config.model_type", kind, "mistral, ministral3, mistral4")
	}
}

func mixtral(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-5, kvHeads: 8})
	rope := f.rope(f.HeadDim, ropeKind{theta: 1_000_000})
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "block_sparse_moe.gate", Gate: "block_sparse_moe.experts.%d.w1", Up: "block_sparse_moe.experts.%d.w3", Down: "block_sparse_moe.experts.%d.w2"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 2), Renorm: true},
		Experts:     f.int("num_local_experts", 8),
		Inner:       f.Intermediate,
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	f.checkExperts(&e)
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.Window = rope, f.window(i, f.int("sliding_window", 0))
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{e}
	})
}
