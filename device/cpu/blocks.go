package cpu

import (
	"encoding/binary"
	"math"

	"weir/weights"
)

// Tiles of ggml's types of blocks, with the codes that files have.
//
// A tile consists of units of 64 or 256 columns, which is what a scale of the type is for. A
// unit of 16 rows is a header, padded to whole cache lines, and after it the codes of each
// block of 32 columns in turn, in planes. Byte 4r+c of a line of a plane has bits of row r:
//
//	four bits:  4 lines; line i has columns 4i+c in the lower halves, 16+4i+c in the upper
//	two bits:   2 lines; bits 2q and 2q+1 of line i are of column 4(i+2q)+c
//	one bit:    1 line; bit q is of column 4q+c
//
// Header, for 16 rows each, b being blocks of the unit and s halves of them:
//
//	Q4_1, Q5_1         [b] float16 scale, [b] float16 minimum
//	Q5_0, IQ4_NL       [b] float16 scale
//	MXFP4              [b] exponent (E8M0)
//	Q4_K, Q5_K         float16 scale, float16 scale of the minimums, [b] uint8 factor of the scale, [b] uint8 factor of the minimum
//	IQ4_XS             float16 scale, [b] int8 factor
//	Q3_K, Q6_K, K8     float16 scale, [s] int8 factor
//	Q2_K               float16 scale, float16 scale of the minimums, [s] two factors of four bits
//	I4Z, I8Z           for each block: float16 scale, uint8 zero point
//	NVFP4              sixteen float32, the scales of mantissas; [s] scale: which of them, and four bits more of exponent
//
// The factors of Q3_K, Q4_K, Q5_K and IQ4_XS have six bits in files and eight here. K8 holds
// IQ1 to IQ3: the products of a scale, a factor and a number of 8 bits, divided by 8.
//
// # Products
//
// Kernels multiply a block in its expanded form: bytes without sign, u, a float32 scale w for
// each row, or for each half of a row's 32 columns, and for types with minimums a float32
// minimum v. Where a type's codes are signed, u is 128 more than the code times a power of two
// that fills the byte, by which the scale is divided. So scales, minimums and the sums of
// products are exact, and the only roundings are those of
//
//	s = fma(float32(Σ (u-128)*x) * xScale, w, s)    a block, or first its lower half, then the upper
//	s = fma(float32(Σ u*x) * xScale, w, s)          the same with minimums, and after the block
//	s = fma(float32(Σ x) * xScale, v, s)            its minimum, or both halves'
//
// with a fused multiply-add (fma32), the blocks in ascending order, then the bias. Every tier
// computes these bits.
//
// A row of activations has for each block of 32 columns, of whole groups of two blocks,
//
//	[2 halves] int32  -128 * sum of the half's numbers
//	int32             -128 * sum of the block's numbers
//	float32           scale, a power of two
//	float32           sum * scale
//	[32] int8         numbers in [-127, 127]
//
// Tiers that add up in 16 bits (blockKernels.lanes) have sums of lanes in place of the first
// three: for columns 0 and 1 of four, then for columns 2 and 3,
//
//	[2 halves][2] int16  -32 * sum of the half's numbers
//	[2] int16            -16 * sum of the block's numbers
const (
	sumBlock    = 2*4 + 4 + 4 + 4 + blockColumns // bytes of a block of activations
	sumStart    = 8                              // where its parts begin
	sumScale    = 12
	sumValue    = 16
	sumNumbers  = 20
	codeLine    = 4 * rowsPerTile      // bytes of a line
	halfColumns = blockColumns / 2     // columns of half a block
	codeLines   = blockColumns / 4     // lines of a block that is expanded
	codeBytes   = codeLines * codeLine // their bytes
	scaleLine   = 4 * rowsPerTile      // a float32 for each row
)

// zeroRows is the size of a block's scales and zero points.
const zeroRows = 3 * rowsPerTile

// A blockKind is how a tile of blocks is expanded and multiplied.
type blockKind uint8

const (
	plainBlocks   blockKind = iota // a scale for a block
	minBlocks                      // and a minimum
	halfBlocks                     // a scale for half a block
	halfMinBlocks                  // and a minimum
	blockKinds
)

// head is the size of the scales and minimums of an expanded block.
func (k blockKind) head() int { return []int{1, 2, 2, 4}[k] * scaleLine }

// size is the size of an expanded block.
func (k blockKind) size() int { return k.head() + codeBytes }

// scaleSource is what scales are made of.
type scaleSource uint8

const (
	halfFloats scaleSource = iota // a float16 for a block
	exponents                     // an exponent for a block
	factors                       // a float16 for a unit, times a factor for a block or half
	nibbles                       // the same, with factors of four bits
	mantissas                     // E4M3 times a number of the tensor: a float32 for each mantissa, and an exponent
	zeroPoints                    // a float16 for a block, whose minimum is -zero point * scale
)

