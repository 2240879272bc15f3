package main

import (
	"fmt"
	"log"
)

// Kernels of impl.dot for arm64: rows of int8 by tiles of 8 or 4 bits.

// neonDot is the state of one kernel: m rows of x by the 16 rows of a tile.
//
// SDOT multiplies signed bytes, USDOT bytes without sign by signed ones. Weights
// are stored without sign: 8 bits plus 128, 4 bits plus 8. SDOT gets weights of 8
// bits after their highest bit has been flipped, which subtracts 128. Otherwise the
// offset stays, and the row's correction, -128 times the sum of its numbers, takes
// its share of the result back.
type neonDot struct {
	*nProduct // whose sums are the results
	format    string
	usdot     bool
	ints      [][]v // [part][row] sums of integers
	constant  v     // what the weights of a line are combined with
	taken     v     // vector registers in use
}

func (n *neon) dotKernel(format string, usdot bool, m int) *neonDot {
	return &neonDot{nProduct: &nProduct{neon: n, m: m}, format: format, usdot: usdot}
}

// take reserves the next free registers.
func (d *neonDot) take(count int) []v {
	list := make([]v, count)
	for i := range list {
		list[i] = d.taken
		d.taken++
	}
	if d.taken > 32 {
		log.Fatal("no register left")
	}
	return list
}

// takeSums reserves a register for each part of a column and each row.
func (d *neonDot) takeSums() [][]v {
	sums := make([][]v, nParts)
	for i := range sums {
		sums[i] = d.take(d.m)
	}
	return sums
}

// takeOperands reserves registers for a line of weights, the constant and x.
func (d *neonDot) takeOperands() {
	copy(d.w[:], d.take(nParts))
	d.constant = d.take(1)[0]
	d.x = d.take(d.m)
}

func (d *neonDot) four() bool { return d.format == "Q4" }

// unsigned reports whether weights are multiplied without sign, as they are
// stored.
func (d *neonDot) unsigned() bool { return d.usdot && !d.four() }

// corrected reports whether the weights' offset is still in the products.
func (d *neonDot) corrected() bool { return d.usdot || d.four() }

// perGroup says what a turn of the loop over columns does.
type perGroup struct {
	weights, row int // bytes of a group
	multiply     func()
	finish       func() // after the last group of a tile
}

// write emits the kernel: it goes through the tiles of a call and, for each, through
// its groups of columns.
func (d *neonDot) write(name string, g perGroup) {
	n := d.neon
	n.function(name, "(w []byte, offs, ahead []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)", 168,
		fmt.Sprintf("impl.dot for %s and %d rows of x", d.format, d.m))
	n.arguments([]argument{{"offs_base", 24, nOffs}, {"offs_len", 32, nLeft}, {"ahead_base", 48, nAheads}, {"w_base", 0, nBase}, {"n", 72, nK},
		{"x_base", 80, nX}, {"ldx", 104, nStep}, {"y_base", 112, nOut}, {"ldy", 136, nOutStep}, {"bias_base", 144, nBias}})
	n.op("LSL $2, R%d, R%d", nOutStep, nOutStep)
	n.op("CBZ R%d, end", nLeft)
	switch {
	case d.four():
		n.movi(d.constant, 15)
	case !d.usdot:
		n.movi(d.constant, 128)
	}
	n.label("tile")
	d.locate()
	d.rewind()
	for _, part := range d.acc[0] {
		n.zero(part...)
	}
	n.op("MOVD R%d, R%d", nK, nPairs)
	n.op("CBZ R%d, sum", nPairs)
	n.loop("loop", func() {
		g.multiply()
		n.op("ADD $%d, R%d, R%d", g.weights, nTile, nTile)
		n.op("ADD $%d, R%d, R%d", g.weights, nAhead, nAhead)
		for r := range d.m {
			n.op("ADD $%d, R%d, R%d", g.row, nRow+r, nRow+r)
		}
	})
	n.label("sum")
	g.finish()
	n.addBias(d.acc[0], d.w[0])
	d.store()
	n.nextTile()
	n.label("end")
	n.end()
}

// loadX loads 16 columns of each row.
func (d *neonDot) loadX(off int) {
	for r, x := range d.x {
		d.ldrQ(x, nRow+r, off)
	}
}

