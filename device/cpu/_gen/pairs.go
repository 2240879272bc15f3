package main

import "fmt"

// Kernels for many rows and weights of eight bits without VNNI. pairs.go in the package describes the
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
	{"eights", 0x00080008},
}

func (g *gen) pairs() {
	for _, c := range pairConstants {
		g.fill32(c.name, func(int) uint32 { return c.value })
	}
	g.fill32("evenFirst", func(i int) uint32 { // words 0, 2, 1, 3 of each half of a lane
		first := uint32(i%4/2*8 + i%2*2)
		return first | (first+1)<<8 | (first+4)<<16 | (first+5)<<24
	})
	fmt.Fprintf(g.tables, "var pairs%s = pairKernels{\n", g.suffix)
	for i := range pairTiles {
		g.expandPairs(pairTiles[i])
		g.pairRow(pairInputs[i])
		fmt.Fprintf(g.tables, "expand%s: expandPairs%s%s, round%s: pairRow%s%s,\n",
			pairTiles[i].suffix, pairTiles[i].suffix, g.suffix, pairInputs[i].suffix, pairInputs[i].suffix, g.suffix)
	}
	fmt.Fprintf(g.tables, "dot: []pairFunc{nil")
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

// A pairSource is where a kernel of expansion finds two blocks of weights, or one of rounding
// two blocks of a row.
type pairSource struct {
	suffix string
	size   int  // of both blocks
	next   int  // from the first block to the second
	scale  int  // of the first block
	apart  int  // from one scale to the next
	data   int  // of the first block
	half   bool // scales are float16
	start  int  // of rows: where -128 * sum is, or -16 * sums of lanes; they are as far apart as scales
	lanes  bool // of rows: it is sums of lanes
}

// Groups of Q8 and rows of impl.quantize, then expanded blocks and rows of blockKernels.round.
var (
	pairTiles = []pairSource{
		{suffix: "", size: groupScales + 1024, next: 512, scale: 0, apart: tileRows * 2, data: groupScales, half: true},
		{suffix: "Blocks", size: 2 * (line + 512), next: line + 512, scale: 0, apart: line + 512, data: line},
	}
	pairInputs = []pairSource{
		{suffix: "", size: groupRow, next: blockSize, scale: rowScale, apart: 4, data: rowData, start: 0},
		{suffix: "Blocks", size: 2 * sumBlock, next: sumBlock, scale: sumScale, apart: sumBlock, data: sumNumbers, start: sumStart, lanes: true},
	}
)

// expandPairs writes pairKernels.expand.
func (g *gen) expandPairs(from pairSource) {
	const dst, src = "DI", "SI"
	g.function("expandPairs"+from.suffix, "(dst, groups []byte, n int)", 56, "pairKernels.expand"+from.suffix)
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
			if scale := from.scale + b*from.apart; from.half {
				g.op("VCVTPH2PS", at(scale+part/2, src), even)
			} else {
				g.op("VMOVUPS", at(scale+part, src), even)
			}
			g.op("VMOVUPS", even, at(b*pairBlock+pairScale+part, dst))
			g.op("VMOVDQU", g.operand("shift"), start[i])
		}
		for j := range blockSize / 4 {
			for i := range parts {
				to := b*pairBlock + pairData + 2*(j*parts+i)*g.lanes*4
				g.op("VMOVDQU", at(from.data+b*from.next+j*line+i*g.lanes*4, src), even)
				g.op("VPSRLW", "$8", even, odd)
				g.op("VPAND", mask, even, even)
				g.op("VMOVDQU", odd, at(to, dst))
				g.op("VMOVDQU", even, at(to+g.lanes*4, dst))
				g.op("VPMADDWD", odd, even, even)
				g.op("VPSUBD", even, start[i], start[i])
			}
		}
		for i := range parts {
			g.op("VMOVDQU", start[i], at(b*pairBlock+pairStart+i*g.lanes*4, dst))
		}
	}
	g.op("ADDQ", fmt.Sprint("$", from.size), src)
	g.op("ADDQ", fmt.Sprint("$", 2*pairBlock), dst)
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("end")
	g.end()
}

