package cpu

import (
	"weir/weights"
)

// A wideType has numbers that are products of a scale, a factor of half a block, and one of a
// few small integers, which tables of the type have. It becomes tiles of a format with more
// bits, and the integers are found in what Widen says, so that the tables are in one place.
type wideType struct {
	scaleAt int // where a block has its scale, a float16; -1: as IQ1_M has it
	// factor is that of half a block of 32 columns: block b of a block of the type.
	factor func(src []byte, b, half int) uint8
	// times is what the product of scale, factor and integer is a multiple of, in eighths.
	times float32
}

func nibble(v uint8, upper int) uint8 { return v >> (4 * upper) & 15 }

func odd(v uint8) uint8 { return 2*v + 1 }

func noFactor([]byte, int, int) uint8 { return 1 }

// The places of scales are those of the structures in ggml-common.h.
var wideTypes = map[weights.DType]wideType{
	weights.IQ1_S: {0, func(s []byte, b, _ int) uint8 { return odd(s[2+32+2*b+1] >> 4 & 7) }, 1},
	weights.IQ1_M: {-1, func(s []byte, b, half int) uint8 {
		return odd(uint8(float16Bits(s[48+b/2*2:]) >> (b%2*6 + half*3) & 7))
	}, 1},
	weights.IQ2_XXS: {0, func(s []byte, b, _ int) uint8 { return odd(s[2+8*b+7] >> 4) }, 1},
	weights.IQ2_XS:  {0, func(s []byte, b, half int) uint8 { return odd(nibble(s[2+64+b], half)) }, 1},
	weights.IQ2_S:   {0, func(s []byte, b, half int) uint8 { return odd(nibble(s[2+64+8+b], half)) }, 1},
	weights.IQ3_XXS: {0, func(s []byte, b, _ int) uint8 { return 2 * odd(s[2+64+4*b+3]>>4) }, 1},
	weights.IQ3_S:   {0, func(s []byte, b, _ int) uint8 { return odd(nibble(s[2+64+8+32+b/2], b%2)) }, 1},
	weights.TQ1_0:   {52, noFactor, 8},
	weights.TQ2_0:   {64, noFactor, 8},
	weights.Q1_0:    {0, noFactor, 8},
	weights.Q2_0:    {0, noFactor, 8},
}

// scale is that of a block.
func (w *wideType) scale(src []byte) uint16 {
	if w.scaleAt >= 0 {
		return float16Bits(src[w.scaleAt:])
	}
	s := src[48:] // a quarter of it in each of four words
	return float16Bits(s)>>12 | float16Bits(s[2:])>>8&0xf0 | float16Bits(s[4:])>>4&0xf00 | float16Bits(s[6:])&0xf000
}

// repackWide is repack for wide types: integers of 8 bits in K8, of 4 in Q4.
func (f Format) repackWide(w *wideType, tile []byte, r int, t *weights.Tensor, i, k0, k1 int) bool {
	columns, size := t.DType.Block()
	src := t.Data[t.StoredRow(i)*t.DType.RowBytes(t.Shape[1]):]
	var buf [packColumns]float32
	row := buf[:k1-k0]
	t.Widen(row, i, k0)
	for c := 0; c < len(row); c += blockColumns {
		block, b := src[(k0+c)/columns*size:][:size], (k0+c)%columns/blockColumns
		raw := rawBlock{scale: w.scale(block), factors: [2]uint8{w.factor(block, b, 0), w.factor(block, b, 1)}}
		if !finiteF16(raw.scale) {
			return false
		}
		raw.integers(row[c:][:blockColumns], w.times/8, f)
		if f == Q4 {
			f.putBlock(tile, (k0+c)/blockColumns, r, raw.scale, &raw.codes)
		} else {
			f.blocks().put(tile, (k0+c)/blockColumns, r, &raw)
		}
	}
	return true
}

// integers has the codes of what v is a multiple of. The quotients are exact.
func (w *rawBlock) integers(v []float32, unit float32, f Format) {
	offset := 128
	if f == Q4 {
		offset = 8
	}
	for c, x := range v {
		code := 0
		if u := unit * fromF16(w.scale) * float32(w.factors[c/halfColumns]); u != 0 {
			code = int(x / u)
		}
		w.codes[c/4] |= uint32(code+offset) << (c % 4 * 8)
	}
}
