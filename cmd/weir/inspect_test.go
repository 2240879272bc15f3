package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testkit"
	"weir/weights"
)

// writeModel writes a folder with a config.json and a checkpoint.
func writeModel(t *testing.T, config string, tensors []weights.Tensor) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, data := range map[string][]byte{"config.json": []byte(config), "model.safetensors": testkit.Safetensors(tensors)} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// zeros is a tensor of bfloat16.
func zeros(name string, shape ...int) weights.Tensor {
	t := weights.Tensor{Name: name, DType: weights.BF16, Shape: shape}
	t.Data = make([]byte, 2*t.Len())
	return t
}

// expertModel is a network with experts, of an architecture that weir does not know.
func expertModel(t *testing.T) string {
	tensors := []weights.Tensor{zeros("model.embed_tokens.weight", 100, 16), zeros("lm_head.weight", 100, 16), zeros("model.norm.weight", 16)}
	for _, name := range []string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "block_sparse_moe.gate"} {
		tensors = append(tensors, zeros("model.layers.0."+name+".weight", 16, 16))
	}
	for _, expert := range []string{"0", "1", "2", "3"} {
		for _, name := range []string{"w1", "w2", "w3"} {
			tensors = append(tensors, zeros("model.layers.0.block_sparse_moe.experts."+expert+"."+name+".weight", 16, 32))
		}
	}
	return writeModel(t, `{"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "max_position_embeddings": 32768, "num_local_experts": 4, "num_experts_per_tok": 2}`, tensors)
}

// TestInspect: what weir inspect prints of models, as a table and as JSON, and its exit status.
func TestInspect(t *testing.T) {
	t.Parallel()
	noTokenizer, harmony := copyModel(t), copyModel(t)
	remove("tokenizer.json")(t, noTokenizer)
	template := "{%- for m in messages -%}<|start|>{{ m.role }}<|channel|>final<|message|>{{ m.content }}{%- endfor -%}"
	if err := os.WriteFile(filepath.Join(harmony, "chat_template.jinja"), []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, dir string
		args      string
		code      int
	}{
		{"bundled", "", "", 0},
		{"bundled-json", "", "--json", 0},
		{"bundled-q4", "", "--quantization q4", 0},
		{"harmony", harmony, "", 0},
		{"no-tokenizer", noTokenizer, "", 1},
		{"experts", expertModel(t), "", 1},
		{"experts-json", expertModel(t), "--json", 1},
		{"no-weights", writeModel(t, `{"architectures": ["GPT2LMHeadModel"]}`, nil), "", 1},
	} {
		args := append([]string{"inspect", "--cpu", "generic"}, strings.Fields(c.args)...)
		if c.dir != "" {
			args = append(args, c.dir)
		}
		code, out, errOut := runWeir(args...)
		if code != c.code || strings.Count(errOut, "\n") != c.code || c.code == 1 && !strings.Contains(errOut, "cannot be served: ") {
			t.Errorf("%s: exit %d: %s", c.name, code, errOut)
		}
		if c.dir != "" {
			out = strings.ReplaceAll(out, c.dir, "DIR")
		}
		testkit.Golden(t, "testdata/inspect/"+c.name+".txt", []byte(out))
		if strings.Contains(c.args, "--json") && !json.Valid([]byte(out)) {
			t.Errorf("%s: no JSON: %s", c.name, out)
		}
	}
}

// TestInspectNothing: what is no model at all is one sentence and status 1, a wrong flag status 2.
func TestInspectNothing(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"/nonexistent"}, 1, "/nonexistent is not a model"},
		{[]string{t.TempDir()}, 1, "config.json"},
		{[]string{"a", "b"}, 2, "inspect takes one model"},
		{[]string{"--dtype", "int3"}, 2, "int3"},
	} {
		code, out, errOut := runWeir(append([]string{"inspect"}, c.args...)...)
		if code != c.code || out != "" || strings.Count(errOut, "\n") != 1 || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: exit %d: %s%s", c.args, code, out, errOut)
		}
	}
}

// TestInspectDamaged: a damaged header is described as far as that goes, and says what is wrong with it
// once.
func TestInspectDamaged(t *testing.T) {
	dir := copyModel(t)
	if err := os.Truncate(filepath.Join(dir, "model.safetensors"), 1<<20); err != nil {
		t.Fatal(err)
	}
	code, out, errOut := runWeir("inspect", dir)
	if code != 1 || !strings.Contains(out, "Qwen3ForCausalLM") || strings.Count(out, "model.safetensors") != 1 || !strings.Contains(errOut, "model.safetensors") {
		t.Errorf("exit %d:\n%s%s", code, out, errOut)
	}
}

// TestKindOf: names of tensors in checkpoints of Hugging Face and in GGUF files.
func TestKindOf(t *testing.T) {
	for name, want := range map[string]string{
		"model.embed_tokens.weight": "embedding", "token_embd.weight": "embedding",
		"model.layers.3.self_attn.q_proj.weight": "attention q", "blk.3.attn_q.weight": "attention q",
		"model.layers.3.self_attn.q_norm.weight": "norms", "blk.3.attn_q_norm.weight": "norms", "model.norm.weight": "norms", "output_norm.weight": "norms",
		"model.layers.3.self_attn.k_proj.bias": "attention k", "blk.3.attn_v.weight": "attention v", "blk.3.attn_qkv.weight": "attention q, k, v",
		"model.layers.3.self_attn.o_proj.weight": "attention o", "blk.3.attn_output.weight": "attention o",
		"model.layers.3.mlp.gate_proj.weight": "gate", "blk.3.ffn_gate.weight": "gate", "blk.3.ffn_up.weight": "up", "blk.3.ffn_down.weight": "down",
		"model.layers.3.mlp.gate_up_proj.weight":              "gate and up",
		"model.layers.3.block_sparse_moe.experts.0.w1.weight": "experts",
		"model.layers.3.mlp.experts.12.gate_proj.weight":      "experts",
		"model.layers.3.mlp.shared_experts.gate_proj.weight":  "gate",
		"blk.3.ffn_gate_exps.weight":                          "experts",
		"blk.3.ffn_gate_inp.weight":                           "router",
		"model.layers.3.mlp.gate.weight":                      "router",
		"lm_head.weight":                                      "head",
		"output.weight":                                       "head",
		"rope_freqs.weight":                                   "other",
	} {
		if got := kindNames[kindOf(name)].kind; got != want {
			t.Errorf("%s is of the kind %s, want %s", name, got, want)
		}
	}
}

// TestGrouped: numbers with commas.
func TestGrouped(t *testing.T) {
	var b bytes.Buffer
	for _, n := range []int64{0, 7, 999, 1000, 12345, 123456, 1234567, -1000, -100} {
		b.WriteString(grouped(n) + " ")
	}
	if want := "0 7 999 1,000 12,345 123,456 1,234,567 -1,000 -100 "; b.String() != want {
		t.Error(b.String())
	}
}
