package model_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"weir/device/cpu"
	"weir/model"
)

// TestGGUFFamilies: what llama.cpp's converter makes of a family's checkpoint gives the logits of the
// checkpoint. The converter leaves out some attention windows, so that these are taken out of the checkpoint, too.
func TestGGUFFamilies(t *testing.T) {
	files, err := filepath.Glob("testdata/gguf-families/*.gguf")
	if err != nil || len(files) == 0 {
		t.Fatal("there are no files", err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".gguf")
		t.Run(name, func(t *testing.T) {
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
			}
			b, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			fsys["config.json"] = &fstest.MapFile{Data: b}
			g := readFamily(t, name)
			logits := func(m *model.Model) [][]float32 {
				h := newHarness(t, m, newCPU(t, "", cpu.F32)(), model.Options{MaxSeqTokens: 128, MaxTokens: 128}, 1)
				return h.step(chunk{&sequence{tokens: g.Prompt}, len(g.Prompt), positions(0, len(g.Prompt))})
			}
			want := logits(openModel(t, fsys))
			m, err := model.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close() })
			for i, row := range logits(m) {
				for v, got := range row {
					if diff := math.Abs(float64(got - want[i][v])); !(diff <= 1e-3) {
						t.Fatalf("position %d, logit %d: %v instead of %v", i, v, got, want[i][v])
					}
				}
			}
		})
	}
}
