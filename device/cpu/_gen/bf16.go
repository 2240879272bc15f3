package main

import "fmt"

// bf16Rows is the most rows of a product in bfloat16: two chains of sums each,
// the tile's line, and an activation.
const bf16Rows = 12

// bf16 writes the products that have both operands in bfloat16, and the
// rounding of rows. VDPBF16PS multiplies two columns at once; the pairs of even
// and of odd index have a chain each, because one addition takes longer than
// memory takes for a line.
func (g *gen) bf16() {
	fmt.Fprintf(g.tables, "var dotBF16%s = []dotFunc{nil", g.suffix)
	for m := 1; m <= bf16Rows; m++ {
		fmt.Fprintf(g.tables, ", dotBF16x%d%s", m, g.suffix)
		g.dotBF16(m)
	}
	fmt.Fprintf(g.tables, "}\n\n")
	g.narrowBF16()
}

func (g *gen) dotBF16(m int) {
	const n, frame, unroll = "n+72(FP)", 168, 4
	p := &product{gen: g, m: m, el: element{"BF16", line}}
	g.function(fmt.Sprintf("dotBF16x%d", m),
		"(w []byte, offs, ahead []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)", frame,
		fmt.Sprintf("impl.dot for tiles of BF16 and %d rows of x", m))
	for i := range p.acc {
		p.acc[i] = [][]vec{g.vecs(m)}
	}
	w, t := g.vecs(2), g.vecs(2)
	g.op("MOVQ", arg("offs_base", 24), offset)
	g.op("MOVQ", arg("ldx", 104), stride)
	g.op("MOVQ", arg("y_base", 112), out)
	g.op("MOVQ", arg("ldy", 136), outStep)
	g.op("SHLQ", "$2", outStep)
	g.op("MOVQ", arg("offs_len", 32), left)
	g.op("TESTQ", left, left)
	g.op("JEQ", "end")
	g.op("MOVQ", arg("bias_base", 144), biasPtr)

	pair := func(u int) {
		g.op("PREFETCHT1", at(u*line, ahead))
		g.op("VMOVDQU32", at(u*line, tile), w[u%2])
		for r := range m {
			x := t[r%2]
			g.op("VPBROADCASTD", p.input(r, u), x)
			g.bf16Dot(x, w[u%2], p.acc[u%2][0][r])
		}
	}
	advance := func(n int) {
		g.op("ADDQ", fmt.Sprint("$", n*line), tile)
		g.op("ADDQ", fmt.Sprint("$", n*line), ahead)
		for i := 0; i*3 < m; i++ {
			g.op("ADDQ", fmt.Sprint("$", n*4), bases[i])
		}
	}
	g.label("tile")
	p.locate()
	p.rewind()
	p.claim()
	p.clear()
	g.op("MOVQ", n, pairs)
	g.op("SHRQ", fmt.Sprint("$", log2(unroll)), pairs)
	g.op("JEQ", "short")
	g.label("loop")
	for u := range unroll {
		pair(u)
	}
	advance(unroll)
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("short")
	g.op("MOVQ", n, pairs)
	for _, u := range []int{2, 1} {
		g.op("TESTQ", fmt.Sprint("$", u), pairs)
		g.op("JEQ", fmt.Sprint("no", u))
		for i := range u {
			pair(i)
		}
		advance(u)
		g.label(fmt.Sprint("no", u))
	}
	p.addChains()
	g.op("TESTQ", biasPtr, biasPtr)
	g.op("JEQ", "store")
	for _, a := range p.acc[0][0] {
		g.op("VADDPS", at(0, biasPtr), a, a)
	}
	g.op("ADDQ", fmt.Sprint("$", tileRows*4), biasPtr)
	g.label("store")
	p.store()
	g.op("ADDQ", fmt.Sprint("$", tileRows*4), out)
	g.op("ADDQ", "$8", offset)
	g.op("DECQ", left)
	g.op("JNE", "tile")
	g.label("end")
	g.end()
}

// bf16Dot is VDPBF16PS x, w, sum, which Go's assembler does not know (Intel SDM:
// EVEX.512.F3.0F38.W0 52 /r).
func (g *gen) bf16Dot(x, w, sum vec) {
	g.raw("\t%s// VDPBF16PS %s, %s, %s\n", evexDot(x.n, w.n, sum.n), x, w, sum)
}

// evexDot encodes it for registers rm, vvvv and reg.
func evexDot(rm, vvvv, reg int) string {
	inverted := func(n, bit, at int) int { return (^n >> bit & 1) << at }
	p0 := inverted(reg, 3, 7) | inverted(rm, 4, 6) | inverted(rm, 3, 5) | inverted(reg, 4, 4) | 2
	p1 := (^vvvv&15)<<3 | 4 | 2
	p2 := 2<<5 | inverted(vvvv, 4, 3)
	return fmt.Sprintf("BYTE $0x62; BYTE $0x%02x; BYTE $0x%02x; BYTE $0x%02x; BYTE $0x52; BYTE $0x%02x ", p0, p1, p2, 0xc0|reg&7<<3|rm&7)
}

// narrowBF16 writes the rounding of a row, to nearest even; NaN stays NaN.
func (g *gen) narrowBF16() {
	g.function("narrowBF16", "(dst []byte, x []float32)", 48, "impl.narrow for whole multiples of 16 numbers")
	g.op("MOVQ", arg("dst_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.op("MOVQ", arg("x_len", 32), pairs)
	v, t, one, half, quiet := g.vec(), g.vec(), g.vec(), g.vec(), g.vec()
	for _, c := range []struct {
		v     vec
		value string
	}{{one, "$1"}, {half, "$0x7fff"}, {quiet, "$0x400000"}} {
		g.op("MOVL", c.value, temp)
		g.op("VPBROADCASTD", temp, c.v)
	}
	g.op("SHRQ", "$4", pairs)
	g.op("JEQ", "end")
	g.label("loop")
	g.op("VMOVUPS", at(0, "SI"), v)
	g.op("VCMPPS", "$3", v, v, "K1") // unordered
	g.op("VPSRLD", "$16", v, t)
	g.op("VPANDD", one, t, t)
	g.op("VPADDD", half, t, t)
	g.op("VPADDD", v, t, t)
	g.op("VPORD", quiet, v, "K1", t)
	g.op("VPSRLD", "$16", t, t)
	g.op("VPMOVDW", t, at(0, "DI"))
	g.op("ADDQ", "$64", "SI")
	g.op("ADDQ", "$32", "DI")
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("end")
	g.end()
}
