package cpu

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weir/internal/invariants"
	"weir/model"
)

// randomAttendCase draws the sizes and options of a layer's attention: heads of 16 to 576 columns,
// groups of 1 to 128 heads, values that are narrower or wider than keys.
func randomAttendCase(rnd *rand.Rand, i int) attendCase {
	pick := func(list ...int) int { return list[rnd.IntN(len(list))] }
	group := []int{1, 128, 2, 5, 8, 16, 64, 3}[i%8]
	c := attendCase{kvHeads: 1, blockTokens: pick(16, 32, 48, 256)}
	if group < 16 {
		c.kvHeads = pick(1, 2, 3)
	}
	c.heads = c.kvHeads * group
	c.dim = []int{16, 576, 40, 64, 96, 128, 192, 256, 512, 26}[i%10]
	if c.valueDim = c.dim; i%3 != 0 {
		c.valueDim = pick(16, 24, 64, 128, 512)
	}
	c.inKey = c.valueDim <= c.dim && i%4 != 2
	c.a.Window, c.a.Chunk = pick(0, 0, 1, 7, 64, 300), pick(0, 0, 5, 100, 300)
	if c.a.Bidirectional = i%4 == 3; c.a.Bidirectional {
		c.a.Window = []int{64, 0, 7, 1}[i/4%4]
	}
	if i%2 == 1 {
		c.a.Softcap = float32(pick(1, 5, 50))
	}
	c.sunk = i%5 < 2
	if i%7 == 2 {
		c.a.Scale = 0.3
	}
	if i%3 == 1 { // from a slope that hides what is far away to one that hides nothing
		for h := range c.heads {
			c.a.Slopes = append(c.a.Slopes, float32(0.5/float64(1+h*h)))
		}
	}
	if i%5 == 3 { // the buckets of some near distances, and of all that is farther away
		c.a.Buckets = []int32{4, 4, 3, 1, 0, 2, 5, 6, 6}
	}
	for range 2 {
		n := pick(1, 2, 15, 17, 90, 255, 257, 300, 530)
		rows := 1 + rnd.IntN(min(n, 9))
		if c.a.Bidirectional { // rows that others follow
			n = min(n, partTokens+20)
			rows = n
		}
		c.seqs = append(c.seqs, attendSeq{rows, n})
	}
	c.seqs = append(c.seqs, attendSeq{1, partTokens + 20})
	return c
}

// attendOptions are cases with all combinations of what attention can do besides.
func attendOptions(rnd *rand.Rand, n int) []attendCase {
	var cases []attendCase
	for i := range n {
		cases = append(cases, randomAttendCase(rnd, i))
	}
	return cases
}

// TestAttendOptions: windows, chunks, both directions, bounded scores and sinks of every
// implementation and format, against double precision.
func TestAttendOptions(t *testing.T) {
	limits := map[Format]float64{F32: 1e-5, F16: 1e-5, BF16: 1e-5, Int8: 1e-3}
	const pairsLimit = 5e-2
	rnd := newRand(30)
	for i, c := range attendOptions(rnd, 20) {
		b := newAttendInput(rnd, c)
		t.Run(c.name(), func(t *testing.T) {
			for f, limit := range limits {
				if c.a.Slopes != nil || c.a.Buckets != nil {
					limit *= 2 // their scores are rounded once more
				}
				if f == F16 && i%4 != 0 {
					continue
				}
				t.Run(f.String(), func(t *testing.T) { b.check(t, f, limit, pairsLimit) })
			}
		})
	}
}

// TestAttendOptionsInvariance: no bit of a row's attention depends on how sequences were cut into
// chunks, on batch mates, blocks or threads; and blocks that a row does not see are not read: they
// hold NaN here.
func TestAttendOptionsInvariance(t *testing.T) {
	for _, kv := range []Format{F32, BF16, Int8} {
		t.Run(kv.String(), func(t *testing.T) {
			eachKernel(t, func(im *impl) uintptr { return table(im, im.dots[kv].scores) }, func(t *testing.T, im *impl) {
				rnd := newRand(31)
				for i, c := range attendOptions(rnd, 20) {
					if im.name == "generic" && (c.heads*c.dim > 600 || kv == F32) {
						continue
					}
					newAttendInput(rnd, c).checkInvariance(t, rnd, Config{KVType: kv, Impl: im.name}, i)
				}
			})
		})
	}
}

