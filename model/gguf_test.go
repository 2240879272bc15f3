package model_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir/internal/testkit"
	"weir/model"
)

// converted are the GGUF files that llama.cpp's converter has made of the golden checkpoints
// (tools/golden/gguf_models.py), and how the config of a checkpoint has to be changed where the
// converter leaves something out.
var converted = []struct {
	file, checkpoint string
	edit             func(config map[string]any) // nil: the same network
	factors          bool                        // rotary frequencies come as factors, which are rounded
}{
	{file: "llama2.gguf", checkpoint: "llama2"},
	{file: "llama2-fused.gguf", checkpoint: "llama2"},
	{file: "llama3.gguf", checkpoint: "llama3", factors: true},
	{file: "llama-bias.gguf", checkpoint: "llama-bias"},
	{file: "mistral.gguf", checkpoint: "mistral", edit: func(c map[string]any) { c["sliding_window"] = nil }},
	{file: "qwen2.gguf", checkpoint: "qwen2"},
	{file: "qwen2-yarn.gguf", checkpoint: "qwen2-yarn", edit: func(c map[string]any) { c["use_sliding_window"] = false }},
	{file: "qwen3-00002-of-00003.gguf", checkpoint: "qwen3"},
}

func ggufPath(file string) string { return filepath.Join("testdata", "gguf", file) }

