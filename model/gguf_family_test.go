package model_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir/device/cpu"
	"weir/internal/testkit"
	"weir/model"
	"weir/weights"
)

// convertedFamily describes the GGUF file that llama.cpp's converter makes of a family's checkpoint, as
// tools/golden/gguf_families.py has found it out.
type convertedFamily struct {
	Keys    [][3]json.RawMessage // name, type, value
	Tensors []convertedTensor
	SHA256  string // of the numbers of all tensors, as the converter wrote them
}

type convertedTensor struct {
	Name  string
	Shape []uint64 // innermost first
	Data  string   // the numbers as they are, in hexadecimal; "": the parts have them
	Parts []convertedPart
	Plus  float32 // a summand on each number
}

// convertedPart are numbers of a tensor of the checkpoint: all, or those of the loops, which each have a
// count and a stride.
type convertedPart struct {
	From  string
	At    int
	Loops [][2]int
	Times *float32
}

func readConverted(t testing.TB, name string) (c convertedFamily) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata/gguf-families", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// file makes the file, whose tensors are float32.
func (c *convertedFamily) file(t testing.TB, name string) *testkit.GGUF {
	t.Helper()
	g := &testkit.GGUF{}
	for _, k := range c.Keys {
		var key string
		if err := json.Unmarshal(k[0], &key); err != nil {
			t.Fatal(err)
		}
		g.Keys = append(g.Keys, testkit.GGUFKey{Key: key, Value: convertedValue(t, k[1], k[2])})
	}
	checkpoint, err := weights.OpenFS(os.DirFS(filepath.Join("testdata/families", name)))
	if err != nil {
		t.Fatal(err)
	}
	defer checkpoint.Close()
	hash := sha256.New()
	for i := range c.Tensors {
		d := &c.Tensors[i]
		data, err := d.numbers(checkpoint)
		if err != nil {
			t.Fatalf("%s: %v", d.Name, err)
		}
		hash.Write(data)
		g.Tensors = append(g.Tensors, testkit.GGUFTensor{Name: d.Name, Shape: d.Shape, Data: data})
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != c.SHA256 {
		t.Fatalf("the numbers have the hash %s, and those of the converter's file %s", got, c.SHA256)
	}
	return g
}

// numbers are the tensor's numbers as float32.
func (d *convertedTensor) numbers(c *weights.Checkpoint) ([]byte, error) {
	if d.Data != "" {
		return hex.DecodeString(d.Data)
	}
	var out []byte
	for _, p := range d.Parts {
		t, ok := c.Tensor(p.From)
		if !ok {
			return nil, fmt.Errorf("there is no %s", p.From)
		}
		x := make([]float32, t.Len())
		t.Shape = []int{len(x)}
		t.Widen(x, 0, 0)
		if p.Loops == nil {
			p.Loops = [][2]int{{len(x), 1}}
		}
		p.each(p.At, p.Loops, func(at int) {
			f := x[at]
			if p.Times != nil {
				f *= *p.Times
			}
			f += d.Plus
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
		})
	}
	return out, nil
}

func (p *convertedPart) each(at int, loops [][2]int, do func(at int)) {
	if len(loops) == 0 {
		do(at)
		return
	}
	for i := range loops[0][0] {
		p.each(at+i*loops[0][1], loops[1:], do)
	}
}

// convertedValue is a value of the metadata.
func convertedValue(t testing.TB, kind, value json.RawMessage) any {
	t.Helper()
	into := map[string]any{`"string"`: new(string), `"uint32"`: new(uint32), `"int32"`: new(int32), `"float32"`: new(float32), `"bool"`: new(bool),
		`"array string"`: new([]string), `"array uint32"`: new([]uint32), `"array int32"`: new([]int32), `"array float32"`: new([]float32), `"array bool"`: new([]bool)}[string(kind)]
	if err := json.Unmarshal(value, into); err != nil {
		t.Fatalf("%s of type %s: %v", value, kind, err)
	}
	switch v := into.(type) {
	case *string:
		return *v
	case *uint32:
		return *v
	case *int32:
		return *v
	case *float32:
		return *v
	case *bool:
		return *v
	case *[]string:
		return *v
	case *[]uint32:
		return *v
	case *[]int32:
		return *v
	case *[]float32:
		return *v
	case *[]bool:
		return *v
	}
	t.Fatalf("the type %s is not known", kind)
	return nil
}

// convertedNames are the families that the converter knows.
func convertedNames(t testing.TB) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/gguf-families/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no files", err)
	}
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	return names
}

