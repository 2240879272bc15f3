package main

import (
	"fmt"
	"math"
)

// A dotISA is a way of multiplying bytes. Its kernels belong to package cpu's
// impl.dot; quant.go there describes the operands.
type dotISA struct {
	*isa
	suffix string
	vnni   bool // VPDPBUSD: evex where isa is avx512, else vex
	rows   int  // most rows of x in one kernel
	// exponents: scales of activations are exponents. Only block formats have them;
	// the others' kernels are those of the entry of this name.
	exponents bool
	others    string
}

// AVX2 keeps the sums of floats in y, for it has half the registers and needs
// them twice.
var dotISAs = []*dotISA{
	{isa: avx512, suffix: "AVX512VNNI", vnni: true, rows: 12},
	{isa: avx512, suffix: "AVX512VNNIExponents", vnni: true, rows: 12, exponents: true, others: "AVX512VNNI"},
	{isa: avx512, suffix: "AVX512", rows: 12},
	{isa: avx2, suffix: "AVXVNNI", vnni: true, rows: 5},
	{isa: avx2, suffix: "AVX2", rows: 4},
}

// The layout of groups, as in quant.go.
const (
	groupRow    = 80
	groupScales = 64
	rowScale    = 8  // of the first block's scale in a group of activations
	rowData     = 16 // of its numbers
	blockSize   = 32
)

// largestUnits is that of quant.go.
const largestUnits = 127.49

// dotConstants fill vectors, by name and by 32 bits.
var dotConstants = []struct {
	name  string
	value uint32
}{
	{"sign", 0x80808080},
	{"high4", 0xf0f0f0f0},
	{"low4", 0x0f0f0f0f},
	{"ones", 0x00010001},
	{"sixteenth", math.Float32bits(1.0 / 16)},
	{"magnitude", 0x7fffffff},
	{"one", math.Float32bits(1)},
	{"unit", math.Float32bits(1 / largestUnits)},
	{"infinity", 0xff << 23},
	{"mantissa", 1<<23 - 1},
	{"least", math.Float32bits(1.0 / (1 << 100))},
	{"lowest", 0xffffff81},
}

func (g *gen) dotConstants() {
	for _, c := range dotConstants {
		name := g.constant(c.name)
		for i := 0; i < g.lanes*4; i += 4 {
			g.raw("DATA %s+%d(SB)/4, $0x%08x\n", name, i, c.value)
		}
		g.raw("GLOBL %s(SB), RODATA|NOPTR, $%d\n\n", name, g.lanes*4)
	}
	if g.isa == avx2 {
		// Undoes what two packs within 128-bit lanes do to the order.
		for i, v := range []int{0, 4, 1, 5, 2, 6, 3, 7} {
			g.raw("DATA %s+%d(SB)/4, $%d\n", g.constant("unpack"), 4*i, v)
		}
		g.raw("GLOBL %s(SB), RODATA|NOPTR, $32\n\n", g.constant("unpack"))
	}
}

// dots writes the kernels of one isa.
func (g *gen) dots() {
	for _, d := range dotISAs {
		if d.isa != g.isa {
			continue
		}
		fmt.Fprintf(g.tables, "var dot%s = [W8A8 + 1][]dotFunc{\n", d.suffix)
		for _, format := range []string{"Q8", "Q4", "W8A8"} {
			fmt.Fprintf(g.tables, "%s: {nil", format)
			for m := 1; m <= d.rows; m++ {
				if format == "W8A8" && d.others != "" {
					fmt.Fprintf(g.tables, ", dot%sx%d%s", format, m, d.others)
					continue
				}
				fmt.Fprintf(g.tables, ", dot%sx%d%s", format, m, d.suffix)
				g.dot(d, format, m)
			}
			fmt.Fprintf(g.tables, "},\n")
		}
		fmt.Fprintf(g.tables, "}\n\n")
	}
	if g.isa == avx512 {
		g.bf16()
	}
	g.quantize(false)
	if g.isa == avx512 {
		g.quantize(true)
	}
	g.largest()
	g.round()
	if g.isa == avx2 {
		g.pairs()
	}
}

