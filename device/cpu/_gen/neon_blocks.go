package main

import (
	"fmt"
	"math"
)

// Kernels for tiles of blocks on arm64. A tile is expanded to signed bytes, which SDOT
// multiplies, so sums start from zero.

// General registers of expand.
const (
	nDst    = 0
	nUnits  = 1
	nHeader = 3
	nData   = 4
	nInner  = 5
)

// nReader is the state of expand: the registers of what a format needs.
type nReader struct {
	*neon
	f                         *blockFormat
	d, m, scale               []v // [four rows each]
	raw, t, out               v
	low, high, offset, values v // constants
	least, two, one           v
}

// offset is what the bytes of a plane's codes are more than the numbers.
func (f *blockFormat) offset() uint32 {
	if f.mins || f.table != "" {
		return 0
	}
	return 1 << (f.low + f.high - 1)
}

// neonBlockFormats are those that there are kernels for. SDOT cannot multiply bytes without
// sign above 127.
func neonBlockFormats() (list []*blockFormat) {
	for _, f := range blockFormats {
		if (!f.mins || f.low < 8) && f.source != mantissas {
			list = append(list, f)
		}
	}
	return list
}

func (n *neon) blockKernels() {
	for _, t := range codeTables[:2] {
		for i, c := range t.values {
			n.raw("DATA %s<>+%d(SB)/1, $0x%02x\n", t.name, i, uint8(int8(c)))
		}
		n.raw("GLOBL %s<>(SB), RODATA|NOPTR, $16\n\n", t.name)
	}
	fmt.Fprint(&n.tables, "var expandNEON = [lastBlocks - firstBlocks + 1]unitFunc{\n")
	for _, f := range neonBlockFormats() {
		n.expand(f.natural())
		fmt.Fprintf(&n.tables, "%s - firstBlocks: expand%sNEON,\n", f.name, f.name)
	}
	fmt.Fprint(&n.tables, "}\n\n")
	kind := func(f *blockFormat) string {
		return fmt.Sprintf("%d%t", f.parts(), f.mins)
	}
	names := map[string]string{"1false": "Plain", "1true": "Min", "2false": "Half", "2true": "HalfMin"}
	for _, f := range []*blockFormat{{}, {mins: true}, {halves: true}, {halves: true, mins: true}} {
		for m := 1; m <= nDotRows; m++ {
			n.expandedDot(f, m, fmt.Sprintf("dotExpanded%sx%d", names[kind(f)], m))
		}
	}
	fmt.Fprint(&n.tables, "var dotExpandedNEON = [lastBlocks - firstBlocks + 1][]expandedFunc{\n")
	for _, f := range neonBlockFormats() {
		fmt.Fprintf(&n.tables, "%s - firstBlocks: {nil", f.name)
		for m := 1; m <= nDotRows; m++ {
			fmt.Fprintf(&n.tables, ", dotExpanded%sx%dNEON", names[kind(f)], m)
		}
		fmt.Fprint(&n.tables, "},\n")
	}
	fmt.Fprint(&n.tables, "}\n\n")
}

// expand writes blockKernels.expand.
func (n *neon) expand(f *blockFormat) {
	n.function("expand"+f.name, "(dst, units []byte, n int)", 56, "blockKernels.expand for "+f.name)
	n.arguments([]argument{{"dst_base", 0, nDst}, {"units_base", 24, nUnits}, {"n", 48, nPairs}})
	next := v(0)
	take := func() v { next++; return next - 1 }
	four := func() []v { return []v{take(), take(), take(), take()} }
	k := &nReader{neon: n, f: f, d: four(), m: four(), scale: four(), raw: take(), t: take(), out: take(), low: take(), high: take(), offset: take(), values: take(), least: take(), two: take(), one: take()}
	k.constants()
	n.op("CBZ R%d, end", nPairs)
	n.label("unit")
	scales := k.unit()
	n.op("ADD $%d, R%d, R%d", scales, nUnits, nHeader)
	n.op("ADD $%d, R%d, R%d", f.head(), nUnits, nData)
	n.op("MOVD $%d, R%d", f.unit, nInner)
	n.label("block")
	for p := range f.parts() {
		k.scales(p)
		for i, s := range k.scale {
			n.strQ(s, nDst, p*line+i*16)
		}
		if f.mins {
			k.minimums(p)
			for i, s := range k.scale {
				n.strQ(s, nDst, (f.parts()+p)*line+i*16)
			}
		}
	}
	for part := range nParts {
		k.codes(part)
	}
	n.op("ADD $%d, R%d, R%d", f.perBlock(), nHeader, nHeader)
	n.op("ADD $%d, R%d, R%d", f.lines()*line, nData, nData)
	n.op("ADD $%d, R%d, R%d", f.expandedSize(), nDst, nDst)
	n.op("SUB $1, R%d, R%d", nInner, nInner)
	n.op("CBNZ R%d, block", nInner)
	n.op("MOVD R%d, R%d", nData, nUnits)
	n.op("SUB $1, R%d, R%d", nPairs, nPairs)
	n.op("CBNZ R%d, unit", nPairs)
	n.label("end")
	n.end()
}

