package main

import "fmt"

// An element is how a tile stores numbers; names are those of cpu.Format.
type element struct {
	name string
	pair int // bytes of 16 rows by 2 columns
}

var elements = []element{{"F32", 128}, {"F16", 64}, {"BF16", 64}}

const (
	tileRows = 16
	line     = 64
)

// Registers of the products. R14 (g) and BP are free for ABI0 functions only as
// far as the wrapper restores them: R14 is.
const (
	tile    = "DI"  // the current pair of columns
	ahead   = "R8"  // the same place in the memory to prefetch
	pairs   = "CX"  // counter
	stride  = "R9"  // of x, in bytes
	out     = "DX"  // y
	outStep = "BX"  // its stride, in bytes
	offset  = "R13" // *int: the current tile's offset
	left    = "R14" // tiles left
	biasPtr = "R15"
	temp    = "AX"
)

// bases hold x of rows 0, 3, 6 and 9; the rows between are reached by an index
// register, which counts once or twice.
var bases = []string{"SI", "R10", "R11", "R12"}

// product is the state of one kernel: m rows of x by 16 rows of a tile.
type product struct {
	*gen
	el   element
	m    int
	acc  [2][][]vec // [parity of k][part of the 16 rows][row of x]
	w    []vec      // the tile's widened columns, a part each
	w2   []vec      // AVX-512: those of odd k
	x    vec        // AVX2: x of one row, broadcast
	mask vec        // BF16: the upper half of a lane
}

func (g *gen) products() {
	fmt.Fprintf(g.tables, "var mul%s = [BF16 + 1][]mulFunc{\n", g.suffix)
	for _, el := range elements {
		fmt.Fprintf(g.tables, "%s: {nil", el.name)
		for m := 1; m <= g.rows; m++ {
			name := fmt.Sprintf("mul%sx%d", el.name, m)
			fmt.Fprintf(g.tables, ", %s%s", name, g.suffix)
			g.mul(el, m, name)
		}
		fmt.Fprintf(g.tables, "},\n")
	}
	fmt.Fprintf(g.tables, "}\n\n")
}

// start allocates registers and loads what stays in them.
func (g *gen) start(el element, m int) *product {
	p := &product{gen: g, el: el, m: m}
	parts := tileRows / g.lanes
	for i := range p.acc {
		for range parts {
			p.acc[i] = append(p.acc[i], g.vecs(m))
		}
	}
	p.w = g.vecs(parts)
	if g.isa == avx512 {
		p.w2 = g.vecs(parts)
	} else {
		p.x = g.vec()
	}
	g.op("MOVQ", arg("offs_base", 24), offset)
	g.op("MOVQ", arg("ldx", 104), stride)
	g.op("SHLQ", "$2", stride)
	g.op("MOVQ", arg("y_base", 112), out)
	g.op("MOVQ", arg("ldy", 136), outStep)
	g.op("SHLQ", "$2", outStep)
	if el.name == "BF16" {
		p.mask = g.vec()
		g.op("MOVL", "$0xffff0000", temp)
		if g.isa == avx512 {
			g.op("VPBROADCASTD", temp, p.mask)
		} else {
			g.op("VMOVD", temp, p.mask.x())
			g.op("VPBROADCASTD", p.mask.x(), p.mask)
		}
	}
	return p
}

// rewind points the bases to column 0 of their rows.
func (p *product) rewind() {
	p.op("MOVQ", arg("x_base", 80), bases[0])
	for i := 1; i*3 < p.m; i++ {
		if i == 1 {
			p.op("LEAQ", fmt.Sprintf("(%s)(%s*2)", stride, stride), temp)
		}
		p.op("LEAQ", fmt.Sprintf("(%s)(%s*1)", bases[i-1], temp), bases[i])
	}
}

// advance moves on by n pairs of columns.
func (p *product) advance(n int) {
	p.op("ADDQ", fmt.Sprint("$", n*p.el.pair), tile)
	p.op("ADDQ", fmt.Sprint("$", n*p.el.pair), ahead)
	for i := 0; i*3 < p.m; i++ {
		p.op("ADDQ", fmt.Sprint("$", n*2*4), bases[i])
	}
}

// input is the operand of column k, relative to the bases, of row m of x.
func (p *product) input(m, k int) string {
	a := at(k*4, bases[m/3])
	if i := m % 3; i > 0 {
		a += fmt.Sprintf("(%s*%d)", stride, i)
	}
	return a
}

// pair multiplies pair u, relative to tile, or only the even column of it.
func (p *product) pair(u int, odd bool) {
	off := u * p.el.pair
	for l := 0; l < p.el.pair; l += line {
		p.op("PREFETCHT1", at(off+l, ahead))
	}
	if p.isa == avx512 {
		p.pair512(u, off, odd)
		return
	}
	for parity := range 2 {
		if parity == 1 && !odd {
			break
		}
		for i, w := range p.w {
			switch p.el.name {
			case "F32":
				p.op("VMOVUPS", at(off+parity*line+i*32, tile), w)
			case "F16":
				p.op("VCVTPH2PS", at(off+parity*line/2+i*16, tile), w)
			default:
				if parity == 0 {
					p.op("VMOVDQU", at(off+i*32, tile), w)
					p.op("VPSLLD", "$16", w, w)
				} else {
					p.op("VPAND", at(off+i*32, tile), p.mask, w)
				}
			}
		}
		for m := range p.m {
			p.op("VBROADCASTSS", p.input(m, 2*u+parity), p.x)
			for i, w := range p.w {
				p.op("VFMADD231PS", p.x, w, p.acc[parity][i][m])
			}
		}
	}
}

