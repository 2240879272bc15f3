package cpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/weights"
)

// TestBatchInvariance: every bit of every logit is the same, however sequences
// are cut into chunks, with whom they share a batch, which blocks and block
// size they have, how many threads compute and on which memory nodes.
func TestBatchInvariance(t *testing.T) {
	for kv := F32; kv <= Int8; kv++ {
		t.Run("kv="+kv.String(), func(t *testing.T) {
			eachKernel(t, func(im *impl) uintptr { return table(im, im.dots[kv].scores) }, func(t *testing.T, im *impl) {
				weight := Auto
				switch {
				case im.name == "generic" && kv < BF16:
					t.Skip("slow, and all but Int8 take the same path")
				case im.narrow != nil: // products of bfloat16 round away what attention does to the last bits
					weight = F32
				}
				testBatchInvariance(t, im, weight, kv)
			})
		})
	}
	for _, f := range []Format{BF16, Q8, Q4, W8A8} {
		t.Run("weights="+f.String(), func(t *testing.T) {
			eachDots(t, f, func(t *testing.T, im *impl) {
				if im.name == "generic" && f != Q8 {
					t.Skip("slow")
				}
				testBatchInvariance(t, im, f, BF16)
			})
		})
	}
}

// invarianceRounds are the configurations that give the same bits as one thread that
// computes one sequence in one chunk.
var invarianceRounds = []struct {
	blockTokens int
	place       placement
}{
	{16, anywhere(1)},
	{48, anywhere(3)},
	{64, fakeNodes(3, 1)},
	{256, anywhere(2)},
}

func testBatchInvariance(t *testing.T, im *impl, weight, kv Format) {
	rnd := newRand(2)
	n := newNet(rnd, weights.BF16, 32)
	lengths := []int{1, 16, 17, 70, partTokens, partTokens + 1, 2*partTokens + 18}
	if im.name == "generic" { // slow, most of all under the race detector
		lengths = []int{1, 17, 70, partTokens + 5}
	}
	seqs := make([]*sequence, len(lengths))
	want := make([][][]float32, len(lengths))
	r := newRunner(t, n, Config{Threads: 1, WeightType: weight, KVType: kv, Impl: im.name}, testSpec)
	for i, l := range lengths {
		seqs[i] = &sequence{tokens: randomTokens(rnd, l, n.vocab)}
		f := newFeeder(rnd, testSpec)
		f.add(seqs[i], l, true)
		want[i] = f.run(t, r)
	}
	for _, c := range invarianceRounds {
		spec := testSpec
		spec.BlockTokens, spec.NumBlocks = c.blockTokens, 110
		r := newRunnerOn(t, n, Config{WeightType: weight, KVType: kv, Impl: im.name}, c.place, spec)
		f := newFeeder(rnd, spec)
		for _, s := range seqs {
			s.computed, s.table = 0, nil
		}
		for rows := f.addSome(rnd, seqs); len(rows) > 0; rows = f.addSome(rnd, seqs) {
			for i, got := range f.run(t, r) {
				row := rows[i]
				if !slices.Equal(bitsOf(got), bitsOf(want[row.seq][row.pos])) {
					t.Fatalf("%d threads, blocks of %d: position %d of the sequence of %d differs", len(c.place.node), spec.BlockTokens, row.pos, lengths[row.seq])
				}
			}
		}
	}
}

// batchRow is where a row of a batch comes from.
type batchRow struct{ seq, pos int }

// addSome makes a batch of chunks of random sizes of some sequences. It returns no rows
// when all sequences are computed.
func (f *feeder) addSome(rnd *rand.Rand, seqs []*sequence) []batchRow {
	f.reset()
	budget := 1 + rnd.IntN(300)
	var rows []batchRow
	for _, i := range rnd.Perm(len(seqs)) {
		s := seqs[i]
		c := min([]int{1, 2, 7, 16, 64, 500}[rnd.IntN(6)], len(s.tokens)-s.computed, budget)
		if c == 0 {
			continue
		}
		budget -= c
		for pos := s.computed; pos < s.computed+c; pos++ {
			rows = append(rows, batchRow{i, pos})
		}
		f.add(s, c, true)
	}
	return rows
}

