package model

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
)

// Older families in GGUF files: GPT-2, StarCoder, GPT-NeoX, Phi-1 and 2, Falcon, BLOOM and MPT (llama.cpp,
// conversion/{gpt2,starcoder,gptneox,phi,falcon,bloom,mpt}.py, and src/models for what the converter leaves out). The converter turns
// GPT-2's products over, and puts the rows of queries, keys and values into one order, whatever a checkpoint has.

func init() {
	norms := map[string]string{"output_norm.bias": "model.norm.bias", "position_embd.weight": "model.positions.weight"}
	whole := func(more ...string) map[string]string {
		m := maps.Clone(norms)
		for _, name := range more {
			m[name] = strings.NewReplacer("token_embd_norm", "model.embed_norm", "output", "lm_head").Replace(name)
		}
		return m
	}
	qkv := map[string]string{"attn_qkv": "self_attn.qkv_proj"}
	maps.Copy(ggufRecipes, map[string]ggufRecipe{
		"gpt2": {arch: "GPT2LMHeadModel", names: qkv, whole: whole(), describe: olderStored, fields: olderFields},
		"starcoder": {arch: "GPTBigCodeForCausalLM", names: qkv, whole: whole(), describe: olderStored, fields: func(g *ggufModel, f map[string]any) {
			olderFields(g, f)
			f["multi_query"] = g.int("attention.head_count_kv") == 1
		}},
		"gptneox": {arch: "GPTNeoXForCausalLM", names: qkv, whole: whole(), describe: olderStored, fields: func(g *ggufModel, f map[string]any) {
			olderFields(g, f)
			g.wholeHeads(f)
			g.required("use_parallel_residual")
			f["use_parallel_residual"] = g.truth("use_parallel_residual")
		}},
		"phi2": {arch: "PhiForCausalLM", names: qkv, whole: whole("output.bias"), describe: olderStored, fields: func(g *ggufModel, f map[string]any) {
			olderFields(g, f)
			g.wholeHeads(f)
		}},
		"bloom": {arch: "BloomForCausalLM", names: qkv, whole: whole("token_embd_norm.weight", "token_embd_norm.bias"), describe: olderStored, fields: olderFields},
		"falcon": {arch: "FalconForCausalLM", whole: whole(), describe: olderStored, fields: falconOldFields,
			names: map[string]string{"attn_qkv": "self_attn.qkv_proj", "attn_norm_2": "input_layernorm_2"}},
		"mpt": {arch: "MPTForCausalLM", names: qkv, whole: whole(), describe: olderStored, fields: mptFields},
	})
}

// required remembers an error if one of the keys is missing.
func (g *ggufModel) required(keys ...string) {
	for _, key := range keys {
		if _, ok := g.value(key); !ok {
			g.wrong(key, errors.New("is missing"))
		}
	}
}

// olderFields are those of all these families. The converter writes that the feed-forward network is four times as wide as the residual
// stream, whatever it is, so that its tensors say it.
func olderFields(g *ggufModel, f map[string]any) {
	g.required("context_length", "embedding_length", "block_count", "attention.head_count", "attention.layer_norm_epsilon")
	if eps := g.float("attention.layer_norm_epsilon"); eps != nil {
		f["layer_norm_epsilon"], f["layer_norm_eps"] = *eps, *eps
	}
	if rows := g.rows("ffn_up.weight"); rows > 0 {
		f["intermediate_size"] = rows
	}
}

// wholeHeads: heads are rotated as a whole if no key says how much of them is.
func (g *ggufModel) wholeHeads(f map[string]any) {
	head, _ := f["head_dim"].(int)
	if n := g.int("rope.dimension_count"); n > head {
		g.wrong("rope.dimension_count", fmt.Errorf("is %d, and a head has %d numbers", n, head))
	}
	if p, ok := f["rope_parameters"].(map[string]any); ok && p["partial_rotary_factor"] == nil {
		p["partial_rotary_factor"] = 1.0
	}
}

// falconOldFields: all files are of models with rotated heads and parallel parts. Those of one norm are like the later ones with as many
// heads of keys and values as there are.
func falconOldFields(g *ggufModel, f map[string]any) {
	olderFields(g, f)
	f["new_decoder_architecture"], f["num_ln_in_parallel_attn"] = true, 1
	if g.in("attn_norm_2.weight") {
		f["num_ln_in_parallel_attn"] = 2
	}
	f["num_kv_heads"] = cmp.Or(g.int("attention.head_count_kv"), g.int("attention.head_count"))
	f["bias"] = g.in("attn_qkv.bias")
}

func mptFields(g *ggufModel, f map[string]any) {
	olderFields(g, f)
	if g.hasAny("position_embd.weight") {
		g.wrong("attention.max_alibi_bias", errors.New("goes with learned positions: the tensor position_embd.weight (supported: without them)"))
	}
	hidden, _ := f["hidden_size"].(int)
	if inner, _ := f["intermediate_size"].(int); hidden > 0 {
		if inner%hidden != 0 {
			g.wrong("embedding_length", fmt.Errorf("is %d, of which the %d rows of ffn_up.weight are not a multiple", hidden, inner))
		}
		f["expansion_ratio"] = inner / hidden
	}
	how := map[string]any{"alibi": true}
	switch most := g.positive("attention.max_alibi_bias"); {
	case most != nil:
		how["alibi_bias_max"] = *most
	default:
		g.wrong("attention.max_alibi_bias", errors.New("is missing or 0, so that scores would not fall with distance (supported: numbers in (0, 64])"))
	}
	if clip := g.positive("attention.clamp_kqv"); clip != nil {
		how["clip_qkv"] = *clip
	}
	f["attn_config"] = how
}

// olderStored gives tensors the names that those of all files get.
func olderStored(g *ggufModel, n *Network) {
	n.Embed, n.Head, n.Final.Name = strings.TrimSuffix(embedName, ".weight"), "", "model.norm"
	if n.EmbedNorm.Is() {
		n.EmbedNorm.Name = "model.embed_norm"
	}
	if n.Positions != "" {
		n.Positions = "model.positions"
	}
	for i := range n.Layers {
		l := &n.Layers[i]
		l.At, l.InNorm.Name = fmt.Sprintf("model.layers.%d.", i), "input_layernorm"
		switch {
		case l.Parallel && l.FeedNorm.Is() && g.arch == "falcon":
			l.InNorm.Name, l.FeedNorm.Name = "input_layernorm_2", "input_layernorm"
		case l.FeedNorm.Is():
			l.FeedNorm.Name = "post_attention_layernorm"
		}
		a, _ := l.Mixers[0].(AttentionSpec)
		a.AttentionNames = AttentionNames{Q: "self_attn.q_proj", K: "self_attn.k_proj", V: "self_attn.v_proj", O: "self_attn.o_proj"}
		if g.hasAny(layerTensor(i, "attn_qkv.weight")) {
			a.QKV = "self_attn.qkv_proj"
		}
		m, _ := l.Feeds[0].(MLPSpec)
		m.Up, m.Down, m.Turned = "mlp.up_proj", "mlp.down_proj", false
		l.Mixers, l.Feeds = []Mixer{a}, []Feed{m}
	}
}
