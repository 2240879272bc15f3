package main

import (
	"fmt"
	"log"
	"math"
	"slices"
	"strings"
)

// recurrent writes the kernels of recur.go.
func (n *neon) recurrent() {
	acc := []v{0, 1, 2, 3}
	n.function("squares", "(x []float32) float32", 28, "recurrent.squares")
	n.zero(acc...)
	n.each("x_len", 8, []argument{{"x_base", 0, 0}}, func(i, off int) {
		n.ldrQ(4, nRow, off)
		n.fmul(4, 4, 4)
		n.fadd(acc[i], acc[i], 4)
	})
	n.fold(n.fadd, acc, 4)
	n.result(0, "ret", 24)
	n.end()

	const stride, row, weight, wide = nX, nStep, nBase, nK
	n.function("conv", "(y, rows, w []float32, width int)", 80, "recurrent.conv, len(y) a multiple of 16")
	n.op("MOVD y_len+8(FP), R%d", stride)
	n.op("LSL $2, R%d, R%d", stride, stride)
	n.op("MOVD width+72(FP), R%d", wide)
	n.each("y_len", 8, []argument{{"y_base", 0, 0}, {"rows_base", 24, 0}, {"w_base", 48, 0}}, func(i, off int) {
		if i > 0 { // all at once
			return
		}
		for j, a := range acc {
			n.ldrQ(a, nRow+2, j*16)
		}
		n.op("MOVD R%d, R%d", nRow+1, row)
		n.op("ADD R%d, R%d, R%d", stride, nRow+2, weight)
		n.op("MOVD R%d, R%d", wide, nLeft)
		n.label("row")
		for j, a := range acc {
			n.ldrQ(4, row, j*16)
			n.ldrQ(5, weight, j*16)
			n.fmul(4, 4, 5)
			n.fadd(a, a, 4)
		}
		n.op("ADD R%d, R%d, R%d", stride, row, row)
		n.op("ADD R%d, R%d, R%d", stride, weight, weight)
		n.op("SUB $1, R%d, R%d", nLeft, nLeft)
		n.op("CBNZ R%d, row", nLeft)
		for j, a := range acc {
			n.strQ(a, nRow, j*16)
		}
	})
	n.end()

	for _, c := range recurColumns {
		n.delta(c)
	}
	for _, c := range recurColumns {
		n.scan(c)
	}
	fmt.Fprintf(&n.tables, "var recurrentNEON = recurrent{squares: squaresNEON, conv: convNEON, delta: [stateParts + 1]deltaFunc{nil, delta16NEON, delta32NEON}, scan: [stateParts + 1]scanFunc{nil, scan16NEON, scan32NEON}}\n\n")
}

// Registers of the kernels of recurrences: where the values of a key are, and of the state.
const (
	nFrom, nTo                    = nRow, nRow + 1
	nDecay, nForget, nKey, nQuery = nOut, nOutStep, nBias, nX
)

// next loads the next number of an array into all lanes.
func (n *neon) next(d v, base int) {
	n.broadcast(d, base)
	n.op("ADD $4, R%d, R%d", base, base)
}

func (n *neon) delta(columns int) {
	n.function(fmt.Sprint("delta", columns), "(y, v, to, from, decay, forget, k, q []float32, beta float32)", 196, "recurrent.delta")
	parts := v(columns / 4) // acc are registers 0 and up, u those from 8 on
	n.arguments([]argument{{"from_base", 72, nFrom}, {"forget_base", 120, nForget}, {"k_len", 152, nPairs}})
	for j := range parts {
		n.zero(j)
	}
	n.loop("dot", func() {
		n.next(16, nForget)
		for j := range parts {
			n.ldrQ(17, nFrom, int(j)*16)
			n.fmul(17, 17, 16)
			n.fadd(j, j, 17)
		}
		n.op("ADD $%d, R%d, R%d", columns*4, nFrom, nFrom)
	})
	n.op("MOVD v_base+24(FP), R%d", nTemp)
	n.op("MOVWU beta+192(FP), R%d", nLeft)
	n.dupW(16, nLeft)
	for j := range parts {
		n.ldrQ(8+j, nTemp, int(j)*16)
		n.fsub(8+j, 8+j, j)
		n.fmul(8+j, 8+j, 16)
		n.zero(j)
	}
	n.arguments([]argument{{"from_base", 72, nFrom}, {"to_base", 48, nTo}, {"decay_base", 96, nDecay}, {"k_base", 144, nKey}, {"q_base", 168, nQuery}, {"k_len", 152, nPairs}})
	n.loop("update", func() {
		n.next(16, nDecay)
		n.update(columns)
	})
	n.store(columns)
}

// update writes from*decay + u*k to to, and adds that times q to acc; the decay is in register 16.
func (n *neon) update(columns int) {
	n.next(17, nKey)
	n.next(18, nQuery)
	for j := range v(columns / 4) {
		n.ldrQ(19, nFrom, int(j)*16)
		n.fmul(19, 19, 16)
		n.fmul(20, 8+j, 17)
		n.fadd(19, 19, 20)
		n.strQ(19, nTo, int(j)*16)
		n.fmul(19, 19, 18)
		n.fadd(j, j, 19)
	}
	n.op("ADD $%d, R%d, R%d", columns*4, nFrom, nFrom)
	n.op("ADD $%d, R%d, R%d", columns*4, nTo, nTo)
}

// store writes acc to y and ends the function.
func (n *neon) store(columns int) {
	n.op("MOVD y_base+0(FP), R%d", nTemp)
	for j := range v(columns / 4) {
		n.strQ(j, nTemp, int(j)*16)
	}
	n.end()
}

