package main

import "fmt"

// Products with blocks for AVX2 and AVX-VNNI. There are 16 registers of eight lanes, so a
// kernel takes few rows, and a tile is expanded once for all of them: to bytes that are no
// greater than they have to be, because VPMADDUBSW adds two products in 16 bits.
//
// AVX2 adds up a whole block, or half of one where scales are of halves, in 16 bits, because
// VPADDW needs no multiplier, as VPMADDWD does, and only then goes over to 32 bits. A lane's
// sum of products with bytes may be too large for 16 bits, but the sum of products with what
// bytes are more or less than their centre is not. So the sums start from -centre times the
// sum of the lane's numbers (blockKernels.lanes in the package). What they exceed 16 bits by
// on the way does not matter, because additions wrap around.

// A vexForm is how a format's bytes are expanded and multiplied.
type vexForm struct {
	name    string
	formats []string // of this form
	halves  bool
	mins    bool
	most    int // the greatest byte
	offset  int // what bytes are more than codes with sign, a power of two; 0: codes have none
	centre  int // what lanes of AVX2 subtract from bytes, 0 or a power of two up to 32
}

var vexForms = []*vexForm{
	{"Nibbles", []string{"Q41", "Q4K", "I4Z"}, false, true, 15, 0, 0},
	{"Fives", []string{"Q51", "Q5K"}, false, true, 31, 0, 16},
	{"Pairs", []string{"Q2K"}, true, true, 3, 0, 0},
	{"Threes", []string{"Q3K"}, true, false, 7, 4, 4},
	{"Sixes", []string{"Q6K"}, true, false, 63, 32, 32},
	{"Signed", []string{"Q50", "MXFP4"}, false, false, 31, 16, 16},
	{"Halves", []string{"NVFP4"}, true, false, 31, 16, 16},
	{"HalfBytes", []string{"K8"}, true, false, 255, 128, 0},
	{"Table", []string{"IQ4NL", "IQ4XS"}, false, false, 255, 128, 0},
	{"Bytes", []string{"I8Z"}, false, true, 255, 0, 0},
}

// natural is f with codes as they are. Those of eight bits are not shifted when they are
// expanded.
func (f *blockFormat) natural() *blockFormat {
	n := *f
	if n.low < 8 {
		n.shift = 0
	}
	if n.table == "mxfp4" {
		n.table = "mxfp4by16"
	}
	return &n
}

// form is how a format is expanded.
func (f *blockFormat) form() *vexForm {
	for _, v := range vexForms {
		for _, name := range v.formats {
			if name == f.name {
				return v
			}
		}
	}
	return nil
}

// startShift is by how much -128 times a sum is shifted to become -offset times it.
func (v *vexForm) startShift() int { return log2(128 / v.offset) }

// possible reports whether there are kernels. AVX2 multiplies bytes without sign above 127 as
// ones with sign, which the definition of products with minimums does not have.
func (v *vexForm) possible(vnni bool) bool { return vnni || !v.mins || v.most < 128 }

// words reports whether 16 bits hold the sum of a block's products, or of half a block's, with
// bytes less their centre.
func (v *vexForm) words() bool {
	lines := codeLines
	if v.halves {
		lines /= 2
	}
	return max(v.centre, v.most-v.centre)*127*2*lines <= 1<<15-1
}

// rows is how many rows of x a kernel takes.
func (v *vexForm) rows(vnni bool) int {
	if vnni || v.words() {
		return 6
	}
	return 5
}

// A row has -32 times the sums of lanes of each half of a block, and -16 times those of a
// block, because 16 bits hold no more.
const halfCentre, blockCentre = 32, 16

