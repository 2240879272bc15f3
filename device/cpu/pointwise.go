package cpu

import (
	"math"

	"weir/model"
)

// A pointwiseFunc writes the function of each x, times its u if there are any, with parameters that
// depend on the function. y may be x or u. What it computes is pointwiseNumbers, bit for bit.
type pointwiseFunc func(y, x, u []float32, p *[4]float32)

// The functions that tiers have kernels for; _gen/pointwise.go says how they are computed. Compared with
// the exact function each is off by less than 2.4e-7 of its result, two units in the last place, but for results below 1e-36.
type pointwiseKind int

const (
	expOf pointwiseKind = iota
	sigmoidOf
	siluOf
	swigluOf
	softplusOf
	geluOf
	geluTanhOf
	reluSquaredOf
	xieluOf
	pointwiseKinds
)

// pointwiseGeneric are the plain loops.
func pointwiseGeneric() (list [pointwiseKinds]pointwiseFunc) {
	for k, f := range pointwiseNumbers {
		list[k] = func(y, x, u []float32, p *[4]float32) {
			x = x[:len(y)]
			if u == nil {
				for i, v := range x {
					y[i] = f(v, 1, p)
				}
				return
			}
			u = u[:len(y)]
			for i, v := range x {
				y[i] = f(v, u[i], p)
			}
		}
	}
	return list
}

// pointwiseTail leaves the numbers after the last multiple of 16 to the plain functions.
func pointwiseTail(list [pointwiseKinds]pointwiseFunc) [pointwiseKinds]pointwiseFunc {
	plain := pointwiseGeneric()
	for k, f := range list {
		list[k] = func(y, x, u []float32, p *[4]float32) {
			n := len(y) &^ 15
			if u == nil {
				f(y[:n], x[:n], nil, p)
				plain[k](y[n:], x[n:], nil, p)
				return
			}
			f(y[:n], x[:n], u[:n], p)
			plain[k](y[n:], x[n:], u[n:], p)
		}
	}
	return list
}

// power is x * 2^n for an integer n.
func power(x, n float32) float32 {
	if n != n {
		return n
	}
	return math.Float32frombits(math.Float32bits(x) + uint32(int32(n))<<23)
}

// function is an activation as kernels take it.
type function struct {
	model.Activation
	kind pointwiseKind // pointwiseKinds: there is no kernel
	loop bool          // a gate and its partner have bounds that no kernel knows
	p    [4]float32
}

// functionOf is the function of a row; gated, that of a gate, whose partner may be bounded.
func functionOf(a model.Activation, gated bool) function {
	f := function{Activation: a, kind: pointwiseKinds, loop: gated && a.Kind != model.XIELU && (a.Limit != 0 || a.UpPlus != 0)}
	switch a.Kind {
	case model.SiLU:
		f.kind, f.p = siluOf, siluParams(a.Alpha)
		if f.loop && a.Limit > 0 && a.UpPlus == 1 {
			f.kind, f.loop, f.p[3] = swigluOf, false, a.Limit
		}
	case model.XIELU:
		f.kind, f.p = xieluOf, [4]float32{a.Alpha, a.Beta, a.Limit, a.UpPlus}
	case model.GELU:
		f.kind = geluOf
	case model.GELUTanh:
		f.kind = geluTanhOf
	case model.ReLUSquared:
		f.kind = reluSquaredOf
	case model.Sigmoid:
		f.kind = sigmoidOf
	}
	return f
}

// siluParams are -alpha*log2(e) in two parts, and the greatest |x| that an exponential is taken of.
func siluParams(alpha float32) [4]float32 {
	if alpha == 0 {
		alpha = 1
	}
	c := -float64(alpha) * math.Log2E
	high := float32(c)
	return [4]float32{high, float32(c - float64(high)), float32(125.5 / math.Abs(c))}
}

// of is the function of one number.
func (f *function) of(x float32) float32 {
	if f.kind < pointwiseKinds {
		return pointwiseNumbers[f.kind](x, 1, &f.p)
	}
	return activate(f.Kind, x)
}

// apply writes the function of each x, times its u if there are any.
func (im *impl) apply(y, x, u []float32, f *function) {
	if f.kind < pointwiseKinds {
		im.pointwise[f.kind](y, x, u, &f.p)
		return
	}
	for i, v := range x[:len(y)] {
		v = activate(f.Kind, v)
		if u != nil {
			v *= u[i]
		}
		y[i] = v
	}
}