// pairRow writes pairKernels.round.
func (g *gen) pairRow(from pairSource) {
	const dst, src, most = "DI", "SI", "DX"
	g.function("pairRow"+from.suffix, "(dst, row []byte, n int) uint32", 60, "pairKernels.round"+from.suffix)
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
		scale := at(from.scale+b*from.apart, src)
		for i := range 2 {
			g.op("VPMOVSXBW", at(from.data+b*from.next+i*blockSize/2, src), v[i])
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
		g.op("VMOVD", at(from.start+b*from.apart, src), x)
		if from.lanes {
			g.op("VPMADDWD", g.operand("eights"), x, x)
		}
		g.op("VPSUBD", sum, x, x)
		g.op("VPSUBD", g.operand("units"), x, x)
		g.op("VCVTDQ2PS", x, x)
		g.op("MOVL", scale, temp)
		g.op("MOVL", temp, at(to, dst))
		g.op("CMPL", temp, most)
		g.op("CMOVLHI", temp, most)
		g.op("VMULSS", scale, x, x)
		g.op("VMOVSS", x, at(to+4, dst))
	}
	g.op("ADDQ", fmt.Sprint("$", from.size), src)
	g.op("ADDQ", fmt.Sprint("$", 2*pairRow), dst)
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("end")
	g.op("MOVL", most, "ret+56(FP)")
	g.end()
}

// Registers of pairDot, beside those of product.
const (
	pairWeights = "R13"
	pairPasses  = "R12"
	pairX3      = "R10" // row 3 of x
	pairY3      = "R11" // its results
	pairStep    = "R14" // what a block adds to ahead
	pairNext    = "R15" // the results of the next pass
	pairAhead   = 5     // cache lines for a block, in two passes
)

// pairDot is the state of a kernel: m rows by 16 rows of a tile.
type pairDot struct {
	*gen
	m         int
	sums      [][]vec // [part of the 16 rows][row of x]
	odd, even []vec   // [part] weights
	x, t      []vec   // two each
}

// pairDot writes pairKernels.dot for m rows at a time.
func (g *gen) pairDot(m int) {
	g.function(fmt.Sprintf("dotPairsx%d", m), "(w []byte, n int, x []byte, ldx, passes int, y []float32, ldy int, bias []float32, first, ahead int)", 144,
		fmt.Sprintf("pairKernels.dot for %d rows of x at a time", m))
	k := &pairDot{gen: g, m: m}
	parts := tileRows / g.lanes
	for range parts {
		k.sums = append(k.sums, g.vecs(m))
	}
	k.odd, k.even, k.x, k.t = g.vecs(parts), g.vecs(parts), g.vecs(2), g.vecs(2)
	g.op("MOVQ", arg("w_base", 0), pairWeights)
	g.op("MOVQ", arg("x_base", 32), bases[0])
	g.op("MOVQ", arg("ldx", 56), stride)
	g.op("MOVQ", arg("passes", 64), pairPasses)
	g.op("MOVQ", arg("y_base", 72), out)
	g.op("MOVQ", arg("ldy", 96), outStep)
	g.op("SHLQ", "$2", outStep)
	g.op("MOVQ", arg("ahead", 136), ahead)
	g.op("ADDQ", pairWeights, ahead)
	g.op("MOVQ", fmt.Sprint("$", pairAhead*line), pairStep)

	g.label("pass")
	g.op("MOVQ", pairWeights, tile)
	g.op("MOVQ", arg("n", 24), pairs)
	k.beginPass()
	g.label("block")
	for l := range pairAhead {
		g.op("PREFETCHT1", at(l*line, ahead))
	}
	g.op("ADDQ", pairStep, ahead)
	for i, part := range k.sums {
		g.op("VMOVDQU", at(pairStart+i*g.lanes*4, tile), part[0])
		for _, sum := range part[1:] {
			g.op("VMOVDQA", part[0], sum)
		}
	}
	for j := range blockSize / 4 {
		k.line(j)
	}
	k.scale()
	g.op("ADDQ", fmt.Sprint("$", pairBlock), tile)
	g.op("ADDQ", fmt.Sprint("$", pairRow), bases[0])
	if m == pairRows {
		g.op("ADDQ", fmt.Sprint("$", pairRow), pairX3)
	}
	g.op("DECQ", pairs)
	g.op("JNE", "block")
	k.addBias()
	// Two passes have prefetched more than what there is.
	g.op("MOVQ", arg("passes", 64), temp)
	g.op("SUBQ", pairPasses, temp)
	g.op("JEQ", "more")
	g.op("XORL", pairStep, pairStep)
	g.label("more")
	g.op("IMUL3Q", fmt.Sprint("$", m), stride, temp)
	g.op("ADDQ", temp, arg("x_base", 32))
	g.op("MOVQ", arg("x_base", 32), bases[0])
	g.op("MOVQ", pairNext, out)
	g.op("DECQ", pairPasses)
	g.op("JNE", "pass")
	g.end()
}

