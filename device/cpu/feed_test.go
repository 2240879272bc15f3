package cpu

import (
	"math/rand/v2"
	"testing"

	"weir/backend"
)

// sequence is a request as a test feeds it.
type sequence struct {
	tokens   []int32
	computed int
	table    []int32
}

// feeder makes batches of sequences that share a pool of blocks.
type feeder struct {
	blockTokens int
	free        []int32 // blocks in the order in which they are handed out
	batch       backend.Batch
	draws       backend.Draws
	out         backend.Out
}

func newFeeder(rnd *rand.Rand, spec backend.Spec) *feeder {
	f := &feeder{blockTokens: spec.BlockTokens}
	for _, b := range rnd.Perm(spec.NumBlocks - 1) {
		f.free = append(f.free, int32(b)+1)
	}
	return f
}

func (f *feeder) reset() {
	f.batch.Reset()
	f.draws.Reset()
}

// add puts the next n tokens of s into the batch; all of them draw, and give
// their logits to the host, or only the last.
func (f *feeder) add(s *sequence, n int, all bool) {
	b := &f.batch
	for i := range n {
		pos := s.computed + i
		if pos/f.blockTokens == len(s.table) {
			s.table, f.free = append(s.table, f.free[0]), f.free[1:]
		}
		if all || i == n-1 {
			b.At = append(b.At, int32(len(b.Tokens)))
			f.draws.Rows = append(f.draws.Rows, backend.Draw{Mask: -1, Allow: -1, Target: -1, Host: true})
		}
		b.Tokens = append(b.Tokens, s.tokens[pos])
		b.Pos = append(b.Pos, int32(pos))
		b.Slots = append(b.Slots, s.table[pos/f.blockTokens]*int32(f.blockTokens)+int32(pos%f.blockTokens))
	}
	s.computed += n
	b.QueryEnd = append(b.QueryEnd, int32(len(b.Tokens)))
	b.KVLen = append(b.KVLen, int32(s.computed))
	b.Tables = append(b.Tables, s.table...)
	b.TableEnd = append(b.TableEnd, int32(len(b.Tables)))
}

// run does the step and returns the host rows.
func (f *feeder) run(t testing.TB, r *runner) [][]float32 {
	t.Helper()
	n := len(f.batch.At)
	v := r.n.vocab
	f.out = backend.Out{Tokens: make([]int32, n), Logprobs: make([]float32, n), Ranks: make([]int32, n), Logits: make([]float32, n*v)}
	if err := r.step(&f.batch, &f.draws, &f.out); err != nil {
		t.Fatal(err)
	}
	var rows [][]float32
	for i := range n {
		rows = append(rows, f.out.Logits[i*v:(i+1)*v])
	}
	return rows
}

func randomTokens(rnd *rand.Rand, n, vocab int) []int32 {
	tokens := make([]int32, n)
	for i := range tokens {
		tokens[i] = int32(rnd.IntN(vocab))
	}
	return tokens
}

var testSpec = backend.Spec{BlockTokens: 16, NumBlocks: 100, MaxTokens: 700, MaxSeqs: 16, MaxSeqTokens: 700, Depth: 1}
