package model

import (
	"cmp"
	"math"
)

// Networks whose scores fall with distance instead of any positions (Press et al., "Train Short, Test Long", 2021): BigScience's BLOOM,
// MosaicML's MPT, and some of TII's Falcons, the others of which rotate their heads, as transformers/models/{bloom,mpt,falcon} have
// them.

func init() {
	recipes["BloomForCausalLM"] = recipe{modelType: "bloom", read: bloom, prefix: "transformer."}
	recipes["MptForCausalLM"] = recipe{modelType: "mpt", read: mpt, prefix: "transformer."}
	recipes["MPTForCausalLM"] = recipe{modelType: "mpt", read: mpt, prefix: "transformer."} // in checkpoints that bring code of their own
	recipes["FalconForCausalLM"] = recipe{modelType: "falcon", read: falcon, prefix: "transformer."}
	recipes["RWForCausalLM"] = recipe{modelType: "RefinedWebModel", read: falcon, prefix: "transformer."} // the same
}

// alibi are the slopes of heads: a geometric sequence for the greatest power of two, and between them for the heads beyond.
func alibi(heads int, factor float64) []float32 {
	var slopes []float32
	power := 1
	for 2*power <= heads {
		power *= 2
	}
	for i := range heads {
		exponent := -8 * float64(i+1) / float64(power)
		if i >= power {
			exponent = -8 * (float64(i-power) + 0.5) / float64(power)
		}
		slopes = append(slopes, float32(math.Exp2(exponent)*factor))
	}
	return slopes
}

// mptAlibi are the slopes of heads up to the power of two that is not less, of which every second one comes first. The last slope of a power
// of two is 2 to the power of -most.
func mptAlibi(heads int, most float64) []float32 {
	power := 1
	for power < heads {
		power *= 2
	}
	var all, slopes []float32
	for i := range power {
		all = append(all, float32(1/math.Exp2(most*float64(i+1)/float64(power))))
	}
	if power == heads {
		return all
	}
	for first := range 2 {
		for i := 1 - first; i < power && len(slopes) < heads; i += 2 {
			slopes = append(slopes, all[i])
		}
	}
	return slopes
}

func bloom(f *fields) {
	f.renamed = map[string]string{"hidden_size": "n_embed", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "max_position_embeddings": "seq_length"}
	f.usual(usual{maxPositions: 2048, eps: 1e-5, epsName: "layer_norm_epsilon", tied: true})
	if f.bool("apply_residual_connection_post_layernorm", false) {
		f.unsupported("apply_residual_connection_post_layernorm", true, "false")
	}
	n := &f.Network
	f.below, f.Intermediate = "h", 4*f.Hidden
	n.Embed, n.EmbedNorm, n.Final = f.prefix+"word_embeddings", f.layerNorm(f.prefix+"word_embeddings_layernorm"), f.layerNorm("ln_f")
	slopes := f.slopes(func() []float32 { return alibi(f.Heads, 1) })
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.AttentionNames = AttentionNames{QKV: "self_attention.query_key_value", O: "self_attention.dense", Order: ByKVHead}
		a.Rope, a.QKVBias, a.OutBias, a.Slopes = NoRope, true, true, slopes
		m := MLPSpec{Up: "mlp.dense_h_to_4h", Down: "mlp.dense_4h_to_h", Inner: f.Intermediate, Bias: true, Act: Activation{Kind: GELUTanh}}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.layerNorm("input_layernorm"), []Mixer{a}, f.layerNorm("post_attention_layernorm"), []Feed{m}
	})
}

// slopes makes slopes unless there are so many heads that something is wrong.
func (f *fields) slopes(of func() []float32) []float32 {
	const most = 1 << 12
	if f.Heads > most {
		f.bad("num_attention_heads %d is more than %d", f.Heads, most)
		return nil
	}
	return of()
}

