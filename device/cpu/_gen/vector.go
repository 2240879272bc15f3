package main

import (
	"fmt"
	"math"
)

// step is how many numbers one turn of an element-wise loop handles; lengths
// are multiples of it, and the Go side does what is left over.
const step = 16

// constants of the exponential, as in generic.go; each fills a vector, so that
// it can be a memory operand.
var constants = []struct {
	name  string
	value float32
}{
	{"log2e", 1.44269504088896341},
	{"ln2High", 0.693359375},
	{"ln2Low", -2.12194440e-4},
	{"p0", 1.9875691500e-4},
	{"p1", 1.3981999507e-3},
	{"p2", 8.3334519073e-3},
	{"p3", 4.1665795894e-2},
	{"p4", 1.6666665459e-1},
	{"p5", 5.0000001201e-1},
	{"one", 1},
	{"low", -87},
	{"high", 88},
}

func (g *gen) constants() {
	for _, c := range append(constants, softmaxConstants...) {
		name := g.constant(c.name)
		for i := 0; i < g.lanes*4; i += 4 {
			g.raw("DATA %s+%d(SB)/4, $0x%08x\n", name, i, math.Float32bits(c.value))
		}
		g.raw("GLOBL %s(SB), RODATA|NOPTR, $%d\n\n", name, g.lanes*4)
	}
}

func (g *gen) constant(name string) string { return name + g.suffix + "<>" }

// operand is a constant as a memory operand.
func (g *gen) operand(name string) string { return g.constant(name) + "+0(SB)" }

// exp turns x into exp(x). t and p are scratch, high holds that constant, and
// mask is scratch of AVX2.
func (g *gen) exp(x, t, p, high, mask vec) {
	// Predicate 5, "not less than", lets NaN through. MIN returns its first
	// operand (the last that Go names before the destination is the second) when
	// one is NaN, so x stands there.
	if g.isa == avx512 {
		g.op("VCMPPS", "$5", g.operand("low"), x, "K1")
	} else {
		g.op("VCMPPS", "$5", g.operand("low"), x, mask)
	}
	g.op("VMINPS", x, high, x)
	g.op("VMULPS", g.operand("log2e"), x, t)
	if g.isa == avx512 {
		g.op("VRNDSCALEPS", "$8", t, t)
	} else {
		g.op("VROUNDPS", "$8", t, t)
	}
	g.op("VFNMADD231PS", g.operand("ln2High"), t, x)
	g.op("VFNMADD231PS", g.operand("ln2Low"), t, x)
	g.op("VMOVUPS", g.operand("p0"), p)
	for i := 1; i <= 5; i++ {
		g.op("VFMADD213PS", g.operand(fmt.Sprint("p", i)), x, p)
	}
	g.op("VMULPS", x, p, p)
	g.op("VFMADD213PS", x, x, p)
	g.op("VADDPS", g.operand("one"), p, p)
	g.op("VCVTPS2DQ", t, t)
	g.op("VPSLLD", "$23", t, t)
	g.op("VPADDD", t, p, x)
	if g.isa == avx512 {
		g.op("VMOVAPS.Z", x, "K1", x)
	} else {
		g.op("VANDPS", mask, x, x)
	}
}

// reduce folds 16 lanes, one register or two, into lane 0: i with i+8, then
// i+4, i+2, i+1.
func (g *gen) reduce(op string, acc []vec, t vec) {
	a := acc[0]
	if g.isa == avx512 {
		g.op("VEXTRACTF64X4", "$1", a, t.y())
		g.op(op, t.y(), a.y(), a.y())
	} else {
		g.op(op, acc[1], a, a)
	}
	g.op("VEXTRACTF128", "$1", a.y(), t.x())
	g.op(op, t.x(), a.x(), a.x())
	g.op("VPERMILPS", "$0x4e", a.x(), t.x())
	g.op(op, t.x(), a.x(), a.x())
	g.op("VPERMILPS", "$0xb1", a.x(), t.x())
	g.op(op, t.x(), a.x(), a.x())
}

// each runs body for each vector of arrays of n numbers; off is the vector's
// place in the turn, in bytes, i its number in the turn.
func (g *gen) each(n string, pointers []string, body func(i, off int)) {
	g.op("MOVQ", n, "CX")
	g.op("SHRQ", fmt.Sprint("$", log2(step)), "CX")
	g.op("JEQ", "done")
	g.label("loop")
	for i := range step / g.lanes {
		body(i, i*g.lanes*4)
	}
	for _, p := range pointers {
		g.op("ADDQ", fmt.Sprint("$", step*4), p)
	}
	g.op("DECQ", "CX")
	g.op("JNE", "loop")
	g.label("done")
}

// lanes16 are the registers that hold 16 lanes.
func (g *gen) lanes16() []vec { return g.vecs(step / g.lanes) }

func (g *gen) vectors() {
	g.sumSquares()
	g.scaleMul()
	g.add()
	g.gate()
	g.rotate()
	g.max()
	g.blend()
	g.scale()
}

func (g *gen) sumSquares() {
	g.function("sumSquares", "(x []float32) float32", 28, "impl.sumSquares, len(x) a multiple of 16")
	acc, v := g.lanes16(), g.vec()
	g.op("MOVQ", arg("x_base", 0), "SI")
	g.zero(acc...)
	g.each(arg("x_len", 8), []string{"SI"}, func(i, off int) {
		g.op("VMOVUPS", at(off, "SI"), v)
		g.op("VFMADD231PS", v, v, acc[i])
	})
	g.reduce("VADDPS", acc, v)
	g.op("VMOVSS", acc[0].x(), arg("ret", 24))
	g.end()
}

