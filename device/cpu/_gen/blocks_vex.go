package main

import "fmt"

// Products with blocks for AVX2 and AVX-VNNI. There are 16 registers of eight lanes, so a
// kernel takes few rows, and a tile is expanded once for all of them: to bytes that are no
// greater than they have to be, because VPMADDUBSW adds two products in 16 bits.

// A vexForm is how a format's bytes are expanded and multiplied.
type vexForm struct {
	name    string
	formats []string // of this form
	halves  bool
	mins    bool
	most    int // the greatest byte
	offset  int // what bytes are more than codes with sign, a power of two; 0: codes have none
}

var vexForms = []*vexForm{
	{"Nibbles", []string{"Q41", "Q4K", "I4Z"}, false, true, 15, 0},
	{"Fives", []string{"Q51", "Q5K"}, false, true, 31, 0},
	{"Pairs", []string{"Q2K"}, true, true, 3, 0},
	{"Threes", []string{"Q3K"}, true, false, 7, 4},
	{"Sixes", []string{"Q6K"}, true, false, 63, 32},
	{"Signed", []string{"Q50", "MXFP4"}, false, false, 31, 16},
	{"Halves", []string{"NVFP4"}, true, false, 31, 16},
	{"Table", []string{"IQ4NL", "IQ4XS"}, false, false, 255, 128},
	{"Bytes", []string{"I8Z"}, false, true, 255, 0},
}

