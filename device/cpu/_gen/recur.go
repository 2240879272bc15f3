package main

import "fmt"

// Kernels of recurrences and convolutions. Their products are rounded before they are added, so that
// all tiers compute the same bits.

// recurColumns are how many value columns a kernel takes.
var recurColumns = []int{16, 32}

func (g *gen) recurrent() {
	g.squares()
	g.conv()
	for _, n := range recurColumns {
		g.delta(n)
	}
	for _, n := range recurColumns {
		g.scan(n)
	}
	fmt.Fprintf(g.tables, "var recurrent%s = recurrent{squares: squares%s, conv: conv%s, delta: [stateParts + 1]deltaFunc{nil", g.suffix, g.suffix, g.suffix)
	for _, n := range recurColumns {
		fmt.Fprintf(g.tables, ", delta%d%s", n, g.suffix)
	}
	fmt.Fprintf(g.tables, "}, scan: [stateParts + 1]scanFunc{nil")
	for _, n := range recurColumns {
		fmt.Fprintf(g.tables, ", scan%d%s", n, g.suffix)
	}
	fmt.Fprintf(g.tables, "}}\n\n")
}

func (g *gen) squares() {
	g.function("squares", "(x []float32) float32", 28, "recurrent.squares")
	acc, v := g.lanes16(), g.vec()
	g.op("MOVQ", arg("x_base", 0), "SI")
	g.zero(acc...)
	g.each(arg("x_len", 8), []string{"SI"}, func(i, off int) {
		g.op("VMOVUPS", at(off, "SI"), v)
		g.op("VMULPS", v, v, v)
		g.op("VADDPS", v, acc[i], acc[i])
	})
	g.reduce("VADDPS", acc, v)
	g.op("VMOVSS", acc[0].x(), arg("ret", 24))
	g.end()
}

func (g *gen) conv() {
	g.function("conv", "(y, rows, w []float32, width int)", 80, "recurrent.conv, len(y) a multiple of 16")
	acc, t := g.lanes16(), g.vec()
	g.op("MOVQ", arg("y_base", 0), "DI")
	g.op("MOVQ", arg("rows_base", 24), "SI")
	g.op("MOVQ", arg("w_base", 48), "DX")
	g.op("MOVQ", arg("y_len", 8), "R8")
	g.op("MOVQ", "R8", "CX")
	g.op("SHLQ", "$2", "R8")
	g.op("SHRQ", "$4", "CX")
	g.op("JEQ", "done")
	g.label("columns")
	for i, a := range acc {
		g.op("VMOVUPS", at(i*g.lanes*4, "DX"), a)
	}
	g.op("MOVQ", "SI", "R9")
	g.op("LEAQ", "(DX)(R8*1)", "R10")
	g.op("MOVQ", arg("width", 72), "AX")
	g.label("row")
	for i, a := range acc {
		g.op("VMOVUPS", at(i*g.lanes*4, "R10"), t)
		g.op("VMULPS", at(i*g.lanes*4, "R9"), t, t)
		g.op("VADDPS", t, a, a)
	}
	g.op("ADDQ", "R8", "R9")
	g.op("ADDQ", "R8", "R10")
	g.op("DECQ", "AX")
	g.op("JNE", "row")
	for i, a := range acc {
		g.op("VMOVUPS", a, at(i*g.lanes*4, "DI"))
	}
	for _, p := range []string{"DI", "SI", "DX"} {
		g.op("ADDQ", fmt.Sprint("$", step*4), p)
	}
	g.op("DECQ", "CX")
	g.op("JNE", "columns")
	g.label("done")
	g.end()
}

// keys runs body for each key of a state of n columns; AX is its number.
func (g *gen) keys(label string, n int, states []string, body func()) {
	g.op("XORQ", "AX", "AX")
	g.label(label)
	body()
	for _, s := range states {
		g.op("ADDQ", fmt.Sprint("$", n*4), s)
	}
	g.op("INCQ", "AX")
	g.op("CMPQ", "AX", "CX")
	g.op("JNE", label)
}

// number is number AX of an array.
func number(base string) string { return fmt.Sprintf("(%s)(AX*4)", base) }

