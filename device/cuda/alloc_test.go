//go:build cuda && linux && amd64

package cuda_test

import (
	"math/rand/v2"
	"testing"

	"weir/backend"
	"weir/internal/invariants"
	"weir/model"
)

// TestStepAlloc: a step of decoding allocates nothing, with graphs and without.
func TestStepAlloc(t *testing.T) {
	if invariants.Enabled {
		t.Skip("invariants allocate")
	}
	for _, name := range []string{"qwen3", "families/qwen3_5_moe", "families/nemotron_h"} {
		t.Run(name, func(t *testing.T) { stepAlloc(t, openModel(t, name)) })
	}
}

func stepAlloc(t *testing.T, m *model.Model) {
	t.Helper()
	for _, plain := range []bool{false, true} {
		cfg := config()
		cfg.PlainLaunch = plain
		r := onGPU(t, m, cfg, model.Options{NumBlocks: 40, MaxTokens: 64, MaxSeqs: 4, MaxSeqTokens: 128, Depth: 2})
		h := newHarness(t, r, 1)
		draw := backend.Draw{Temperature: 1, TopP: 0.9, Mask: -1, Allow: -1, Target: -1, Logprobs: backend.RawLogprobs, Top: 3}
		f := h.begin(chunk{seq: &sequence{tokens: randomTokens(rand.New(rand.NewPCG(1, 1)), 1, m.Config.VocabSize)}, n: 1, draw: draw})
		h.draw(f)
		h.end(f)
		step := func() {
			h.draw(f) // of the step that was begun last
			if err := r.End(&f.out); err != nil {
				t.Fatal(err)
			}
			if err := r.Begin(&f.batch); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Begin(&f.batch); err != nil {
			t.Fatal(err)
		}
		step()
		// The runtime allocates too, for the collector's workers and timers: what a
		// step allocates shows in every measurement.
		n := testing.AllocsPerRun(1, step)
		for range 4 {
			n = min(n, testing.AllocsPerRun(1, step))
		}
		if n != 0 {
			t.Errorf("plain launches %v: %v allocations in a step", plain, n)
		}
		step()
		h.draw(f)
		h.end(f)
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
