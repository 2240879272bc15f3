//go:build cuda && linux && amd64

package cuda_test

import (
	"math/rand/v2"
	"testing"

	"weir/device/cpu"
	"weir/device/cuda"
	"weir/model"
	"weir/models"
)

// TestQuantizedLikeTheCPU: with 8 and 4 bits per weight, the logits of the bundled model
// are near those of the CPU with the same weights. The CPU rounds activations, too. Storing
// weights in 4 bits moves the logits ten times as far.
func TestQuantizedLikeTheCPU(t *testing.T) {
	m, err := model.OpenFS(models.Bundled())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	v := m.Config.VocabSize
	o := model.Options{NumBlocks: 20, MaxTokens: 32, MaxSeqs: 4, MaxSeqTokens: 64}
	tokens := randomTokens(rand.New(rand.NewPCG(6, 6)), 13, v)
	run := func(r *model.Runner) (logits []float32) {
		h := newHarness(t, r, 1)
		s := &sequence{tokens: tokens}
		for _, n := range []int{9, 2, 1, 1} {
			logits = append(logits, h.step(chunk{seq: s, n: n, all: true, draw: greedy()}).Logits...)
		}
		return logits
	}
	plain := run(onCPU(t, m, cpu.BF16, o))
	for _, f := range []struct {
		gpu   cuda.Format
		cpu   cpu.Format
		limit float64
	}{{cuda.Q8, cpu.Q8, 0.03}, {cuda.Q4, cpu.Q4, 0.03}} {
		t.Run(f.gpu.String(), func(t *testing.T) {
			cfg := config()
			cfg.Weights = f.gpu
			got, want := run(onGPU(t, m, cfg, o)), run(onCPU(t, m, f.cpu, o))
			e, whole := logitError(got, want), logitError(want, plain)
			if !(e < f.limit) || f.gpu == cuda.Q4 && !(3*e < whole) {
				t.Errorf("%s: logits differ by %.4f, and by %.4f from those of whole weights", f.gpu, e, whole)
			}
			t.Logf("%s: error %.4f; from whole weights %.4f", f.gpu, e, whole)
			for r := range tokens {
				x, y := got[r*v:(r+1)*v], want[r*v:(r+1)*v]
				if a, b := best(x), best(y); a != b && margin(y) > 0.1*spread(y) {
					t.Errorf("%s: row %d: token %d, on the CPU %d by a margin of %.2f", f.gpu, r, a, b, margin(y))
				}
			}
		})
	}
}

// best is the index of the greatest value.
func best(v []float32) int {
	at := 0
	for i, x := range v {
		if x > v[at] {
			at = i
		}
	}
	return at
}
