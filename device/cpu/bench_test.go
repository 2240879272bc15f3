package cpu

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// best runs f repeatedly and returns the shortest time in seconds: rates are
// about the code, and the machine may have other things to do.
func best(b *testing.B, f func(i int)) float64 {
	b.Helper()
	least := time.Hour
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		f(i)
		least = min(least, time.Since(start))
	}
	return least.Seconds()
}

// BenchmarkMatMul multiplies rows with matrices that do not fit any cache
// together, as a model's do.
func BenchmarkMatMul(b *testing.B) {
	for _, im := range impls {
		for _, dtype := range []weights.DType{weights.BF16, weights.F16, weights.F32} {
			for _, rows := range []int{1, 2, 4, 8, 16, 32, 64, 512} {
				if im.name == "generic" && rows > 8 || dtype != weights.BF16 && rows != 1 && rows != 64 {
					continue
				}
				for _, threads := range []int{1, 2} {
					b.Run(fmt.Sprintf("%s/%s/rows=%d/threads=%d", im.name, dtype, rows, threads), func(b *testing.B) {
						benchMatMul(b, Config{Threads: threads, KVType: BF16, Impl: im.name, HugePages: true}, dtype, rows)
					})
				}
			}
		}
	}
}

func benchMatMul(b *testing.B, cfg Config, dtype weights.DType, rows int) {
	const n, k, matrices = 3072, 1024, 40
	d := benchDevice(b, cfg, rows, []model.ActShape{{Width: k}, {Width: n}})
	t := tensor(newRand(1), dtype, 1, n, k)
	for range matrices {
		if _, err := d.Load(model.Matrix{Rows: []weights.Tensor{t}}); err != nil {
			b.Fatal(err)
		}
	}
	s := best(b, func(i int) {
		d.MatMul(model.Act{Buf: 1, Width: n}, model.Weight(i%matrices), model.Act{Width: k})
	})
	b.ReportMetric(float64(n*k*dtype.Size())/s/1e9, "GB/s")
	b.ReportMetric(2*float64(n*k*rows)/s/1e9, "GFLOP/s")
}

// BenchmarkPacked is BenchmarkMatMul for matrices of quantized checkpoints.
func BenchmarkPacked(b *testing.B) {
	const n, k, matrices = 3072, 1024, 40
	for _, im := range impls {
		for _, c := range packedCases {
			for _, rows := range []int{1, 8, 64} {
				if c.as == F32 || im.name == "generic" {
					continue
				}
				b.Run(fmt.Sprintf("%s/%s/rows=%d", im.name, c.name, rows), func(b *testing.B) {
					d := benchDevice(b, Config{Threads: 2, KVType: BF16, Impl: im.name, HugePages: true}, rows, []model.ActShape{{Width: k}, {Width: n}})
					t := c.tensor(newRand(1), n, k)
					for range matrices {
						if _, err := d.Load(model.Matrix{Rows: []weights.Tensor{t}}); err != nil {
							b.Fatal(err)
						}
					}
					s := best(b, func(i int) {
						d.MatMul(model.Act{Buf: 1, Width: n}, model.Weight(i%matrices), model.Act{Width: k})
					})
					b.ReportMetric(float64(len(d.params[0].linear.parts[0].data))/s/1e9, "GB/s")
					b.ReportMetric(2*float64(n*k*rows)/s/1e9, "GFLOP/s")
				})
			}
		}
	}
}

// benchDevice is a device with a batch of rows begun.
func benchDevice(b *testing.B, cfg Config, rows int, acts []model.ActShape) *Device {
	b.Helper()
	d, err := Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := d.Close(); err != nil {
			b.Error(err)
		}
	})
	spec := backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 2, MaxTokens: rows, MaxSeqs: rows, MaxSeqTokens: rows, Depth: 1}
	if err := d.Plan(model.Shape{KV: model.UniformKV(1, 1, 1, 16), Acts: acts, Spec: spec}); err != nil {
		b.Fatal(err)
	}
	d.batch = &backend.Batch{Tokens: make([]int32, rows)}
	rnd := newRand(2)
	for _, a := range d.acts {
		for i := range a.data {
			a.data[i] = float32(rnd.NormFloat64())
		}
	}
	return d
}

