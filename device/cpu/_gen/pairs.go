package main

import "fmt"

// Kernels for many rows and tiles of Q8 without VNNI. pairs.go in the package describes the
// method and the operands.
//
// For 32 products of eight bits AVX2 has VPMADDUBSW, which needs one operand without sign,
// and whose sums of two products fill 16 bits: VPSIGNB, VPMADDUBSW, VPMADDWD and VPADDD. Here
// they are two VPADDW, VPMADDWD and VPADDD, of which only one needs a multiplier and the rest
// can go to any port. In one loop over 512 columns and four rows, all in the first-level
// cache, a Zen 5 did 230 GOP/s with this, 215 with signs and tiles that are taken apart
// before, 209 with signs and ten rows by eight rows of a tile, and 185 with the kernels of
// impl.dot. Weights in halves of four bits, as VPMADDUBSW and VPADDW could add up eight times,
// are four instructions, too, and need twice the sums.

// Sizes, as in pairs.go of the package.
const (
	pairStart = 0               // of a block of weights: what sums start from
	pairScale = line            // scales
	pairData  = 2 * line        // numbers
	pairBlock = pairData + 1024 // all of it
	pairRow   = 2*4 + 2*blockSize
	pairRows  = 4 // rows of a kernel
)

// pairConstants fill vectors, by name and by 32 bits.
var pairConstants = []struct {
	name  string
	value uint32
}{
	{"even8", 0x00ff00ff},
	{"shift", 0x4b400000}, // 1.5 * 2^23 as float32
	{"units", 3 << 22},    // the same as an integer
}

func (g *gen) pairs() {
	for _, c := range pairConstants {
		g.fill32(c.name, func(int) uint32 { return c.value })
	}
	g.fill32("evenFirst", func(i int) uint32 { // words 0, 2, 1, 3 of each half of a lane
		first := uint32(i%4/2*8 + i%2*2)
		return first | (first+1)<<8 | (first+4)<<16 | (first+5)<<24
	})
	g.expandPairs()
	g.pairRow()
	fmt.Fprintf(g.tables, "var pairs%s = pairKernels{expand: expandPairs%s, round: pairRow%s, dot: []pairFunc{nil", g.suffix, g.suffix, g.suffix)
	for m := 1; m <= pairRows; m++ {
		g.pairDot(m)
		fmt.Fprintf(g.tables, ", dotPairsx%d%s", m, g.suffix)
	}
	fmt.Fprintf(g.tables, "}}\n\n")
}

// fill32 writes a constant of a vector's size.
func (g *gen) fill32(name string, value func(i int) uint32) {
	name = g.constant(name)
	for i := range g.lanes {
		g.raw("DATA %s+%d(SB)/4, $0x%08x\n", name, 4*i, value(i))
	}
	g.raw("GLOBL %s(SB), RODATA|NOPTR, $%d\n\n", name, g.lanes*4)
}

// expandPairs writes pairKernels.expand.
func (g *gen) expandPairs() {
	const dst, src = "DI", "SI"
	g.function("expandPairs", "(dst, groups []byte, n int)", 56, "pairKernels.expand")
	g.op("MOVQ", arg("dst_base", 0), dst)
	g.op("MOVQ", arg("groups_base", 24), src)
	g.op("MOVQ", arg("n", 48), pairs)
	parts := tileRows / g.lanes
	mask, odd, even, start := g.vec(), g.vec(), g.vec(), g.vecs(parts)
	g.op("VMOVDQU", g.operand("even8"), mask)
	g.op("TESTQ", pairs, pairs)
	g.op("JEQ", "end")
	g.label("loop")
	for b := range 2 {
		for i := range parts {
			part := i * g.lanes * 4
			g.op("VCVTPH2PS", at(b*tileRows*2+i*g.lanes*2, src), even)
			g.op("VMOVUPS", even, at(b*pairBlock+pairScale+part, dst))
			g.op("VMOVDQU", g.operand("shift"), start[i])
		}
		for j := range blockSize / 4 {
			for i := range parts {
				at := func(k int) string { return at(b*pairBlock+pairData+(j*parts*2+2*i+k)*g.lanes*4, dst) }
				g.op("VMOVDQU", fmt.Sprintf("%d(%s)", groupScales+b*1024/2+j*line+i*g.lanes*4, src), even)
				g.op("VPSRLW", "$8", even, odd)
				g.op("VPAND", mask, even, even)
				g.op("VMOVDQU", odd, at(0))
				g.op("VMOVDQU", even, at(1))
				g.op("VPMADDWD", odd, even, even)
				g.op("VPSUBD", even, start[i], start[i])
			}
		}
		for i := range parts {
			g.op("VMOVDQU", start[i], at(b*pairBlock+pairStart+i*g.lanes*4, dst))
		}
	}
	g.op("ADDQ", fmt.Sprint("$", groupScales+1024), src)
	g.op("ADDQ", fmt.Sprint("$", 2*pairBlock), dst)
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("end")
	g.end()
}