// loadWeights loads four columns of the tile's 16 rows: one line of 8 bits, or the
// lower or upper halves of a line of 4 bits.
func (d *neonDot) loadWeights(off int, upper bool) {
	for i, w := range d.w {
		d.ldrQ(w, nTile, off+i*16)
		switch {
		case d.four() && upper:
			d.ushrB(w, w, 4)
		case d.four():
			d.and(w, w, d.constant)
		case !d.usdot:
			d.eor(w, w, d.constant)
		}
	}
}

// addProducts adds the products of the loaded weights with columns 4j to 4j+3 of x.
func (d *neonDot) addProducts(j int) {
	for r, x := range d.x {
		for i, w := range d.w {
			if d.unsigned() {
				d.usdotLane(d.ints[i][r], w, x, j)
			} else {
				d.sdotLane(d.ints[i][r], w, x, j)
			}
		}
	}
}

// dot is impl.dot of a format with blocks of 32 columns.
func (n *neon) dot(format string, usdot bool, m int, name string) {
	d := n.dotKernel(format, usdot, m)
	d.acc[0], d.ints = d.takeSums(), d.takeSums()
	d.takeOperands()
	lines := 8 // of a block's weights
	if d.four() {
		lines = 4
	}
	size := groupScales + 2*lines*line
	d.write(name, perGroup{weights: size, row: groupRow, finish: func() {}, multiply: func() {
		for off := 0; off < size; off += line {
			n.prefetch(nAhead, off)
		}
		for b := range 2 {
			d.startBlock(b)
			for half := range 2 { // 16 columns each
				d.loadX(rowData + b*32 + half*16)
				for j := range 4 {
					l := b*lines + j
					if !d.four() {
						l += half * 4
					}
					d.loadWeights(groupScales+l*line, half == 1)
					d.addProducts(j)
				}
			}
			d.scaleBlock(b)
		}
	}})
}

// startBlock sets the sums of integers to what block b of each row starts from.
func (d *neonDot) startBlock(b int) {
	for r, x := range d.x {
		if d.corrected() {
			d.ldrS(x, nRow+r, b*4)
			if d.four() { // -8 times the row's sum, not -128 times
				d.sshr(x, x, 4)
			}
		}
		for i := range nParts {
			if d.corrected() {
				d.dup(d.ints[i][r], x, 0)
			} else {
				d.zero(d.ints[i][r])
			}
		}
	}
}

// scaleBlock adds block b's sums of integers, scaled, to the results.
func (d *neonDot) scaleBlock(b int) {
	w := d.w
	for i := 0; i < nParts; i += 2 {
		d.ldrQ(w[i], nTile, b*32+i*8)
		d.fcvtl(w[i+1], w[i], true)
		d.fcvtl(w[i], w[i], false)
	}
	for r, x := range d.x {
		d.ldrS(x, nRow+r, 8+b*4)
		for i := range nParts {
			a := d.ints[i][r]
			d.scvtf(a, a)
			d.fmulLane(a, a, x, 0)
			d.fmla(d.acc[0][i][r], a, w[i])
		}
	}
}

// dotWhole is impl.dot of W8A8, whose scales come after all columns.
func (n *neon) dotWhole(usdot bool, m int, name string) {
	d := n.dotKernel("W8A8", usdot, m)
	d.ints = d.takeSums()
	d.acc[0] = d.ints
	d.takeOperands()
	d.write(name, perGroup{weights: 16 * line, row: 64, finish: d.scaleRows, multiply: func() {
		for quarter := range 4 { // 16 columns each
			d.loadX(quarter * 16)
			for j := range 4 {
				off := (quarter*4 + j) * line
				n.prefetch(nAhead, off)
				d.loadWeights(off, false)
				d.addProducts(j)
			}
		}
	}})
}

// scaleRows multiplies the sums of integers by the scales of the tile's rows and of
// x.
func (d *neonDot) scaleRows() {
	for i, w := range d.w {
		d.ldrQ(w, nTile, i*16)
	}
	for r, x := range d.x {
		if d.corrected() {
			d.ldrS(d.constant, nRow+r, 0)
			d.dup(d.constant, d.constant, 0)
			for i := range nParts {
				d.add(d.ints[i][r], d.ints[i][r], d.constant)
			}
		}
		d.ldrS(x, nRow+r, 4)
		for i, w := range d.w {
			a := d.ints[i][r]
			d.scvtf(a, a)
			d.fmulLane(a, a, x, 0)
			d.fmul(a, a, w)
		}
	}
}
