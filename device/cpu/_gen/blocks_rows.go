package main

import "fmt"

// roundSums writes blockKernels.round for whole groups. It is quantize (quantize.go) with
// more sums.
func (g *gen) roundSums() {
	g.roundRows("roundSums", "blockKernels.round for whole groups", func(x, t vec, at func(off int) string) {
		g.op("VPSLLD", "$7", x.x(), x.x())
		g.op("VPXOR", t.x(), t.x(), t.x())
		g.op("VPSUBD", x.x(), t.x(), x.x())
		// The sums of both lanes of each half become one.
		g.op("VPHADDD", x.x(), x.x(), x.x())
		g.op("VMOVQ", x.x(), at(0))
		g.op("VPSHUFD", "$0xb1", x.x(), t.x())
		g.op("VPADDD", x.x(), t.x(), x.x())
		g.op("VMOVD", x.x(), at(sumStart))
	})
}

// roundLanes is roundSums with sums of lanes.
func (g *gen) roundLanes() {
	g.roundRows("roundLanes", "blockKernels.round for whole groups, with sums of lanes", func(x, t vec, at func(off int) string) {
		g.op("VPSLLD", fmt.Sprint("$", log2(halfCentre)), x.x(), x.x())
		g.op("VPXOR", t.x(), t.x(), t.x())
		g.op("VPSUBD", x.x(), t.x(), x.x())
		g.op("VPACKSSDW", x.x(), x.x(), x.x())
		g.op("VMOVQ", x.x(), at(0))
		g.op("VPSRAW", fmt.Sprint("$", log2(halfCentre/blockCentre)), x.x(), x.x())
		g.op("VPSHUFD", "$0xb1", x.x(), t.x())
		g.op("VPADDW", x.x(), t.x(), x.x())
		g.op("VMOVD", x.x(), at(sumStart))
		g.op("VPMADDWD", g.operand("eights"), x.x(), x.x())
	})
}

// roundRows writes a kernel that rounds whole groups. sums gets the sums of the two lanes of
// each half of a block in x, stores what a row has of them, and leaves -128 times the block's
// sum in x; t is scratch.
func (g *gen) roundRows(name, doc string, sums func(x, t vec, at func(off int) string)) {
	g.function(name, "(dst []byte, x []float32)", 48, doc)
	g.op("MOVQ", arg("dst_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.op("MOVQ", arg("x_len", 32), pairs)
	g.op("SHRQ", "$6", pairs)
	g.op("JEQ", "end")
	n := blockSize / g.lanes
	v, t := g.vecs(n), g.vecs(n)
	inverse, scale := g.vec(), g.vec()
	g.label("loop")
	for b := range 2 {
		for i := range v {
			g.op("VMOVUPS", at((b*blockSize+i*g.lanes)*4, "SI"), v[i])
			g.op(g.and(), g.operand("magnitude"), v[i], t[i])
		}
		g.overall("VPMAXUD", t)
		g.powerOf(t[0], t[1], inverse)
		x, s := t[0].x(), scale.x()
		g.op("VMOVAPS", x, s)
		g.op("VMOVSS", x, at(b*sumBlock+sumScale, "DI"))
		g.op("VBROADCASTSS", inverse.x(), inverse)
		for i := range v {
			g.op("VMULPS", inverse, v[i], v[i])
			g.op("VCVTPS2DQ", v[i], v[i])
			g.op("VPMAXSD", g.operand("lowest"), v[i], v[i])
			g.op("VMOVAPS", v[i], t[i])
		}
		g.narrow(v, b*sumBlock+sumNumbers)
		g.laneSums(t, v)
		sums(t[0], t[1], func(off int) string { return at(b*sumBlock+off, "DI") })
		g.op("VCVTDQ2PS", x, x)
		g.op("VMULPS", g.operand("minus128th"), x, x)
		g.op("VMULPS", s, x, x)
		g.op("VMOVSS", x, at(b*sumBlock+sumValue, "DI"))
	}
	g.op("ADDQ", fmt.Sprint("$", 2*blockSize*4), "SI")
	g.op("ADDQ", fmt.Sprint("$", 2*sumBlock), "DI")
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("end")
	g.end()
}

// powerOf has the scale of a block, whose greatest magnitude is in each lane of top, in place
// of that, and the scale's inverse in the lower lanes of inverse; both are 0 for a block that
// counts as zero.
func (g *gen) powerOf(top, t, inverse vec) {
	x, inv, mask := top.x(), inverse.x(), t.x()
	if g.isa == avx512 {
		// Predicate 5, "not less than", lets NaN through.
		g.op("VCMPPS", "$5", g.operand("leastScaled"), x, "K1")
		g.op("VMULPS.Z", g.operand("unit"), x, "K1", x)
	} else {
		g.op("VCMPPS", "$5", g.operand("leastScaled"), x, mask)
		g.op("VMULPS", g.operand("unit"), x, x)
		g.op("VANDPS", mask, x, x)
	}
	and := g.and()
	g.op("VPMINUD", g.operand("infinity"), x, x)
	g.op("VPADDD", g.operand("mantissa"), x, x)
	g.op(and, g.operand("infinity"), x, x)
	g.op("VMOVUPS", g.operand("unity"), inv)
	if g.isa == avx512 {
		g.op("VDIVPS.Z", x, inv, "K1", inv)
		return
	}
	g.op("VDIVPS", x, inv, inv)
	g.op("VANDPS", mask, inv, inv)
}

// laneSums leaves sums of a block's numbers in the lanes of t[0].x(): of the first half's
// columns 0 and 1 of four, of its columns 2 and 3, and the same of the second half. v is
// scratch.
func (g *gen) laneSums(t, v []vec) {
	half := len(t) / 2 // registers of one half
	for h := range 2 {
		a, s := t[h*half], v[0]
		for _, b := range t[h*half+1 : (h+1)*half] {
			g.op("VPADDD", b, a, a)
		}
		if g.isa == avx512 {
			g.op("VEXTRACTI64X4", "$1", a, s.y())
			g.op("VPADDD", s.y(), a.y(), a.y())
		}
		g.op("VEXTRACTI128", "$1", a.y(), s.x())
		g.op("VPADDD", s.x(), a.x(), a.x())
	}
	g.op("VPHADDD", t[half].x(), t[0].x(), t[0].x())
}
