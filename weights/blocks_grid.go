package weights

import (
	_ "embed"
	"encoding/binary"
	"math/bits"
)

// The types of this file have blocks of 256 columns, and store for each 8 or 4 consecutive
// columns the place of a vector in a grid, which is a table of the format, often the signs
// of the columns, and a small integer as scale for each 16 or 32 columns.

// gridBytes holds the grids one after another, an int8 for each number of each vector.
// tools/golden/ggml_grids.py writes it.
//
//go:embed blocks_grids.bin
var gridBytes string

// A grid is a table of vectors of some numbers each.
type grid struct {
	table  string
	length int // of a vector
}

var gridIQ2_XXS, gridIQ2_XS, gridIQ2_S, gridIQ3_XXS, gridIQ3_S, gridIQ1 = func() (a, b, c, d, e, f grid) {
	rest := gridBytes
	for _, g := range []struct {
		grid            *grid
		vectors, length int
	}{{&a, 256, 8}, {&b, 512, 8}, {&c, 1024, 8}, {&d, 256, 4}, {&e, 512, 4}, {&f, 2048, 8}} {
		size := g.vectors * g.length
		*g.grid, rest = grid{rest[:size], g.length}, rest[size:]
	}
	return a, b, c, d, e, f
}()

// at is number j of vector i.
func (g grid) at(i, j int) float32 { return float32(int8(g.table[i*g.length+j])) }

// signed writes scale times vector i to y, negative where the bit of the column is set in signs.
func (g grid) signed(y []float32, i int, scale float32, signs byte) {
	for j := range g.length {
		y[j] = scale * g.at(i, j)
		if signs>>j&1 != 0 {
			y[j] = -y[j]
		}
	}
}

// evenSigns is the signs of 8 columns, of which 7 are stored: the number of minus signs is even.
func evenSigns(seven uint32) byte {
	seven &= 127
	return byte(seven | uint32(bits.OnesCount32(seven)&1)<<7)
}

// IQ2_XXS: a float16 and, for each 32 columns, 8 bytes: four places in the grid, then the
// signs (4 times 7 bits) and, in the upper 4 bits, the scale.
func widenIQ2_XXS(y []float32, b []byte) {
	d := float16At(b, 0)
	for g := range 8 {
		places, word := b[2+g*8:], binary.LittleEndian.Uint32(b[2+g*8+4:])
		scale := d * (float32(word>>28) + 0.5) / 4
		for v := range 4 {
			gridIQ2_XXS.signed(y[g*32+v*8:], int(places[v]), scale, evenSigns(word>>(7*v)))
		}
	}
}

// IQ2_XS: a float16; for each 8 columns a place of 9 bits with the signs (7 bits); for each 16
// a scale of 4 bits.
func widenIQ2_XS(y []float32, b []byte) {
	d, scales := float16At(b, 0), b[66:]
	for v := range 32 {
		word := uint32(binary.LittleEndian.Uint16(b[2+v*2:]))
		scale := d * (float32(scales[v/4]>>(v%4/2*4)&15) + 0.5) / 4
		gridIQ2_XS.signed(y[v*8:], int(word&511), scale, evenSigns(word>>9))
	}
}

// IQ2_S: a float16; for each 8 columns the lower 8 bits of a place, then the signs, then the
// upper 2 bits of the place; for each 16 a scale of 4 bits.
func widenIQ2_S(y []float32, b []byte) {
	d, low, signs, high, scales := float16At(b, 0), b[2:34], b[34:66], b[66:74], b[74:]
	for v := range 32 {
		place := int(low[v]) | int(high[v/4]>>(v%4*2)&3)<<8
		scale := d * (float32(scales[v/4]>>(v%4/2*4)&15) + 0.5) / 4
		gridIQ2_S.signed(y[v*8:], place, scale, signs[v])
	}
}

// IQ3_XXS: a float16; for each 4 columns a place of 8 bits; for each 32 the signs (4 times 7
// bits) and, in the upper 4 bits, the scale.
func widenIQ3_XXS(y []float32, b []byte) {
	d, places := float16At(b, 0), b[2:66]
	for g := range 8 {
		word := binary.LittleEndian.Uint32(b[66+g*4:])
		scale := d * (float32(word>>28) + 0.5) / 2
		for v := range 8 {
			signs := evenSigns(word>>(v/2*7)) >> (v % 2 * 4)
			gridIQ3_XXS.signed(y[g*32+v*4:], int(places[g*8+v]), scale, signs)
		}
	}
}

// IQ3_S: a float16; for each 4 columns the lower 8 bits of a place, and then its ninth bit; the
// signs; for each 32 columns a scale of 4 bits.
func widenIQ3_S(y []float32, b []byte) {
	d, low, ninth, signs, scales := float16At(b, 0), b[2:66], b[66:74], b[74:106], b[106:]
	for v := range 64 {
		place := int(low[v]) | int(bit(ninth, v))<<8
		scale := d * float32(1+2*(scales[v/16]>>(v%16/8*4)&15))
		gridIQ3_S.signed(y[v*4:], place, scale, signs[v/2]>>(v%2*4))
	}
}

// shiftIQ1 is what is added to, or subtracted from, all numbers of a vector in IQ1_S and IQ1_M.
const shiftIQ1 = 0.125

// shifted writes scale times the vector i, after shift was added to its numbers, to y.
func (g grid) shifted(y []float32, i int, scale, shift float32) {
	for j := range g.length {
		y[j] = scale * (g.at(i, j) + shift)
	}
}

// IQ1_S: a float16; for each 8 columns the lower 8 bits of a place; for each 32 a word with the
// upper 3 bits of four places, a scale of 3 bits, and the sign of the shift.
func widenIQ1_S(y []float32, b []byte) {
	d, low := float16At(b, 0), b[2:34]
	for v := range 32 {
		word := int(binary.LittleEndian.Uint16(b[34+v/4*2:]))
		scale, shift := d*float32(1+2*(word>>12&7)), float32(shiftIQ1)
		if word>>15 != 0 {
			shift = -shift
		}
		gridIQ1.shifted(y[v*8:], int(low[v])|word>>(v%4*3)&7<<8, scale, shift)
	}
}

// IQ1_M: for each 8 columns the lower 8 bits of a place, then 4 bits with its upper 3 bits and
// the sign of the shift; then four words, each with four scales of 3 bits for 16 columns and,
// in the upper 4 bits, a part of the block's float16.
func widenIQ1_M(y []float32, b []byte) {
	low, high := b[:32], b[32:48]
	var words [4]int
	var float16 uint16
	for i := range words {
		word := binary.LittleEndian.Uint16(b[48+i*2:])
		words[i] = int(word)
		float16 |= word >> 12 << (i * 4)
	}
	d := FromFloat16(float16)
	for v := range 32 {
		four := int(high[v/2] >> (v % 2 * 4) & 15)
		scale, shift := d*float32(1+2*(words[v/8]>>(v%8/2*3)&7)), float32(shiftIQ1)
		if four>>3 != 0 {
			shift = -shift
		}
		gridIQ1.shifted(y[v*8:], int(low[v])|four&7<<8, scale, shift)
	}
}
