package model_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir/internal/testkit"
	"weir/model"
	"weir/weights"
)

// withTensors is a checkpoint folder with other tensors, in one file.
func withTensors(t *testing.T, from fs.FS, edit func(map[string]weights.Tensor)) fstest.MapFS {
	t.Helper()
	c, err := weights.OpenFS(from)
	if err != nil {
		t.Fatal(err)
	}
	tensors := map[string]weights.Tensor{}
	for _, name := range c.Names() {
		tensors[name], _ = c.Tensor(name)
	}
	edit(tensors)
	var list []weights.Tensor
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		list = append(list, tensors[name])
	}
	m := files(t, from)
	maps.DeleteFunc(m, func(name string, _ *fstest.MapFile) bool { return strings.Contains(name, "safetensors") })
	m["model.safetensors"] = &fstest.MapFile{Data: testkit.Safetensors(list)}
	return m
}

// TestDamagedCheckpoint: Open reports every damage with one sentence that names what is
// wrong, before any weight is loaded.
func TestDamagedCheckpoint(t *testing.T) {
	const q = "model.layers.1.self_attn.q_proj.weight"
	for _, d := range []struct {
		name string
		edit func(map[string]weights.Tensor)
		want string
	}{
		{"missing tensor", func(m map[string]weights.Tensor) { delete(m, q) }, "missing: " + q},
		{"missing head", func(m map[string]weights.Tensor) { delete(m, "lm_head.weight") }, "missing: lm_head.weight"},
		{"empty checkpoint", func(m map[string]weights.Tensor) { clear(m) },
			"missing: model.embed_tokens.weight, model.layers.0.input_layernorm.weight, model.layers.0.self_attn.q_proj.weight, model.layers.0.self_attn.k_proj.weight and 26 more"},
		{"wrong shape", func(m map[string]weights.Tensor) { x := m[q]; x.Shape = []int{20, 80}; m[q] = x }, q + " is [20 80] instead of [40 40]"},
		{"wrong rank", func(m map[string]weights.Tensor) { x := m[q]; x.Shape = []int{1600}; m[q] = x }, q + " is [1600] instead of [40 40]"},
		{"integers", func(m map[string]weights.Tensor) { x := m[q]; x.DType = weights.I32; m[q] = x }, q + " is int32 instead of float32, float16 or bfloat16"},
		{"unexpected bias", func(m map[string]weights.Tensor) {
			m["b"] = weights.Tensor{Name: "model.layers.0.self_attn.q_proj.bias", DType: weights.F32, Shape: []int{40}, Data: make([]byte, 160)}
		}, "not expected: model.layers.0.self_attn.q_proj.bias"},
		{"one renamed", func(m map[string]weights.Tensor) { x := m[q]; x.Name = "q"; m[q] = x }, "missing: " + q + "; not expected: q"},
	} {
		t.Run(d.name, func(t *testing.T) {
			m, err := model.OpenFS(withTensors(t, os.DirFS("testdata/llama2"), d.edit))
			if !errors.Is(err, model.ErrMismatch) || m != nil {
				t.Fatalf("err = %v", err)
			}
			if want := model.ErrMismatch.Error() + ": " + d.want; err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

// TestDamagedFiles: bytes lost or changed anywhere in a checkpoint's files give
// an error or the same network, never a panic.
func TestDamagedFiles(t *testing.T) {
	for _, name := range []string{"llama2", "qwen3"} {
		clean := files(t, checkpointFS(name))
		for file, content := range clean {
			if strings.HasSuffix(file, ".f32") || file == "golden.json" {
				continue
			}
			for _, n := range []int{0, 1, 7, 8, 9, 100, len(content.Data) / 2, len(content.Data) - 2} {
				m := maps.Clone(clean)
				m[file] = &fstest.MapFile{Data: content.Data[:n]}
				refused(t, m, file)
			}
			m := maps.Clone(clean)
			delete(m, file)
			if file == "generation_config.json" {
				if _, err := model.OpenFS(m); err != nil {
					t.Errorf("without %s: %v", file, err)
				}
				continue
			}
			refused(t, m, file)
			m[file] = &fstest.MapFile{Data: []byte(strings.Repeat("\x89garbage\n", 99))}
			refused(t, m, file)
		}
	}
}

func refused(t *testing.T, m fstest.MapFS, file string) {
	t.Helper()
	_, err := model.OpenFS(m)
	if err == nil || strings.Contains(err.Error(), "\n") || len(err.Error()) > 500 {
		t.Errorf("%s damaged: %v", file, err)
	}
}

// The same from a folder, where errors name the path.
func TestErrorsNameTheFile(t *testing.T) {
	dir := t.TempDir()
	_, err := model.Open(dir)
	if !errors.Is(err, model.ErrConfig) || !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), filepath.Join(dir, "config.json")) {
		t.Errorf("empty folder: %v", err)
	}
	for name, f := range files(t, checkpointFS("qwen3")) {
		if err := os.WriteFile(filepath.Join(dir, name), f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	config := filepath.Join(dir, "config.json")
	good, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, regexp.MustCompile(`"vocab_size": \d+`).ReplaceAll(good, []byte(`"vocab_size": 50`)), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err = model.Open(dir); !errors.Is(err, model.ErrMismatch) || !strings.HasPrefix(err.Error(), dir+": ") {
		t.Errorf("another vocabulary: %v", err)
	}
	if err := os.WriteFile(config, good, 0o644); err != nil {
		t.Fatal(err)
	}
	shard := filepath.Join(dir, "model-00002-of-00002.safetensors")
	if err := os.Truncate(shard, 5000); err != nil {
		t.Fatal(err)
	}
	if _, err = model.Open(dir); !errors.Is(err, weights.ErrDamaged) || !strings.Contains(err.Error(), shard) {
		t.Errorf("truncated shard: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, "model.safetensors.index.json")); err != nil {
		t.Fatal(err)
	}
	if _, err = model.Open(dir); !errors.Is(err, weights.ErrNoWeights) {
		t.Errorf("no index: %v", err)
	}
}
