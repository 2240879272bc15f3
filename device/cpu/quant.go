package cpu

import (
	"encoding/binary"
	"math"
)

// Block formats of weights, and the rows that they are multiplied with.
//
// A block is 32 consecutive columns of a row with one scale. Two blocks of 16
// rows make a group, and a tile is the groups of its columns, k padded to whole
// groups. One 64-byte line of a group holds four columns of 16 rows, which is
// what VPDPBUSD multiplies at once:
//
//	Q8:  [2 blocks][16 rows] float16 scale
//	     [2 blocks][8][16 rows][4 columns] weight + 128
//	Q4:  [2 blocks][16 rows] float16 scale
//	     [2 blocks][4][16 rows][4 columns] two weights + 8: columns 4j..4j+3 of
//	     the block in the lower halves, 4j+16..4j+19 in the upper ones
//
// Weights are stored without sign because VPDPBUSD needs one operand like that, and then
// the other, the activation, can be broadcast from memory. The offset of 128 adds 128
// times the sum of the activations to a dot product. That is computed once per row, and
// the sum starts at its negative. The sums are integers and exact, so their order does
// not matter; blocks are added up in ascending order, in one chain of float32.
//
// A row of activations has one group for each group of weights:
//
//	[2 blocks] int32   -128 * sum of the block's numbers
//	[2 blocks] float32 scale, a power of two, or (impl.exponents) its exponent
//	[64] int8          numbers in [-127, 127]
//
// Numbers never reach -128, whose negative an int8 cannot hold. A scale is the
// least power of two that keeps them within 127: the format MXINT8 of the OCP
// Microscaling specification (blocks of 32, a shared exponent; Rouhani et al.
// 2023, arXiv:2310.10537). It loses half a bit compared with a scale of any value: with
// Q8 the bundled model's logits are off by 0.93 % instead of 0.62 %; with Q4 there is no
// difference. In return, scaling the integers is exact, so every instruction that changes
// an exponent gives the same bits, even one that does not compete with the products for
// the multipliers.
const (
	blockColumns = 32
	groupColumns = 2 * blockColumns
	groupRow     = 2*4 + 2*4 + groupColumns // bytes of a group of activations
	groupScales  = 2 * rowsPerTile * 2      // bytes of a group's scales of weights
	blockQ8      = blockColumns * rowsPerTile
	blockQ4      = blockQ8 / 2
)

// quantized reports whether f is a format of integers.
func (f Format) quantized() bool { return f >= Q8 && f != FP8 }

// steps is impl.dot's n for k columns.
func (f Format) steps(k int) int {
	if f == BF16 {
		return (k + 1) / 2
	}
	return groups(k)
}

// rowSteps is the size of a row of n steps that impl.dot multiplies.
func (f Format) rowSteps(n int) int {
	switch f {
	case BF16:
		return 4 * n
	case W8A8:
		return n*groupColumns + wholeRow
	}
	if f.blocks() != nil {
		return n * 2 * sumBlock
	}
	return n * groupRow
}

// groups is how many groups k columns take.
func groups(k int) int { return (k + groupColumns - 1) / groupColumns }

// groupBytes is the size of a group of weights of 16 rows.
func (f Format) groupBytes() int {
	if f == Q4 {
		return groupScales + 2*blockQ4
	}
	return groupScales + 2*blockQ8
}

// rowBytes is the distance of rows of the given width for impl.dot, rounded in any way that
// weights stored as f may want: an odd number of cache lines, so that the rows which a kernel
// reads in step do not all fall into one set of a cache.
func (im *impl) rowBytes(f Format, width int) int {
	size := 0
	for _, g := range []Format{BF16, Q8, Q4, W8A8, firstBlocks} {
		if im.rounding(g) != unrounded && (f == g || f == Auto && g != W8A8) {
			size = max(size, g.rowSteps(g.steps(width)))
		}
	}
	return ((size+cacheLine-1)/cacheLine | 1) * cacheLine
}

// The greatest weights that a format can express, with scales in float16 where it has blocks.
const (
	maxF16  = 65504
	maxQ8   = 127 * maxF16
	maxQ4   = 8 * maxF16
	overF16 = maxF16 + 16    // from here on numbers round to infinity
	maxBF16 = 0x1.fefffep127 // the greatest float32 that does not
	maxF32  = math.MaxFloat32
)

