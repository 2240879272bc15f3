package cpu

import (
	"math"
	"math/rand/v2"
	"testing"

	"weir/model"
)

// activationCases are activations with the exact function of each, in double precision, and the
// magnitude of what it adds up, where that is not the result.
var activationCases = []struct {
	name string
	act  model.Activation
	want func(x float64) (v, size float64)
}{
	{"silu", model.Activation{Kind: model.SiLU}, func(x float64) (float64, float64) { return alone(x / (1 + math.Exp(-x))) }},
	{"silu of 1.702", model.Activation{Kind: model.SiLU, Alpha: 1.702}, func(x float64) (float64, float64) {
		return alone(x / (1 + math.Exp(-float64(float32(1.702))*x)))
	}},
	{"gelu", model.Activation{Kind: model.GELU}, func(x float64) (float64, float64) { return alone(x * 0.5 * math.Erfc(-x/math.Sqrt2)) }},
	{"gelu by tanh", model.Activation{Kind: model.GELUTanh}, func(x float64) (float64, float64) {
		return alone(x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))))
	}},
	{"squared relu", model.Activation{Kind: model.ReLUSquared}, func(x float64) (float64, float64) { return alone(max(x, 0) * max(x, 0)) }},
	{"sigmoid", model.Activation{Kind: model.Sigmoid}, func(x float64) (float64, float64) { return alone(1 / (1 + math.Exp(-x))) }},
	{"xielu", model.Activation{Kind: model.XIELU, Alpha: 0.75, Beta: 0.875, Limit: 0.5, UpPlus: -1e-6}, func(x float64) (float64, float64) {
		if x > 0 {
			return alone(0.75*x*x + 0.5*x)
		}
		e := math.Expm1(min(x, float64(float32(-1e-6))))
		return 0.875*(e-x) + 0.5*x, 0.875*math.Abs(e) + math.Abs(x)
	}},
}

func alone(v float64) (float64, float64) { return v, math.Abs(v) }

// sweep are numbers of both signs and all magnitudes at which functions of float32 differ from each
// other, dense where they bend.
func sweep() (x []float32) {
	for v := float32(-40); v <= 40; v += 1.0 / 1024 {
		x = append(x, v+v/4096)
	}
	for v := float32(1e-30); v < 100; v *= 1.01 {
		x = append(x, v, -v)
	}
	return x
}

// TestActivations: every tier's result is near the exact one. The error is less than two units in the last place, 2.4e-7; results
// below 1e-36, where exponentials end, are near zero.
func TestActivations(t *testing.T) {
	x := sweep()
	eachImpl(t, func(t *testing.T, im *impl) {
		for _, c := range activationCases {
			f, y, worst, at := functionOf(c.act, false), make([]float32, len(x)), 0.0, float32(0)
			im.apply(y, x, nil, &f)
			for i, got := range y {
				want, size := c.want(float64(x[i]))
				if off := math.Abs(float64(got)-want) / (size + 1e-30); off > worst && !(size < 1e-36 && math.Abs(float64(got)) < 1e-35) {
					worst, at = off, x[i]
				}
			}
			t.Logf("%s: at most %.3g, at %v", c.name, worst, at)
			if !(worst < 2.4e-7) {
				t.Errorf("%s: off by %.3g of the result at %v", c.name, worst, at)
			}
		}
		testFunction(t, im, "exp", expOf, func(x float64) float64 { return math.Exp(min(max(x, -87), 87)) })
		testFunction(t, im, "softplus", softplusOf, func(x float64) float64 { return math.Log1p(math.Exp(x)) })
	})
}

func testFunction(t *testing.T, im *impl, name string, k pointwiseKind, want func(x float64) float64) {
	x := sweep()
	y := make([]float32, len(x))
	im.pointwise[k](y, x, nil, nil)
	for i, got := range y {
		if w := want(float64(x[i])); math.Abs(float64(got)-w) > 2.4e-7*w+1e-36 {
			t.Fatalf("%s(%v) = %v, not %v", name, x[i], got, w)
		}
	}
}

// oddNumbers are zeros, infinities, NaN, the least and the greatest numbers, and where functions are cut.
var oddNumbers = []float32{0, float32(math.Copysign(0, -1)), float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 1e-45, -1e-45, 1.2e-38, -1.2e-38,
	math.MaxFloat32, -math.MaxFloat32, 86.9, 87, 87.1, -86.9, -87, -87.1, 12.9, -12.9, 13, -13, 10, -10, 10.1, -10.1, 0.5, -0.5, -1e-6, 7, -7, 7.1, -7.1, 88.7, -88.7, 1e30, -1e30}

