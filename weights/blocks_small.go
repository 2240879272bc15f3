package weights

import (
	"encoding/binary"
	"math"
)

// This file and blocks_super.go and blocks_grid.go have a function for each type of blocks. It
// converts one block b to the numbers y of its columns, and equals dequantize_row_* of ggml
// (ggml-quants.c) in every bit, and so the Python package gguf (quants.py), which knows all
// but Q1_0 and Q2_0.
//
// A number is scale * code, or scale * code - offset. All products that occur are exact in
// float32: a float16 has 11 bits, and the integers that it is multiplied with have at most 13
// together. So only subtracting the offset rounds, and the order of factors does not matter.
// Products are nevertheless converted explicitly before something is added, because Go may
// otherwise fuse the two.
//
// Where float16 scales are infinite or NaN, so are all numbers of the block, because Inf * 0 is
// NaN and a minimum of Inf * 0 is one, too.

// float16At is the float32 form of the float16 at b[at].
func float16At(b []byte, at int) float32 { return FromFloat16(binary.LittleEndian.Uint16(b[at:])) }

// nibble is 4-bit code i of a block of n codes: the first n/2 are in the lower halves of
// the bytes, the others in the upper ones.
func nibble(codes []byte, i, n int) byte {
	if i < n/2 {
		return codes[i] & 15
	}
	return codes[i-n/2] >> 4
}

// bit is bit i of b, the lowest one of a byte first.
func bit(b []byte, i int) byte { return b[i/8] >> (i % 8) & 1 }

// Q4_0: a float16 scale, 32 codes of 4 bits that stand for -8 to 7.
func widenQ4_0(y []float32, b []byte) {
	scale, codes := float16At(b, 0), b[2:]
	for i := range y {
		y[i] = scale * float32(int(nibble(codes, i, 32))-8)
	}
}

// Q4_1: a float16 scale, a float16 minimum, 32 codes of 4 bits.
func widenQ4_1(y []float32, b []byte) {
	scale, least, codes := float16At(b, 0), float16At(b, 2), b[4:]
	for i := range y {
		y[i] = float32(scale*float32(nibble(codes, i, 32))) + least
	}
}

// Q5_0: a float16 scale, the fifth bits of 32 codes, their lower 4 bits. They stand for -16 to
// 15.
func widenQ5_0(y []float32, b []byte) {
	scale, fifth, codes := float16At(b, 0), b[2:6], b[6:]
	for i := range y {
		code := nibble(codes, i, 32) | bit(fifth, i)<<4
		y[i] = scale * float32(int(code)-16)
	}
}

// Q5_1: a float16 scale, a float16 minimum, the fifth bits of 32 codes, their lower 4 bits.
func widenQ5_1(y []float32, b []byte) {
	scale, least, fifth, codes := float16At(b, 0), float16At(b, 2), b[4:8], b[8:]
	for i := range y {
		code := nibble(codes, i, 32) | bit(fifth, i)<<4
		y[i] = float32(scale*float32(code)) + least
	}
}

// Q8_0: a float16 scale, 32 codes of 8 bits with sign.
func widenQ8_0(y []float32, b []byte) {
	scale, codes := float16At(b, 0), b[2:]
	for i := range y {
		y[i] = scale * float32(int8(codes[i]))
	}
}

// Q1_0: a float16 scale, 128 bits: the scale where a bit is set, its negative where not.
func widenQ1_0(y []float32, b []byte) {
	scale, codes := float16At(b, 0), b[2:]
	for i := range y {
		y[i] = -scale
		if bit(codes, i) != 0 {
			y[i] = scale
		}
	}
}

// Q2_0: a float16 scale, 64 codes of 2 bits, the lowest ones of a byte first, that stand for
// -1 to 2.
func widenQ2_0(y []float32, b []byte) {
	scale, codes := float16At(b, 0), b[2:]
	for i := range y {
		y[i] = scale * float32(int(codes[i/4]>>(i%4*2)&3)-1)
	}
}

// levels4 are the numbers that the codes of IQ4_NL and IQ4_XS stand for.
var levels4 = [16]float32{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// IQ4_NL: a float16 scale, 32 codes of 4 bits that stand for levels4.
func widenIQ4_NL(y []float32, b []byte) {
	scale, codes := float16At(b, 0), b[2:]
	for i := range y {
		y[i] = scale * levels4[nibble(codes, i, 32)]
	}
}

// levelsE2M1 are twice the numbers of the 4-bit floating point format E2M1. That its negative
// zero is a zero without sign is so in ggml, too.
var levelsE2M1 = [16]float32{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// MXFP4: an exponent of 8 bits, 32 codes of 4 bits (OCP Microscaling Formats, 2023). The
// scale is a power of two with half of its size, because levelsE2M1 are doubled. The exponent
// 255, which stands for NaN in the specification, is a scale like the others in ggml.
func widenMXFP4(y []float32, b []byte) {
	bits := uint32(1 << 21) // 2^-128, which is subnormal, as 2^-127 is
	switch e := uint32(b[0]); {
	case e == 1:
		bits = 1 << 22
	case e > 1:
		bits = (e - 1) << 23
	}
	scale, codes := math.Float32frombits(bits), b[1:]
	for i := range y {
		y[i] = scale * levelsE2M1[nibble(codes, i, 32)]
	}
}

// NVFP4: four scales in float8 E4M3, then 4-bit codes of E2M1, 16 for each scale. The sign of
// a scale is not looked at.
func widenNVFP4(y []float32, b []byte) {
	for g := range 4 {
		scale, codes := unsignedE4M3(b[g])/2, b[4+g*8:4+g*8+8]
		for i := range 16 {
			y[g*16+i] = scale * levelsE2M1[nibble(codes, i, 16)]
		}
	}
}

// unsignedE4M3 is the size of a float8 E4M3. NaN (0x7F) is 0, as in ggml, but its negative is
// 480.
func unsignedE4M3(x byte) float32 {
	exponent, fraction := int(x>>3&15), float64(x&7)
	switch {
	case x == 0x7f:
		return 0
	case exponent == 0:
		return float32(math.Ldexp(fraction, -9))
	}
	return float32(math.Ldexp(8+fraction, exponent-10))
}
