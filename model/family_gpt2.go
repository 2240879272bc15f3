package model

import (
	"fmt"
	"slices"
)

// OpenAI's GPT-2 and those that have its network with learned positions: EleutherAI's GPT-Neo, BigCode's first models (SantaCoder,
// StarCoder) and Meta's OPT, as transformers/models/{gpt2,gpt_neo,gpt_bigcode,opt} have them.

func init() {
	recipes["GPT2LMHeadModel"] = recipe{modelType: "gpt2", read: gpt2, prefix: "transformer."}
	recipes["GPTNeoForCausalLM"] = recipe{modelType: "gpt_neo", read: gptNeo, prefix: "transformer."}
	recipes["GPTBigCodeForCausalLM"] = recipe{modelType: "gpt_bigcode", read: gptBigCode, prefix: "transformer."}
	recipes["OPTForCausalLM"] = recipe{modelType: "opt", read: opt, prefix: "model.decoder."}
}

// gptNames are the names of settings in the configurations of GPT-2 and its successors, by those of others.
var gptNames = map[string]string{"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "intermediate_size": "n_inner",
	"max_position_embeddings": "n_positions", "hidden_act": "activation_function"}

// gpt reads the fields that GPT-2 and its successors have, and names the embedding, the layers and the last norm as they do.
func (f *fields) gpt(names map[string]string, d usual) {
	f.renamed = names
	d.eps, d.epsName = 1e-5, "layer_norm_epsilon"
	f.usual(d)
	if f.Intermediate == 0 {
		f.Intermediate = 4 * f.Hidden
	}
	f.below = "h"
	f.Network.Embed, f.Network.Final = f.prefix+"wte", f.layerNorm("ln_f")
}

// learned adds an embedding of each position.
func (f *fields) learned(name string, first int) {
	n := &f.Network
	n.Positions, n.NumPositions, n.FirstPos = f.prefix+name, f.MaxSeqTokens+first, first
}

// masks skips what old checkpoints keep of masks, below the part of each layer with that name.
func (f *fields) masks(at string) {
	for _, l := range f.Network.Layers {
		f.Network.Skip = append(f.Network.Skip, l.At+at+".bias", l.At+at+".masked_bias", l.At+at+".causal_mask")
	}
}

// gptMLP is a network without gate, whose products have biases.
func (f *fields) gptMLP(up, down, act string) MLPSpec {
	return MLPSpec{Up: up, Down: down, Inner: f.Intermediate, Bias: true, Act: f.activation("hidden_act", act)}
}

func gpt2(f *fields) {
	f.gpt(gptNames, usual{maxPositions: 1024, tied: true})
	f.learned("wpe", 0)
	f.layers(func(i int, l *Layer) {
		a, m := f.attention(), f.gptMLP("mlp.c_fc", "mlp.c_proj", "gelu_new")
		a.AttentionNames = AttentionNames{QKV: "attn.c_attn", O: "attn.c_proj", Turned: true}
		a.Rope, a.QKVBias, a.OutBias, m.Turned = NoRope, true, true, true
		a.Scale = f.gptScale()
		if f.bool("scale_attn_by_inverse_layer_idx", false) {
			a.Scale /= float32(i + 1)
		}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.layerNorm("ln_1"), []Mixer{a}, f.layerNorm("ln_2"), []Feed{m}
	})
	f.masks("attn")
}

// gptScale is the factor on scores.
func (f *fields) gptScale() float32 {
	if f.bool("scale_attn_weights", true) {
		return inverseRoot(f.HeadDim)
	}
	return 1
}

