package main

import "fmt"

// Products with tiles of FP8 (fp8.go in the package). They are those of product.go, whose
// chains and order they have, but for the decoding of a pair of columns, and the scales of each
// 64 columns.
type fp8Product struct {
	*product
	scales []vec // of a part of the 16 rows each
	mask   vec
}

const (
	fp8Columns = 64 // of a unit
	fp8Pair    = 2 * tileRows
	units      = temp // counter: nothing else needs the register in the loop over columns
)

// fp8Rows is how many rows of x a kernel takes at most: decoding takes some registers.
func (g *gen) fp8Rows() int {
	if g.isa == avx512 {
		return g.rows
	}
	return g.rows - 1
}

func (g *gen) fp8Products() {
	fmt.Fprintf(g.tables, "var mulFP8%s = []mulFunc{nil", g.suffix)
	for m := 1; m <= g.fp8Rows(); m++ {
		name := fmt.Sprintf("mulFP8x%d", m)
		fmt.Fprintf(g.tables, ", %s%s", name, g.suffix)
		g.mulFP8(m, name)
	}
	fmt.Fprintf(g.tables, "}\n\n")
}

// unit loads the scales of a unit, and moves on to its columns.
func (p *fp8Product) unit() {
	for i, s := range p.scales {
		p.op("VMOVUPS", at(i*p.lanes*4, tile), s)
	}
	p.op("PREFETCHT1", at(0, ahead))
	p.op("ADDQ", fmt.Sprint("$", line), tile)
	p.op("ADDQ", fmt.Sprint("$", line), ahead)
}

// decode has 16 rows of two columns, or with AVX2 of one, in float32. A byte s eeee mmm that is
// extended with its sign and shifted to the left by 7 is s s eeee mmm 0000000; without the
// second s it is a float16, 256 times too small, which the scales make up for.
func (p *fp8Product) decode(off int) (columns []vec) {
	last := p.w[len(p.w)-1]
	if p.isa == avx512 {
		last = p.w2[0]
	}
	p.op("VPMOVSXBW", at(off, tile), last)
	p.op("VPSLLW", "$7", last, last)
	and := "VPAND"
	if p.isa == avx512 {
		and = "VPANDD"
	}
	p.op(and, p.mask, last, last)
	if p.isa == avx512 {
		p.op("VCVTPH2PS", last.y(), p.w[0])
		p.op("VEXTRACTI64X4", "$1", last, last.y())
		p.op("VCVTPH2PS", last.y(), last)
		p.op("VMULPS", p.scales[0], p.w[0], p.w[0])
		p.op("VMULPS", p.scales[0], last, last)
		return []vec{p.w[0], last}
	}
	p.op("VCVTPH2PS", last.x(), p.w[0])
	p.op("VEXTRACTI128", "$1", last, last.x())
	p.op("VCVTPH2PS", last.x(), last)
	for i, w := range p.w {
		p.op("VMULPS", p.scales[i], w, w)
	}
	return p.w
}

// pair multiplies pair u, relative to tile, or only the even column of it.
func (p *fp8Product) pair(u int, odd bool) {
	off := u * fp8Pair
	if off%line == 0 {
		p.op("PREFETCHT1", at(off, ahead))
	}
	parities := 1
	if odd {
		parities = 2
	}
	if p.isa == avx512 {
		for parity, w := range p.decode(off)[:parities] {
			for m := range p.m {
				p.op("VFMADD231PS.BCST", p.input(m, 2*u+parity), w, p.acc[parity][0][m])
			}
		}
		return
	}
	for parity := range parities {
		p.decode(off + parity*tileRows)
		for m := range p.m {
			p.op("VBROADCASTSS", p.input(m, 2*u+parity), p.x)
			for i, w := range p.w {
				p.op("VFMADD231PS", p.x, w, p.acc[parity][i][m])
			}
		}
	}
}

func (g *gen) mulFP8(m int, name string) {
	const k, frame = "k+72(FP)", 168
	g.function(name, "(w []byte, offs, ahead []int, k int, x []float32, ldx int, y []float32, ldy int, bias []float32)", frame,
		fmt.Sprintf("impl.mulFP8 for %d rows of x", m))
	p := &fp8Product{product: g.start(element{"FP8", fp8Pair}, m)}
	p.scales, p.mask = g.vecs(tileRows/g.lanes), g.vec()
	g.op("MOVL", "$0xbfffbfff", temp)
	if g.isa == avx512 {
		g.op("VPBROADCASTD", temp, p.mask)
	} else {
		g.op("VMOVD", temp, p.mask.x())
		g.op("VPBROADCASTD", p.mask.x(), p.mask)
	}
	u := p.unroll()
	g.op("MOVQ", arg("offs_len", 32), left)
	g.op("TESTQ", left, left)
	g.op("JEQ", "end")
	g.op("MOVQ", arg("bias_base", 144), biasPtr)

	g.label("tile")
	p.locate()
	p.rewind()
	p.claim()
	p.clear()
	g.op("MOVQ", k, units)
	g.op("SHRQ", fmt.Sprint("$", log2(fp8Columns)), units)
	g.op("JEQ", "short")
	g.label("unit")
	p.unit()
	g.op("MOVQ", fmt.Sprint("$", fp8Columns/(2*u)), pairs)
	g.label("loop")
	for i := range u {
		p.pair(i, true)
	}
	p.advance(u)
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.op("DECQ", units)
	g.op("JNE", "unit")

	g.label("short")
	g.op("MOVQ", k, pairs)
	g.op("ANDQ", fmt.Sprint("$", fp8Columns-1), pairs)
	g.op("JEQ", "sum")
	p.unit()
	g.op("SHRQ", "$1", pairs)
	g.op("JEQ", "odd")
	g.label("rest")
	p.pair(0, true)
	p.advance(1)
	g.op("DECQ", pairs)
	g.op("JNE", "rest")
	g.label("odd")
	g.op("MOVQ", k, pairs)
	g.op("TESTQ", "$1", pairs)
	g.op("JEQ", "sum")
	p.pair(0, false)
	g.label("sum")
	p.finish()
}
