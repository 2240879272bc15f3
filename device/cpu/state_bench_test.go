package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// stateBatches are a decode step of one sequence, one of eight, and a prefill chunk.
var stateBatches = []struct{ seqs, rows int }{{1, 1}, {8, 1}, {1, 256}}

// stateDevice is a device with activations of the given widths and one state, and with a batch of seqs
// sequences of rows tokens each that go on from slots of their own.
func stateDevice(t testing.TB, cfg Config, seqs, rows, state int, widths ...int) *Device {
	t.Helper()
	s := model.Shape{KV: model.UniformKV(1, 1, 1, 16), States: []int{state}, Spec: backend.Spec{VocabSize: 16, BlockTokens: 16,
		NumBlocks: 2, MaxTokens: seqs * rows, MaxSeqs: seqs, MaxSeqTokens: rows, Depth: 1, StateSlots: 2*seqs + 1}}
	for _, w := range widths {
		s.Acts = append(s.Acts, model.ActShape{Width: w})
	}
	d := openPlanned(t, cfg, s)
	b := &backend.Batch{Tokens: make([]int32, seqs*rows)}
	for i := range seqs {
		b.QueryEnd = append(b.QueryEnd, int32((i+1)*rows))
		b.StateIn, b.StateOut = append(b.StateIn, int32(2*i+1)), append(b.StateOut, int32(2*i+1))
	}
	d.batch = b
	rnd := newRand(2)
	for _, a := range d.acts {
		fillRandom(rnd, a.data)
	}
	return d
}

func fillRandom(rnd *rand.Rand, x []float32) {
	for i := range x {
		x[i] = float32(rnd.NormFloat64())
	}
}

// loadNumbers loads a vector.
func loadNumbers(t testing.TB, d *Device, x []float32) model.Weight {
	t.Helper()
	v := weights.Tensor{Name: "numbers", DType: weights.F32, Shape: []int{len(x)}}
	for _, f := range x {
		v.Data = binary.LittleEndian.AppendUint32(v.Data, math.Float32bits(f))
	}
	w, err := d.Load(model.Matrix{Use: model.Vector, Rows: []weights.Tensor{v}})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// repeated is n numbers v.
func repeated(n int, v float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = v
	}
	return x
}

// whole is all of an activation buffer.
func whole(d *Device, buf int) model.Act { return model.Act{Buf: buf, Width: d.acts[buf].width} }

// benchStates runs f for every tier, batch and number of threads, with a device of its own each.
func benchStates(b *testing.B, name string, f func(b *testing.B, cfg Config, seqs, rows int)) {
	for _, im := range impls {
		for _, batch := range stateBatches {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("%s/%s/seqs=%d/rows=%d/threads=%d", im.name, name, batch.seqs, batch.rows, threads), func(b *testing.B) {
					f(b, Config{Threads: threads, KVType: BF16, Impl: im.name}, batch.seqs, batch.rows)
				})
			}
		}
	}
}

// BenchmarkDelta is the delta rule of a layer of Qwen3.5-2B, whose heads have one decay, and of
// Kimi Linear, with one for each key dimension. ns/token counts the tokens of all sequences.
func BenchmarkDelta(b *testing.B) {
	for _, c := range []struct {
		name       string
		heads      int
		perChannel bool
	}{{"qwen3.5-2b", 16, false}, {"kimi-linear", 32, true}} {
		benchStates(b, c.name, func(b *testing.B, cfg Config, seqs, rows int) {
			const dim = 128
			x := model.Delta{KeyHeads: c.heads, ValueHeads: c.heads, KeyDim: dim, ValueDim: dim, PerChannel: c.perChannel, Scale: 0.088, L2Eps: 1e-6, BetaScale: 1}
			decays := c.heads
			if c.perChannel {
				decays *= dim
			}
			d := stateDevice(b, cfg, seqs, rows, c.heads*dim*dim, 3*c.heads*dim, decays+c.heads, c.heads*dim)
			x.A, x.DtBias = loadNumbers(b, d, repeated(c.heads, -1)), loadNumbers(b, d, repeated(decays, -2))
			part := func(i int) model.Act { return model.Act{Off: i * c.heads * dim, Width: c.heads * dim} }
			s := best(b, func(int) {
				d.Delta(whole(d, 2), part(0), part(1), part(2), model.Act{Buf: 1, Width: decays}, model.Act{Buf: 1, Off: decays, Width: c.heads}, &x)
			})
			b.ReportMetric(s*1e9/float64(seqs*rows), "ns/token")
		})
	}
}

