package sampler

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/backend"
)

// benchRow resembles a row of a language model: most values are around 0, and a few
// stand out above them.
func benchRow(v int) []float32 {
	g := rand.New(rand.NewPCG(1, 2))
	row := make([]float32, v)
	for i := range row {
		row[i] = float32(g.NormFloat64() * 2.5)
	}
	for i := range 200 {
		row[g.IntN(v)] = 18 - float32(i)*0.05
	}
	return row
}

// BenchmarkPick draws from a row of 151,936 tokens, without kernels.
func BenchmarkPick(b *testing.B) {
	const v = 151936
	row := benchRow(v)
	none := backend.Draw{Mask: -1, Allow: -1, Target: -1, TopP: 1}
	with := func(f func(d *backend.Draw)) backend.Draw { d := none; d.Temperature = 1; f(&d); return d }
	for _, c := range []struct {
		name string
		d    backend.Draw
	}{
		{"greedy", none},
		{"temp1", with(func(d *backend.Draw) {})},
		{"topp0.9", with(func(d *backend.Draw) { d.TopP = 0.9 })},
		{"topk50", with(func(d *backend.Draw) { d.TopK = 50 })},
		{"topk50_topp0.9", with(func(d *backend.Draw) { d.TopK, d.TopP = 50, 0.9 })},
		{"minp0.05", with(func(d *backend.Draw) { d.MinP = 0.05 })},
		{"temp1_raw20", with(func(d *backend.Draw) { d.Logprobs, d.Top = backend.RawLogprobs, 20 })},
		{"all_processed20", with(func(d *backend.Draw) {
			d.TopK, d.TopP, d.MinP, d.Logprobs, d.Top = 50, 0.9, 0.01, backend.ProcessedLogprobs, 20
		})},
		{"temp2_flat", with(func(d *backend.Draw) { d.Temperature = 200 })},
		{"topp0.9_flat", with(func(d *backend.Draw) { d.Temperature, d.TopP = 200, 0.9 })},
		{"greedy_topall", func() backend.Draw { d := none; d.Logprobs, d.Top = backend.RawLogprobs, v; return d }()},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var p Picker
			d := backend.Draws{Rows: []backend.Draw{c.d}}
			out := backend.Out{Tokens: make([]int32, 1), Logprobs: make([]float32, 1), Ranks: make([]int32, 1), TopTokens: make([]int32, c.d.Top), TopLogprobs: make([]float32, c.d.Top)}
			p.Pick(row, &d, 0, &out, 0)
			for i := 0; b.Loop(); i++ {
				d.Rows[0].Index = uint32(i)
				p.Pick(row, &d, 0, &out, 0)
			}
		})
	}
}

// BenchmarkPartialDraw is a draw from the pieces of a row, without kernels.
func BenchmarkPartialDraw(b *testing.B) {
	row := benchRow(151936)
	r := backend.Draw{Mask: -1, Allow: -1, Target: -1, TopP: 1, Temperature: 1}
	var d PartialDraw
	var k Kernels
	for i := 0; b.Loop(); i++ {
		r.Index = uint32(i)
		d.Start(&k, &r)
		for j := 0; j < len(row); j += 512 {
			d.Add(int32(j), row[j:min(j+512, len(row))])
		}
	}
}

// BenchmarkManyEdits is the time that edits of logits add to a step: of 128 choices with so
// many biases each, to plan their draws, and to edit their rows.
func BenchmarkManyEdits(b *testing.B) {
	const v, choices = 151936, 128
	row := benchRow(v)
	for _, biases := range []int{300, 2048, 8192, 16384} {
		p := DefaultParams()
		for i := range biases {
			p.Bias = append(p.Bias, TokenBias{int32(i * 9 % v), 1})
		}
		p.PrepareFor(v, nil)
		var states [choices]*State
		for i := range states {
			states[i] = NewState(&p, v, nil)
		}
		var d backend.Draws
		plan := func() {
			d.Reset()
			for _, s := range states {
				s.Plan(&d, (v+31)/32, nil)
			}
		}
		plan()
		b.Run(fmt.Sprintf("plan/%d", biases), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				plan()
			}
		})
		b.Run(fmt.Sprintf("edit/%d", biases), func(b *testing.B) {
			var picker Picker
			picker.load(row, 1, nil, nil)
			for b.Loop() {
				for i := range states {
					picker.edit(row, 1, d.Edits[firstEdit(&d, i):d.Rows[i].EditEnd])
				}
			}
		})
	}
}

// BenchmarkNewState is the state of a choice of a request with many biases, a long prompt with
// penalties, and many allowed tokens.
func BenchmarkNewState(b *testing.B) {
	const v = 151936
	p := DefaultParams()
	p.Repetition = 1.1
	prompt := make([]int32, 0, 16384)
	for i := range int32(16384) {
		p.Bias = append(p.Bias, TokenBias{i, 1})
		prompt = append(prompt, 2*i)
		p.Allowed = append(p.Allowed, 3*i)
	}
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			q := p
			q.PrepareFor(v, prompt)
			NewState(&q, v, prompt)
		}
	})
	p.PrepareFor(v, prompt)
	b.Run("further", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			NewState(&p, v, prompt)
		}
	})
}
