package main

import (
	"fmt"
	"log"
	"math"
)

// Kernels for tiles of blocks. blocks.go in the package describes the operands.

// A blockFormat is the package's blockSpec.
type blockFormat struct {
	name      string // of cpu.Format
	halves    bool   // scales are of halves of blocks
	mins      bool   // there are minimums, and codes have no sign
	unit      int    // blocks of a unit
	source    string // of scales
	low, high int    // bits of the planes of codes
	shift     int
	table     string // a constant, where codes stand for other numbers
}

// Sources of scales.
const (
	halfFloats = "halfFloats"
	exponents  = "exponents"
	factors    = "factors"
	nibbles    = "nibbles"
	zeroPoints = "zeroPoints"
	mantissas  = "mantissas"
)

var blockFormats = []*blockFormat{
	{"Q41", false, true, 2, halfFloats, 4, 0, 0, ""},
	{"Q50", false, false, 2, halfFloats, 4, 1, 3, ""},
	{"Q51", false, true, 2, halfFloats, 4, 1, 0, ""},
	{"Q2K", true, true, 8, nibbles, 2, 0, 0, ""},
	{"Q3K", true, false, 8, factors, 2, 1, 5, ""},
	{"Q4K", false, true, 8, factors, 4, 0, 0, ""},
	{"Q5K", false, true, 8, factors, 4, 1, 0, ""},
	{"Q6K", true, false, 8, factors, 4, 2, 2, ""},
	{"IQ4NL", false, false, 2, halfFloats, 4, 0, 0, "iq4"},
	{"IQ4XS", false, false, 8, factors, 4, 0, 0, "iq4"},
	{"MXFP4", false, false, 2, exponents, 4, 0, 0, "mxfp4"},
	{"K8", true, false, 8, factors, 8, 0, 3, ""},
	{"I4Z", false, true, 4, zeroPoints, 4, 0, 0, ""},
	{"I8Z", false, true, 4, zeroPoints, 8, 0, 0, ""},
	{"NVFP4", true, false, 4, mantissas, 4, 0, 0, "mxfp4"},
}

// What the codes of a table stand for, plus an offset (blocks.go, valuesIQ4 and valuesMXFP4).
var codeTables = []struct {
	name   string
	offset int
	values [16]int
}{
	{"iq4", 128, [16]int{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}},
	{"mxfp4", 128, valuesMXFP4},
	{"mxfp4by16", 16, valuesMXFP4},
}

