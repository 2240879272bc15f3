package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
	"weir/sampler"
)

// eachPick runs a test for every tier that has kernels of its own for Pick.
func eachPick(t *testing.T, f func(t *testing.T, k sampler.Kernels)) {
	t.Helper()
	eachKernel(t, func(im *impl) uintptr { return kernel(im.pick.Mass) }, func(t *testing.T, im *impl) { f(t, im.draws()) })
}

// pickValues are logits of a kind, some of them at the ends of what there is.
func pickValues(x []float32, rnd *rand.Rand) {
	kind := rnd.IntN(8)
	spread := float32(math.Exp(rnd.NormFloat64() * 2))
	for i := range x {
		v := float32(rnd.NormFloat64())
		switch kind {
		case 0, 1, 2:
			x[i] = v*spread + 5
		case 3: // ties
			x[i] = float32(math.Round(float64(v * 4)))
		case 4: // any bits
			x[i] = math.Float32frombits(rnd.Uint32())
		case 5: // flat
			x[i] = 20 + v*1e-5
		case 6: // few likely ones
			x[i] = v - 3*float32(math.Log(float64(i+1)))
		case 7: // mostly forbidden, and a few that are not
			x[i] = -1e9
			if rnd.IntN(20) == 0 {
				x[i] = v * spread
			}
		}
		if rnd.IntN(100) == 0 && kind != 5 {
			x[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), math.MaxFloat32, -math.MaxFloat32, float32(math.Copysign(0, -1)), 0, 1e-45}[rnd.IntN(8)]
		}
	}
}

// TestPickKernels: each kernel is its Go, bit for bit, and keeps to its
// arguments.
func TestPickKernels(t *testing.T) {
	eachPick(t, func(t *testing.T, k sampler.Kernels) {
		rnd := newRand(9)
		for words := range 8 {
			p := newPickTest(t, k, words)
			for range 500 {
				pickValues(p.logits, rnd)
				p.checkLoad(t, rnd)
				for _, floor := range []float32{-math.MaxFloat32, p.top, p.top - 1, p.top - 28.01, 0} {
					p.checkAbove(t, floor)
					p.checkBetween(t, floor, []float32{float32(math.Inf(1)), p.top, floor + 0.5}[rnd.IntN(3)])
					p.checkMass(t, floor)
				}
			}
		}
	})
}

// pickTest holds the kernels of Pick against Go, for one length of rows. What kernels
// write lies at the end of a page.
type pickTest struct {
	k       sampler.Kernels
	logits  []float32
	z       []float32 // logits as Load leaves them
	top     float32   // the greatest of z
	got     []uint32
	there   []float32
	inPlace []float32
	wantZ   []float32
	want    []uint32
}

func newPickTest(t *testing.T, k sampler.Kernels, words int) *pickTest {
	n := 32 * words
	return &pickTest{
		k: k, logits: beforeGuardOf[float32](t, n), z: beforeGuardOf[float32](t, n), got: beforeGuardOf[uint32](t, words),
		there: beforeGuardOf[float32](t, n), inPlace: beforeGuardOf[float32](t, n), wantZ: make([]float32, n), want: make([]uint32, words),
	}
}

func equalBits(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }

// checkLoad loads all logits, or all but the last 16.
func (p *pickTest) checkLoad(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	inv := []float32{1, 0.3, 100, math.MaxFloat32, 1e-40, 0}[rnd.IntN(6)]
	m := max(0, len(p.z)-16*rnd.IntN(2))
	want := sampler.LoadGo(p.wantZ[:m], p.logits[:m], inv)
	p.top = p.k.Load(p.z[:m], p.logits[:m], inv)
	if p.top != want || !slices.EqualFunc(p.z[:m], p.wantZ[:m], equalBits) {
		t.Fatalf("Load by %g of %v: %v, %g, want %v, %g", inv, p.logits[:m], p.z[:m], p.top, p.wantZ[:m], want)
	}
	for i := m; i < len(p.z); i++ {
		p.z[i] = float32(math.Inf(-1))
	}
}

func (p *pickTest) checkAbove(t *testing.T, floor float32) {
	t.Helper()
	p.k.Above(p.got, p.z, floor)
	sampler.AboveGo(p.want, p.z, floor)
	if !slices.Equal(p.got, p.want) {
		t.Fatalf("Above %g of %v: %032b, want %032b", floor, p.z, p.got, p.want)
	}
}

// checkBetween moves numbers into another place, and where they are.
func (p *pickTest) checkBetween(t *testing.T, floor, end float32) {
	t.Helper()
	copy(p.inPlace, p.z)
	count := sampler.BetweenGo(p.wantZ, p.z, floor, end)
	for _, c := range [][2][]float32{{p.there, p.z}, {p.inPlace, p.inPlace}} {
		if got := p.k.Between(c[0], c[1], floor, end); got != count || !slices.EqualFunc(c[0][:count], p.wantZ[:count], equalBits) {
			t.Fatalf("Between %g and %g of %v: %v, want %v", floor, end, p.z, c[0][:got], p.wantZ[:count])
		}
	}
}

