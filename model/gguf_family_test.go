package model_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
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

func readConverted(t testing.TB, name string) *convertedFamily {
	t.Helper()
	return &convertedFamily{testkit.ReadConverted(t, filepath.Join("testdata/gguf-families", name+".json"))}
}

// convertedFamily describes the GGUF file of a family's checkpoint.
type convertedFamily struct{ *testkit.Converted }

// file makes the file.
func (c *convertedFamily) file(t testing.TB, name string) *testkit.GGUF {
	t.Helper()
	return c.File(t, filepath.Join("testdata/families", name))
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
			d := testkit.ConvertedTensor{Parts: []testkit.ConvertedPart{{From: "model.layers." + layer + ".linear_attn.in_proj_qkvz.weight"}}}
			data, err := d.Numbers(c.Tensor)
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

// TestGGUFMiniCPM: the factors of LongRoPE are two tensors, of which the short ones hold up to the greatest length if no key says another,
// and a file without factors on embeddings, parts and logits is one of MiniCPM-2B, whose factors earlier converters left out.
func TestGGUFMiniCPM(t *testing.T) {
	short, long := []float32{1, 1.25, 1.5}, []float32{1, 2, 4}
	vector := func(name string, numbers []float32) testkit.GGUFTensor {
		var data []byte
		for _, x := range numbers {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
		return testkit.GGUFTensor{Name: name, Shape: []uint64{uint64(len(numbers))}, Data: data}
	}
	for name, c := range map[string]struct {
		file       func(*testkit.GGUF)
		checkpoint map[string]any
	}{
		"long": {func(g *testkit.GGUF) {
			g.Set("minicpm.rope.scaling.type", "longrope")
			g.Tensors = append(g.Tensors, vector("rope_factors_short.weight", short), vector("rope_factors_long.weight", long))
		}, map[string]any{"rope_parameters": map[string]any{"rope_type": "longrope", "short_factor": short, "long_factor": long, "original_max_position_embeddings": 256}}},
		"longer": {func(g *testkit.GGUF) {
			g.Set("minicpm.rope.scaling.type", "longrope")
			g.Set("minicpm.rope.scaling.original_context_length", uint32(16))
			g.Tensors = append(g.Tensors, vector("rope_factors_short.weight", short), vector("rope_factors_long.weight", long))
		}, map[string]any{"rope_parameters": map[string]any{"rope_type": "longrope", "short_factor": short, "long_factor": long, "original_max_position_embeddings": 16}}},
		"older": {func(g *testkit.GGUF) {
			g.Keys = slices.DeleteFunc(g.Keys, func(k testkit.GGUFKey) bool { return strings.HasSuffix(k.Key, "_scale") })
		}, map[string]any{"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256}},
	} {
		golden, file := readFamily(t, "minicpm"), readConverted(t, "minicpm").file(t, "minicpm")
		before := familyLogits(t, openBytes(t, file.Bytes()), golden.Prompt)
		c.file(file)
		fsys := fstest.MapFS{"model.safetensors": mapFile(t, "testdata/families/minicpm/model.safetensors")}
		var doc map[string]any
		if err := json.Unmarshal(mapFile(t, "testdata/families/minicpm/config.json").Data, &doc); err != nil {
			t.Fatal(err)
		}
		maps.Copy(doc, c.checkpoint)
		b, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		fsys["config.json"] = &fstest.MapFile{Data: b}
		got := familyLogits(t, openBytes(t, file.Bytes()), golden.Prompt)
		golden.compareLogits(t, got, familyLogits(t, openModel(t, fsys), golden.Prompt), false)
		if reflect.DeepEqual(got, before) {
			t.Errorf("%s changes nothing", name)
		}
	}
}

func mapFile(t *testing.T, path string) *fstest.MapFile {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return &fstest.MapFile{Data: b}
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
	add := func(tensor string, n int) func(*testkit.GGUF) {
		return func(g *testkit.GGUF) {
			g.Tensors = append(g.Tensors, testkit.GGUFTensor{Name: tensor, Shape: []uint64{uint64(n)}, Data: make([]byte, 4*n)})
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
		{"glm_moe_dsa", set("glm-dsa.attention.indexer.top_k", uint32(0)), "chooses 0 positions is none"},
		{"glm_moe_dsa", drop("blk.0.indexer.attn_k.weight"), "the first layer has no indexer"},
		{"deepseek_v32", set("deepseek32.attention.indexer.head_count", uint32(1<<31)), "index_n_heads"},
		{"deepseek_v32", set("deepseek32.attention.q_lora_rank", uint32(0)), "leaves the indexer without queries"},
		{"granite_swa", set("granite_swa.attention.rope_pattern", []bool{true}), "the key granite_swa.attention.rope_pattern has 1 entries for 4 layers"},
		{"granite_swa", set("granite_swa.attention.rope_pattern", "x"), "the key granite_swa.attention.rope_pattern"},
		{"bamba", set("granitehybrid.ssm.inner_size", uint32(8)), "head"},
		{"hunyuan_moe", set("hunyuan-moe.expert_used_count", uint32(0)), "experts per token"},
		{"jamba", set("jamba.ssm.inner_size", uint32(50)), "the key jamba.ssm.inner_size is 50, not a multiple of 24"},
		{"jamba", drop("blk.0.ssm_dt_norm.weight"), "missing: blk.0.ssm_dt_norm.weight"},
		{"mamba", set("mamba.ssm.dt_b_c_rms", uint8(3)), "the key mamba.ssm.dt_b_c_rms is 3 (uint8), not a truth value"},
		{"mamba", set("mamba.ssm.state_size", uint32(7)), "blk.0.ssm_a is [48 6] instead of [48 7]"},
		{"mamba2", set("mamba2.ssm.group_count", uint32(3)), "4 heads of 12, 3 groups"},
		{"minicpm", add("blk.0.attn_q.bias", 24), "the key minicpm.attention.head_count is of heads with biases"},
		{"minicpm", set("minicpm.expert_count", uint32(2)), "num_experts 2"},
		{"minicpm3", func(g *testkit.GGUF) {
			drop("rope_factors_long.weight")(g)
			g.Set("minicpm3.rope.scaling.original_context_length", uint32(128))
		}, "long_factor of rope type longrope has 0 numbers for 4 frequencies"},
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
	optional = append(optional, "token_types.weight", "cls.weight", "cls.norm.weight", "cls.output.weight", "dense_2.weight", "dense_3.weight") // of encoders
	turn := 0
	names := convertedNames(t)
	encoders := convertedEncoders(t)
	for _, name := range slices.Concat(names, slices.Sorted(maps.Keys(encoders))) {
		whole := encoders[name]
		if whole == nil {
			whole = readConverted(t, name).file(t, name)
		}
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
	case "minicpm3": // as all that were published have it
		doc["scale_emb"], doc["dim_model_base"] = 12, 256
	case "mistral4":
		delete(doc["rope_parameters"].(map[string]any), "llama_4_scaling_beta")
	case "dots1":
		doc["sliding_window"] = nil
	case "granite_swa", "granitemoe_swa":
		delete(doc, "layer_rope_theta")
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