// BenchmarkAttend: decode of some sequences, and a prefill chunk, at a context
// length, with the heads of Llama-3.2-1B and of Qwen3-0.6B. GB/s counts the
// cache that a sequence reads, once.
func BenchmarkAttend(b *testing.B) {
	for _, im := range impls {
		for _, shape := range []model.Shape{{KV: model.UniformKV(1, 32, 8, 64)}, {KV: model.UniformKV(1, 16, 8, 128)},
			{KV: []model.KVShape{{Heads: 16, KVHeads: 1, KeyDim: 576, ValueDim: 512, ValueInKey: true}}}} {
			for _, kv := range []Format{BF16, Int8, F16, F32} {
				for _, c := range []struct{ seqs, rows, context int }{{1, 1, 8192}, {8, 1, 4096}, {1, 512, 512}, {1, 512, 4096}} {
					if im.name == "generic" && c.rows*c.context > 8192 {
						continue
					}
					for _, threads := range []int{1, 2} {
						b.Run(fmt.Sprintf("%s/dim=%d/kv=%s/seqs=%d/rows=%d/context=%d/threads=%d", im.name, shape.KV[0].KeyDim, kv, c.seqs, c.rows, c.context, threads), func(b *testing.B) {
							benchAttend(b, Config{Threads: threads, KVType: kv, Impl: im.name, HugePages: true}, shape, c.seqs, c.rows, c.context)
						})
					}
				}
			}
		}
	}
}

func benchAttend(b *testing.B, cfg Config, s model.Shape, seqs, rows, context int) {
	d, err := Open(cfg)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	const blockTokens = 16
	blocks := context / blockTokens
	const layers = 4
	one := s.KV[0]
	s.KV = slices.Repeat(s.KV, layers)
	width, kvWidth := one.Heads*one.KeyDim, one.KVHeads*one.KeyDim
	s.Acts = []model.ActShape{{Width: width}, {Width: 2 * kvWidth}, {Width: one.Heads * one.ValueDim}}
	s.Spec = backend.Spec{VocabSize: 16, BlockTokens: blockTokens, NumBlocks: 1 + seqs*blocks, MaxTokens: max(seqs*rows, context), MaxSeqs: seqs, MaxSeqTokens: context, Depth: 1}
	if err := d.Plan(s); err != nil {
		b.Fatal(err)
	}
	rnd := newRand(3)
	for _, a := range d.acts {
		for i := range a.data {
			a.data[i] = float32(rnd.NormFloat64())
		}
	}
	f := newFeeder(rnd, s.Spec)
	q, k, v := model.Act{Width: width}, model.Act{Buf: 1, Width: kvWidth}, model.Act{Buf: 1, Off: kvWidth, Width: one.KVHeads * one.ValueDim}
	if one.ValueInKey {
		v.Off = 0
	}
	all := make([]*sequence, seqs)
	for i := range all { // the whole context is stored once
		all[i] = &sequence{tokens: make([]int32, context)}
		f.reset()
		f.add(all[i], context, false)
		d.Begin(&f.batch)
		for l := range layers {
			d.StoreKV(l, q, k, v, model.Heads{Rope: model.NoRope})
		}
	}
	f.reset()
	for _, s := range all {
		s.computed = context - rows
		f.add(s, rows, false)
	}
	d.Begin(&f.batch)
	token, err := KVBytesPerToken(cfg.KVType, s)
	if err != nil {
		b.Fatal(err)
	}
	dst := model.Act{Buf: 2, Width: one.Heads * one.ValueDim}
	t := best(b, func(i int) {
		d.Attend(dst, q, i%layers, model.Attention{Scale: float32(0.1 / math.Sqrt(float64(one.KeyDim))), Sinks: model.NoWeight})
	})
	pairs := float64(rows) * (float64(context) - float64(rows-1)/2) * float64(seqs)
	b.ReportMetric(float64(token)*float64(seqs*context/layers)/t/1e9, "GB/s")
	b.ReportMetric(pairs*float64(width+dst.Width)*2/t/1e9, "GFLOP/s")
}