// blockSpec describes a format of blocks.
type blockSpec struct {
	dtype  weights.DType
	kind   blockKind
	unit   int // blocks of a unit
	source scaleSource
	// A code has low bits, four or two, in a plane of its own, and high ones.
	low, high int
	// shift is how far a code is shifted to the left in an expanded block. A code of eight
	// bits has been shifted before.
	shift int
	// table has what codes stand for, nil if they stand for themselves.
	table *[16]int8
}

// What the codes of 4-bit types stand for (ggml-common.h, kvalues_iq4nl and kvalues_mxfp4;
// the latter are those of E2M1, doubled).
var (
	valuesIQ4   = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}
	valuesMXFP4 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
)

var blockSpecs = [...]blockSpec{
	Q41 - firstBlocks:   {weights.Q4_1, minBlocks, 2, halfFloats, 4, 0, 0, nil},
	Q50 - firstBlocks:   {weights.Q5_0, plainBlocks, 2, halfFloats, 4, 1, 3, nil},
	Q51 - firstBlocks:   {weights.Q5_1, minBlocks, 2, halfFloats, 4, 1, 0, nil},
	Q2K - firstBlocks:   {weights.Q2_K, halfMinBlocks, 8, nibbles, 2, 0, 0, nil},
	Q3K - firstBlocks:   {weights.Q3_K, halfBlocks, 8, factors, 2, 1, 5, nil},
	Q4K - firstBlocks:   {weights.Q4_K, minBlocks, 8, factors, 4, 0, 0, nil},
	Q5K - firstBlocks:   {weights.Q5_K, minBlocks, 8, factors, 4, 1, 0, nil},
	Q6K - firstBlocks:   {weights.Q6_K, halfBlocks, 8, factors, 4, 2, 2, nil},
	IQ4NL - firstBlocks: {weights.IQ4_NL, plainBlocks, 2, halfFloats, 4, 0, 0, &valuesIQ4},
	IQ4XS - firstBlocks: {weights.IQ4_XS, plainBlocks, 8, factors, 4, 0, 0, &valuesIQ4},
	MXFP4 - firstBlocks: {weights.MXFP4, plainBlocks, 2, exponents, 4, 0, 0, &valuesMXFP4},
	K8 - firstBlocks:    {weights.Invalid, halfBlocks, 8, factors, 8, 0, 3, nil},
	I4Z - firstBlocks:   {weights.Invalid, minBlocks, 4, zeroPoints, 4, 0, 0, nil},
	I8Z - firstBlocks:   {weights.Invalid, minBlocks, 4, zeroPoints, 8, 0, 0, nil},
	NVFP4 - firstBlocks: {weights.Invalid, halfBlocks, 4, mantissas, 4, 0, 0, &valuesMXFP4},
}

// Tiles of Q8 and Q4 (quant.go) are such tiles, too.
var (
	q8Blocks = blockSpec{weights.Q8_0, plainBlocks, 2, halfFloats, 8, 0, 0, nil}
	q4Blocks = blockSpec{weights.Q4_0, plainBlocks, 2, halfFloats, 4, 0, 4, nil}
)

// blocks is the description of f, nil if it is not one of these formats.
func (f Format) blocks() *blockSpec {
	if f < firstBlocks || f > lastBlocks {
		return nil
	}
	return &blockSpecs[f-firstBlocks]
}

// blockFormatOf is the format that keeps the codes of type d, Auto if there is none.
func blockFormatOf(d weights.DType) Format {
	switch d {
	case weights.Q8_0:
		return Q8
	case weights.Q4_0, weights.Q1_0, weights.Q2_0, weights.TQ1_0, weights.TQ2_0:
		return Q4
	case weights.IQ1_S, weights.IQ1_M, weights.IQ2_XXS, weights.IQ2_XS, weights.IQ2_S, weights.IQ3_XXS, weights.IQ3_S:
		return K8
	}
	for i := range blockSpecs {
		if d.Blocked() && blockSpecs[i].dtype == d {
			return firstBlocks + Format(i)
		}
	}
	return Auto
}

func (s *blockSpec) mins() bool   { return s.kind == minBlocks || s.kind == halfMinBlocks }
func (s *blockSpec) halves() bool { return s.kind == halfBlocks || s.kind == halfMinBlocks }

// parts is how many scales a row has in a unit.
func (s *blockSpec) parts() int {
	if s.halves() {
		return 2 * s.unit
	}
	return s.unit
}

// factorsAt is where the factors of a header begin.
func (s *blockSpec) factorsAt() int {
	if s.mins() {
		return 2 * 2 * rowsPerTile
	}
	return 2 * rowsPerTile
}