// row is the operand at an offset of row r: base is row 0's, and third row 3's.
func (k *pairDot) row(r, off int, base, step, third string) string {
	switch r {
	case 0:
		return at(off, base)
	case 3:
		return at(off, third)
	}
	return fmt.Sprintf("%s(%s*%d)", at(off, base), step, r)
}

func (k *pairDot) input(r, off int) string { return k.row(r, off, bases[0], stride, pairX3) }

func (k *pairDot) result(r, part int) string {
	return k.row(r, part*k.lanes*4, out, outStep, pairY3)
}

// each calls f for the parts of each row's result.
func (k *pairDot) each(f func(r, part int)) {
	for r := range k.m {
		for i := range k.sums {
			f(r, i)
		}
	}
}

// beginPass finds the rows, clears what is added up first, and claims the lines of the next
// rows' results, as product.claim does.
func (k *pairDot) beginPass() {
	if k.m == pairRows {
		k.op("LEAQ", fmt.Sprintf("(%s)(%s*2)", stride, stride), temp)
		k.op("LEAQ", fmt.Sprintf("(%s)(%s*1)", bases[0], temp), pairX3)
		k.op("LEAQ", fmt.Sprintf("(%s)(%s*2)", outStep, outStep), temp)
		k.op("LEAQ", fmt.Sprintf("(%s)(%s*1)", out, temp), pairY3)
	}
	k.op("IMUL3Q", fmt.Sprint("$", k.m), outStep, pairNext)
	k.op("ADDQ", out, pairNext)
	k.op("CMPQ", arg("first", 128), "$0")
	k.op("JEQ", "block")
	k.zero(k.t[0])
	k.each(func(r, part int) { k.op("VMOVUPS", k.t[0], k.result(r, part)) })
	k.op("MOVQ", pairNext, temp)
	for range k.m {
		k.raw("\tBYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (%s)\n", temp)
		k.op("ADDQ", outStep, temp)
	}
}

// line adds the products of four columns.
func (k *pairDot) line(j int) {
	for i := range k.odd {
		data := pairData + 2*(j*len(k.odd)+i)*k.lanes*4
		k.op("VMOVDQU", at(data, tile), k.odd[i])
		k.op("VMOVDQU", at(data+k.lanes*4, tile), k.even[i])
	}
	for r := range k.m {
		k.op("VPBROADCASTD", k.input(r, 8+8*j), k.x[0])
		k.op("VPBROADCASTD", k.input(r, 12+8*j), k.x[1])
		k.op("VPADDW", k.odd[0], k.x[0], k.t[0])
		k.op("VPADDW", k.even[0], k.x[1], k.t[1])
		k.op("VPADDW", k.odd[1], k.x[0], k.x[0])
		k.op("VPADDW", k.even[1], k.x[1], k.x[1])
		k.op("VPMADDWD", k.t[0], k.t[1], k.t[0])
		k.op("VPMADDWD", k.x[0], k.x[1], k.x[0])
		k.op("VPADDD", k.t[0], k.sums[0][r], k.sums[0][r])
		k.op("VPADDD", k.x[0], k.sums[1][r], k.sums[1][r])
	}
}

// scale adds the sums of a block, times both scales, to the results.
func (k *pairDot) scale() {
	for i, w := range k.odd {
		k.op("VMOVUPS", at(pairScale+i*k.lanes*4, tile), w)
	}
	for r := range k.m {
		k.op("VBROADCASTSS", k.input(r, 0), k.t[0])
		k.op("VBROADCASTSS", k.input(r, 4), k.t[1])
		for i, w := range k.odd {
			k.op("VFMADD213PS", k.t[1], k.t[0], k.sums[i][r])
			k.op("VFMADD213PS", k.result(r, i), w, k.sums[i][r])
			k.op("VMOVUPS", k.sums[i][r], k.result(r, i))
		}
	}
}

// addBias adds the bias, if there is one, to the results, which the sums are after the last
// block.
func (k *pairDot) addBias() {
	k.op("MOVQ", arg("bias_base", 104), temp)
	k.op("TESTQ", temp, temp)
	k.op("JEQ", "next")
	k.each(func(r, part int) {
		k.op("VADDPS", at(part*k.lanes*4, temp), k.sums[part][r], k.sums[part][r])
		k.op("VMOVUPS", k.sums[part][r], k.result(r, part))
	})
	k.label("next")
}