// BenchmarkScan is the recurrence of a layer of Granite 4.0 H Micro.
func BenchmarkScan(b *testing.B) {
	benchStates(b, "granite-4.0-h-micro", func(b *testing.B, cfg Config, seqs, rows int) {
		const heads, dim, n = 64, 64, 128
		d := stateDevice(b, cfg, seqs, rows, heads*dim*n, heads*dim+2*n, heads, heads*dim)
		x := model.Scan{Heads: heads, HeadDim: dim, Groups: 1, StateDim: n, DtMax: 100,
			A: loadNumbers(b, d, repeated(heads, -1)), D: loadNumbers(b, d, repeated(heads, 1)), DtBias: loadNumbers(b, d, repeated(heads, -2))}
		s := best(b, func(int) {
			d.Scan(whole(d, 2), model.Act{Width: heads * dim}, model.Act{Off: heads * dim, Width: n}, model.Act{Off: heads*dim + n, Width: n}, whole(d, 1), &x)
		})
		b.ReportMetric(s*1e9/float64(seqs*rows), "ns/token")
	})
}

// BenchmarkConv are the convolutions of Qwen3.5-2B and of Granite 4.0 H Micro.
func BenchmarkConv(b *testing.B) {
	for _, c := range []struct {
		name    string
		columns int
		bias    bool
	}{{"qwen3.5-2b", 6144, false}, {"granite-4.0-h-micro", 4352, true}} {
		benchStates(b, c.name, func(b *testing.B, cfg Config, seqs, rows int) {
			const width = 4
			d := stateDevice(b, cfg, seqs, rows, c.columns*(width-1), c.columns, c.columns)
			x := model.Conv{W: loadNumbers(b, d, repeated(c.columns*width, 0.25)), B: model.NoWeight, Width: width, Act: model.Activation{Kind: model.SiLU}}
			if c.bias {
				x.B = loadNumbers(b, d, repeated(c.columns, 0.125))
			}
			s := best(b, func(int) { d.Conv(whole(d, 1), whole(d, 0), &x) })
			b.ReportMetric(s*1e9/float64(seqs*rows), "ns/token")
		})
	}
}

// BenchmarkActivations is what the activations make of a gate and its partner, with the sizes of
// Gemma 3 1B, and of a row alone: ns/value is of one thread.
func BenchmarkActivations(b *testing.B) {
	const inner, rows = 6912, 16
	for _, im := range impls {
		for _, a := range []struct {
			name string
			act  model.Activation
		}{
			{"silu", model.Activation{Kind: model.SiLU}},
			{"gelu-tanh", model.Activation{Kind: model.GELUTanh}},
			{"gelu", model.Activation{Kind: model.GELU}},
			{"sigmoid", model.Activation{Kind: model.Sigmoid}},
			{"relu-squared", model.Activation{Kind: model.ReLUSquared}},
			{"gpt-oss", model.Activation{Kind: model.SiLU, Alpha: 1.702, Limit: 7, UpPlus: 1}},
			{"xielu", model.Activation{Kind: model.XIELU, Alpha: 0.8, Beta: 0.8, Limit: 0.5, UpPlus: -1e-6}},
		} {
			d := stateDevice(b, Config{Threads: 1, KVType: BF16, Impl: im.name}, 1, rows, 1, inner, inner, inner)
			b.Run(fmt.Sprintf("%s/%s/gated", im.name, a.name), func(b *testing.B) {
				f := functionOf(a.act, true)
				y, g, u := d.view(whole(d, 0)), d.view(whole(d, 1)), d.view(whole(d, 2))
				s := best(b, func(int) {
					for r := range rows {
						d.gate(y.row(r), g.row(r), u.row(r), &f)
					}
				})
				b.ReportMetric(s*1e9/(rows*inner), "ns/value")
			})
			b.Run(fmt.Sprintf("%s/%s/alone", im.name, a.name), func(b *testing.B) {
				s := best(b, func(int) { d.Activate(whole(d, 0), whole(d, 1), a.act) })
				b.ReportMetric(s*1e9/(rows*inner), "ns/value")
			})
		}
	}
}
