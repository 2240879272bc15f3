package model_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"weir/internal/testkit"
	"weir/model"
	"weir/pooling"
)

// TestGGUFEncoders: what llama.cpp's converter makes of a folder of sentence-transformers gives the vectors that it computes. Of
// EmbeddingGemma the converter leaves out some things, so that these are changed in the folder, too, whose network is then what it
// is compared with.
func TestGGUFEncoders(t *testing.T) {
	eachExact(t, func(t *testing.T, open func() model.Device) {
		list, err := filepath.Glob("testdata/gguf-encoders/*.json")
		if err != nil || len(list) == 0 {
			t.Fatalf("%d files, %v", len(list), err)
		}
		seen := 0
		for _, path := range list {
			name := filepath.Base(path[:len(path)-len(".json")])
			dir := filepath.Join("testdata/encoders", name)
			if _, err := os.Stat(dir); err != nil {
				continue // the head of a classifier is package pooling's
			}
			seen++
			t.Run(name, func(t *testing.T) {
				var g encoderGolden
				b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
				if err == nil {
					err = json.Unmarshal(b, &g)
				}
				if err != nil || len(g.Tokens) == 0 {
					t.Fatal(err)
				}
				m := openBytes(t, testkit.ReadConverted(t, path).File(t, dir).Bytes())
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
					if name == "embeddinggemma" {
						want = want[:0:0]
						for _, x := range vectors(openModel(t, gemmaAsConverted(t, dir)), tokens) {
							want = append(want, float64(x))
						}
					}
					comparePooled(t, g.Texts[i], vectors(m, tokens), want)
				}
			})
		}
		if seen < 8 {
			t.Errorf("%d encoders", seen)
		}
	})
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
