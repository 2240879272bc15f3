package main

import (
	"fmt"
	"log"
)

const (
	nLanes = 4                 // float32 in a vector
	nParts = tileRows / nLanes // vectors of a column
	// Rows of x in one kernel: as many as leave registers for a column. Matrix
	// products keep two chains of sums, attention one.
	nMulRows, nDotRows, nAttendRows = 3, 3, 4
)

// nProduct is the state of one kernel: m rows of x by 16 rows of a tile.
type nProduct struct {
	*neon
	el     element
	m      int
	chains int
	acc    [2][][]v // [chain][part][row]; one chain: both are the same
	w      [nParts]v
	x      []v // [row] two columns of a row
	mask   v   // BF16: the upper half of a lane
}

func (n *neon) product(el element, m, chains int) *nProduct {
	p := &nProduct{neon: n, el: el, m: m, chains: chains}
	next := v(0)
	take := func() v {
		next++
		if next > 32 {
			log.Fatal("no register left")
		}
		return next - 1
	}
	for c := range chains {
		for range nParts {
			part := make([]v, m)
			for r := range part {
				part[r] = take()
			}
			p.acc[c] = append(p.acc[c], part)
		}
	}
	if chains == 1 {
		p.acc[1] = p.acc[0]
	}
	for i := range p.w {
		p.w[i] = take()
	}
	for range m {
		p.x = append(p.x, take())
	}
	if el.name == "BF16" {
		p.mask = take()
		n.op("MOVD $0xffff0000, R%d", nTemp)
		n.dupW(p.mask, nTemp)
	}
	return p
}

func (p *nProduct) clear() {
	for c := range p.chains {
		for _, part := range p.acc[c] {
			p.zero(part...)
		}
	}
}

// rewind points to column 0 of the rows.
func (p *nProduct) rewind() {
	p.op("MOVD R%d, R%d", nX, nRow)
	for r := 1; r < p.m; r++ {
		p.op("ADD R%d, R%d, R%d", nStep, nRow+r-1, nRow+r)
	}
}

func (p *nProduct) advance(pairs int) {
	p.op("ADD $%d, R%d, R%d", pairs*p.el.pair, nTile, nTile)
	p.op("ADD $%d, R%d, R%d", pairs*p.el.pair, nAhead, nAhead)
	for r := range p.m {
		p.op("ADD $%d, R%d, R%d", pairs*8, nRow+r, nRow+r)
	}
}

// column loads column parity of the pair at off, widened.
func (p *nProduct) column(off, parity int) {
	switch p.el.name {
	case "F32":
		for i, w := range p.w {
			p.ldrQ(w, nTile, off+parity*line+i*16)
		}
	case "F16":
		for i := 0; i < nParts; i += 2 {
			p.ldrQ(p.w[i], nTile, off+parity*line/2+i*8)
			p.fcvtl(p.w[i+1], p.w[i], true)
			p.fcvtl(p.w[i], p.w[i], false)
		}
	default:
		for i, w := range p.w {
			p.ldrQ(w, nTile, off+i*16)
			if parity == 0 {
				p.shl(w, w, 16)
			} else {
				p.and(w, w, p.mask)
			}
		}
	}
}

// pair multiplies pair u, relative to tile, or only the even column of it.
func (p *nProduct) pair(u int, odd bool) {
	off := u * p.el.pair
	for l := 0; l < p.el.pair; l += line {
		p.prefetch(nAhead, off+l)
	}
	for r, x := range p.x {
		if odd {
			p.ldrD(x, nRow+r, u*8)
		} else {
			p.ldrS(x, nRow+r, u*8)
		}
	}
	for parity := range 2 {
		if parity == 1 && !odd {
			break
		}
		p.column(off, parity)
		for r, x := range p.x {
			for i, w := range p.w {
				p.fmlaLane(p.acc[parity][i][r], w, x, parity)
			}
		}
	}
}

// unroll is the number of pairs in a turn of a loop, a power of two.
func (p *nProduct) unroll() int { return 4 / (1 + p.m/3) }

// locate points tile and ahead to where the next entries of the lists say.
func (p *nProduct) locate() {
	p.op("MOVD.P 8(R%d), R%d", nOffs, nTile)
	p.op("ADD R%d, R%d, R%d", nBase, nTile, nTile)
	p.op("MOVD.P 8(R%d), R%d", nAheads, nAhead)
	p.op("ADD R%d, R%d, R%d", nBase, nAhead, nAhead)
}

// rest multiplies pairs in the counter, and a single column if the number of
// columns in the register is odd.
func (p *nProduct) rest(columns int) {
	p.op("CBZ R%d, odd", nPairs)
	p.loop("rest", func() { p.pair(0, true); p.advance(1) })
	p.label("odd")
	p.op("TBZ $0, R%d, sum", columns)
	p.pair(0, false)
	p.label("sum")
}

// store writes the rows of acc[0] to out.
func (p *nProduct) store() {
	p.op("MOVD R%d, R%d", nOut, nTemp)
	for r := range p.m {
		for i := range nParts {
			p.strQ(p.acc[0][i][r], nTemp, i*16)
		}
		if r+1 < p.m {
			p.op("ADD R%d, R%d, R%d", nOutStep, nTemp, nTemp)
		}
	}
}