// gptNeo has a window in every other layer, and does not scale its scores.
func gptNeo(f *fields) {
	f.gpt(map[string]string{"num_attention_heads": "num_heads", "num_hidden_layers": "num_layers", "hidden_act": "activation_function"}, usual{maxPositions: 2048, tied: true})
	f.learned("wpe", 0)
	types := f.neoTypes()
	if len(types) < f.Layers {
		f.bad("attention_types describes %d of %d layers", len(types), f.Layers)
	}
	f.layers(func(i int, l *Layer) {
		a, m := f.attention(), f.gptMLP("mlp.c_fc", "mlp.c_proj", "gelu_new")
		a.AttentionNames = AttentionNames{Q: "attn.attention.q_proj", K: "attn.attention.k_proj", V: "attn.attention.v_proj", O: "attn.attention.out_proj"}
		a.Rope, a.OutBias, a.Scale = NoRope, true, 1
		if types[i] == "local" {
			a.Window = f.window(i, f.int("window_size", 256))
		}
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.layerNorm("ln_1"), []Mixer{a}, f.layerNorm("ln_2"), []Feed{m}
	})
	f.masks("attn.attention")
}

// neoTypes are the kinds of layers, "global" and "local", which a configuration lists as patterns with how often each is repeated.
func (f *fields) neoTypes() (types []string) {
	if types = f.texts("attention_layers"); types != nil {
		return types
	}
	v, ok := f.member("attention_types")
	if !ok {
		return slices.Repeat([]string{"global", "local"}, (f.Layers+1)/2)
	}
	for _, item := range v.Elements() {
		var kinds []string
		times := 0
		for i, part := range item.Elements() {
			if i == 0 && unmarshal(part, &kinds) != nil || i == 1 && unmarshal(part, &times) != nil || i > 1 {
				f.bad("attention_types is not a list of patterns, each with how often it is repeated")
				return nil
			}
		}
		for range min(times, maxLayers) {
			if types = append(types, kinds...); len(types) >= f.Layers {
				return types
			}
		}
	}
	return types
}

// gptBigCode has one head of keys and values.
func gptBigCode(f *fields) {
	f.gpt(gptNames, usual{maxPositions: 1024, tied: true})
	order := InTurn
	if f.KVHeads = min(f.Heads, 1); !f.bool("multi_query", true) {
		f.KVHeads, order = f.Heads, ByKVHead
	}
	f.learned("wpe", 0)
	f.layers(func(_ int, l *Layer) {
		a, m := f.attention(), f.gptMLP("mlp.c_fc", "mlp.c_proj", "gelu_pytorch_tanh")
		a.AttentionNames = AttentionNames{QKV: "attn.c_attn", O: "attn.c_proj", Order: order}
		a.Rope, a.QKVBias, a.OutBias, a.Scale = NoRope, true, true, f.gptScale()
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.layerNorm("ln_1"), []Mixer{a}, f.layerNorm("ln_2"), []Feed{m}
	})
	f.masks("attn")
}

// opt counts positions from 2 on. The model with 350 million parameters is refused: its norms stand behind the parts, and its
// embeddings have a size of their own.
func opt(f *fields) {
	f.renamed = map[string]string{"intermediate_size": "ffn_dim", "hidden_act": "activation_function"}
	f.usual(usual{maxPositions: 2048, eps: 1e-5, tied: true})
	f.NormEps = 1e-5 // which no field changes
	if n := f.int("word_embed_proj_dim", f.Hidden); n != f.Hidden {
		f.unsupported("word_embed_proj_dim", n, fmt.Sprintf("%d, the hidden_size", f.Hidden))
	}
	if !f.bool("do_layer_norm_before", true) || f.bool("_remove_final_layer_norm", false) {
		f.unsupported("do_layer_norm_before", false, "true, with a norm behind the last layer")
	}
	norm, bias := f.layerNorm, f.bool("enable_bias", true)
	if !f.bool("layer_norm_elementwise_affine", true) {
		norm = func(string) NormSpec { return NormSpec{Name: Unweighted, Kind: LayerNorm, Eps: f.NormEps} }
	}
	f.learned("embed_positions", 2)
	f.Network.Final = norm("final_layer_norm")
	m := MLPSpec{Up: "fc1", Down: "fc2", Inner: f.Intermediate, Bias: bias, Act: f.activation("hidden_act", "relu")}
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.O, a.Rope, a.QKVBias, a.OutBias = "self_attn.out_proj", NoRope, bias, bias
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = norm("self_attn_layer_norm"), []Mixer{a}, norm("final_layer_norm"), []Feed{m}
	})
}