// dot is the state of one kernel: m rows by 16 rows of a tile.
type dot struct {
	*product
	isa    *dotISA
	q4     bool
	whole  bool    // W8A8: a block is the whole row
	wide   bool    // AVX-512: sums of floats stay in registers
	sums   [][]vec // [part of the 16 rows][row of x] of integers
	floats []vec   // [row of x], where wide
	low    []vec   // [part] the weights; of Q4 the lower halves
	high   []vec   // [part] the upper halves, or without VNNI the weights with sign
	t, s   vec
	none   vec // zeros
	// constants, in registers where there are enough
	mask, ones string
}

func (g *gen) dot(d *dotISA, format string, m int) {
	k := &dot{product: &product{gen: g, m: m}, isa: d, q4: format == "Q4", whole: format == "W8A8", wide: g.isa == avx512}
	const n, frame = "n+72(FP)", 168
	g.named(fmt.Sprintf("dot%sx%d%s", format, m, d.suffix),
		"(w []byte, offs, ahead []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)", frame,
		fmt.Sprintf("impl.dot for tiles of %s and %d rows of x", format, m))
	parts := tileRows / g.lanes
	for range parts {
		k.sums = append(k.sums, g.vecs(m))
	}
	if k.wide && !k.whole {
		k.floats = g.vecs(m)
	}
	k.low = g.vecs(parts)
	if k.q4 || !d.vnni {
		k.high = g.vecs(parts)
	}
	k.t = g.vec()
	if !d.vnni {
		k.s = g.vec()
	}
	if !d.vnni && k.wide && !k.q4 {
		k.none = g.vec()
		g.zero(k.none)
	}
	k.keep()
	g.op("MOVQ", arg("offs_base", 24), offset)
	g.op("MOVQ", arg("ldx", 104), stride)
	g.op("MOVQ", arg("y_base", 112), out)
	g.op("MOVQ", arg("ldy", 136), outStep)
	g.op("SHLQ", "$2", outStep)
	// What is needed once per tile stays in the arguments.
	g.op("CMPQ", arg("offs_len", 32), "$0")
	g.op("JEQ", "end")

	g.label("tile")
	k.locate()
	k.rewind()
	if k.wide {
		k.startClaims()
	}
	switch {
	case k.whole:
		for _, part := range k.sums {
			g.zero(part...)
		}
	case k.wide:
		g.zero(k.floats...)
	default:
		g.zero(k.t)
		k.eachOut(func(r, part int, at string) { g.op("VMOVUPS", k.t, at) })
	}
	g.op("MOVQ", n, pairs)
	g.op("TESTQ", pairs, pairs)
	g.op("JEQ", "sum")
	g.label("loop")
	if k.whole {
		k.wholeGroup()
	} else {
		k.group()
	}
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("sum")
	if k.whole {
		k.scaleWhole()
	} else {
		k.finish()
	}
	k.store()
	g.op("ADDQ", fmt.Sprint("$", tileRows*4), out)
	g.op("ADDQ", "$8", offset)
	g.op("DECQ", arg("offs_len", 32))
	g.op("JNE", "tile")
	g.label("end")
	g.end()
}

// keep gives registers that are left to constants.
func (k *dot) keep() {
	k.ones = k.operand("ones")
	switch {
	case k.q4 && k.isa.vnni:
		k.mask = k.operand("high4")
	case k.q4:
		k.mask = k.operand("low4")
	case !k.isa.vnni:
		k.mask = k.operand("sign")
	}
	if k.wide {
		return
	}
	constants := []*string{&k.mask}
	if !k.isa.vnni {
		constants = append(constants, &k.ones)
	}
	for _, c := range constants {
		if *c != "" && k.used < k.regs {
			v := k.vec()
			k.op("VMOVDQU", *c, v)
			*c = v.String()
		}
	}
}

