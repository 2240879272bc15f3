package main

import (
	"fmt"
	"math"
)

// softmaxConstants are those of attention's exponential, as in exp2.go.
var softmaxConstants = []struct {
	name  string
	value float32
}{
	{"e1", 0.6931472421},
	{"e2", 0.2402265221},
	{"e3", 0.05550310388},
	{"e4", 0.009617692791},
	{"e5", 0.001340664341},
	{"e6", 0.0001559467782},
	{"least", -125},
	{"magnitude", math.Float32frombits(0x7fffffff)},
	{"sign", math.Float32frombits(1 << 31)},
}

// exp2 turns x, differences to the greatest score, into 2^(x*hi + x*lo), which
// is 0 below 2^-125.5. t and p are scratch. mask (AVX2) or K1 tell what is not
// zero.
func (g *gen) exp2(x, t, p, hi, lo, mask vec) {
	g.op("VMULPS", hi, x, t)
	if g.isa == avx512 {
		g.op("VRNDSCALEPS", "$8", t, t)
		g.op("VCMPPS", "$5", g.operand("least"), t, "K1")
	} else {
		g.op("VROUNDPS", "$8", t, t)
		g.op("VCMPPS", "$5", g.operand("least"), t, mask)
	}
	g.op("VMOVAPS", t, p)
	g.op("VFMSUB231PS", hi, x, p) // x*hi - t
	g.op("VFMADD231PS", lo, x, p)
	g.op("VMOVUPS", g.operand("e6"), x)
	for i := 5; i > 0; i-- {
		g.op("VFMADD213PS", g.operand(fmt.Sprint("e", i)), p, x)
	}
	g.op("VFMADD213PS", g.operand("one"), p, x)
	g.op("VCVTPS2DQ", t, t)
	g.op("VPSLLD", "$23", t, t)
	if g.isa == avx512 {
		g.op("VPADDD.Z", t, x, "K1", x)
	} else {
		g.op("VPADDD", t, x, x)
		g.op("VANDPS", mask, x, x)
	}
}

func (g *gen) expSum() {
	const x, top, hi, lo, ret, frame = 0, 24, 28, 32, 40, 44
	g.function("expSum", "(x []float32, top, hi, lo float32) float32", frame, "impl.expSum")
	g.exponentials(x, top, hi, lo, false)
	g.op("VMOVSS", "X0", arg("ret", ret))
	g.end()
}

func (g *gen) expSumScaled() {
	const x, top, hi, lo, kv, offs, ret, frame = 0, 24, 28, 32, 40, 64, 88, 96
	g.function("expSumScaled", "(x []float32, top, hi, lo float32, kv []byte, offs []int) (sum, most float32)", frame, "impl.expSumScaled")
	g.op("MOVQ", arg("kv_base", kv), "DI")
	g.op("MOVQ", arg("offs_base", offs), "DX")
	g.exponentials(x, top, hi, lo, true)
	g.op("VMOVSS", "X0", arg("sum", ret))
	g.op("VMOVSS", "X1", arg("most", ret+4))
	g.end()
}

// exponentials replaces x by its exponentials, or these times the scales of
// values, and leaves their sum, without scales, in X0 and the greatest product
// in X1.
func (g *gen) exponentials(xArg, topArg, hiArg, loArg int, scaled bool) {
	n := step / g.lanes
	// The registers of results come first; the odd order is AVX2's, which has two
	// of each.
	acc := g.vecs(1)
	most := g.vecs(1)
	for len(acc) < n {
		acc, most = append(acc, g.vec()), append(most, g.vec())
	}
	x, t, p, mask, top, hi, lo := g.vec(), g.vec(), g.vec(), g.vec(), g.vec(), g.vec(), g.vec()
	g.op("MOVQ", arg("x_base", xArg), "SI")
	g.op("VBROADCASTSS", arg("top", topArg), top)
	g.op("VBROADCASTSS", arg("hi", hiArg), hi)
	g.op("VBROADCASTSS", arg("lo", loArg), lo)
	g.zero(acc...)
	g.zero(most...)
	first := true
	g.each(arg("x_len", xArg+8), []string{"SI"}, func(i, off int) {
		if scaled && first {
			g.op("MOVQ", "(DX)", "AX")
			g.op("ADDQ", "$8", "DX")
		}
		first = false
		g.op("VMOVUPS", at(off, "SI"), x)
		g.op("VSUBPS", top, x, x)
		g.exp2(x, t, p, hi, lo, mask)
		g.op("VADDPS", x, acc[i], acc[i])
		if scaled {
			scale := fmt.Sprintf("%d(DI)(AX*1)", off)
			if g.isa == avx512 {
				g.op("VMULPS.Z", scale, x, "K1", x)
			} else {
				g.op("VMULPS", scale, x, x)
				g.op("VANDPS", mask, x, x)
			}
			// As integers, so that NaN is the greatest; none is negative.
			g.op("VPMAXUD", x, most[i], most[i])
		}
		g.op("VMOVUPS", x, at(off, "SI"))
	})
	g.reduce("VADDPS", acc, t)
	if scaled {
		g.reduce("VPMAXUD", most, t)
	}
}

