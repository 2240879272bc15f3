package model_test

import (
	"encoding/json"
	"fmt"
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
	"weir/pooling"
)

// TestGGUFEncoders: what llama.cpp's converter makes of a folder of sentence-transformers gives the vectors that it computes. Of
// EmbeddingGemma the converter leaves out some things, so that these are changed in the folder, too, whose network is then what it
// is compared with.
func TestGGUFEncoders(t *testing.T) {
	eachExact(t, func(t *testing.T, open func() model.Device) {
		seen := 0
		for name, g := range convertedEncoders(t) {
			name = strings.TrimPrefix(name, "encoder ")
			dir := filepath.Join("testdata/encoders", name)
			if _, err := os.Stat(dir); err != nil {
				continue // the head of a classifier is package pooling's
			}
			seen++
			t.Run(name, func(t *testing.T) { compareEncoder(t, openBytes(t, g.Bytes()), dir, open) })
		}
		if seen < 8 {
			t.Errorf("%d encoders", seen)
		}
	})
}

// compareEncoder compares the vectors of a folder's texts.
func compareEncoder(t *testing.T, m *model.Model, dir string, open func() model.Device) {
	t.Helper()
	var g encoderGolden
	b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err == nil {
		err = json.Unmarshal(b, &g)
	}
	if err != nil || len(g.Tokens) == 0 {
		t.Fatal(err)
	}
	plan, err := pooling.Load(os.DirFS(dir), m.Config.Hidden)
	if err != nil {
		t.Fatal(err)
	}
	vectors := func(m *model.Model, tokens []int32) []float32 {
		h := newHarness(t, m, open(), model.Options{MaxTokens: len(tokens), NumBlocks: 2 + len(tokens)/16}, 1)
		return plan.Apply(nil, pool(plan.Kind, h.vectors(typed{tokens: tokens})[0]), pooling.Options{})
	}
	for i, tokens := range g.Tokens {
		want := g.Vectors[i]
		if filepath.Base(dir) == "embeddinggemma" {
			want = nil
			for _, x := range vectors(openModel(t, gemmaAsConverted(t, dir)), tokens) {
				want = append(want, float64(x))
			}
		}
		comparePooled(t, g.Texts[i], vectors(m, tokens), want)
	}
}

// TestGGUFFusedProducts: files whose queries, keys and values are one tensor, as the converter's option --fuse-qkv and older networks
// have them, give the same bits.
func TestGGUFFusedProducts(t *testing.T) {
	fuse := func(g *testkit.GGUF, kinds ...string) {
		for layer := range 8 {
			for _, kind := range kinds {
				var whole testkit.GGUFTensor
				for _, part := range []string{"q", "k", "v"} {
					i := slices.IndexFunc(g.Tensors, func(x testkit.GGUFTensor) bool { return x.Name == fmt.Sprintf("blk.%d.attn_%s.%s", layer, part, kind) })
					if i < 0 {
						return
					}
					x := g.Tensors[i]
					g.Tensors = slices.Delete(g.Tensors, i, i+1)
					whole.Data = append(whole.Data, x.Data...)
					if last := len(x.Shape) - 1; whole.Shape == nil {
						whole.Shape = slices.Clone(x.Shape)
					} else {
						whole.Shape[last] += x.Shape[last]
					}
				}
				whole.Name = fmt.Sprintf("blk.%d.attn_qkv.%s", layer, kind)
				g.Tensors = append(g.Tensors, whole)
			}
		}
	}
	apart, golden := readConverted(t, "glm").file(t, "glm"), readFamily(t, "glm")
	want := familyLogits(t, openBytes(t, apart.Bytes()), golden.Prompt)
	fuse(apart, "weight", "bias")
	if got := familyLogits(t, openBytes(t, apart.Bytes()), golden.Prompt); !reflect.DeepEqual(got, want) {
		t.Error("glm: the logits differ")
	}
	bert := convertedEncoders(t)["encoder minilm"]
	vectors := func() [][][]float32 {
		h := newHarness(t, openBytes(t, bert.Bytes()), newCPU(t, "", cpu.F32)(), model.Options{MaxTokens: 8, NumBlocks: 4}, 1)
		return h.vectors(typed{tokens: []int32{2, 40, 50, 60, 3}})
	}
	before := vectors()
	fuse(bert, "weight", "bias")
	if !reflect.DeepEqual(vectors(), before) {
		t.Error("bert: the vectors differ")
	}
}

// TestGGUFRopePattern: a file of Granite Swash says which layers rotate, where config.json has a base of 0.
func TestGGUFRopePattern(t *testing.T) {
	const name = "granite_swa"
	g, golden := readConverted(t, name).file(t, name), readFamily(t, name)
	g.Set("granite_swa.attention.rope_pattern", []bool{true, false, true, false})
	checkpoint, _ := asConverted(t, name)
	files, ok := checkpoint.(fstest.MapFS)
	if !ok {
		t.Fatal("no files")
	}
	files["config.json"] = &fstest.MapFile{Data: editConfig(t, "families/"+name, func(doc map[string]any) { doc["layer_rope_theta"] = []float64{10000, 0, 10000, 0} })}
	want := familyLogits(t, openModel(t, files), golden.Prompt)
	golden.compareLogits(t, familyLogits(t, openBytes(t, g.Bytes()), golden.Prompt), want, false)
	plain := familyLogits(t, openBytes(t, readConverted(t, name).file(t, name).Bytes()), golden.Prompt)
	if reflect.DeepEqual(plain, want) {
		t.Error("the pattern changes nothing")
	}
}

// convertedEncoders are the files of encoders and of networks that rank, by their names.
func convertedEncoders(t testing.TB) map[string]*testkit.GGUF {
	t.Helper()
	all := map[string]*testkit.GGUF{}
	for _, place := range []string{"testdata/encoders/", "testdata/classifiers/", "../cmd/weir/testdata/rerankers/reranker-"} {
		list, err := filepath.Glob("testdata/gguf-encoders/*.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range list {
			name := strings.TrimSuffix(filepath.Base(path), ".json")
			dir := strings.ReplaceAll(place+name, "reranker-reranker-", "")
			if _, err := os.Stat(dir); err == nil {
				all["encoder "+name] = testkit.ReadConverted(t, path).File(t, dir)
			}
		}
	}
	if len(all) < 15 {
		t.Fatalf("%d files", len(all))
	}
	return all
}

// gemmaAsConverted is the folder of EmbeddingGemma as llama.cpp takes it to be: with the scale and the windows of the published one.
func gemmaAsConverted(t *testing.T, dir string) fstest.MapFS {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	config := editConfig(t, "encoders/embeddinggemma", func(doc map[string]any) {
		doc["query_pre_attn_scalar"] = 12
		doc["layer_types"] = []string{"sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention"}
	})
	return fstest.MapFS{"config.json": {Data: config}, "model.safetensors": {Data: b}}
}
