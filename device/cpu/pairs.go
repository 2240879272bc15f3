package cpu

import "math"

// Products of many rows with weights of eight bits on processors without VNNI: with tiles of
// Q8, and of the types of blocks whose codes stand for numbers of eight bits. Their tiles are
// expanded first (blocks.go).
//
// Winograd's inner product (S. Winograd, "A New Algorithm for Inner Product", IEEE
// Transactions on Computers C-17, 1968) has half of the multiplications: for two columns
//
//	(x0 + w1) * (x1 + w0) = x0*w0 + x1*w1 + x0*x1 + w0*w1
//
// and the last two products belong to the row alone and to the weights alone, so they are
// computed once for all. The sums need nine bits, so these are 16-bit numbers, of which
// VPMADDWD multiplies and adds two pairs. All of it is integers, which no order of additions
// changes, and what comes after them is rounded as impl.dot rounds it: the results have the
// same bits.
//
// Both operands are prepared. Weights, pairColumns of a tile at a time, so that they stay in
// the first-level cache while all rows are multiplied with them, in blocks of 32 columns:
//
//	[16 rows] int32    shift - Σ w0*w1, w being stored without sign (quant.go)
//	[16 rows] float32  scale
//	[8][2 halves of the 16 rows][2][8 rows][2] int16   columns 1 and 3 of four, then 0 and 2
//
// and rows of activations, in blocks of as many columns:
//
//	float32   scale
//	float32   -(shift + Σ x0*x1 + 128 * Σ x) * scale
//	[8][2][2] int16   columns 0 and 2 of four, then 1 and 3
//
// shift is 1.5 * 2^23. Sums of integers that start at the bits of this float32 are float32
// themselves, so one fused multiply-add with the numbers of a row takes the place of a
// conversion, the subtraction of what is too much, and the multiplication with the scale. It
// is exact, for scales of rows are powers of two. A scale for which the second number would
// be infinite (largestPairScale) is left to impl.dot.
const (
	pairColumns = 512
	pairBlock   = 4*rowsPerTile + 4*rowsPerTile + 2*blockQ8 // bytes of a block of weights
	pairRow     = 4 + 4 + 2*blockColumns                    // the same of a row
	// pairMinRows is how many rows are worth the preparation of a tile.
	pairMinRows = 6
	// pairMinBlockRows is the same for blocks.
	pairMinBlockRows = 12
	// largestPairScale has the bits of 2^103.
	largestPairScale = (127 + 103) << 23
)

// pairKernels are the kernels, none if dot is nil.
type pairKernels struct {
	// expand prepares n groups of weights, and expandBlocks twice as many blocks that
	// blockKernels.expand has written, with bytes that are 128 more than the numbers.
	expand, expandBlocks func(dst, groups []byte, n int)
	// round prepares a row of n groups, and roundBlocks one that blockKernels.round has
	// written. They return the bits of its greatest scale.
	round, roundBlocks func(dst, row []byte, n int) uint32
	// dot[m] adds the products of n blocks of weights with m*passes rows, passes being at
	// least 1, to the sums in y, which are zero before the first, and then the bias if there
	// is one. It prefetches memory from w[ahead] on, which may be anywhere.
	dot []pairFunc
}

type pairFunc func(w []byte, n int, x []byte, ldx, passes int, y []float32, ldy int, bias []float32, first, ahead int)

// pairScratch is one worker's memory for products by pairs.
type pairScratch struct {
	weights []byte    // pairColumns of a tile
	rows    []byte    // of a chunk
	edge    []float32 // [rows, 16] results of a tile that is not full
	// What rows holds: those from row on of a product, and whether they can be multiplied.
	product, row int
	fit          bool
}

// pairRows is how many rows of width k a chunk has at most.
func (im *impl) pairRows(k int) int {
	m := len(im.pairs.dot) - 1
	return max(1, cachedInput/(2*groups(k)*pairRow)/m) * m
}

// byPairs reports whether f is multiplied by pairs with n rows.
func (im *impl) byPairs(f Format, n int) bool {
	switch f {
	case Q8:
		return im.pairs.dot != nil && n >= pairMinRows
	case IQ4NL, IQ4XS:
		return im.pairs.dot != nil && n >= pairMinBlockRows
	}
	return false
}

