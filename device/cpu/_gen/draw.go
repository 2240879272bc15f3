package main

import (
	"fmt"
	"math"
)

// near writes sampler.Kernels.Near: 32 tokens at a time. A 64-bit lane holds a
// group's counter words in its lower halves, because that is where VPMULUDQ
// reads; what stands above is never looked at. So the two halves of a product
// are the next round's words after a shift at most, and nothing is shuffled
// before the end (Philox 4x32-10: Salmon, Moraes, Dror, Shaw, SC 2011).
func (g *gen) near() {
	const rounds = 10
	order := g.constant("groups")
	for i, group := range []int{0, 4, 1, 5, 2, 6, 3, 7} {
		// The unpacking at the end takes lanes 0, 2, 4, 6 for tokens 0 to 15.
		g.raw("DATA %s+%d(SB)/8, $%d\n", order, 8*i, group)
	}
	g.raw("GLOBL %s(SB), RODATA|NOPTR, $64\n\n", order)
	g.function("near", "(hits []uint32, logits []float32, keys *[20]uint32, group, index uint32, inv, limit float32)", 72, "sampler.Kernels.Near")
	m0, m1 := g.broadcastBits(0xD2511F53), g.broadcastBits(0xCD9E8D57)
	domain, eight := g.broadcastBits(0x77656972), g.broadcastBits(8)
	slope, most := g.broadcast32(-math.Ln2/(1<<23)), g.broadcast32(159*math.Ln2)
	index := g.broadcastArg("index", 60)
	inv, limit := g.broadcastArg("inv", 64), g.broadcastArg("limit", 68)
	group := g.broadcastArg("group", 56)
	g.op("VPADDD", order+"(SB)", group, group)
	g.op("MOVL", "$0x5555", temp)
	g.op("KMOVW", temp, "K1") // the lower halves
	g.op("MOVQ", arg("hits_base", 0), "DI")
	g.op("MOVQ", arg("hits_len", 8), pairs)
	g.op("MOVQ", arg("logits_base", 24), "SI")
	g.op("MOVQ", arg("keys", 48), ahead)
	c, t := g.vecs(4), g.vecs(2)
	g.op("TESTQ", pairs, pairs)
	g.op("JEQ", "end")
	g.label("loop")
	g.op("VMOVDQA32", group, c[0])
	g.op("VMOVDQA32", index, c[1])
	g.op("VPXORD", c[2], c[2], c[2])
	g.op("VMOVDQA32", domain, c[3])
	g.op("VPADDD", eight, group, group)
	for r := range rounds {
		g.op("VPMULUDQ", m0, c[0], t[0])
		g.op("VPMULUDQ", m1, c[2], t[1])
		g.op("VPSRLQ", "$32", t[1], c[0])
		g.op("VPTERNLOGD.BCST", "$0x96", at(8*r, ahead), c[1], c[0])
		g.op("VPSRLQ", "$32", t[0], c[2])
		g.op("VPTERNLOGD.BCST", "$0x96", at(8*r+4, ahead), c[3], c[2])
		c[1], c[3], t[0], t[1] = t[1], t[0], c[3], c[1]
	}
	for i := 1; i < 4; i += 2 {
		g.op("VPSLLQ", "$32", c[i], c[i])
		g.op("VMOVDQA32", c[i-1], "K1", c[i])
	}
	g.op("VPUNPCKLQDQ", c[3], c[1], c[0])
	g.op("VPUNPCKHQDQ", c[3], c[1], c[2])
	for i, x := range []vec{c[0], c[2]} {
		g.op("VCVTUDQ2PS", x, x)
		g.op("VCVTDQ2PS", x, x) // its bits
		g.op("VFMADD213PS", most, slope, x)
		g.op("VMULPS", at(i*line, "SI"), inv, t[i])
		g.op("VADDPS", t[i], x, x)
		g.op("VCMPPS", "$29", limit, x, fmt.Sprint("K", 2+i))
	}
	g.op("KMOVW", "K2", temp)
	g.op("KMOVW", "K3", out)
	g.op("SHLL", "$16", out)
	g.op("ORL", out, temp)
	g.op("MOVL", temp, at(0, "DI"))
	g.op("ADDQ", "$128", "SI")
	g.op("ADDQ", "$4", "DI")
	g.op("DECQ", pairs)
	g.op("JNE", "loop")
	g.label("end")
	g.end()
}

// broadcastBits fills a register of its own with 32 bits.
func (g *gen) broadcastBits(v uint32) vec {
	r := g.vec()
	g.op("MOVL", fmt.Sprintf("$0x%08x", v), temp)
	g.op("VPBROADCASTD", temp, r)
	return r
}

func (g *gen) broadcast32(v float32) vec { return g.broadcastBits(math.Float32bits(v)) }