// qwen is a model with the sizes of Qwen3-0.6B. All layers have the same
// numbers, each in memory of its own.
func qwen() *net {
	n := &net{dim: 1024, heads: 16, kvHeads: 8, headDim: 128, inner: 3072, vocab: 151936, layers: 28, window: 1 << 20}
	rnd := newRand(1)
	mat := func(rows, cols int) weights.Tensor {
		t := weights.Tensor{Name: "random", DType: weights.BF16, Shape: []int{rows, cols}, Data: make([]byte, rows*cols*2)}
		for i := 0; i < len(t.Data); i += 2 {
			v := toBF16(float32(rnd.Float64()-0.5) * 0.1)
			t.Data[i], t.Data[i+1] = byte(v), byte(v>>8)
		}
		return t
	}
	q, kv := n.heads*n.headDim, n.kvHeads*n.headDim
	n.embed = mat(n.vocab, n.dim)
	n.head = n.embed
	n.headNorm = tensor(rnd, weights.F32, 1, n.headDim)
	qkv := []weights.Tensor{mat(q, n.dim), mat(kv, n.dim), mat(kv, n.dim)}
	gateUp := []weights.Tensor{mat(n.inner, n.dim), mat(n.inner, n.dim)}
	out, down, norm := mat(n.dim, q), mat(n.dim, n.inner), tensor(rnd, weights.F32, 1, n.dim)
	for range n.layers {
		n.norms = append(n.norms, norm)
		n.qkv, n.bias = append(n.qkv, qkv), append(n.bias, nil)
		n.out, n.down, n.gateUp = append(n.out, out), append(n.down, down), append(n.gateUp, gateUp)
	}
	n.norms = append(n.norms, norm)
	n.rope.Scale = 1
	for i := range n.headDim / 2 {
		n.rope.InvFreq = append(n.rope.InvFreq, float32(math.Pow(1e6, -float64(i)/64)))
	}
	return n
}

// BenchmarkStep is whole steps of a 0.6B model in bfloat16: prefill chunks, and
// decode of some sequences at a context.
func BenchmarkStep(b *testing.B) {
	n := qwen()
	for _, impl := range []string{"", "avx2"} {
		if find(impl) == nil {
			continue
		}
		for _, threads := range []int{1, 2} {
			spec := backend.Spec{BlockTokens: 16, NumBlocks: 600, MaxTokens: 512, MaxSeqs: 64, MaxSeqTokens: 4096, Depth: 1}
			start := time.Now()
			r := newRunner(b, n, Config{Threads: threads, KVType: BF16, Impl: impl, HugePages: true}, spec)
			b.Logf("%d threads: loaded in %v", threads, time.Since(start))
			for _, c := range []struct{ seqs, rows, context int }{{1, 1, 128}, {8, 1, 128}, {32, 1, 128}, {1, 128, 128}, {1, 512, 512}, {1, 1, 4096}} {
				b.Run(fmt.Sprintf("%s/threads=%d/seqs=%d/rows=%d/context=%d", r.Impl(), threads, c.seqs, c.rows, c.context), func(b *testing.B) {
					f := newFeeder(newRand(2), spec)
					f.addLast(c.seqs, c.rows, c.context)
					s := best(b, func(int) {
						if err := r.step(&f.batch, &f.draws, &f.out); err != nil {
							b.Fatal(err)
						}
					})
					b.ReportMetric(float64(c.seqs*c.rows)/s, "tok/s")
					b.ReportMetric(s*1e3, "ms/step")
				})
			}
		}
	}
}

// addLast puts the last rows of some sequences of a length into the batch, whose earlier
// positions have whatever the cache holds. Only tokens are wanted of them.
func (f *feeder) addLast(seqs, rows, context int) {
	for range seqs {
		s := &sequence{tokens: make([]int32, context), computed: context - rows}
		for range context / f.blockTokens {
			s.table, f.free = append(s.table, f.free[0]), f.free[1:]
		}
		f.add(s, rows, false)
	}
	for i := range f.draws.Rows {
		f.draws.Rows[i].Host = false
	}
	f.out.Tokens = make([]int32, seqs)
}

// BenchmarkBlocks multiplies rows with matrices in block formats, of the shapes
// of Qwen3-0.6B and Llama-3.2-1B, 640 MB of them in turn.
func BenchmarkBlocks(b *testing.B) {
	for _, im := range impls {
		if im.name == "generic" {
			continue
		}
		for f := Q8; f <= W8A8; f++ {
			for _, shape := range [][2]int{{3072, 1024}, {1024, 3072}, {8192, 2048}, {2048, 8192}} {
				for _, threads := range []int{1, 2} {
					for _, rows := range []int{1, 4, 8, 12, 16, 32, 64, 512} {
						b.Run(fmt.Sprintf("%s/%s/%dx%d/threads=%d/rows=%d", im.name, f, shape[0], shape[1], threads, rows), func(b *testing.B) {
							benchBlocks(b, Config{Threads: threads, WeightType: f, KVType: BF16, Impl: im.name, HugePages: true}, shape[0], shape[1], rows)
						})
					}
				}
			}
		}
	}
}