var valuesMXFP4 = [16]int{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// Places in a group of activations, and sizes, as in blocks.go.
const (
	sumBlock   = 52
	sumStart   = 8
	sumScale   = 12
	sumValue   = 16
	sumNumbers = 20
	codeLines  = blockSize / 4
)

// parts is how many scales a row has in a block.
func (f *blockFormat) parts() int {
	if f.halves {
		return 2
	}
	return 1
}

// lines is how many lines of codes a block has.
func (f *blockFormat) lines() int { return f.low + f.high }

// factorsAt is where the factors of a header begin.
func (f *blockFormat) factorsAt() int {
	if f.source == mantissas {
		return line
	}
	if f.mins {
		return 2 * 2 * tileRows
	}
	return 2 * tileRows
}

// perBlock is what a block adds to the place of scales in the header.
func (f *blockFormat) perBlock() int {
	switch f.source {
	case halfFloats:
		return 2 * tileRows
	case zeroPoints: // and a byte for each
		return 3 * tileRows
	}
	return tileRows * f.parts()
}

// minsAt is how far minimums, or their factors, are after the scales.
func (f *blockFormat) minsAt() int {
	if f.source == zeroPoints {
		return 2 * tileRows
	}
	return f.unit * f.perBlock()
}

// head is the size of a header.
func (f *blockFormat) head() int {
	size := f.unit * f.perBlock()
	if f.mins && f.source != nibbles && f.source != zeroPoints {
		size *= 2
	}
	if f.source == factors || f.source == nibbles || f.source == mantissas {
		size += f.factorsAt()
	}
	return (size + line - 1) / line * line
}

// expandedHead is the size of the scales and minimums of an expanded block.
func (f *blockFormat) expandedHead() int {
	n := f.parts()
	if f.mins {
		n *= 2
	}
	return n * line
}

func (f *blockFormat) expandedSize() int { return f.expandedHead() + codeLines*line }

// scaled is what scales are multiplied with: the inverse of what codes are shifted by.
func (f *blockFormat) scaled() float32 { return 1 / float32(int(1)<<f.shift) }

// blockConstants fill vectors, by name and by 32 bits.
var blockConstants = []struct {
	name  string
	value uint32
}{
	{"fifteen", 15},
	{"byte", 255},
	{"two", 2},
	{"one", 1},
	{"least", 1 << 21},
	{"ones", 0x00010001},
	{"minusOnes", 0xffffffff},
	{"fours", 0x00040004},
	{"eights", 0x00080008},
	{"offset", math.Float32bits(128)},
	{"magnitude", 0x7fffffff},
	{"unity", math.Float32bits(1)},
	{"unit", math.Float32bits(1 / largestUnits)},
	{"infinity", 0xff << 23},
	{"mantissa", 1<<23 - 1},
	{"leastScaled", math.Float32bits(1.0 / (1 << 100))},
	{"lowest", 0xffffff81},
	{"minus128th", math.Float32bits(-1.0 / 128)},
	{"plus128th", math.Float32bits(1.0 / 128)},
	{"minus", math.Float32bits(-1)},
	{"shift2", math.Float32bits(1.0 / (1 << 2))},
	{"shift3", math.Float32bits(1.0 / (1 << 3))},
	{"shift4", math.Float32bits(1.0 / (1 << 4))},
	{"shift5", math.Float32bits(1.0 / (1 << 5))},
}

func (g *gen) blockConstants() {
	for _, c := range blockConstants {
		g.fill(c.name, func(int) uint32 { return c.value })
	}
	for bits := uint32(1); bits < 256; bits++ {
		if g.masks[bits] {
			g.fill(maskName(bits), func(int) uint32 { return bits * 0x01010101 })
		}
	}
	for _, t := range codeTables {
		g.fill(t.name, func(i int) uint32 {
			v := uint32(0)
			for c := range 4 {
				v |= uint32(uint8(t.values[i%4*4+c]+t.offset)) << (8 * c)
			}
			return v
		})
	}
	if g.isa == avx2 { // as in dotConstants
		g.fill("unpack", func(i int) uint32 { return []uint32{0, 4, 1, 5, 2, 6, 3, 7}[i] })
	}
}

// fill writes a constant of a vector's size.
func (g *gen) fill(name string, value func(i int) uint32) {
	name = g.constant(name)
	for i := range g.lanes {
		g.raw("DATA %s+%d(SB)/4, $0x%08x\n", name, 4*i, value(i))
	}
	g.raw("GLOBL %s(SB), RODATA|NOPTR, $%d\n\n", name, g.lanes*4)
}

func maskName(bits uint32) string { return fmt.Sprintf("mask%02x", bits) }

// mask is a constant of the same byte everywhere.
func (g *gen) mask(bits uint32) string {
	if bits > 255 {
		log.Fatalf("a mask of %#x", bits)
	}
	if g.masks == nil {
		g.masks = map[uint32]bool{}
	}
	g.masks[bits] = true
	return g.operand(maskName(bits))
}

// A blockReader takes a block apart: one part of the 16 rows after the other.
type blockReader struct {
	*gen
	f      *blockFormat
	header string // register: where a block's factors or scales are
	data   string // register: its codes
	d, m   []vec  // [part] the unit's scale and that of minimums
	high   []vec  // lines of the high plane
	raw    vec    // a line of the low plane
	t      vec
	out    vec // a line of codes
	table  vec
	// plain says that minimums are wanted as they are, not for products with sums
	plain bool
	// masks of the bits of a code, in registers if there are enough
	lowMask, highMask string
}

func (g *gen) blockReader(f *blockFormat, header, data string) *blockReader {
	k := &blockReader{gen: g, f: f, header: header, data: data}
	parts := tileRows / g.lanes
	if f.source == factors || f.source == nibbles || f.source == mantissas {
		k.d = g.vecs(parts)
		if f.mins {
			k.m = g.vecs(parts)
		}
	}
	k.high = g.vecs(f.high)
	k.raw, k.t, k.out = g.vec(), g.vec(), g.vec()
	if f.table != "" {
		k.table = g.vec()
		g.op(g.load(), g.operand(f.table), k.table)
	}
	if f.low < 8 {
		k.lowMask = g.mask((1<<f.low - 1) << f.shift)
	}
	if f.high > 0 {
		k.highMask = g.mask((1<<f.high - 1) << (f.shift + f.low))
	}
	return k
}

// keepMasks puts the masks into registers.
func (k *blockReader) keepMasks() {
	for _, m := range []*string{&k.lowMask, &k.highMask} {
		if k.used < k.regs && *m != "" {
			v := k.vec()
			k.op(k.load(), *m, v)
			*m = v.String()
		}
	}
}

// load and and are instructions on whole registers.
func (g *gen) load() string {
	if g.isa == avx512 {
		return "VMOVDQU32"
	}
	return "VMOVDQU"
}

func (g *gen) and() string {
	if g.isa == avx512 {
		return "VPANDD"
	}
	return "VPAND"
}

// unit reads what a header has for the whole unit, which begins at register from.
func (k *blockReader) unit(from string) {
	for i, d := range k.d {
		if k.f.source == mantissas {
			k.op("VMOVUPS", at(i*k.lanes*4, from), d)
			continue
		}
		k.op("VCVTPH2PS", at(i*k.lanes*2, from), d)
		if k.f.shift > 0 {
			k.op("VMULPS", k.operand(fmt.Sprint("shift", k.f.shift)), d, d)
		}
		if k.m == nil {
			continue
		}
		k.op("VCVTPH2PS", at(2*tileRows+i*k.lanes*2, from), k.m[i])
		by := "minus"
		if k.f.halves && !k.plain {
			by = "plus128th" // products are with -128 times the sum of activations
		}
		k.op("VMULPS", k.operand(by), k.m[i], k.m[i])
	}
}

// scale has the scales of half p of the block at header, or of all of it, in dst; part is of
// the 16 rows.
func (k *blockReader) scale(dst vec, p, part int) {
	f := k.f
	switch f.source {
	case halfFloats, zeroPoints:
		k.op("VCVTPH2PS", at(part*k.lanes*2, k.header), dst)
		if f.shift > 0 {
			k.op("VMULPS", k.operand(fmt.Sprint("shift", f.shift)), dst, dst)
		}
	case exponents:
		// (e-1) << 23, but below the normal numbers, where e is 0 or 1, 2^21 << e.
		k.op("VPMOVZXBD", at(part*k.lanes, k.header), dst)
		k.op("VMOVUPS", k.operand("least"), k.t)
		k.op("VPMINSD", k.operand("two"), dst, k.out)
		k.op("VPSLLVD", k.out, k.t, k.t)
		k.op("VPSUBD", k.operand("one"), dst, dst)
		k.op("VPSLLD", "$23", dst, dst)
		k.op("VPMAXSD", k.t, dst, dst)
	case mantissas:
		k.op("VPMOVZXBD", at(p*tileRows+part*k.lanes, k.header), dst)
		k.op("VPSRLD", "$4", dst, k.t)
		k.op("VPSLLD", "$23", k.t, k.t)
		if k.isa == avx512 {
			k.op("VPERMPS", k.d[0], dst, dst)
		} else {
			k.op("VPERMPS", k.d[0], dst, k.out)
			k.op("VPERMPS", k.d[1], dst, k.raw)
			k.op("VPSLLD", "$28", dst, dst)
			k.op("VBLENDVPS", dst, k.raw, k.out, dst)
		}
		k.op("VPADDD", k.t, dst, dst)
	case factors:
		extend := "VPMOVSXBD"
		if f.mins {
			extend = "VPMOVZXBD"
		}
		k.op(extend, at(p*tileRows+part*k.lanes, k.header), dst)
		k.op("VCVTDQ2PS", dst, dst)
		k.op("VMULPS", k.d[part], dst, dst)
	case nibbles:
		k.op("VPMOVZXBD", at(p*tileRows+part*k.lanes, k.header), dst)
		k.op(k.and(), k.operand("fifteen"), dst, dst)
		k.op("VCVTDQ2PS", dst, dst)
		k.op("VMULPS", k.d[part], dst, dst)
	}
}

// minimum is scale for minimums.
func (k *blockReader) minimum(dst vec, p, part int) {
	switch k.f.source {
	case halfFloats:
		k.op("VCVTPH2PS", at(k.f.minsAt()+part*k.lanes*2, k.header), dst)
		return
	case zeroPoints:
		k.op("VPMOVZXBD", at(k.f.minsAt()+part*k.lanes, k.header), dst)
		k.op("VCVTDQ2PS", dst, dst)
		k.op("VCVTPH2PS", at(part*k.lanes*2, k.header), k.t)
		k.op("VMULPS", k.t, dst, dst)
		k.op("VMULPS", k.operand("minus"), dst, dst)
		return
	case nibbles:
		k.op("VPMOVZXBD", at(p*tileRows+part*k.lanes, k.header), dst)
		k.op("VPSRLD", "$4", dst, dst)
	default:
		k.op("VPMOVZXBD", at(k.f.minsAt()+p*tileRows+part*k.lanes, k.header), dst)
	}
	k.op("VCVTDQ2PS", dst, dst)
	k.op("VMULPS", k.m[part], dst, dst)
}

// highCodes loads the high plane of the block at data.
func (k *blockReader) highCodes(part int) {
	for h, v := range k.high {
		k.op(k.load(), at((k.f.low+h)*line+part*k.lanes*4, k.data), v)
	}
}

// codes calls use for each line from first to before end, in any order, with a register that
// it may change; the high plane is loaded.
func (k *blockReader) codes(first, end, part int, use func(j int, w vec)) {
	f := k.f
	for l := range f.low {
		loaded := false
		for j := l; j < codeLines; j += f.low {
			if j < first || j >= end {
				continue
			}
			if !loaded {
				k.op(k.load(), at(l*line+part*k.lanes*4, k.data), k.raw)
				loaded = true
			}
			k.line(j)
			use(j, k.out)
		}
	}
}

// line has the codes of line j in out.
func (k *blockReader) line(j int) {
	f := k.f
	if f.low == 8 {
		k.op("VMOVAPS", k.raw, k.out)
		return
	}
	placed := k.place(k.raw, k.out, j/f.low*f.low, f.shift)
	k.op(k.and(), k.lowMask, placed, k.out)
	if f.table != "" {
		k.op("VPSHUFB", k.out, k.table, k.out)
	}
	if f.high == 0 {
		return
	}
	placed = k.place(k.high[j%f.high], k.t, j/f.high*f.high, f.shift+f.low)
	if k.isa == avx512 {
		k.op("VPTERNLOGD", "$0xf8", k.highMask, placed, k.out) // out | placed & mask
		return
	}
	k.op("VPAND", k.highMask, placed, k.t)
	k.op("VPOR", k.t, k.out, k.out)
}

// place shifts bits from a place in their bytes to another, and says where they are then.
func (k *blockReader) place(from, dst vec, is, to int) vec {
	switch {
	case to > is:
		k.op("VPSLLD", fmt.Sprint("$", to-is), from, dst)
	case to < is:
		k.op("VPSRLD", fmt.Sprint("$", is-to), from, dst)
	default:
		return from
	}
	return dst
}

// blocks writes the kernels of an isa for all formats of blocks.
func (g *gen) blocks() {
	g.widenTiles()
	if g.isa == avx512 {
		g.blockDots()
	} else {
		g.vexBlocks()
	}
	g.roundSums()
	if g.isa == avx2 {
		g.roundLanes()
	}
}

// A blockLoop goes through the blocks of units.
type blockLoop struct {
	units, header, data, dst, left, inner string // registers
}

// eachBlock calls f for each block of some units, which are arguments of a unitFunc.
func (g *gen) eachBlock(k *blockReader, l blockLoop, f func()) {
	g.op("MOVQ", arg("dst_base", 0), l.dst)
	g.op("MOVQ", arg("units_base", 24), l.units)
	g.op("MOVQ", arg("n", 48), l.left)
	g.op("TESTQ", l.left, l.left)
	g.op("JEQ", "end")
	g.label("unit")
	k.unit(l.units)
	g.op("LEAQ", at(k.scalesAt(), l.units), l.header)
	g.op("LEAQ", at(k.f.head(), l.units), l.data)
	g.op("MOVQ", fmt.Sprint("$", k.f.unit), l.inner)
	g.label("block")
	f()
	g.op("ADDQ", fmt.Sprint("$", k.f.perBlock()), l.header)
	g.op("ADDQ", fmt.Sprint("$", k.f.lines()*line), l.data)
	g.op("DECQ", l.inner)
	g.op("JNE", "block")
	g.op("MOVQ", l.data, l.units)
	g.op("DECQ", l.left)
	g.op("JNE", "unit")
	g.label("end")
	g.end()
}

// unitLoop has the registers of a unitFunc.
var unitLoop = blockLoop{units: "DI", dst: "SI", header: "R8", data: "R9", left: "CX", inner: "BX"}

// scalesAt is where the scales or factors of a header begin.
func (k *blockReader) scalesAt() int {
	if k.d != nil {
		return k.f.factorsAt()
	}
	return 0
}

// expand writes blockKernels.expand.
func (g *gen) expand(f *blockFormat) {
	g.function("expand"+f.name, "(dst, units []byte, n int)", 56, "blockKernels.expand for "+f.name)
	l := unitLoop
	k := g.blockReader(f, l.header, l.data)
	scale := g.vec()
	k.keepMasks()
	g.eachBlock(k, l, func() {
		for part := range tileRows / g.lanes {
			at := func(n int) string { return at(n*line+part*g.lanes*4, l.dst) }
			for p := range f.parts() {
				k.scale(scale, p, part)
				g.op("VMOVUPS", scale, at(p))
				if f.mins {
					k.minimum(scale, p, part)
					g.op("VMOVUPS", scale, at(f.parts()+p))
				}
			}
			k.highCodes(part)
			k.codes(0, codeLines, part, func(j int, w vec) { g.op("VMOVUPS", w, at(f.expandedHead()/line+j)) })
		}
		g.op("ADDQ", fmt.Sprint("$", f.expandedSize()), l.dst)
	})
}

// plainFormats are the tiles of Q8 and Q4, read as those of blocks.
var plainFormats = []*blockFormat{
	{"Q8", false, false, 2, halfFloats, 8, 0, 0, ""},
	{"Q4", false, false, 2, halfFloats, 4, 0, 4, ""},
}

// widenTiles writes blockKernels.widen and its table.
func (g *gen) widenTiles() {
	fmt.Fprintf(g.tables, "var widen%s = [lastBlocks + 1]unitFunc{\n", g.suffix)
	for _, f := range append(plainFormats, blockFormats...) {
		fmt.Fprintf(g.tables, "%s: widen%s%s,\n", f.name, f.name, g.suffix)
		g.widenTile(f)
	}
	fmt.Fprintf(g.tables, "}\n\n")
}

// widenTile writes blockKernels.widen. A row of a line has four columns; each has a line of
// floats of its own.
func (g *gen) widenTile(f *blockFormat) {
	g.function("widen"+f.name, "(dst, units []byte, n int)", 56, "blockKernels.widen for "+f.name)
	l := unitLoop
	k := g.blockReader(f, l.header, l.data)
	k.plain = true
	scale, minimum, v := g.vec(), g.vec(), g.vec()
	per := codeLines / f.parts()
	g.eachBlock(k, l, func() {
		for part := range tileRows / g.lanes {
			for p := range f.parts() {
				k.scale(scale, p, part)
				if f.mins {
					k.minimum(minimum, p, part)
				}
				k.highCodes(part)
				k.codes(p*per, (p+1)*per, part, func(j int, w vec) {
					for c := range 4 {
						g.op("VPSRLD", fmt.Sprint("$", 8*c), w, v)
						g.op(g.and(), g.operand("byte"), v, v)
						g.op("VCVTDQ2PS", v, v)
						if f.mins {
							g.op("VMULPS", scale, v, v)
							g.op("VADDPS", minimum, v, v)
						} else {
							g.op("VSUBPS", g.operand("offset"), v, v)
							g.op("VMULPS", scale, v, v)
						}
						g.op("VMOVUPS", v, at((4*j+c)*line+part*g.lanes*4, l.dst))
					}
				})
			}
		}
		g.op("ADDQ", fmt.Sprint("$", blockSize*line), l.dst)
	})
}
