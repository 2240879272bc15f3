package model

import "math"

// Google's Gemma 2, 3 and 4, as transformers/models/{gemma2,gemma3,gemma4} have them: norms before and
// after each part, layers with a window between others, and embeddings scaled by the root of their size.

func init() {
	recipes["Gemma2ForCausalLM"] = recipe{modelType: "gemma2", read: gemma2}
	recipes["Gemma3ForCausalLM"] = recipe{modelType: "gemma3_text", read: gemma3}
	recipes["Gemma3ForConditionalGeneration"] = recipe{modelType: "gemma3", read: gemma3, prefix: "language_model.model."}
	recipes["Gemma3nForCausalLM"] = recipe{modelType: "gemma3n_text", read: gemma3n}
	recipes["Gemma3nForConditionalGeneration"] = recipe{modelType: "gemma3n", read: gemma3n, prefix: "model.language_model."}
	recipes["Gemma4ForCausalLM"] = recipe{modelType: "gemma4_text", read: gemma4}
	recipes["Gemma4UnifiedForCausalLM"] = recipe{modelType: "gemma4_unified_text", read: gemma4}
	recipes["Gemma4ForConditionalGeneration"] = recipe{modelType: "gemma4", read: gemma4, prefix: "model.language_model."}
	recipes["Gemma4UnifiedForConditionalGeneration"] = recipe{modelType: "gemma4_unified", read: gemma4, prefix: "model.language_model."}
}

// sandwich are the four norms of a layer.
func (f *fields) sandwich(l *Layer, norm func(string) NormSpec) {
	l.InNorm, l.MixNorm = norm("input_layernorm"), norm("post_attention_layernorm")
	l.FeedNorm, l.OutNorm = norm("pre_feedforward_layernorm"), norm("post_feedforward_layernorm")
}

func (f *fields) gemma(norm func(string) NormSpec) {
	f.Network.EmbedScale = float32(math.Sqrt(float64(f.Hidden)))
	f.Network.Final = norm("norm")
	f.Network.LogitCap = f.float32("final_logit_softcapping", 0)
}

func (f *fields) gemmaMLP(inner int) MLPSpec {
	m := f.mlp(inner)
	m.Act = f.activation("hidden_activation", "gelu_pytorch_tanh")
	return m
}

func gemma2(f *fields) {
	f.usual(usual{maxPositions: 8192, eps: 1e-6, tied: true, kvHeads: 4, headDim: 256})
	f.gemma(f.norm1)
	f.Network.LogitCap = f.float32("final_logit_softcapping", 30)
	rope, types := f.rope(f.HeadDim, ropeKind{}), f.texts("layer_types")
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.Softcap = rope, f.float32("attn_logit_softcapping", 50)
		a.Scale = float32(1 / math.Sqrt(f.float("query_pre_attn_scalar", 256)))
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		if !f.isWide(types, i, 2) {
			a.Window = f.window(i, f.int("sliding_window", 4096))
		}
		l.Mixers, l.Feeds = []Mixer{a}, []Feed{f.gemmaMLP(f.Intermediate)}
		f.sandwich(l, f.norm1)
	})
}

func gemma3(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-6, tied: true, kvHeads: 4, headDim: 256})
	f.gemma(f.norm1)
	types, every := f.texts("layer_types"), f.int("sliding_window_pattern", f.int("_sliding_window_pattern", 6))
	local := f.rope(f.HeadDim, ropeKind{layers: "sliding_attention", theta: 10_000, thetaField: "rope_local_base_freq", plain: true})
	wide := f.rope(f.HeadDim, ropeKind{layers: "full_attention", theta: 1_000_000})
	window := f.int("sliding_window", 4096)
	both := f.bool("use_bidirectional_attention", false) // EmbeddingGemma
	if both {
		f.encoder()
		window = window/2 + 1 // so many to both sides together
	}
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.Bidirectional = wide, both
		a.Scale, a.Softcap = float32(1/math.Sqrt(f.float("query_pre_attn_scalar", 256))), f.float32("attn_logit_softcapping", 0)
		a.QNorm, a.KNorm = f.norm1("self_attn.q_norm"), f.norm1("self_attn.k_norm")
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		if !f.isWide(types, i, every) {
			a.Rope, a.Window = local, f.window(i, window)
		}
		l.Mixers, l.Feeds = []Mixer{a}, []Feed{f.gemmaMLP(f.Intermediate)}
		f.sandwich(l, f.norm1)
	})
}