func (p *pickTest) checkMass(t *testing.T, floor float32) {
	t.Helper()
	if math.Abs(float64(p.top)) > math.MaxFloat32 {
		return
	}
	if got, want := p.k.Mass(p.z, floor, p.top), sampler.MassGo(p.z, floor, p.top); got != want {
		t.Fatalf("Mass from %g of %v: %d, want %d", floor, p.z, got, want)
	}
}

// TestMassWeights: the weights of all distances that have one, in steps, are
// those of Go.
func TestMassWeights(t *testing.T) {
	eachPick(t, func(t *testing.T, k sampler.Kernels) {
		z := make([]float32, 32)
		const steps = 1021 // so many that a coefficient's last bit shows
		for b := uint32(0); b < math.Float32bits(28.1); b += steps {
			for i := range z {
				z[i] = -math.Float32frombits(b + uint32(i)*13)
			}
			if got, want := k.Mass(z, -100, 0), sampler.MassGo(z, -100, 0); got != want {
				t.Fatalf("distances from %g on: %d, want %d", z[0], got, want)
			}
		}
	})
}

// TestPickByKernels: Pick with a device's kernels is Pick in Go.
func TestPickByKernels(t *testing.T) {
	eachPick(t, func(t *testing.T, k sampler.Kernels) {
		fast, slow := sampler.Picker{Kernels: k}, sampler.Picker{}
		rnd := newRand(10)
		check := func(vocab int) {
			logits := make([]float32, vocab)
			pickValues(logits, rnd)
			d := randomDraws(rnd, vocab)
			r := &d.Rows[0]
			got, want := pickOne(&fast, logits, d), pickOne(&slow, logits, d)
			if !slices.Equal(got, want) {
				t.Fatalf("vocabulary %d, %+v:\n got %08x\nwant %08x", vocab, *r, got[:min(len(got), 20)], want[:min(len(want), 20)])
			}
		}
		for vocab := 1; vocab <= 300; vocab++ {
			for range 20 {
				check(vocab)
			}
		}
		// So many tokens that thresholds are found step by step.
		for range 200 {
			check(20011)
		}
		for range 10 {
			check(128256)
		}
	})
}

// randomDraws is one row of any kind.
func randomDraws(rnd *rand.Rand, vocab int) *backend.Draws {
	one := func(vs ...float32) float32 { return vs[rnd.IntN(len(vs))] }
	d := &backend.Draws{Rows: []backend.Draw{{
		Seed: rnd.Uint64(), Index: rnd.Uint32(), Target: -1, Mask: -1, Allow: -1,
		Temperature: one(0, 1, 1, 0.7, 0.01, 200, float32(2*rnd.Float64()), 1e30, 1e-45),
		TopP:        one(1, 0.9, 0.5, 1e-6, 0.999, rnd.Float32()),
		MinP:        one(0, 0, 0.1, 1e-12, 1),
		TopK:        []int32{0, 0, 1, 50, 1 + rnd.Int32N(int32(vocab)+2)}[rnd.IntN(5)],
		Logprobs:    backend.LogprobMode(rnd.IntN(3)),
		Top:         []int32{0, 1, 20, rnd.Int32N(int32(vocab))}[rnd.IntN(4)],
	}}}
	r := &d.Rows[0]
	if rnd.IntN(6) == 0 {
		r.Target = rnd.Int32N(int32(vocab))
	}
	for _, m := range []*int32{&r.Mask, &r.Allow} {
		if rnd.IntN(4) == 0 {
			words := (vocab + 31) / 32
			*m = int32(len(d.Masks) / words)
			for range words {
				d.Masks = append(d.Masks, []uint32{0, math.MaxUint32, math.MaxUint32, rnd.Uint32()}[rnd.IntN(4)])
			}
		}
	}
	if rnd.IntN(3) == 0 {
		for range rnd.IntN(20) {
			d.Edits = append(d.Edits, backend.Edit{Token: rnd.Int32N(int32(vocab)), Bias: one(0, 3, -100, backend.Forbid), Repeat: one(1, 1.3, 0), Minus: one(0, 0.5)})
		}
		r.EditEnd = int32(len(d.Edits))
	}
	return d
}

// pickOne is all that Pick says of a row, as bits.
func pickOne(p *sampler.Picker, logits []float32, d *backend.Draws) []uint32 {
	top := int(d.Rows[0].Top)
	out := backend.Out{Tokens: make([]int32, 1), Logprobs: make([]float32, 1), Ranks: make([]int32, 1), TopTokens: make([]int32, top), TopLogprobs: make([]float32, top)}
	p.Pick(logits, d, 0, &out, 0)
	bits := []uint32{uint32(out.Tokens[0]), math.Float32bits(out.Logprobs[0]), uint32(out.Ranks[0])}
	for i := range top {
		bits = append(bits, uint32(out.TopTokens[i]), math.Float32bits(out.TopLogprobs[i]))
	}
	return bits
}