// pairRow writes pairKernels.round.
func (g *gen) pairRow() {
	const dst, src, most = "DI", "SI", "DX"
	g.function("pairRow", "(dst, row []byte, n int) uint32", 60, "pairKernels.round")
	g.op("MOVQ", arg("dst_base", 0), dst)
	g.op("MOVQ", arg("row_base", 24), src)
	g.op("MOVQ", arg("n", 48), pairs)
	g.op("XORL", most, most)
	order, p := g.vec(), g.vecs(2)
	v, t := g.vecs(2), g.vecs(2)
	g.op("VMOVDQU", g.operand("evenFirst"), order)
	g.op("TESTQ", pairs, pairs)
	g.op("JEQ", "end")
	g.label("loop")
	for b := range 2 {
		to := b * pairRow
		for i := range 2 {
			g.op("VPMOVSXBW", at(rowData+b*blockSize+i*blockSize/2, src), v[i])
			g.op("VPSHUFB", order, v[i], v[i])
			g.op("VMOVDQU", v[i], at(to+8+i*blockSize, dst))
			g.op("VPSHUFD", "$0xb1", v[i], t[i])
			g.op("VPMADDWD", v[i], t[i], p[i])
		}
		// Both words of a pair have the same sum, so one of them is added up.
		sum, x := p[0].x(), p[1].x()
		g.op("VPADDD", p[1], p[0], p[0])
		g.op("VEXTRACTI128", "$1", p[0], x)
		g.op("VPADDD", x, sum, sum)
		g.op("VPSHUFD", "$0x4e", sum, x)
		g.op("VPADDD", x, sum, sum)
		g.op("VMOVD", at(4*b, src), x)
		g.op("VPSUBD", sum, x, x)
		g.op("VPSUBD", g.operand("units"), x, x)
		g.op("VCVTDQ2PS", x, x)
		g.op("MOVL", at(rowScale+4*b, src), temp)
		g.op("MOVL", temp, at(to, dst))
		g.op("CMPL", temp, most)
		g.op("CMOVLHI", temp, most)
		g.op("VMULSS", at(rowScale+4*b, src), x, x)
		g.op("VMOVSS", x, at(to+4, dst))
	}
	g.op("ADDQ", fmt.Sprint("$", groupRow), src)
	g.op("ADDQ", fmt.Sprint("$", 2*pairRow), dst)
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("end")
	g.op("MOVL", most, "ret+56(FP)")
	g.end()
}