// fill sets all lanes of 32 bits.
func (n *neon) fill(d v, bits uint32) {
	n.op("MOVD $0x%x, R%d", bits, nTemp)
	n.dupW(d, nTemp)
}

// constants fills registers.
func (k *nReader) constants() {
	f := k.f
	if f.low < 8 {
		k.movi(k.low, 1<<f.low-1)
	}
	if f.high > 0 {
		k.movi(k.high, 1<<f.high-1)
	}
	if f.offset() > 0 {
		k.movi(k.offset, f.offset())
	}
	if f.table != "" {
		k.op("MOVD $%s<>(SB), R%d", f.tableName(), nTemp)
		k.ldrQ(k.values, nTemp, 0)
	}
	switch f.source {
	case exponents:
		k.fill(k.least, 1<<21)
		k.fill(k.two, 2)
		k.fill(k.one, 1)
	case nibbles:
		k.fill(k.one, math.Float32bits(1.0/128))
	case factors:
		k.fill(k.one, math.Float32bits(1/float32(int(1)<<f.shift)))
	}
}

// tableName is the table of the numbers themselves.
func (f *blockFormat) tableName() string {
	if f.table == "iq4" {
		return "iq4"
	}
	return "mxfp4"
}

// halves reads 16 float16 from off of a register on.
func (k *nReader) halves(dst []v, base, off int) {
	for i := 0; i < nParts; i += 2 {
		k.ldrQ(dst[i], base, off+i*8)
		k.fcvtl(dst[i+1], dst[i], true)
		k.fcvtl(dst[i], dst[i], false)
	}
}

// unit reads what a header has for the whole unit, and says where the scales of blocks begin.
func (k *nReader) unit() int {
	f := k.f
	if f.source != factors && f.source != nibbles {
		return 0
	}
	k.halves(k.d, nUnits, 0)
	for _, d := range k.d {
		if f.shift > 0 {
			k.fmul(d, d, k.one)
		}
	}
	if f.mins {
		k.halves(k.m, nUnits, 2*tileRows)
		for _, m := range k.m {
			if f.halves {
				k.fmul(m, m, k.one) // products are with -128 times the sum of activations
			} else {
				k.fneg(m, m)
			}
		}
	}
	return f.factorsAt()
}

// bytes widens the 16 bytes of raw to words in scale.
func (k *nReader) bytes(signed bool) {
	s := k.scale
	k.extend(s[0], k.raw, signed, 8, false)
	k.extend(s[2], k.raw, signed, 8, true)
	for i := 0; i < nParts; i += 2 {
		k.extend(s[i+1], s[i], signed, 16, true)
		k.extend(s[i], s[i], signed, 16, false)
	}
}

// scales has the scales of half p of a block, or of all of it, in scale.
func (k *nReader) scales(p int) {
	f, s := k.f, k.scale
	switch f.source {
	case halfFloats, zeroPoints:
		k.halves(s, nHeader, p*2*tileRows)
		return
	case exponents:
		// As in blockReader.scale.
		k.ldrQ(k.raw, nHeader, 0)
		k.bytes(false)
		for _, e := range s {
			k.smin(k.t, e, k.two)
			k.sshl(k.t, k.least, k.t)
			k.sub(e, e, k.one)
			k.shl(e, e, 23)
			k.smax(e, e, k.t)
		}
		return
	}
	k.ldrQ(k.raw, nHeader, p*tileRows)
	if f.source == nibbles {
		k.movi(k.t, 15)
		k.and(k.raw, k.raw, k.t)
	}
	k.bytes(!f.mins)
	k.times(k.d)
}

// times converts scale to float32 and multiplies it.
func (k *nReader) times(by []v) {
	for i, s := range k.scale {
		k.scvtf(s, s)
		k.fmul(s, s, by[i])
	}
}

// minimums is scales for minimums.
func (k *nReader) minimums(p int) {
	f := k.f
	switch f.source {
	case halfFloats:
		k.halves(k.scale, nHeader, f.minsAt())
		return
	case zeroPoints:
		k.halves(k.m, nHeader, 0)
		for _, m := range k.m {
			k.fneg(m, m)
		}
		k.ldrQ(k.raw, nHeader, 2*tileRows)
	case nibbles:
		k.ldrQ(k.raw, nHeader, p*tileRows)
		k.ushrB(k.raw, k.raw, 4)
	default:
		k.ldrQ(k.raw, nHeader, f.minsAt()+p*tileRows)
	}
	k.bytes(false)
	k.times(k.m)
}

