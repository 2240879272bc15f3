package model_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"weir/device/cpu"
	"weir/internal/testkit"
	"weir/model"
	"weir/models"
	"weir/weights"
)

// The golden data come from Hugging Face transformers, in float32 on a CPU with eager
// attention, from the weights as they are stored (tools/golden/models.py). So only
// arithmetic can differ, not storage: every logit stays within tolerance for float32,
// float16 and bfloat16 weights alike, which is far below the spread of the logits. The
// reference device, in float64, is up to 4e-5 away from transformers, which round every
// operation to float32.
const tolerance = 2e-4

var checkpoints = []string{"llama2", "llama3", "llama-bias", "mistral", "qwen2", "qwen2-yarn", "qwen3"}

type golden struct {
	Prompt  []int32
	Greedy  []int32
	Margins []float64 // best minus second best logit of each greedy token
	Rows    int       // logits are of the last Rows positions of the prompt
	logits  [][]float64
	hidden  [][][]float64 // [layer][position][column]
}

func readGolden(t *testing.T, name string) golden {
	t.Helper()
	var g golden
	b, err := os.ReadFile(filepath.Join("testdata", name, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	g.logits = readFloats(t, filepath.Join("testdata", name, "logits.f32"), g.Rows)
	if name != models.Name {
		const layers = 3
		all := readFloats(t, filepath.Join("testdata", name, "hidden.f32"), layers*len(g.Prompt))
		for ; len(all) > 0; all = all[len(g.Prompt):] {
			g.hidden = append(g.hidden, all[:len(g.Prompt)])
		}
	}
	for i, row := range g.logits {
		if s := spread(row); s < 1 {
			t.Fatalf("logits of row %d have a standard deviation of %v: a wrong network would pass", i, s)
		}
	}
	return g
}

func readFloats(t *testing.T, path string, rows int) [][]float64 {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := make([][]float64, rows)
	for i := range m {
		m[i] = decode(weights.Tensor{DType: weights.F32, Shape: []int{len(b) / 4 / rows}, Data: b[i*len(b)/rows:]})
	}
	return m
}

func spread(row []float64) float64 {
	mean, square := 0.0, 0.0
	for _, v := range row {
		mean += v / float64(len(row))
	}
	for _, v := range row {
		square += (v - mean) * (v - mean) / float64(len(row))
	}
	return math.Sqrt(square)
}

// compare fails where a logit is off by more than limit, or a row's cosine is
// below 0.9999.
func compare(t *testing.T, what string, got [][]float32, want [][]float64, limit float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, not %d", what, len(got), len(want))
	}
	for i := range want {
		worst, at := 0.0, 0
		var dot, a, b float64
		for j, w := range want[i] {
			g := float64(got[i][j])
			if diff := math.Abs(g - w); !(diff <= worst) { // NaN too
				worst, at = diff, j
			}
			dot, a, b = dot+g*w, a+g*g, b+w*w
		}
		if cosine := dot / math.Sqrt(a*b); !(worst <= limit) || !(cosine >= 0.9999) {
			t.Fatalf("%s, row %d: off by %.3g at %d (got %v, want %v), cosine %.7f", what, i, worst, at, got[i][at], want[i][at], cosine)
		}
	}
}

func checkpointFS(name string) fs.FS {
	if name == models.Name {
		return models.Bundled()
	}
	return os.DirFS(filepath.Join("testdata", name))
}

func TestGoldenLogits(t *testing.T) {
	eachExact(t, func(t *testing.T, open func() model.Device) {
		for _, name := range append(checkpoints, models.Name) {
			t.Run(name, func(t *testing.T) {
				g := readGolden(t, name)
				h := newHarness(t, openModel(t, checkpointFS(name)), open(), model.Options{MaxSeqTokens: 256}, 1)
				n := len(g.Prompt)
				got := h.step(chunk{&sequence{tokens: g.Prompt}, n, positions(n-g.Rows, n)})
				compare(t, "logits", got, g.logits, tolerance)
			})
		}
	})
}

// TestGoldenKVTypes: keys and values rounded to 16 bits turn the logits of a
// trained network by an angle that is too small to matter. Only its direction
// is compared: how far a logit moves depends on the network.
func TestGoldenKVTypes(t *testing.T) {
	for _, kv := range []cpu.Format{cpu.F16, cpu.BF16} {
		t.Run(kv.String(), func(t *testing.T) {
			g := readGolden(t, models.Name)
			h := newHarness(t, openModel(t, models.Bundled()), newCPU(t, "", kv)(), model.Options{MaxSeqTokens: 256}, 1)
			n := len(g.Prompt)
			got := h.step(chunk{&sequence{tokens: g.Prompt}, n, positions(n-g.Rows, n)})
			compare(t, "logits", got, g.logits, math.Inf(1))
		})
	}
}

// TestGoldenGreedy: where the best token leads by more than both sides may be
// off, it is the token drawn. No margin of the golden data is smaller, so all
// 64 must be equal.
func TestGoldenGreedy(t *testing.T) {
	eachExact(t, func(t *testing.T, open func() model.Device) {
		for _, name := range append(checkpoints, models.Name) {
			t.Run(name, func(t *testing.T) {
				g := readGolden(t, name)
				h := newHarness(t, openModel(t, checkpointFS(name)), open(), model.Options{MaxSeqTokens: 256}, 2)
				s := &sequence{tokens: g.Prompt}
				if underRace {
					g.Greedy = g.Greedy[:4]
				}
				for i, want := range g.Greedy {
					h.step(chunk{s, len(s.tokens) - s.computed, []int{len(s.tokens) - 1}})
					if g.Margins[i] <= 2*tolerance {
						t.Fatalf("token %d leads by %v only: make other golden data", i, g.Margins[i])
					}
					if got := h.out.Tokens[0]; got != want {
						t.Fatalf("token %d is %d, want %d (which leads by %v)", i, got, want, g.Margins[i])
					}
					s.tokens = append(s.tokens, want)
				}
			})
		}
	})
}

// TestGoldenLayers names the first layer that is wrong. The network is cut
// after each layer in turn, and the logits of the rest are compared with the
// head over the golden residual stream.
func TestGoldenLayers(t *testing.T) {
	eachExact(t, func(t *testing.T, open func() model.Device) {
		for _, name := range checkpoints {
			t.Run(name, func(t *testing.T) {
				g := readGolden(t, name)
				for layers := 1; layers <= len(g.hidden); layers++ {
					m := openModel(t, cut(t, name, layers))
					h := newHarness(t, m, open(), model.Options{MaxSeqTokens: 256}, 3)
					n := len(g.Prompt)
					got := h.step(chunk{&sequence{tokens: g.Prompt}, n, positions(0, n)})
					compare(t, fmt.Sprintf("layer %d", layers-1), got, headOver(t, name, g.hidden[layers-1]), tolerance)
				}
			})
		}
	})
}

// cut is the checkpoint with its first layers alone.
func cut(t *testing.T, name string, layers int) fs.FS {
	t.Helper()
	c, err := weights.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var kept []weights.Tensor
	for _, n := range c.Names() {
		if rest, ok := strings.CutPrefix(n, "model.layers."); ok && int(rest[0]-'0') >= layers {
			continue
		}
		x, _ := c.Tensor(n)
		kept = append(kept, x)
	}
	config := editConfig(t, name, func(doc map[string]any) {
		doc["num_hidden_layers"] = layers
		if types, ok := doc["layer_types"].([]any); ok {
			doc["layer_types"] = types[:layers]
		}
	})
	return fstest.MapFS{
		"config.json":       &fstest.MapFile{Data: config},
		"model.safetensors": &fstest.MapFile{Data: testkit.Safetensors(kept)},
	}
}

func editConfig(t *testing.T, name string, edit func(map[string]any)) []byte {
	t.Helper()
	b, err := fs.ReadFile(checkpointFS(name), "config.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	edit(doc)
	b, err = json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// headOver computes the final norm and the head over golden rows.
func headOver(t *testing.T, name string, hidden [][]float64) [][]float64 {
	t.Helper()
	c, err := weights.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m := openModel(t, checkpointFS(name))
	x, _ := c.Tensor("model.norm.weight")
	norm := decode(x)
	x, ok := c.Tensor("lm_head.weight")
	if !ok {
		x, _ = c.Tensor("model.embed_tokens.weight")
	}
	head := decode(x)
	var logits [][]float64
	for _, row := range hidden {
		square := 0.0
		for _, v := range row {
			square += v * v
		}
		scale := 1 / math.Sqrt(square/float64(len(row))+float64(m.Config.NormEps))
		out := make([]float64, m.Config.VocabSize)
		for v := range out {
			for k, h := range row {
				out[v] += h * scale * norm[k] * head[v*len(row)+k]
			}
		}
		logits = append(logits, out)
	}
	return logits
}
