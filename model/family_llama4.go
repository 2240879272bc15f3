package model

import "slices"

// Meta's Llama 4 (transformers/models/llama4): chunks of attention with rotary embeddings between layers
// without positions, whose queries grow with the position, and experts whose score multiplies their input.

func init() {
	recipes["Llama4ForCausalLM"] = recipe{modelType: "llama4_text", read: llama4}
	recipes["Llama4ForConditionalGeneration"] = recipe{modelType: "llama4", read: llama4, prefix: "language_model.model."}
}

func llama4(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-5, kvHeads: 8, headDim: 128})
	if f.outer != nil {
		f.Network.Head = "language_model.lm_head"
	}
	rope := f.rope(f.HeadDim, ropeKind{theta: 500_000, interleaved: true})
	types, noRope := f.texts("layer_types"), f.ints("no_rope_layers") // 1 where there is a rotation
	every := f.int("no_rope_layer_interval", 4)
	moe, moeEvery := f.ints("moe_layers"), max(f.int("interleave_moe_layer_step", 1), 1)
	if len(noRope) > 0 && len(noRope) < f.Layers {
		f.bad("no_rope_layers has %d entries for %d layers", len(noRope), f.Layers)
		return
	}
	network := func(prefix string, inner int) MLPSpec {
		return MLPSpec{Gate: prefix + "gate_proj", Up: prefix + "up_proj", Down: prefix + "down_proj", Inner: inner, Act: f.activation("hidden_act", "silu")}
	}
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "feed_forward.router", GateUp: "feed_forward.experts.gate_up_proj", DownAll: "feed_forward.experts.down_proj"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", 1), Score: SigmoidScore},
		Experts:     f.int("num_local_experts", 16),
		Inner:       f.Intermediate,
		Act:         f.activation("hidden_act", "silu"),
		Layout:      Transposed,
		ScoreInput:  true,
		Shared:      []MLPSpec{network("feed_forward.shared_expert.", f.Intermediate)},
	}
	f.checkExperts(&e)
	f.layers(func(i int, l *Layer) {
		rotated := (i+1)%max(every, 1) != 0
		if len(noRope) > 0 {
			rotated = noRope[i] != 0
		}
		a := f.attention()
		a.Rope = NoRope
		a.QKVBias = f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		switch {
		case rotated:
			a.Rope, a.NormAfterRope = rope, true
			if f.bool("use_qk_norm", true) {
				a.QNorm, a.KNorm = f.norm(Unweighted), f.norm(Unweighted)
			}
		case f.bool("attn_temperature_tuning", true):
			a.Temper = Temper{Beta: f.float32("attn_scale", 0.1), Floor: f.float32("floor_scale", 8192), Shift: 1}
		}
		if chunked := types == nil && rotated || types != nil && types[i] == "chunked_attention"; chunked {
			a.Chunk = f.int("attention_chunk_size", 8192)
		}
		l.InNorm, l.Mixers, l.FeedNorm = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm")
		if moe == nil && (i+1)%moeEvery == 0 || slices.Contains(moe, i) {
			l.Feeds = []Feed{e}
		} else {
			l.Feeds = []Feed{network("feed_forward.", f.int("intermediate_size_mlp", 16384))}
		}
	})
}