func (g *gen) absMax() {
	g.function("absMax", "(x []float32) float32", 28, "impl.absMax, len(x) a multiple of 16")
	acc, v := g.lanes16(), g.vec()
	g.op("MOVQ", arg("x_base", 0), "SI")
	g.zero(acc...)
	g.each(arg("x_len", 8), []string{"SI"}, func(i, off int) {
		g.op("VMOVUPS", at(off, "SI"), v)
		if g.isa == avx512 {
			g.op("VPANDD", g.operand("magnitude"), v, v)
		} else {
			g.op("VPAND", g.operand("magnitude"), v, v)
		}
		g.op("VPMAXUD", v, acc[i], acc[i])
	})
	g.reduce("VPMAXUD", acc, v)
	g.op("VMOVSS", acc[0].x(), arg("ret", 24))
	g.end()
}

// toInt16 keeps groups of four in the order in which dots multiply them.
func (g *gen) toInt16() {
	g.function("toInt16", "(dst, x []float32, inv float32)", 52, "impl.toInt16, len(x) a multiple of 16")
	v, inv := g.lanes16(), g.vec()
	g.op("MOVQ", arg("dst_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.op("VBROADCASTSS", arg("inv", 48), inv)
	g.each(arg("x_len", 32), []string{"SI"}, func(i, off int) {
		g.op("VMULPS", at(off, "SI"), inv, v[i])
		g.op("VCVTPS2DQ", v[i], v[i])
		if i+1 < len(v) {
			return
		}
		packed := v[0].y()
		if g.isa == avx512 {
			g.op("VPMOVDW", v[0], packed)
		} else {
			g.op("VPACKSSDW", v[1], v[0], v[0])
			g.op("VPERMQ", "$0xd8", packed, packed)
		}
		g.op("VPSHUFLW", "$0xd8", packed, packed)
		g.op("VPSHUFHW", "$0xd8", packed, packed)
		g.op("VMOVDQU", packed, at(0, "DI"))
		g.op("ADDQ", "$32", "DI")
	})
	g.end()
}

// toInt8 rounds to bytes and returns their sum.
func (g *gen) toInt8() {
	g.function("toInt8", "(dst, x []float32, inv float32) int32", 60, "attention.toInt8, len(x) a multiple of 16")
	sum, v, inv := g.vec(), g.vec(), g.vec()
	g.op("MOVQ", arg("dst_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.op("VBROADCASTSS", arg("inv", 48), inv)
	g.zero(sum)
	g.each(arg("x_len", 32), []string{"SI"}, func(_, off int) {
		g.op("VMULPS", at(off, "SI"), inv, v)
		g.op("VCVTPS2DQ", v, v)
		g.op("VPADDD", v, sum, sum)
		g.op("VPMOVDB", v, at(0, "DI"))
		g.op("ADDQ", "$16", "DI")
	})
	g.reduce("VPADDD", []vec{sum}, v)
	g.op("VMOVD", sum.x(), temp)
	g.op("MOVL", temp, arg("ret", 56))
	g.end()
}

// toPairs rounds to bfloat16.
func (g *gen) toPairs() {
	g.function("toPairs", "(dst, x []float32)", 48, "attention.toPairs, len(x) a multiple of 16")
	v := g.vec()
	g.op("MOVQ", arg("dst_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.each(arg("x_len", 32), []string{"SI"}, func(_, off int) {
		g.op("VMOVUPS", at(off, "SI"), v)
		g.evex(0x72, v, vec{g, 0}, v) // VCVTNEPS2BF16
		g.op("VMOVDQU", v.y(), at(0, "DI"))
		g.op("ADDQ", "$32", "DI")
	})
	g.end()
}

// evex encodes an instruction of AVX512-BF16 on 512 bits, which Go's assembler
// does not know: dst, src1, src2 as in Intel's manual. What has one source
// only has Z0 for src1.
func (g *gen) evex(opcode int, dst, src1, src2 vec) {
	not := func(n, bit int) int { return n>>bit&1 ^ 1 }
	bytes := []int{
		0x62,
		not(dst.n, 3)<<7 | not(src2.n, 4)<<6 | not(src2.n, 3)<<5 | not(dst.n, 4)<<4 | 2, // map 0F38
		^src1.n&15<<3 | 4 | 2,    // W0, prefix F3
		2<<5 | not(src1.n, 4)<<3, // 512 bits
		opcode,
		0xc0 | dst.n&7<<3 | src2.n&7,
	}
	for i, b := range bytes {
		sep := "; "
		if i == 0 {
			sep = "\t"
		}
		g.raw("%sBYTE $0x%02x", sep, b)
	}
	g.raw("\n")
}

// prefetch asks for memory that is needed later.
func (g *gen) prefetch() {
	g.function("prefetch", "(kv []byte, at []int, n int)", 56, "impl.prefetch")
	g.op("MOVQ", arg("at_base", 24), "SI")
	g.op("MOVQ", arg("at_len", 32), "CX")
	g.op("MOVQ", arg("n", 48), "DX")
	g.op("TESTQ", "CX", "CX")
	g.op("JEQ", "done")
	g.label("unit")
	g.op("MOVQ", "(SI)", "AX")
	g.op("ADDQ", arg("kv_base", 0), "AX")
	g.op("MOVQ", "DX", "BX")
	g.label("line")
	g.op("PREFETCHT1", "(AX)")
	g.op("ADDQ", fmt.Sprint("$", line), "AX")
	g.op("SUBQ", fmt.Sprint("$", line), "BX")
	g.op("JGT", "line")
	g.op("ADDQ", "$8", "SI")
	g.op("DECQ", "CX")
	g.op("JNE", "unit")
	g.label("done")
	g.raw("\tRET\n\n")
}
