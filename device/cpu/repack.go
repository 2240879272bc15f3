package cpu

import (
	"encoding/binary"
	"math"

	"weir/weights"
)

// Blocks of ggml's types become tiles without a change of any number: codes and scales move
// to other places. The layouts that are read here are those of ggml-common.h, the order of
// the codes that of the functions dequantize_row of ggml-quants.c.

// codes are the 32 codes of a block, without sign: column 4j+i is byte i of word j.
type codes [codeLines]uint32

// word is four bytes.
func word(b []byte) uint32 { return binary.LittleEndian.Uint32(b) }

func float16Bits(b []byte) uint16 { return binary.LittleEndian.Uint16(b) }

// each repeats a byte.
const each = 0x01010101

// halves reads 16 bytes that hold columns 0 to 15 in their lower halves and 16 to 31 in
// the upper ones.
func (c *codes) halves(src []byte) {
	_ = src[15]
	for i := range 4 {
		w := word(src[4*i:])
		c[i], c[i+4] = w&(15*each), w>>4&(15*each)
	}
}

// bits reads bits [at, at+n) of 32 bytes.
func (c *codes) bits(src []byte, at, n int) {
	_ = src[31]
	mask := uint32(1<<n-1) * each
	for i := range c {
		c[i] = word(src[4*i:]) >> at & mask
	}
}

// addBits sets bits from to on from bits [at, at+n) of 32 bytes.
func (c *codes) addBits(src []byte, at, n, to int) {
	_ = src[31]
	mask := uint32(1<<n-1) * each
	for i := range c {
		c[i] |= word(src[4*i:]) >> at & mask << to
	}
}

// addMask sets bit at of the codes whose bits of mask are set.
func (c *codes) addMask(mask uint32, at int) {
	for i := range c {
		m := mask >> (4 * i) & 15
		c[i] |= (m | m<<7 | m<<14 | m<<21) & each << at
	}
}

// put writes bits [at, at+n) of the codes as a plane of n bits, for one row.
func (c *codes) put(plane []byte, at, n int) {
	mask := uint32(1<<n-1) * each
	for line := range n {
		w := uint32(0)
		for q := 0; q*n < 8; q++ {
			w |= c[line+q*n] >> at & mask << (q * n)
		}
		binary.LittleEndian.PutUint32(plane[line*codeLine:], w)
	}
}

// A rawBlock is a block of 32 columns as a checkpoint has it. Where a type has no such scale
// or factor, it is zero.
type rawBlock struct {
	codes
	scale, minimum uint16   // float16; MXFP4: the exponent
	factors        [2]uint8 // of the scale, of each half if there are two
	minFactors     [2]uint8
	mantissas      *[16]float32 // NVFP4
}

// read takes block b out of the blocks src of type d, which are b's row.
func (w *rawBlock) read(d weights.DType, src []byte, b int) {
	columns, size := d.Block()
	src = src[b*blockColumns/columns*size:][:size]
	b %= columns / blockColumns
	switch d {
	case weights.Q8_0:
		w.scale = float16Bits(src)
		w.bits(src[2:], 0, 8)
		for i := range w.codes {
			w.codes[i] ^= 128 * each
		}
	case weights.Q4_0, weights.IQ4_NL:
		w.scale = float16Bits(src)
		w.codes.halves(src[2:])
	case weights.Q4_1:
		w.scale, w.minimum = float16Bits(src), float16Bits(src[2:])
		w.codes.halves(src[4:])
	case weights.Q5_0:
		w.scale = float16Bits(src)
		w.codes.halves(src[6:])
		w.addMask(word(src[2:]), 4)
	case weights.Q5_1:
		w.scale, w.minimum = float16Bits(src), float16Bits(src[2:])
		w.codes.halves(src[8:])
		w.addMask(word(src[4:]), 4)
	case weights.MXFP4:
		w.scale = uint16(src[0])
		w.codes.halves(src[1:])
	default:
		w.readSuper(d, src, b)
	}
}

// readSuper is read for block b of a block of 256 columns.
func (w *rawBlock) readSuper(d weights.DType, src []byte, b int) {
	switch d {
	case weights.Q2_K: // scales 16, codes 64, scale, scale of minimums
		w.scale, w.minimum = float16Bits(src[80:]), float16Bits(src[82:])
		w.bits(src[16+b/4*32:], b%4*2, 2)
		copy(w.factors[:], src[2*b:][:2])
	case weights.Q3_K: // high bits 32, codes 64, scales 12, scale
		w.scale = float16Bits(src[108:])
		w.bits(src[32+b/4*32:], b%4*2, 2)
		w.addBits(src, b, 1, 2)
		for half := range 2 {
			i := 2*b + half
			low := src[96+i%8] >> (i / 8 * 4) & 15
			high := src[96+8+i%4] >> (i / 4 * 2) & 3
			w.factors[half] = low | high<<4 - 32
		}
	case weights.Q4_K, weights.Q5_K: // scale, scale of minimums, scales 12, high bits 32 (Q5_K), codes 128
		w.scale, w.minimum = float16Bits(src), float16Bits(src[2:])
		w.factors[0], w.minFactors[0] = sixBits(src[4:16], b)
		low := src[16:]
		if d == weights.Q5_K {
			low = src[48:]
		}
		w.bits(low[b/2*32:], b%2*4, 4)
		if d == weights.Q5_K {
			w.addBits(src[16:], b, 1, 4)
		}
	case weights.Q6_K: // low bits 128, high bits 64, scales 16, scale
		w.scale = float16Bits(src[208:])
		w.bits(src[b/4*64+b%2*32:], b%4/2*4, 4)
		w.addBits(src[128+b/4*32:], b%4*2, 2, 4)
		copy(w.factors[:], src[192+2*b:][:2])
	case weights.IQ4_XS: // scale, high bits of scales 2, low bits 4, codes 128
		w.scale = float16Bits(src)
		high := float16Bits(src[2:]) >> (2 * b) & 3
		w.factors[0] = src[4+b/2]>>(b%2*4)&15 | uint8(high)<<4 - 32
		w.codes.halves(src[8+16*b:])
	}
}

