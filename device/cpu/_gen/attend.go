package main

import "fmt"

// A dotElement is how attention multiplies numbers of the cache with rows. All
// of them go by four columns at a time, a quad.
type dotElement struct {
	name string // of the kernels
	quad int    // bytes of 16 rows by 4 columns in the cache
	x    int    // bytes of 4 columns of a row of x
	cols int    // multiplications per quad: 4 of one column each, or 2 of a pair
}

var (
	dotF32  = &dotElement{"F32", 256, 16, 4}
	dotF16  = &dotElement{"F16", 128, 16, 4}
	dotBF16 = &dotElement{"BF16", 128, 16, 4}
	// dotInt8 multiplies in integers of 16 bits, exactly: VPMADDWD adds two
	// products of 8 by 16 bits.
	dotInt8 = &dotElement{"Int8", 64, 8, 2}
	// dotVNNI is the same with the addition in one instruction.
	dotVNNI = &dotElement{"VNNI", 64, 8, 2}
	// dotBytes multiplies keys and queries of 8 bits, four columns in one
	// instruction. Keys are 128 too great, because one factor has no sign; after
	// the columns of a query is what that adds, negated.
	dotBytes = &dotElement{"Bytes", 64, 4, 1}
	// dotPairs multiplies bfloat16 with bfloat16, two columns in one instruction.
	dotPairs = &dotElement{"Pairs", 128, 8, 2}
)

func (el *dotElement) integer() bool { return el == dotInt8 || el == dotVNNI || el == dotBytes }

// ofScores is the element of the scores that go with the values of el.
func (el *dotElement) ofScores() *dotElement {
	if el == dotVNNI {
		return dotBytes
	}
	return el
}

// dots is the state of one kernel of attention: m rows of x by t tiles, one
// chain of additions for each result, so that neither m nor t can matter.
type dots struct {
	*gen
	el   *dotElement
	m, t int
	acc  [][][]vec // [tile][half of the 16 rows][row of x]
	w    [][]vec   // [tile][half]
	x    vec       // one row of x, broadcast
	sum  vec       // Int8: products before they are added
	mask vec       // BF16: the upper half of a lane; Pairs: the lower
}

// Registers of attention's kernels, beside bases and stride. tiles are also the
// places in y at the end.
var dotTiles = []string{"DI", "R8", "DX", "BX"}

const dotAhead = "R15"

func (g *gen) dotElements() []*dotElement {
	if g.isa == avx512 {
		return []*dotElement{dotF32, dotF16, dotBF16, dotInt8, dotVNNI, dotPairs}
	}
	return []*dotElement{dotF32, dotF16, dotBF16, dotInt8}
}

// dotRows is the most rows of x in one kernel.
func (g *gen) dotRows() int {
	if g.isa == avx512 {
		return 12
	}
	return 6
}

// dotTile is how many tiles a kernel of m rows takes at once: with few rows
// there would be too few chains to keep the multipliers busy.
func (g *gen) dotTile(m int) int {
	switch {
	case g.isa != avx512:
		return 1
	case m <= 6:
		return 4
	}
	return 2
}

func (g *gen) attention() {
	for _, el := range g.dotElements() {
		for m := 1; m <= g.dotRows(); m++ {
			g.scores(el.ofScores(), m, g.dotTile(m))
			for t := g.dotTile(m); ; t = 1 {
				g.values(el, m, t)
				if t == 1 {
					break
				}
			}
		}
		g.dotTable(el)
	}
	g.expSum()
	g.expSumScaled()
	g.absMax()
	g.toInt16()
	if g.isa == avx512 {
		g.toPairs()
		g.toInt8()
	}
	g.prefetch()
	fmt.Fprintf(g.tables, "var attention%s = attention{\n", g.suffix)
	fmt.Fprintf(g.tables, "dots: [Int8 + 1]dotKernels{")
	for _, el := range []*dotElement{dotF32, dotF16, dotBF16, dotInt8} {
		fmt.Fprintf(g.tables, "%s: dots%s%s, ", el.name, el.name, g.suffix)
	}
	fmt.Fprintf(g.tables, "},\n")
	for _, f := range []string{"expSum", "expSumScaled", "absMax", "toInt16", "prefetch"} {
		fmt.Fprintf(g.tables, "%s: %s%s,\n", f, f, g.suffix)
	}
	fmt.Fprintf(g.tables, "}\n\n")
}