// largest is the greatest magnitude that f stores. A matrix with a greater number cannot
// be loaded.
func (f Format) largest() float32 {
	switch f {
	case F16:
		return math.Nextafter32(overF16, 0)
	case BF16:
		return maxBF16
	case Q8:
		return maxQ8
	case Q4:
		return maxQ4
	}
	return maxF32
}

// roundQ8 finds the scale of a block of weights and writes them in its units.
// The scale is the least float16 that keeps the greatest weight within 127.49
// units, so that it is never cut off.
func roundQ8(q *[blockColumns]int8, w []float32) (scale uint16) {
	top := float32(0)
	for _, v := range w {
		top = max(top, float32(math.Abs(float64(v))))
	}
	if top == 0 {
		*q = [blockColumns]int8{}
		return 0
	}
	scale = toF16(top / 127)
	if fromF16(scale)*127.49 < top {
		scale++ // the next float16 up
	}
	inverse := 1 / fromF16(scale)
	for i, v := range w {
		q[i] = int8(nearest(v * inverse))
	}
	clear(q[len(w):])
	return scale
}

// roundQ4 does the same for four bits, [-8, 7]: the weight of the greatest
// magnitude becomes -8 units, so that the range is used up whatever its sign.
// The scale may be negative.
func roundQ4(q *[blockColumns]int8, w []float32) (scale uint16) {
	top := float32(0)
	for _, v := range w {
		if math.Abs(float64(v)) > math.Abs(float64(top)) {
			top = v
		}
	}
	scale = toF16(top / -8)
	d := fromF16(scale)
	if d == 0 {
		*q = [blockColumns]int8{}
		return 0
	}
	inverse := 1 / d
	for i, v := range w {
		q[i] = int8(min(max(nearest(v*inverse), -8), 7))
	}
	clear(q[len(w):])
	return scale
}

// nearest rounds to an integer, half to even, if |v| is less than 2^22: added to
// 1.5 * 2^23, the units are the last bits of the sum.
func nearest(v float32) int32 {
	const shift = 3 << 22
	return int32(math.Float32bits(float32(v)+shift) - math.Float32bits(shift))
}

// packBlock stores w, 32 numbers or fewer at the end of a row, as block b of row
// r of the tile.
func (f Format) packBlock(tile []byte, b, r int, w []float32) {
	var q [blockColumns]int8
	group := tile[b/2*f.groupBytes():][:f.groupBytes()]
	scale := group[(b%2*rowsPerTile+r)*2:]
	if f == Q8 {
		binary.LittleEndian.PutUint16(scale, roundQ8(&q, w))
		data := group[groupScales+b%2*blockQ8+r*4:]
		for j := 0; j < blockColumns; j += 4 {
			v := uint32(uint8(q[j])) | uint32(uint8(q[j+1]))<<8 | uint32(uint8(q[j+2]))<<16 | uint32(uint8(q[j+3]))<<24
			binary.LittleEndian.PutUint32(data[j*rowsPerTile:], v^0x80808080)
		}
		return
	}
	binary.LittleEndian.PutUint16(scale, roundQ4(&q, w))
	data := group[groupScales+b%2*blockQ4+r*4:]
	for j := 0; j < blockColumns/2; j += 4 {
		var v uint32
		for i := range 4 {
			v |= uint32(uint8(q[j+i]+8)|uint8(q[j+i+blockColumns/2]+8)<<4) << (8 * i)
		}
		binary.LittleEndian.PutUint32(data[j*rowsPerTile:], v)
	}
}

// block widens block b of a tile: the weights in units of their rows' scales.
func (f Format) block(q *[blockColumns][rowsPerTile]int32, scales *[rowsPerTile]float32, tile []byte, b int) {
	group := tile[b/2*f.groupBytes():][:f.groupBytes()]
	for r := range scales {
		scales[r] = fromF16(binary.LittleEndian.Uint16(group[(b%2*rowsPerTile+r)*2:]))
	}
	if f == Q8 {
		data := group[groupScales+b%2*blockQ8:][:blockQ8]
		for i, v := range data {
			q[i/(4*rowsPerTile)*4+i%4][i/4%rowsPerTile] = int32(v) - 128
		}
		return
	}
	data := group[groupScales+b%2*blockQ4:][:blockQ4]
	for i, v := range data {
		c, r := i/(4*rowsPerTile)*4+i%4, i/4%rowsPerTile
		q[c][r] = int32(v&15) - 8
		q[c+blockColumns/2][r] = int32(v>>4) - 8
	}
}

