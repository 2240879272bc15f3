package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"

	"weir/model"
	"weir/models"
)

// TestBatchInvariance: no bit of a logit depends on how a sequence was cut into
// chunks, on its batch mates, on which positions were drawn beside it, on where
// its blocks lie and how large they are, or on the number of threads
// (ARCHITECTURE, batch invariance).
func TestBatchInvariance(t *testing.T) {
	eachDevice(t, func(t *testing.T, open func() model.Device) {
		dev := open()
		_, isReference := dev.(*reference)
		dev.Close()
		if isReference { // it is invariant by construction, so this tests the test
			invariance(t, "mistral", 100, 2, 2, open)
			return
		}
		if underRace {
			invariance(t, "qwen3", 300, 2, 1, open)
			return
		}
		// 600 positions are more than two of the ranges that the CPU device sums
		// apart, and more than any window.
		for _, name := range checkpoints {
			t.Run(name, func(t *testing.T) { invariance(t, name, 600, 3, 3, open) })
		}
		t.Run(models.Name, func(t *testing.T) { invariance(t, models.Name, 150, 2, 2, open) })
	})
}

func invariance(t *testing.T, name string, length, sequences, rounds int, open func() model.Device) {
	fsys := files(t, checkpointFS(name))
	fsys["config.json"] = &fstest.MapFile{Data: editConfig(t, name, func(doc map[string]any) {
		doc["max_position_embeddings"] = length
	})}
	m := openModel(t, fsys)
	rng := rand.New(rand.NewPCG(7, uint64(len(name))))

	// Sequences of different lengths that share beginnings.
	full := make([]int32, length)
	for i := range full {
		full[i] = int32(rng.IntN(m.Config.VocabSize))
	}
	var texts [][]int32
	for range sequences {
		text := slices.Clone(full[:length-rng.IntN(length/2)])
		for i := rng.IntN(len(text)); i < len(text); i++ {
			text[i] = int32(rng.IntN(m.Config.VocabSize))
		}
		texts = append(texts, text)
	}
	// The plain way: one sequence, one step, every position drawn.
	all := model.Options{MaxTokens: sequences * length, MaxSeqTokens: length}
	var want [][][]float32
	for i, text := range texts {
		h := newHarness(t, m, open(), all, uint64(i))
		want = append(want, h.step(chunk{&sequence{tokens: text}, len(text), positions(0, len(text))}))
	}
	for round := range rounds {
		block := []int{16, 32, 48}[round%3]
		o := all
		o.BlockTokens, o.NumBlocks = block, 1+sequences*(length/block+1)
		h := newHarness(t, m, open(), o, uint64(round))
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
				n := 1 + rng.IntN(min(len(s.tokens)-s.computed, []int{1, 7, 90, length}[rng.IntN(4)]))
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