// dotTable writes the table of an element's kernels.
func (g *gen) dotTable(el *dotElement) {
	fmt.Fprintf(g.tables, "var dots%s%s = dotKernels{\n", el.name, g.suffix)
	switch el {
	case dotPairs:
		fmt.Fprintf(g.tables, "pairs: true,\n")
	case dotVNNI:
		fmt.Fprintf(g.tables, "bytes: true,\n")
	}
	fmt.Fprintf(g.tables, "tiles: []int{0")
	for m := 1; m <= g.dotRows(); m++ {
		fmt.Fprintf(g.tables, ", %d", g.dotTile(m))
	}
	fmt.Fprintf(g.tables, "},\nscores: []scoresFunc{nil")
	for m := 1; m <= g.dotRows(); m++ {
		fmt.Fprintf(g.tables, ", scores%sx%d%s", el.ofScores().name, m, g.suffix)
	}
	for _, one := range []bool{false, true} {
		if one {
			fmt.Fprintf(g.tables, "},\nvalue: []valuesFunc{nil")
		} else {
			fmt.Fprintf(g.tables, "},\nvalues: []valuesFunc{nil")
		}
		for m := 1; m <= g.dotRows(); m++ {
			t := g.dotTile(m)
			if one {
				t = 1
			}
			fmt.Fprintf(g.tables, ", values%sx%dt%d%s", el.name, m, t, g.suffix)
		}
	}
	fmt.Fprintf(g.tables, "},\n}\n\n")
}

func (g *gen) halves() int { return tileRows / g.lanes }

// startDots allocates registers and loads what stays in them.
func (g *gen) startDots(el *dotElement, m, t, ldx int) *dots {
	d := &dots{gen: g, el: el, m: m, t: t}
	for range t {
		var halves [][]vec
		for range g.halves() {
			halves = append(halves, g.vecs(m))
		}
		d.acc = append(d.acc, halves)
		d.w = append(d.w, g.vecs(g.halves()))
	}
	d.x = g.vec()
	switch el {
	case dotInt8:
		d.sum = g.vec()
	case dotBF16, dotPairs:
		d.mask = g.vec()
		half := "$0xffff0000"
		if el == dotPairs {
			half = "$0x0000ffff"
		}
		g.op("MOVL", half, temp)
		if g.isa == avx512 {
			g.op("VPBROADCASTD", temp, d.mask)
		} else {
			g.op("VMOVD", temp, d.mask.x())
			g.op("VPBROADCASTD", d.mask.x(), d.mask)
		}
	}
	g.op("MOVQ", arg("ldx", ldx), stride)
	g.op("SHLQ", "$2", stride)
	return d
}

func (d *dots) rewind(x int) {
	d.op("MOVQ", arg("x_base", x), bases[0])
	for i := 1; i*3 < d.m; i++ {
		if i == 1 {
			d.op("LEAQ", fmt.Sprintf("(%s)(%s*2)", stride, stride), temp)
		}
		d.op("LEAQ", fmt.Sprintf("(%s)(%s*1)", bases[i-1], temp), bases[i])
	}
}

// input is the operand of word i of row m of x, relative to the bases.
func (d *dots) input(m, i int) string {
	a := at(i*4, bases[m/3])
	if i := m % 3; i > 0 {
		a += fmt.Sprintf("(%s*%d)", stride, i)
	}
	return a
}

func (d *dots) clear() {
	for _, tile := range d.acc {
		for _, half := range tile {
			d.zero(half...)
		}
	}
}

// load puts step c of the quad at mem(off) into w, the given half of the rows.
func (d *dots) load(mem func(off int) string, c, h int, w vec) {
	switch d.el {
	case dotF32:
		d.op("VMOVUPS", mem(c*line+h*32), w)
	case dotF16:
		d.op("VCVTPH2PS", mem(c*line/2+h*16), w)
	case dotBF16:
		src := mem(c/2*line + h*32)
		switch {
		case c%2 == 1 && d.isa == avx512:
			d.op("VPANDD", src, d.mask, w)
		case c%2 == 1:
			d.op("VPAND", src, d.mask, w)
		default:
			d.shift("VPSLLD", 16, src, w)
		}
	case dotPairs, dotBytes:
		d.op("VMOVDQU32", mem(c*line), w)
	default: // bytes 0 and 2 of each lane, then 1 and 3, as 16 bits
		if c == 0 {
			d.shift("VPSLLW", 8, mem(h*32), w)
			d.op("VPSRAW", "$8", w, w)
		} else {
			d.shift("VPSRAW", 8, mem(h*32), w)
		}
	}
}

// shift shifts memory into a register. AVX2 cannot in one instruction.
func (d *dots) shift(op string, n int, src string, w vec) {
	if d.isa == avx512 {
		d.op(op, fmt.Sprint("$", n), src, w)
		return
	}
	d.op("VMOVDQU", src, w)
	d.op(op, fmt.Sprint("$", n), w, w)
}