// expectPairs takes memory for products with w by pairs.
func (d *Device) expectPairs(w *matrix) error {
	if !d.planned || w.exact || !d.impl.byPairs(w.format, math.MaxInt) {
		return nil
	}
	rows := min(d.impl.pairRows(w.k), d.shape.Spec.MaxTokens)
	for i := range d.scratch {
		sc := &d.scratch[i].pairs
		if err := d.grow(&sc.weights, pairColumns/blockColumns*pairBlock); err != nil {
			return err
		}
		if err := d.grow(&sc.rows, rows*2*groups(w.k)*pairRow); err != nil {
			return err
		}
		if n := rows * rowsPerTile; len(sc.edge) < n {
			var err error
			if sc.edge, err = d.mem.floats(n); err != nil {
				return err
			}
			d.memory.Scratch += 4 * int64(n)
		}
	}
	return nil
}

// preparePairs prepares n rows from row on, unless the worker has done so for its previous
// chunk. It reports whether all of them can be multiplied.
func (j *productJob) preparePairs(sc *pairScratch, row, n int) bool {
	if sc.product == j.product && sc.row == row {
		return sc.fit
	}
	sc.product, sc.row, sc.fit = j.product, row, true
	steps := groups(j.m.k)
	size, round := 2*steps*pairRow, j.d.impl.pairs.round
	if j.m.format != Q8 {
		round = j.d.impl.pairs.roundBlocks
	}
	for r := range n {
		from := j.q[(row+r)*j.ldq:][:j.m.format.rowSteps(steps)]
		if round(sc.rows[r*size:][:size], from, steps) >= largestPairScale {
			sc.fit = false
		}
	}
	return sc.fit
}

// multiplyPairs multiplies n rows that are prepared with a tile; y is of the first of them.
// next is the tile that comes after it.
func (j *productJob) multiplyPairs(sc *scratch, tile, next, n int, y view) {
	m := j.m
	out, columns := y, m.n-tile*rowsPerTile
	if columns < rowsPerTile { // beside the matrix's columns are somebody else's
		out = view{sc.pairs.edge[:n*rowsPerTile], rowsPerTile, rowsPerTile}
	}
	var bias []float32
	if m.bias != nil {
		bias = m.bias[tile*rowsPerTile:][:rowsPerTile]
	}
	expand, data, group := j.d.impl.pairs.expand, m.data[tile*m.tile:][:m.tile], m.format.groupBytes()
	if s := m.format.blocks(); s != nil {
		j.d.impl.blocks.expand[m.format-firstBlocks](sc.blocks, data, s.units(m.k))
		expand, data, group = j.d.impl.pairs.expandBlocks, sc.blocks, 2*s.kind.size()
	}
	for g, steps := 0, groups(m.k); g < steps; g += pairColumns / groupColumns {
		size := min(steps-g, pairColumns/groupColumns)
		expand(sc.pairs.weights, data[g*group:][:size*group], size)
		// What is prefetched is as far ahead as a part of a tile, or, where the tile has
		// been read as a whole, as a tile.
		at, last := tile*m.tile+(g+size)*group, g+size == steps
		if m.format != Q8 {
			at = next*m.tile + g*m.tile/steps
		} else if last {
			at = next * m.tile
		}
		if last {
			j.pairPasses(&sc.pairs, g, size, at, n, out, bias)
		} else {
			j.pairPasses(&sc.pairs, g, size, at, n, out, nil)
		}
	}
	if columns < rowsPerTile {
		for r := range n {
			copy(y.data[r*y.stride:][:columns], out.data[r*rowsPerTile:])
		}
	}
}

// pairPasses multiplies rows with the weights in sc, which are n groups from g on, and has
// the tile's memory from ahead on prefetched.
func (j *productJob) pairPasses(sc *pairScratch, g, n, ahead, rows int, y view, bias []float32) {
	k := j.d.impl.pairs.dot
	w, x, ldx := sc.weights[:2*n*pairBlock], sc.rows[2*g*pairRow:], 2*groups(j.m.k)*pairRow
	ahead = distance(w, j.m.data, ahead)
	first := 0
	if g == 0 {
		first = 1
	}
	for r := 0; r < rows; {
		m := min(len(k)-1, rows-r)
		passes := (rows - r) / m
		end := r + m*passes - 1 // the last row; slices end where it does
		k[m](w, 2*n, x[r*ldx:end*ldx+2*n*pairRow], ldx, passes, y.data[r*y.stride:end*y.stride+rowsPerTile], y.stride, bias, first, ahead)
		r = end + 1
	}
}