// columns multiplies all columns of a tile.
func (p *nProduct) columns() {
	u := p.unroll()
	p.op("LSR $%d, R%d, R%d", log2(2*u), nK, nPairs)
	p.op("CBZ R%d, short", nPairs)
	p.loop("loop", func() {
		for i := range u {
			p.pair(i, true)
		}
		p.advance(u)
	})
	p.label("short")
	p.op("LSR $1, R%d, R%d", nK, nPairs)
	p.op("AND $%d, R%d, R%d", u-1, nPairs, nPairs)
	p.rest(nK)
}

func (n *neon) mul(el element, m int, name string) {
	n.function(name, "(w []byte, offs, ahead []int, k int, x []float32, ldx int, y []float32, ldy int, bias []float32)", 168,
		fmt.Sprintf("impl.mul for tiles of %s and %d rows of x", el.name, m))
	p := n.product(el, m, 2)
	n.arguments([]argument{{"offs_base", 24, nOffs}, {"offs_len", 32, nLeft}, {"ahead_base", 48, nAheads}, {"w_base", 0, nBase}, {"k", 72, nK},
		{"x_base", 80, nX}, {"ldx", 104, nStep}, {"y_base", 112, nOut}, {"ldy", 136, nOutStep}, {"bias_base", 144, nBias}})
	n.op("LSL $2, R%d, R%d", nStep, nStep)
	n.op("LSL $2, R%d, R%d", nOutStep, nOutStep)
	n.op("CBZ R%d, end", nLeft)
	n.label("tile")
	p.locate()
	p.rewind()
	p.clear()
	p.columns()
	for i, part := range p.acc[0] {
		for r, a := range part {
			n.fadd(a, a, p.acc[1][i][r])
		}
	}
	n.addBias(p.acc[0], p.w[0])
	p.store()
	n.nextTile()
	n.label("end")
	n.end()
}

// scores is dotKernels.scores.
func (n *neon) scores(el element, m int, name string) {
	n.function(name, "(kv []byte, offs []int, ahead int, k int, x []float32, ldx int, y []float32, ldy int)", 128,
		fmt.Sprintf("dotKernels.scores of %s for %d rows", el.name, m))
	p := n.product(el, m, 1)
	n.arguments([]argument{{"offs_base", 24, nOffs}, {"offs_len", 32, nLeft}, {"ahead", 48, nAheads}, {"kv_base", 0, nBase}, {"k", 56, nK},
		{"x_base", 64, nX}, {"ldx", 88, nStep}, {"y_base", 96, nOut}, {"ldy", 120, nOutStep}})
	n.op("LSL $2, R%d, R%d", nStep, nStep)
	n.op("LSL $2, R%d, R%d", nOutStep, nOutStep)
	n.op("CBZ R%d, end", nLeft)
	n.label("tile")
	n.op("MOVD.P 8(R%d), R%d", nOffs, nTile)
	n.op("ADD R%d, R%d, R%d", nBase, nTile, nTile)
	n.op("ADD R%d, R%d, R%d", nAheads, nTile, nAhead)
	p.rewind()
	p.clear()
	p.columns()
	p.store()
	n.nextTile()
	n.label("end")
	n.end()
}

// values is dotKernels.values.
func (n *neon) values(el element, m int, name string) {
	const block = tileRows / 2 // pairs of a unit
	n.function(name, "(kv []byte, offs, ahead []int, n int, x []float32, ldx int, y []float32, ldy int)", 144,
		fmt.Sprintf("dotKernels.value of %s for %d rows", el.name, m))
	p := n.product(el, m, 1)
	n.arguments([]argument{{"offs_base", 24, nOffs}, {"ahead_base", 48, nAheads}, {"kv_base", 0, nBase}, {"n", 72, nK},
		{"x_base", 80, nX}, {"ldx", 104, nStep}, {"y_base", 112, nOut}, {"ldy", 136, nOutStep}})
	n.op("LSL $2, R%d, R%d", nStep, nStep)
	n.op("LSL $2, R%d, R%d", nOutStep, nOutStep)
	p.rewind()
	p.clear()
	n.op("LSR $4, R%d, R%d", nK, nLeft)
	n.op("CBZ R%d, last", nLeft)
	n.label("tile")
	p.locate()
	u := p.unroll()
	n.op("MOVD $%d, R%d", block/u, nPairs)
	n.loop("loop", func() {
		for i := range u {
			p.pair(i, true)
		}
		p.advance(u)
	})
	n.op("SUB $1, R%d, R%d", nLeft, nLeft)
	n.op("CBNZ R%d, tile", nLeft)
	n.label("last")
	n.op("AND $15, R%d, R%d", nK, nPairs)
	n.op("CBZ R%d, sum", nPairs)
	p.locate()
	n.op("LSR $1, R%d, R%d", nPairs, nPairs)
	p.rest(nK)
	p.store()
	n.end()
}