func bitsOf(v []float32) []uint32 {
	b := make([]uint32, len(v))
	for i := range v {
		b[i] = math.Float32bits(v[i])
	}
	return b
}

// TestStaleBlocks: what a sequence left in a block, infinities and NaN
// included, does not reach the sequence that gets the block next.
func TestStaleBlocks(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(4)
		n := newNet(rnd, weights.BF16, 26) // a key ends within four columns
		s := &sequence{tokens: randomTokens(rnd, 75, n.vocab)}
		for kv := F32; kv <= Int8; kv++ {
			var want []uint32
			for _, old := range []byte{0, 0xff} {
				r := newRunner(t, n, Config{Threads: 2, KVType: kv, Impl: im.name}, testSpec)
				for i := range r.caches[0].data {
					r.caches[0].data[i] = old
				}
				f := newFeeder(newRand(5), testSpec)
				s.computed, s.table = 0, nil
				for _, c := range []int{33, 1, 41} {
					f.reset()
					f.add(s, c, false)
					got := bitsOf(f.run(t, r)[0])
					if s.computed < len(s.tokens) {
						continue
					}
					if old == 0 {
						want = got
					} else if !slices.Equal(got, want) {
						t.Errorf("%s: old contents of a block changed a logit", kv)
					}
				}
			}
		}
	})
}

// TestSplitAttention: a long row alone is shared out by partial results, which
// changes no bit.
func TestSplitAttention(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(10)
		n := newNet(rnd, weights.BF16, 32)
		s := &sequence{tokens: randomTokens(rnd, partTokens+20, n.vocab)}
		for _, kv := range []Format{BF16, Int8} {
			var want []uint32
			for _, c := range []struct{ threads, kept int }{{1, 0}, {5, 100}, {5, 1}, {5, 3}} {
				threads := c.threads
				r := newRunner(t, n, Config{Threads: threads, KVType: kv, Impl: im.name}, testSpec)
				if threads > 1 { // in rounds of so many partial results
					r.attendJob.split = make([]splitTask, 0, min(c.kept, cap(r.attendJob.split)))
				}
				f := newFeeder(rnd, testSpec)
				s.computed, s.table = 0, nil
				f.add(s, len(s.tokens)-1, false)
				f.run(t, r)
				f.reset()
				f.add(s, 1, false)
				got := bitsOf(f.run(t, r)[0])
				if split := r.attendJob.phase == phaseMerge; split != (threads > 1) {
					t.Errorf("%d threads: split: %t", threads, split)
				}
				if threads == 1 {
					want = got
				} else if !slices.Equal(got, want) {
					t.Errorf("%s: splitting changed a logit", kv)
				}
			}
		}
	})
}

// TestNaNOfAnotherSequence: a sequence with NaN changes no bit of the others.
func TestNaNOfAnotherSequence(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(11)
		n := newNet(rnd, weights.BF16, 32)
		const broken = 300
		r := newRunner(t, n, Config{Threads: 2, KVType: BF16, Impl: im.name}, testSpec)
		// Load refuses NaN, so the table, which is read in place, gets it afterwards.
		for i := range n.dim {
			binary.LittleEndian.PutUint16(n.embed.Data[(broken*n.dim+i)*2:], 0x7fc0)
		}
		good := &sequence{tokens: randomTokens(rnd, 40, broken)}
		bad := &sequence{tokens: randomTokens(rnd, 20, broken)}
		bad.tokens[10] = broken
		f := newFeeder(rnd, testSpec)
		f.add(good, 40, false)
		want := bitsOf(f.run(t, r)[0])
		good.computed, good.table = 0, nil
		f.reset()
		f.add(bad, 20, false)
		f.add(good, 40, false)
		rows := f.run(t, r)
		if rows[0][0] == rows[0][0] || f.out.Tokens[0] != -1 {
			t.Errorf("the broken sequence: logit %v, token %d", rows[0][0], f.out.Tokens[0])
		}
		if !slices.Equal(bitsOf(rows[1]), want) {
			t.Error("NaN of a batch mate changed a logit")
		}
	})
}