func (n *neon) scan(columns int) {
	n.function(fmt.Sprint("scan", columns), "(y, x, to, from, b, c []float32, decay, skip float32)", 152, "recurrent.scan")
	n.arguments([]argument{{"to_base", 48, nTo}, {"from_base", 72, nFrom}, {"b_base", 96, nKey}, {"b_len", 104, nPairs}, {"c_base", 120, nQuery}, {"x_base", 24, nLeft}})
	n.scalar(16, "skip", 148)
	for j := range v(columns / 4) {
		n.ldrQ(8+j, nLeft, int(j)*16)
		n.fmul(j, 8+j, 16)
	}
	n.scalar(16, "decay", 144)
	n.loop("update", func() { n.update(columns) })
	n.store(columns)
}

// pointwises writes the functions of pointwise.go.
func (n *neon) pointwises() {
	var names []string
	for _, f := range pointwises() {
		n.pointwise(f)
		names = append(names, f.name+"EachNEON")
	}
	fmt.Fprintf(&n.tables, "var pointwiseNEON = [pointwiseKinds]pointwiseFunc{%s}\n\n", strings.Join(names, ", "))
}

// nPoint writes one function: which registers hold values, and which are free.
type nPoint struct {
	*neon
	at    map[*value]v
	uses  map[*value]int
	free  []v
	table map[*value]int // where literals that have no register are
}

// nWorking is how many registers a function needs besides those of literals and parameters.
const nWorking = 12

// pointwise keeps the literals of a function in registers, as far as there are any.
func (n *neon) pointwise(f *pointwise) {
	p := &nPoint{neon: n, at: map[*value]v{}, table: map[*value]int{}}
	numbers := literals([]*pointwise{f})
	n.table(f.name+"Literals", numbers)
	n.function(f.name+"Each", "(y, x, u []float32, p *[4]float32)", pointwiseFrame, "pointwise "+f.name+", len(y) a multiple of 16")
	list, uses := f.order()
	p.uses = uses
	used := v(min(len(numbers), 32-nWorking-f.params))
	n.spread(f.name+"Literals", int(used), 0)
	for x := range uses {
		if x.kind != literal {
			continue
		}
		if i := slices.Index(numbers, x.number); i < int(used) {
			p.at[x] = v(i)
		} else {
			p.table[x] = i * 4
		}
		uses[x] = math.MaxInt32 // they outlive a turn
	}
	n.op("MOVD $%sLiterals<>(SB), R%d", f.name, nX)
	n.op("MOVD p+72(FP), R%d", nBase)
	n.op("MOVD u_len+56(FP), R%d", nLeft)
	for _, x := range list {
		if x.kind == param {
			n.op("ADD $%d, R%d, R%d", x.index*4, nBase, nTemp)
			n.broadcast(used, nTemp)
			p.at[x], uses[x] = used, math.MaxInt32
			used++
		}
	}
	for r := v(31); r >= used; r-- {
		p.free = append(p.free, r)
	}
	kept := map[*value]int{}
	for x, c := range uses {
		kept[x] = c
	}
	n.each("y_len", 8, []argument{{"y_base", 0, 0}, {"x_base", 24, 0}, {"u_base", 48, 0}}, func(i, off int) {
		for x, c := range kept {
			uses[x] = c
		}
		for _, x := range list {
			if x.kind != param {
				p.write(x, off)
			}
		}
		out := p.at[f.result]
		if !f.paired {
			n.op("CBZ R%d, alone%d", nLeft, i)
			t := p.take()
			n.ldrQ(t, nRow+2, off)
			n.fmul(out, out, t)
			p.free = append(p.free, t)
			n.label(fmt.Sprint("alone", i))
		}
		n.strQ(out, nRow, off)
		p.done(f.result)
	})
	n.end()
}

func (p *nPoint) done(x *value) {
	p.uses[x]--
	if p.uses[x] == 0 {
		p.free = append(p.free, p.at[x])
		delete(p.at, x)
	}
}

func (p *nPoint) take() v {
	if len(p.free) == 0 {
		log.Fatal("NEON has no register left for a function")
	}
	r := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return r
}

// write writes the operation of x.
func (p *nPoint) write(x *value, off int) {
	var a [4]v
	var loaded []v
	for i, arg := range x.args {
		off, inTable := p.table[arg]
		if !inTable {
			a[i] = p.at[arg]
			continue
		}
		a[i] = p.take()
		loaded = append(loaded, a[i])
		p.op("ADD $%d, R%d, R%d", off, nX, nTemp)
		p.broadcast(a[i], nTemp)
	}
	to := p.take()
	switch x.kind {
	case input, partner:
		p.ldrQ(to, map[kind]int{input: nRow + 1, partner: nRow + 2}[x.kind], off)
	case add:
		p.fadd(to, a[0], a[1])
	case sub:
		p.fsub(to, a[0], a[1])
	case mul:
		p.fmul(to, a[0], a[1])
	case div:
		p.fdiv(to, a[0], a[1])
	case fma:
		p.mov(to, a[2])
		p.fmla(to, a[0], a[1])
	case fms:
		p.fneg(to, a[2])
		p.fmla(to, a[0], a[1])
	case least:
		p.fmin(to, a[0], a[1])
	case most:
		p.fmax(to, a[0], a[1])
	case abs:
		p.fabs(to, a[0])
	case neg:
		p.fneg(to, a[0])
	case round:
		p.frintn(to, a[0])
	case power:
		p.fcvtns(to, a[1])
		p.shl(to, to, 23)
		p.neon.add(to, to, a[0])
	case where:
		p.fcmgt(to, a[1], a[0])
		p.bsl(to, a[2], a[3])
	default:
		log.Fatalf("operation %d for NEON", x.kind)
	}
	p.free = append(p.free, loaded...)
	for _, arg := range x.args {
		p.done(arg)
	}
	p.at[x] = to
}