// broadcastArg does the same with an argument of 32 bits.
func (g *gen) broadcastArg(name string, off int) vec {
	r := g.vec()
	g.op("VBROADCASTSS", arg(name, off), r)
	return r
}

// pick writes the kernels of sampler.Picker.
func (g *gen) pick() {
	g.pickLoad()
	g.pickMass()
	g.pickAbove()
	g.pickBetween()
}

// pickLoad is Go's order of operations: what is not legal has a bit of its own,
// so that no NaN gets into the maximum.
func (g *gen) pickLoad() {
	g.function("pickLoad", "(dst, logits []float32, inv float32) float32", 60, "sampler.Kernels.Load")
	top, v, inv := g.vec(), g.vec(), g.broadcastArg("inv", 48)
	least, most := g.broadcast32(-math.MaxFloat32), g.broadcast32(math.MaxFloat32)
	none := g.broadcast32(float32(math.Inf(-1)))
	g.op("VMOVAPS", none, top)
	g.op("MOVQ", arg("dst_base", 0), "DI")
	g.op("MOVQ", arg("logits_base", 24), "SI")
	g.each(arg("logits_len", 32), []string{"SI", "DI"}, func(_, off int) {
		g.op("VMOVUPS", at(off, "SI"), v)
		g.op("VCMPPS", "$29", least, v, "K1") // v >= least
		g.op("VMINPS", most, v, v)
		g.op("VMULPS", inv, v, v)
		g.op("VMINPS", most, v, v)
		g.op("VMAXPS", least, v, v)
		g.op("VBLENDMPS", v, none, "K1", v)
		g.op("VMAXPS", v, top, top)
		g.op("VMOVUPS", v, at(off, "DI"))
	})
	g.reduce("VMAXPS", []vec{top}, v)
	g.op("VMOVSS", top.x(), arg("ret", 56))
	g.end()
}

// pickMass is sampler's exp32 and weight, every operation rounded on its own: no
// FMA here. Where 32 values are all below the floor, which most are, nothing is
// computed.
func (g *gen) pickMass() {
	g.function("pickMass", "(z []float32, floor, top float32) uint64", 40, "sampler.Kernels.Mass")
	sum, x := g.vecs(2), g.vecs(2)
	t, q, m := g.vecs(2), g.vecs(2), g.vecs(2)
	floor, top := g.broadcastArg("floor", 24), g.broadcastArg("top", 28)
	log2e, round := g.broadcast32(math.Log2E), g.broadcast32(12582912)
	high, low := g.broadcast32(0.693359375), g.broadcast32(-2.121944400546905e-4)
	var e []vec
	for _, v := range []float32{0.49999994, 0.1666652, 0.041668393, 0.008368781, 0.0013814464} {
		e = append(e, g.broadcast32(v))
	}
	one, least, unit := g.broadcast32(1), g.broadcast32(-28), g.broadcast32(1<<40)
	both := func(op string, operands func(i int) []any) {
		for i := range 2 {
			g.op(op, operands(i)...)
		}
	}
	k := func(i int) string { return fmt.Sprint("K", 1+i) }
	g.zero(sum...)
	g.op("MOVQ", arg("z_base", 0), "SI")
	g.op("MOVQ", arg("z_len", 8), "CX")
	g.op("SHRQ", "$5", "CX")
	g.op("JEQ", "done")
	g.label("loop")
	both("VMOVUPS", func(i int) []any { return []any{at(i*line, "SI"), x[i]} })
	both("VCMPPS", func(i int) []any { return []any{"$29", floor, x[i], k(i)} })
	g.op("KORTESTW", "K1", "K2")
	g.op("JEQ", "next")
	both("VSUBPS", func(i int) []any { return []any{top, x[i], x[i]} })
	both("VCMPPS", func(i int) []any { return []any{"$29", least, x[i], k(i), k(i)} }) // both bounds
	both("VMULPS", func(i int) []any { return []any{log2e, x[i], t[i]} })
	both("VADDPS", func(i int) []any { return []any{round, t[i], t[i]} }) // its low bits are k
	both("VSUBPS", func(i int) []any { return []any{round, t[i], q[i]} })
	both("VMULPS", func(i int) []any { return []any{high, q[i], m[i]} })
	both("VSUBPS", func(i int) []any { return []any{m[i], x[i], x[i]} })
	both("VMULPS", func(i int) []any { return []any{low, q[i], m[i]} })
	both("VSUBPS", func(i int) []any { return []any{m[i], x[i], x[i]} }) // r
	both("VMULPS", func(i int) []any { return []any{e[4], x[i], q[i]} })
	for c := 3; c >= 0; c-- {
		both("VADDPS", func(i int) []any { return []any{e[c], q[i], q[i]} })
		if c > 0 {
			both("VMULPS", func(i int) []any { return []any{x[i], q[i], q[i]} })
		}
	}
	both("VMULPS", func(i int) []any { return []any{x[i], x[i], m[i]} })
	both("VMULPS", func(i int) []any { return []any{m[i], q[i], q[i]} })
	both("VADDPS", func(i int) []any { return []any{q[i], x[i], q[i]} })
	both("VADDPS", func(i int) []any { return []any{one, q[i], q[i]} })
	both("VPSLLD", func(i int) []any { return []any{"$23", t[i], t[i]} })
	both("VPADDD", func(i int) []any { return []any{t[i], q[i], q[i]} })
	both("VMULPS.Z", func(i int) []any { return []any{unit, q[i], k(i), q[i]} })
	both("VEXTRACTF64X4", func(i int) []any { return []any{"$1", q[i], t[i].y()} })
	both("VCVTTPS2QQ", func(i int) []any { return []any{q[i].y(), q[i]} })
	both("VCVTTPS2QQ", func(i int) []any { return []any{t[i].y(), t[i]} })
	both("VPADDQ", func(i int) []any { return []any{q[i], sum[i], sum[i]} })
	both("VPADDQ", func(i int) []any { return []any{t[i], sum[i], sum[i]} })
	g.label("next")
	g.op("ADDQ", "$128", "SI")
	g.op("DECQ", "CX")
	g.op("JNE", "loop")
	g.label("done")
	s, u := sum[0], sum[1]
	g.op("VPADDQ", u, s, s)
	g.op("VEXTRACTI64X4", "$1", s, u.y())
	g.op("VPADDQ", u.y(), s.y(), s.y())
	g.op("VEXTRACTI128", "$1", s.y(), u.x())
	g.op("VPADDQ", u.x(), s.x(), s.x())
	g.op("VPUNPCKHQDQ", s.x(), s.x(), u.x())
	g.op("VPADDQ", u.x(), s.x(), s.x())
	g.op("VMOVQ", s.x(), arg("ret", 32))
	g.end()
}

