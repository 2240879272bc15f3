package main

import (
	"fmt"
	"log"
	"math"
	"strings"
)

// The arm64 kernels. Go's assembler knows few of the vector instructions that
// they need, so all of these are written as words, with what a disassembler
// says of them next to it (make arm64 compares the two). Encodings are those of
// the Arm Architecture Reference Manual, section C7.2.

const tagARM = "//go:build arm64 && !purego\n\n"

// neon collects the assembly for arm64 and its declarations.
type neon struct {
	text, decls, tables strings.Builder
}

// v is a vector register.
type v uint32

// General registers. R18 and R27 up are the system's, the assembler's and Go's.
const (
	nTile    = 0 // the current pair of columns
	nAhead   = 1 // the same place in the memory to prefetch
	nPairs   = 2 // counter
	nOffs    = 3 // *int: the current tile's offset
	nAheads  = 4
	nLeft    = 5 // tiles left
	nOut     = 6
	nOutStep = 7
	nBias    = 8
	nTemp    = 9
	nRow     = 10 // to 13: the current columns of up to four rows of x
	nX       = 14
	nStep    = 15 // of x, in bytes
	nBase    = 16 // of w
	nK       = 17
)

func (n *neon) raw(format string, args ...any) { fmt.Fprintf(&n.text, format, args...) }

// op writes an instruction that Go's assembler knows.
func (n *neon) op(format string, args ...any) { n.raw("\t"+format+"\n", args...) }

// word writes one that it does not know.
func (n *neon) word(code uint32, format string, args ...any) {
	n.raw("\tWORD $0x%08x // %s\n", code, fmt.Sprintf(format, args...))
}

func (n *neon) label(name string) { n.raw("%s:\n", name) }

func (n *neon) function(name, signature string, frame int, doc string) {
	name += "NEON"
	fmt.Fprintf(&n.decls, "// %s is %s.\n//\n//go:noescape\nfunc %s%s\n\n", name, doc, name, signature)
	n.raw("// func %s%s\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", name, signature, name, frame)
}

func (n *neon) end() { n.raw("\tRET\n\n") }

// Loads and stores.

func scaled(off, size int) uint32 {
	if off < 0 || off%size != 0 || off/size >= 1<<12 {
		log.Fatalf("offset %d of a load of %d", off, size)
	}
	return uint32(off/size) << 10
}

func mem(base, off int) string {
	if off == 0 {
		return fmt.Sprintf("[x%d]", base)
	}
	return fmt.Sprintf("[x%d, #%d]", base, off)
}

func (n *neon) ldrQ(d v, base, off int) {
	n.word(0x3dc00000|scaled(off, 16)|uint32(base)<<5|uint32(d), "ldr q%d, %s", d, mem(base, off))
}
func (n *neon) ldrD(d v, base, off int) {
	n.word(0xfd400000|scaled(off, 8)|uint32(base)<<5|uint32(d), "ldr d%d, %s", d, mem(base, off))
}
func (n *neon) ldrS(d v, base, off int) {
	n.word(0xbd400000|scaled(off, 4)|uint32(base)<<5|uint32(d), "ldr s%d, %s", d, mem(base, off))
}
func (n *neon) strQ(d v, base, off int) {
	n.word(0x3d800000|scaled(off, 16)|uint32(base)<<5|uint32(d), "str q%d, %s", d, mem(base, off))
}
func (n *neon) prefetch(base, off int) {
	n.word(0xf9800002|scaled(off, 8)|uint32(base)<<5, "prfm pldl2keep, %s", mem(base, off))
}

// broadcast loads one float32 into all lanes; base is a register.
func (n *neon) broadcast(d v, base int) {
	n.word(0x4d40c800|uint32(base)<<5|uint32(d), "ld1r {v%d.4s}, [x%d]", d, base)
}

// three writes an instruction of three vectors.
func (n *neon) three(code uint32, name, arrangement string, d, a, b v) {
	n.word(code|uint32(b)<<16|uint32(a)<<5|uint32(d), "%s v%d.%s, v%d.%s, v%d.%s", name, d, arrangement, a, arrangement, b, arrangement)
}

func (n *neon) fmla(d, a, b v)  { n.three(0x4e20cc00, "fmla", "4s", d, a, b) }
func (n *neon) fmls(d, a, b v)  { n.three(0x4ea0cc00, "fmls", "4s", d, a, b) }
func (n *neon) fadd(d, a, b v)  { n.three(0x4e20d400, "fadd", "4s", d, a, b) }
func (n *neon) fsub(d, a, b v)  { n.three(0x4ea0d400, "fsub", "4s", d, a, b) }
func (n *neon) fmul(d, a, b v)  { n.three(0x6e20dc00, "fmul", "4s", d, a, b) }
func (n *neon) fdiv(d, a, b v)  { n.three(0x6e20fc00, "fdiv", "4s", d, a, b) }
func (n *neon) fmax(d, a, b v)  { n.three(0x4e20f400, "fmax", "4s", d, a, b) }
func (n *neon) fmin(d, a, b v)  { n.three(0x4ea0f400, "fmin", "4s", d, a, b) }
func (n *neon) fcmgt(d, a, b v) { n.three(0x6ea0e400, "fcmgt", "4s", d, a, b) }
func (n *neon) add(d, a, b v)   { n.three(0x4ea08400, "add", "4s", d, a, b) }
func (n *neon) umax(d, a, b v)  { n.three(0x6ea06400, "umax", "4s", d, a, b) }
func (n *neon) and(d, a, b v)   { n.three(0x4e201c00, "and", "16b", d, a, b) }
func (n *neon) bic(d, a, b v)   { n.three(0x4e601c00, "bic", "16b", d, a, b) }
func (n *neon) eor(d, a, b v)   { n.three(0x6e201c00, "eor", "16b", d, a, b) }
func (n *neon) orr(d, a, b v)   { n.three(0x4ea01c00, "orr", "16b", d, a, b) }
func (n *neon) smax(d, a, b v)  { n.three(0x4ea06400, "smax", "4s", d, a, b) }
func (n *neon) fcmeq(d, a, b v) { n.three(0x4e20e400, "fcmeq", "4s", d, a, b) }