func benchBlocks(b *testing.B, cfg Config, n, k, rows int) {
	d := benchDevice(b, cfg, rows, []model.ActShape{{Width: k}, {Width: n}})
	first, err := d.Load(model.Matrix{Rows: []weights.Tensor{tensor(newRand(1), weights.BF16, 1, n, k)}})
	if err != nil {
		b.Fatal(err)
	}
	m := d.params[first].linear.parts[0]
	for size := 0; size < 640<<20; size += len(m.data) {
		p := m
		if p.data, err = d.weightMem.bytes(len(m.data)); err != nil {
			b.Fatal(err)
		}
		copy(p.data, m.data)
		d.params = append(d.params, param{linear: linear{n: n, k: k, parts: []matrix{p}}})
	}
	start, turns := time.Now(), 0
	for b.Loop() {
		d.input.of.Width = 0
		d.MatMul(model.Act{Buf: 1, Width: n}, model.Weight(turns%len(d.params)), model.Act{Width: k})
		turns++
	}
	s := time.Since(start).Seconds() / float64(turns)
	b.ReportMetric(float64(len(m.data))/s/1e9, "GB/s")
	b.ReportMetric(2*float64(n*k*rows)/s/1e9, "GOP/s")
}

// BenchmarkBlockTypes multiplies rows with matrices of types of blocks, 640 MB of them in
// turn. GB/s counts the bytes of the file.
func BenchmarkBlockTypes(b *testing.B) {
	for _, im := range impls {
		if im.name == "generic" {
			continue
		}
		for d := weights.Q4_0; d.Blocked(); d++ {
			if f := blockFormatOf(d); f == Auto || !im.multiplies(f) {
				continue
			}
			for _, shape := range [][2]int{{2048, 2048}, {8192, 2048}, {2048, 8192}} {
				for _, threads := range []int{1, 2} {
					for _, rows := range []int{1, 2, 4, 5, 8, 12, 16, 32, 64, 512} {
						b.Run(fmt.Sprintf("%s/%s/%dx%d/threads=%d/rows=%d", im.name, d, shape[0], shape[1], threads, rows), func(b *testing.B) {
							benchBlockType(b, Config{Threads: threads, KVType: BF16, Impl: im.name, HugePages: true}, d, shape[0], shape[1], rows)
						})
					}
				}
			}
		}
	}
}

func benchBlockType(b *testing.B, cfg Config, dtype weights.DType, n, k, rows int) {
	d := benchDevice(b, cfg, rows, []model.ActShape{{Width: k}, {Width: n}})
	src := model.Matrix{Rows: []weights.Tensor{randomBlocks(newRand(1), dtype, n, k)}}
	for size := 0; size < 640<<20; size += len(src.Rows[0].Data) {
		if _, err := d.Load(src); err != nil {
			b.Fatal(err)
		}
	}
	start, turns := time.Now(), 0
	for b.Loop() {
		d.input.of.Width = 0
		d.MatMul(model.Act{Buf: 1, Width: n}, model.Weight(turns%len(d.params)), model.Act{Width: k})
		turns++
	}
	s := time.Since(start).Seconds() / float64(turns)
	b.ReportMetric(float64(len(src.Rows[0].Data))/s/1e9, "GB/s")
	b.ReportMetric(2*float64(n*k*rows)/s/1e9, "GOP/s")
}

// BenchmarkExpanded multiplies 60 rows with a tile that is expanded, so that nothing but the
// kernels counts.
func BenchmarkExpanded(b *testing.B) {
	const k, rows = 2048, 60
	for _, im := range impls {
		for f := firstBlocks; f <= lastBlocks; f++ {
			m := im.most(byExpanded, f)
			if im.name == "generic" || m < 1 {
				continue
			}
			b.Run(im.name+"/"+f.String(), func(b *testing.B) {
				s, rnd := f.blocks(), newRand(1)
				units := s.units(k)
				w := make([]byte, units*s.unit*s.kind.size())
				im.blocks.expand[f-firstBlocks](w, randomUnits(b, rnd, s, units), units)
				x, _, ldx := blockRows(b, rnd, im, rows, k)
				y := make([]float32, rows*rowsPerTile)
				for b.Loop() {
					for r := 0; r+m <= rows; r += m {
						im.blocks.dotExpanded[f-firstBlocks][m](w, 0, 0, units*s.unit, x[r*ldx:(r+m)*ldx], ldx, y[r*rowsPerTile:], rowsPerTile, nil)
					}
				}
				b.ReportMetric(2*k*rowsPerTile*float64(rows/m*m)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GOP/s")
			})
		}
	}
}
