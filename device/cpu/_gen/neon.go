package main

import (
	"fmt"
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

// loop runs body for pairs until the counter, which is set, is zero.
func (n *neon) loop(label string, body func()) {
	n.label(label)
	body()
	n.op("SUB $1, R%d, R%d", nPairs, nPairs)
	n.op("CBNZ R%d, %s", nPairs, label)
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

// neonFiles are the generated files for arm64 by name.
func neonFiles() map[string]string {
	n := &neon{}
	n.raw("#include \"textflag.h\"\n\n")
	n.muls()
	n.attention()
	n.dots("DotProd", false)
	n.dots("I8MM", true)
	n.vectors()
	n.pointwises()
	n.recurrent()
	n.blockKernels()
	return map[string]string{
		"neon_arm64.s":     header + tagARM + n.text.String(),
		"kernels_arm64.go": formatted(header + tagARM + "package cpu\n\n" + n.decls.String() + n.tables.String()),
	}
}

// muls writes the kernels of impl.mul and their table.
func (n *neon) muls() {
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
	fmt.Fprint(&n.tables, "}\n\n")
}

// attention writes the kernels of dotKernels and their table.
func (n *neon) attention() {
	fmt.Fprint(&n.tables, "var dotsNEON = [BF16 + 1]dotKernels{\n")
	for _, el := range elements {
		var tiles, scores, values strings.Builder
		for m := 1; m <= nAttendRows; m++ {
			scoresName, valuesName := fmt.Sprintf("scores%sx%d", el.name, m), fmt.Sprintf("value%sx%d", el.name, m)
			n.scores(el, m, scoresName)
			n.values(el, m, valuesName)
			tiles.WriteString(", 1")
			scores.WriteString(", " + scoresName + "NEON")
			values.WriteString(", " + valuesName + "NEON")
		}
		fmt.Fprintf(&n.tables, "%s: {tiles: []int{0%s}, scores: []scoresFunc{nil%s}, value: []valuesFunc{nil%s}, values: []valuesFunc{nil%s}},\n",
			el.name, &tiles, &scores, &values, &values)
	}
	fmt.Fprint(&n.tables, "}\n\n")
}

// dots writes the kernels of impl.dot and the table of a tier. Both tiers have the
// same kernels for Q4.
func (n *neon) dots(tier string, usdot bool) {
	fmt.Fprintf(&n.tables, "var dot%s = [W8A8 + 1][]dotFunc{\n", tier)
	for _, format := range []string{"Q8", "Q4", "W8A8"} {
		fmt.Fprintf(&n.tables, "%s: {nil", format)
		for m := 1; m <= nDotRows; m++ {
			name := fmt.Sprintf("dot%sx%d", format, m)
			if usdot && format != "Q4" {
				name += tier
			}
			switch {
			case format == "W8A8":
				n.dotWhole(usdot, m, name)
			case format == "Q8" || !usdot:
				n.dot(format, usdot, m, name)
			}
			fmt.Fprintf(&n.tables, ", %sNEON", name)
		}
		fmt.Fprint(&n.tables, "},\n")
	}
	fmt.Fprint(&n.tables, "}\n\n")
}
