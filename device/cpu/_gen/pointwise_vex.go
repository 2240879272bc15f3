package main

import (
	"fmt"
	"log"
	"math"
	"strings"
)

// pointwises writes the functions as kernels, and the table of them.
func (g *gen) pointwises() {
	list := pointwises()
	for _, c := range literals(list) {
		name := g.literal(c)
		for i := 0; i < g.lanes*4; i += 4 {
			g.raw("DATA %s<>+%d(SB)/4, $0x%08x\n", name, i, math.Float32bits(c))
		}
		g.raw("GLOBL %s<>(SB), RODATA|NOPTR, $%d\n\n", name, g.lanes*4)
	}
	var names []string
	for _, f := range list {
		g.pointwise(f)
		names = append(names, f.name+"Each"+g.suffix)
	}
	fmt.Fprintf(g.tables, "var pointwise%s = [pointwiseKinds]pointwiseFunc{%s}\n\n", g.suffix, strings.Join(names, ", "))
}

// literal is the name of a number in memory.
func (g *gen) literal(v float32) string {
	return fmt.Sprintf("n%08x%s", math.Float32bits(v), g.suffix)
}

// point writes one function: which registers hold values, and which are free.
type point struct {
	*gen
	at   map[*value]vec
	uses map[*value]int
	free []vec
}

const pointwiseFrame = 80

func (g *gen) pointwise(f *pointwise) {
	g.function(f.name+"Each", "(y, x, u []float32, p *[4]float32)", pointwiseFrame, "pointwise "+f.name+", len(y) a multiple of 16")
	list, uses := f.order()
	p := &point{gen: g, at: map[*value]vec{}, uses: uses}
	g.op("MOVQ", arg("y_base", 0), "DI")
	g.op("MOVQ", arg("x_base", 24), "SI")
	g.op("MOVQ", arg("u_base", 48), "DX")
	g.op("MOVQ", arg("u_len", 56), "R8")
	g.op("MOVQ", arg("p", 72), "BX")
	for _, v := range list {
		if v.kind == param {
			p.at[v] = g.vec()
			g.op("VBROADCASTSS", at(v.index*4, "BX"), p.at[v])
			uses[v]++ // it outlives the turn
		}
	}
	kept := map[*value]int{}
	for v, n := range uses {
		kept[v] = n
	}
	p.free = g.vecs(g.regs - g.used)
	g.each(arg("y_len", 8), []string{"DI", "SI", "DX"}, func(i, off int) {
		for v, n := range kept {
			uses[v] = n
		}
		for _, v := range list {
			if v.kind != param {
				p.write(v, off)
			}
		}
		out := p.at[f.result]
		if !f.paired {
			// Without a partner its pointer is counted up and never used.
			skip := fmt.Sprint("alone", i)
			g.op("TESTQ", "R8", "R8")
			g.op("JEQ", skip)
			g.op("VMULPS", at(off, "DX"), out, out)
			g.label(skip)
		}
		g.op("VMOVUPS", out, at(off, "DI"))
		p.done(f.result)
	})
	g.end()
}

// done counts a use of v, and gives its register back after the last.
func (p *point) done(v *value) {
	if v.kind == literal {
		return
	}
	p.uses[v]--
	if p.uses[v] == 0 {
		p.free = append(p.free, p.at[v])
		delete(p.at, v)
	}
}

func (p *point) take() vec {
	if len(p.free) == 0 {
		log.Fatalf("%s has no register left", p.suffix)
	}
	v := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return v
}

// operand is a register, or memory for a literal.
func (p *point) operand(v *value) string {
	if v.kind == literal {
		return p.literal(v.number) + "<>+0(SB)"
	}
	return p.at[v].String()
}

// register is one that holds v, and whether it is a copy that has to be given back.
func (p *point) register(v *value) (r vec, copied bool) {
	if v.kind != literal {
		return p.at[v], false
	}
	r = p.take()
	p.op("VMOVUPS", p.operand(v), r)
	return r, true
}

