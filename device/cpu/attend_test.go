package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
	"weir/model"
)

// attendCase is one layer's attention of the last rows of a few sequences.
type attendCase struct {
	heads, kvHeads, dim, window, blockTokens int
	seqs                                     []struct{ rows, context int }
}

// attendBed holds the numbers of a case, the same for all impls and formats.
type attendBed struct {
	attendCase
	q, k, v [][][]float32 // [sequence][position][columns]
}

func newAttendBed(rnd *rand.Rand, c attendCase) *attendBed {
	b := &attendBed{attendCase: c}
	rows := func(n, width int, std float64) [][]float32 {
		m := make([][]float32, n)
		for i := range m {
			for range width {
				m[i] = append(m[i], float32(rnd.NormFloat64()*std))
			}
		}
		return m
	}
	for _, s := range c.seqs {
		b.q = append(b.q, rows(s.context, c.heads*c.dim, 2))
		b.k = append(b.k, rows(s.context, c.kvHeads*c.dim, 1))
		b.v = append(b.v, rows(s.context, c.kvHeads*c.dim, 1))
	}
	return b
}

func (b *attendBed) scale() float32 { return float32(1 / math.Sqrt(float64(b.dim))) }

// stored is one head's key or value as the cache has it.
func stored(f Format, x []float32) []float64 {
	y := make([]float64, len(x))
	inv, unit := inverse(absMaxGeneric(x), keyMax)
	for i, v := range x {
		if f == Int8 {
			y[i] = float64(int8(toInt8(v, inv))) * float64(unit)
		} else {
			y[i] = float64(rounded(f, v))
		}
	}
	return y
}

// want is the attention of the last rows of all sequences in double precision,
// over keys and values as the format stores them, and queries as they are
// rounded beside 8-bit keys.
func (b *attendBed) want(f Format) [][]float64 {
	var out [][]float64
	for s, seq := range b.seqs {
		keys, values := make([][]float64, seq.context), make([][]float64, seq.context)
		for pos := range keys {
			for h := range b.kvHeads {
				keys[pos] = append(keys[pos], stored(f, b.k[s][pos][h*b.dim:][:b.dim])...)
				values[pos] = append(values[pos], stored(f, b.v[s][pos][h*b.dim:][:b.dim])...)
			}
		}
		for pos := seq.context - seq.rows; pos < seq.context; pos++ {
			lo := 0
			if b.window > 0 {
				lo = max(0, pos+1-b.window)
			}
			row := make([]float64, b.heads*b.dim)
			for h := range b.heads {
				kv := h / (b.heads / b.kvHeads) * b.dim
				given := b.q[s][pos][h*b.dim:][:b.dim]
				q := stored(F32, given)
				if f == Int8 {
					q = stored(Int8, given)
				}
				scores, top, sum := make([]float64, pos+1), math.Inf(-1), 0.0
				for i := lo; i <= pos; i++ {
					for d, v := range q {
						scores[i] += v * keys[i][kv+d]
					}
					scores[i] *= float64(b.scale())
					top = max(top, scores[i])
				}
				for i := lo; i <= pos; i++ {
					scores[i] = math.Exp(scores[i] - top)
					sum += scores[i]
				}
				for d := range q {
					for i := lo; i <= pos; i++ {
						row[h*b.dim+d] += scores[i] / sum * values[i][kv+d]
					}
				}
			}
			out = append(out, row)
		}
	}
	return out
}

