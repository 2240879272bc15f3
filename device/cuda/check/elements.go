//go:build cuda && linux && amd64

package check

import (
	"fmt"
	"math"
	"slices"

	"weir/device/cuda"
	"weir/model"
)

// activation is a in float64.
func activation(a model.Activation, x float64) float64 {
	alpha, beta, limit := float64(a.Alpha), float64(a.Beta), float64(a.Limit)
	switch a.Kind {
	case model.SiLU:
		if alpha == 0 {
			alpha = 1
		}
		return x / (1 + math.Exp(-alpha*x))
	case model.GELU:
		return x * math.Erfc(-x/math.Sqrt2) / 2
	case model.GELUTanh:
		return x / (1 + math.Exp(-2*math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
	case model.ReLU:
		return max(x, 0)
	case model.ReLUSquared:
		return max(x, 0) * max(x, 0)
	case model.Sigmoid:
		return 1 / (1 + math.Exp(-x))
	case model.Tanh:
		return math.Tanh(x)
	case model.XIELU:
		if x > 0 {
			return alpha*x*x + limit*x
		}
		return (math.Expm1(min(x, float64(a.UpPlus)))-x)*beta + limit*x
	}
	return x
}

// activations are one of each kind, and gpt-oss's.
var activations = []model.Activation{{}, {Kind: model.SiLU}, {Kind: model.SiLU, Alpha: 1.702, Limit: 1.5, UpPlus: 1}, {Kind: model.GELU}, {Kind: model.GELUTanh}, {Kind: model.ReLU},
	{Kind: model.ReLUSquared}, {Kind: model.Sigmoid}, {Kind: model.Tanh}, {Kind: model.XIELU, Alpha: 0.8, Beta: 0.7, Limit: 0.5, UpPlus: -1e-6}}

// launch queues a kernel whose last parameters are an activation.
func (c *checker) launch(name string, rows, blocks int, a model.Activation, params ...any) error {
	return c.lab.Launch(name, rows, blocks, 1, append(params, int(a.Kind), a.Alpha, a.Beta, a.Limit, a.UpPlus)...)
}

// elements checks functions of single numbers: of float32 rows, gated by bfloat16 rows.
func (c *checker) elements() error {
	const activate, gate, add, scale, bound = 0, 1, 2, 3, 4
	rows, n, per := pick(c, 3, 70), pick(c, 72, 4096), 8
	ld := stride(n)
	x, xf := c.floats(rows * n)
	g, gf := c.normals(rows * n / per)
	dx, err := cuda.Put(c.lab, padded(x, n, ld))
	if err != nil {
		return err
	}
	dg, err := cuda.Put(c.lab, padded(g, n/per, ld))
	if err != nil {
		return err
	}
	one := func(op int, a model.Activation, factor float32, f func(x, g float64) float64) error {
		name := fmt.Sprintf("elements %d of activation %d %dx%d", op, a.Kind, rows, n)
		y, err := repeat[float32](c, name, rows*ld, func(y uint64) error {
			if err := c.lab.Copy(y, dx, rows*ld*4); err != nil {
				return err
			}
			return c.launch("elements", rows, (n+1023)/1024, a, y, dx, dg, op, n, per, ld, ld, ld, 3, factor)
		})
		if err != nil {
			return err
		}
		var want []float64
		for i := range xf {
			want = append(want, f(xf[i], gf[i/per]))
		}
		c.compare(name, columns(y, n, ld), want, 3e-6)
		return nil
	}
	for _, a := range activations {
		if err := one(activate, a, 1, func(x, _ float64) float64 { return activation(a, x) }); err != nil {
			return err
		}
		if err := one(gate, a, 1, func(x, g float64) float64 { return x * activation(a, g) }); err != nil {
			return err
		}
	}
	if err := one(add, model.Activation{}, 0.37, func(x, _ float64) float64 { return x + float64(float32(0.37))*x }); err != nil {
		return err
	}
	if err := one(scale, model.Activation{}, 45.25, func(x, _ float64) float64 { return 45.25 * x }); err != nil {
		return err
	}
	return one(bound, model.Activation{Limit: 30}, 50, func(x, _ float64) float64 { return 30 * math.Tanh(50*x/30) })
}

// gates checks act_gate, with gate and up behind each other and in turns.
func (c *checker) gates() error {
	rows, n := pick(c, 3, 130), pick(c, 64, 6144)
	ldg, ldy := stride(2*n), stride(n)
	g, gf := c.normals(rows * 2 * n)
	dg, err := cuda.Put(c.lab, padded(g, 2*n, ldg))
	if err != nil {
		return err
	}
	for _, a := range activations {
		for _, apart := range []int{n, 0} {
			name := fmt.Sprintf("act_gate of activation %d %dx%d", a.Kind, rows, n)
			y, err := repeat[uint16](c, name, rows*ldy, func(y uint64) error {
				if err := c.lab.Fill(y, 0, rows*ldy*2); err != nil {
					return err
				}
				return c.launch("act_gate", rows, (n+1023)/1024, a, y, dg, n, ldg, ldy, apart)
			})
			if err != nil {
				return err
			}
			c.compare(name, columns(y, n, ldy), gated(a, gf, n, apart), bfLimit)
		}
	}
	return nil
}

// gated is what act_gate computes of rows g [rows, 2n], in float64. Gate and up lie apart from each other, or in turns of 32 columns if apart is 0.
func gated(a model.Activation, g []float64, n, apart int) []float64 {
	y := make([]float64, 0, len(g)/2)
	for ; len(g) > 0; g = g[2*n:] {
		for i := range n {
			at, up := i, n+i
			if apart == 0 {
				at = i/32*64 + i%32
				up = at + 32
			}
			y = append(y, gatedOne(a, g[at], g[up]))
		}
	}
	return y
}

func gatedOne(a model.Activation, gate, up float64) float64 {
	if a.Kind == model.XIELU {
		return activation(a, gate) * up
	}
	if l := float64(a.Limit); l > 0 {
		gate, up = min(gate, l), min(max(up, -l), l)
	}
	return activation(a, gate) * (up + float64(a.UpPlus))
}

// normCase is a kind of norm_rows: of groups of size columns each; pre says that the gate comes before the norm, each that every group has weights of its own.
type normCase struct {
	groups, size                           int
	weights, bias, each, center, gate, pre bool
}

// allNorms checks norm_rows: with and without a mean, weights, groups and gates.
func (c *checker) allNorms() error {
	rows := pick(c, 3, 70)
	for _, s := range []normCase{
		{1, pick(c, 72, 4096), true, true, false, true, false, false},
		{4, 32, true, false, false, false, true, false},
		{3, 128, true, false, true, false, true, true},
		{1, pick(c, 48, 2816), false, false, false, false, false, false},
	} {
		n := s.groups * s.size
		ld := stride(n)
		x, xf := c.floats(rows * n)
		g, gf := c.normals(rows * n)
		w, wf := c.floats(n)
		b, bf := c.floats(n)
		var put [4]uint64
		for i, f := range []func() (uint64, error){
			func() (uint64, error) { return cuda.Put(c.lab, padded(x, n, ld)) }, func() (uint64, error) { return cuda.Put(c.lab, padded(g, n, ld)) },
			func() (uint64, error) { return cuda.Put(c.lab, w) }, func() (uint64, error) { return cuda.Put(c.lab, b) },
		} {
			var err error
			if put[i], err = f(); err != nil {
				return err
			}
		}
		given := func(i int, there bool) uint64 {
			if !there {
				return 0
			}
			return put[i]
		}
		name := fmt.Sprintf("norm_rows %dx%dx%d", rows, s.groups, s.size)
		y, err := repeat[uint16](c, name, rows*ld, func(y uint64) error {
			if err := c.lab.Fill(y, 0, rows*ld*2); err != nil {
				return err
			}
			return c.launch("norm_rows", rows, s.groups, model.Activation{Kind: model.SiLU}, y, put[0], given(1, s.gate), given(2, s.weights), given(3, s.bias),
				s.size, number(s.each), ld, ld, ld, 2, number(s.center), number(s.pre), float32(1e-5))
		})
		if err != nil {
			return err
		}
		c.compare(name, columns(y, n, ld), s.want(xf, gf, wf, bf), bfLimit)
	}
	return nil
}

// want is the norm in float64 of rows x, with gates g of the same shape, and weights w and biases b of a row.
func (s normCase) want(x, g, w, b []float64) []float64 {
	silu := func(v float64) float64 { return activation(model.Activation{Kind: model.SiLU}, v) }
	y := make([]float64, 0, len(x))
	for at := 0; at < len(x); at += s.size {
		v := slices.Clone(x[at:][:s.size])
		for i := range v {
			if s.gate && s.pre {
				v[i] *= silu(g[at+i])
			}
		}
		s.normalize(v)
		column := 0
		if s.each {
			column = at % (s.groups * s.size)
		}
		for i := range v {
			if s.weights {
				v[i] *= w[column+i]
			}
			if s.bias {
				v[i] += b[column+i]
			}
			if s.gate && !s.pre {
				v[i] *= silu(g[at+i])
			}
		}
		y = append(y, v...)
	}
	return y
}

func (s normCase) normalize(v []float64) {
	var mean, squares float64
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for i := range v {
		if s.center {
			v[i] -= mean
		}
		squares += v[i] * v[i]
	}
	for i := range v {
		v[i] /= math.Sqrt(squares/float64(len(v)) + 1e-5)
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