// eachOut calls f for the parts of each row's result.
func (k *dot) eachOut(f func(r, part int, at string)) {
	k.op("MOVQ", out, temp)
	for r := range k.m {
		for i := range k.sums {
			f(r, i, at(i*k.lanes*4, temp))
		}
		if r+1 < k.m {
			k.op("ADDQ", outStep, temp)
		}
	}
}

// Products of integers claim the lines of their result (product.claim) one per
// group: twelve at once keep the first loads waiting.
const (
	claimed  = "R14" // the row of the result whose turn it is
	claimEnd = "R15" // after the last
)

// startClaims begins with the first row.
func (k *dot) startClaims() {
	k.op("MOVQ", out, claimed)
	k.op("IMUL3Q", fmt.Sprint("$", k.m), outStep, claimEnd)
	k.op("ADDQ", out, claimEnd)
}

// claimNext fetches the next row's line, if there is one.
func (k *dot) claimNext() {
	k.op("CMPQ", claimed, claimEnd)
	k.op("JCC", "claimed")
	// Go's assembler does not know PREFETCHW (R14), which is 41 0F 0D /1.
	k.raw("\tBYTE $0x41; BYTE $0x0f; BYTE $0x0d; BYTE $0x0e // PREFETCHW (%s)\n", claimed)
	k.op("ADDQ", outStep, claimed)
	k.label("claimed")
}

// data is the size of a block of 16 rows.
func (k *dot) data() int {
	if k.q4 {
		return blockSize * tileRows / 2
	}
	return blockSize * tileRows
}

// bytes is the operand at an offset in a group of row r of x.
func (k *dot) bytes(r, off int) string {
	a := at(off, bases[r/3])
	if i := r % 3; i > 0 {
		a += fmt.Sprintf("(%s*%d)", stride, i)
	}
	return a
}

// group multiplies two blocks and moves on.
func (k *dot) group() {
	size := groupScales + 2*k.data()
	k.op("PREFETCHT1", at(0, ahead))
	if k.wide {
		k.claimNext()
	}
	for b := range 2 {
		k.begin(b)
		for j := 0; j < k.data()/line; j++ {
			off := groupScales + b*k.data() + j*line
			k.op("PREFETCHT1", at(off, ahead))
			k.fetch(off)
			x := rowData + b*blockSize + 4*j
			k.multiply(k.low, x)
			if k.q4 {
				k.multiply(k.high, x+4*4)
			}
		}
		k.scale(b)
	}
	k.op("ADDQ", fmt.Sprint("$", size), tile)
	k.op("ADDQ", fmt.Sprint("$", size), ahead)
	for i := 0; i*3 < k.m; i++ {
		k.op("ADDQ", fmt.Sprint("$", groupRow), bases[i])
	}
}

// begin sets the sums to what the weights' offset will add.
func (k *dot) begin(b int) {
	for r := range k.m {
		if k.isa.vnni {
			k.op("VPBROADCASTD", k.bytes(r, 4*b), k.sums[0][r])
			for i := 1; i < len(k.sums); i++ {
				k.op("VMOVAPS", k.sums[0][r], k.sums[i][r])
			}
			continue
		}
		for i := range k.sums {
			k.zero(k.sums[i][r])
		}
	}
}