func openBytes(t testing.TB, file []byte) *model.Model {
	t.Helper()
	m, err := model.OpenGGUF(fstest.MapFS{"m.gguf": &fstest.MapFile{Data: file}}, "m.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestGGUFFamilies: what llama.cpp's converter makes of a family's checkpoint gives the logits of the
// checkpoint. The converter leaves out some things, so that these are taken out of the checkpoint, too.
func TestGGUFFamilies(t *testing.T) {
	for _, name := range convertedNames(t) {
		t.Run(name, func(t *testing.T) {
			g, c := readFamily(t, name), readConverted(t, name)
			checkpoint, edited := asConverted(t, name)
			if name == "gemma3n" { // tokens of images and sound have no embeddings for each layer in a file
				edited = true
				for i := range g.Prompt {
					g.Prompt[i] %= 76
				}
			}
			got := familyLogits(t, openBytes(t, c.file(t, name).Bytes()), g.Prompt)
			g.compareLogits(t, got, familyLogits(t, openModel(t, checkpoint), g.Prompt), !edited)
		})
	}
}

// compareLogits compares the logits of a prompt with those of the checkpoint, and with what transformers computes.
func (g *familyGolden) compareLogits(t *testing.T, got, want [][]float32, golden bool) {
	t.Helper()
	for i, row := range got {
		for v, x := range row {
			if diff := math.Abs(float64(x - want[i][v])); !(diff <= 1e-3) {
				t.Fatalf("position %d, logit %d: %v instead of %v", i, v, x, want[i][v])
			}
		}
	}
	for i, want := range g.PromptLogprobs {
		if x := logprob(got[i], g.Prompt[i+1]); golden && !(math.Abs(x-want) <= familyTolerance) {
			t.Fatalf("position %d: %v, and transformers %v", i, x, want)
		}
	}
}

// familyLogits are the logits of a prompt in one step, in float32.
func familyLogits(t *testing.T, m *model.Model, prompt []int32) [][]float32 {
	t.Helper()
	h := newHarness(t, m, newCPU(t, "", cpu.F32)(), model.Options{MaxSeqTokens: 128, MaxTokens: 128}, 1)
	return h.step(chunk{&sequence{tokens: prompt}, len(prompt), positions(0, len(prompt))})
}

// TestGGUFOlderFiles: files that have the products of a layer in other tensors, as earlier converters wrote them, give the
// same logits: Qwen3-Next with one product of each key head's rows, and Gemma 4 with gate and up apart.
func TestGGUFOlderFiles(t *testing.T) {
	replace := func(g *testkit.GGUF, name string, by ...testkit.GGUFTensor) {
		i := slices.IndexFunc(g.Tensors, func(x testkit.GGUFTensor) bool { return x.Name == name })
		g.Tensors = slices.Replace(g.Tensors, i, i+1, by...)
	}
	fused := func(g *testkit.GGUF) {
		c, err := weights.OpenFS(os.DirFS("testdata/families/qwen3_next"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, layer := range []string{"0", "1", "2"} {
			d := convertedTensor{Parts: []convertedPart{{From: "model.layers." + layer + ".linear_attn.in_proj_qkvz.weight"}}}
			data, err := d.numbers(c)
			if err != nil {
				t.Fatal(err)
			}
			replace(g, "blk."+layer+".attn_gate.weight")
			replace(g, "blk."+layer+".attn_qkv.weight", testkit.GGUFTensor{Name: "blk." + layer + ".ssm_in.weight", Shape: []uint64{40, 128}, Data: data})
		}
	}
	apart := func(g *testkit.GGUF) {
		for _, layer := range []string{"0", "1", "2", "3"} {
			name := "blk." + layer + ".ffn_gate_up_exps.weight"
			i := slices.IndexFunc(g.Tensors, func(x testkit.GGUFTensor) bool { return x.Name == name })
			both := g.Tensors[i]
			gate := testkit.GGUFTensor{Name: "blk." + layer + ".ffn_gate_exps.weight", Shape: []uint64{40, 20, 5}}
			up := testkit.GGUFTensor{Name: "blk." + layer + ".ffn_up_exps.weight", Shape: []uint64{40, 20, 5}}
			const half = 4 * 40 * 20
			for at := 0; at < len(both.Data); at += 2 * half {
				gate.Data = append(gate.Data, both.Data[at:at+half]...)
				up.Data = append(up.Data, both.Data[at+half:at+2*half]...)
			}
			replace(g, name, gate, up)
		}
	}
	for name, change := range map[string]func(*testkit.GGUF){"qwen3_next": fused, "gemma4_moe": apart} {
		d, golden := readConverted(t, name), readFamily(t, name)
		g := d.file(t, name)
		logits := func() [][]float32 { return familyLogits(t, openBytes(t, g.Bytes()), golden.Prompt) }
		want := logits()
		change(g)
		if !reflect.DeepEqual(logits(), want) {
			t.Errorf("%s: the logits differ", name)
		}
	}
}

// TestGGUFSeeing: a network that also sees is another one's for text.
func TestGGUFSeeing(t *testing.T) {
	d, golden := readConverted(t, "qwen3_moe"), readFamily(t, "qwen3_moe")
	g := d.file(t, "qwen3_moe")
	logits := func() [][]float32 { return familyLogits(t, openBytes(t, g.Bytes()), golden.Prompt) }
	want := logits()
	for i, k := range g.Keys {
		g.Keys[i].Key = strings.Replace(k.Key, "qwen3moe.", "qwen3vlmoe.", 1)
	}
	g.Set("general.architecture", "qwen3vlmoe")
	g.Set("qwen3vlmoe.n_deepstack_layers", uint32(3))
	g.Set("qwen3vlmoe.rope.dimension_sections", []int32{2, 2, 1, 0})
	if !reflect.DeepEqual(logits(), want) {
		t.Error("the logits differ")
	}
}

// TestGGUFFamiliesRefused: what a family cannot do, or what a file lacks, is refused with a sentence.
func TestGGUFFamiliesRefused(t *testing.T) {
	set := func(key string, value any) func(*testkit.GGUF) {
		return func(g *testkit.GGUF) { g.Set(key, value) }
	}
	drop := func(tensor string) func(*testkit.GGUF) {
		return func(g *testkit.GGUF) {
			g.Tensors = slices.DeleteFunc(g.Tensors, func(t testkit.GGUFTensor) bool { return t.Name == tensor })
		}
	}
	edit := func(tensor string, data ...byte) func(*testkit.GGUF) {
		return func(g *testkit.GGUF) {
			i := slices.IndexFunc(g.Tensors, func(t testkit.GGUFTensor) bool { return t.Name == tensor })
			copy(g.Tensors[i].Data, data)
		}
	}
	for _, c := range []struct {
		family string
		change func(*testkit.GGUF)
		want   string
	}{
		{"mimo_v2_flash", set("mimo2.attention.head_count_kv", []int32{1, 4, 4, 1, 2, 2, 2}), "the key mimo2.attention.head_count_kv is 1, and 4 in layers with a window (supported: twice as many)"},
		{"mimo_v2_flash", set("mimo2.attention.head_count_kv", []int32{1, 2, 2, 2, 2, 2, 2}), "the key mimo2.attention.head_count_kv differs between layers of one kind, from 1 to 2"},
		{"lfm2_moe", set("lfm2moe.expert_gating_func", uint32(1)), "the key lfm2moe.expert_gating_func is 1 (supported: 2)"},
		{"gemma4", drop("rope_freqs.weight"), "the key gemma4.rope.freq_base has no factors: the tensor rope_freqs.weight is missing"},
		{"gemma4", edit("rope_freqs.weight", 0, 0, 0, 0x80), "factor 0 of the tensor rope_freqs.weight is -0, not a positive number"},
		{"apertus", set("xielu.beta", []float32{1}), "the key xielu.beta has no number for layer 1"},
		{"phi3", edit("rope_factors_short.weight", 0, 0, 0x80, 0x7f), "factor 0 of the tensor rope_factors_short.weight is +Inf, not a positive number"},
		{"qwen3_5", set("qwen35.ssm.time_step_rank", uint32(3)), "3 value heads of linear attention are not a multiple of 2 key heads"},
		{"qwen3_5", set("qwen35.ssm.time_step_rank", uint32(1<<20)), "value heads of linear attention"},
		{"deepseek_v2", set("deepseek2.attention.head_count", uint32(1<<20)), "latent attention has 1048576 heads, more than 4096"},
		{"deepseek_v2", set("deepseek2.block_count", uint32(4000)), "the key deepseek2.block_count is 4000, and the file has "},
		{"qwen3_5", drop("blk.0.ssm_alpha.weight"), "missing: blk.0.ssm_alpha.weight"},
		{"granitemoehybrid", set("granitehybrid.rope.scaling.finetuned", uint8(1)), "the key granitehybrid.rope.scaling.finetuned is 1 (uint8), not a truth value"},
		{"ministral3", set("mistral3.attention.temperature_length", uint32(8)), "the key mistral3.attention.temperature_length is 8, and what it would change is not known here"},
	} {
		d := readConverted(t, c.family)
		g := d.file(t, c.family)
		c.change(g)
		m, err := model.OpenGGUF(fstest.MapFS{"x": {Data: g.Bytes()}}, "x")
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, which does not say %q", c.family, err, c.want)
		}
	}
}

// TestGGUFFamiliesDamaged: whatever a key says the file is opened, or refused with one line; and a file that lacks a
// tensor is refused, but for those without which it is a file of another network.
func TestGGUFFamiliesDamaged(t *testing.T) {
	if underRace {
		t.Skip("there is one goroutine")
	}
	optional := []string{"output.weight", "output.bias", "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"}
	turn := 0
	for _, name := range convertedNames(t) {
		d := readConverted(t, name)
		whole := d.file(t, name)
		try := func(what string, g *testkit.GGUF) (opened bool) {
			m, err := model.OpenGGUF(fstest.MapFS{"x": {Data: g.Bytes()}}, "x")
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: %v", name, what, err)
			}
			if err == nil {
				m.Close()
			}
			return err == nil
		}
		values := []any{uint32(0), uint32(1), int32(-1), uint32(1 << 20), float32(math.Inf(1)), "x", []int32{7}, []bool{true}, []float32{}}
		for i, k := range whole.Keys {
			v := values[turn%len(values)] // another one with each key, since there are many
			turn++
			g := *whole
			g.Keys = slices.Clone(g.Keys)
			g.Keys[i].Value = v
			try(fmt.Sprintf("%s %v", k.Key, v), &g)
		}
		seen := map[string]bool{}
		for i, tensor := range whole.Tensors {
			kind := strings.TrimLeft(strings.TrimPrefix(tensor.Name, "blk."), "0123456789")
			if seen[kind] {
				continue
			}
			seen[kind] = true
			g := *whole
			g.Tensors = slices.Delete(slices.Clone(g.Tensors), i, i+1)
			if try("without "+tensor.Name, &g) && !slices.Contains(optional, tensor.Name) && !strings.Contains(tensor.Name, ".nextn.") && !strings.HasSuffix(tensor.Name, ".bias") {
				t.Errorf("%s without %s is opened", name, tensor.Name)
			}
		}
	}
}

// asConverted is the checkpoint of a family, with what the converter leaves out of its config.json
// as llama.cpp takes it to be.
func asConverted(t *testing.T, name string) (_ fs.FS, edited bool) {
	t.Helper()
	fsys := fstest.MapFS{}
	for _, n := range []string{"config.json", "model.safetensors"} {
		b, err := os.ReadFile(filepath.Join("testdata/families", name, n))
		if err != nil {
			t.Fatal(err)
		}
		fsys[n] = &fstest.MapFile{Data: b}
	}
	var doc map[string]any
	if err := json.Unmarshal(fsys["config.json"].Data, &doc); err != nil {
		t.Fatal(err)
	}
	switch name {
	case "mixtral", "qwen2_moe", "starcoder2":
		doc["sliding_window"], doc["use_sliding_window"] = nil, false
		delete(doc, "layer_types")
	case "gemma2": // llama.cpp has it by the size of the model
		doc["query_pre_attn_scalar"] = 12
	case "gemma3": // here, too, and which layers have windows
		doc["query_pre_attn_scalar"] = 12
		doc["layer_types"] = []string{"sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention"}
	case "gpt_oss": // and this always
		doc["swiglu_limit"] = 7.0
	case "llama4": // and these
		doc["attn_scale"], doc["floor_scale"], doc["attention_chunk_size"] = 0.1, 8192, 8192
	case "mistral4":
		delete(doc["rope_parameters"].(map[string]any), "llama_4_scaling_beta")
	case "dots1":
		doc["sliding_window"] = nil
	case "afmoe":
		doc["layer_types"] = []string{"sliding_attention", "sliding_attention", "sliding_attention", "full_attention"}
	case "phimoe":
		delete(doc, "router_jitter_noise")
	default:
		return fsys, false
	}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(b, fsys["config.json"].Data) {
		t.Fatal("nothing was changed")
	}
	fsys["config.json"] = &fstest.MapFile{Data: b}
	return fsys, true
}
