package cpu

import "weir/sampler"

// rowsPerTile is the height of a tile: the lanes of one 512-bit vector.
const rowsPerTile = 16

// An impl is one implementation of every kernel. Kernels are slices of Go
// functions, some of them assembly; a kernel reads and writes exactly what its
// loop says, at any alignment, and never keeps a slice.
//
// The loops below define what is computed, not the order of additions, except
// where a comment fixes it. In the loops, f(k, j) is row j of a tile at k.
type impl struct {
	name  string
	needs []string // features of the processor, as /proc/cpuinfo has them
	far   bool     // products always prefetch from farAhead

	// mul[format][m] computes m rows of x against len(offs) tiles; the table has
	// a kernel for every m in [1, len). One chain per parity of i and their sum
	// at the end, so that m cannot matter.
	//
	//	for u := range offs { // tile u starts at w[offs[u]]
	//		for r := range m {
	//			for j := range 16 {
	//				s := [2]float32{}
	//				for i := range k {
	//					s[i%2] += x[r*ldx+i] * f(i, j)
	//				}
	//				y[r*ldy+u*16+j] = s[0] + s[1] (+ bias[u*16+j] if bias != nil)
	//			}
	//		}
	//	}
	//
	// While tile u is computed, as much memory is prefetched from w[ahead[u]] on;
	// an entry may point anywhere. len(ahead) == len(offs).
	mul [BF16 + 1][]mulFunc
	// mulFP8 is mul for tiles of FP8.
	mulFP8 []mulFunc

	// dot[format][m] computes m quantized rows against len(offs) tiles of a block
	// format, n groups of columns; the table has a kernel for every m in
	// [1, len). x holds rows as quantize writes them, ldx bytes apart. The sum
	// over a block's columns is exact. In the loop, b runs over 2n blocks:
	//
	//	for u := range offs {
	//		for r := range m {
	//			for j := range 16 {
	//				s := float32(0)
	//				for b := range 2 * n {
	//					s += float32(float32(Σ x(r, b, i) * w(b, i, j)) * xScale(r, b)) * wScale(b, j)
	//				}
	//				y[r*ldy+u*16+j] = s (+ bias[u*16+j] if bias != nil)
	//			}
	//		}
	//	}
	//
	// W8A8 is one block of all columns, with its scales at the end; sums of
	// products wrap around at 32 bits. ahead is mul's.
	dot [W8A8 + 1][]dotFunc
	// pairs are kernels for the same products of Q8 with many rows, if there are faster ones.
	pairs pairKernels
	// quantize writes a row for dot, groups(len(x)) groups: numbers in units of
	// the least power of two that the block's greatest magnitude has at most 127.49
	// of, to nearest even. A block that is not finite makes every product with the
	// row so; one below 2^-100 is zero. Every impl writes the same bits, but for
	// the form of scales.
	quantize func(dst []byte, x []float32)
	// exponents says that quantize writes, and dot reads, the exponents of scales.
	exponents bool
	// quantizeAll is the same for W8A8, with one scale for the row.
	quantizeAll func(dst []byte, x []float32)
	// narrow writes a row for dot[BF16], if there is that: to nearest even, and a
	// zero where len(x) is odd. There n counts pairs of columns, and the chains
	// are pairs of even and of odd index, added at the end; the rounding within
	// is VDPBF16PS's. The tile's padding is zero.
	narrow func(dst []byte, x []float32)

	// sumSquares is Σ x[i]².
	sumSquares func(x []float32) float32
	// scaleMul is y[i] = (x[i] * s) * w[i], i < len(y).
	scaleMul func(y, x, w []float32, s float32)
	// add is y[i] += x[i], i < len(y).
	add func(y, x []float32)
	// gate is y[i] = g[i] / (1 + exp(-g[i])) * u[i], i < len(y). y may be g or u.
	gate func(y, g, u []float32)
	// rotate is a, b = a*cos - b*sin, b*cos + a*sin, element by element,
	// i < len(cos).
	rotate func(a, b, cos, sin []float32)
	// max is the greatest x[i]; len(x) is a positive multiple of 16. NaN is either
	// left out or the result.
	max func(x []float32) float32
	// blend is y[i] = y[i]*a + x[i]*b, i < len(y).
	blend func(y, x []float32, a, b float32)
	// scale is y[i] = x[i] * s, i < len(y).
	scale func(y, x []float32, s float32)
	// pointwise are functions of single numbers.
	pointwise [pointwiseKinds]pointwiseFunc
	// pick are the draw's own kernels; max is another.
	pick sampler.Kernels

	blocks blockKernels
	attention
	recurrent
}

type (
	mulFunc func(w []byte, offs, ahead []int, k int, x []float32, ldx int, y []float32, ldy int, bias []float32)
	dotFunc func(w []byte, offs, ahead []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)
)

// products are the kernels for rows that are not rounded.
func (im *impl) products(f Format) []mulFunc {
	if f == FP8 {
		return im.mulFP8
	}
	return im.mul[f]
}

// rows is the most rows that the impl's kernels mul take at once.
func (im *impl) rows() int { return len(im.mul[BF16]) - 1 }

// edgeRows is the same for all its kernels.
func (im *impl) edgeRows() int {
	rows := im.rows()
	for f := range im.dot {
		rows = max(rows, len(im.dot[f])-1)
	}
	for i := range im.blocks.dot {
		rows = max(rows, len(im.blocks.dot[i])-1, len(im.blocks.dotExpanded[i])-1)
	}
	return rows
}

// draws are the kernels of draws.
func (im *impl) draws() sampler.Kernels {
	k := im.pick
	k.Max = im.max
	return k
}