// checkInvariance compares one of the rounds with a thread that computes each sequence at once.
func (b *attendInput) checkInvariance(t *testing.T, rnd *rand.Rand, cfg Config, i int) {
	t.Helper()
	want := b.rowBits(t, cfg, anywhere(1), nil)
	round := invarianceRounds[i%len(invarianceRounds)]
	b.blockTokens = round.blockTokens
	got := b.rowBits(t, cfg, round.place, rnd)
	for s := range want {
		for pos := range want[s] {
			if !slices.Equal(got[s][pos], want[s][pos]) {
				t.Fatalf("%s: position %d of sequence %d differs with %d threads and blocks of %d", b.name(), pos, s, len(round.place.node), b.blockTokens)
			}
		}
	}
}

// rowBits is the attention of every position of every sequence: each sequence at once, or all in
// random chunks.
func (b *attendInput) rowBits(t *testing.T, cfg Config, place placement, rnd *rand.Rand) [][][]uint32 {
	t.Helper()
	d := b.open(t, cfg, place)
	seqs := make([]*sequence, len(b.seqs))
	for i, s := range b.seqs {
		seqs[i] = &sequence{tokens: make([]int32, s.context)}
	}
	d.chunks(seqs, rnd, func([]batchRow) {
		d.Begin(&d.f.batch)
		d.store()
	})
	out := make([][][]uint32, len(seqs))
	for i, s := range seqs {
		out[i] = make([][]uint32, s.computed)
		s.computed = 0
	}
	d.chunks(seqs, rnd, func(rows []batchRow) {
		d.Begin(&d.f.batch)
		d.hide(rows) // after Begin, which checks the contract: tables have no null block there
		// Another cache, whose heads have groups of another size, before this one.
		d.Attend(model.Act{Buf: 2, Width: 40}, model.Act{Buf: 2, Off: 40, Width: 40}, 0, model.Attention{Scale: 1, Sinks: model.NoWeight})
		d.Attend(d.dst, d.q, attendKV, d.a)
		for r, row := range rows {
			out[row.seq][row.pos] = bitsOf(d.view(d.dst).row(r))
		}
	})
	return out
}

// chunks calls f with batches until all sequences are computed.
func (d *attendDevice) chunks(seqs []*sequence, rnd *rand.Rand, f func(rows []batchRow)) {
	for i := 0; i < len(seqs); i++ {
		var rows []batchRow
		d.f.reset()
		add := func(i, n int) {
			s := seqs[i]
			for pos := range n {
				rows = append(rows, batchRow{i, s.computed + pos})
			}
			d.add(s, i, n, len(d.f.batch.Tokens))
		}
		if rnd == nil {
			add(i, len(seqs[i].tokens))
			f(rows)
			continue
		}
		for _, i := range rnd.Perm(len(seqs)) {
			add(i, min([]int{0, 1, 2, 7, 64, 500}[rnd.IntN(6)], len(seqs[i].tokens)-seqs[i].computed))
		}
		if len(rows) > 0 {
			f(rows)
		}
		if i = -1; !slices.ContainsFunc(seqs, func(s *sequence) bool { return s.computed < len(s.tokens) }) {
			break
		}
	}
}

// hide gives the batch the whole length of its sequences if rows see what comes after them, and
// puts block 0, which nobody writes, where no row of a run sees anything of a block.
func (d *attendDevice) hide(rows []batchRow) {
	b := &d.f.batch
	first, entry := 0, 0
	for i, end := range b.QueryEnd {
		run, table := rows[first:end], b.Tables[entry:b.TableEnd[i]]
		context := d.b.seqs[run[0].seq].context
		if d.a.Bidirectional {
			b.KVLen[i] = int32(context)
		}
		for e := range table {
			seen := false
			for pos := e * d.b.blockTokens; pos < min((e+1)*d.b.blockTokens, context); pos++ {
				seen = seen || slices.ContainsFunc(run, func(r batchRow) bool { return d.b.sees(r.pos, pos) })
			}
			if !seen {
				table[e] = 0
			}
		}
		first, entry = int(end), int(b.TableEnd[i])
	}
}

// TestAttendFewerHeads: a layer that shares a cache may have fewer heads than the one that fills
// it; a head's bits are the same.
func TestAttendFewerHeads(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(32)
		for _, heads := range []int{3, 16, 128} {
			b := newAttendInput(rnd, attendCase{heads: heads, kvHeads: 1, dim: 40, valueDim: 24, blockTokens: 16, a: model.Attention{Softcap: 5}, seqs: []attendSeq{{40, 300}, {1, 20}}})
			d := b.open(t, Config{KVType: BF16, Impl: im.name}, anywhere(2))
			for i, s := range b.seqs {
				d.add(&sequence{tokens: make([]int32, s.context)}, i, s.context, len(d.f.batch.Tokens))
			}
			d.Begin(&d.f.batch)
			d.StoreKV(attendKV, d.q, d.k, d.v, model.Heads{Rope: model.NoRope})
			d.Attend(d.dst, d.q, attendKV, d.a)
			var want [][]uint32
			for r := range d.f.batch.Tokens {
				want = append(want, bitsOf(d.view(d.dst).row(r)[:b.valueDim]))
			}
			one := d.dst.Cols(b.valueDim, b.valueDim)
			d.Attend(one, d.q.Cols(0, b.dim), attendKV, d.a)
			for r := range want {
				if !slices.Equal(bitsOf(d.view(one).row(r)), want[r]) {
					t.Fatalf("row %d: the first of %d heads differs when it is alone", r, heads)
				}
			}
		}
	})
}