// write writes the operation of v.
func (p *point) write(v *value, off int) {
	a := v.args
	switch v.kind {
	case input, partner:
		p.at[v] = p.take()
		p.op("VMOVUPS", at(off, map[kind]string{input: "SI", partner: "DX"}[v.kind]), p.at[v])
	case add, mul:
		if a[0].kind == literal {
			a = []*value{a[1], a[0]}
		}
		p.binary(v, map[kind]string{add: "VADDPS", mul: "VMULPS"}[v.kind], a[0], a[1])
	case sub:
		p.binary(v, "VSUBPS", a[0], a[1])
	case div:
		p.binary(v, "VDIVPS", a[0], a[1])
	case least, most:
		// The second source is the result if one is a NaN.
		p.binary(v, map[kind]string{least: "VMINPS", most: "VMAXPS"}[v.kind], a[0], a[1])
	case fma, fms:
		p.fused(v)
	case abs, neg:
		p.bits(v)
	case round:
		name := "VROUNDPS"
		if p.isa == avx512 {
			name = "VRNDSCALEPS"
		}
		p.unary(v, func(from, to vec) { p.op(name, "$8", from, to) })
	case power:
		t := p.take()
		p.op("VCVTPS2DQ", p.at[a[1]], t)
		p.op("VPSLLD", "$23", t, t)
		p.op("VPADDD", p.operand(a[0]), t, t)
		p.done(a[0])
		p.done(a[1])
		p.at[v] = t
	case where:
		p.choose(v)
	default:
		log.Fatalf("operation %d in assembly", v.kind)
	}
}

// binary writes an instruction of two sources; the second may be in memory.
func (p *point) binary(v *value, name string, a, b *value) {
	first, copied := p.register(a)
	second := p.operand(b)
	p.done(a)
	p.done(b)
	to := first
	if !copied {
		to = p.take()
	}
	p.op(name, second, first, to)
	p.at[v] = to
}

func (p *point) unary(v *value, write func(from, to vec)) {
	from := p.at[v.args[0]]
	p.done(v.args[0])
	p.at[v] = p.take()
	write(from, p.at[v])
}

// fused writes a*b + c or a*b - c. The destination is one of the sources: c or a if nothing else needs
// it, or a copy of a.
func (p *point) fused(v *value) {
	a, b, c := v.args[0], v.args[1], v.args[2]
	name := map[kind]string{fma: "VFMADD", fms: "VFMSUB"}[v.kind]
	if a.kind == literal {
		a, b = b, a
	}
	var to vec
	switch {
	case c.kind != literal && p.uses[c] == 1:
		to = p.keep(c)
		p.op(name+"231PS", p.operand(b), p.at[a], to)
		p.done(a)
		p.done(b)
	case b.kind != literal && p.uses[a] == 1:
		to = p.keep(a)
		p.op(name+"213PS", p.operand(c), p.at[b], to)
		p.done(b)
		p.done(c)
	default:
		factor, copied := p.register(b)
		to = p.take()
		p.op("VMOVAPS", p.at[a], to)
		p.op(name+"213PS", p.operand(c), factor, to)
		if copied {
			p.free = append(p.free, factor)
		}
		for _, x := range v.args {
			p.done(x)
		}
	}
	p.at[v] = to
}

// keep is the register of v after its last use, which something else now has.
func (p *point) keep(v *value) vec {
	p.uses[v]--
	return p.at[v]
}

// bits writes operations on the sign.
func (p *point) bits(v *value) {
	names, constant := map[kind]string{abs: "VANDPS", neg: "VXORPS"}, map[kind]string{abs: "magnitude", neg: "sign"}[v.kind]
	if p.isa == avx512 {
		names = map[kind]string{abs: "VPANDD", neg: "VPXORD"}
	}
	p.unary(v, func(from, to vec) { p.op(names[v.kind], p.gen.operand(constant), from, to) })
}

// choose writes c if a < b, else d. Predicate 1 is "less than", which no NaN is.
func (p *point) choose(v *value) {
	a, b, c, d := v.args[0], v.args[1], v.args[2], v.args[3]
	less, copied := p.register(a)
	otherwise, otherCopied := p.register(d)
	to := p.take()
	if p.isa == avx512 {
		p.op("VCMPPS", "$1", p.operand(b), less, "K1")
		p.op("VBLENDMPS", p.operand(c), otherwise, "K1", to)
	} else {
		p.op("VCMPPS", "$1", p.operand(b), less, to)
		p.op("VBLENDVPS", to, p.operand(c), otherwise, to)
	}
	if copied {
		p.free = append(p.free, less)
	}
	if otherCopied {
		p.free = append(p.free, otherwise)
	}
	for _, x := range v.args {
		p.done(x)
	}
	p.at[v] = to
}
