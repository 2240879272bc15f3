package main

import (
	"fmt"
	"slices"
	"strings"

	"weir/weights"
)

// A layerKind is the tensors of one kind in all layers, and how they are stored.
type layerKind struct {
	Kind       string       `json:"kind"`
	Tensors    int          `json:"tensors"`
	Parameters int64        `json:"parameters"`
	Bytes      int64        `json:"bytes"`
	Types      []storedType `json:"types"` // the most frequent first
}

type storedType struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
}

// kindNames are the kinds in the order of the table, and the words of tensors' names by which
// they are known: those of Hugging Face's checkpoints and, after them, of GGUF files. The first
// kind that matches counts.
var kindNames = []struct {
	kind  string
	words []string
}{
	{"embedding", []string{"embed_tokens", "wte", "word_embeddings", "embed_in", "token_embd", "tok_embeddings", "position_embeddings", "token_type_embeddings"}},
	{"attention q", []string{"q_proj", "attn_q", "q_a_proj", "q_b_proj", "attn_q_a", "attn_q_b", "query"}},
	{"attention k", []string{"k_proj", "attn_k", "key"}},
	{"attention v", []string{"v_proj", "attn_v", "value"}},
	{"attention q, k, v", []string{"qkv_proj", "c_attn", "query_key_value", "attn_qkv", "Wqkv"}},
	{"attention o", []string{"o_proj", "attn_output", "out_proj"}},
	{"gate", []string{"gate_proj", "ffn_gate", "w1", "fc12"}},
	{"up", []string{"up_proj", "ffn_up", "w3", "fc11", "intermediate"}},
	{"gate and up", []string{"gate_up_proj", "Wi"}},
	{"down", []string{"down_proj", "ffn_down", "w2", "fc2"}},
	{"experts", []string{"experts", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}},
	{"router", []string{"gate", "router", "ffn_gate_inp"}},
	{"norms", []string{"norm", "layernorm", "input_layernorm", "post_attention_layernorm", "q_norm", "k_norm", "attn_norm", "ffn_norm",
		"attn_q_norm", "attn_k_norm", "output_norm", "ln_f", "ln_1", "ln_2", "LayerNorm", "emb_ln", "norm1", "norm2", "mlp_norm", "final_norm", "pre_feedforward_layernorm", "post_feedforward_layernorm"}},
	{"head", []string{"lm_head", "output", "embed_out"}},
	{"biases", []string{"bias"}},
	{"other", nil},
}

// outputs are products of which BERT and ModernBERT say where they are and not what they do.
var outputs = strings.NewReplacer("attention.output.dense", "attn_output", "output.dense", "ffn_down", "attn.Wo", "attn_output", "mlp.Wo", "ffn_down")

// kindOf is the place in kindNames of a tensor's kind.
func kindOf(name string) int {
	name = outputs.Replace(name)
	words := strings.Split(name, ".")
	for i, k := range kindNames {
		if k.kind == "experts" && !strings.Contains(name, "shared") && matchesAny(words, k.words) {
			return i
		}
	}
	for i, k := range kindNames {
		if k.kind != "experts" && strings.HasSuffix(name, ".bias") == (k.kind == "biases") && matchesAny(words, k.words) {
			return i
		}
	}
	return len(kindNames) - 1
}

func matchesAny(words, known []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(known, w) })
}

// layerKinds counts tensors by kind.
type layerKinds struct {
	by         map[int]*layerKind
	parameters int64
	experts    int64 // parameters of the experts of all layers
}

func (l *layerKinds) add(t *weights.Tensor) {
	if l.by == nil {
		l.by = map[int]*layerKind{}
	}
	i := kindOf(t.Name)
	k := l.by[i]
	if k == nil {
		k = &layerKind{Kind: kindNames[i].kind}
		l.by[i] = k
	}
	n := int64(t.Len())
	k.Tensors++
	k.Parameters += n
	k.Bytes += storedBytes(t)
	l.parameters += n
	if k.Kind == "experts" {
		l.experts += n
	}
	name := t.TypeName()
	at := slices.IndexFunc(k.Types, func(s storedType) bool { return s.Type == name })
	if at < 0 {
		at = len(k.Types)
		k.Types = append(k.Types, storedType{Type: name})
	}
	k.Types[at].Tensors++
}

// list is all kinds that there are, in the order of the table.
func (l *layerKinds) list() []layerKind {
	list := []layerKind{}
	for i := range kindNames {
		k := l.by[i]
		if k == nil {
			continue
		}
		slices.SortStableFunc(k.Types, func(a, b storedType) int { return b.Tensors - a.Tensors })
		list = append(list, *k)
	}
	return list
}

// types is how the tensors of a kind are stored, for people.
func (k *layerKind) types() string {
	if len(k.Types) == 1 {
		return k.Types[0].Type
	}
	var list []string
	for _, t := range k.Types {
		list = append(list, fmt.Sprintf("%d %s", t.Tensors, t.Type))
	}
	return strings.Join(list, ", ")
}
