package model

import (
	"errors"
	"fmt"
	"maps"
	"strings"
)

// Encoders in GGUF files (llama.cpp, conversion/{bert,gemma}.py, and src/models/{bert,modern-bert,gemma-embedding}.cpp for what the
// converter leaves out). RoBERTa and XLM-R say bert, too: their first rows of embeddings of positions, which no token has, are not stored.
// What follows the network, the head of a classifier or dense layers, lies beside it, and is package pooling's.

func init() {
	maps.Copy(ggufRecipes, map[string]ggufRecipe{
		"bert": {arch: "BertModel", encoder: true, fields: bertFields, describe: encoderStored, whole: encoderWhole, names: map[string]string{
			"attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value", "attn_qkv": "attention.self.qkv", "attn_output": "attention.output.dense",
			"attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense", "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm"}},
		"nomic-bert": {arch: "NomicBertModel", encoder: true, fields: bertFields, describe: encoderStored, whole: encoderWhole, names: map[string]string{
			"attn_qkv": "attn.Wqkv", "attn_output": "attn.out_proj", "attn_output_norm": "norm1", "ffn_gate": "mlp.fc12", "ffn_up": "mlp.fc11", "ffn_down": "mlp.fc2",
			"layer_output_norm": "norm2"}},
		"modern-bert": {arch: "ModernBertModel", encoder: true, fields: modernFields, describe: encoderStored, whole: encoderWhole, names: map[string]string{
			"attn_norm": "attn_norm", "attn_qkv": "attn.Wqkv", "attn_output": "attn.Wo", "ffn_norm": "mlp_norm", "ffn_up": "mlp.Wi", "ffn_down": "mlp.Wo"}},
		"gemma-embedding": {arch: "Gemma3ForCausalLM", encoder: true, fields: gemmaEmbeddingFields, describe: withOnes, whole: encoderWhole, names: gemmaNames},
	})
}

// encoderWhole are the tensors of encoders that are not in layers, and of what follows them.
var encoderWhole = func() map[string]string {
	m := map[string]string{"token_embd_norm.weight": "model.embed_norm.weight", "token_embd_norm.bias": "model.embed_norm.bias", "position_embd.weight": "model.positions.weight",
		"token_types.weight": "model.token_types.weight", "output_norm.bias": "model.norm.bias"}
	for _, name := range ggufHeads {
		m[name] = name
	}
	return m
}()

// ggufHeads are the tensors behind a network that embeds or ranks.
var ggufHeads = []string{"cls.weight", "cls.bias", "cls.norm.weight", "cls.output.weight", "cls.output.bias", "dense_2.weight", "dense_3.weight"}

// ggufRank is the pooling_type of a network whose answer is a score (llama.cpp, enum llama_pooling_type).
const ggufRank = 4

// encoderStored gives the tensors of an encoder the names that those of all files get.
func encoderStored(g *ggufModel, n *Network) {
	n.Embed = strings.TrimSuffix(embedName, ".weight")
	n.EmbedNorm.Name = "model.embed_norm"
	for name, at := range map[string]*string{"model.positions": &n.Positions, "model.token_types": &n.Types, "model.norm": &n.Final.Name} {
		if *at != "" {
			*at = name
		}
	}
	for i := range n.Layers {
		l := &n.Layers[i]
		l.At = fmt.Sprintf("model.layers.%d.", i)
		a, ok := l.Mixers[0].(AttentionSpec)
		if ok && a.QKV == "" && g.hasAny(layerTensor(i, "attn_qkv.weight")) { // the converter's option --fuse-qkv
			a.QKV = "attention.self.qkv"
			l.Mixers = []Mixer{a}
		}
	}
}

// encoderEps is the eps of norms about the mean, which the converter takes for one of other norms by some names in a config.json.
func (g *ggufModel) encoderEps(f map[string]any, field string) {
	for _, key := range []string{"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"} {
		if eps := g.positive(key); eps != nil {
			f[field] = *eps
		}
	}
}

func bertFields(g *ggufModel, f map[string]any) {
	g.encoderEps(f, "layer_norm_eps")
	f["type_vocab_size"] = 0
	if t := g.tensors["token_types.weight"]; len(t.Shape) == 2 {
		f["type_vocab_size"] = t.Shape[0]
	}
	if rows, _ := f["max_position_embeddings"].(int); g.arch == "bert" && f["type_vocab_size"] == 1 && rows%64 == 2 {
		// RoBERTa's kin count positions from 2. The converter cuts those rows off, but not of CamemBERT, of which nothing else tells.
		g.wrong("context_length", fmt.Errorf("is %d: two rows of positions that no token has were not cut off, as by llama.cpp's converter of CamemBERT, so that vectors would not be the model's", rows))
	}
	f["tie_word_embeddings"] = false
	f["qkv_proj_bias"] = g.in("attn_qkv.bias")
}

func modernFields(g *ggufModel, f map[string]any) {
	g.encoderEps(f, "norm_eps")
	f["tie_word_embeddings"] = false
	f["local_attention"] = f["sliding_window"]
	if f["local_attention"] == nil {
		g.wrong("attention.sliding_window", errors.New("is missing"))
	}
	f["norm_bias"], f["mlp_bias"] = g.in("output_norm.bias"), g.in("ffn_down.bias")
	if act := g.text("hidden_activation"); act != "" {
		f["hidden_activation"] = act
	}
	g.twoRopes(f)
	if every := g.int("attention.sliding_window_pattern"); every > 0 {
		f["global_attn_every_n_layers"] = every // of which the first one sees all, and not the last
	}
	if list := g.list("attention.sliding_window_pattern"); list != nil {
		f["layer_types"] = g.windowTypes(f)
	}
}

// gemmaEmbeddingFields: the scale of queries and, without a key, which layers have a window follow from sizes, as in llama.cpp.
func gemmaEmbeddingFields(g *ggufModel, f map[string]any) {
	f["use_bidirectional_attention"], f["query_pre_attn_scalar"] = true, f["head_dim"]
	g.twoRopes(f)
	if types := g.windowTypes(f); types != nil {
		f["layer_types"] = types
	}
	for _, key := range []string{"dense_2_feat_in", "dense_2_feat_out", "dense_3_feat_in", "dense_3_feat_out"} {
		g.value(key) // which say the shapes of tensors
	}
}

// headless takes the head off a network that cannot generate: an encoder, or one whose file has the rows of the head that make a score
// in place of all of them, as that of Qwen3-Reranker.
func (g *ggufModel) headless(c *Config) {
	ranks := g.ranks()
	if !ranks && !c.Network.Whole {
		return // a tensor of a head is not expected
	}
	for _, name := range ggufHeads {
		if g.hasAny(name) {
			c.Network.Skip = append(c.Network.Skip, name)
		}
	}
	switch base, generates := strings.CutSuffix(c.Architecture, "ForCausalLM"); {
	case ranks && !c.Network.Whole && !g.hasAny("output.weight"):
		c.dropHead(base + "ForSequenceClassification")
	case c.Network.Whole && generates:
		c.dropHead(base + "TextModel")
	}
}

// ranks reports whether the file has a head that makes scores, in one of the networks of which the converter makes such files.
func (g *ggufModel) ranks() bool {
	return strings.HasPrefix(g.arch, "qwen3") && g.int("pooling_type") == ggufRank && g.hasAny("cls.output.weight")
}