// sixBits are the factors of scale and minimum of block b of Q4_K and Q5_K.
func sixBits(s []byte, b int) (scale, minimum uint8) {
	if b < 4 {
		return s[b] & 63, s[b+4] & 63
	}
	return s[b+4]&15 | s[b-4]>>6<<4, s[b+4]>>4 | s[b]>>6<<4
}

// finite reports whether the scales of a block are.
func (w *rawBlock) finite(d weights.DType) bool {
	if d == weights.MXFP4 {
		return w.scale <= maxExponent
	}
	const infinity = 0x7c00
	return w.scale&infinity != infinity && w.minimum&infinity != infinity
}

// maxExponent is the greatest exponent of MXFP4 with which 12, its greatest number doubled,
// stays below infinity.
const maxExponent = 252

// repack stores columns [k0, k1) of row i of t as row r of the tile. It reports false if a
// scale is infinite or NaN.
func (f Format) repack(tile []byte, r int, t *weights.Tensor, i, k0, k1 int) bool {
	if t.Packed != nil {
		return f.repackPacked(tile, r, t, i, k0, k1)
	}
	src := t.Data[t.StoredRow(i)*t.DType.RowBytes(t.Shape[1]):]
	s := f.blocks()
	for b := k0 / blockColumns; b*blockColumns < k1; b++ {
		var w rawBlock
		w.read(t.DType, src, b)
		if !w.finite(t.DType) {
			return false
		}
		if s == nil {
			f.putBlock(tile, b, r, w.scale, &w.codes)
		} else {
			s.put(tile, b, r, &w)
		}
	}
	return true
}

// damaged is the complaint about columns [k0, k1) of row i of t, one of which is infinite or
// NaN.
func damaged(t *weights.Tensor, i, k0, k1 int) *badWeight {
	var v [packColumns]float32
	t.Widen(v[:k1-k0], i, k0)
	for _, x := range v[:k1-k0] {
		if !finite(x) {
			return &badWeight{t.Name, x, F32}
		}
	}
	return &badWeight{t.Name, float32(math.NaN()), F32} // the scale of zeros
}

// put stores block b of row r of a tile.
func (s *blockSpec) put(tile []byte, b, r int, w *rawBlock) {
	unit := tile[b/s.unit*s.unitBytes():][:s.unitBytes()]
	b %= s.unit
	float := func(i int, v uint16) { binary.LittleEndian.PutUint16(unit[2*(i*rowsPerTile+r):], v) }
	parts := s.parts()
	switch s.source {
	case exponents:
		unit[b*rowsPerTile+r] = uint8(w.scale)
	case mantissas:
		for i, v := range w.mantissas {
			binary.LittleEndian.PutUint32(unit[4*i:], math.Float32bits(v))
		}
		unit[cacheLine+2*b*rowsPerTile+r] = w.factors[0]
		unit[cacheLine+(2*b+1)*rowsPerTile+r] = w.factors[1]
	case zeroPoints:
		block := unit[b*zeroRows:][:zeroRows]
		binary.LittleEndian.PutUint16(block[2*r:], w.scale)
		block[2*rowsPerTile+r] = w.minFactors[0]
	case halfFloats:
		float(b, w.scale)
		if s.mins() {
			float(parts+b, w.minimum)
		}
	case factors, nibbles:
		float(0, w.scale)
		if s.mins() {
			float(1, w.minimum)
		}
		f := unit[s.factorsAt()+r:]
		for p := range parts / s.unit {
			part := b*parts/s.unit + p
			f[part*rowsPerTile] = w.factors[p]
			if s.mins() && s.source == factors {
				f[(parts+part)*rowsPerTile] = w.minFactors[p]
			}
		}
	}
	data := unit[s.head()+b*s.lines()*codeLine+4*r:]
	w.codes.put(data, 0, s.low)
	if s.high > 0 {
		w.codes.put(data[s.low*codeLine:], s.low, s.high)
	}
}

// putBlock stores a block of Q8 or Q4: codes that are 128 or 8 more than the weights.
func (f Format) putBlock(tile []byte, b, r int, scale uint16, c *codes) {
	group := tile[b/2*f.groupBytes():][:f.groupBytes()]
	binary.LittleEndian.PutUint16(group[(b%2*rowsPerTile+r)*2:], scale)
	if f == Q8 {
		c.put(group[groupScales+b%2*blockQ8+r*4:], 0, 8)
		return
	}
	c.put(group[groupScales+b%2*blockQ4+r*4:], 0, 4)
}