// TestPickAllocates: Pick allocates nothing with kernels, either.
func TestPickAllocates(t *testing.T) {
	eachPick(t, func(t *testing.T, k sampler.Kernels) {
		for _, c := range pickCases() {
			p := sampler.Picker{Kernels: k}
			row := pickRow(5000)
			d := c.draws(len(row))
			out := backend.Out{Tokens: make([]int32, 1), Logprobs: make([]float32, 1), Ranks: make([]int32, 1), TopTokens: make([]int32, c.d.Top), TopLogprobs: make([]float32, c.d.Top)}
			if n := testing.AllocsPerRun(20, func() { p.Pick(row, &d, 0, &out, 0) }); n != 0 {
				t.Errorf("%s: %g allocations", c.name, n)
			}
		}
	})
}

// pickRow looks like a row of a language model: a bulk around 0 and a short
// head above it.
func pickRow(v int) []float32 {
	rnd := newRand(1)
	row := make([]float32, v)
	for i := range row {
		row[i] = float32(rnd.NormFloat64() * 2.5)
	}
	for i := range 200 {
		row[rnd.IntN(v)] = 18 - float32(i)*0.05
	}
	return row
}

type pickCase struct {
	name string
	d    backend.Draw
	mask uint32 // of every fourth 32 tokens; 0: there is none
	rest uint32 // of the others
}

// draws is the case for a vocabulary.
func (c *pickCase) draws(vocab int) backend.Draws {
	d := backend.Draws{Rows: []backend.Draw{c.d}}
	if c.mask != 0 {
		d.Rows[0].Mask = 0
		for i := range (vocab + 31) / 32 {
			d.Masks = append(d.Masks, []uint32{c.mask, c.rest, c.rest, c.rest}[i%4])
		}
	}
	return d
}

func pickCases() []pickCase {
	with := func(f func(d *backend.Draw)) backend.Draw {
		d := backend.Draw{Mask: -1, Allow: -1, Target: -1, TopP: 1, Temperature: 1}
		f(&d)
		return d
	}
	topP := with(func(d *backend.Draw) { d.TopP = 0.9 })
	return []pickCase{
		{name: "greedy", d: with(func(d *backend.Draw) { d.Temperature = 0 })},
		{name: "greedy_raw", d: with(func(d *backend.Draw) { d.Temperature, d.Logprobs = 0, backend.RawLogprobs })},
		{name: "temp1", d: with(func(d *backend.Draw) {})},
		{name: "topp0.9", d: topP},
		{name: "topk50", d: with(func(d *backend.Draw) { d.TopK = 50 })},
		{name: "topk50_topp0.9", d: with(func(d *backend.Draw) { d.TopK, d.TopP = 50, 0.9 })},
		{name: "minp0.05", d: with(func(d *backend.Draw) { d.MinP = 0.05 })},
		{name: "temp1_raw20", d: with(func(d *backend.Draw) { d.Logprobs, d.Top = backend.RawLogprobs, 20 })},
		{name: "all_processed20", d: with(func(d *backend.Draw) {
			d.TopK, d.TopP, d.MinP, d.Logprobs, d.Top = 50, 0.9, 0.01, backend.ProcessedLogprobs, 20
		})},
		{name: "temp200", d: with(func(d *backend.Draw) { d.Temperature = 200 })},
		{name: "topp0.9_temp200", d: with(func(d *backend.Draw) { d.Temperature, d.TopP = 200, 0.9 })},
		{name: "topp0.9_temp2", d: with(func(d *backend.Draw) { d.Temperature, d.TopP = 2, 0.9 })},
		{name: "topp0.9_mask_few", d: topP, mask: 1 << 7},
		{name: "topp0.9_mask_most", d: topP, mask: 0xfffff7ff, rest: math.MaxUint32},
		{name: "topp0.9_mask_half", d: topP, mask: 0x0ff0ff0f, rest: 0x33333333},
	}
}

// BenchmarkPick is Pick of 128 k tokens in Go and with kernels.
func BenchmarkPick(b *testing.B) {
	row := pickRow(128256)
	for _, c := range pickCases() {
		for name, k := range map[string]sampler.Kernels{"go": {}, "kernels": impls[0].draws()} {
			b.Run(fmt.Sprintf("%s/%s", c.name, name), func(b *testing.B) {
				p := sampler.Picker{Kernels: k}
				d := c.draws(len(row))
				out := backend.Out{Tokens: make([]int32, 1), Logprobs: make([]float32, 1), Ranks: make([]int32, 1), TopTokens: make([]int32, c.d.Top), TopLogprobs: make([]float32, c.d.Top)}
				for i := 0; b.Loop(); i++ {
					d.Rows[0].Index = uint32(i)
					p.Pick(row, &d, 0, &out, 0)
				}
			})
		}
	}
}
