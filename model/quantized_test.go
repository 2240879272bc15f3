package model_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"weir/device/cpu"
	"weir/model"
	"weir/models"
)

// newQuantized opens devices that store weights in f, and keys and values in kv.
func newQuantized(t *testing.T, impl string, f, kv cpu.Format) model.Device {
	t.Helper()
	cfg := cpu.Default()
	cfg.Threads, cfg.Impl, cfg.WeightType, cfg.KVType, cfg.HugePages = 2, impl, f, kv, false
	d, err := cpu.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestQuantizedLogits limits how far the logits of the bundled model are from the golden
// ones if weights or activations are rounded, relative to their size (root mean square
// over all rows).
func TestQuantizedLogits(t *testing.T) {
	for _, c := range []struct {
		f, kv cpu.Format
		limit float64
	}{{cpu.Auto, cpu.F32, 1e-2}, {cpu.Q8, cpu.F32, 2e-2}, {cpu.Q4, cpu.F32, 0.15}, {cpu.W8A8, cpu.F32, 0.1}, {cpu.Auto, cpu.Int8, 2e-2}} {
		for _, impl := range cpu.Impls() {
			if c.f == cpu.Auto && c.kv == cpu.F32 && !roundsRows(impl) {
				continue // TestGoldenLogits is stricter
			}
			t.Run(c.f.String()+" "+c.kv.String()+" "+impl, func(t *testing.T) {
				g := readGolden(t, models.Name)
				h := newHarness(t, openModel(t, models.Bundled()), newQuantized(t, impl, c.f, c.kv), model.Options{MaxSeqTokens: 256}, 1)
				n := len(g.Prompt)
				var off, size float64
				for i, row := range h.step(chunk{&sequence{tokens: g.Prompt}, n, positions(n-g.Rows, n)}) {
					for v, got := range row {
						d := float64(got) - g.logits[i][v]
						off, size = off+d*d, size+g.logits[i][v]*g.logits[i][v]
					}
				}
				rel := math.Sqrt(off / size)
				t.Logf("relative error %.2g", rel)
				if !(rel <= c.limit) {
					t.Errorf("relative error %.3g > %.3g", rel, c.limit)
				}
			})
		}
	}
}

// TestQuantizedPerplexity compares the perplexity of the bundled model with 8 and 4
// bits per weight, and with 8 bits per key and value, with that of the stored weights
// and float32. The texts are answers of conversations that it was not trained on: those
// of its heldout.jsonl without tools, with this project's template and tokenizer.
func TestQuantizedPerplexity(t *testing.T) {
	var texts []struct{ Prompt, Answer []int32 }
	b, err := os.ReadFile("testdata/weir-tiny/heldout.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &texts); err != nil {
		t.Fatal(err)
	}
	if underRace {
		texts = texts[:10]
	}
	perplexity := func(f, kv cpu.Format) float64 {
		h := newHarness(t, openModel(t, models.Bundled()), newQuantized(t, "", f, kv), model.Options{MaxSeqTokens: 512, MaxTokens: 512}, 1)
		sum, n := 0.0, 0
		for _, c := range texts {
			s := &sequence{tokens: append(append([]int32(nil), c.Prompt...), c.Answer...)}
			first := len(c.Prompt) - 1
			for i, row := range h.step(chunk{s, len(s.tokens), positions(first, len(s.tokens)-1)}) {
				sum -= logprob(row, c.Answer[i])
				n++
			}
			h.release(s)
		}
		return math.Exp(sum / float64(n))
	}
	want := perplexity(cpu.Auto, cpu.F32)
	t.Logf("stored: %.5f", want)
	for _, c := range []struct {
		f, kv cpu.Format
		limit float64
	}{{cpu.Q8, cpu.F32, 0.005}, {cpu.Q4, cpu.F32, 0.05}, {cpu.W8A8, cpu.F32, 0.01}, {cpu.Auto, cpu.BF16, 0.001}, {cpu.Auto, cpu.Int8, 0.001}, {cpu.Q8, cpu.Int8, 0.005}} {
		got := perplexity(c.f, c.kv)
		t.Logf("weights %s, keys and values %s: %.5f, %+.3f %%", c.f, c.kv, got, 100*(got/want-1))
		if !(got/want-1 <= c.limit) {
			t.Errorf("weights %s, keys and values %s: perplexity %.5f, %+.2f %% of %.5f", c.f, c.kv, got, 100*(got/want-1), want)
		}
	}
}

// logprob is the logarithm of a token's probability.
func logprob(row []float32, token int32) float64 {
	top := row[0]
	for _, v := range row {
		top = max(top, v)
	}
	sum := 0.0
	for _, v := range row {
		sum += math.Exp(float64(v - top))
	}
	return float64(row[token]-top) - math.Log(sum)
}