// natural is f with codes as they are.
func (f *blockFormat) natural() *blockFormat {
	n := *f
	n.shift = 0
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

// words reports whether 16 bits hold the sum of a block's products, or of half a block's.
func (v *vexForm) words() bool {
	lines := codeLines
	if v.halves {
		lines /= 2
	}
	return v.most*127*2*lines <= 1<<15-1
}

// rows is how many rows of x a kernel takes.
func (v *vexForm) rows(vnni bool) int {
	switch {
	case vnni || v.words():
		return 6
	case v.most < 128:
		return 4
	}
	return 5
}

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
	w    [][]vec // [line of a pair][part] bytes
	x    []vec   // of a line of a pair
	s    []vec   // scratch
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
	g.zero(k.x[0])
	k.eachOut(func(r, part int, at string) { g.op("VMOVUPS", k.x[0], at) })
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
	for p := 0; v.mins && p < k.f.parts(); p++ {
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
		g.op("VMOVUPS", to, k.x[0])
		g.op("VADDPS", at(part*g.lanes*4, pairs), k.x[0], k.x[0])
		g.op("VMOVUPS", k.x[0], to)
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
	pair, scratch := 1, 1
	switch {
	case k.vnni || k.v.words():
	case k.v.most < 128:
		pair, scratch = 2, 2
	default:
		scratch = 3 // magnitudes of two parts, and one
	}
	for range pair {
		k.w = append(k.w, k.vecs(parts))
	}
	k.x, k.s = k.vecs(pair), k.vecs(scratch)
}

// start sets the sums to what half p of a block starts from. Sums of words start from zero,
// and so do those of bytes that get their signs back.
func (k *vexDots) start(p int) {
	for r := range k.m {
		if k.v.mins || !k.vnni && (k.v.words() || k.v.most > 127) {
			for _, part := range k.sums {
				k.zero(part[r])
			}
			continue
		}
		k.startOf(k.sums[0][r], r, p)
		k.op("VMOVAPS", k.sums[0][r], k.sums[1][r])
	}
}

// startOf has -offset times the sum of row r's numbers.
func (k *vexDots) startOf(dst vec, r, p int) {
	at := sumStart
	if k.f.halves {
		at = 4 * p
	}
	k.op("VPBROADCASTD", k.bytes(r, at), dst)
	if n := k.v.startShift(); n > 0 {
		k.op("VPSRAD", fmt.Sprint("$", n), dst, dst)
	}
}

// line multiplies line j; first is the first one of its half. Where lines are multiplied in
// pairs, the first of a pair waits.
func (k *vexDots) line(j, first int) {
	i := (j - first) % len(k.w)
	for part, w := range k.w[i] {
		k.op("VMOVDQU", at(k.f.expandedHead()+j*line+part*k.lanes*4, tile), w)
	}
	if i < len(k.w)-1 {
		return
	}
	signed := !k.vnni && k.v.most > 127
	if signed {
		for part, w := range k.w[0] {
			k.op("VPXOR", k.gen.mask(0x80), w, w)
			k.op("VPABSB", w, k.s[part])
		}
	}
	for r := range k.m {
		for i, x := range k.x {
			k.op("VPBROADCASTD", k.bytes(r, sumNumbers+4*(j-len(k.x)+1+i)), x)
		}
		for part := range k.sums {
			k.multiply(r, part, signed)
		}
	}
}

// multiply adds the products of a part of the weights that are loaded with row r's numbers.
func (k *vexDots) multiply(r, part int, signed bool) {
	sum, w, x := k.sums[part][r], k.w[0][part], k.x[0]
	switch {
	case k.vnni:
		k.vexDot(x, w, sum)
		return
	case signed:
		t := k.s[2]
		k.op("VPSIGNB", w, x, t)
		k.op("VPMADDUBSW", t, k.s[part], t)
		k.op("VPMADDWD", k.operand("ones"), t, t)
		k.op("VPADDD", t, sum, sum)
		return
	case k.v.words():
		k.op("VPMADDUBSW", x, w, k.s[0])
		k.op("VPADDW", k.s[0], sum, sum)
		return
	}
	k.op("VPMADDUBSW", x, w, k.s[0])
	k.op("VPMADDUBSW", k.x[1], k.w[1][part], k.s[1])
	k.op("VPADDW", k.s[0], k.s[1], k.s[0])
	k.op("VPMADDWD", k.operand("ones"), k.s[0], k.s[0])
	k.op("VPADDD", k.s[0], sum, sum)
}

// scale adds the sums, times both scales, to the results.
func (k *vexDots) scale(p int) {
	for part, w := range k.w[0] {
		k.op("VMOVUPS", at(p*line+part*k.lanes*4, tile), w)
	}
	if !k.vnni && k.v.words() {
		for r := range k.m {
			for part := range k.sums {
				k.op("VPMADDWD", k.operand("ones"), k.sums[part][r], k.sums[part][r])
			}
			if k.v.mins {
				continue
			}
			k.startOf(k.x[0], r, p)
			for part := range k.sums {
				k.op("VPADDD", k.x[0], k.sums[part][r], k.sums[part][r])
			}
		}
	}
	k.op("MOVQ", out, temp)
	for r := range k.m {
		k.op("VBROADCASTSS", k.bytes(r, sumScale), k.x[0])
		for part, w := range k.w[0] {
			sum, at := k.sums[part][r], at(part*k.lanes*4, temp)
			k.op("VCVTDQ2PS", sum, sum)
			k.op("VMULPS", k.x[0], sum, sum)
			k.op("VFMADD213PS", at, w, sum)
			k.op("VMOVUPS", sum, at)
		}
		if r+1 < k.m {
			k.op("ADDQ", outStep, temp)
		}
	}
}

// minimums adds the minimums of half p of a block, or of all of it.
func (k *vexDots) minimums(p int) {
	for part, w := range k.w[0] {
		k.op("VMOVUPS", at((k.f.parts()+p)*line+part*k.lanes*4, tile), w)
	}
	k.op("MOVQ", out, temp)
	for r := range k.m {
		if k.f.halves {
			k.op("VPBROADCASTD", k.bytes(r, 4*p), k.x[0])
			k.op("VCVTDQ2PS", k.x[0], k.x[0])
			k.op("VBROADCASTSS", k.bytes(r, sumScale), k.s[0])
			k.op("VMULPS", k.s[0], k.x[0], k.x[0])
		} else {
			k.op("VBROADCASTSS", k.bytes(r, sumValue), k.x[0])
		}
		for part, w := range k.w[0] {
			at := at(part*k.lanes*4, temp)
			k.op("VMOVUPS", at, k.sums[part][r])
			k.op("VFMADD231PS", k.x[0], w, k.sums[part][r])
			k.op("VMOVUPS", k.sums[part][r], at)
		}
		if r+1 < k.m {
			k.op("ADDQ", outStep, temp)
		}
	}
}
