package weights

import "encoding/binary"

// NotFinite returns the place of the first number in data that is infinite or NaN, and -1 if
// there is none. data are whole numbers of type d, which is F32, F16 or BF16.
//
// A number is one of these if all bits of its exponent are set. So the exponents of a word of
// several numbers are taken out, and one is added at the lowest bit of each: the sum reaches
// the bit of the sign, which was cleared, only from an exponent of ones, and never the
// number beside it. The order of bytes in the word does not matter.
func NotFinite(d DType, data []byte) int {
	exponents, one, signs := uint64(0x7f80_7f80_7f80_7f80), uint64(0x0080_0080_0080_0080), uint64(0x8000_8000_8000_8000)
	switch d {
	case F16:
		exponents, one = 0x7c00_7c00_7c00_7c00, 0x0400_0400_0400_0400
	case F32:
		exponents, one, signs = 0x7f80_0000_7f80_0000, 0x0080_0000_0080_0000, 0x8000_0000_8000_0000
	}
	const turn = 64 // bytes: so the loop's own work is little
	b := data
	for len(b) >= turn {
		found, line := uint64(0), b[:turn]
		for i := 0; i < turn; i += 32 {
			found |= binary.LittleEndian.Uint64(line[i:])&exponents + one
			found |= binary.LittleEndian.Uint64(line[i+8:])&exponents + one
			found |= binary.LittleEndian.Uint64(line[i+16:])&exponents + one
			found |= binary.LittleEndian.Uint64(line[i+24:])&exponents + one
		}
		if found&signs != 0 {
			break
		}
		b = b[turn:]
	}
	size := d.Size()
	for i := len(data) - len(b); i < len(data); i += size {
		var word [8]byte
		copy(word[:], data[i:i+size])
		if (binary.LittleEndian.Uint64(word[:])&exponents+one)&signs != 0 {
			return i / size
		}
	}
	return -1
}
