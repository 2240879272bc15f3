package model_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/fstest"

	"weir/device/cpu"
	"weir/model"
	"weir/models"
)

// TestBatchInvariance: no bit of a logit depends on how a sequence was cut into
// chunks, on the other sequences of a batch, on which positions were drawn beside it,
// on where its blocks lie and how large they are, or on the number of threads.
func TestBatchInvariance(t *testing.T) {
	// The reference device is invariant by construction, so it tests the test.
	t.Run("reference", func(t *testing.T) {
		cuttings{checkpoint: "mistral", length: 100, sequences: 2, rounds: 2, open: newReference}.run(t)
	})
	for _, impl := range cpu.Impls() {
		t.Run("cpu "+impl, func(t *testing.T) {
			// 600 positions are more than two of the ranges that the CPU device sums
			// apart, and more than any window.
			c := cuttings{length: 600, sequences: 3, rounds: 3, open: newCPU(t, impl, cpu.F32)}
			list := checkpoints
			switch {
			case underRace:
				c.length, c.sequences, c.rounds = 300, 2, 1
				list = []string{"qwen3"}
			case impl == plainGo && len(cpu.Impls()) > 1:
				// It takes twenty times as long as the others.
				c.sequences, c.rounds = 2, 1
				list = []string{"mistral", "qwen3"}
			default:
				t.Run(models.Name, func(t *testing.T) {
					cuttings{checkpoint: models.Name, length: 150, sequences: 2, rounds: 2, open: c.open}.run(t)
				})
			}
			for _, name := range list {
				c.checkpoint = name
				t.Run(name, c.run)
			}
		})
	}
}

// plainGo is the tier without assembly.
const plainGo = "generic"

// cuttings computes the same sequences in many ways.
type cuttings struct {
	checkpoint string
	length     int // of the longest sequence
	sequences  int
	rounds     int // ways
	open       func() model.Device
}

func (c cuttings) run(t *testing.T) {
	fsys := files(t, checkpointFS(c.checkpoint))
	fsys["config.json"] = &fstest.MapFile{Data: editConfig(t, c.checkpoint, func(doc map[string]any) {
		doc["max_position_embeddings"] = c.length
	})}
	c.runModel(t, openModel(t, fsys))
}

func (c cuttings) runModel(t *testing.T, m *model.Model) {
	rng := rand.New(rand.NewPCG(7, uint64(len(c.checkpoint))))
	texts := c.texts(rng, m.Config.VocabSize)

	// The plain way: one sequence, one step, every position drawn.
	o := model.Options{MaxTokens: c.sequences * c.length, MaxSeqTokens: c.length}
	var want [][][]float32
	for i, text := range texts {
		h := newHarness(t, m, c.open(), o, uint64(i))
		want = append(want, h.step(chunk{&sequence{tokens: text}, len(text), positions(0, len(text))}))
	}
	for round := range c.rounds {
		o.BlockTokens = []int{16, 32, 48}[round%3]
		o.NumBlocks = 1 + c.sequences*(c.length/o.BlockTokens+1)
		r := randomRound{
			h: newHarness(t, m, c.open(), o, uint64(round)), rng: rng, longest: c.length, want: want,
			what: fmt.Sprintf("round %d, blocks of %d", round, o.BlockTokens),
		}
		for id, text := range texts {
			r.live, r.ids = append(r.live, &sequence{tokens: text}), append(r.ids, id)
		}
		for step := 0; len(r.live) > 0; step++ {
			r.step(t, step)
		}
	}
}

// texts are sequences of different lengths that share beginnings.
func (c cuttings) texts(rng *rand.Rand, vocab int) (texts [][]int32) {
	full := make([]int32, c.length)
	for i := range full {
		full[i] = int32(rng.IntN(vocab))
	}
	for range c.sequences {
		text := slices.Clone(full[:c.length-rng.IntN(c.length/2)])
		for i := rng.IntN(len(text)); i < len(text); i++ {
			text[i] = int32(rng.IntN(vocab))
		}
		texts = append(texts, text)
	}
	return texts
}

// randomRound computes sequences in random chunks and batches.
type randomRound struct {
	h       *harness
	rng     *rand.Rand
	longest int
	live    []*sequence
	ids     []int         // of the sequences in live
	want    [][][]float32 // [id][position] logits
	what    string
}

// step runs one step and compares the logits of the rows that it draws.
func (r *randomRound) step(t *testing.T, number int) {
	t.Helper()
	var chunks []chunk
	var chosen []int
	for _, i := range r.rng.Perm(len(r.live)) {
		if r.rng.IntN(4) == 0 {
			continue // it waits
		}
		chunks, chosen = append(chunks, r.chunk(r.live[i])), append(chosen, r.ids[i])
	}
	if len(chunks) == 0 {
		return
	}
	got := r.h.step(chunks...)
	for i, c := range chunks {
		for _, pos := range c.at {
			sameBits(t, fmt.Sprintf("%s, step %d: sequence %d at position %d (chunk of %d, %d other sequences)",
				r.what, number, chosen[i], pos, c.n, len(chunks)-1), got[0], r.want[chosen[i]][pos])
			got = got[1:]
		}
	}
	for i := len(r.live) - 1; i >= 0; i-- {
		if s := r.live[i]; s.computed == len(s.tokens) {
			r.h.release(s)
			r.live, r.ids = slices.Delete(r.live, i, i+1), slices.Delete(r.ids, i, i+1)
		}
	}
}

// chunk is a chunk of random length with random rows. The last token of a sequence
// is always drawn.
func (r *randomRound) chunk(s *sequence) chunk {
	most := min(len(s.tokens)-s.computed, []int{1, 7, 90, r.longest}[r.rng.IntN(4)])
	c := chunk{seq: s, n: 1 + r.rng.IntN(most)}
	for _, pos := range positions(s.computed, s.computed+c.n) {
		if r.rng.IntN(3) == 0 || pos == len(s.tokens)-1 {
			c.at = append(c.at, pos)
		}
	}
	return c
}

func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: logit %d is %x, not %x", what, i, got[i], want[i])
		}
	}
}
