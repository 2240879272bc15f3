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

// attendInput holds the numbers of a case, the same for all impls and formats.
type attendInput struct {
	attendCase
	q, k, v [][][]float32 // [sequence][position][columns]
}

func newAttendInput(rnd *rand.Rand, c attendCase) *attendInput {
	b := &attendInput{attendCase: c}
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

func (b *attendInput) scale() float32 { return float32(1 / math.Sqrt(float64(b.dim))) }

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
func (b *attendInput) want(f Format) [][]float64 {
	var out [][]float64
	for s, seq := range b.seqs {
		keys, values := b.heads64(f, b.k[s]), b.heads64(f, b.v[s])
		for pos := seq.context - seq.rows; pos < seq.context; pos++ {
			var row []float64
			for h := range b.heads {
				kv := h / (b.heads / b.kvHeads)
				q := stored(F32, b.q[s][pos][h*b.dim:][:b.dim])
				if f == Int8 {
					q = stored(Int8, b.q[s][pos][h*b.dim:][:b.dim])
				}
				row = append(row, b.head(q, keys[kv][:pos+1], values[kv][:pos+1])...)
			}
			out = append(out, row)
		}
	}
	return out
}

// heads64 is what the cache stores of all rows, by KV head.
func (b *attendInput) heads64(f Format, rows [][]float32) [][][]float64 {
	heads := make([][][]float64, b.kvHeads)
	for h := range heads {
		for _, row := range rows {
			heads[h] = append(heads[h], stored(f, row[h*b.dim:][:b.dim]))
		}
	}
	return heads
}

// head is one query's attention over the positions up to its own.
func (b *attendInput) head(q []float64, keys, values [][]float64) []float64 {
	if n := len(keys); b.window > 0 && n > b.window {
		keys, values = keys[n-b.window:], values[n-b.window:]
	}
	scores, top, sum := make([]float64, len(keys)), math.Inf(-1), 0.0
	for i, key := range keys {
		for d, v := range q {
			scores[i] += v * key[d]
		}
		scores[i] *= float64(b.scale())
		top = max(top, scores[i])
	}
	for i := range scores {
		scores[i] = math.Exp(scores[i] - top)
		sum += scores[i]
	}
	y := make([]float64, len(q))
	for i, value := range values {
		for d, v := range value {
			y[d] += scores[i] / sum * v
		}
	}
	return y
}

// attend computes the same on a device.
func (b *attendInput) attend(t *testing.T, cfg Config) [][]float32 {
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
	if err := d.Plan(model.Shape{KV: model.UniformKV(2, b.heads, b.kvHeads, b.dim), Acts: []model.ActShape{{Width: width + 2*kv}, {Width: width}}, Spec: spec}); err != nil {
		t.Fatal(err)
	}
	for i := range d.caches[0].data {
		d.caches[0].data[i] = 0xff // NaN, and never a position of anybody's
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
	d.Attend(dst, q, 1, model.Attention{Scale: b.scale(), Window: b.window, Sinks: model.NoWeight})
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
		for range 2 {
			n := contexts[rnd.IntN(len(contexts))]
			c.seqs = append(c.seqs, struct{ rows, context int }{1 + rnd.IntN(min(n, 30)), n})
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
		b := newAttendInput(rnd, c)
		t.Run(fmt.Sprintf("%d_of_%d_heads_of_%d_window_%d", c.kvHeads, c.heads, c.dim, c.window), func(t *testing.T) {
			for f, limit := range limits {
				t.Run(f.String(), func(t *testing.T) { b.check(t, f, limit, pairsLimit) })
			}
		})
	}
}

func (b *attendInput) check(t *testing.T, f Format, limit, pairsLimit float64) {
	want := b.want(f)
	eachKernel(t, func(im *impl) uintptr { return table(im, im.dots[f].scores) }, func(t *testing.T, im *impl) {
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
					t.Fatalf("row %d, column %d: %v, want %v", r, i, got[r][i], v)
				}
			}
		}
		t.Logf("off by %.2g", worst)
	})
}