func (g *gen) vexBlocks() {
	for _, f := range blockFormats {
		g.expand(f.natural())
	}
	for _, vnni := range []bool{false, true} {
		suffix := map[bool]string{false: "AVX2", true: "AVXVNNI"}[vnni]
		for _, v := range vexForms {
			for m := 1; m <= v.rows(vnni) && v.possible(vnni); m++ {
				g.vexDots(v, vnni, suffix, m)
			}
		}
		fmt.Fprintf(g.tables, "var dotBlocks%s = [lastBlocks - firstBlocks + 1][]dotFunc{\n", suffix)
		for _, f := range blockFormats {
			if !f.form().possible(vnni) {
				continue
			}
			fmt.Fprintf(g.tables, "%s - firstBlocks: {nil", f.name)
			for m := 1; m <= f.fewRows(); m++ {
				g.vexFew(f, vnni, suffix, m)
				fmt.Fprintf(g.tables, ", dot%sx%d%s", f.name, m, suffix)
			}
			fmt.Fprintf(g.tables, "},\n")
		}
		fmt.Fprintf(g.tables, "}\n\n")
		fmt.Fprintf(g.tables, "var dotExpanded%s = [lastBlocks - firstBlocks + 1][]expandedFunc{\n", suffix)
		for _, f := range blockFormats {
			v := f.form()
			if !v.possible(vnni) {
				continue
			}
			fmt.Fprintf(g.tables, "%s - firstBlocks: {nil", f.name)
			for m := 1; m <= v.rows(vnni); m++ {
				fmt.Fprintf(g.tables, ", dotExpanded%sx%d%s", v.name, m, suffix)
			}
			fmt.Fprintf(g.tables, "},\n")
		}
		fmt.Fprintf(g.tables, "}\n\n")
	}
	fmt.Fprintf(g.tables, "var expand%s = [lastBlocks - firstBlocks + 1]unitFunc{\n", g.suffix)
	for _, f := range blockFormats {
		fmt.Fprintf(g.tables, "%s - firstBlocks: expand%s%s,\n", f.name, f.name, g.suffix)
	}
	fmt.Fprintf(g.tables, "}\n\n")
}

// vexDot is the state of a kernel: m rows by the two halves of a tile's rows.
type vexDots struct {
	*dot
	v    *vexForm
	f    *blockFormat // of this form
	vnni bool
	w    []vec // [part] bytes
	x    vec   // of a line
	s    []vec // scratch
}

// vexDots writes blockKernels.dotExpanded of a form for m rows.
func (g *gen) vexDots(v *vexForm, vnni bool, suffix string, m int) {
	const step, frame = "R13", 136
	k := &vexDots{dot: &dot{product: &product{gen: g, m: m}}, v: v, vnni: vnni, f: &blockFormat{halves: v.halves, mins: v.mins}}
	g.named(fmt.Sprintf("dotExpanded%sx%d%s", v.name, m, suffix),
		"(w []byte, ahead, step, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)", frame,
		fmt.Sprintf("blockKernels.dotExpanded for %d rows of x and bytes up to %d", m, v.most))
	k.take()
	g.op("MOVQ", arg("w_base", 0), tile)
	g.op("MOVQ", arg("ahead", 24), ahead)
	g.op("ADDQ", tile, ahead)
	g.op("MOVQ", arg("step", 32), step)
	g.op("MOVQ", arg("ldx", 72), stride)
	g.op("MOVQ", arg("y_base", 80), out)
	g.op("MOVQ", arg("ldy", 104), outStep)
	g.op("SHLQ", "$2", outStep)
	g.op("MOVQ", arg("x_base", 48), bases[0])
	if m > 3 {
		g.op("LEAQ", fmt.Sprintf("(%s)(%s*2)", stride, stride), temp)
		g.op("LEAQ", fmt.Sprintf("(%s)(%s*1)", bases[0], temp), bases[1])
	}
	g.zero(k.x)
	k.eachOut(func(r, part int, at string) { g.op("VMOVUPS", k.x, at) })
	g.op("MOVQ", arg("n", 40), pairs)
	g.op("TESTQ", pairs, pairs)
	g.op("JEQ", "sum")
	g.label("loop")
	per := codeLines / k.f.parts()
	for p := range k.f.parts() {
		k.start(p)
		for j := p * per; j < (p+1)*per; j++ {
			g.op("PREFETCHT1", "("+ahead+")")
			g.op("ADDQ", step, ahead)
			k.line(j, p*per)
		}
		k.scale(p)
	}
	for p := 0; v.mins && v.halves && p < k.f.parts(); p++ {
		k.minimums(p)
	}
	g.op("ADDQ", fmt.Sprint("$", k.f.expandedSize()), tile)
	for i := 0; i*3 < m; i++ {
		g.op("ADDQ", fmt.Sprint("$", sumBlock), bases[i])
	}
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("sum")
	g.op("MOVQ", arg("bias_base", 112), pairs)
	g.op("TESTQ", pairs, pairs)
	g.op("JEQ", "end")
	k.eachOut(func(r, part int, to string) {
		g.op("VMOVUPS", to, k.x)
		g.op("VADDPS", at(part*g.lanes*4, pairs), k.x, k.x)
		g.op("VMOVUPS", k.x, to)
	})
	g.label("end")
	g.end()
}

