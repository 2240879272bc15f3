package main

import "fmt"

// A blockISA is a way of multiplying the bytes of blocks.
type blockISA struct {
	*isa
	suffix string
	rows   int // most rows of x in one kernel
}

var blockISAs = []*blockISA{
	{isa: avx512, suffix: "AVX512VNNI", rows: 12},
}

// blockDots writes the products.
func (g *gen) blockDots() {
	for _, b := range blockISAs {
		if b.isa != g.isa {
			continue
		}
		fmt.Fprintf(g.tables, "var dotBlocks%s = [lastBlocks - firstBlocks + 1][]dotFunc{\n", b.suffix)
		for _, f := range blockFormats {
			fmt.Fprintf(g.tables, "%s - firstBlocks: {nil", f.name)
			for m := 1; m <= b.rows; m++ {
				fmt.Fprintf(g.tables, ", dot%sx%d%s", f.name, m, b.suffix)
				g.blockDot(b, f, m)
			}
			fmt.Fprintf(g.tables, "},\n")
		}
		fmt.Fprintf(g.tables, "}\n\n")
	}
}

// blockDot is the state of a product with blocks in AVX-512.
type blockDot struct {
	*dot
	f  *blockFormat
	ws vec // scales or minimums of the tile's rows
}

// takeSums takes the registers of sums, of integers and of floats.
func (k *blockDot) takeSums() {
	k.sums = [][]vec{k.vecs(k.m)}
	k.floats = k.vecs(k.m)
	k.ws = k.vec()
}

// start sets the sums to what half p of a block starts from.
func (k *blockDot) start(p int) {
	for r, sum := range k.sums[0] {
		switch {
		case k.f.mins:
			k.zero(sum)
		case k.f.halves:
			k.op("VPBROADCASTD", k.bytes(r, 4*p), sum)
		default:
			k.op("VPBROADCASTD", k.bytes(r, sumStart), sum)
		}
	}
}

// add multiplies line j of a block.
func (k *blockDot) add(j int, w vec) {
	for r, sum := range k.sums[0] {
		k.op("VPDPBUSD.BCST", k.bytes(r, sumNumbers+4*j), w, sum)
	}
}

// scaleBy multiplies a sum with the scale of row r.
func (k *blockDot) scaleBy(sum vec, r int) {
	k.op("VCVTDQ2PS", sum, sum)
	k.op("VMULPS.BCST", k.bytes(r, sumScale), sum, sum)
}

// scaleSums adds sums, times both scales, to the floats; ws has those of weights.
func (k *blockDot) scaleSums() {
	for r, sum := range k.sums[0] {
		k.scaleBy(sum, r)
		k.op("VFMADD231PS", k.ws, sum, k.floats[r])
	}
}

// minimums adds those in ws, of half p of a block or of all of it.
func (k *blockDot) minimums(t vec, p int) {
	for r, float := range k.floats {
		if !k.f.halves {
			k.op("VFMADD231PS.BCST", k.bytes(r, sumValue), k.ws, float)
			continue
		}
		k.op("VPBROADCASTD", k.bytes(r, 4*p), t)
		k.scaleBy(t, r)
		k.op("VFMADD231PS", k.ws, t, float)
	}
}

// nextBlock moves on in the rows.
func (k *blockDot) nextBlock() {
	for i := 0; i*3 < k.m; i++ {
		k.op("ADDQ", fmt.Sprint("$", sumBlock), bases[i])
	}
}

// storeFloats adds the bias, if there is one, and writes the results.
func (k *blockDot) storeFloats(bias int) {
	k.op("MOVQ", arg("bias_base", bias), temp)
	k.op("TESTQ", temp, temp)
	k.op("JEQ", "store")
	for _, float := range k.floats {
		k.op("VADDPS", at(0, temp), float, float)
	}
	k.label("store")
	k.op("MOVQ", out, temp)
	for r, float := range k.floats {
		k.op("VMOVUPS", float, at(0, temp))
		if r+1 < k.m {
			k.op("ADDQ", outStep, temp)
		}
	}
}

// blockDot writes blockKernels.dot of a format for m rows.
func (g *gen) blockDot(b *blockISA, f *blockFormat, m int) {
	const header, units, frame = "R15", "R14", 168
	k := &blockDot{dot: &dot{product: &product{gen: g, m: m}, wide: true}, f: f}
	g.named(fmt.Sprintf("dot%sx%d%s", f.name, m, b.suffix),
		"(w []byte, offs, ahead []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)", frame,
		fmt.Sprintf("blockKernels.dot for tiles of %s and %d rows of x", f.name, m))
	k.takeSums()
	reader := g.blockReader(f, header, tile)
	reader.keepMasks()
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
	k.claim()
	g.zero(k.floats...)
	g.op("MOVQ", arg("n", 72), units)
	g.op("TESTQ", units, units)
	g.op("JEQ", "sum")
	g.label("unit")
	reader.unit(tile)
	g.op("LEAQ", at(reader.scalesAt(), tile), header)
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
	reader.highCodes(0)
	per := codeLines / f.parts()
	for p := range f.parts() {
		k.start(p)
		reader.codes(p*per, (p+1)*per, 0, k.add)
		reader.scale(k.ws, p, 0)
		k.scaleSums()
	}
	for p := 0; f.mins && p < f.parts(); p++ {
		reader.minimum(k.ws, p, 0)
		k.minimums(reader.out, p)
	}
	g.op("ADDQ", fmt.Sprint("$", f.perBlock()), header)
	g.op("ADDQ", fmt.Sprint("$", f.lines()*line), tile)
	g.op("ADDQ", fmt.Sprint("$", f.lines()*line), ahead)
	k.nextBlock()
	g.op("DECQ", pairs)
	g.op("JNE", "block")
	g.op("DECQ", units)
	g.op("JNE", "unit")
	g.label("sum")
	k.storeFloats(144)
	g.op("CMPQ", arg("bias_base", 144), "$0")
	g.op("JEQ", "next")
	g.op("ADDQ", fmt.Sprint("$", tileRows*4), arg("bias_base", 144))
	g.label("next")
	g.op("ADDQ", fmt.Sprint("$", tileRows*4), out)
	g.op("ADDQ", "$8", offset)
	g.op("DECQ", arg("offs_len", 32))
	g.op("JNE", "tile")
	g.label("end")
	g.end()
}
