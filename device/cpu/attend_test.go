package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// attendCase is one layer's attention of the last rows of a few sequences.
type attendCase struct {
	heads, kvHeads, dim, blockTokens int
	valueDim                         int  // 0: dim
	inKey                            bool // values are the first columns of keys
	a                                model.Attention
	sunk                             bool // there are sinks
	seqs                             []attendSeq
}

type attendSeq struct{ rows, context int }

// name lists what is unusual about a case.
func (c *attendCase) name() string {
	s := fmt.Sprintf("%d_of_%d_heads_of_%d", c.kvHeads, c.heads, c.dim)
	for _, x := range []struct {
		is   bool
		name string
	}{
		{c.valueDim != 0, fmt.Sprintf("values_%d", c.valueDim)}, {c.inKey, "in_keys"}, {c.a.Window > 0, fmt.Sprintf("window_%d", c.a.Window)},
		{c.a.Chunk > 0, fmt.Sprintf("chunk_%d", c.a.Chunk)}, {c.a.Bidirectional, "both_ways"}, {c.a.Softcap > 0, "capped"}, {c.a.Slopes != nil, "sloping"}, {c.a.Buckets != nil, "by_distance"}, {c.sunk, "sinks"},
	} {
		if x.is {
			s += "_" + x.name
		}
	}
	return s
}

// attendInput holds the numbers of a case, the same for all impls and formats.
type attendInput struct {
	attendCase
	q, k, v [][][]float32 // [sequence][position][columns]
	sinks   weights.Tensor
	biases  weights.Tensor
}

func newAttendInput(rnd *rand.Rand, c attendCase) *attendInput {
	b := &attendInput{attendCase: c}
	if b.valueDim == 0 {
		b.valueDim = b.dim
	}
	if b.a.Scale == 0 {
		b.a.Scale = float32(1 / math.Sqrt(float64(b.dim)))
	}
	b.a.Sinks = model.NoWeight
	if b.sunk { // from far below the scores to above them
		b.sinks = tensor(rnd, weights.F32, 4, b.heads)
	}
	if b.a.Buckets != nil {
		b.biases = tensor(rnd, weights.F32, 2, (1+int(slices.Max(b.a.Buckets)))*b.heads)
	}
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
		b.v = append(b.v, rows(s.context, c.kvHeads*b.valueDim, 1))
		if b.inKey {
			for pos, row := range b.v[len(b.v)-1] {
				for h := range b.kvHeads {
					copy(row[h*b.valueDim:][:b.valueDim], b.k[len(b.k)-1][pos][h*b.dim:])
				}
			}
		}
	}
	return b
}

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
		keys, values := b.heads64(f, b.k[s], b.dim), b.heads64(f, b.v[s], b.valueDim)
		for pos := seq.context - seq.rows; pos < seq.context; pos++ {
			var row []float64
			for h := range b.heads {
				kv := h / (b.heads / b.kvHeads)
				q := stored(F32, b.q[s][pos][h*b.dim:][:b.dim])
				if f == Int8 {
					q = b.parts(Int8, b.q[s][pos][h*b.dim:][:b.dim])
				}
				row = append(row, b.head(q, h, pos, keys[kv], values[kv])...)
			}
			out = append(out, row)
		}
	}
	return out
}

// heads64 is what the cache stores of all rows, by KV head.
func (b *attendInput) heads64(f Format, rows [][]float32, dim int) [][][]float64 {
	heads := make([][][]float64, b.kvHeads)
	for h := range heads {
		for _, row := range rows {
			heads[h] = append(heads[h], b.parts(f, row[h*dim:][:dim]))
		}
	}
	return heads
}

// parts is the same of a head whose first columns have a scale of their own if they are the value.
func (b *attendInput) parts(f Format, x []float32) []float64 {
	if n := b.valueDim; b.inKey && n < len(x) {
		return append(stored(f, x[:n]), stored(f, x[n:])...)
	}
	return stored(f, x)
}

// sees reports whether position pos attends to position other.
func (b *attendInput) sees(pos, other int) bool {
	a := &b.a
	if !a.Bidirectional && other > pos || a.Window > 0 && max(pos-other, other-pos) >= a.Window {
		return false
	}
	return a.Chunk == 0 || other/a.Chunk == pos/a.Chunk || other > pos
}

// head is the attention of query head h at position pos.
func (b *attendInput) head(q []float64, h, pos int, keys, values [][]float64) []float64 {
	scores, top := make([]float64, len(keys)), math.Inf(-1)
	for i, key := range keys {
		if scores[i] = math.Inf(-1); !b.sees(pos, i) {
			continue
		}
		score := 0.0
		for d, v := range q {
			score += v * key[d]
		}
		score *= float64(b.a.Scale)
		if b.a.Slopes != nil {
			score -= float64(b.a.Slopes[h]) * float64(max(pos-i, i-pos))
		}
		if b.a.Buckets != nil {
			most := len(b.a.Buckets) / 2
			score += float64(number(weights.F32, b.biases.Data, int(b.a.Buckets[most+min(max(i-pos, -most), most)])*b.heads+h))
		}
		if c := float64(b.a.Softcap); c > 0 {
			score = c * math.Tanh(score/c)
		}
		scores[i] = score
		top = max(top, score)
	}
	sum := 0.0
	if b.sunk {
		sink := number(weights.F32, b.sinks.Data, h)
		top = max(top, float64(sink))
		sum = math.Exp(float64(sink) - top)
	}
	for i := range scores {
		scores[i] = math.Exp(scores[i] - top)
		sum += scores[i]
	}
	y := make([]float64, b.valueDim)
	for i, value := range values {
		for d, v := range value {
			y[d] += scores[i] / sum * v
		}
	}
	return y
}