// head is the size of a unit's header.
func (s *blockSpec) head() int {
	size := 0
	switch s.source {
	case halfFloats:
		size = 2 * rowsPerTile * s.unit
		if s.mins() {
			size *= 2
		}
	case zeroPoints:
		size = zeroRows * s.unit
	case mantissas:
		size = cacheLine + rowsPerTile*s.parts()
	case exponents:
		size = rowsPerTile * s.unit
	case factors:
		size = s.factorsAt() + rowsPerTile*s.parts()
		if s.mins() {
			size += rowsPerTile * s.parts()
		}
	case nibbles:
		size = s.factorsAt() + rowsPerTile*s.parts()
	}
	return (size + cacheLine - 1) / cacheLine * cacheLine
}

// lines is how many lines the codes of a block take.
func (s *blockSpec) lines() int { return s.low + s.high }

// unitBytes is the size of a unit.
func (s *blockSpec) unitBytes() int { return s.head() + s.unit*s.lines()*codeLine }

// unitColumns is how many columns a unit has.
func (s *blockSpec) unitColumns() int { return s.unit * blockColumns }

// units is how many units k columns take.
func (s *blockSpec) units(k int) int { return (k + s.unitColumns() - 1) / s.unitColumns() }

// expandedBlock is a block of 16 rows: row j of a scale or minimum is of row j of the tile.
// Scales and minimums have an entry for each half of the block.
type expandedBlock struct {
	u       [blockColumns][rowsPerTile]uint8
	scales  [2][rowsPerTile]float32
	minimum [2][rowsPerTile]float32
}

// expand is the definition of an expanded block: block b of a tile.
func (s *blockSpec) expand(e *expandedBlock, tile []byte, b int) {
	unit := tile[b/s.unit*s.unitBytes():][:s.unitBytes()]
	b %= s.unit
	for half := range 2 {
		for r := range rowsPerTile {
			e.scales[half][r], e.minimum[half][r] = s.scale(unit, b, half, r)
		}
	}
	data := unit[s.head()+b*s.lines()*codeLine:]
	for c := range blockColumns {
		for r := range rowsPerTile {
			e.u[c][r] = s.unsigned(planeBits(data, s.low, c, r) | planeBits(data[s.low*codeLine:], s.high, c, r)<<s.low)
		}
	}
}

// planeBits is the code of column c and row r in a plane of codes of so many bits.
func planeBits(plane []byte, bits, c, r int) int {
	if bits == 0 {
		return 0
	}
	line, at := c/4%bits, c/4/bits*bits
	return int(plane[line*codeLine+4*r+c%4]) >> at & (1<<bits - 1)
}

// unsigned is the byte that a code is expanded to.
func (s *blockSpec) unsigned(code int) uint8 {
	if s.table != nil {
		return uint8(int(s.table[code]) + 128)
	}
	if s.low == 8 {
		return uint8(code)
	}
	return uint8(code << s.shift)
}

// scale is the scale and the minimum of row r in half a block of a unit.
func (s *blockSpec) scale(unit []byte, b, half, r int) (scale, minimum float32) {
	part, parts := b, s.parts()
	if s.halves() {
		part = 2*b + half
	}
	float := func(i int) float32 { return fromF16(binary.LittleEndian.Uint16(unit[2*(i*rowsPerTile+r):])) }
	switch s.source {
	case mantissas:
		v := unit[cacheLine+part*rowsPerTile+r]
		return math.Float32frombits(word(unit[v&15*4:]) + uint32(v>>4)<<23), 0
	case zeroPoints:
		scale = fromF16(float16Bits(unit[part*zeroRows+2*r:]))
		return scale, -scale * float32(unit[part*zeroRows+2*rowsPerTile+r])
	case exponents:
		return halfExponent(unit[part*rowsPerTile+r]), 0
	case halfFloats:
		if s.mins() {
			minimum = float(parts + part)
		}
		return float(part) / float32(int(1)<<s.shift), minimum
	}
	f := unit[s.factorsAt():]
	factor := f[part*rowsPerTile+r]
	switch {
	case s.source == nibbles:
		return float(0) * float32(factor&15), -float(1) * float32(factor>>4)
	case s.mins():
		return float(0) * float32(factor), -float(1) * float32(f[(parts+part)*rowsPerTile+r])
	}
	return float(0) * float32(int8(factor)) / float32(int(1)<<s.shift), 0
}

// halfExponent is half of what the exponent e (E8M0) stands for: the values of MXFP4 are
// doubled.
func halfExponent(e uint8) float32 {
	if e < 2 { // below the normal numbers
		return math.Float32frombits(1 << 21 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// widenRow writes columns of row r of a tile, from a block's first on, as float32: what
// weights.Tensor.Widen says.
func (e *expandedBlock) widen(s *blockSpec, dst []float32, r int) {
	offset := 128
	if s.mins() {
		offset = 0
	}
	for c := range dst {
		half := c / halfColumns
		dst[c] = float32(float32(int(e.u[c][r])-offset) * e.scales[half][r])
		if s.mins() {
			dst[c] += e.minimum[half][r]
		}
	}
}
