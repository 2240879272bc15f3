package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
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
	return writeModel(t, `{"architectures": ["JetMoeForCausalLM"], "model_type": "mixtral", "max_position_embeddings": 32768, "num_local_experts": 4, "num_experts_per_tok": 2}`, tensors)
}

// mixedGGUF is the bundled model as a GGUF file, with zeros of a type of blocks of 256 columns in all
// matrices, and of another one in ffn_down.
func mixedGGUF(t *testing.T, most, down uint32) (path string) {
	bytes := map[uint32]int{12: 144, 14: 210, 17: 74} // Q4_K, Q6_K, IQ2_XS (ggml-common.h)
	g := tinyGGUF(t)
	for i := range g.Tensors {
		tensor := &g.Tensors[i]
		if len(tensor.Shape) != 2 {
			continue
		}
		tensor.Type = most
		if strings.Contains(tensor.Name, "ffn_down") {
			tensor.Type = down
		}
		tensor.Data = make([]byte, int(tensor.Shape[0]*tensor.Shape[1])/256*bytes[tensor.Type])
	}
	return writeGGUF(t, "model.gguf", g)
}

// unknownGGUF is a file of an architecture that weir does not know, with experts.
func unknownGGUF(t *testing.T) (path string) {
	g := &testkit.GGUF{}
	g.Set("general.architecture", "dbrx")
	g.Set("dbrx.context_length", uint32(4096))
	g.Set("dbrx.expert_count", uint32(8))
	g.Set("dbrx.expert_used_count", uint32(2))
	for name, rows := range map[string]uint64{"token_embd.weight": 100, "blk.0.attn_q.weight": 32, "blk.0.ffn_up_exps.weight": 8 * 64} {
		g.Tensors = append(g.Tensors, testkit.GGUFTensor{Name: name, Type: 8, Shape: []uint64{32, rows}, Data: make([]byte, rows*34)}) // Q8_0
	}
	return writeGGUF(t, "model.gguf", g)
}

// supportedCount is how many architectures a refusal says there are.
var supportedCount = regexp.MustCompile(`supported: the [1-9][0-9]+ that`)

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
		{"gguf", mixedGGUF(t, 12, 14), "", 0},
		{"gguf-exact", mixedGGUF(t, 12, 14), "--dtype float32", 0},
		{"gguf-requantized", mixedGGUF(t, 12, 14), "--quantization q4", 1},
		{"gguf-coarse", mixedGGUF(t, 17, 17), "", 1},
		{"gguf-coarse-allowed", mixedGGUF(t, 17, 17), "--allow-converted-weights", 0},
		{"gguf-unknown", unknownGGUF(t), "", 1},
		{"no-weights", writeModel(t, `{"architectures": ["XLNetLMHeadModel"]}`, nil), "", 1},
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
			out = strings.ReplaceAll(out, c.dir, "MODEL")
		}
		out = supportedCount.ReplaceAllString(out, "supported: the N that") // it grows with every family
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
		"model.layers.3.self_attn.k_proj.bias": "biases", "blk.3.attn_k.bias": "biases", "blk.3.attn_v.weight": "attention v", "blk.3.attn_qkv.weight": "attention q, k, v",
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