func (g *gen) pickAbove() {
	g.function("pickAbove", "(hits []uint32, z []float32, floor float32)", 52, "sampler.Kernels.Above")
	floor := g.broadcastArg("floor", 48)
	g.op("MOVQ", arg("hits_base", 0), "DI")
	g.op("MOVQ", arg("hits_len", 8), "CX")
	g.op("MOVQ", arg("z_base", 24), "SI")
	g.op("TESTQ", "CX", "CX")
	g.op("JEQ", "done")
	g.label("loop")
	g.op("VCMPPS", "$18", at(0, "SI"), floor, "K1") // floor <= z
	g.op("VCMPPS", "$18", at(line, "SI"), floor, "K2")
	g.op("KUNPCKWD", "K1", "K2", "K1")
	g.op("KMOVD", "K1", at(0, "DI"))
	g.op("ADDQ", "$128", "SI")
	g.op("ADDQ", "$4", "DI")
	g.op("DECQ", "CX")
	g.op("JNE", "loop")
	g.label("done")
	g.end()
}

// pickBetween compresses in registers and stores whole vectors, because a
// compressing store is slow on Zen 4. No store is ahead of the loads, so that dst
// may be z.
func (g *gen) pickBetween() {
	g.function("pickBetween", "(dst, z []float32, lo, end float32) int", 64, "sampler.Kernels.Between")
	lo, end := g.broadcastArg("lo", 48), g.broadcastArg("end", 52)
	x := g.vecs(2)
	g.op("MOVQ", arg("dst_base", 0), "DI")
	g.op("MOVQ", "DI", "DX")
	g.op("MOVQ", arg("z_base", 24), "SI")
	g.op("MOVQ", arg("z_len", 32), "CX")
	g.op("SHRQ", "$5", "CX")
	g.op("JEQ", "done")
	g.label("loop")
	for i := range 2 {
		k := fmt.Sprint("K", 1+i)
		g.op("VMOVUPS", at(i*line, "SI"), x[i])
		g.op("VCMPPS", "$29", lo, x[i], k)     // x >= lo
		g.op("VCMPPS", "$17", end, x[i], k, k) // and x < end
	}
	g.op("KORTESTW", "K1", "K2")
	g.op("JEQ", "next")
	for i := range 2 {
		k := fmt.Sprint("K", 1+i)
		g.op("VCOMPRESSPS.Z", x[i], k, x[i])
		g.op("KMOVW", k, temp)
		g.op("POPCNTL", temp, temp)
		g.op("VMOVUPS", x[i], at(0, "DI"))
		g.op("LEAQ", fmt.Sprintf("(DI)(%s*4)", temp), "DI")
	}
	g.label("next")
	g.op("ADDQ", "$128", "SI")
	g.op("DECQ", "CX")
	g.op("JNE", "loop")
	g.label("done")
	g.op("SUBQ", "DX", "DI")
	g.op("SHRQ", "$2", "DI")
	g.op("MOVQ", "DI", arg("ret", 56))
	g.end()
}