func (g *gen) delta(columns int) {
	const y, v, to, from, decay, forget, k, q, beta, frame = 0, 24, 48, 72, 96, 120, 144, 168, 192, 196
	g.function(fmt.Sprint("delta", columns), "(y, v, to, from, decay, forget, k, q []float32, beta float32)", frame, "recurrent.delta")
	n := columns / g.lanes
	acc, u, s, t, db, kb, qb := g.vecs(n), g.vecs(n), g.vec(), g.vec(), g.vec(), g.vec(), g.vec()
	g.op("MOVQ", arg("from_base", from), "R9")
	g.op("MOVQ", arg("forget_base", forget), "R11")
	g.op("MOVQ", arg("k_base", k), "R12")
	g.op("MOVQ", arg("k_len", k+8), "CX")
	g.zero(acc...)
	g.keys("dot", columns, []string{"R9"}, func() {
		g.op("VBROADCASTSS", number("R11"), kb)
		for j, a := range acc {
			g.op("VMULPS", at(j*g.lanes*4, "R9"), kb, t)
			g.op("VADDPS", t, a, a)
		}
	})
	g.op("MOVQ", arg("v_base", v), "SI")
	g.op("VBROADCASTSS", arg("beta", beta), t)
	for j := range u {
		g.op("VMOVUPS", at(j*g.lanes*4, "SI"), u[j])
		g.op("VSUBPS", acc[j], u[j], u[j])
		g.op("VMULPS", t, u[j], u[j])
	}
	g.op("MOVQ", arg("from_base", from), "R9")
	g.op("MOVQ", arg("to_base", to), "R8")
	g.op("MOVQ", arg("decay_base", decay), "R10")
	g.op("MOVQ", arg("q_base", q), "R13")
	g.zero(acc...)
	g.keys("update", columns, []string{"R9", "R8"}, func() {
		g.op("VBROADCASTSS", number("R10"), db)
		g.op("VBROADCASTSS", number("R12"), kb)
		g.op("VBROADCASTSS", number("R13"), qb)
		g.update(acc, u, s, t, db, kb, qb)
	})
	g.op("MOVQ", arg("y_base", y), "DI")
	for j, a := range acc {
		g.op("VMOVUPS", a, at(j*g.lanes*4, "DI"))
	}
	g.end()
}

// update writes from*decay + u*k to to, and adds that times q to acc.
func (g *gen) update(acc, u []vec, s, t, decay, k, q vec) {
	for j, a := range acc {
		off := j * g.lanes * 4
		g.op("VMULPS", at(off, "R9"), decay, s)
		g.op("VMULPS", u[j], k, t)
		g.op("VADDPS", t, s, s)
		g.op("VMOVUPS", s, at(off, "R8"))
		g.op("VMULPS", s, q, s)
		g.op("VADDPS", s, a, a)
	}
}

func (g *gen) scan(columns int) {
	const y, x, to, from, b, c, decay, skip, frame = 0, 24, 48, 72, 96, 120, 144, 148, 152
	g.function(fmt.Sprint("scan", columns), "(y, x, to, from, b, c []float32, decay, skip float32)", frame, "recurrent.scan")
	n := columns / g.lanes
	acc, u, s, t, db, kb, qb := g.vecs(n), g.vecs(n), g.vec(), g.vec(), g.vec(), g.vec(), g.vec()
	g.op("MOVQ", arg("x_base", x), "SI")
	g.op("MOVQ", arg("to_base", to), "R8")
	g.op("MOVQ", arg("from_base", from), "R9")
	g.op("MOVQ", arg("b_base", b), "R12")
	g.op("MOVQ", arg("c_base", c), "R13")
	g.op("MOVQ", arg("b_len", b+8), "CX")
	g.op("VBROADCASTSS", arg("decay", decay), db)
	g.op("VBROADCASTSS", arg("skip", skip), t)
	for j := range u {
		g.op("VMOVUPS", at(j*g.lanes*4, "SI"), u[j])
		g.op("VMULPS", t, u[j], acc[j])
	}
	g.keys("update", columns, []string{"R9", "R8"}, func() {
		g.op("VBROADCASTSS", number("R12"), kb)
		g.op("VBROADCASTSS", number("R13"), qb)
		g.update(acc, u, s, t, db, kb, qb)
	})
	g.op("MOVQ", arg("y_base", y), "DI")
	for j, a := range acc {
		g.op("VMOVUPS", a, at(j*g.lanes*4, "DI"))
	}
	g.end()
}
