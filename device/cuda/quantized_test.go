//go:build cuda && linux && amd64

package cuda_test

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/device/cpu"
	"weir/device/cuda"
	"weir/model"
	"weir/models"
	"weir/weights"
)

// TestQuantizedLikeTheCPU: with 8 and 4 bits per weight, the logits of the bundled model
// are near those of the CPU with the same weights. The CPU rounds activations to 8 bits, too,
// and the GPU does not. With weights of 8 bits that is about as much as rounding them moves
// the logits, so the GPU must be nearer to whole weights than the CPU is. Storing weights in
// 4 bits moves the logits ten times as far. How far depends on the weights themselves, so the
// errors are compared with each other, and the fixed limit is a wide one.
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
		gpu cuda.Format
		cpu cpu.Format
	}{{cuda.Q8, cpu.Q8}, {cuda.Q4, cpu.Q4}} {
		t.Run(f.gpu.String(), func(t *testing.T) {
			cfg := config()
			cfg.Weights = f.gpu
			got, want := run(onGPU(t, m, cfg, o)), run(onCPU(t, m, f.cpu, o))
			e, ofGPU, ofCPU := logitError(got, want), logitError(got, plain), logitError(want, plain)
			near := ofGPU < ofCPU && e < ofCPU
			if f.gpu == cuda.Q4 {
				near = 3*e < ofCPU && 3*e < ofGPU
			}
			if !near || e > 0.1 {
				t.Errorf("%s: logits differ by %.4f; from those of whole weights by %.4f, on the CPU by %.4f", f.gpu, e, ofGPU, ofCPU)
			}
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

// quantisedModel is a model of random weights, whose matrices are stored as d.
func quantisedModel(t *testing.T, d weights.DType) *model.Model {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, uint64(d)))
	c := openModel(t, "llama3").Config
	c.Hidden, c.Intermediate, c.Heads, c.KVHeads, c.HeadDim, c.TiedHead = 64, 96, 4, 2, 16, true
	m, err := model.FromTensors(c, func(name string, shape []int) weights.Tensor {
		w := weights.Tensor{Name: name, Shape: shape, DType: weights.BF16}
		if len(shape) == 1 {
			for range shape[0] {
				w.Data = append(w.Data, 0x80, 0x3f) // 1
			}
			return w
		}
		w.DType = d
		if d == weights.MXFP4 && strings.Contains(name, "embed") {
			w.DType = weights.Q8_0 // of MXFP4 no kernel reads rows
		}
		columns, size := w.DType.Block()
		for range shape[0] * shape[1] / columns {
			b := make([]byte, size)
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			if w.DType == weights.MXFP4 {
				b[0] = byte(115 + rng.Uint32N(4)) // 2^-12 and more
				w.Data = append(w.Data, b...)
				continue
			}
			binary.LittleEndian.PutUint16(b, 0x0c00+uint16(rng.Uint32N(1<<10))) // 2^-12 and more
			if w.DType != weights.Q8_0 {
				b[1] += 4 << 2 // times 16
			}
			if d == weights.Q4_1 {
				binary.LittleEndian.PutUint16(b[2:], 0xac00) // the minimum, -2^-4
			}
			w.Data = append(w.Data, b...)
		}
		return w
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// TestStoredQuantised: a checkpoint of whole numbers with scales gives the logits that it has
// in float32 on the CPU, but for the rounding of activations.
func TestStoredQuantised(t *testing.T) {
	for _, d := range []weights.DType{weights.Q8_0, weights.Q4_0, weights.MXFP4} {
		t.Run(d.String(), func(t *testing.T) {
			m := quantisedModel(t, d)
			o := model.Options{NumBlocks: 20, MaxTokens: 32, MaxSeqs: 4, MaxSeqTokens: 64}
			tokens := randomTokens(rand.New(rand.NewPCG(6, 6)), 13, m.Config.VocabSize)
			run := func(r *model.Runner) []float32 {
				return newHarness(t, r, 1).step(chunk{seq: &sequence{tokens: tokens}, n: 13, all: true, draw: greedy()}).Logits
			}
			if e := logitError(run(onGPU(t, m, config(), o)), run(onCPU(t, m, cpu.F32, o))); !(e < 0.02) {
				t.Errorf("logits differ by %.4f", e)
			} else {
				t.Logf("logits differ by %.4f", e)
			}
		})
	}
}

// TestStoredOtherwise: what no kernel reads is refused, unless rounding is allowed.
func TestStoredOtherwise(t *testing.T) {
	m := quantisedModel(t, weights.Q4_1)
	o := model.Options{NumBlocks: 20, MaxTokens: 32, MaxSeqs: 4, MaxSeqTokens: 64}
	dev, err := cuda.Open(config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.NewRunner(t.Context(), dev, m, o); !errors.Is(err, cuda.ErrStored) || !strings.Contains(err.Error(), "stored as Q4_1") {
		t.Errorf("loaded with %v", err)
	}
	cfg := config()
	cfg.Widen = true
	tokens := randomTokens(rand.New(rand.NewPCG(6, 6)), 13, m.Config.VocabSize)
	run := func(r *model.Runner) []float32 {
		return newHarness(t, r, 1).step(chunk{seq: &sequence{tokens: tokens}, n: 13, all: true, draw: greedy()}).Logits
	}
	if e := logitError(run(onGPU(t, m, cfg, o)), run(onCPU(t, m, cpu.F32, o))); !(e < 0.03) {
		t.Errorf("logits differ by %.4f", e)
	}
}