// pairDot writes pairKernels.dot for m rows at a time.
func (g *gen) pairDot(m int) {
	const (
		w, passes, x3, y3 = "R13", "R12", "R10", "R11"
		step, prefetched  = "R14", 5 // cache lines for a block, in two passes
		results           = "R15"
	)
	g.function(fmt.Sprintf("dotPairsx%d", m), "(w []byte, n int, x []byte, ldx, passes int, y []float32, ldy int, bias []float32, first, ahead int)", 144,
		fmt.Sprintf("pairKernels.dot for %d rows of x at a time", m))
	g.op("MOVQ", arg("w_base", 0), w)
	g.op("MOVQ", arg("x_base", 32), bases[0])
	g.op("MOVQ", arg("ldx", 56), stride)
	g.op("MOVQ", arg("passes", 64), passes)
	g.op("MOVQ", arg("y_base", 72), out)
	g.op("MOVQ", arg("ldy", 96), outStep)
	g.op("SHLQ", "$2", outStep)
	g.op("MOVQ", arg("ahead", 136), ahead)
	g.op("ADDQ", w, ahead)
	g.op("MOVQ", fmt.Sprint("$", prefetched*line), step)

	parts := tileRows / g.lanes
	sums := make([][]vec, parts) // [part][row]
	for i := range sums {
		sums[i] = g.vecs(m)
	}
	odd, even := g.vecs(parts), g.vecs(parts)
	x, t := g.vecs(2), g.vecs(2)
	row := func(r, off int) string {
		if r == 3 {
			return at(off, x3)
		}
		if r == 0 {
			return at(off, bases[0])
		}
		return fmt.Sprintf("%s(%s*%d)", at(off, bases[0]), stride, r)
	}
	result := func(r, part int) string {
		off := part * g.lanes * 4
		if r == 3 {
			return at(off, y3)
		}
		if r == 0 {
			return at(off, out)
		}
		return fmt.Sprintf("%s(%s*%d)", at(off, out), outStep, r)
	}
	each := func(f func(r, part int)) {
		for r := range m {
			for i := range parts {
				f(r, i)
			}
		}
	}

	g.label("pass")
	g.op("MOVQ", w, tile)
	g.op("MOVQ", arg("n", 24), pairs)
	if m == 4 {
		g.op("LEAQ", fmt.Sprintf("(%s)(%s*2)", stride, stride), temp)
		g.op("LEAQ", fmt.Sprintf("(%s)(%s*1)", bases[0], temp), x3)
		g.op("LEAQ", fmt.Sprintf("(%s)(%s*2)", outStep, outStep), temp)
		g.op("LEAQ", fmt.Sprintf("(%s)(%s*1)", out, temp), y3)
	}
	g.op("IMUL3Q", fmt.Sprint("$", m), outStep, results)
	g.op("ADDQ", out, results)
	g.op("CMPQ", arg("first", 128), "$0")
	g.op("JEQ", "block")
	g.zero(t[0])
	each(func(r, part int) { g.op("VMOVUPS", t[0], result(r, part)) })
	// The lines of the next rows' results are claimed, as product.claim does.
	g.op("MOVQ", results, temp)
	for range m {
		g.raw("\tBYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (%s)\n", temp)
		g.op("ADDQ", outStep, temp)
	}
	g.label("block")
	for l := range prefetched {
		g.op("PREFETCHT1", at(l*line, ahead))
	}
	g.op("ADDQ", step, ahead)
	for i := range parts {
		g.op("VMOVDQU", at(pairStart+i*g.lanes*4, tile), sums[i][0])
		for r := 1; r < m; r++ {
			g.op("VMOVDQA", sums[i][0], sums[i][r])
		}
	}
	for j := range blockSize / 4 {
		for i := range parts {
			data := pairData + (j*parts*2+2*i)*g.lanes*4
			g.op("VMOVDQU", at(data, tile), odd[i])
			g.op("VMOVDQU", at(data+g.lanes*4, tile), even[i])
		}
		for r := range m {
			g.op("VPBROADCASTD", row(r, 8+8*j), x[0])
			g.op("VPBROADCASTD", row(r, 12+8*j), x[1])
			g.op("VPADDW", odd[0], x[0], t[0])
			g.op("VPADDW", even[0], x[1], t[1])
			g.op("VPADDW", odd[1], x[0], x[0])
			g.op("VPADDW", even[1], x[1], x[1])
			g.op("VPMADDWD", t[0], t[1], t[0])
			g.op("VPMADDWD", x[0], x[1], x[0])
			g.op("VPADDD", t[0], sums[0][r], sums[0][r])
			g.op("VPADDD", x[0], sums[1][r], sums[1][r])
		}
	}
	for i := range parts {
		g.op("VMOVUPS", at(pairScale+i*g.lanes*4, tile), odd[i])
	}
	for r := range m {
		g.op("VBROADCASTSS", row(r, 0), t[0])
		g.op("VBROADCASTSS", row(r, 4), t[1])
		for i := range parts {
			g.op("VFMADD213PS", t[1], t[0], sums[i][r])
			g.op("VFMADD213PS", result(r, i), odd[i], sums[i][r])
			g.op("VMOVUPS", sums[i][r], result(r, i))
		}
	}
	g.op("ADDQ", fmt.Sprint("$", pairBlock), tile)
	g.op("ADDQ", fmt.Sprint("$", pairRow), bases[0])
	if m == 4 {
		g.op("ADDQ", fmt.Sprint("$", pairRow), x3)
	}
	g.op("DECQ", pairs)
	g.op("JNE", "block")

	g.op("MOVQ", arg("bias_base", 104), temp)
	g.op("TESTQ", temp, temp)
	g.op("JEQ", "next")
	each(func(r, part int) {
		g.op("VADDPS", at(part*g.lanes*4, temp), sums[part][r], sums[part][r])
		g.op("VMOVUPS", sums[part][r], result(r, part))
	})
	g.label("next")
	// Two passes have prefetched more than what there is.
	g.op("MOVQ", arg("passes", 64), temp)
	g.op("SUBQ", passes, temp)
	g.op("JEQ", "more")
	g.op("XORL", step, step)
	g.label("more")
	g.op("IMUL3Q", fmt.Sprint("$", m), stride, temp)
	g.op("ADDQ", temp, arg("x_base", 32))
	g.op("MOVQ", arg("x_base", 32), bases[0])
	g.op("MOVQ", results, out)
	g.op("DECQ", passes)
	g.op("JNE", "pass")
	g.end()
}
