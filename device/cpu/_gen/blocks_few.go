package main

import "fmt"

// vexFew is the state of a kernel of blockKernels.dot for AVX2 or AVX-VNNI, where taking a
// tile apart is not worth a pass of its own.
type vexFew struct {
	*vexDots
	reader *blockReader
	sum    []vec // [row of x] of one part
}

// fewRows is the most rows of such kernels: four of the types that most files have, six of MXFP4, whose experts get
// so many rows of a step, and one of the others, which keeps the assembly shorter.
func (f *blockFormat) fewRows() int {
	switch f.name {
	case "Q4K", "Q5K", "Q6K", "IQ4XS", "I4Z":
		return 4
	case "MXFP4":
		return 6
	}
	return 1
}

// vexFew writes blockKernels.dot of a format for m rows.
func (g *gen) vexFew(f *blockFormat, vnni bool, suffix string, m int) {
	const header, units, frame = "R15", "R14", 168
	k := &vexFew{vexDots: &vexDots{dot: &dot{product: &product{gen: g, m: m}}, v: f.form(), f: f, vnni: vnni}}
	g.named(fmt.Sprintf("dot%sx%d%s", f.name, m, suffix),
		"(w []byte, offs, ahead []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)", frame,
		fmt.Sprintf("blockKernels.dot for tiles of %s and %d rows of x", f.name, m))
	k.sum, k.x, k.s = g.vecs(m), g.vec(), g.vecs(2)
	k.reader = g.blockReader(f.natural(), header, tile)
	k.reader.keepMasks()
	g.op("MOVQ", arg("offs_base", 24), offset)
	g.op("MOVQ", arg("ldx", 104), stride)
	g.op("MOVQ", arg("y_base", 112), out)
	g.op("MOVQ", arg("ldy", 136), outStep)
	g.op("SHLQ", "$2", outStep)
	g.op("CMPQ", arg("offs_len", 32), "$0")
	g.op("JEQ", "end")

	g.label("tile")
	k.locate()
	k.rewind()
	g.zero(k.x)
	k.eachResult(func(_, _ int, at string) { g.op("VMOVUPS", k.x, at) })
	g.op("MOVQ", arg("n", 72), units)
	g.op("TESTQ", units, units)
	g.op("JEQ", "sum")
	g.label("unit")
	k.reader.unit(tile)
	g.op("LEAQ", at(k.reader.scalesAt(), tile), header)
	for l := 0; l < f.head(); l += line {
		g.op("PREFETCHT1", at(l, ahead))
	}
	g.op("ADDQ", fmt.Sprint("$", f.head()), tile)
	g.op("ADDQ", fmt.Sprint("$", f.head()), ahead)
	g.op("MOVQ", fmt.Sprint("$", f.unit), pairs)
	g.label("block")
	for l := range f.lines() {
		g.op("PREFETCHT1", at(l*line, ahead))
	}
	for part := range tileRows / g.lanes {
		k.block(part)
	}
	g.op("ADDQ", fmt.Sprint("$", f.perBlock()), header)
	g.op("ADDQ", fmt.Sprint("$", f.lines()*line), tile)
	g.op("ADDQ", fmt.Sprint("$", f.lines()*line), ahead)
	for i := 0; i*3 < m; i++ {
		g.op("ADDQ", fmt.Sprint("$", sumBlock), bases[i])
	}
	g.op("DECQ", pairs)
	g.op("JNE", "block")
	g.op("DECQ", units)
	g.op("JNE", "unit")
	g.label("sum")
	g.op("MOVQ", arg("bias_base", 144), pairs)
	g.op("TESTQ", pairs, pairs)
	g.op("JEQ", "next")
	k.eachResult(func(_, part int, to string) {
		g.op("VMOVUPS", to, k.x)
		g.op("VADDPS", at(part*g.lanes*4, pairs), k.x, k.x)
		g.op("VMOVUPS", k.x, to)
	})
	g.op("ADDQ", fmt.Sprint("$", tileRows*4), arg("bias_base", 144))
	g.label("next")
	g.op("ADDQ", fmt.Sprint("$", tileRows*4), out)
	g.op("ADDQ", "$8", offset)
	g.op("DECQ", arg("offs_len", 32))
	g.op("JNE", "tile")
	g.label("end")
	g.end()
}

// eachResult calls f for the parts of each row's result.
func (k *vexFew) eachResult(f func(r, part int, at string)) {
	k.op("MOVQ", out, temp)
	for r := range k.m {
		for part := range tileRows / k.lanes {
			f(r, part, at(part*k.lanes*4, temp))
		}
		if r+1 < k.m {
			k.op("ADDQ", outStep, temp)
		}
	}
}

// block multiplies a part of a block's rows.
func (k *vexFew) block(part int) {
	per := codeLines / k.f.parts()
	scale := k.s[0]
	k.reader.highCodes(part)
	for p := range k.f.parts() {
		for r, sum := range k.sum {
			if k.startsFromZero() {
				k.zero(sum)
			} else {
				k.startOf(sum, r, p)
			}
		}
		k.reader.codes(p*per, (p+1)*per, part, k.add)
		for r := 0; k.words() && r < k.m; r++ {
			k.widenSums(k.sum[r:r+1], r, k.x)
		}
		k.reader.scale(scale, p, part)
		k.addResults(part, func(r int, result string) {
			sum := k.sum[r]
			k.op("VBROADCASTSS", k.bytes(r, sumScale), k.x)
			k.op("VCVTDQ2PS", sum, sum)
			k.op("VMULPS", k.x, sum, sum)
			k.op("VFMADD213PS", result, scale, sum)
		})
	}
	for p := 0; k.v.mins && p < k.f.parts(); p++ {
		k.reader.minimum(scale, p, part)
		k.addResults(part, func(r int, result string) {
			sum := k.sum[r]
			if k.f.halves {
				k.halfValue(sum, k.x, r, p)
			} else {
				k.op("VBROADCASTSS", k.bytes(r, sumValue), sum)
			}
			k.op("VFMADD213PS", result, scale, sum)
		})
	}
}

// addResults has f leave the new results of a part in sum, for each row, and stores them.
func (k *vexFew) addResults(part int, f func(r int, result string)) {
	k.op("MOVQ", out, temp)
	for r, sum := range k.sum {
		result := at(part*k.lanes*4, temp)
		f(r, result)
		k.op("VMOVUPS", sum, result)
		if r+1 < k.m {
			k.op("ADDQ", outStep, temp)
		}
	}
}

// add multiplies line j, whose codes are in w.
func (k *vexFew) add(j int, w vec) {
	x, t := k.x, k.s[0]
	if k.signed() {
		k.op("VPXOR", k.gen.mask(0x80), w, w)
		k.op("VPABSB", w, k.s[1])
	}
	for r, sum := range k.sum {
		k.op("VPBROADCASTD", k.bytes(r, sumNumbers+4*j), x)
		switch {
		case k.vnni:
			k.vexDot(x, w, sum)
		case k.words():
			k.op("VPMADDUBSW", x, w, t)
			k.op("VPADDW", t, sum, sum)
		default:
			k.op("VPSIGNB", w, x, t)
			k.op("VPMADDUBSW", t, k.s[1], t)
			k.op("VPMADDWD", k.operand("ones"), t, t)
			k.op("VPADDD", t, sum, sum)
		}
	}
}