func (p *product) pair512(u, off int, odd bool) {
	even, upper := p.w[0], p.w2[0]
	switch p.el.name {
	case "F32":
		p.op("VMOVUPS", at(off, tile), even)
		if odd {
			p.op("VMOVUPS", at(off+line, tile), upper)
		}
	case "F16":
		p.op("VCVTPH2PS", at(off, tile), even)
		if odd {
			p.op("VCVTPH2PS", at(off+line/2, tile), upper)
		}
	default:
		p.op("VMOVDQU32", at(off, tile), upper)
		p.op("VPSLLD", "$16", upper, even)
		if odd {
			p.op("VPANDD", p.mask, upper, upper)
		}
	}
	for m := range p.m {
		p.op("VFMADD231PS.BCST", p.input(m, 2*u), even, p.acc[0][0][m])
	}
	if odd {
		for m := range p.m {
			p.op("VFMADD231PS.BCST", p.input(m, 2*u+1), upper, p.acc[1][0][m])
		}
	}
}

// unroll is the number of pairs per turn of a loop: a power of two, and fewer
// where a pair is many instructions.
func (p *product) unroll() int {
	switch n := p.m * len(p.w); {
	case n <= 2:
		return 8
	case n <= 6:
		return 4
	}
	return 2
}

func (p *product) clear() {
	for _, parity := range p.acc {
		for _, part := range parity {
			p.zero(part...)
		}
	}
}

// claim has the lines of the result fetched for writing while they are being
// computed. Stores reach the cache in order: twelve that miss it, one after the
// other, take as long as the product of a thousand columns.
func (p *product) claim() {
	p.op("MOVQ", out, temp)
	for r := range p.m {
		// Go's assembler does not know PREFETCHW (AX), which is 0F 0D /1.
		p.raw("\tBYTE $0x0f; BYTE $0x0d; BYTE $0x08 // PREFETCHW (%s)\n", temp)
		if r+1 < p.m {
			p.op("ADDQ", outStep, temp)
		}
	}
}

// addChains leaves the results in acc[0].
func (p *product) addChains() {
	for i, part := range p.acc[0] {
		for m, a := range part {
			p.op("VADDPS", p.acc[1][i][m], a, a)
		}
	}
}

// store writes the results to out.
func (p *product) store() {
	p.op("MOVQ", out, temp)
	for m := range p.m {
		for i, part := range p.acc[0] {
			p.op("VMOVUPS", part[m], at(i*p.lanes*4, temp))
		}
		if m+1 < p.m {
			p.op("ADDQ", outStep, temp)
		}
	}
}

// locate points tile and ahead to where the current entries of offs and ahead
// say.
func (p *product) locate() {
	p.op("MOVQ", arg("w_base", 0), tile)
	p.op("MOVQ", offset, temp)
	p.op("SUBQ", arg("offs_base", 24), temp)
	p.op("ADDQ", arg("ahead_base", 48), temp)
	p.op("MOVQ", at(0, temp), ahead)
	p.op("ADDQ", tile, ahead)
	p.op("ADDQ", at(0, offset), tile)
}

// rest multiplies the columns that the unrolled loop leaves: pairs in CX, whose
// flags are set, and then a single one if bit 0 of the argument is set.
func (p *product) rest(n string) {
	p.op("JEQ", "odd")
	p.label("rest")
	p.pair(0, true)
	p.advance(1)
	p.op("DECQ", pairs)
	p.op("JNE", "rest")
	p.label("odd")
	p.op("MOVQ", n, pairs)
	p.op("TESTQ", "$1", pairs)
	p.op("JEQ", "sum")
	p.pair(0, false)
	p.label("sum")
}

func (g *gen) mul(el element, m int, name string) {
	const k, frame = "k+72(FP)", 168
	g.function(name, "(w []byte, offs, ahead []int, k int, x []float32, ldx int, y []float32, ldy int, bias []float32)", frame,
		fmt.Sprintf("impl.mul for tiles of %s and %d rows of x", el.name, m))
	p := g.start(el, m)
	u := p.unroll()
	g.op("MOVQ", arg("offs_len", 32), left)
	g.op("TESTQ", left, left)
	g.op("JEQ", "end")
	g.op("MOVQ", arg("bias_base", 144), biasPtr)

	g.label("tile")
	p.locate()
	p.rewind()
	p.claim()
	p.clear()
	g.op("MOVQ", k, pairs)
	g.op("SHRQ", fmt.Sprint("$", log2(2*u)), pairs)
	g.op("JEQ", "short")
	g.label("loop")
	for i := range u {
		p.pair(i, true)
	}
	p.advance(u)
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("short")
	g.op("MOVQ", k, pairs)
	g.op("SHRQ", "$1", pairs)
	g.op("ANDQ", fmt.Sprint("$", u-1), pairs)
	p.rest(k)

	p.finish()
}

// finish adds the bias to the sums of a tile, stores them, and goes on to the next tile.
func (p *product) finish() {
	g := p.gen
	p.addChains()
	g.op("TESTQ", biasPtr, biasPtr)
	g.op("JEQ", "store")
	for i := range p.acc[0] {
		g.op("VMOVUPS", at(i*g.lanes*4, biasPtr), p.w[0])
		for _, a := range p.acc[0][i] {
			g.op("VADDPS", p.w[0], a, a)
		}
	}
	g.op("ADDQ", fmt.Sprint("$", tileRows*4), biasPtr)
	g.label("store")
	p.store()
	g.op("ADDQ", fmt.Sprint("$", tileRows*4), out)
	g.op("ADDQ", "$8", offset)
	g.op("DECQ", left)
	g.op("JNE", "tile")
	g.label("end")
	g.end()
}

func log2(n int) int {
	i := 0
	for 1<<i < n {
		i++
	}
	return i
}
