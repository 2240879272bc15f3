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
	broadcast := func(name string, value any) vec {
		v := g.vec()
		g.op("MOVL", value, temp)
		g.op(name, temp, v)
		return v
	}
	constant := func(v uint32) vec { return broadcast("VPBROADCASTD", fmt.Sprintf("$0x%08x", v)) }
	m0, m1 := constant(0xD2511F53), constant(0xCD9E8D57)
	domain, eight := constant(0x77656972), constant(8)
	slope, most := constant(math.Float32bits(-math.Ln2/(1<<23))), constant(math.Float32bits(159*math.Ln2))
	index := broadcast("VPBROADCASTD", arg("index", 60))
	inv, limit := broadcast("VPBROADCASTD", arg("inv", 64)), broadcast("VPBROADCASTD", arg("limit", 68))
	group := broadcast("VPBROADCASTD", arg("group", 56))
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
