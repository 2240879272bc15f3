package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/internal/testkit"
	"weir/models"
	"weir/weights"
)

// tinyGGUF is the bundled model as a GGUF file.
func tinyGGUF(t *testing.T) *testkit.GGUF {
	t.Helper()
	var tok struct {
		AddedTokens []struct {
			ID      int32
			Special bool
		} `json:"added_tokens"`
		Model struct {
			Vocab  map[string]int32
			Merges [][2]string
		}
	}
	b, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err == nil {
		err = json.Unmarshal(b, &tok)
	}
	if err != nil {
		t.Fatal(err)
	}
	template, err := fs.ReadFile(models.Bundled(), "chat_template.jinja")
	if err != nil {
		t.Fatal(err)
	}
	tokens := make([]string, len(tok.Model.Vocab))
	types := slices.Repeat([]int32{1}, len(tokens))
	for text, id := range tok.Model.Vocab {
		tokens[id] = text
	}
	for _, a := range tok.AddedTokens {
		types[a.ID] = 4
		if a.Special {
			types[a.ID] = 3
		}
	}
	var merges []string
	for _, m := range tok.Model.Merges {
		merges = append(merges, m[0]+" "+m[1])
	}
	g := &testkit.GGUF{Keys: []testkit.GGUFKey{
		{Key: "general.architecture", Value: "qwen3"}, {Key: "general.name", Value: "Weir Tiny"},
		{Key: "qwen3.block_count", Value: uint32(6)}, {Key: "qwen3.context_length", Value: uint32(4096)},
		{Key: "qwen3.embedding_length", Value: uint32(256)}, {Key: "qwen3.feed_forward_length", Value: uint32(768)},
		{Key: "qwen3.attention.head_count", Value: uint32(8)}, {Key: "qwen3.attention.head_count_kv", Value: uint32(4)},
		{Key: "qwen3.attention.key_length", Value: uint32(32)}, {Key: "qwen3.attention.value_length", Value: uint32(32)},
		{Key: "qwen3.attention.layer_norm_rms_epsilon", Value: float32(1e-6)}, {Key: "qwen3.rope.freq_base", Value: float32(10000)},
		{Key: "tokenizer.ggml.model", Value: "gpt2"}, {Key: "tokenizer.ggml.pre", Value: "qwen2"},
		{Key: "tokenizer.ggml.tokens", Value: tokens}, {Key: "tokenizer.ggml.token_type", Value: types}, {Key: "tokenizer.ggml.merges", Value: merges},
		{Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)}, {Key: "tokenizer.ggml.padding_token_id", Value: uint32(0)},
		{Key: "tokenizer.ggml.add_bos_token", Value: false}, {Key: "tokenizer.chat_template", Value: string(template)},
	}}
	c, err := weights.OpenFS(models.Bundled())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	for _, name := range c.Names() {
		x, _ := c.Tensor(name)
		kinds := map[weights.DType]uint32{weights.F32: 0, weights.F16: 1, weights.BF16: 30}
		tensor := testkit.GGUFTensor{Name: ggufTensorName(name), Type: kinds[x.DType], Data: x.Data}
		for _, n := range slices.Backward(x.Shape) {
			tensor.Shape = append(tensor.Shape, uint64(n))
		}
		g.Tensors = append(g.Tensors, tensor)
	}
	return g
}

// ggufTensorName translates a name of transformers in the simplest way.
func ggufTensorName(name string) string {
	return strings.NewReplacer("model.embed_tokens", "token_embd", "model.layers.", "blk.", "post_attention_layernorm", "ffn_norm", "input_layernorm", "attn_norm",
		"self_attn.o_proj", "attn_output", "self_attn.q_proj", "attn_q", "self_attn.k_proj", "attn_k", "self_attn.v_proj", "attn_v",
		"self_attn.q_norm", "attn_q_norm", "self_attn.k_norm", "attn_k_norm",
		"mlp.gate_proj", "ffn_gate", "mlp.up_proj", "ffn_up", "mlp.down_proj", "ffn_down", "model.norm", "output_norm").Replace(name)
}