// fetch loads a line of weights.
func (k *dot) fetch(off int) {
	and, xor, load := "VPAND", "VPXOR", "VMOVDQU"
	if k.wide {
		and, xor, load = "VPANDD", "VPXORD", "VMOVDQU32"
	}
	for i := range k.low {
		low, from := k.low[i], at(off+i*k.lanes*4, tile)
		switch {
		case k.q4 && k.isa.vnni:
			// Sixteen times the weights: both halves have the offset 128, as Q8
			// has, and finish divides.
			k.op(load, from, k.high[i])
			k.op("VPSLLD", "$4", k.high[i], low)
			k.op(and, k.mask, low, low)
			k.op(and, k.mask, k.high[i], k.high[i])
		case k.q4:
			k.op(load, from, low)
			k.op("VPSRLD", "$4", low, k.high[i])
			k.op(and, k.mask, low, low)
			k.op(and, k.mask, k.high[i], k.high[i])
		case k.isa.vnni:
			k.op(load, from, low)
		default:
			k.op(load, from, k.high[i])
			k.op(xor, k.mask, k.high[i], k.high[i])
			k.op("VPABSB", k.high[i], low)
		}
	}
	if k.wide && !k.q4 && !k.isa.vnni {
		k.op("VPMOVB2M", k.high[0], "K1")
	}
}

// multiply adds the products of w with the four columns of each row of x that
// are at off of its group.
func (k *dot) multiply(w []vec, off int) {
	if k.wide && k.isa.vnni {
		for r := range k.m {
			k.op("VPDPBUSD.BCST", k.bytes(r, off), w[0], k.sums[0][r])
		}
		return
	}
	add := "VPADDD"
	for r := range k.m {
		k.op("VPBROADCASTD", k.bytes(r, off), k.t)
		for i := range w {
			sum := k.sums[i][r]
			switch {
			case k.isa.vnni:
				k.vexDot(k.t, w[i], sum)
				continue
			case k.q4:
				// 16 bits hold the sum of a block: 8 times 2 products of at most
				// 15 * 128.
				k.op("VPMADDUBSW", k.t, w[i], k.s)
				k.op("VPADDW", k.s, sum, sum)
				continue
			case k.wide:
				// The weights' signs go over to the activations; then two products
				// of at most 128 * 127 do not reach the end of 16 bits.
				k.op("VPSUBB", k.t, k.none, "K1", k.t)
				k.op("VPMADDUBSW", k.t, w[i], k.s)
			default:
				k.op("VPSIGNB", k.high[i], k.t, k.s)
				k.op("VPMADDUBSW", k.s, w[i], k.s)
			}
			k.op("VPMADDWD", k.ones, k.s, k.s)
			k.op(add, k.s, sum, sum)
		}
	}
}

// scale adds the sums of a block, times both scales, to the floats.
func (k *dot) scale(b int) {
	for i, w := range k.low {
		k.op("VCVTPH2PS", at(b*tileRows*2+i*k.lanes*2, tile), w)
	}
	if !k.wide {
		k.op("MOVQ", out, temp)
	}
	for r := range k.m {
		if k.q4 && !k.isa.vnni {
			k.op("VPBROADCASTD", k.bytes(r, 4*b), k.t)
			k.op("VPSRAD", "$4", k.t, k.t) // -8 times the sum of x
			for i := range k.sums {
				sum := k.sums[i][r]
				k.op("VPMADDWD", k.ones, sum, sum)
				k.op("VPADDD", k.t, sum, sum)
			}
		}
		from := k.bytes(r, rowScale+4*b)
		if !k.wide {
			k.op("VBROADCASTSS", from, k.t)
		}
		for i, w := range k.low {
			sum := k.sums[i][r]
			k.op("VCVTDQ2PS", sum, sum)
			if k.wide {
				if k.isa.exponents {
					k.op("VSCALEFPS.BCST", from, sum, sum)
				} else {
					k.op("VMULPS.BCST", from, sum, sum)
				}
				k.op("VFMADD231PS", w, sum, k.floats[r])
				continue
			}
			k.op("VMULPS", k.t, sum, sum)
			k.op("VFMADD213PS", at(i*k.lanes*4, temp), w, sum)
			k.op("VMOVUPS", sum, at(i*k.lanes*4, temp))
		}
		if !k.wide && r+1 < k.m {
			k.op("ADDQ", outStep, temp)
		}
	}
}