// codes writes the codes of four rows.
func (k *nReader) codes(part int) {
	f := k.f
	for l := range f.low {
		k.ldrQ(k.raw, nData, l*line+part*16)
		for j := l; j < codeLines; j += f.low {
			if f.low == 8 {
				k.mov(k.out, k.raw)
			} else {
				k.bits(k.out, k.raw, j/f.low*f.low, f.low, k.low)
			}
			if f.table != "" {
				k.tbl(k.out, k.values, k.out)
			}
			if f.high > 0 {
				k.ldrQ(k.t, nData, (f.low+j%f.high)*line+part*16)
				k.bits(k.t, k.t, j/f.high*f.high, f.high, k.high)
				k.shlB(k.t, k.t, f.low)
				k.orr(k.out, k.out, k.t)
			}
			if f.offset() > 0 {
				k.subB(k.out, k.out, k.offset)
			}
			k.strQ(k.out, nDst, f.expandedHead()+j*line+part*16)
		}
	}
}

// bits has bits [at, at+n) of each byte.
func (k *nReader) bits(dst, from v, at, n int, mask v) {
	if at > 0 {
		k.ushrB(dst, from, at)
		from = dst
	}
	if at+n < 8 {
		k.and(dst, from, mask)
	}
}

// expandedDot writes blockKernels.dotExpanded of a kind for m rows.
func (n *neon) expandedDot(f *blockFormat, m int, name string) {
	n.function(name, "(w []byte, ahead, step, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)", 136,
		fmt.Sprintf("blockKernels.dotExpanded for %d rows of x", m))
	d := n.dotKernel("", false, m)
	d.acc[0], d.ints = d.takeSums(), d.takeSums()
	d.takeOperands()
	n.arguments([]argument{{"w_base", 0, nTile}, {"ahead", 24, nAhead}, {"step", 32, nAheadStep}, {"n", 40, nPairs},
		{"x_base", 48, nX}, {"ldx", 72, nStep}, {"y_base", 80, nOut}, {"ldy", 104, nOutStep}, {"bias_base", 112, nBias}})
	n.op("ADD R%d, R%d, R%d", nTile, nAhead, nAhead)
	n.op("LSL $2, R%d, R%d", nOutStep, nOutStep)
	d.rewind()
	for _, part := range d.acc[0] {
		n.zero(part...)
	}
	n.op("CBZ R%d, sum", nPairs)
	n.loop("loop", func() {
		for half := range 2 {
			d.halfBlock(f, half)
		}
		for p := 0; f.mins && p < f.parts(); p++ {
			d.addMinimums(f, p)
		}
		n.op("ADD $%d, R%d, R%d", f.expandedSize(), nTile, nTile)
		for r := range m {
			n.op("ADD $%d, R%d, R%d", sumBlock, nRow+r, nRow+r)
		}
	})
	n.label("sum")
	n.addBias(d.acc[0], d.w[0])
	d.store()
	n.end()
}

// nAheadStep is how far the next place to prefetch is.
const nAheadStep = nOffs

// halfBlock multiplies 16 columns.
func (d *neonDot) halfBlock(f *blockFormat, half int) {
	if half == 0 || f.halves {
		for _, part := range d.ints {
			d.zero(part...)
		}
	}
	for r, x := range d.x {
		d.ldurQ(x, nRow+r, sumNumbers+half*16)
	}
	for j := range 4 {
		d.prefetch(nAhead, 0)
		d.op("ADD R%d, R%d, R%d", nAheadStep, nAhead, nAhead)
		for i, w := range d.w {
			d.ldrQ(w, nTile, f.expandedHead()+(half*4+j)*line+i*16)
		}
		d.addProducts(j)
	}
	if half == 1 || f.halves {
		d.scaleHalf(f, half)
	}
}

// scaleHalf adds the sums of integers, scaled, to the results.
func (d *neonDot) scaleHalf(f *blockFormat, half int) {
	if !f.halves {
		half = 0
	}
	for i, w := range d.w {
		d.ldrQ(w, nTile, half*line+i*16)
	}
	for r := range d.m {
		d.ldrS(d.constant, nRow+r, sumScale)
		for i, w := range d.w {
			a := d.ints[i][r]
			d.scvtf(a, a)
			d.fmulLane(a, a, d.constant, 0)
			d.fmla(d.acc[0][i][r], a, w)
		}
	}
}

// addMinimums adds the minimums of half p of a block, or of all of it.
func (d *neonDot) addMinimums(f *blockFormat, p int) {
	for i, w := range d.w {
		d.ldrQ(w, nTile, (f.parts()+p)*line+i*16)
	}
	for r, x := range d.x {
		if f.halves {
			d.ldrS(x, nRow+r, 4*p)
			d.scvtf(x, x)
			d.ldrS(d.constant, nRow+r, sumScale)
			d.fmulLane(x, x, d.constant, 0)
		} else {
			d.ldrS(x, nRow+r, sumValue)
		}
		for i, w := range d.w {
			d.fmlaLane(d.acc[0][i][r], w, x, 0)
		}
	}
}