func (g *gen) scaleMul() {
	g.function("scaleMul", "(y, x, w []float32, s float32)", 76, "impl.scaleMul, len(y) a multiple of 16")
	s, v := g.vec(), g.vec()
	g.op("MOVQ", arg("y_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.op("MOVQ", arg("w_base", 48), "DX")
	g.op("VBROADCASTSS", arg("s", 72), s)
	g.each(arg("y_len", 8), []string{"DI", "SI", "DX"}, func(_, off int) {
		g.op("VMULPS", at(off, "SI"), s, v)
		g.op("VMULPS", at(off, "DX"), v, v)
		g.op("VMOVUPS", v, at(off, "DI"))
	})
	g.end()
}

func (g *gen) add() {
	g.function("add", "(y, x []float32)", 48, "impl.add, len(y) a multiple of 16")
	v := g.vec()
	g.op("MOVQ", arg("y_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.each(arg("y_len", 8), []string{"DI", "SI"}, func(_, off int) {
		g.op("VMOVUPS", at(off, "DI"), v)
		g.op("VADDPS", at(off, "SI"), v, v)
		g.op("VMOVUPS", v, at(off, "DI"))
	})
	g.end()
}

func (g *gen) gate() {
	g.function("gate", "(y, g, u []float32)", 72, "impl.gate, len(y) a multiple of 16")
	x, t, p, high, mask, gate := g.vec(), g.vec(), g.vec(), g.vec(), g.vec(), g.vec()
	g.op("MOVQ", arg("y_base", 0), "DI")
	g.op("MOVQ", arg("g_base", 24), "SI")
	g.op("MOVQ", arg("u_base", 48), "DX")
	g.op("VMOVUPS", g.operand("high"), high)
	g.each(arg("y_len", 8), []string{"DI", "SI", "DX"}, func(_, off int) {
		g.op("VMOVUPS", at(off, "SI"), gate)
		g.zero(x)
		g.op("VSUBPS", gate, x, x)
		g.exp(x, t, p, high, mask)
		g.op("VADDPS", g.operand("one"), x, x)
		g.op("VDIVPS", x, gate, x)
		g.op("VMULPS", at(off, "DX"), x, x)
		g.op("VMOVUPS", x, at(off, "DI"))
	})
	g.end()
}

func (g *gen) rotate() {
	g.function("rotate", "(a, b, cos, sin []float32)", 96, "impl.rotate, len(cos) a multiple of 16")
	a, b, c, s, u, v := g.vec(), g.vec(), g.vec(), g.vec(), g.vec(), g.vec()
	g.op("MOVQ", arg("a_base", 0), "DI")
	g.op("MOVQ", arg("b_base", 24), "SI")
	g.op("MOVQ", arg("cos_base", 48), "DX")
	g.op("MOVQ", arg("sin_base", 72), "BX")
	g.each(arg("cos_len", 56), []string{"DI", "SI", "DX", "BX"}, func(_, off int) {
		g.op("VMOVUPS", at(off, "DI"), a)
		g.op("VMOVUPS", at(off, "SI"), b)
		g.op("VMOVUPS", at(off, "DX"), c)
		g.op("VMOVUPS", at(off, "BX"), s)
		g.op("VMULPS", b, s, u)
		g.op("VFMSUB231PS", a, c, u) // a*cos - b*sin
		g.op("VMULPS", a, s, v)
		g.op("VFMADD231PS", b, c, v) // b*cos + a*sin
		g.op("VMOVUPS", u, at(off, "DI"))
		g.op("VMOVUPS", v, at(off, "SI"))
	})
	g.end()
}

func (g *gen) max() {
	g.function("max", "(x []float32) float32", 28, "impl.max")
	acc, v := g.lanes16(), g.vec()
	g.op("MOVQ", arg("x_base", 0), "SI")
	g.op("MOVL", "$0xff800000", temp) // -Inf
	for _, a := range acc {
		g.op("VMOVD", temp, a.x())
		g.op("VBROADCASTSS", a.x(), a)
	}
	g.each(arg("x_len", 8), []string{"SI"}, func(i, off int) {
		// Of a NaN and a number the last source is the result.
		g.op("VMOVUPS", at(off, "SI"), v)
		g.op("VMAXPS", acc[i], v, acc[i])
	})
	g.reduce("VMAXPS", acc, v)
	g.op("VMOVSS", acc[0].x(), arg("ret", 24))
	g.end()
}

func (g *gen) blend() {
	g.function("blend", "(y, x []float32, a, b float32)", 56, "impl.blend, len(y) a multiple of 16")
	a, b, v := g.vec(), g.vec(), g.vec()
	g.op("MOVQ", arg("y_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.op("VBROADCASTSS", arg("a", 48), a)
	g.op("VBROADCASTSS", arg("b", 52), b)
	g.each(arg("y_len", 8), []string{"DI", "SI"}, func(_, off int) {
		g.op("VMULPS", at(off, "DI"), a, v)
		g.op("VFMADD231PS", at(off, "SI"), b, v)
		g.op("VMOVUPS", v, at(off, "DI"))
	})
	g.end()
}

func (g *gen) scale() {
	g.function("scale", "(y, x []float32, s float32)", 52, "impl.scale, len(y) a multiple of 16")
	s, v := g.vec(), g.vec()
	g.op("MOVQ", arg("y_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.op("VBROADCASTSS", arg("s", 48), s)
	g.each(arg("y_len", 8), []string{"DI", "SI"}, func(_, off int) {
		g.op("VMULPS", at(off, "SI"), s, v)
		g.op("VMOVUPS", v, at(off, "DI"))
	})
	g.end()
}