// result is where the floats of a row are at the end.
func (k *dot) result(r, part int) vec {
	if k.wide && !k.whole {
		return k.floats[r]
	}
	return k.sums[part][r]
}

// finish brings the floats to registers.
func (k *dot) finish() {
	if !k.wide {
		k.eachOut(func(r, i int, at string) { k.op("VMOVUPS", at, k.sums[i][r]) })
	}
	if !k.q4 || !k.isa.vnni {
		return
	}
	for r := range k.m {
		for i := range k.sums {
			k.op("VMULPS", k.operand("sixteenth"), k.result(r, i), k.result(r, i))
		}
	}
}

// wholeGroup multiplies 64 columns of W8A8.
func (k *dot) wholeGroup() {
	const lines = 2 * blockSize / 4
	if k.wide {
		k.claimNext()
	}
	for j := range lines {
		k.op("PREFETCHT1", at(j*line, ahead))
		k.fetch(j * line)
		k.multiply(k.low, 4*j)
	}
	k.op("ADDQ", fmt.Sprint("$", lines*line), tile)
	k.op("ADDQ", fmt.Sprint("$", lines*line), ahead)
	for i := 0; i*3 < k.m; i++ {
		k.op("ADDQ", fmt.Sprint("$", 2*blockSize), bases[i])
	}
}

// scaleWhole turns the integers of W8A8 into floats. The scales come after the
// columns, where tile and the bases point now.
func (k *dot) scaleWhole() {
	for i, w := range k.low {
		k.op("VMOVUPS", at(i*k.lanes*4, tile), w)
	}
	for r := range k.m {
		if !k.wide && k.isa.vnni {
			k.op("VPBROADCASTD", k.bytes(r, 0), k.t)
			for i := range k.sums {
				k.op("VPADDD", k.t, k.sums[i][r], k.sums[i][r])
			}
		}
		if !k.wide {
			k.op("VBROADCASTSS", k.bytes(r, 4), k.t)
		}
		for i, w := range k.low {
			sum := k.sums[i][r]
			if k.wide && k.isa.vnni {
				k.op("VPADDD.BCST", k.bytes(r, 0), sum, sum)
			}
			k.op("VCVTDQ2PS", sum, sum)
			if k.wide {
				k.op("VMULPS.BCST", k.bytes(r, 4), sum, sum)
			} else {
				k.op("VMULPS", k.t, sum, sum)
			}
			k.op("VMULPS", w, sum, sum)
		}
	}
}

// store adds the bias and writes the floats.
func (k *dot) store() {
	k.op("MOVQ", arg("bias_base", 144), temp)
	k.op("TESTQ", temp, temp)
	k.op("JEQ", "store")
	for i := range k.sums {
		for r := range k.m {
			v := k.result(r, i)
			k.op("VADDPS", at(i*k.lanes*4, temp), v, v)
		}
	}
	k.op("ADDQ", fmt.Sprint("$", tileRows*4), arg("bias_base", 144))
	k.label("store")
	k.eachOut(func(r, i int, at string) { k.op("VMOVUPS", k.result(r, i), at) })
}

// vexDot is VPDPBUSD x, w, sum with a VEX prefix (Intel SDM: VEX.256.66.0F38.W0
// 50 /r). Go's assembler writes the EVEX form, which processors with AVX-VNNI
// and without AVX-512 do not have.
func (g *gen) vexDot(x, w, sum vec) {
	b1 := 0xe2 // map 0F38, all inverted bits set
	if sum.n > 7 {
		b1 &^= 0x80
	}
	if x.n > 7 {
		b1 &^= 0x20
	}
	b2 := (^w.n&15)<<3 | 4 | 1
	g.raw("\tBYTE $0xc4; BYTE $0x%02x; BYTE $0x%02x; BYTE $0x50; BYTE $0x%02x // VPDPBUSD %s, %s, %s\n",
		b1, b2, 0xc0|sum.n&7<<3|x.n&7, x, w, sum)
}