func writeGGUF(t *testing.T, name string, g *testkit.GGUF) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, g.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestServeGGUF: a GGUF file, whatever its name, answers as the folder that it was made of, under
// the name that is in it, and knows its template and its end tokens.
func TestServeGGUF(t *testing.T) {
	t.Parallel()
	url, stop := startServe(t, writeGGUF(t, "sha256-0123", tinyGGUF(t)), "--enable-tokenizer-info-endpoint")
	original, _ := startServe(t)
	content := func(url string) (text string) {
		code, body := post(t, url, question)
		var answer struct {
			Model   string
			Choices []struct {
				Message      struct{ Content string }
				FinishReason string `json:"finish_reason"`
			}
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil || code != 200 || len(answer.Choices) != 1 {
			t.Fatalf("%d %s, %v", code, body, err)
		}
		return answer.Model + ": " + answer.Choices[0].Message.Content + " " + answer.Choices[0].FinishReason
	}
	got, want := content(url), content(original)
	if strings.Replace(want, models.Name, "Weir Tiny", 1) != got || !strings.HasSuffix(got, " stop") {
		t.Errorf("%q, not %q", got, want)
	}
	_, body, _ := do(t, http.DefaultClient, "GET", url+"/tokenizer_info", "")
	for _, want := range []string{`"eos_token":"\u003c|im_end|\u003e"`, `"chat_template":"{%- if tools -%}`, `"tokenizer_class":"PreTrainedTokenizerFast"`, `"add_bos_token":false`} {
		if !strings.Contains(body, want) {
			t.Errorf("/tokenizer_info lacks %s: %s", want, body)
		}
	}
	// <|endoftext|> ends an answer because of its name.
	if log := stop(); !strings.Contains(log, "eos=2 stop=[0]") || !strings.Contains(log, `model="Weir Tiny"`) {
		t.Error(log)
	}
}

// TestGGUFNames: where a file names no model, the name of the file does.
func TestGGUFNames(t *testing.T) {
	t.Parallel()
	o := &modelOptions{}
	if _, _, err := parseFlags(t, o.bind, noEnv); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name any
		file string
		want string
	}{
		{"A model", "x.gguf", "A model"}, {" ", "Tiny-Q8_0.gguf", "Tiny-Q8_0"}, {"two\nlines", "Tiny.GGUF", "Tiny"},
		{uint32(7), "tiny.v1", "tiny.v1"}, {strings.Repeat("x", 1000), "tiny.gguf", "tiny"},
	} {
		g := tinyGGUF(t)
		g.Set("general.name", c.name)
		s, err := openSource(writeGGUF(t, c.file, g), o)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(s.names, []string{c.want}) {
			t.Errorf("%q, not %q", s.names, c.want)
		}
		if err := s.network.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestGGUFBeginning: a text begins with the BOS token once, whether a template writes it, the file
// asks for it, or both.
func TestGGUFBeginning(t *testing.T) {
	t.Parallel()
	g := tinyGGUF(t)
	g.Set("tokenizer.ggml.bos_token_id", uint32(1))
	g.Set("tokenizer.ggml.add_bos_token", true)
	g.Set("tokenizer.chat_template", "{{ bos_token }}{{ messages[0].content }}")
	url, _ := startServe(t, writeGGUF(t, "m.gguf", g), "--device", "sim")
	for _, c := range []struct {
		body string
		want bool // at the beginning
	}{
		{`{"prompt":"Hello"}`, true},
		{`{"prompt":"Hello world","add_special_tokens":false}`, false},
		{`{"prompt":"<|im_start|>Hello"}`, true},
		{`{"messages":[{"role":"user","content":"Hello"}]}`, true},
		{`{"messages":[{"role":"user","content":"Hello"}],"add_special_tokens":true}`, true},
	} {
		_, body, _ := do(t, http.DefaultClient, "POST", url+"/tokenize", c.body)
		var answer struct{ Tokens []int32 }
		if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Tokens) < 2 {
			t.Errorf("%s: %s, %v", c.body, body, err)
			continue
		}
		if first, second := answer.Tokens[0] == 1, answer.Tokens[1] == 1; first != c.want || second {
			t.Errorf("%s: %d", c.body, answer.Tokens)
		}
	}
}

// TestGGUFTemplates: a file may have several templates, of which requests with tools take the one
// for tools.
func TestGGUFTemplates(t *testing.T) {
	t.Parallel()
	g := tinyGGUF(t)
	g.Set("tokenizer.chat_templates", []string{"tool_use"})
	g.Set("tokenizer.chat_template", "plain")
	g.Set("tokenizer.chat_template.tool_use", "with tools")
	url, _ := startServe(t, writeGGUF(t, "m.gguf", g), "--device", "sim", "--enable-tokenizer-info-endpoint")
	tools := `,"tools":[{"type":"function","function":{"name":"f"}}]`
	for more, want := range map[string]string{"": "plain", tools: "with tools"} {
		_, body, _ := do(t, http.DefaultClient, "POST", url+"/tokenize", `{"messages":[{"role":"user","content":"x"}]`+more+`}`)
		_, text, _ := do(t, http.DefaultClient, "POST", url+"/detokenize", body)
		if !strings.Contains(text, `"prompt":"`+want+`"`) {
			t.Errorf("%s: %s, %s", more, body, text)
		}
	}
}

// TestBadGGUF: what is wrong with a file is one sentence that names the file and the field, with a
// non-zero exit status and before any port opens.
func TestBadGGUF(t *testing.T) {
	t.Parallel()
	file := func(change func(g *testkit.GGUF)) func() []byte {
		return func() []byte {
			g := tinyGGUF(t)
			change(g)
			return g.Bytes()
		}
	}
	set := func(key string, value any) func() []byte { return file(func(g *testkit.GGUF) { g.Set(key, value) }) }
	for name, c := range map[string]struct {
		file func() []byte
		want string
	}{
		"another format":  {func() []byte { return []byte("PK\x03\x04") }, "is not a model: give a GGUF file, or a folder"},
		"version 1":       {file(func(g *testkit.GGUF) { g.Version = 1 }), "GGUF version 1"},
		"big-endian":      {file(func(g *testkit.GGUF) { g.Version = 3 << 24 }), "big-endian"},
		"1e9 tensors":     {file(func(g *testkit.GGUF) { g.Count = 1e9 }), "1000000000 tensors"},
		"truncated":       {func() []byte { b := tinyGGUF(t).Bytes(); return b[:len(b)/2] }, "truncated or damaged"},
		"overlap":         {file(func(g *testkit.GGUF) { g.Tensors[3].Offset = new(uint64) }), "overlaps the tensor"},
		"unaligned":       {file(func(g *testkit.GGUF) { g.Tensors[3].Offset = new(uint64(5)) }), "not a multiple of the alignment 32"},
		"another network": {set("general.architecture", "codeshell"), `general.architecture "codeshell" (supported: the 79 that docs/models.md lists)`},
		"a projector":     {set("general.type", "mmproj"), "projects images or sound for another model (mmproj)"},
		"an adapter":      {set("general.type", "adapter"), "is an adapter (LoRA)"},
		"experts":         {set("qwen3.expert_count", uint32(4)), "qwen3.expert_count"},
		"a part alone": {file(func(g *testkit.GGUF) {
			g.Set("split.no", uint16(0))
			g.Set("split.count", uint16(2))
			g.Set("split.tensors.count", int32(9))
		}), "is part 1 of 2"},
		"no tensor":          {file(func(g *testkit.GGUF) { g.Tensors = g.Tensors[:len(g.Tensors)-1] }), "missing: "},
		"no tokens":          {set("tokenizer.ggml.tokens", []string{}), "tokenizer.ggml"},
		"an unknown cut":     {set("tokenizer.ggml.pre", "brand-new"), `tokenizer.ggml.pre "brand-new"`},
		"too many tokens":    {file(func(g *testkit.GGUF) { many(g) }), "the network takes 3584"},
		"a broken template":  {set("tokenizer.chat_template", "{% if"), "bad.gguf: the key tokenizer.chat_template: chat: template"},
		"no text":            {set("tokenizer.chat_template", uint8(1)), `the key "tokenizer.chat_template" is 1 (uint8), not a string`},
		"a template bomb":    {set("tokenizer.chat_template", strings.Repeat("{% if x %}", 100_000)), "template"},
		"a name of a tensor": {file(func(g *testkit.GGUF) { g.Tensors[5].Name = "blk.7.mystery.weight" }), "blk.7.mystery.weight"},
	} {
		path := filepath.Join(t.TempDir(), "bad.gguf")
		if err := os.WriteFile(path, c.file(), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, msg := runWeir("serve", "--port", "0", path)
		if code != 1 || !strings.Contains(msg, c.want) || !strings.Contains(msg, path) || strings.Contains(msg, "listening") || strings.Count(msg, "\n") != 1 || strings.Contains(msg, "goroutine") {
			t.Errorf("%s: exit %d:\n%.1000s", name, code, msg)
		}
	}
}

// many adds tokens that the network does not have.
func many(g *testkit.GGUF) {
	for i, k := range g.Keys {
		switch list := k.Value.(type) {
		case []string:
			for n := range 100 {
				if k.Key == "tokenizer.ggml.tokens" {
					list = append(list, fmt.Sprintf("more%d", n))
				}
			}
			g.Keys[i].Value = list
		case []int32:
			g.Keys[i].Value = append(list, slices.Repeat([]int32{1}, 100)...)
		}
	}
}

// TestGGUFFolder: a folder with several models lists them.
func TestGGUFFolder(t *testing.T) {
	t.Parallel()
	dir, g := t.TempDir(), tinyGGUF(t).Bytes()
	files := map[string][]byte{"a.gguf": g}
	for _, name := range []string{"a.gguf", "b.gguf"} {
		if err := os.WriteFile(filepath.Join(dir, name), g, 0o600); err != nil {
			t.Fatal(err)
		}
		files[name] = g
		if name == "a.gguf" {
			url, _ := startServe(t, dir, "--device", "sim")
			if code, body := post(t, url, question); code != 200 {
				t.Errorf("%d %s", code, body)
			}
		}
	}
	code, _, msg := runWeir("serve", "--port", "0", dir)
	if want := "holds 2 models: name one of the files " + strings.Join(slices.Sorted(maps.Keys(files)), ", "); code != 1 || !strings.Contains(msg, want) {
		t.Errorf("exit %d:\n%s", code, msg)
	}
}

// TestGGUFCutWhileServing: a GGUF file that is cut is opened again, as one of safetensors is.
func TestGGUFCutWhileServing(t *testing.T) {
	t.Parallel()
	path := writeGGUF(t, "m.gguf", tinyGGUF(t))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, nil, "--device", "cpu", path)
	replace := func(content []byte) {
		if err := errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, content, 0o600), os.Truncate(path+".old", 0)); err != nil {
			t.Fatal(err)
		}
		if code, body := post(t, p.url, question); code != 500 || !strings.Contains(body, "A file of the model was cut") {
			t.Errorf("after the cut: %d %s", code, body)
		}
	}
	replace(whole)
	if code, body := post(t, p.url, question); code != 200 || !strings.Contains(body, "Paris") {
		t.Errorf("after the model was opened anew: %d %s", code, body)
	}
	replace(whole[:100])
	var exit *exec.ExitError
	if err := <-p.ended; !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the server ended with %v", err)
	}
	if log := p.log.String(); !strings.Contains(log, "cannot be opened again: model: weights: damaged checkpoint: "+path) || strings.Contains(log, "goroutine ") {
		t.Errorf("the log:\n%s", log)
	}
}
