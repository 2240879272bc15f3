package main

import (
	"fmt"
	"log"
)

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

// ldurQ is ldrQ from any offset in [-256, 255].
func (n *neon) ldurQ(d v, base, off int) {
	n.word(0x3cc00000|uint32(off&0x1ff)<<12|uint32(base)<<5|uint32(d), "ldur q%d, %s", d, mem(base, off))
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
func (n *neon) bsl(d, a, b v)   { n.three(0x6e601c00, "bsl", "16b", d, a, b) } // a's bits where d has one, else b's
func (n *neon) orr(d, a, b v)   { n.three(0x4ea01c00, "orr", "16b", d, a, b) }
func (n *neon) smax(d, a, b v)  { n.three(0x4ea06400, "smax", "4s", d, a, b) }
func (n *neon) smin(d, a, b v)  { n.three(0x4ea06c00, "smin", "4s", d, a, b) }
func (n *neon) sub(d, a, b v)   { n.three(0x6ea08400, "sub", "4s", d, a, b) }
func (n *neon) subB(d, a, b v)  { n.three(0x6e208400, "sub", "16b", d, a, b) }
func (n *neon) sshl(d, a, b v)  { n.three(0x4ea04400, "sshl", "4s", d, a, b) }
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

// shlB shifts bytes to the left.
func (n *neon) shlB(d, a v, bits int) {
	n.word(0x4f005400|uint32(8+bits)<<16|uint32(a)<<5|uint32(d), "shl v%d.16b, v%d.16b, #%d", d, a, bits)
}

// tbl has the bytes of a table that b's bytes are the places of.
func (n *neon) tbl(d, table, b v) {
	n.word(0x4e000000|uint32(b)<<16|uint32(table)<<5|uint32(d), "tbl v%d.16b, {v%d.16b}, v%d.16b", d, table, b)
}

// extend widens the elements of a's lower or upper half, which have so many bits.
func (n *neon) extend(d, a v, signed bool, bits int, upper bool) {
	code, name := uint32(0x0f00a400)|uint32(bits)<<16, "shll"
	if signed {
		name = "s" + name
	} else {
		code, name = code|1<<29, "u"+name
	}
	from, to := map[int]string{8: "8b", 16: "4h"}[bits], map[int]string{8: "8h", 16: "4s"}[bits]
	if upper {
		code, name, from = code|1<<30, name+"2", map[int]string{8: "16b", 16: "8h"}[bits]
	}
	n.word(code|uint32(a)<<5|uint32(d), "%s v%d.%s, v%d.%s, #0", name, d, to, a, from)
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

// ext puts b's low bytes after a's high ones.
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
