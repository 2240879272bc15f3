package cpu

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"weir/weights"
)

// TestBatchInvariance: every bit of every logit is the same, however sequences
// are cut into chunks, with whom they share a batch, which blocks and block
// size they have, how many threads compute and on which memory nodes.
func TestBatchInvariance(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		for kv := F32; kv <= Int8; kv++ {
			if im.name == "generic" && kv < BF16 {
				continue // slow, and all but Int8 take the same path
			}
			t.Run(kv.String(), func(t *testing.T) { testBatchInvariance(t, im, Auto, kv) })
			if im.narrow != nil { // products in bfloat16 round away what attention does to the last bits
				t.Run(kv.String()+" beside float32", func(t *testing.T) { testBatchInvariance(t, im, F32, kv) })
			}
		}
		for f := Q8; f <= W8A8; f++ {
			if im.narrow != nil || im.name == "generic" && f != Q8 {
				continue // the same kernels as the next tier's; slow
			}
			t.Run(f.String(), func(t *testing.T) { testBatchInvariance(t, im, f, BF16) })
		}
	})
}

func testBatchInvariance(t *testing.T, im *impl, weight, kv Format) {
	rnd := newRand(2)
	n := newNet(rnd, weights.BF16, 32)
	lengths := []int{1, 2, 15, 16, 17, 70, 255, 256, 257, 600}
	rounds := 6
	if im.name == "generic" { // slow, most of all under the race detector
		lengths, rounds = []int{1, 17, 70, partTokens + 5}, 4
	}
	var seqs []*sequence
	for _, l := range lengths {
		seqs = append(seqs, &sequence{tokens: randomTokens(rnd, l, n.vocab)})
	}
	// One sequence at a time, in one chunk, on one thread.
	want := make([][][]float32, len(seqs))
	{
		r := newRunner(t, n, Config{Threads: 1, WeightType: weight, KVType: kv, Impl: im.name}, testSpec)
		for i, s := range seqs {
			s.computed, s.table = 0, nil
			f := newFeeder(rnd, testSpec)
			f.add(s, len(s.tokens), true)
			want[i] = f.run(t, r)
		}
	}
	for round := range rounds {
		spec := testSpec
		spec.BlockTokens = []int{16, 48, 64, 32, 16, 256}[round]
		spec.NumBlocks = 110
		place := []placement{anywhere(1), anywhere(2), fakeNodes(3, 1), anywhere(3), fakeNodes(1, 1), anywhere(2)}[round]
		r := newRunnerOn(t, n, Config{WeightType: weight, KVType: kv, Impl: im.name}, place, spec)
		f := newFeeder(rnd, spec)
		for _, s := range seqs {
			s.computed, s.table = 0, nil
		}
		for left := len(seqs); left > 0; {
			f.reset()
			room := 1 + rnd.IntN(300)
			var who, from []int
			for _, i := range rnd.Perm(len(seqs)) {
				s := seqs[i]
				size := []int{1, 2, 7, 16, 64, 500}[rnd.IntN(6)]
				if c := min(size, len(s.tokens)-s.computed, room); c > 0 {
					room -= c
					for k := range c {
						who, from = append(who, i), append(from, s.computed+k)
					}
					f.add(s, c, true)
					if s.computed == len(s.tokens) {
						left--
					}
				}
			}
			for row, got := range f.run(t, r) {
				if !slices.Equal(bitsOf(got), bitsOf(want[who[row]][from[row]])) {
					t.Fatalf("round %d, %d threads, blocks of %d: position %d of the sequence of %d differs", round, len(place.node), spec.BlockTokens, from[row], len(seqs[who[row]].tokens))
				}
			}
		}
	}
}

func bitsOf(v []float32) []uint32 {
	b := make([]uint32, len(v))
	for i := range v {
		b[i] = math.Float32bits(v[i])
	}
	return b
}

// TestStaleBlocks: what a sequence left in a block, infinities and NaN
// included, reaches nobody who gets the block next.
func TestStaleBlocks(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(4)
		n := newNet(rnd, weights.BF16, 26) // a key ends within four columns
		s := &sequence{tokens: randomTokens(rnd, 75, n.vocab)}
		for kv := F32; kv <= Int8; kv++ {
			var want []uint32
			for _, poison := range []byte{0, 0xff} {
				r := newRunner(t, n, Config{Threads: 2, KVType: kv, Impl: im.name}, testSpec)
				for i := range r.cache.data {
					r.cache.data[i] = poison
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
					if poison == 0 {
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
			for _, threads := range []int{1, 5} {
				r := newRunner(t, n, Config{Threads: threads, KVType: kv, Impl: im.name}, testSpec)
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

// TestNaNStaysHome: a sequence whose numbers are broken breaks nobody else's.
func TestNaNStaysHome(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(11)
		n := newNet(rnd, weights.BF16, 32)
		const broken = 300
		for i := range n.dim {
			binary.LittleEndian.PutUint16(n.embed.Data[(broken*n.dim+i)*2:], 0x7fc0)
		}
		r := newRunner(t, n, Config{Threads: 2, KVType: BF16, Impl: im.name}, testSpec)
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