// take takes the registers.
func (k *vexDots) take() {
	parts := tileRows / k.lanes
	for range parts {
		k.sums = append(k.sums, k.vecs(k.m))
	}
	scratch := 1
	if k.signed() {
		scratch = 3 // magnitudes of two parts, and one
	}
	k.w, k.x, k.s = k.vecs(parts), k.vec(), k.vecs(scratch)
}

// words reports whether sums are of 16 bits.
func (k *vexDots) words() bool { return !k.vnni && k.v.words() }

// signed reports whether bytes get their signs back, because they are too large.
func (k *vexDots) signed() bool { return !k.vnni && k.v.most > 127 }

// startsFromZero reports whether sums of a block, or of half of one, start from zero.
func (k *vexDots) startsFromZero() bool {
	return k.signed() || k.words() && k.v.centre == 0 || k.vnni && k.v.mins
}

// start sets the sums to what half p of a block starts from. Words that start from zero are
// set by their first line.
func (k *vexDots) start(p int) {
	for r := range k.m {
		switch {
		case k.words() && k.v.centre == 0:
		case k.startsFromZero():
			for _, part := range k.sums {
				k.zero(part[r])
			}
		default:
			k.startOf(k.sums[0][r], r, p)
			k.op("VMOVAPS", k.sums[0][r], k.sums[1][r])
		}
	}
}

// startOf has what the sums of row r start from: -offset times the sum of its numbers, or
// -centre times the sums of lanes.
func (k *vexDots) startOf(dst vec, r, p int) {
	at := sumStart
	if k.f.halves {
		at = 4 * p
	}
	k.op("VPBROADCASTD", k.bytes(r, at), dst)
	shift, n := "VPSRAD", 0
	switch {
	case !k.words():
		n = k.v.startShift()
	case k.f.halves:
		shift, n = "VPSRAW", log2(halfCentre/k.v.centre)
	default:
		shift, n = "VPSRAW", log2(blockCentre/k.v.centre)
	}
	if n > 0 {
		k.op(shift, fmt.Sprint("$", n), dst, dst)
	}
}

// line multiplies line j; first is the first one of its half.
func (k *vexDots) line(j, first int) {
	for part, w := range k.w {
		k.op("VMOVDQU", at(k.f.expandedHead()+j*line+part*k.lanes*4, tile), w)
	}
	if k.signed() {
		for part, w := range k.w {
			k.op("VPXOR", k.gen.mask(0x80), w, w)
			k.op("VPABSB", w, k.s[part])
		}
	}
	for r := range k.m {
		k.op("VPBROADCASTD", k.bytes(r, sumNumbers+4*j), k.x)
		for part, sums := range k.sums {
			if k.words() && k.v.centre == 0 && j == first {
				k.op("VPMADDUBSW", k.x, k.w[part], sums[r])
				continue
			}
			k.multiply(r, part)
		}
	}
}

