package weights

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Widen writes columns [k0, k0+len(dst)) of row r of a matrix, or numbers [k0, k0+len(dst)) of
// a vector, r being 0, as float32. Where numbers are stored in blocks, k0 is the first column
// of a block, and len(dst) a whole number of blocks. This is the definition of every type:
// what devices make of the stored codes has to equal it.
func (t *Tensor) Widen(dst []float32, r, k0 int) {
	columns := t.Shape[len(t.Shape)-1]
	r = t.StoredRow(r)
	switch {
	case t.Packed != nil:
		t.widenPacked(dst, r, k0)
	case t.DType.Blocked():
		row := t.Data[r*t.DType.RowBytes(columns):]
		widenBlocks(t.DType, dst, row[t.DType.RowBytes(k0):])
	default:
		widenNumbers(t.DType, dst, t.Data[(r*columns+k0)*t.DType.Size():])
	}
}

// widenNumbers converts len(dst) numbers of type d, which is F32, F16 or BF16.
func widenNumbers(d DType, dst []float32, src []byte) {
	switch d {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[i*4:]))
		}
	case F16:
		for i := range dst {
			dst[i] = FromFloat16(binary.LittleEndian.Uint16(src[i*2:]))
		}
	case BF16:
		for i := range dst {
			dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[i*2:])) << 16)
		}
	default:
		panic(fmt.Sprintf("weights: numbers of type %s have no float32 form", d))
	}
}

// FromFloat16 is the number that the bits of an IEEE 754 binary16 stand for. Every one of them is a
// float32, too.
func FromFloat16(h uint16) float32 {
	sign, e, m := uint32(h&0x8000)<<16, uint32(h>>10&31), uint32(h&0x3ff)
	switch e {
	case 0:
		v := float32(m) * (1.0 / (1 << 24))
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31:
		return math.Float32frombits(sign | 0x7f800000 | m<<13)
	}
	return math.Float32frombits(sign | (e+112)<<23 | m<<13)
}

// Widens reports whether Widen knows the numbers of t.
func (t *Tensor) Widens() bool {
	switch {
	case t.Packed != nil:
		return true
	case t.DType.Blocked():
		return widensBlocks(t.DType)
	}
	return t.DType == F32 || t.DType == F16 || t.DType == BF16
}

// widensBlocks reports whether widenBlocks knows d.
func widensBlocks(d DType) bool { return blockTypes[d-firstBlocked].widen != nil }

// widenBlocks converts the blocks of len(dst) columns.
func widenBlocks(d DType, dst []float32, src []byte) {
	t := &blockTypes[d-firstBlocked]
	for ; len(dst) > 0; dst, src = dst[t.columns:], src[t.bytes:] {
		t.widen(dst[:t.columns:t.columns], src[:t.bytes:t.bytes])
	}
}