// fcmeq0 compares with zero.
func (n *neon) fcmeq0(d, a v) {
	n.word(0x4ea0d800|uint32(a)<<5|uint32(d), "fcmeq v%d.4s, v%d.4s, #0.0", d, a)
}

// umaxv and addv combine all lanes into lane 0.
func (n *neon) umaxv(d, a v) { n.word(0x6eb0a800|uint32(a)<<5|uint32(d), "umaxv s%d, v%d.4s", d, a) }
func (n *neon) addv(d, a v)  { n.word(0x4eb1b800|uint32(a)<<5|uint32(d), "addv s%d, v%d.4s", d, a) }

// narrow leaves the low halves of a's and b's elements in d: of words, or of
// halves. d may be a.
func (n *neon) narrow(d, a, b v, words bool) {
	code, from, low, all := uint32(0x0e212800), "8h", "8b", "16b"
	if words {
		code, from, low, all = 0x0e612800, "4s", "4h", "8h"
	}
	n.word(code|uint32(a)<<5|uint32(d), "xtn v%d.%s, v%d.%s", d, low, a, from)
	n.word(code|1<<30|uint32(b)<<5|uint32(d), "xtn2 v%d.%s, v%d.%s", d, all, b, from)
}
func (n *neon) mov(d, a v) {
	n.word(0x4ea01c00|uint32(a)<<16|uint32(a)<<5|uint32(d), "mov v%d.16b, v%d.16b", d, a)
}

// two writes an instruction of two vectors of float32 or int32.
func (n *neon) two(code uint32, name string, d, a v) {
	n.word(code|uint32(a)<<5|uint32(d), "%s v%d.4s, v%d.4s", name, d, a)
}

func (n *neon) frintn(d, a v) { n.two(0x4e218800, "frintn", d, a) }
func (n *neon) fcvtns(d, a v) { n.two(0x4e21a800, "fcvtns", d, a) }
func (n *neon) scvtf(d, a v)  { n.two(0x4e21d800, "scvtf", d, a) }
func (n *neon) fneg(d, a v)   { n.two(0x6ea0f800, "fneg", d, a) }
func (n *neon) fabs(d, a v)   { n.two(0x4ea0f800, "fabs", d, a) }

// fcvtl widens four float16, of a's lower or upper half.
func (n *neon) fcvtl(d, a v, upper bool) {
	if upper {
		n.word(0x4e217800|uint32(a)<<5|uint32(d), "fcvtl2 v%d.4s, v%d.8h", d, a)
	} else {
		n.word(0x0e217800|uint32(a)<<5|uint32(d), "fcvtl v%d.4s, v%d.4h", d, a)
	}
}

func (n *neon) shl(d, a v, bits int) {
	n.word(0x4f205400|uint32(bits)<<16|uint32(a)<<5|uint32(d), "shl v%d.4s, v%d.4s, #%d", d, a, bits)
}

// sshr shifts int32, ushrB bytes.
func (n *neon) sshr(d, a v, bits int) {
	n.word(0x4f000400|uint32(64-bits)<<16|uint32(a)<<5|uint32(d), "sshr v%d.4s, v%d.4s, #%d", d, a, bits)
}
func (n *neon) ushrB(d, a v, bits int) {
	n.word(0x6f000400|uint32(16-bits)<<16|uint32(a)<<5|uint32(d), "ushr v%d.16b, v%d.16b, #%d", d, a, bits)
}

// movi fills all bytes.
func (n *neon) movi(d v, b uint32) {
	n.word(0x4f00e400|b>>5<<16|b&31<<5|uint32(d), "movi v%d.16b, #0x%x", d, b)
}

func (n *neon) zero(d ...v) {
	for _, r := range d {
		n.movi(r, 0)
	}
}

// dup fills d with lane i of a, dupW with a general register.
func (n *neon) dup(d, a v, i int) {
	n.word(0x4e040400|uint32(i)<<19|uint32(a)<<5|uint32(d), "dup v%d.4s, v%d.s[%d]", d, a, i)
}
func (n *neon) dupW(d v, r int) {
	n.word(0x4e040c00|uint32(r)<<5|uint32(d), "dup v%d.4s, w%d", d, r)
}

// ext moves b's low bytes behind a's high ones.
func (n *neon) ext(d, a, b v, bytes int) {
	n.word(0x6e000000|uint32(b)<<16|uint32(bytes)<<11|uint32(a)<<5|uint32(d), "ext v%d.16b, v%d.16b, v%d.16b, #%d", d, a, b, bytes)
}

