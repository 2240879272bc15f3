package cpu

import (
	"encoding/binary"
	"fmt"
	"math"

	"weir/weights"
)

// Format is how numbers are stored.
type Format uint8

const (
	Auto Format = iota // weights only: what the checkpoint has
	F32
	F16
	BF16
	Int8 // KV cache only: one scale per head and position
	Q8   // weights only: blocks of 32 columns of int8 with a float16 scale
	Q4   // weights only: the same with 4 bits
	W8A8 // weights only: int8 with one scale per row

	// Types of blocks, stored with the codes that a checkpoint has (blocks.go). A tensor is
	// stored like that if it comes like that; nothing is converted to them.
	Q41
	Q50
	Q51
	Q2K
	Q3K
	Q4K
	Q5K
	Q6K
	IQ4NL
	IQ4XS
	MXFP4
	K8    // 8 bits with factors, for types that have no tiles of their own
	I4Z   // blocks of 32 columns of 4 bits, with a float16 scale and a zero point
	I8Z   // the same with 8 bits
	NVFP4 // blocks of 32 columns of E2M1, with a scale for each half
	FP8   // E4M3 with a float32 scale for 64 columns of a row (fp8.go)

	firstBlocks = Q41
	lastBlocks  = NVFP4
)

var formatNames = [...]string{Auto: "auto", F32: "f32", F16: "f16", BF16: "bf16", Int8: "int8", Q8: "q8", Q4: "q4", W8A8: "w8a8",
	Q41: "q4_1", Q50: "q5_0", Q51: "q5_1", Q2K: "q2_k", Q3K: "q3_k", Q4K: "q4_k", Q5K: "q5_k", Q6K: "q6_k", IQ4NL: "iq4_nl", IQ4XS: "iq4_xs", MXFP4: "mxfp4", K8: "k8", I4Z: "int4", I8Z: "int8z", NVFP4: "nvfp4", FP8: "fp8"}

func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return fmt.Sprintf("Format(%d)", uint8(f))
}

// ParseFormat is the inverse of String.
func ParseFormat(s string) (Format, error) {
	for f, name := range formatNames[:firstBlocks] {
		if s == name {
			return Format(f), nil
		}
	}
	return Auto, fmt.Errorf("%w: number format %q; there are auto, f32, f16, bf16, q8, q4, w8a8, int8", ErrConfig, s)
}

func formatOf(d weights.DType) Format {
	switch d {
	case weights.F32:
		return F32
	case weights.F16:
		return F16
	case weights.BF16:
		return BF16
	}
	return Auto
}

// A tile holds 16 rows of k columns, columns in pairs, odd k padded with zeros:
//
//	F32, F16:  [k][16 rows]
//	BF16:      [k/2][16 rows][2]
//
// BF16 is interleaved because a 32-bit lane then holds two columns, and the
// upper one is a float32 but for its lower half: a shift and a mask widen
// 16 x 2 numbers without a shuffle. F16 has a widening load instead.

// pairBytes is the size of 16 rows by 2 columns.
func (f Format) pairBytes() int {
	switch f {
	case F32:
		return 2 * rowsPerTile * 4
	case Int8:
		return 2 * rowsPerTile
	}
	return 2 * rowsPerTile * 2
}

// MatrixBytes is about what n weights take in memory; Auto is not a format.
func (f Format) MatrixBytes(n int64) int64 {
	const row = 4 * groupColumns
	return n * int64(f.tileBytes(row)) / (row * rowsPerTile)
}

// tileBytes is the size of a tile of k columns.
func (f Format) tileBytes(k int) int {
	switch s := f.blocks(); {
	case s != nil:
		return s.units(k) * s.unitBytes()
	case f == W8A8:
		return groups(k)*groupWhole + wholeScale
	case f == FP8:
		return groups(k) * fp8Unit
	case f.quantized():
		return groups(k) * f.groupBytes()
	}
	return (k + 1) / 2 * f.pairBytes()
}

// put stores v as column k of row r of the tile.
func (f Format) put(tile []byte, k, r int, v float32) {
	switch f {
	case F32:
		binary.LittleEndian.PutUint32(tile[(k*rowsPerTile+r)*4:], math.Float32bits(v))
	case F16:
		binary.LittleEndian.PutUint16(tile[(k*rowsPerTile+r)*2:], toF16(v))
	default:
		binary.LittleEndian.PutUint16(tile[(k/2*rowsPerTile+r)*4+k%2*2:], toBF16(v))
	}
}