// column multiplies step c of the quad whose tile t is at mem(t, off).
func (d *dots) column(mem func(t, off int) string, c int) {
	for t, halves := range d.w {
		for h, w := range halves {
			d.load(func(off int) string { return mem(t, off) }, c, h, w)
		}
	}
	d.multiply(c)
}

// multiply multiplies w with step c of the rows.
func (d *dots) multiply(c int) {
	for m := range d.m {
		d.op("VBROADCASTSS", d.input(m, c), d.x)
		for t, halves := range d.w {
			for h, w := range halves {
				acc := d.acc[t][h][m]
				switch d.el {
				case dotInt8:
					d.op("VPMADDWD", d.x, w, d.sum)
					d.op("VPADDD", d.sum, acc, acc)
				case dotVNNI:
					d.op("VPDPWSSD", d.x, w, acc)
				case dotBytes:
					d.op("VPDPBUSD", d.x, w, acc)
				case dotPairs:
					d.evex(0x52, acc, d.x, w) // VDPBF16PS
				default:
					d.op("VFMADD231PS", d.x, w, acc)
				}
			}
		}
	}
}

// restPairs multiplies the last one to three positions. Half a pair may be
// infinite.
func (d *dots) restPairs(mem func(t, off int) string, n int) {
	half := func(c int) {
		for t := range d.w {
			d.op("VPANDD", mem(t, c*line), d.mask, d.w[t][0])
		}
		d.multiply(c)
	}
	d.op("MOVQ", arg("n", n), temp)
	d.op("TESTQ", "$2", temp)
	d.op("JEQ", "one")
	d.column(mem, 0)
	d.op("TESTQ", "$1", temp)
	d.op("JEQ", "store")
	half(1)
	d.op("JMP", "store")
	d.label("one")
	half(0)
}

func (d *dots) advanceX() {
	for i := 0; i*3 < d.m; i++ {
		d.op("ADDQ", fmt.Sprint("$", d.el.x), bases[i])
	}
}

// scores is impl.dots' scores: a turn of the outer loop takes t tiles through
// all columns.
func (g *gen) scores(el *dotElement, m, t int) {
	const kv, offs, offsLen, ahead, k, x, ldx, y, ldy, frame = 0, 24, 32, 48, 56, 64, 88, 96, 120, 128
	g.function(fmt.Sprintf("scores%sx%d", el.name, m), "(kv []byte, offs []int, ahead int, k int, x []float32, ldx int, y []float32, ldy int)", frame,
		fmt.Sprintf("dotKernels.scores of %s for %d rows of x, %d tiles at once", el.name, m, t))
	d := g.startDots(el, m, t, ldx)
	g.op("MOVQ", arg("offs_base", offs), offset)
	g.op("MOVQ", arg("offs_len", offsLen), left)
	g.op("MOVQ", arg("ahead", ahead), dotAhead)

	g.label("tile")
	for i := range t {
		g.op("MOVQ", at(8*i, offset), dotTiles[i])
		g.op("ADDQ", arg("kv_base", kv), dotTiles[i])
	}
	d.rewind(x)
	d.clear()
	g.op("MOVQ", arg("k", k), pairs)
	g.op("SHRQ", "$2", pairs)
	g.label("quad")
	for i := range t {
		for l := 0; l < el.quad; l += line {
			g.op("PREFETCHT1", at(l, dotTiles[i])+"("+dotAhead+"*1)")
		}
	}
	for c := range el.cols {
		d.column(func(t, off int) string { return at(off, dotTiles[t]) }, c)
	}
	for i := range t {
		g.op("ADDQ", fmt.Sprint("$", el.quad), dotTiles[i])
	}
	d.advanceX()
	g.op("DECQ", pairs)
	g.op("JNE", "quad")

	// The place of the first tile's results: 64 bytes per entry of offs before.
	g.op("MOVQ", offset, pairs)
	g.op("SUBQ", arg("offs_base", offs), pairs)
	g.op("SHLQ", "$3", pairs)
	g.op("ADDQ", arg("y_base", y), pairs)
	g.op("MOVQ", arg("ldy", ldy), temp)
	g.op("SHLQ", "$2", temp)
	if el.integer() { // after the keys are their scales, and after the values
		for i := range t {
			g.op("PREFETCHT1", at(0, dotTiles[i])+"("+dotAhead+"*1)")
		}
	}
	d.storeScores()
	g.op("ADDQ", fmt.Sprint("$", 8*t), offset)
	g.op("SUBQ", fmt.Sprint("$", t), left)
	g.op("JNE", "tile")
	g.end()
}

