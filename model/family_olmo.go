package model

// Networks whose norms stand behind their parts, or whose layers without positions take turns with others:
// Ai2's OLMo 2 and 3, Hugging Face's SmolLM3, LG's EXAONE 4 and Cohere's Command R7B and A, as
// transformers/models/{olmo2,olmo3,smollm3,exaone4,cohere2} have them.

func init() {
	recipes["Olmo2ForCausalLM"] = recipe{modelType: "olmo2", read: olmo2}
	recipes["Olmo3ForCausalLM"] = recipe{modelType: "olmo3", read: olmo3}
	recipes["SmolLM3ForCausalLM"] = recipe{modelType: "smollm3", read: smolLM3}
	recipes["Exaone4ForCausalLM"] = recipe{modelType: "exaone4", read: exaone4}
	recipes["Cohere2ForCausalLM"] = recipe{modelType: "cohere2", read: cohere2}
}

// postNormed is a layer with norms behind its parts alone.
func (f *fields) postNormed(l *Layer, a AttentionSpec) {
	l.Mixers, l.MixNorm = []Mixer{a}, f.norm("post_attention_layernorm")
	l.Feeds, l.OutNorm = []Feed{f.mlp(f.Intermediate)}, f.norm("post_feedforward_layernorm")
}

// olmoAttention norms all heads of queries, and of keys, together.
func (f *fields) olmoAttention(rope int) AttentionSpec {
	a := f.attention()
	a.Rope, a.QNorm, a.KNorm, a.RowNorm = rope, f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm"), true
	a.QKVBias = f.bool("attention_bias", false)
	a.OutBias = a.QKVBias
	return a
}

func olmo2(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-5})
	rope := f.rope(f.HeadDim, ropeKind{})
	f.layers(func(_ int, l *Layer) { f.postNormed(l, f.olmoAttention(rope)) })
}

func olmo3(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-5})
	types := f.texts("layer_types")
	local := f.rope(f.HeadDim, ropeKind{layers: "sliding_attention", theta: 500_000, plain: !f.has("rope_parameters")})
	wide := f.rope(f.HeadDim, ropeKind{layers: "full_attention", theta: 500_000})
	f.layers(func(i int, l *Layer) {
		a := f.olmoAttention(wide)
		if !f.isWide(types, i, 4) {
			a.Rope, a.Window = local, f.window(i, f.int("sliding_window", 4096))
		}
		f.postNormed(l, a)
	})
}

func smolLM3(f *fields) {
	f.usual(usual{maxPositions: 32768, eps: 1e-6, tied: true, kvHeads: 4})
	rope, types := f.rope(f.HeadDim, ropeKind{theta: 2_000_000}), f.texts("layer_types")
	turns, every := f.ints("no_rope_layers"), max(f.int("no_rope_layer_interval", 4), 1) // 1 where there is a rotation
	if turns != nil && len(turns) < f.Layers {
		f.bad("no_rope_layers has %d entries for %d layers", len(turns), f.Layers)
		return
	}
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope = rope
		if turns == nil && (i+1)%every == 0 || turns != nil && turns[i] == 0 {
			a.Rope = NoRope
		}
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		if f.bool("use_sliding_window", false) && types != nil && types[i] == "sliding_attention" {
			a.Window = f.window(i, f.int("sliding_window", 0))
		}
		m := f.mlp(f.Intermediate)
		m.Bias = f.bool("mlp_bias", false)
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{m}
	})
}

func exaone4(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-5})
	rope, types := f.rope(f.HeadDim, ropeKind{}), f.texts("layer_types")
	window := f.int("sliding_window", 4096)
	if f.v.Member("sliding_window") != nil && !f.has("sliding_window") { // null: all layers are alike
		window = 0
	}
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.QNorm, a.KNorm = rope, f.norm("self_attn.q_norm"), f.norm("self_attn.k_norm")
		switch {
		case window == 0:
		case f.isWide(types, i, f.int("sliding_window_pattern", 4)):
			a.Rope = NoRope
		default:
			a.Window = f.window(i, window)
		}
		f.postNormed(l, a)
	})
}

func cohere2(f *fields) {
	f.usual(usual{maxPositions: 8192, eps: 1e-5, epsName: "layer_norm_eps", tied: true, headDim: 128})
	f.Network.LogitScale = f.float32("logit_scale", 0.0625)
	rope, types := f.rope(f.HeadDim, ropeKind{interleaved: true}), f.texts("layer_types")
	norm := func(name string) NormSpec { return NormSpec{Name: name, Kind: LayerNorm, Eps: f.NormEps} }
	f.Network.Final = norm("norm")
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.Rope, a.QKVBias = NoRope, f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		if !f.isWide(types, i, f.int("sliding_window_pattern", 4)) {
			a.Rope, a.Window = rope, f.window(i, f.int("sliding_window", 4096))
		}
		l.InNorm, l.Mixers, l.Parallel, l.Feeds = norm("input_layernorm"), []Mixer{a}, true, []Feed{f.mlp(f.Intermediate)}
	})
}