// putRow stores v as row r of the tile.
func (f Format) putRow(tile []byte, r int, v []float32) {
	if f != BF16 {
		for k, x := range v {
			f.put(tile, k, r, x)
		}
		return
	}
	for len(v) >= 2 {
		binary.LittleEndian.PutUint32(tile[r*4:], uint32(toBF16(v[0]))|uint32(toBF16(v[1]))<<16)
		if v = v[2:]; len(v) > 0 {
			tile = tile[rowsPerTile*4:]
		}
	}
	if len(v) > 0 {
		binary.LittleEndian.PutUint16(tile[r*4:], toBF16(v[0]))
	}
}

// putColumn stores v, 16 numbers at most, as column k of the tile.
func (f Format) putColumn(tile []byte, k int, v []float32) {
	if f != BF16 {
		for r, x := range v {
			f.put(tile, k, r, x)
		}
		return
	}
	tile = tile[k/2*rowsPerTile*4:][k%2*2 : rowsPerTile*4]
	for r, x := range v {
		binary.LittleEndian.PutUint16(tile[r*4:], toBF16(x))
	}
}

// columns widens columns 2p and 2p+1 of the tile into c.
func (f Format) columns(c *[2][rowsPerTile]float32, tile []byte, p int) {
	b := tile[p*f.pairBytes():][:f.pairBytes()]
	switch f {
	case F32:
		for i := range c {
			for r := range c[i] {
				c[i][r] = math.Float32frombits(binary.LittleEndian.Uint32(b[(i*rowsPerTile+r)*4:]))
			}
		}
	case F16:
		for i := range c {
			for r := range c[i] {
				c[i][r] = fromF16(binary.LittleEndian.Uint16(b[(i*rowsPerTile+r)*2:]))
			}
		}
	default:
		for r := range rowsPerTile {
			v := binary.LittleEndian.Uint32(b[r*4:])
			c[0][r] = math.Float32frombits(v << 16)
			c[1][r] = math.Float32frombits(v & 0xffff0000)
		}
	}
}

// packRow stores row r of a tile from k numbers of a checkpoint. Same format
// to same format copies bits. It reports false if f cannot hold one of them, or
// if one is infinite or NaN; the row is not complete then.
//
// Numbers whose bits are copied are judged by their exponents, as weights.NotFinite
// does, while they are in a register.
func (f Format) packRow(tile []byte, r int, d weights.DType, src []byte, k0, k1 int) bool {
	if f == BF16 && d == weights.BF16 {
		found := uint32(0)
		k := k0 // even
		for ; k+1 < k1; k += 2 {
			v := binary.LittleEndian.Uint32(src[k*2:])
			found |= v&0x7f80_7f80 + 0x0080_0080
			binary.LittleEndian.PutUint32(tile[(k/2*rowsPerTile+r)*4:], v)
		}
		if k < k1 {
			v := binary.LittleEndian.Uint16(src[k*2:])
			found |= uint32(v)&0x7f80 + 0x0080
			binary.LittleEndian.PutUint16(tile[(k/2*rowsPerTile+r)*4:], v)
		}
		return found&0x8000_8000 == 0
	}
	if f == F16 && d == weights.F16 {
		found := uint16(0)
		for k := k0; k < k1; k++ {
			v := binary.LittleEndian.Uint16(src[k*2:])
			found |= v&0x7c00 + 0x0400
			binary.LittleEndian.PutUint16(tile[(k*rowsPerTile+r)*2:], v)
		}
		return found&0x8000 == 0
	}
	most := f.largest()
	for k := k0; k < k1; k++ {
		v := number(d, src, k)
		if !(v <= most && v >= -most) {
			return false
		}
		f.put(tile, k, r, v)
	}
	return true
}

// number is element i of a checkpoint's bytes.
func number(d weights.DType, src []byte, i int) float32 {
	switch d {
	case weights.F32:
		return math.Float32frombits(binary.LittleEndian.Uint32(src[i*4:]))
	case weights.F16:
		return fromF16(binary.LittleEndian.Uint16(src[i*2:]))
	default:
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[i*2:])) << 16)
	}
}

// toBF16 rounds to nearest even; NaN stays NaN.
func toBF16(v float32) uint16 {
	b := math.Float32bits(v)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// toF16 rounds to nearest even. Numbers that are too large become infinite; NaN stays
// NaN.
func toF16(v float32) uint16 {
	b := math.Float32bits(v)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x477ff000: // 65520, halfway between the largest number and the next
		return sign | 0x7c00
	case b < 0x38800000: // below 2^-14: the unit is 2^-24 whatever the exponent
		// Adding 0.5 aligns that unit with the last bit of a float32.
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-0x3f000000)
	}
	b += 0xfff + b>>13&1
	return sign | uint16((b-0x38000000)>>13)
}

func fromF16(h uint16) float32 { return weights.FromFloat16(h) }