// attend computes the same on a device.
func (b *attendBed) attend(t *testing.T, cfg Config) [][]float32 {
	t.Helper()
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	width, kv := b.heads*b.dim, b.kvHeads*b.dim
	spec := backend.Spec{VocabSize: 16, BlockTokens: b.blockTokens, NumBlocks: 1, MaxTokens: 1, MaxSeqs: len(b.seqs), MaxSeqTokens: 1, Depth: 1}
	for _, s := range b.seqs {
		spec.NumBlocks += (s.context + b.blockTokens - 1) / b.blockTokens
		spec.MaxTokens += s.context
		spec.MaxSeqTokens = max(spec.MaxSeqTokens, s.context)
	}
	if err := d.Plan(model.Shape{Layers: 2, Heads: b.heads, KVHeads: b.kvHeads, HeadDim: b.dim, Acts: []model.ActShape{{Width: width + 2*kv}, {Width: width}}, Spec: spec}); err != nil {
		t.Fatal(err)
	}
	for i := range d.cache.data {
		d.cache.data[i] = 0xff // NaN, and never a position of anybody's
	}
	q, k, v := model.Act{Width: width}, model.Act{Off: width, Width: kv}, model.Act{Off: width + kv, Width: kv}
	f := newFeeder(newRand(1), spec)
	seqs := make([]*sequence, len(b.seqs))
	// The context first, all but the last rows, then these.
	for half := range 2 {
		f.reset()
		row := 0
		for i, s := range b.seqs {
			if half == 0 {
				seqs[i] = &sequence{tokens: make([]int32, s.context)}
			}
			n := [2]int{s.context - s.rows, s.rows}[half]
			for pos := seqs[i].computed; pos < seqs[i].computed+n; pos++ {
				copy(d.view(q).row(row), b.q[i][pos])
				copy(d.view(k).row(row), b.k[i][pos])
				copy(d.view(v).row(row), b.v[i][pos])
				row++
			}
			if n > 0 {
				f.add(seqs[i], n, false)
			}
		}
		if row == 0 {
			continue
		}
		d.Begin(&f.batch)
		d.StoreKV(1, q, k, v, model.Heads{Rope: model.NoRope})
	}
	dst := model.Act{Buf: 1, Width: width}
	d.Attend(dst, q, 1, model.Attention{Scale: b.scale(), Window: b.window})
	var out [][]float32
	for r := range f.batch.Tokens {
		out = append(out, slices.Clone(d.view(dst).row(r)))
	}
	return out
}

// attendCases: head sizes from 8 to 256, odd ones too, groups of 1 to 16 heads,
// windows, and contexts around the borders of units and partial results.
func attendCases(rnd *rand.Rand) []attendCase {
	var cases []attendCase
	contexts := []int{1, 2, 15, 16, 17, 31, 255, 256, 257, 300, 513}
	for i, dim := range []int{8, 12, 17, 20, 32, 40, 64, 80, 96, 128, 256} {
		c := attendCase{kvHeads: 1 + i%3, dim: dim, window: []int{0, 0, 5, 40, 270}[i%5], blockTokens: []int{16, 32, 48, 256}[i%4]}
		c.heads = c.kvHeads * []int{1, 2, 3, 4, 7, 16}[i%6]
		for range 3 {
			n := contexts[rnd.IntN(len(contexts))]
			c.seqs = append(c.seqs, struct{ rows, context int }{1 + rnd.IntN(min(n, 40)), n})
		}
		c.seqs = append(c.seqs, struct{ rows, context int }{1, contexts[i]})
		cases = append(cases, c)
	}
	return cases
}

// TestAttend: attention of every implementation and format against double
// precision over what the cache stores and queries as rounded beside it. What no
// sequence wrote is NaN.
func TestAttend(t *testing.T) {
	// Values are about 1; bfloat16 rounds queries and weights where the kernels
	// want pairs.
	limits := map[Format]float64{F32: 4e-6, F16: 4e-6, BF16: 4e-6, Int8: 5e-4}
	const pairsLimit = 3e-2
	rnd := newRand(20)
	for _, c := range attendCases(rnd) {
		b := newAttendBed(rnd, c)
		t.Run(fmt.Sprintf("%d_of_%d_heads_of_%d_window_%d", c.kvHeads, c.heads, c.dim, c.window), func(t *testing.T) {
			for f, limit := range limits {
				b.check(t, f, limit, pairsLimit)
			}
		})
	}
}

func (b *attendBed) check(t *testing.T, f Format, limit, pairsLimit float64) {
	want := b.want(f)
	for _, im := range impls {
		limit := limit
		if im.dots[f].pairs {
			limit = pairsLimit
		}
		worst := 0.0
		got := b.attend(t, Config{Threads: 2, KVType: f, Impl: im.name})
		for r := range want {
			for i, v := range want[r] {
				diff := math.Abs(float64(got[r][i]) - v)
				if worst = max(worst, diff); !(diff <= limit) {
					t.Fatalf("%s, %s: row %d, column %d: %v, want %v", im.name, f, r, i, got[r][i], v)
				}
			}
		}
		t.Logf("%s, %s: off by %.2g", im.name, f, worst)
	}
}