// storeScores writes the results of all rows to y, which pairs points to; the rows
// are temp bytes apart. Integers are multiplied by the keys' scales.
func (d *dots) storeScores() {
	for m := range d.m {
		if d.el == dotBytes {
			d.op("VPBROADCASTD", d.input(m, 0), d.x)
		}
		for t, halves := range d.acc {
			for h, acc := range halves {
				if d.el.integer() {
					d.scaleScore(acc[m], t, h)
				}
				d.op("VMOVUPS", acc[m], at(t*line+h*32, pairs))
			}
		}
		d.op("ADDQ", temp, pairs)
	}
}

// scaleScore turns a sum of integers into a score.
func (d *dots) scaleScore(a vec, t, h int) {
	if d.el == dotBytes {
		d.op("VPADDD", d.x, a, a)
	}
	d.op("VCVTDQ2PS", a, a)
	d.op("VMULPS", at(h*32, dotTiles[t]), a, a)
}

// values is impl.dots' values: t consecutive tiles in each
// unit, through all units.
func (g *gen) values(el *dotElement, m, t int) {
	const kv, offs, ahead, n, x, ldx, y, ldy, frame = 0, 24, 48, 72, 80, 104, 112, 136, 144
	const tile, next, aheads = "DI", "R8", dotAhead
	g.function(fmt.Sprintf("values%sx%dt%d", el.name, m, t), "(kv []byte, offs, ahead []int, n int, x []float32, ldx int, y []float32, ldy int)", frame,
		fmt.Sprintf("dotKernels.values of %s for %d rows of x and %d tiles", el.name, m, t))
	d := g.startDots(el, m, t, ldx)
	size := el.quad * tileRows / 4 // bytes of a tile
	mem := func(t, off int) string { return at(t*size+off, tile) }
	d.rewind(x)
	d.clear()
	g.op("MOVQ", arg("offs_base", offs), offset)
	g.op("MOVQ", arg("ahead_base", ahead), aheads)
	g.op("MOVQ", arg("n", n), left)
	g.op("TESTQ", left, left)
	g.op("JEQ", "store")
	g.op("SHRQ", "$2", left)

	g.label("unit")
	g.op("MOVQ", arg("kv_base", kv), tile)
	g.op("MOVQ", tile, next)
	g.op("ADDQ", at(0, offset), tile)
	g.op("ADDQ", at(0, aheads), next)
	g.op("MOVQ", "$4", pairs)
	g.op("CMPQ", left, pairs)
	g.op("CMOVQLT", left, pairs)
	g.op("SUBQ", pairs, left)
	g.op("TESTQ", pairs, pairs)
	g.op("JEQ", "rest")
	g.label("quad")
	for i := range t {
		for l := 0; l < el.quad; l += line {
			g.op("PREFETCHT1", at(i*size+l, next))
		}
	}
	for c := range el.cols {
		d.column(mem, c)
	}
	g.op("ADDQ", fmt.Sprint("$", el.quad), tile)
	g.op("ADDQ", fmt.Sprint("$", el.quad), next)
	d.advanceX()
	g.op("DECQ", pairs)
	g.op("JNE", "quad")
	if el.integer() { // the scales after the last tile
		g.op("PREFETCHT1", at((t-1)*size, next))
	}
	g.op("ADDQ", "$8", offset)
	g.op("ADDQ", "$8", aheads)
	g.op("TESTQ", left, left)
	g.op("JNE", "unit")
	g.op("MOVQ", arg("n", n), temp)
	g.op("TESTQ", "$3", temp)
	g.op("JEQ", "store")
	g.op("TESTQ", "$12", temp)
	g.op("JEQ", "unit") // the rest begins a unit

	g.label("rest")
	if el == dotPairs {
		d.restPairs(mem, n)
	} else if el.integer() { // what follows the last position is multiplied by zero
		for c := range el.cols {
			d.column(mem, c)
		}
	} else { // it may be infinite
		g.op("MOVQ", arg("n", n), temp)
		g.op("ANDQ", "$3", temp)
		for c := range 3 {
			d.column(mem, c)
			if c < 2 {
				g.op("DECQ", temp)
				g.op("JEQ", "store")
			}
		}
	}

	g.label("store")
	g.op("MOVQ", arg("y_base", y), bases[0])
	g.op("MOVQ", arg("ldy", ldy), temp)
	g.op("SHLQ", "$2", temp)
	for m := range m {
		for i, halves := range d.acc {
			for h, acc := range halves {
				if el.integer() {
					g.op("VCVTDQ2PS", acc[m], acc[m])
				}
				g.op("VMOVUPS", acc[m], at(i*line+h*32, bases[0]))
			}
		}
		g.op("ADDQ", temp, bases[0])
	}
	g.end()
}