// mpt has no biases at all, not even in its norms about the mean.
func mpt(f *fields) {
	f.renamed = map[string]string{"hidden_size": "d_model", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "max_position_embeddings": "max_seq_len"}
	f.usual(usual{maxPositions: 2048, eps: 1e-5, epsName: "layer_norm_epsilon", tied: true})
	how := get(f, "attn_config", struct {
		ALiBi *bool    `json:"alibi"`
		Most  float64  `json:"alibi_bias_max"`
		Clip  *float64 `json:"clip_qkv"`
		Scale *float32 `json:"softmax_scale"`
		Norm  bool     `json:"qk_ln"`
		Type  string   `json:"attn_type"`
	}{})
	how.Type, how.Most = cmp.Or(how.Type, "multihead_attention"), cmp.Or(how.Most, 8)
	switch {
	case how.ALiBi == nil || !*how.ALiBi:
		f.unsupported("attn_config.alibi", false, "true")
	case how.Norm || how.Type != "multihead_attention":
		f.unsupported("attn_config", "with qk_ln or with attn_type "+how.Type, "multihead_attention without qk_ln")
	case !f.bool("no_bias", true):
		f.unsupported("no_bias", false, "true")
	case how.Most != 8 && f.Architecture == "MptForCausalLM": // transformers passes over it, and MosaicML's code does not
		f.unsupported("attn_config.alibi_bias_max", how.Most, "8")
	case !(how.Most > 0 && how.Most <= 64):
		f.unsupported("attn_config.alibi_bias_max", how.Most, "numbers in (0, 64]")
	}
	if v, ok := f.member("logit_scale"); ok {
		f.unsupported("logit_scale", string(v), "null")
	}
	norm := func(name string) NormSpec { return NormSpec{Name: name, Kind: LayerNorm, Eps: f.NormEps} }
	f.below, f.Intermediate = "blocks", f.int("expansion_ratio", 4)*f.Hidden
	f.Network.Embed, f.Network.Final = f.prefix+"wte", norm("norm_f")
	slopes := f.slopes(func() []float32 { return mptAlibi(f.Heads, how.Most) })
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.AttentionNames, a.Rope, a.Slopes = AttentionNames{QKV: "attn.Wqkv", O: "attn.out_proj"}, NoRope, slopes
		if how.Clip != nil {
			a.Clip = f.clip(*how.Clip)
		}
		if how.Scale != nil {
			a.Scale = *how.Scale
		}
		m := MLPSpec{Up: "ffn.up_proj", Down: "ffn.down_proj", Inner: f.Intermediate, Act: Activation{Kind: GELU}}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = norm("norm_1"), []Mixer{a}, norm("norm_2"), []Feed{m}
	})
}

// falcon has parallel parts with one norm or with one for each, or parts that follow each other.
func falcon(f *fields) {
	f.renamed = map[string]string{"hidden_size": "n_embed", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "intermediate_size": "ffn_hidden_size", "hidden_act": "activation"}
	f.usual(usual{maxPositions: 2048, eps: 1e-5, epsName: "layer_norm_epsilon", tied: true})
	if f.Intermediate == 0 {
		f.Intermediate = 4 * f.Hidden
	}
	wide, bias := f.bool("new_decoder_architecture", false), f.bool("bias", false)
	switch {
	case wide:
		f.KVHeads = f.int("num_kv_heads", f.Heads)
	case f.bool("multi_query", true):
		f.KVHeads = 1
	}
	f.below = "h"
	f.Network.Embed, f.Network.Final = f.prefix+"word_embeddings", f.layerNorm("ln_f")
	rope, slopes := NoRope, []float32(nil)
	if f.bool("alibi", false) {
		slopes = f.slopes(func() []float32 { return alibi(f.Heads, 1/math.Sqrt(float64(f.HeadDim))) })
	} else {
		rope = f.rope(f.HeadDim, ropeKind{})
	}
	parallel := f.bool("parallel_attn", true)
	norms := 1
	if wide {
		norms = f.int("num_ln_in_parallel_attn", 2)
	}
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.AttentionNames = AttentionNames{QKV: "self_attention.query_key_value", O: "self_attention.dense", Order: ByKVHead}
		a.Rope, a.Slopes, a.QKVBias, a.OutBias = rope, slopes, bias, bias
		m := MLPSpec{Up: "mlp.dense_h_to_4h", Down: "mlp.dense_4h_to_h", Inner: f.Intermediate, Bias: bias, Act: f.activation("hidden_act", "gelu")}
		l.InNorm, l.Mixers, l.Feeds, l.Parallel = f.layerNorm("input_layernorm"), []Mixer{a}, []Feed{m}, parallel || wide
		switch {
		case !l.Parallel:
			l.FeedNorm = f.layerNorm("post_attention_layernorm")
		case norms == 2:
			l.InNorm, l.FeedNorm = f.layerNorm("ln_attn"), f.layerNorm("ln_mlp")
		}
	})
}
