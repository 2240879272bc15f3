package cpu

// attention has an impl's kernels for attention. Numbers of the cache are multiplied
// with rows in the form that the kernels want: float32, one word for a column; for Int8
// integers of 16 bits, two columns in a word (toInt16), or of 8 bits, four columns in a
// word (toInt8); or bfloat16, two columns in a word (toPairs).
type attention struct {
	// dots are the products, by format.
	dots [Int8 + 1]dotKernels

	// expSum is x[i] = 2^((x[i]-top)*(hi+lo)), and exactly 0 below 2^-125.5; it
	// returns their sum. No x[i] is greater than top; the result is within 1.5
	// units in the last place. len(x) is a multiple of 16. Lane i%16 is summed in
	// ascending i, then the lanes, so that leading and trailing zeros (x = -Inf)
	// change no bit.
	expSum func(x []float32, top, hi, lo float32) float32
	// expSumScaled does the same, but then x[i] is multiplied by its value's
	// scale, float32 i%16 at kv[offs[i/16]], and most is the greatest product, NaN
	// if one is NaN. A zero stays zero, whatever its scale.
	expSumScaled func(x []float32, top, hi, lo float32, kv []byte, offs []int) (sum, most float32)
	// absMax is the greatest |x[i]|, NaN if one is NaN, 0 if there is none; len(x)
	// is a multiple of 16.
	absMax func(x []float32) float32
	// toInt16 rounds x[i]*inv, at most 32,767 in magnitude, to nearest even and
	// stores them as 16 bits each, in every four of them the middle two swapped:
	// the order in which dots take them. dst may be x; len(x) is a multiple of 16.
	toInt16 func(dst, x []float32, inv float32)
	// toInt8 rounds x[i]*inv, at most 127 in magnitude, to nearest even, stores
	// them as 8 bits each and returns their sum. dst may be x; len(x) is a multiple
	// of 16. It is nil where no kernels want it.
	toInt8 func(dst, x []float32, inv float32) int32
	// toPairs rounds x[i] to bfloat16, two to a word. dst may be x; len(x) is a
	// multiple of 16. It is nil where no kernels want it.
	toPairs func(dst, x []float32)
	// turn makes tiles of values of as many of keys (turned), by format. Bits of flip are turned over in
	// each byte of Int8; the others do not use it. Where it is nil there is plain Go.
	turn [Int8 + 1]func(to, from []byte, flip byte)
	// prefetch asks for n > 0 bytes from kv[at[u]] on, for all u. They may be
	// anywhere.
	prefetch func(kv []byte, at []int, n int)
}

// dotKernels multiply rows with keys and with values. Each result is one chain
// of additions in ascending column, so the number of rows and tiles of a call
// cannot matter; chains of integers are exact.
//
// In the loops, f(t, k, j) is row j of tile t at column k.
type dotKernels struct {
	pairs bool  // rows are as toPairs leaves them
	bytes bool  // queries are as toInt8 leaves them, then -128 times their sum; to keys 128 has been added
	tiles []int // [m] how many tiles scores and values take at once

	// scores[m] is m rows of x by len(offs) tiles, a positive multiple of
	// tiles[m], of k columns, a positive multiple of 4.
	//
	//	for u := range offs { // tile u starts at kv[offs[u]]
	//		for r := range m {
	//			for j := range 16 {
	//				s := 0
	//				for i := range k {
	//					s += x[r*ldx][i] * f(u, i, j)
	//				}
	//				y[r*ldy+u*16+j] = s (* scale j after tile u, if Int8)
	//			}
	//		}
	//	}
	//
	// While tile u is read, as much memory is prefetched that is ahead bytes after it.
	scores []scoresFunc
	// values[m] is m rows of x by tiles[m] consecutive tiles, whose columns run
	// through units: columns [16u, 16u+16) of tile t are kv[offs[u]+t*size:]. value[m]
	// is the same for one tile.
	//
	//	for r := range m {
	//		for t := range tiles[m] {
	//			for j := range 16 {
	//				s := 0
	//				for i := range n {
	//					s += x[r*ldx][i] * f(t, i, j)
	//				}
	//				y[r*ldy+t*16+j] = s
	//			}
	//		}
	//	}
	//
	// With Int8, x[r*ldx][i] is zero from n to the next multiple of 4. While a unit
	// is read, as much memory is prefetched from kv[ahead[u]] on, which may be
	// anywhere.
	values, value []valuesFunc
}

type (
	scoresFunc func(kv []byte, offs []int, ahead int, k int, x []float32, ldx int, y []float32, ldy int)
	valuesFunc func(kv []byte, offs, ahead []int, n int, x []float32, ldx int, y []float32, ldy int)
)

// rows is the most rows that the kernels take at once.
func (d *dotKernels) rows() int { return len(d.scores) - 1 }
