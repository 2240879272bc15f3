package main

import (
	"fmt"
	"math"
)

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
	n.op("MOVD $-127, R%d", nTemp)
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
// and adds them to sum. What is not a number becomes the least, -127.
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
	n.op("MOVD $-127, R%d", nTemp)
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