// largestUnits is the greatest magnitude of a block in units of its scale: it is
// rounded to 127.
const largestUnits = 127.49

// leastScaled is the magnitude below which a block of activations counts as
// zero: above it neither a scale nor its inverse leaves the normal numbers.
const leastScaled = 1.0 / (1 << 100)

// quantizeGeneric is what impl.quantize computes. Every tier computes the same
// bits: each operation is rounded by itself.
func quantizeGeneric(dst []byte, x []float32) {
	for g := 0; g*groupColumns < len(x); g++ {
		group := dst[g*groupRow:][:groupRow]
		for b := range 2 {
			at := min(g*groupColumns+b*blockColumns, len(x))
			v := x[at:min(at+blockColumns, len(x))]
			scale, sum := quantizeBlock(group[16+b*blockColumns:][:blockColumns], v)
			binary.LittleEndian.PutUint32(group[b*4:], uint32(sum*-128))
			binary.LittleEndian.PutUint32(group[8+b*4:], math.Float32bits(scale))
		}
	}
}

func quantizeBlock(dst []byte, x []float32) (scale float32, sum int32) {
	clear(dst)
	top := math.Float32frombits(largestGeneric(x))
	if top < leastScaled {
		return 0, 0
	}
	scale = powerAbove(float32(top * (1 / largestUnits)))
	return scale, roundGeneric(dst, x, 1/scale)
}

// powerAbove is the least power of two that is not below v > 0, infinity for what
// is not finite.
func powerAbove(v float32) float32 {
	const mantissa, infinity = 1<<23 - 1, 0xff << 23
	return math.Float32frombits((min(math.Float32bits(v), infinity) + mantissa) &^ mantissa)
}

// exponent is the scale v as dots with impl.exponents want it.
func exponent(v float32) float32 {
	switch bits := math.Float32bits(v); bits {
	case 0:
		return float32(math.Inf(-1))
	case 0xff << 23:
		return v
	default:
		return float32(int32(bits>>23) - 127)
	}
}

// toExponents turns the scales of a row that quantizeGeneric wrote into
// exponents.
func toExponents(row []byte) {
	for ; len(row) > 0; row = row[groupRow:] {
		for b := range 2 {
			s := row[8+4*b:]
			v := exponent(math.Float32frombits(binary.LittleEndian.Uint32(s)))
			binary.LittleEndian.PutUint32(s, math.Float32bits(v))
		}
	}
}

// dotGeneric is impl.dot of a block format for m rows.
func dotGeneric(f Format, m int) dotFunc {
	return func(w []byte, offs, _ []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32) {
		var tile unpackedBlock
		for u, off := range offs {
			var s [genericRows][rowsPerTile]float32
			for b := range 2 * n {
				f.block(&tile.q, &tile.scales, w[off:][:n*f.groupBytes()], b)
				for r := range m {
					tile.addTo(&s[r], x[r*ldx+b/2*groupRow:][:groupRow], b%2)
				}
			}
			for r := range m {
				out := y[r*ldy+u*rowsPerTile:][:rowsPerTile]
				copy(out, s[r][:])
				if bias != nil {
					addGeneric(out, bias[u*rowsPerTile:])
				}
			}
		}
	}
}

// unpackedBlock is a block of 16 rows of weights, as Format.block writes it.
type unpackedBlock struct {
	q      [blockColumns][rowsPerTile]int32
	scales [rowsPerTile]float32
}

// addTo adds the products with block b of a group of activations to the sums s.
func (t *unpackedBlock) addTo(s *[rowsPerTile]float32, group []byte, b int) {
	scale := math.Float32frombits(binary.LittleEndian.Uint32(group[8+b*4:]))
	var dots [rowsPerTile]int32
	for i, v := range group[16+b*blockColumns:][:blockColumns] {
		for j, w := range &t.q[i] {
			dots[j] += w * int32(int8(v))
		}
	}
	for j, d := range dots {
		s[j] += float32(float32(float32(d)*scale) * t.scales[j])
	}
}
