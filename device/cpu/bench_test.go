package cpu

import (
	"fmt"
	"math"
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// BenchmarkMatMul multiplies rows with matrices that do not fit any cache
// together, as a model's do.
func BenchmarkMatMul(b *testing.B) {
	const n, k, matrices = 3072, 1024, 40
	for _, im := range impls {
		for _, dtype := range []weights.DType{weights.BF16, weights.F16, weights.F32} {
			for _, rows := range []int{1, 2, 4, 8, 16, 32, 64, 512} {
				if im.name == "generic" && rows > 8 || dtype != weights.BF16 && rows != 1 && rows != 64 {
					continue
				}
				for _, threads := range []int{1, 2} {
					b.Run(fmt.Sprintf("%s/%s/rows=%d/threads=%d", im.name, dtype, rows, threads), func(b *testing.B) {
						d := benchDevice(b, Config{Threads: threads, KVType: BF16, Impl: im.name, HugePages: true}, rows, []model.ActShape{{Width: k}, {Width: n}})
						t := tensor(newRand(1), dtype, 1, n, k)
						for range matrices {
							if _, err := d.Load(model.Matrix{Rows: []weights.Tensor{t}}); err != nil {
								b.Fatal(err)
							}
						}
						i := 0
						for b.Loop() {
							d.MatMul(model.Act{Buf: 1, Width: n}, model.Weight(i%matrices), model.Act{Width: k})
							i++
						}
						s := b.Elapsed().Seconds() / float64(b.N)
						b.ReportMetric(float64(n*k*dtype.Size())/s/1e9, "GB/s")
						b.ReportMetric(2*float64(n*k*rows)/s/1e9, "GFLOP/s")
					})
				}
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
	spec := backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 1, MaxTokens: rows, MaxSeqs: rows, MaxSeqTokens: rows, Depth: 1}
	if err := d.Plan(model.Shape{Layers: 1, Heads: 1, KVHeads: 1, HeadDim: 16, Acts: acts, Spec: spec}); err != nil {
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
// length, with the heads of Qwen3-0.6B. GB/s counts keys and values that a
// sequence reads at least once.
func BenchmarkAttend(b *testing.B) {
	const heads, kvHeads, dim = 16, 8, 128
	for _, im := range impls {
		for _, c := range []struct{ seqs, rows, context int }{{1, 1, 1024}, {1, 1, 8192}, {8, 1, 1024}, {8, 1, 4096}, {1, 512, 512}, {1, 512, 4096}} {
			if im.name == "generic" && c.rows*c.context > 8192 {
				continue
			}
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/seqs=%d/rows=%d/context=%d/threads=%d", im.name, c.seqs, c.rows, c.context, threads), func(b *testing.B) {
					const layers = 4
					d, err := Open(Config{Threads: threads, KVType: BF16, Impl: im.name, HugePages: true})
					if err != nil {
						b.Fatal(err)
					}
					defer d.Close()
					blocks := c.context / 16
					spec := backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 1 + c.seqs*blocks, MaxTokens: c.seqs * c.rows, MaxSeqs: c.seqs, MaxSeqTokens: c.context, Depth: 1}
					if err := d.Plan(model.Shape{Layers: layers, Heads: heads, KVHeads: kvHeads, HeadDim: dim, Acts: []model.ActShape{{Width: heads * dim}}, Spec: spec}); err != nil {
						b.Fatal(err)
					}
					rnd := newRand(3)
					for i := 0; i < len(d.cache.data); i += 2 {
						v := toBF16(float32(rnd.Float64() - 0.5))
						d.cache.data[i], d.cache.data[i+1] = byte(v), byte(v>>8)
					}
					for i := range d.acts[0].data {
						d.acts[0].data[i] = float32(rnd.NormFloat64())
					}
					f := newFeeder(rnd, spec)
					for range c.seqs {
						s := &sequence{tokens: make([]int32, c.context), computed: c.context - c.rows}
						for range blocks {
							s.table, f.free = append(s.table, f.free[0]), f.free[1:]
						}
						f.add(s, c.rows, false)
					}
					d.Begin(&f.batch)
					act := model.Act{Width: heads * dim}
					i := 0
					for b.Loop() {
						d.Attend(act, act, i%layers, model.Attention{Scale: float32(1 / math.Sqrt(dim))})
						i++
					}
					s := b.Elapsed().Seconds() / float64(b.N)
					pairs := float64(c.rows) * (float64(c.context) - float64(c.rows-1)/2) * float64(c.seqs)
					b.ReportMetric(float64(c.seqs*c.context*kvHeads*dim*2*2)/s/1e9, "GB/s")
					b.ReportMetric(pairs*heads*dim*4/s/1e9, "GFLOP/s")
				})
			}
		}
	}
}