func gemma4(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-6, tied: true, kvHeads: 4, headDim: 256})
	f.gemma(f.norm)
	types := f.texts("layer_types")
	isWide := func(i int) bool { return f.isWide(types, i, 6) || i == f.Layers-1 && types == nil }
	wideDim := f.int("global_head_dim", 512)
	local := f.rope(f.HeadDim, ropeKind{layers: "sliding_attention", theta: 10_000})
	sizes := f.gemma4Sizes(isWide, wideDim)
	for _, s := range sizes {
		if s.wide {
			wideDim = s.dim
		}
	}
	wide := f.rope(wideDim, ropeKind{layers: "full_attention", theta: 1_000_000})
	first := f.Layers - f.int("num_kv_shared_layers", 0) // of those that share keys and values
	if first < 0 || first > f.Layers {
		f.bad("num_kv_shared_layers %d is not in [0, %d]", f.Layers-first, f.Layers)
		return
	}
	if width := f.int("hidden_size_per_layer_input", 256); width > 0 {
		f.gemmaPerLayer(width)
	}
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.Scale, a.KVHeads, a.KeyDim, a.ValueDim = wide, 1, sizes[i].kvHeads, sizes[i].dim, sizes[i].dim
		a.QNorm, a.KNorm, a.VNorm = f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm"), f.norm(Unweighted)
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		a.KEqualsV = isWide(i) && f.bool("attention_k_eq_v", false)
		if !isWide(i) {
			a.Rope, a.Window = local, f.window(i, f.int("sliding_window", 512))
		}
		inner := f.Intermediate
		if i >= first && first > 0 {
			a.ShareWith = first - 1
			for a.ShareWith >= 0 && isWide(a.ShareWith) != isWide(i) {
				a.ShareWith--
			}
			if f.bool("use_double_wide_mlp", false) {
				inner *= 2
			}
		}
		l.Mixers, l.Feeds, l.Scalar = []Mixer{a}, []Feed{f.gemmaMLP(inner)}, "layer_scalar"
		f.sandwich(l, f.norm)
		if f.bool("enable_moe_block", false) {
			dense := f.gemmaMLP(inner)
			dense.OutNorm = f.norm("post_feedforward_layernorm_1")
			l.Feeds = []Feed{dense, f.gemma4Experts()}
		}
	})
	if f.err == nil && first < f.Layers {
		f.skipShared(first)
	}
}

// skipShared skips the keys and values of layers that read those of others.
func (f *fields) skipShared(first int) {
	for i := first; i < f.Layers; i++ {
		at := f.Network.Layers[i].At + "self_attn."
		f.Network.Skip = append(f.Network.Skip, at+"k_proj.", at+"v_proj.", at+"k_norm.", at+"v_norm.")
	}
}

type gemma4Size struct {
	wide         bool
	kvHeads, dim int
}

// gemma4Sizes are the sizes of heads in each layer, in either of two spellings.
func (f *fields) gemma4Sizes(isWide func(int) bool, wideDim int) []gemma4Size {
	type own struct {
		HeadDim int `json:"head_dim"`
		KVHeads int `json:"num_key_value_heads"`
	}
	each := get[map[string]own](f, "per_layer_config", nil)
	sizes := make([]gemma4Size, f.Layers)
	for i := range sizes {
		s := gemma4Size{isWide(i), f.KVHeads, f.HeadDim}
		if s.wide && each == nil {
			s.dim = wideDim
			if f.bool("attention_k_eq_v", false) {
				s.kvHeads = f.int("num_global_key_value_heads", f.KVHeads)
			}
		}
		if o, ok := each[layerKey(i, f.Layers)]; ok {
			if o.HeadDim > 0 {
				s.dim = o.HeadDim
			}
			if o.KVHeads > 0 {
				s.kvHeads = o.KVHeads
			}
		}
		sizes[i] = s
	}
	return sizes
}

func (f *fields) gemma4Experts() ExpertsSpec {
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "router.proj", PerExpert: "router.per_expert_scale", GateUp: "experts.gate_up_proj", DownAll: "experts.down_proj"},
		Choice:      Choice{TopK: f.int("top_k_experts", 0), Renorm: true},
		FromX:       true,
		RouterNorm:  NormSpec{Name: "router.scale", Eps: f.NormEps, Raw: true},
		RouterMul:   float32(1 / math.Sqrt(float64(f.Hidden))),
		Experts:     f.int("num_experts", 0),
		Inner:       f.int("moe_intermediate_size", 0),
		Act:         f.activation("hidden_activation", "gelu_pytorch_tanh"),
		Layout:      Stacked,
		Norm:        f.norm("pre_feedforward_layernorm_2"),
		OutNorm:     f.norm("post_feedforward_layernorm_2"),
	}
	f.checkExperts(&e)
	return e
}

// gemmaPerLayer are the embeddings for each layer.
func (f *fields) gemmaPerLayer(width int) {
	f.Network.PerLayer = PerLayer{Width: width, Vocab: f.int("vocab_size_per_layer_input", 262144), Embed: f.prefix + "embed_tokens_per_layer",
		EmbedScale: float32(math.Sqrt(float64(width))), Project: f.prefix + "per_layer_model_projection", ProjScale: float32(1 / math.Sqrt(float64(f.Hidden))),
		Norm: NormSpec{Name: f.prefix + "per_layer_projection_norm", Eps: f.NormEps}, SumScale: float32(1 / math.Sqrt2),
		Gate: "per_layer_input_gate", Out: "per_layer_projection", OutNorm: f.norm("post_per_layer_input_norm"),
		Act: f.activation("hidden_activation", "gelu_pytorch_tanh")}
}
