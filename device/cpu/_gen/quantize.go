package main

import "fmt"

// quantize writes impl.quantize for whole groups, with scales or their exponents.
func (g *gen) quantize(exponents bool) {
	const frame = 48
	name := "quantize"
	if exponents {
		name = "quantizeExponents"
	}
	g.function(name, "(dst []byte, x []float32)", frame, "impl.quantize for whole groups")
	g.op("MOVQ", arg("dst_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.op("MOVQ", arg("x_len", 32), pairs)
	g.op("SHRQ", "$6", pairs)
	g.op("JEQ", "end")
	n := blockSize / g.lanes
	v, t := g.vecs(n), g.vecs(n)
	top, inverse := t[0], g.vec()
	g.label("loop")
	for b := range 2 {
		and := "VPAND"
		if g.isa == avx512 {
			and = "VPANDD"
		}
		for i := range v {
			g.op("VMOVUPS", at((b*blockSize+i*g.lanes)*4, "SI"), v[i])
			g.op(and, g.operand("magnitude"), v[i], t[i])
		}
		g.overall("VPMAXUD", t)
		x, inv := top.x(), inverse.x()
		if g.isa == avx512 {
			// Predicate 5, "not less than", lets NaN through.
			g.op("VCMPPS", "$5", g.operand("least"), x, "K1")
			g.op("VMULPS.Z", g.operand("unit"), x, "K1", x)
			g.op("VPMINUD", g.operand("infinity"), x, x)
			g.op("VPADDD", g.operand("mantissa"), x, x)
			g.op("VPANDD", g.operand("infinity"), x, x)
			g.op("VMOVUPS", g.operand("one"), inv)
			g.op("VDIVPS.Z", x, inv, "K1", inv)
			if exponents {
				g.op("VGETEXPPS", x, x)
			}
		} else {
			mask := t[1].x()
			g.op("VCMPPS", "$5", g.operand("least"), x, mask)
			g.op("VMULPS", g.operand("unit"), x, x)
			g.op("VANDPS", mask, x, x)
			g.op("VPMINUD", g.operand("infinity"), x, x)
			g.op("VPADDD", g.operand("mantissa"), x, x)
			g.op("VPAND", g.operand("infinity"), x, x)
			g.op("VMOVUPS", g.operand("one"), inv)
			g.op("VDIVPS", x, inv, inv)
			g.op("VANDPS", mask, inv, inv)
		}
		g.op("VMOVSS", x, at(rowScale+4*b, "DI"))
		g.op("VBROADCASTSS", inv, inverse)
		for i := range v {
			g.op("VMULPS", inverse, v[i], v[i])
			g.op("VCVTPS2DQ", v[i], v[i])
			g.op("VPMAXSD", g.operand("lowest"), v[i], v[i])
			g.op("VMOVAPS", v[i], t[i])
		}
		g.narrow(v, rowData+b*blockSize)
		g.overall("VPADDD", t)
		g.op("VPSLLD", "$7", top.x(), top.x())
		g.op("VPXOR", t[1].x(), t[1].x(), t[1].x())
		g.op("VPSUBD", top.x(), t[1].x(), top.x())
		g.op("VMOVD", top.x(), at(4*b, "DI"))
	}
	g.op("ADDQ", fmt.Sprint("$", 2*blockSize*4), "SI")
	g.op("ADDQ", fmt.Sprint("$", groupRow), "DI")
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("end")
	g.end()
}

// largest writes the first pass over a row of W8A8.
func (g *gen) largest() {
	g.function("largest", "(x []float32) uint32", 28, "the greatest magnitude's bits, of a multiple of 64 numbers")
	g.op("MOVQ", arg("x_base", 0), "SI")
	g.op("MOVQ", arg("x_len", 8), pairs)
	n := 4
	v, t := g.vecs(n), g.vecs(n)
	g.zero(t...)
	g.op("SHRQ", fmt.Sprint("$", log2(n*g.lanes)), pairs)
	g.op("JEQ", "end")
	g.label("loop")
	for i := range v {
		g.op("VMOVUPS", at(i*g.lanes*4, "SI"), v[i])
		if g.isa == avx512 {
			g.op("VPANDD", g.operand("magnitude"), v[i], v[i])
		} else {
			g.op("VPAND", g.operand("magnitude"), v[i], v[i])
		}
		g.op("VPMAXUD", v[i], t[i], t[i])
	}
	g.op("ADDQ", fmt.Sprint("$", n*g.lanes*4), "SI")
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("end")
	g.overall("VPMAXUD", t)
	g.op("VMOVD", t[0].x(), temp)
	g.op("MOVL", temp, "ret+24(FP)")
	g.end()
}

// round writes the second pass.
func (g *gen) round() {
	g.function("round", "(dst []byte, x []float32, inverse float32) int32", 60, "x * inverse as int8, of a multiple of 64 numbers, and their sum")
	g.op("MOVQ", arg("dst_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.op("MOVQ", arg("x_len", 32), pairs)
	n := blockSize / g.lanes
	v, t, inverse, lowest := g.vecs(n), g.vecs(n), g.vec(), g.vec()
	g.zero(t...)
	g.op("VBROADCASTSS", arg("inverse", 48), inverse)
	g.op("VMOVUPS", g.operand("lowest"), lowest)
	g.op("SHRQ", "$5", pairs)
	g.op("JEQ", "end")
	g.label("loop")
	for i := range v {
		g.op("VMULPS", at(i*g.lanes*4, "SI"), inverse, v[i])
		g.op("VCVTPS2DQ", v[i], v[i])
		g.op("VPMAXSD", lowest, v[i], v[i])
		g.op("VPADDD", v[i], t[i], t[i])
	}
	g.narrow(v, 0)
	g.op("ADDQ", fmt.Sprint("$", blockSize*4), "SI")
	g.op("ADDQ", fmt.Sprint("$", blockSize), "DI")
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("end")
	g.overall("VPADDD", t)
	g.op("VMOVD", t[0].x(), temp)
	g.op("MOVL", temp, "ret+56(FP)")
	g.end()
}

// narrow stores 32 integers as bytes at DI.
func (g *gen) narrow(v []vec, off int) {
	if g.isa == avx512 {
		for i := range v {
			g.op("VPMOVSDB", v[i], at(off+i*g.lanes, "DI"))
		}
		return
	}
	g.op("VPACKSSDW", v[1], v[0], v[0])
	g.op("VPACKSSDW", v[3], v[2], v[2])
	g.op("VPACKSSWB", v[2], v[0], v[0])
	g.op("VMOVDQU", g.operand("unpack"), v[1])
	g.op("VPERMD", v[0], v[1], v[0])
	g.op("VMOVDQU", v[0], at(off, "DI"))
}

// overall leaves op over all lanes of t in each lane of t[0].x().
func (g *gen) overall(op string, t []vec) {
	for n := len(t) / 2; n > 0; n /= 2 {
		for i := range n {
			g.op(op, t[i+n], t[i], t[i])
		}
	}
	a, b := t[0], t[1]
	if g.isa == avx512 {
		g.op("VEXTRACTI64X4", "$1", a, b.y())
		g.op(op, b.y(), a.y(), a.y())
	}
	g.op("VEXTRACTI128", "$1", a.y(), b.x())
	g.op(op, b.x(), a.x(), a.x())
	for _, shuffle := range []string{"$0x4e", "$0xb1"} {
		g.op("VPSHUFD", shuffle, a.x(), b.x())
		g.op(op, b.x(), a.x(), a.x())
	}
}