// multiply adds the products of a part of the weights that are loaded with row r's numbers.
func (k *vexDots) multiply(r, part int) {
	sum, w, t := k.sums[part][r], k.w[part], k.s[len(k.s)-1]
	switch {
	case k.vnni:
		k.vexDot(k.x, w, sum)
	case k.signed():
		k.op("VPSIGNB", w, k.x, t)
		k.op("VPMADDUBSW", t, k.s[part], t)
		k.op("VPMADDWD", k.operand("ones"), t, t)
		k.op("VPADDD", t, sum, sum)
	default:
		k.op("VPMADDUBSW", k.x, w, t)
		k.op("VPADDW", t, sum, sum)
	}
}

// widenSums goes from words over to 32 bits. Minimums want products with bytes as they are, so
// the centre is added again; t is scratch.
func (k *vexDots) widenSums(sums []vec, r int, t vec) {
	again := k.v.mins && k.v.centre > 0
	if again {
		k.op("VPBROADCASTD", k.bytes(r, sumStart), t)
		k.op("VPMADDWD", k.operand("minusOnes"), t, t)
	}
	for _, sum := range sums {
		k.op("VPMADDWD", k.operand("ones"), sum, sum)
		if again {
			k.op("VPADDD", t, sum, sum)
		}
	}
}

// scale adds the sums, times both scales, to the results, and the minimums of whole blocks
// after them.
func (k *vexDots) scale(p int) {
	for part, w := range k.w {
		k.op("VMOVUPS", at(p*line+part*k.lanes*4, tile), w)
	}
	t := k.s[0]
	k.op("MOVQ", out, temp)
	for r := range k.m {
		if k.words() {
			k.widenSums([]vec{k.sums[0][r], k.sums[1][r]}, r, t)
		}
		k.op("VBROADCASTSS", k.bytes(r, sumScale), k.x)
		minimums := k.v.mins && !k.f.halves
		if minimums {
			k.op("VBROADCASTSS", k.bytes(r, sumValue), t)
		}
		for part, w := range k.w {
			sum, result := k.sums[part][r], at(part*k.lanes*4, temp)
			k.op("VCVTDQ2PS", sum, sum)
			k.op("VMULPS", k.x, sum, sum)
			k.op("VFMADD213PS", result, w, sum)
			if minimums {
				k.op("VFMADD231PS", at(line+part*k.lanes*4, tile), t, sum)
			}
			k.op("VMOVUPS", sum, result)
		}
		if r+1 < k.m {
			k.op("ADDQ", outStep, temp)
		}
	}
}

// minimums adds the minimums of half p of a block.
func (k *vexDots) minimums(p int) {
	for part, w := range k.w {
		k.op("VMOVUPS", at((k.f.parts()+p)*line+part*k.lanes*4, tile), w)
	}
	k.op("MOVQ", out, temp)
	for r := range k.m {
		k.halfValue(k.x, k.s[0], r, p)
		for part, w := range k.w {
			sum, result := k.sums[part][r], at(part*k.lanes*4, temp)
			k.op("VMOVUPS", result, sum)
			k.op("VFMADD231PS", k.x, w, sum)
			k.op("VMOVUPS", sum, result)
		}
		if r+1 < k.m {
			k.op("ADDQ", outStep, temp)
		}
	}
}

// halfValue has -128 times the sum of the numbers of half p of a block, times their scale; t
// is scratch.
func (k *vexDots) halfValue(dst, t vec, r, p int) {
	k.op("VPBROADCASTD", k.bytes(r, 4*p), dst)
	if !k.vnni {
		k.op("VPMADDWD", k.operand("fours"), dst, dst)
	}
	k.op("VCVTDQ2PS", dst, dst)
	k.op("VBROADCASTSS", k.bytes(r, sumScale), t)
	k.op("VMULPS", t, dst, dst)
}