// element are the bits of lane i of b in instructions "by element".
func element4(b v, i int) uint32 {
	return uint32(i&1)<<21 | uint32(i>>1)<<11 | uint32(b)<<16
}

func (n *neon) fmlaLane(d, a, b v, i int) {
	n.word(0x4f801000|element4(b, i)|uint32(a)<<5|uint32(d), "fmla v%d.4s, v%d.4s, v%d.s[%d]", d, a, b, i)
}
func (n *neon) fmulLane(d, a, b v, i int) {
	n.word(0x4f809000|element4(b, i)|uint32(a)<<5|uint32(d), "fmul v%d.4s, v%d.4s, v%d.s[%d]", d, a, b, i)
}

// sdotLane adds to each lane the product of four signed bytes with four of b;
// usdotLane takes a's bytes without sign.
func (n *neon) sdotLane(d, a, b v, i int) {
	n.word(0x4f80e000|element4(b, i)|uint32(a)<<5|uint32(d), "sdot v%d.4s, v%d.16b, v%d.4b[%d]", d, a, b, i)
}
func (n *neon) usdotLane(d, a, b v, i int) {
	n.word(0x4f80f000|element4(b, i)|uint32(a)<<5|uint32(d), "usdot v%d.4s, v%d.16b, v%d.4b[%d]", d, a, b, i)
}

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