// TestPointwiseBits: all tiers compute the bits of the plain functions, of rows of any length, with and
// without a partner, in place, and write nothing else.
func TestPointwiseBits(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(44)
		for k := range pointwiseKinds {
			for _, n := range someLengths() {
				x, u := oddRow(rnd, n, n%4), oddRow(rnd, n, (n+1)%4)
				testPointwise(t, im, k, x.v, u.v)
				if k != swigluOf {
					testPointwise(t, im, k, x.v, nil)
				}
				im.pointwise[k](u.v, x.v, u.v, new([4]float32))
				u.intact(t)
			}
		}
	})
}

// oddRow has numbers of all magnitudes, and every fourth is odd.
func oddRow(rnd *rand.Rand, n, shift int) banded {
	x := randomBanded(rnd, n, shift)
	for i := range x.v {
		x.v[i] *= float32(math.Exp(rnd.NormFloat64() * 3))
		if rnd.IntN(4) == 0 {
			x.v[i] = oddNumbers[rnd.IntN(len(oddNumbers))]
		}
	}
	return x
}

func testPointwise(t *testing.T, im *impl, k pointwiseKind, x, u []float32) {
	t.Helper()
	p := new([4]float32)
	*p = siluParams(1.702)
	p[3] = 7
	if k == xieluOf {
		*p = [4]float32{0.75, 0.875, 0.5, -1e-6}
	}
	want, y := make([]float32, len(x)), newBanded(len(x), (len(x)+2)%4)
	pointwiseGeneric()[k](want, x, u, p)
	im.pointwise[k](y.v, x, u, p)
	y.intact(t)
	sameNumbers(t, y.v, want, x, u, k)
	copy(y.v, x)
	im.pointwise[k](y.v, y.v, u, p)
	sameNumbers(t, y.v, want, x, u, k)
}

func sameNumbers(t *testing.T, got, want, x, u []float32, k pointwiseKind) {
	t.Helper()
	for i := range got {
		if !equalBits(got[i], want[i]) && !(got[i] != got[i] && want[i] != want[i]) {
			partner := float32(1)
			if u != nil {
				partner = u[i]
			}
			t.Fatalf("function %d of %v with %v, number %d of %d: %v, not %v", k, x[i], partner, i, len(got), got[i], want[i])
		}
	}
}

// TestGates: gated products with and without bounds, among them such as no kernel has.
func TestGates(t *testing.T) {
	x := sweep()
	u := make([]float32, len(x))
	fillRandom(newRand(3), u)
	acts := []model.Activation{{Kind: model.Identity}, {Kind: model.ReLU}, {Kind: model.Tanh}, {Kind: model.SiLU, Alpha: 1.702, Limit: 7, UpPlus: 1},
		{Kind: model.SiLU, Limit: 7}, {Kind: model.SiLU, UpPlus: 1}, {Kind: model.GELUTanh, Limit: 2, UpPlus: 0.5}}
	for _, c := range activationCases {
		acts = append(acts, c.act)
	}
	eachImpl(t, func(t *testing.T, im *impl) {
		d := &Device{impl: im}
		for _, a := range acts {
			f, y := functionOf(a, true), make([]float32, len(x))
			d.gate(y, x, u, &f)
			for i, got := range y {
				gate, up := float64(x[i]), float64(u[i])
				if a.Limit > 0 && a.Kind != model.XIELU {
					gate, up = min(gate, float64(a.Limit)), min(max(up, -float64(a.Limit)), float64(a.Limit))
				}
				if a.Kind != model.XIELU {
					up += float64(a.UpPlus)
				}
				v, size := exactActivation(a, gate)
				if math.Abs(float64(got)-v*up) > 6e-7*size*math.Abs(up)+1e-34 {
					t.Fatalf("%+v of %v with %v: %v, not %v", a, x[i], u[i], got, v*up)
				}
			}
		}
	})
}

func exactActivation(a model.Activation, x float64) (v, size float64) {
	switch a.Kind {
	case model.Identity:
		return alone(x)
	case model.ReLU:
		return alone(max(x, 0))
	case model.Tanh:
		return alone(math.Tanh(x))
	}
	for _, c := range activationCases {
		if c.act.Kind == a.Kind && c.act.Alpha == a.Alpha {
			return c.want(x)
		}
	}
	panic("no such case")
}