// attendDevice is a device with a cache between two others of other sizes.
type attendDevice struct {
	*Device
	b            *attendInput
	f            *feeder
	q, k, v, dst model.Act
	a            model.Attention
}

// attendKV is the number of the cache that is tested.
const attendKV = 1

func (b *attendInput) open(t *testing.T, cfg Config, place placement) *attendDevice {
	t.Helper()
	dev, err := open(cfg, place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &attendDevice{Device: dev, b: b, a: b.a}
	width, key, value := b.heads*b.dim, b.kvHeads*b.dim, b.kvHeads*b.valueDim
	spec := backend.Spec{VocabSize: 16, BlockTokens: b.blockTokens, NumBlocks: 1, MaxTokens: 1, MaxSeqs: len(b.seqs), MaxSeqTokens: 1, Depth: 1}
	for _, s := range b.seqs {
		spec.NumBlocks += (s.context + b.blockTokens - 1) / b.blockTokens
		spec.MaxTokens += s.context
		spec.MaxSeqTokens = max(spec.MaxSeqTokens, s.context)
	}
	kv := []model.KVShape{{Heads: 2, KVHeads: 1, KeyDim: 20, ValueDim: 20}, {Heads: b.heads, KVHeads: b.kvHeads, KeyDim: b.dim, ValueDim: b.valueDim, ValueInKey: b.inKey}, {Heads: 3, KVHeads: 3, KeyDim: 8, ValueDim: 8}}
	if err := d.Plan(model.Shape{KV: kv, Acts: []model.ActShape{{Width: width + key + value}, {Width: b.heads * b.valueDim}, {Width: 80}}, Spec: spec}); err != nil {
		t.Fatal(err)
	}
	if b.sunk {
		if d.a.Sinks, err = d.Load(model.Matrix{Use: model.Vector, Rows: []weights.Tensor{b.sinks}}); err != nil {
			t.Fatal(err)
		}
	}
	if b.a.Buckets != nil {
		if d.a.Bias, err = d.Load(model.Matrix{Use: model.Vector, Rows: []weights.Tensor{b.biases}}); err != nil {
			t.Fatal(err)
		}
	}
	data := d.caches[attendKV].data
	for i := range data {
		data[i] = 0xff // NaN, and never a position of anybody's
	}
	d.q, d.k, d.v, d.dst = model.Act{Width: width}, model.Act{Off: width, Width: key}, model.Act{Off: width + key, Width: value}, model.Act{Buf: 1, Width: b.heads * b.valueDim}
	d.f = newFeeder(newRand(1), spec)
	return d
}

// add puts the next n positions of sequence i into the batch, after row others.
func (d *attendDevice) add(s *sequence, i, n, row int) {
	for pos := s.computed; pos < s.computed+n; pos++ {
		copy(d.view(d.q).row(row), d.b.q[i][pos])
		copy(d.view(d.k).row(row), d.b.k[i][pos])
		copy(d.view(d.v).row(row), d.b.v[i][pos])
		row++
	}
	if n > 0 {
		d.f.add(s, n, false)
	}
}

// store stores the batch's keys and values, and something in the caches beside.
func (d *attendDevice) store() {
	other := model.Act{Buf: 2, Width: 80}
	plain := model.Heads{Rope: model.NoRope}
	d.StoreKV(attendKV, d.q, d.k, d.v, plain)
	d.StoreKV(0, other.Cols(0, 40), other.Cols(40, 20), other.Cols(60, 20), plain)
	d.StoreKV(2, other.Cols(0, 24), other.Cols(24, 24), other.Cols(48, 24), plain)
}

// attend computes the same on a device.
func (b *attendInput) attend(t *testing.T, cfg Config) [][]float32 {
	t.Helper()
	place, err := machine().place(cfg.Threads, cfg.Pin)
	if err != nil {
		t.Fatal(err)
	}
	d := b.open(t, cfg, place)
	seqs := make([]*sequence, len(b.seqs))
	// The context first, all but the last rows, then these.
	for half := range 2 {
		d.f.reset()
		for i, s := range b.seqs {
			if half == 0 {
				seqs[i] = &sequence{tokens: make([]int32, s.context)}
			}
			d.add(seqs[i], i, [2]int{s.context - s.rows, s.rows}[half], len(d.f.batch.Tokens))
		}
		if len(d.f.batch.Tokens) == 0 {
			continue
		}
		d.Begin(&d.f.batch)
		d.store()
	}
	d.Attend(d.dst, d.q, attendKV, d.a)
	var out [][]float32
	for r := range d.f.batch.Tokens {
		out = append(out, slices.Clone(d.view(d.dst).row(r)))
	}
	return out
}

// attendCases: head sizes from 8 to 256, odd ones too, groups of 1 to 16 heads,
// windows, and contexts around the borders of units and partial results.
func attendCases(rnd *rand.Rand) []attendCase {
	var cases []attendCase
	contexts := []int{1, 2, 15, 16, 17, 31, 255, 256, 257, 300, 513}
	for i, dim := range []int{8, 12, 17, 20, 32, 40, 64, 80, 96, 128, 256} {
		c := attendCase{kvHeads: 1 + i%3, dim: dim, a: model.Attention{Window: []int{0, 0, 5, 40, 270}[i%5]}, blockTokens: []int{16, 32, 48, 256}[i%4]}
		c.heads = c.kvHeads * []int{1, 2, 3, 4, 7, 16}[i%6]
		for range 2 {
			n := contexts[rnd.IntN(len(contexts))]
			c.seqs = append(c.seqs, attendSeq{1 + rnd.IntN(min(n, 30)), n})
		}
		c.seqs = append(c.seqs, attendSeq{1, contexts[i]})
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
		t.Run(c.name(), func(t *testing.T) {
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
