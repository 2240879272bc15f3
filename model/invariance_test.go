package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/model"
	"weir/models"
)

// TestBatchInvariance: no bit of a logit depends on how a sequence was cut into
// chunks, on its batch mates, on which positions were drawn beside it, or on
// where its blocks lie and how large they are (ARCHITECTURE, batch invariance).
func TestBatchInvariance(t *testing.T) {
	eachDevice(t, func(t *testing.T, open func() model.Device) {
		list := checkpoints
		if _, slow := open().(*twin); !slow {
			list = append(list, models.Name)
		}
		for _, name := range list {
			t.Run(name, func(t *testing.T) { invariance(t, name, open) })
		}
	})
}

func invariance(t *testing.T, name string, open func() model.Device) {
	m := openModel(t, checkpointFS(name))
	g := readGolden(t, name)
	rng := rand.New(rand.NewPCG(7, uint64(len(name))))

	// Sequences that share beginnings, of different lengths; more than one
	// block, more than any window.
	var texts [][]int32
	full := slices.Concat(g.Prompt, g.Greedy)
	for range 4 {
		text := slices.Clone(full[:len(full)-rng.IntN(40)])
		for i := rng.IntN(len(text)); i < len(text); i++ {
			text[i] = int32(rng.IntN(m.Config.VocabSize))
		}
		texts = append(texts, text)
	}
	// The plain way: one sequence, one step, every position drawn.
	var want [][][]float32
	for i, text := range texts {
		h := newHarness(t, m, open(), model.Options{MaxSeqTokens: 256}, uint64(i))
		want = append(want, h.step(chunk{&sequence{tokens: text}, len(text), positions(0, len(text))}))
	}
	for round := range 6 {
		block := []int{16, 32, 48}[round%3]
		h := newHarness(t, m, open(), model.Options{MaxSeqTokens: 256, BlockTokens: block, NumBlocks: 1 + 4*256/16}, uint64(round))
		var live []*sequence
		var ids []int
		for id, text := range texts {
			live = append(live, &sequence{tokens: text})
			ids = append(ids, id)
		}
		for step := 0; len(live) > 0; step++ {
			var chunks []chunk
			var chosen []int
			for _, i := range rng.Perm(len(live)) {
				s := live[i]
				if rng.IntN(4) == 0 {
					continue // waits
				}
				n := 1 + rng.IntN(min(len(s.tokens)-s.computed, []int{1, 7, 40, 500}[rng.IntN(4)]))
				var at []int
				for _, pos := range positions(s.computed, s.computed+n) {
					if rng.IntN(3) == 0 || pos == len(s.tokens)-1 {
						at = append(at, pos)
					}
				}
				chunks = append(chunks, chunk{s, n, at})
				chosen = append(chosen, ids[i])
			}
			if len(chunks) == 0 {
				continue
			}
			got := h.step(chunks...)
			for i, c := range chunks {
				for _, pos := range c.at {
					sameBits(t, fmt.Sprintf("round %d, step %d: sequence %d at position %d (chunk of %d, %d mates, blocks of %d)",
						round, step, chosen[i], pos, c.n, len(chunks)-1, block), got[0], want[chosen[i]][pos])
					got = got[1:]
				}
			}
			for i := len(live) - 1; i >= 0; i-- {
				if s := live[i]; s.computed == len(s.tokens) {
					h.release(s)
					live, ids = slices.Delete(live, i, i+1), slices.Delete(ids, i, i+1)
				}
			}
		}
	}
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: logit %d is %x, not %x", what, i, got[i], want[i])
		}
	}
}