// TestAttendAllocatesNothing: nor do options of attention.
func TestAttendAllocatesNothing(t *testing.T) {
	rnd := newRand(33)
	for i, c := range attendOptions(rnd, 8) {
		b := newAttendInput(rnd, c)
		d := b.open(t, Config{KVType: BF16}, anywhere(1+i%2))
		for i, s := range b.seqs {
			d.add(&sequence{tokens: make([]int32, s.context)}, i, s.context, len(d.f.batch.Tokens))
		}
		if n := testing.AllocsPerRun(3, func() {
			d.Begin(&d.f.batch)
			d.StoreKV(attendKV, d.q, d.k, d.v, model.Heads{Rope: model.NoRope})
			d.Attend(d.dst, d.q, attendKV, d.a)
		}); n != 0 && !invariants.Enabled {
			t.Errorf("%s: %v allocations", c.name(), n)
		}
	}
}

// TestValuesInKeys: where values are the first columns of keys, the cache holds them once, and no bit of a
// result is another than with a cache that holds them twice.
func TestValuesInKeys(t *testing.T) {
	sizes := [][2]int{{576, 512}, {40, 24}, {26, 24}, {64, 64}, {32, 16}, {18, 1}}
	for _, kv := range []Format{F32, F16, BF16, Int8} {
		t.Run(kv.String(), func(t *testing.T) {
			eachImpl(t, func(t *testing.T, im *impl) {
				rnd := newRand(34)
				for i, size := range sizes {
					if im.name == "generic" && size[0] > 100 || kv == Int8 && size[0] != size[1] {
						continue
					}
					c := attendCase{heads: []int{16, 3, 128}[i%3], kvHeads: 1 + 2*(i%3%2), dim: size[0], valueDim: size[1], inKey: true, blockTokens: 16 + i%2*32, a: model.Attention{Window: i % 3 * 100}}
					c.seqs = []attendSeq{{1, 20}, {1, 2*partTokens + 30}}
					b := newAttendInput(rnd, c)
					once := b.rowBits(t, Config{KVType: kv, Impl: im.name}, anywhere(2), newRand(35))
					b.inKey = false
					twice := b.rowBits(t, Config{KVType: kv, Impl: im.name}, anywhere(2), newRand(35))
					for s := range once {
						if !slices.EqualFunc(once[s], twice[s], slices.Equal) {
							t.Fatalf("%s: sequence %d differs from one whose values are stored apart", b.name(), s)
						}
					}
				}
			})
		})
	}
}

// TestKVSizes: a token takes what its caches take together, values in keys nothing, and with int8 a head
// or a part of it has a scale.
func TestKVSizes(t *testing.T) {
	s := model.Shape{KV: []model.KVShape{{Heads: 8, KVHeads: 2, KeyDim: 192, ValueDim: 128}, {Heads: 16, KVHeads: 1, KeyDim: 576, ValueDim: 512}, {Heads: 4, KVHeads: 4, KeyDim: 18, ValueDim: 20},
		{Heads: 16, KVHeads: 1, KeyDim: 576, ValueDim: 512, ValueInKey: true}, {Heads: 16, KVHeads: 1, KeyDim: 128}, {Heads: 1, KVHeads: 1, KeyDim: 64, ValueDim: 64, ValueInKey: true}}}
	numbers := int64(2*(192+128) + 576 + 512 + 4*(20+32) + 576 + 128 + 64) // keys padded to fours, values to tiles
	scales := int64(2*2 + 2 + 4*2 + 2 + 1 + 1)
	for f, bytes := range map[Format]int64{F32: 4 * numbers, F16: 2 * numbers, BF16: 2 * numbers, Int8: numbers + 4*scales} {
		if got, err := KVBytesPerToken(f, s); err != nil || got != bytes {
			t.Errorf("%s: %d bytes (%v), not %d", f, got, err, bytes)
		}
	}
}