// loop runs body for pairs until the counter, which is set, is zero.
func (n *neon) loop(label string, body func()) {
	n.label(label)
	body()
	n.op("SUB $1, R%d, R%d", nPairs, nPairs)
	n.op("CBNZ R%d, %s", nPairs, label)
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

// addBias adds 16 numbers to the rows, if there are any.
func (n *neon) addBias(acc [][]v, t v) {
	n.op("CBZ R%d, store", nBias)
	for i := range acc {
		n.ldrQ(t, nBias, i*16)
		for _, a := range acc[i] {
			n.fadd(a, a, t)
		}
	}
	n.op("ADD $%d, R%d, R%d", tileRows*4, nBias, nBias)
	n.label("store")
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

func (n *neon) nextTile() {
	n.op("ADD $%d, R%d, R%d", tileRows*4, nOut, nOut)
	n.op("SUB $1, R%d, R%d", nLeft, nLeft)
	n.op("CBNZ R%d, tile", nLeft)
}

type argument struct {
	name     string
	off, reg int
}

func (n *neon) arguments(list []argument) {
	for _, a := range list {
		n.op("MOVD %s+%d(FP), R%d", a.name, a.off, a.reg)
	}
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

// dot is impl.dot of a block format. With usdot, weights of 8 bits stay without
// sign and the sums start at the row's correction, as on amd64.
func (n *neon) dot(four, usdot bool, m int, name string) {
	format := "Q8"
	if four {
		format = "Q4"
	}
	n.function(name, "(w []byte, offs, ahead []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)", 168,
		fmt.Sprintf("impl.dot for %s and %d rows of x", format, m))
	// Registers: sums, integer sums, a line of weights, the constant, x of rows.
	reg := func(i int) v { return v(i) }
	sum, ints := make([][]v, nParts), make([][]v, nParts)
	for i := range nParts {
		for r := range m {
			sum[i], ints[i] = append(sum[i], reg(i*m+r)), append(ints[i], reg(4*m+i*m+r))
		}
	}
	w := [nParts]v{v(8 * m), v(8*m + 1), v(8*m + 2), v(8*m + 3)}
	constant := v(8*m + 4)
	x := make([]v, m)
	for r := range x {
		x[r] = v(8*m + 5 + r)
	}
	n.arguments([]argument{{"offs_base", 24, nOffs}, {"offs_len", 32, nLeft}, {"ahead_base", 48, nAheads}, {"w_base", 0, nBase}, {"n", 72, nK},
		{"x_base", 80, nX}, {"ldx", 104, nStep}, {"y_base", 112, nOut}, {"ldy", 136, nOutStep}, {"bias_base", 144, nBias}})
	n.op("LSL $2, R%d, R%d", nOutStep, nOutStep)
	n.op("CBZ R%d, end", nLeft)
	if four {
		n.movi(constant, 15)
	} else if !usdot {
		n.movi(constant, 128)
	}
	p := &nProduct{neon: n, m: m}
	p.acc[0] = sum
	n.label("tile")
	p.locate()
	p.rewind()
	for i := range sum {
		n.zero(sum[i]...)
	}
	n.op("MOVD R%d, R%d", nK, nPairs)
	n.op("CBZ R%d, sum", nPairs)
	lines := 8
	if four {
		lines = 4
	}
	n.loop("loop", func() {
		for off := 0; off < 64+2*lines*line; off += line {
			n.prefetch(nAhead, off)
		}
		for b := range 2 {
			for r := range m {
				// -128 times the sum of the row's numbers; of 4 bits -8 times.
				switch {
				case four || usdot:
					n.ldrS(x[r], nRow+r, b*4)
					if four {
						n.sshr(x[r], x[r], 4)
					}
					for i := range nParts {
						n.dup(ints[i][r], x[r], 0)
					}
				default:
					for i := range nParts {
						n.zero(ints[i][r])
					}
				}
			}
			for h := range 2 { // 16 columns of the block
				for r := range m {
					n.ldrQ(x[r], nRow+r, 16+b*32+h*16)
				}
				for j := range 4 {
					l := b*lines + j
					if !four {
						l += h * 4
					}
					for i := range nParts {
						n.ldrQ(w[i], nTile, 64+l*line+i*16)
						switch {
						case four && h == 0:
							n.and(w[i], w[i], constant)
						case four:
							n.ushrB(w[i], w[i], 4)
						case !usdot:
							n.eor(w[i], w[i], constant)
						}
					}
					for r := range m {
						for i := range nParts {
							if usdot && !four {
								n.usdotLane(ints[i][r], w[i], x[r], j)
							} else {
								n.sdotLane(ints[i][r], w[i], x[r], j)
							}
						}
					}
				}
			}
			for i := 0; i < nParts; i += 2 {
				n.ldrQ(w[i], nTile, b*32+i*8)
				n.fcvtl(w[i+1], w[i], true)
				n.fcvtl(w[i], w[i], false)
			}
			for r := range m {
				n.ldrS(x[r], nRow+r, 8+b*4)
				for i := range nParts {
					n.scvtf(ints[i][r], ints[i][r])
					n.fmulLane(ints[i][r], ints[i][r], x[r], 0)
					n.fmla(sum[i][r], ints[i][r], w[i])
				}
			}
		}
		n.op("ADD $%d, R%d, R%d", 64+2*lines*line, nTile, nTile)
		n.op("ADD $%d, R%d, R%d", 64+2*lines*line, nAhead, nAhead)
		for r := range m {
			n.op("ADD $80, R%d, R%d", nRow+r, nRow+r)
		}
	})
	n.label("sum")
	n.addBias(sum, w[0])
	p.store()
	n.nextTile()
	n.label("end")
	n.end()
}

// dotWhole is impl.dot of W8A8.
func (n *neon) dotWhole(usdot bool, m int, name string) {
	n.function(name, "(w []byte, offs, ahead []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)", 168,
		fmt.Sprintf("impl.dot for W8A8 and %d rows of x", m))
	ints := make([][]v, nParts)
	for i := range nParts {
		for r := range m {
			ints[i] = append(ints[i], v(i*m+r))
		}
	}
	w := [nParts]v{v(4 * m), v(4*m + 1), v(4*m + 2), v(4*m + 3)}
	constant := v(4*m + 4)
	x := make([]v, m)
	for r := range x {
		x[r] = v(4*m + 5 + r)
	}
	n.arguments([]argument{{"offs_base", 24, nOffs}, {"offs_len", 32, nLeft}, {"ahead_base", 48, nAheads}, {"w_base", 0, nBase}, {"n", 72, nK},
		{"x_base", 80, nX}, {"ldx", 104, nStep}, {"y_base", 112, nOut}, {"ldy", 136, nOutStep}, {"bias_base", 144, nBias}})
	n.op("LSL $2, R%d, R%d", nOutStep, nOutStep)
	n.op("CBZ R%d, end", nLeft)
	if !usdot {
		n.movi(constant, 128)
	}
	p := &nProduct{neon: n, m: m}
	p.acc[0] = ints
	n.label("tile")
	p.locate()
	p.rewind()
	for i := range ints {
		n.zero(ints[i]...)
	}
	n.op("MOVD R%d, R%d", nK, nPairs)
	n.op("CBZ R%d, sum", nPairs)
	n.loop("loop", func() {
		for q := range 4 { // 16 columns
			for r := range m {
				n.ldrQ(x[r], nRow+r, q*16)
			}
			for j := range 4 {
				off := (q*4 + j) * line
				n.prefetch(nAhead, off)
				for i := range nParts {
					n.ldrQ(w[i], nTile, off+i*16)
					if !usdot {
						n.eor(w[i], w[i], constant)
					}
				}
				for r := range m {
					for i := range nParts {
						if usdot {
							n.usdotLane(ints[i][r], w[i], x[r], j)
						} else {
							n.sdotLane(ints[i][r], w[i], x[r], j)
						}
					}
				}
			}
		}
		n.op("ADD $%d, R%d, R%d", 16*line, nTile, nTile)
		n.op("ADD $%d, R%d, R%d", 16*line, nAhead, nAhead)
		for r := range m {
			n.op("ADD $64, R%d, R%d", nRow+r, nRow+r)
		}
	})
	n.label("sum")
	for i := range nParts {
		n.ldrQ(w[i], nTile, i*16)
	}
	for r := range m {
		if usdot { // what the offset has added
			n.ldrS(constant, nRow+r, 0)
			n.dup(constant, constant, 0)
			for i := range nParts {
				n.add(ints[i][r], ints[i][r], constant)
			}
		}
		n.ldrS(x[r], nRow+r, 4)
		for i := range nParts {
			n.scvtf(ints[i][r], ints[i][r])
			n.fmulLane(ints[i][r], ints[i][r], x[r], 0)
			n.fmul(ints[i][r], ints[i][r], w[i])
		}
	}
	n.addBias(ints, w[0])
	p.store()
	n.nextTile()
	n.label("end")
	n.end()
}

// nConstants are loaded into registers by functions that need an exponential.
var nConstants = []float32{1.44269504088896341, 0.693359375, -2.12194440e-4, 1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1, -87, 88}

// nExp2 are the coefficients of attention's power of two, highest first, and the
// least exponent.
var nExp2 = []float32{0.0001559467782, 0.001340664341, 0.009617692791, 0.05550310388, 0.2402265221, 0.6931472421, 1, -125}

func (n *neon) table(name string, values []float32) {
	for i, c := range values {
		n.raw("DATA %s<>+%d(SB)/4, $0x%08x\n", name, i*4, math.Float32bits(c))
	}
	n.raw("GLOBL %s<>(SB), RODATA|NOPTR, $%d\n\n", name, len(values)*4)
}

// spread loads a table's numbers into registers from first on, each into all
// lanes.
func (n *neon) spread(name string, count int, first v) {
	n.op("MOVD $%s<>(SB), R%d", name, nTemp)
	for i := range count {
		n.broadcast(first+v(i), nTemp)
		n.op("ADD $4, R%d, R%d", nTemp, nTemp)
	}
}

// scalar loads a float32 argument into all lanes.
func (n *neon) scalar(d v, name string, off int) {
	n.op("MOVWU %s+%d(FP), R%d", name, off, nTemp)
	n.dupW(d, nTemp)
}

// each runs body for every vector of arrays of count numbers, 16 to a turn; the
// arrays start in registers 10 and up.
func (n *neon) each(count string, off int, arrays []argument, body func(i, off int)) {
	for i, a := range arrays {
		n.op("MOVD %s+%d(FP), R%d", a.name, a.off, nRow+i)
	}
	n.op("MOVD %s+%d(FP), R%d", count, off, nPairs)
	n.op("LSR $4, R%d, R%d", nPairs, nPairs)
	n.op("CBZ R%d, done", nPairs)
	n.loop("loop", func() {
		for i := range nParts {
			body(i, i*16)
		}
		for i := range arrays {
			n.op("ADD $64, R%d, R%d", nRow+i, nRow+i)
		}
	})
	n.label("done")
}

// fold leaves the combination of 16 lanes, half to half, in lane 0 of acc[0].
func (n *neon) fold(f func(d, a, b v), acc []v, t v) {
	f(acc[0], acc[0], acc[2])
	f(acc[1], acc[1], acc[3])
	f(acc[0], acc[0], acc[1])
	n.ext(t, acc[0], acc[0], 8)
	f(acc[0], acc[0], t)
	n.ext(t, acc[0], acc[0], 4)
	f(acc[0], acc[0], t)
}

func (n *neon) result(d v, name string, off int) { n.op("FMOVS F%d, %s+%d(FP)", d, name, off) }

func (n *neon) vectors() {
	n.table("expNumbers", nConstants)
	n.table("exp2Numbers", nExp2)
	acc := []v{0, 1, 2, 3}

	n.function("sumSquares", "(x []float32) float32", 28, "impl.sumSquares, len(x) a multiple of 16")
	n.zero(acc...)
	n.each("x_len", 8, []argument{{"x_base", 0, 0}}, func(i, off int) {
		n.ldrQ(4, nRow, off)
		n.fmla(acc[i], 4, 4)
	})
	n.fold(n.fadd, acc, 4)
	n.result(0, "ret", 24)
	n.end()

	n.function("scaleMul", "(y, x, w []float32, s float32)", 76, "impl.scaleMul, len(y) a multiple of 16")
	n.scalar(2, "s", 72)
	n.each("y_len", 8, []argument{{"y_base", 0, 0}, {"x_base", 24, 0}, {"w_base", 48, 0}}, func(_, off int) {
		n.ldrQ(0, nRow+1, off)
		n.ldrQ(1, nRow+2, off)
		n.fmul(0, 0, 2)
		n.fmul(0, 0, 1)
		n.strQ(0, nRow, off)
	})
	n.end()

	n.function("add", "(y, x []float32)", 48, "impl.add, len(y) a multiple of 16")
	n.each("y_len", 8, []argument{{"y_base", 0, 0}, {"x_base", 24, 0}}, func(_, off int) {
		n.ldrQ(0, nRow, off)
		n.ldrQ(1, nRow+1, off)
		n.fadd(0, 0, 1)
		n.strQ(0, nRow, off)
	})
	n.end()

	n.function("gate", "(y, g, u []float32)", 72, "impl.gate, len(y) a multiple of 16")
	n.spread("expNumbers", len(nConstants), 16)
	n.each("y_len", 8, []argument{{"y_base", 0, 0}, {"g_base", 24, 0}, {"u_base", 48, 0}}, func(_, off int) {
		n.ldrQ(4, nRow+1, off)
		n.fneg(0, 4)
		n.exp(0, 1, 2, 3)
		n.fadd(0, 0, 25) // one
		n.fdiv(0, 4, 0)
		n.ldrQ(1, nRow+2, off)
		n.fmul(0, 0, 1)
		n.strQ(0, nRow, off)
	})
	n.end()

	n.function("rotate", "(a, b, cos, sin []float32)", 96, "impl.rotate, len(cos) a multiple of 16")
	n.each("cos_len", 56, []argument{{"a_base", 0, 0}, {"b_base", 24, 0}, {"cos_base", 48, 0}, {"sin_base", 72, 0}}, func(_, off int) {
		for i := range 4 {
			n.ldrQ(v(i), nRow+i, off)
		}
		n.fmul(4, 0, 2)
		n.fmls(4, 1, 3) // a*cos - b*sin
		n.fmul(5, 1, 2)
		n.fmla(5, 0, 3) // b*cos + a*sin
		n.strQ(4, nRow, off)
		n.strQ(5, nRow+1, off)
	})
	n.end()

	n.function("max", "(x []float32) float32", 28, "impl.max")
	n.op("MOVD x_base+0(FP), R%d", nRow)
	for i, a := range acc {
		n.ldrQ(a, nRow, i*16)
	}
	n.each("x_len", 8, []argument{{"x_base", 0, 0}}, func(i, off int) {
		n.ldrQ(4, nRow, off)
		n.fmax(acc[i], acc[i], 4)
	})
	n.fold(n.fmax, acc, 4)
	n.result(0, "ret", 24)
	n.end()

	n.function("blend", "(y, x []float32, a, b float32)", 56, "impl.blend, len(y) a multiple of 16")
	n.scalar(2, "a", 48)
	n.scalar(3, "b", 52)
	n.each("y_len", 8, []argument{{"y_base", 0, 0}, {"x_base", 24, 0}}, func(_, off int) {
		n.ldrQ(0, nRow, off)
		n.ldrQ(1, nRow+1, off)
		n.fmul(0, 0, 2)
		n.fmla(0, 1, 3)
		n.strQ(0, nRow, off)
	})
	n.end()

	n.function("scale", "(y, x []float32, s float32)", 52, "impl.scale, len(y) a multiple of 16")
	n.scalar(1, "s", 48)
	n.each("y_len", 8, []argument{{"y_base", 0, 0}, {"x_base", 24, 0}}, func(_, off int) {
		n.ldrQ(0, nRow+1, off)
		n.fmul(0, 0, 1)
		n.strQ(0, nRow, off)
	})
	n.end()

	n.function("expSum", "(x []float32, top, hi, lo float32) float32", 44, "attention.expSum")
	n.scalar(5, "top", 24)
	n.scalar(6, "hi", 28)
	n.scalar(7, "lo", 32)
	n.spread("exp2Numbers", len(nExp2), 16)
	n.zero(acc...)
	n.each("x_len", 8, []argument{{"x_base", 0, 0}}, func(i, off int) {
		n.ldrQ(8, nRow, off)
		n.fsub(8, 8, 5)
		n.exp2(8)
		n.strQ(8, nRow, off)
		n.fadd(acc[i], acc[i], 8)
	})
	n.fold(n.fadd, acc, 4)
	n.result(0, "ret", 40)
	n.end()

	n.function("expSumScaled", "(x []float32, top, hi, lo float32, kv []byte, offs []int) (sum, most float32)", 96, "attention.expSumScaled")
	n.scalar(5, "top", 24)
	n.scalar(6, "hi", 28)
	n.scalar(7, "lo", 32)
	n.spread("exp2Numbers", len(nExp2), 16)
	most := v(24)
	n.zero(append(acc, most)...)
	n.op("MOVD kv_base+40(FP), R%d", nBase)
	n.op("MOVD offs_base+64(FP), R%d", nOffs)
	n.each("x_len", 8, []argument{{"x_base", 0, 0}}, func(i, off int) {
		if i == 0 {
			n.op("MOVD.P 8(R%d), R%d", nOffs, nTile)
			n.op("ADD R%d, R%d, R%d", nBase, nTile, nTile)
		}
		n.ldrQ(8, nRow, off)
		n.fsub(8, 8, 5)
		n.exp2(8)
		n.fadd(acc[i], acc[i], 8)
		n.ldrQ(9, nTile, off)
		n.fcmeq0(10, 8)
		n.fmul(8, 8, 9)
		n.bic(8, 8, 10)
		n.strQ(8, nRow, off)
		n.fabs(8, 8)
		n.umax(most, most, 8)
	})
	n.fold(n.fadd, acc, 4)
	n.umaxv(most, most)
	n.result(0, "sum", 88)
	n.result(most, "most", 92)
	n.end()

	n.quantize()
	n.others()

	n.function("absMax", "(x []float32) float32", 28, "attention.absMax")
	n.zero(acc...)
	n.each("x_len", 8, []argument{{"x_base", 0, 0}}, func(i, off int) {
		n.ldrQ(4, nRow, off)
		n.fabs(4, 4)
		n.umax(acc[i], acc[i], 4) // as integers, so that NaN is the greatest
	})
	n.fold(n.umax, acc, 4)
	n.result(0, "ret", 24)
	n.end()
}

// quantize is impl.quantize for whole groups.
func (n *neon) quantize() {
	n.function("quantize", "(dst []byte, x []float32)", 48, "impl.quantize, len(x) a multiple of 64")
	const dst, x, left = nRow, nRow + 1, nLeft
	const inverse, t, sum, least, scale = v(8), v(9), v(10), v(11), v(12)
	n.op("MOVD dst_base+0(FP), R%d", dst)
	n.op("MOVD x_base+24(FP), R%d", x)
	n.op("MOVD x_len+32(FP), R%d", left)
	n.op("LSR $6, R%d, R%d", left, left)
	n.op("CBZ R%d, end", left)
	n.op("MOVD $-128, R%d", nTemp)
	n.dupW(least, nTemp)
	n.op("MOVD $0x%x, R%d", math.Float32bits(1), nTemp)
	n.dupW(13, nTemp)
	n.op("MOVD $0x%x, R%d", math.Float32bits(1/largestUnits), nTemp)
	n.dupW(14, nTemp)
	n.op("MOVD $0x%x, R%d", math.Float32bits(1.0/(1<<100)), nTemp+7)
	n.label("group")
	for b := range 2 {
		for i := range v(8) {
			n.ldrQ(i, x, b*128+int(i)*16)
		}
		n.fabs(t, 0)
		for i := v(1); i < 8; i++ {
			n.fabs(inverse, i)
			n.umax(t, t, inverse)
		}
		n.umaxv(t, t)
		n.op("FMOVS F%d, R%d", t, nTemp)
		n.op("CMPW R%d, R%d", nTemp+7, nTemp)
		n.op("BLO zero%d", b)
		n.dup(t, t, 0)
		n.fmul(scale, t, 14)
		n.op("FMOVS F%d, R%d", scale, nTemp)
		n.op("MOVW $0x7f800000, R%d", nTemp+6)
		n.op("CMPW R%d, R%d", nTemp+6, nTemp)
		n.op("CSELW HI, R%d, R%d, R%d", nTemp+6, nTemp, nTemp)
		n.op("ADDW $0x7fffff, R%d, R%d", nTemp, nTemp)
		n.op("ANDW R%d, R%d, R%d", nTemp+6, nTemp, nTemp)
		n.dupW(scale, nTemp)
		n.fdiv(inverse, 13, scale)
		n.zero(sum)
		n.round(sum, inverse, t, least)
		n.addv(sum, sum)
		n.op("FMOVS F%d, R%d", sum, nTemp)
		n.op("NEG R%d<<7, R%d", nTemp, nTemp)
		n.op("B store%d", b)
		n.label(fmt.Sprint("zero", b))
		n.zero(0, 1, 2, 3, 4, 5, 6, 7, scale)
		n.op("MOVD $0, R%d", nTemp)
		n.label(fmt.Sprint("store", b))
		n.op("MOVW R%d, %d(R%d)", nTemp, b*4, dst)
		n.op("FMOVS F%d, %d(R%d)", scale, 8+b*4, dst)
		n.storeBytes(dst, 16+b*32)
	}
	n.op("ADD $256, R%d, R%d", x, x)
	n.op("ADD $80, R%d, R%d", dst, dst)
	n.op("SUB $1, R%d, R%d", left, left)
	n.op("CBNZ R%d, group", left)
	n.label("end")
	n.end()
}

// round turns 32 numbers in registers 0 to 7 into integers in units of 1/inverse
// and adds them to sum. What is not a number becomes the least, -128.
func (n *neon) round(sum, inverse, t, least v) {
	for i := range v(8) {
		n.fmul(i, i, inverse)
		n.fcmeq(t, i, i)
		n.fcvtns(i, i)
		n.and(i, i, t)
		n.bic(t, least, t)
		n.orr(i, i, t)
		n.smax(i, i, least)
		n.add(sum, sum, i)
	}
}

// storeBytes writes those integers as bytes.
func (n *neon) storeBytes(base, off int) {
	for i := v(0); i < 8; i += 4 {
		n.narrow(i, i, i+1, true)
		n.narrow(i+2, i+2, i+3, true)
		n.narrow(i, i, i+2, false)
		n.strQ(i, base, off+int(i)*4)
	}
}

// others are quantizeWhole's second pass and attention's prefetch.
func (n *neon) others() {
	n.function("round", "(dst []byte, x []float32, inverse float32) int32", 60, "roundGeneric, len(x) a multiple of 32")
	n.op("MOVD dst_base+0(FP), R%d", nRow)
	n.op("MOVD x_base+24(FP), R%d", nRow+1)
	n.op("MOVD x_len+32(FP), R%d", nPairs)
	n.scalar(8, "inverse", 48)
	n.op("MOVD $-128, R%d", nTemp)
	n.dupW(11, nTemp)
	n.zero(10)
	n.op("LSR $5, R%d, R%d", nPairs, nPairs)
	n.op("CBZ R%d, done", nPairs)
	n.loop("loop", func() {
		for i := range v(8) {
			n.ldrQ(i, nRow+1, int(i)*16)
		}
		n.round(10, 8, 9, 11)
		n.storeBytes(nRow, 0)
		n.op("ADD $32, R%d, R%d", nRow, nRow)
		n.op("ADD $128, R%d, R%d", nRow+1, nRow+1)
	})
	n.label("done")
	n.addv(10, 10)
	n.op("FMOVS F10, ret+56(FP)")
	n.end()

	n.function("prefetch", "(kv []byte, at []int, n int)", 56, "attention.prefetch")
	n.arguments([]argument{{"kv_base", 0, nBase}, {"at_base", 24, nOffs}, {"at_len", 32, nLeft}, {"n", 48, nK}})
	n.op("CBZ R%d, end", nLeft)
	n.label("next")
	n.op("MOVD.P 8(R%d), R%d", nOffs, nAhead)
	n.op("ADD R%d, R%d, R%d", nBase, nAhead, nAhead)
	n.op("ADD $63, R%d, R%d", nK, nPairs)
	n.op("LSR $6, R%d, R%d", nPairs, nPairs)
	n.loop("line", func() {
		n.prefetch(nAhead, 0)
		n.op("ADD $64, R%d, R%d", nAhead, nAhead)
	})
	n.op("SUB $1, R%d, R%d", nLeft, nLeft)
	n.op("CBNZ R%d, next", nLeft)
	n.label("end")
	n.end()
}

// exp turns x into exp(x) with the numbers of expNumbers in registers 16 to 27;
// t, p and mask are scratch. It is the function of generic.go.
func (n *neon) exp(x, t, p, mask v) {
	n.fcmgt(mask, 26, x) // low > x; not so for NaN
	n.fmin(x, x, 27)
	n.fmul(t, x, 16)
	n.frintn(t, t)
	n.fmls(x, t, 17)
	n.fmls(x, t, 18)
	n.mov(p, 19)
	c := v(28)
	for i := v(20); i <= 24; i++ {
		n.mov(c, i)
		n.fmla(c, p, x)
		p, c = c, p
	}
	n.fmul(p, p, x)
	n.mov(c, x)
	n.fmla(c, p, x)
	n.fadd(c, c, 25)
	n.fcvtns(t, t)
	n.shl(t, t, 23)
	n.add(x, c, t)
	n.bic(x, x, mask)
}

// exp2 turns x, in register 8, into 2^(x*(hi+lo)), as attendgeneric.go has it;
// hi and lo are registers 6 and 7, the numbers of exp2Numbers 16 to 23.
func (n *neon) exp2(x v) {
	const t, f, p, c, mask = 9, 10, 11, 12, 13
	n.fmul(t, x, 6)
	n.frintn(t, t)
	n.fcmgt(mask, 23, t)
	n.fneg(f, t)
	n.fmla(f, x, 6) // x*hi - n, rounded once
	n.fmla(f, x, 7)
	n.mov(p, 16)
	a, b := v(p), v(c)
	for i := v(17); i <= 22; i++ {
		n.mov(b, i)
		n.fmla(b, a, f)
		a, b = b, a
	}
	n.fcvtns(t, t)
	n.shl(t, t, 23)
	n.add(x, a, t)
	n.bic(x, x, mask)
}

// neonFiles are the generated files for arm64 by name.
func neonFiles() map[string]string {
	n := &neon{}
	n.raw("#include \"textflag.h\"\n\n")
	fmt.Fprint(&n.tables, "var mulNEON = [BF16 + 1][]mulFunc{\n")
	for _, el := range elements {
		fmt.Fprintf(&n.tables, "%s: {nil", el.name)
		for m := 1; m <= nMulRows; m++ {
			name := fmt.Sprintf("mul%sx%d", el.name, m)
			n.mul(el, m, name)
			fmt.Fprintf(&n.tables, ", %sNEON", name)
		}
		fmt.Fprint(&n.tables, "},\n")
	}
	fmt.Fprint(&n.tables, "}\n\nvar dotsNEON = [BF16 + 1]dotKernels{\n")
	for _, el := range elements {
		kinds := [3]string{"tiles: []int{0", "scores: []scoresFunc{nil", "value: []valuesFunc{nil"}
		for m := 1; m <= nAttendRows; m++ {
			scores, values := fmt.Sprintf("scores%sx%d", el.name, m), fmt.Sprintf("value%sx%d", el.name, m)
			n.scores(el, m, scores)
			n.values(el, m, values)
			kinds[0] += ", 1"
			kinds[1] += ", " + scores + "NEON"
			kinds[2] += ", " + values + "NEON"
		}
		fmt.Fprintf(&n.tables, "%s: {%s}, %s}, %s}, values: %s}},\n", el.name, kinds[0], kinds[1], kinds[2], strings.TrimPrefix(kinds[2], "value: "))
	}
	fmt.Fprint(&n.tables, "}\n\n")
	for _, tier := range []struct {
		name  string
		usdot bool
	}{{"DotProd", false}, {"I8MM", true}} {
		fmt.Fprintf(&n.tables, "var dot%s = [W8A8 + 1][]dotFunc{\n", tier.name)
		for _, format := range []string{"Q8", "Q4", "W8A8"} {
			fmt.Fprintf(&n.tables, "%s: {nil", format)
			for m := 1; m <= nDotRows; m++ {
				name := fmt.Sprintf("dot%sx%d", format, m)
				if tier.usdot && format != "Q4" {
					name += tier.name
				}
				switch {
				case format == "W8A8":
					n.dotWhole(tier.usdot, m, name)
				case format == "Q8" || !tier.usdot: // both tiers have the same for Q4
					n.dot(format == "Q4", tier.usdot, m, name)
				}
				fmt.Fprintf(&n.tables, ", %sNEON", name)
			}
			fmt.Fprint(&n.tables, "},\n")
		}
		fmt.Fprint(&n.tables, "}\n\n")
	}
	n.vectors()
	return map[string]string{
		"neon_arm64.s":     header + tagARM + n.text.String(),
		"kernels_arm64.go": formatted(header + tagARM + "package cpu\n\n" + n.decls.String() + n.tables.String()),
	}
}