func openPath(t *testing.T, path string) *model.Model {
	t.Helper()
	m, err := model.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// original opens a golden checkpoint with another config.
func original(t *testing.T, name string, edit func(map[string]any)) *model.Model {
	t.Helper()
	fsys := files(t, checkpointFS(name))
	if edit != nil {
		fsys["config.json"] = &fstest.MapFile{Data: editConfig(t, name, edit)}
	}
	return openModel(t, fsys)
}

// logitsOf computes the logits of a golden prompt.
func logitsOf(t *testing.T, m *model.Model, dev model.Device, g golden) [][]float32 {
	t.Helper()
	h := newHarness(t, m, dev, model.Options{MaxSeqTokens: 256}, 1)
	n := len(g.Prompt)
	return h.step(chunk{&sequence{tokens: g.Prompt}, n, positions(n-g.Rows, n)})
}

// TestGGUFLogits: a converted file gives the bits that the checkpoint gives which it was made of,
// and so the logits of transformers.
func TestGGUFLogits(t *testing.T) {
	eachExact(t, func(t *testing.T, open func() model.Device) {
		for _, c := range converted {
			t.Run(c.file, func(t *testing.T) {
				g := readGolden(t, c.checkpoint)
				got := logitsOf(t, openPath(t, ggufPath(c.file)), open(), g)
				if c.edit == nil {
					compare(t, "logits", got, g.logits, tolerance)
				}
				if want := logitsOf(t, original(t, c.checkpoint, c.edit), open(), g); !c.factors && !reflect.DeepEqual(got, want) {
					t.Error("the logits are not those of the checkpoint")
				}
			})
		}
	})
}

// TestGGUFWindow: a window that a file names is the one of every layer.
func TestGGUFWindow(t *testing.T) {
	b, err := os.ReadFile(ggufPath("mistral.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m")
	if err := os.WriteFile(path, insertKeys(b, testkit.GGUFKey{Key: "llama.attention.sliding_window", Value: uint32(16)}), 0o600); err != nil {
		t.Fatal(err)
	}
	g := readGolden(t, "mistral")
	compare(t, "logits", logitsOf(t, openPath(t, path), newReference(), g), g.logits, tolerance)
}

// insertKeys adds keys to a whole file. One more fills them up to a multiple of the alignment, so
// that the data stay aligned.
func insertKeys(file []byte, keys ...testkit.GGUFKey) []byte {
	const header = 24
	keys = append(keys, testkit.GGUFKey{Key: "filler", Value: ""})
	encoded := func() []byte {
		g := testkit.GGUF{Keys: keys, Alignment: 1}
		return g.Bytes()[header:]
	}
	if n := len(encoded()) % 32; n > 0 {
		keys[len(keys)-1].Value = strings.Repeat("x", 32-n)
	}
	file = slices.Clone(file)
	binary.LittleEndian.PutUint64(file[16:], binary.LittleEndian.Uint64(file[16:])+uint64(len(keys)))
	return slices.Concat(file[:header], encoded(), file[header:])
}

// TestGGUFConfig: the metadata say what the config.json says that they were made of.
func TestGGUFConfig(t *testing.T) {
	for _, c := range converted {
		got, want := openPath(t, ggufPath(c.file)).Config, original(t, c.checkpoint, c.edit).Config
		if c.checkpoint == "mistral" {
			want.Architecture = "LlamaForCausalLM" // llama.cpp makes no difference
		}
		if c.checkpoint == "llama3" {
			want.EOS = want.EOS[:1] // the converter takes one
		}
		if strings.HasPrefix(c.checkpoint, "qwen2-yarn") || c.checkpoint == "llama-bias" {
			want.EOS = got.EOS // the config has none, and the family's default is not written
		}
		for i, f := range want.Rope.InvFreq {
			if d := math.Abs(float64(got.Rope.InvFreq[i]/f - 1)); d > 0 && !c.factors || d > 1e-6 {
				t.Errorf("%s: frequency %d is %v, not %v", c.file, i, got.Rope.InvFreq[i], f)
			}
			got.Rope.InvFreq[i] = f
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, not\n%+v", c.file, got, want)
		}
	}
}

// tinyGGUF is a whole network of one layer without any meaning.
func tinyGGUF() *testkit.GGUF {
	g := &testkit.GGUF{Keys: []testkit.GGUFKey{
		{Key: "general.architecture", Value: "llama"}, {Key: "general.name", Value: "tiny"},
		{Key: "llama.block_count", Value: uint32(1)}, {Key: "llama.context_length", Value: uint32(64)},
		{Key: "llama.embedding_length", Value: uint32(8)}, {Key: "llama.feed_forward_length", Value: uint32(12)},
		{Key: "llama.attention.head_count", Value: uint32(2)}, {Key: "llama.attention.head_count_kv", Value: uint32(1)},
		{Key: "llama.attention.layer_norm_rms_epsilon", Value: float32(1e-5)}, {Key: "llama.rope.freq_base", Value: float32(10000)},
		{Key: "llama.rope.dimension_count", Value: uint32(4)}, {Key: "tokenizer.ggml.eos_token_id", Value: uint32(2)},
	}}
	add := func(name string, shape ...uint64) {
		n := uint64(1)
		for _, d := range shape {
			n *= d
		}
		g.Tensors = append(g.Tensors, testkit.GGUFTensor{Name: name, Shape: shape, Data: make([]byte, 4*n)})
	}
	add("token_embd.weight", 8, 10)
	add("output_norm.weight", 8)
	add("output.weight", 8, 10)
	add("blk.0.attn_norm.weight", 8)
	add("blk.0.attn_q.weight", 8, 8)
	add("blk.0.attn_k.weight", 8, 4)
	add("blk.0.attn_v.weight", 8, 4)
	add("blk.0.attn_output.weight", 8, 8)
	add("blk.0.ffn_norm.weight", 8)
	add("blk.0.ffn_gate.weight", 8, 12)
	add("blk.0.ffn_up.weight", 8, 12)
	add("blk.0.ffn_down.weight", 12, 8)
	return g
}

func writeGGUF(t *testing.T, dir, name string, g *testkit.GGUF) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, g.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// setKey changes a key of the tiny network.
func setKey(key string, value any) func(*testkit.GGUF) {
	return func(g *testkit.GGUF) { g.Set(key, value) }
}

func dropKey(key string) func(*testkit.GGUF) {
	return func(g *testkit.GGUF) {
		g.Keys = slices.DeleteFunc(g.Keys, func(k testkit.GGUFKey) bool { return k.Key == key })
	}
}

func addTensor(name string, kind uint32, shape ...uint64) func(*testkit.GGUF) {
	return func(g *testkit.GGUF) {
		n := uint64(4)
		for _, d := range shape {
			n *= d
		}
		g.Tensors = append(g.Tensors, testkit.GGUFTensor{Name: name, Type: kind, Shape: shape, Data: make([]byte, n)})
	}
}

// TestGGUFRefused: what would change the result is refused with a sentence that names the file and
// the key or the tensor.
func TestGGUFRefused(t *testing.T) {
	for _, c := range []struct {
		change func(*testkit.GGUF)
		is     error
		want   string
	}{
		{dropKey("general.architecture"), model.ErrConfig, "the key general.architecture is missing"},
		{setKey("general.architecture", uint8(1)), model.ErrConfig, "the key general.architecture is 1 (uint8), not a string"},
		{setKey("general.architecture", "rwkv7"), model.ErrUnsupported, `general.architecture "rwkv7" (supported: the `},
		{setKey("general.architecture", "clip"), model.ErrUnsupported, "projects images or sound for another model (mmproj): it is not a model of its own"},
		{setKey("general.type", "mmproj"), model.ErrUnsupported, "projects images or sound for another model (mmproj)"},
		{setKey("general.type", "adapter"), model.ErrUnsupported, "is an adapter (LoRA) for another model: it is not a model of its own"},
		{setKey("general.type", "imatrix"), model.ErrUnsupported, "is an importance matrix"},
		{setKey("general.type", "poem"), model.ErrUnsupported, `the key general.type is "poem" (supported: model)`},
		{func(g *testkit.GGUF) { g.Tensors = nil }, model.ErrConfig, "the file has metadata but no tensors"},
		{func(g *testkit.GGUF) { g.Tensors = g.Tensors[1:] }, model.ErrConfig, "the tensor token_embd.weight is missing or not a matrix"},
		{dropKey("llama.block_count"), model.ErrConfig, "llama.block_count is missing or 0"},
		{dropKey("llama.context_length"), model.ErrConfig, "llama.context_length is missing or 0"},
		{dropKey("llama.attention.layer_norm_rms_epsilon"), model.ErrConfig, "llama.attention.layer_norm_rms_epsilon 0 is not a positive number"},
		{setKey("llama.block_count", "1"), model.ErrConfig, `the key llama.block_count is "1" (string), not an integer`},
		{setKey("llama.block_count", uint32(1e9)), model.ErrConfig, "llama.block_count 1000000000 is not in [1, 4096]"},
		{setKey("llama.block_count", int32(-1)), model.ErrConfig, "llama.block_count -1 is not in [1, 4096]"},
		{setKey("llama.block_count", uint32(2)), model.ErrMismatch, "missing: blk.1.attn_norm.weight, blk.1.attn_q.weight"},
		{func(g *testkit.GGUF) {
			g.Set("llama.embedding_length", uint32(16))
			g.Set("llama.attention.key_length", uint32(4))
		}, model.ErrMismatch, "token_embd.weight is [10 8] instead of [10 16]"},
		{setKey("llama.attention.head_count_kv", uint32(3)), model.ErrConfig, "llama.attention.head_count_kv 3 is not in [1, 2]"},
		{setKey("llama.attention.head_count", []int32{2, 4}), model.ErrConfig, "the key llama.attention.head_count differs between layers, from 2 to 4"},
		{setKey("llama.attention.value_length", uint32(8)), model.ErrUnsupported, "the key llama.attention.value_length is 8 (supported: the head size, which is 4)"},
		{setKey("llama.rope.dimension_count", uint32(2)), model.ErrUnsupported, "the key llama.rope.dimension_count is 2 (supported: the head size, which is 4)"},
		{setKey("llama.rope.freq_base", float32(0)), model.ErrConfig, "llama.rope.freq_base 0 is not above 1"},
		{setKey("llama.rope.scaling.type", "longrope"), model.ErrUnsupported, "llama.rope.scaling.type longrope in"},
		{func(g *testkit.GGUF) {
			g.Set("llama.rope.scaling.type", "longrope")
			g.Set("llama.rope.scaling.factor", float32(4))
		}, model.ErrUnsupported, "llama.rope.scaling.type longrope in"},
		{setKey("llama.rope.scaling.attn_factor", float32(1.5)), model.ErrConfig, "the key llama.rope.scaling.attn_factor is 1.5, which is not supported"},
		{setKey("llama.expert_count", uint32(8)), model.ErrMismatch, "missing: blk.0.ffn_gate_inp.weight"},
		{setKey("llama.attention.causal", false), model.ErrConfig, "the key llama.attention.causal is false (supported: true)"},
		{setKey("llama.hidden_activation", "gelu"), model.ErrUnsupported, "hidden_act gelu in"},
		{setKey("llama.attention.scale", float32(0.5)), model.ErrUnsupported, "the key llama.attention.scale is 0.5, and what it would change is not known here"},
		{setKey("llama.logit_scale", float32(2)), model.ErrUnsupported, "the key llama.logit_scale is 2, and what it would change is not known here"},
		{setKey("tokenizer.ggml.eos_token_id", "2"), model.ErrConfig, `the key tokenizer.ggml.eos_token_id is "2" (string), not an integer`},
		{setKey("general.sampling.top_p", float32(2)), model.ErrConfig, "top_p 2 is not in (0, 1]"},
		{setKey("llama.two\nlines", uint8(1)), model.ErrUnsupported, `the key "llama.two\nlines" is 1, and what it would change`},
		{addTensor("two\nlines", 0, 1), model.ErrMismatch, `not expected: "two\nlines"`},
		{addTensor("blk.0.attn_q.scale", 0, 1), model.ErrMismatch, "not expected: blk.0.attn_q.scale"},
		{addTensor("blk.00.attn_q.weight", 0, 8, 8), model.ErrMismatch, "not expected: blk.00.attn_q.weight"},
		{addTensor("blk.0.attn_q_norm.weight", 0, 4), model.ErrMismatch, "not expected: blk.0.attn_q_norm.weight"},
		{addTensor("blk.1.attn_q.weight", 0, 8, 8), model.ErrMismatch, "not expected: blk.1.attn_q.weight"},
		{addTensor("blk.0.attn_q.bias", 0, 8), model.ErrMismatch, "missing: blk.0.attn_k.bias, blk.0.attn_v.bias"},
		{addTensor("rope_factors_long.weight", 0, 2), model.ErrMismatch, "not expected: rope_factors_long.weight"},
		{addTensor("rope_freqs.weight", 0, 4), model.ErrConfig, "the tensor rope_freqs.weight is float32 of [4], not float32 of [2]"},
		{addTensor("rope_freqs.weight", 0, 2), model.ErrConfig, "factor 0 of the tensor rope_freqs.weight is 0, not a positive number"},
		{addTensor("blk.0.attn_qkv.weight", 0, 8, 12), model.ErrMismatch, "blk.0.attn_qkv.weight of [12 8] has not the 16 rows of queries, keys and values"},
		{func(g *testkit.GGUF) { g.Tensors[4].Type = 26 }, model.ErrMismatch, "blk.0.attn_q.weight is int32 instead of"},
	} {
		g := tinyGGUF()
		c.change(g)
		path := writeGGUF(t, t.TempDir(), "bad.gguf", g)
		m, err := model.Open(path)
		if err == nil {
			t.Errorf("%s: opened %+v", c.want, m.Config)
			m.Close()
			continue
		}
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, which does not say %q", err, c.want)
		}
	}
}

// TestGGUFAccepted: what changes nothing is passed over.
func TestGGUFAccepted(t *testing.T) {
	for _, change := range map[string]func(*testkit.GGUF){
		"as it is":           func(*testkit.GGUF) {},
		"equal heads":        setKey("llama.attention.head_count", []int32{2, 2}),
		"zeros":              setKey("llama.ssm.inner_size", uint32(0)),
		"lists of zeros":     setKey("llama.rope.dimension_sections", []int32{0, 0, 0, 0}),
		"old data layout":    setKey("llama.tensor_data_layout", "Meta AI original pth"),
		"keys of quantizers": setKey("quantize.imatrix.file", "x"),
		"causal":             setKey("llama.attention.causal", true),
		"no scaling":         setKey("llama.rope.scaling.type", "none"),
		"linear and nothing": setKey("llama.rope.scaling.type", "linear"),
		"general.type":       setKey("general.type", "model"),
		"value length":       setKey("llama.attention.value_length", uint32(4)),
	} {
		g := tinyGGUF()
		change(g)
		openPath(t, writeGGUF(t, t.TempDir(), "x", g))
	}
	m := openPath(t, writeGGUF(t, t.TempDir(), "x", tinyGGUF()))
	if c := m.Config; c.TiedHead || c.HeadDim != 4 || c.VocabSize != 10 || c.MaxSeqTokens != 64 || !slices.Equal(c.EOS, []int32{2}) {
		t.Errorf("%+v", c)
	}
	if name, ok := m.GGUF().Metadata.String("general.name"); name != "tiny" || !ok {
		t.Errorf("name %q", name)
	}
}

// TestGGUFGeneration: sampling parameters and ends of a file are its defaults.
func TestGGUFGeneration(t *testing.T) {
	g := tinyGGUF()
	for key, v := range map[string]any{"temp": float32(0.5), "top_k": int32(20), "top_p": float32(0.75), "min_p": float32(0.25), "penalty_repeat": float32(1.5)} {
		g.Set("general.sampling."+key, v)
	}
	g.Set("tokenizer.ggml.eot_token_id", uint32(7))
	g.Set("tokenizer.ggml.eom_token_id", uint32(math.MaxUint32)) // no token
	got := openPath(t, writeGGUF(t, t.TempDir(), "x", g)).Generation
	want := model.GenerationDefaults{
		Temperature: new(float32(0.5)), TopK: new(20), TopP: new(float32(0.75)), MinP: new(float32(0.25)), RepetitionPenalty: new(float32(1.5)),
		EOS: []int32{2, 7},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}

// TestGGUFFolders: a folder with one model is that model, one with several is refused.
func TestGGUFFolders(t *testing.T) {
	projector, adapter := tinyGGUF(), tinyGGUF()
	projector.Set("general.type", "mmproj")
	adapter.Set("general.type", "adapter")
	split := map[string][]byte{}
	for _, n := range []string{"qwen3-00001-of-00003.gguf", "qwen3-00002-of-00003.gguf", "qwen3-00003-of-00003.gguf"} {
		b, err := os.ReadFile(ggufPath(n))
		if err != nil {
			t.Fatal(err)
		}
		split[n] = b
	}
	tiny := tinyGGUF().Bytes()
	for _, c := range []struct {
		name  string
		files map[string][]byte
		want  string // file; or "!" and what the error says
	}{
		{"one", map[string][]byte{"a.gguf": tiny, "README.md": nil}, "a.gguf"},
		{"one in capitals", map[string][]byte{"A.GGUF": tiny}, "A.GGUF"},
		{"with a projector", map[string][]byte{"a.gguf": tiny, "mmproj-a.gguf": projector.Bytes(), "lora.gguf": adapter.Bytes()}, "a.gguf"},
		{"split", split, "qwen3-00001-of-00003.gguf"},
		{"with a config", map[string][]byte{"a.gguf": tiny, "config.json": []byte("{}")}, "a.gguf"},
		{"beside safetensors", map[string][]byte{"a.gguf": tiny, "config.json": []byte("{}"), "model.safetensors": nil}, ""},
		{"several", map[string][]byte{"a.gguf": tiny, "b.gguf": tiny, "c.gguf": []byte("GGUF")}, "!holds 3 models: name one of the files a.gguf, b.gguf, c.gguf"},
		{"none", map[string][]byte{"README.md": nil}, ""},
	} {
		dir := t.TempDir()
		for name, b := range c.files {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, err := model.FindGGUF(dir)
		if wrong, ok := strings.CutPrefix(c.want, "!"); ok {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if c.want != "" {
			c.want = filepath.Join(dir, c.want)
		}
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
		if c.want != "" {
			openPath(t, dir)
		}
	}
	if _, err := model.Open(filepath.Join(t.TempDir(), "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path that does not exist: %v", err)
	}
}

// TestGGUFReopen: a file is opened again as long as it holds the same model.
func TestGGUFReopen(t *testing.T) {
	dir := t.TempDir()
	path := writeGGUF(t, dir, "x", tinyGGUF())
	m := openPath(t, path)
	if m.Digest() == "" { // by which it is known
		t.Fatal("no digest")
	}
	if err := m.Reopen(); err != nil {
		t.Fatal(err)
	}
	other := tinyGGUF()
	other.Set("llama.rope.freq_base", float32(500))
	numbers := tinyGGUF()
	numbers.Tensors[0].Data[0] = 1
	for name, g := range map[string]*testkit.GGUF{"config": other, "numbers": numbers} {
		if err := os.Rename(writeGGUF(t, dir, "new", g), path); err != nil {
			t.Fatal(err)
		}
		if err := m.Reopen(); !errors.Is(err, model.ErrMismatch) {
			t.Errorf("another %s: %v", name, err)
		}
	}
	if err := os.Rename(writeGGUF(t, dir, "new", tinyGGUF()), path); err != nil {
		t.Fatal(err)
	}
	if err := m.Reopen(); err != nil {
		t.Error(err)
	}
	if name, _ := m.GGUF().Metadata.String("general.name"); name != "tiny" {
		t.Errorf("name %q", name)
	}
}

// FuzzGGUF: whatever the bytes, the file is refused with one line or opened, and nothing panics.
func FuzzGGUF(f *testing.F) {
	f.Add(tinyGGUF().Bytes())
	for _, change := range []func(*testkit.GGUF){
		addTensor("rope_freqs.weight", 0, 2), addTensor("blk.0.attn_qkv.weight", 0, 8, 16), addTensor("blk.0.attn_q.bias", 0, 8),
		setKey("llama.rope.scaling.type", "yarn"), setKey("llama.attention.head_count", []int32{2, 2}), setKey("general.sampling.top_k", int32(3)),
	} {
		g := tinyGGUF()
		change(g)
		f.Add(g.Bytes())
	}
	for name, g := range convertedEncoders(f) {
		if name == "encoder roberta" || name == "encoder modernbert" || name == "encoder embeddinggemma" || name == "encoder reranker-plain" {
			f.Add(g.Bytes())
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := model.OpenGGUF(fstest.MapFS{"x": {Data: b}}, "x")
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Error(err)
			}
			return
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestGGUFDamaged changes every byte of a header.
func TestGGUFDamaged(t *testing.T) {
	whole := tinyGGUF().Bytes()
	for at := range len(whole) - 4*(10*8*2+8*8*2+4*8*2+12*8*3) { // about where the header ends
		for _, flip := range []byte{1, 0x80, 0xff} {
			b := slices.Clone(whole)
			b[at] ^= flip
			m, err := model.OpenGGUF(fstest.MapFS{"x": {Data: b}}, "x")
			if err == nil {
				m.Close()
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("byte %d: %v", at, err)
			}
		}
	}
}

// TestGGUFRope: the keys about rotary embeddings mean what fields of a config.json mean.
func TestGGUFRope(t *testing.T) {
	for _, c := range []struct {
		arch string
		keys map[string]any // below rope.
		json string
	}{
		{"llama", nil, `"rope_theta":10000`},
		{"llama", map[string]any{"freq_base": float32(500000)}, `"rope_theta":500000`},
		{"llama", map[string]any{"scaling.factor": float32(4)}, `"rope_scaling":{"type":"linear","factor":4}`},
		{"llama", map[string]any{"scale_linear": float32(2)}, `"rope_scaling":{"type":"linear","factor":2}`},
		{"qwen2", map[string]any{"scaling.type": "linear", "scaling.factor": float32(4)}, `"rope_scaling":{"type":"linear","factor":4}`},
		{"qwen2", map[string]any{"scaling.type": "none", "scaling.factor": float32(4)}, `"rope_theta":10000`},
		{"qwen3", map[string]any{"scaling.type": "yarn", "scaling.factor": float32(4), "scaling.original_context_length": uint32(32)},
			`"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":32}`},
		{"qwen3", map[string]any{"scaling.type": "yarn", "scaling.factor": float32(4), "scaling.original_context_length": uint32(32),
			"scaling.yarn_beta_fast": float32(24), "scaling.yarn_beta_slow": float32(2), "scaling.yarn_attn_factor": float32(1.25)},
			`"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":32,"beta_fast":24,"beta_slow":2,"attention_factor":1.25}`},
		{"qwen3vl", map[string]any{"dimension_sections": []int32{1, 1, 0, 0}}, `"rope_theta":10000`},
		{"mistral3", map[string]any{"scaling.type": "yarn", "scaling.factor": float32(16), "scaling.original_context_length": uint32(32), "scaling.yarn_log_multiplier": float32(1)},
			`"rope_scaling":{"type":"yarn","factor":16,"original_max_position_embeddings":32,"mscale":1,"mscale_all_dim":1}`},
	} {
		g := tinyGGUF()
		for i, k := range g.Keys {
			g.Keys[i].Key = strings.Replace(k.Key, "llama.", c.arch+".", 1)
		}
		g.Set("general.architecture", c.arch)
		for key, v := range c.keys {
			g.Set(c.arch+".rope."+key, v)
		}
		if c.arch == "qwen2" {
			addTensor("blk.0.attn_q.bias", 0, 8)(g)
			addTensor("blk.0.attn_k.bias", 0, 4)(g)
			addTensor("blk.0.attn_v.bias", 0, 4)(g)
		}
		if strings.HasPrefix(c.arch, "qwen3") {
			addTensor("blk.0.attn_q_norm.weight", 0, 4)(g)
			addTensor("blk.0.attn_k_norm.weight", 0, 4)(g)
		}
		m, err := model.OpenGGUF(fstest.MapFS{"x": {Data: g.Bytes()}}, "x")
		if err != nil {
			t.Errorf("%s: %v", c.json, err)
			continue
		}
		defer m.Close()
		got := m.Config
		want, err := model.ParseConfig([]byte(`{"architectures":["` + got.Architecture + `"],"hidden_size":8,"vocab_size":10,"intermediate_size":12,"num_hidden_layers":1,"num_attention_heads":2,
			"num_key_value_heads":1,"head_dim":4,"max_position_embeddings":64,"sliding_window":null,"eos_token_id":2,"rms_norm_eps":1e-5,` + c.json + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n%+v, not\n%+v", c.json, got, want)
		}
	}
}
