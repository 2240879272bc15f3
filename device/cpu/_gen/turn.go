package main

import "fmt"

// turns writes the kernels that make tiles of values of tiles of keys, which are the same with AVX-512: they
// move what is in the second-level cache.
func (g *gen) turns() {
	if g.isa != avx2 {
		return
	}
	g.bytes("turnMiddle", []int{0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15})
	g.bytes("turnQuads", []int{0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15})
	g.turnPairs()
	g.turnBytes()
}

// bytes fills a vector with 16 bytes, twice.
func (g *gen) bytes(name string, list []int) {
	name = g.constant(name)
	for i := range 32 {
		g.raw("DATA %s+%d(SB)/1, $%d\n", name, i, list[i%16])
	}
	g.raw("GLOBL %s(SB), RODATA|NOPTR, $32\n\n", name)
}

// eachTile runs body for each tile of so many bytes, from (SI) to (DI).
func (g *gen) eachTile(size int, body func()) {
	g.op("MOVQ", arg("to_base", 0), "DI")
	g.op("MOVQ", arg("to_len", 8), "CX")
	g.op("MOVQ", arg("from_base", 24), "SI")
	g.op("SUBQ", fmt.Sprint("$", size), "CX")
	g.op("JLT", "done")
	g.label("loop")
	body()
	g.op("ADDQ", fmt.Sprint("$", size), "SI")
	g.op("ADDQ", fmt.Sprint("$", size), "DI")
	g.op("SUBQ", fmt.Sprint("$", size), "CX")
	g.op("JGE", "loop")
	g.label("done")
	g.end()
}

// turnPairs turns a matrix of 8 by 8 words of 64 bits, which are two columns of two positions. Their middle ones change
// places.
func (g *gen) turnPairs() {
	g.function("turnPairs", "(to, from []byte)", 48, "impl.turn for tiles of BF16")
	middle, x, t := g.vec(), g.vecs(4), g.vecs(4)
	g.op("VMOVDQU", g.operand("turnMiddle"), middle)
	g.eachTile(512, func() {
		for r := range 2 {
			for c := range 2 {
				for i := range x {
					g.op("VMOVDQU", at(64*(4*r+i)+32*c, "SI"), x[i])
					g.op("VPSHUFB", middle, x[i], x[i])
				}
				for i := 0; i < 4; i += 2 {
					g.op("VPUNPCKLQDQ", x[i+1], x[i], t[i])
					g.op("VPUNPCKHQDQ", x[i+1], x[i], t[i+1])
				}
				for i := range x {
					g.op("VPERM2I128", []string{"$0x20", "$0x31"}[i/2], t[2+i%2], t[i%2], x[i])
					g.op("VMOVDQU", x[i], at(64*(4*c+i)+32*r, "DI"))
				}
			}
		}
	})
}

// turnBytes turns a matrix of 4 by 4 words of 128 bits, which are four columns of four positions, and each of these.
func (g *gen) turnBytes() {
	g.function("turnBytes", "(to, from []byte, flip byte)", 49, "impl.turn for tiles of Int8")
	quads, flip, x, t := g.vec(), g.vec(), g.vecs(4), g.vec()
	g.op("VMOVDQU", g.operand("turnQuads"), quads)
	g.op("VPBROADCASTB", arg("flip", 48), flip)
	g.eachTile(256, func() {
		for h := range 2 {
			for i := range x {
				g.op("VPXOR", at(64*i+32*h, "SI"), flip, x[i])
				g.op("VPSHUFB", quads, x[i], x[i])
			}
			for p := range 2 {
				for i := 0; i < 4; i += 2 {
					g.op("VPERM2I128", []string{"$0x20", "$0x31"}[p], x[i+1], x[i], t)
					g.op("VMOVDQU", t, at(64*(2*h+p)+16*i, "DI"))
				}
			}
		}
	})
}
