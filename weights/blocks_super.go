package weights

import "encoding/binary"

// The types of this file have blocks of 256 columns: groups of 16 or 32 columns have a small
// integer as scale, and the block has a float16 that these are multiplied with.

// pair is 2-bit code i of 256 that are stored as Q2_K and Q3_K store them: 32 bytes hold 128
// codes, of which the first 32 are in the lowest two bits of the bytes, and so on.
func pair(codes []byte, i int) byte { return codes[i/128*32+i%32] >> (i % 128 / 32 * 2) & 3 }

// Q2_K: a byte for each 16 columns with a scale in its lower half and the scale of an offset in
// its upper half, 256 codes of 2 bits, and the float16 that both kinds are multiplied with.
func widenQ2_K(y []float32, b []byte) {
	groups, codes := b[:16], b[16:80]
	d, dmin := float16At(b, 80), float16At(b, 82)
	for i := range y {
		g := groups[i/16]
		scale, offset := d*float32(g&15), dmin*float32(g>>4)
		y[i] = float32(scale*float32(pair(codes, i))) - offset
	}
}

// Q3_K: the third bits of 256 codes, 32 bytes of which each holds those of column i, i+32, ...;
// the lower 2 bits; 16 scales of 6 bits; a float16. Codes stand for -4 to 3, scales for -32 to
// 31.
func widenQ3_K(y []float32, b []byte) {
	third, codes, scales, d := b[:32], b[32:96], b[96:108], float16At(b, 108)
	for i := range y {
		g := i / 16
		low, high := scales[g%8]>>(g/8*4)&15, scales[8+g%4]>>(g/4*2)&3
		scale := d * float32(int(low|high<<4)-32)
		code := pair(codes, i) | third[i%32]>>(i/32)&1<<2
		y[i] = scale * float32(int(code)-4)
	}
}

// sixBits returns the scale and the offset, of 6 bits each, of group g of the 8 groups of Q4_K
// and Q5_K. Those of the first four are whole in the 12 bytes b; their upper two bits hold the
// upper bits of the other four.
func sixBits(b []byte, g int) (scale, offset byte) {
	if g < 4 {
		return b[g] & 63, b[4+g] & 63
	}
	return b[4+g]&15 | b[g-4]>>6<<4, b[4+g]>>4 | b[g]>>6<<4
}

// Q4_K: two float16 that scales and offsets are multiplied with, 8 of each (see sixBits), and
// for each two groups of 32 columns 32 bytes with 4-bit codes, the first group in the lower
// halves.
func widenQ4_K(y []float32, b []byte) {
	d, dmin, groups, codes := float16At(b, 0), float16At(b, 2), b[4:16], b[16:]
	for g := range 8 {
		s, m := sixBits(groups, g)
		scale, offset := d*float32(s), dmin*float32(m)
		for i := range 32 {
			code := codes[g/2*32+i] >> (g % 2 * 4) & 15
			y[g*32+i] = float32(scale*float32(code)) - offset
		}
	}
}

// Q5_K: as Q4_K, with 32 bytes before the codes that hold their fifth bits, group g in bit g.
func widenQ5_K(y []float32, b []byte) {
	d, dmin, groups, fifth, codes := float16At(b, 0), float16At(b, 2), b[4:16], b[16:48], b[48:]
	for g := range 8 {
		s, m := sixBits(groups, g)
		scale, offset := d*float32(s), dmin*float32(m)
		for i := range 32 {
			code := codes[g/2*32+i]>>(g%2*4)&15 | fifth[i]>>g&1<<4
			y[g*32+i] = float32(scale*float32(code)) - offset
		}
	}
}

// Q6_K: the lower 4 bits of 256 codes, their upper 2 bits, 16 scales of 8 bits with sign, and a
// float16. Codes stand for -32 to 31. 128 codes are 64 bytes of lower bits, the first 64 in the
// lower halves, and 32 bytes of upper bits, the first 32 in the lowest ones.
func widenQ6_K(y []float32, b []byte) {
	low, high, scales, d := b[:128], b[128:192], b[192:208], float16At(b, 208)
	for i := range y {
		code := low[i/128*64+i%64] >> (i % 128 / 64 * 4) & 15
		code |= pair(high, i) << 4
		y[i] = d * float32(int8(scales[i/16])) * float32(int(code)-32)
	}
}

// IQ4_XS: a float16, the upper 2 and then the lower 4 bits of 8 scales that stand for -32 to
// 31, and for each group of 32 columns 16 bytes with codes that stand for levels4.
func widenIQ4_XS(y []float32, b []byte) {
	d, high, low, codes := float16At(b, 0), binary.LittleEndian.Uint16(b[2:]), b[4:8], b[8:]
	for g := range 8 {
		s := low[g/2]>>(g%2*4)&15 | byte(high>>(g*2)&3)<<4
		scale := d * float32(int(s)-32)
		for i := range 32 {
			y[g*32+i] = scale * levels4[nibble(codes[g*16:], i, 32)]
		}
	}
}

// TQ1_0: numbers that are -1, 0 or 1 times a float16, five to a byte. A byte is a fraction of
// 256 whose digits in base 3 are the codes: multiplying it moves the next digit before the
// point. 32 bytes hold the first digits of 32 columns, then the second ones, and so on, 16 bytes
// 80 more columns, and 4 bytes, with four digits each, the last 16.
func widenTQ1_0(y []float32, b []byte) {
	d := float16At(b, 52)
	for _, part := range [...]struct{ from, to, digits int }{{0, 32, 5}, {32, 48, 5}, {48, 52, 4}} {
		power := byte(1)
		for range part.digits {
			for _, x := range b[part.from:part.to] {
				digit := int(x*power) * 3 >> 8
				y[0], y = d*float32(digit-1), y[1:]
			}
			power *= 3
		}
	}
}

// TQ2_0: 256 codes of 2 bits, stored as those of Q2_K, that stand for -1 to 2, and a float16.
func widenTQ2_0(y []float32, b []byte) {
	d := float16At(b, 64)
	for i := range y {
		y[i] = d * float32(int(pair(b, i))-1)
	}
}
