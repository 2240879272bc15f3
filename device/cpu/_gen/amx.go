package main

import "fmt"

// Products with AMX (Intel SDM, volume 2: LDTILECFG, TILELOADD, TDPBF16PS, TDPBSUD). Its
// registers hold 16 rows of 64 bytes: rows of x, 16 columns of results, or 16 lines of a
// tile of the package, which are laid out as the instructions want them: a line has two
// columns in bfloat16, or four of a byte, of 16 rows of the matrix.
//
// A kernel has up to 32 rows of x and two tiles of the matrix at a time, which are four
// registers of results, because then a loaded register is multiplied twice. Go's assembler
// knows none of these instructions.

// amxRows is the most rows of a kernel.
const amxRows = 32

// Registers of AMX: results of the first and second 16 rows with the first and second
// tile, then both halves of the rows, and both tiles.
const (
	amxRowsReg = 4
	amxTileReg = 6
)

// General registers of the kernels.
const (
	amxX0     = "SI"  // rows 0 to 15 of x
	amxX1     = "R8"  // rows 16 and on
	amxW0     = "R10" // the first tile
	amxW1     = "R11" // the second
	amxAhead0 = "R12" // what is prefetched meanwhile
	amxAhead1 = "R13"
	amxLine   = "R15" // 64
	amxSteps  = "CX"
)

func (g *gen) amx() {
	g.raw("#include \"textflag.h\"\n\n")
	for m := 1; m <= amxRows; m++ {
		g.amxConfig(m)
	}
	for _, bytes := range []bool{false, true} {
		name := "dotAMXBF16"
		if bytes {
			name = "dotAMXW8A8"
		}
		fmt.Fprintf(g.tables, "var %s = []dotFunc{nil", name)
		for m := 1; m <= amxRows; m++ {
			fmt.Fprintf(g.tables, ", %sx%d", name, m)
			g.amxDot(name, m, bytes)
		}
		fmt.Fprintf(g.tables, "}\n\n")
	}
}

// amxConfig writes the shapes of registers for m rows of x.
func (g *gen) amxConfig(m int) {
	first, second := tileShape{min(m, 16), 64}, tileShape{max(m-16, 0), 64}
	g.tileConfig(fmt.Sprintf("amxConfig%d<>", m), []tileShape{first, first, second, second, first, second, {16, 64}, {16, 64}})
}

// A tileShape is how many rows and bytes of a row a register has.
type tileShape struct{ rows, bytes int }

// tileConfig writes what LDTILECFG loads.
func (g *gen) tileConfig(name string, shapes []tileShape) {
	var config [64]byte
	config[0] = 1 // the palette
	for reg, s := range shapes {
		if s.rows > 0 {
			config[16+2*reg], config[48+reg] = byte(s.bytes), byte(s.rows)
		}
	}
	for i := 0; i < len(config); i += 8 {
		v := uint64(0)
		for j := range 8 {
			v |= uint64(config[i+j]) << (8 * j)
		}
		g.raw("DATA %s+%d(SB)/8, $0x%016x\n", name, i, v)
	}
	g.raw("GLOBL %s(SB), RODATA|NOPTR, $64\n\n", name)
}

// amxDot writes the kernel for m rows: of bfloat16, with n steps of 32 columns, or of
// bytes (W8A8), with n groups of 64 columns and the scales after them.
func (g *gen) amxDot(name string, m int, bytes bool) {
	const frame = 168
	doc := fmt.Sprintf("the product of %d rows of x with tiles of BF16, of n times 32 columns", m)
	if bytes {
		doc = fmt.Sprintf("impl.dot for tiles of W8A8 and %d rows of x", m)
	}
	g.named(fmt.Sprintf("%sx%d", name, m),
		"(w []byte, offs, ahead []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32)", frame, doc)
	g.op("LEAQ", fmt.Sprintf("amxConfig%d<>(SB)", m), temp)
	g.raw("\t%s // LDTILECFG (AX)\n", vexBytes(0, 0, 0x49, 0, 0, 0x00))
	g.op("MOVQ", "$64", amxLine)
	g.op("MOVQ", arg("ldx", 104), stride)
	g.op("MOVQ", arg("y_base", 112), out)
	g.op("MOVQ", arg("ldy", 136), outStep)
	g.op("SHLQ", "$2", outStep)
	g.op("CMPQ", arg("offs_len", 32), "$0")
	g.op("JEQ", "end")

	g.label("tiles")
	g.op("CMPQ", arg("offs_len", 32), "$1")
	g.op("JEQ", "one")
	g.amxTiles(m, 2, bytes)
	g.op("SUBQ", "$2", arg("offs_len", 32))
	g.op("JNE", "tiles")
	g.op("JMP", "end")
	g.label("one")
	g.amxTiles(m, 1, bytes)
	g.label("end")
	g.raw("\t%s // TILERELEASE\n", vexBytes(0, 0, 0x49, 0, 0, 0xc0))
	g.end()
}

// amxTiles multiplies m rows with so many tiles, one or two, and moves on to those after
// them.
func (g *gen) amxTiles(m, tiles int, bytes bool) {
	name := func(s string) string { return fmt.Sprint(s, tiles) }
	g.op("MOVQ", arg("x_base", 80), amxX0)
	if m > 16 {
		g.op("MOVQ", stride, amxX1)
		g.op("SHLQ", "$4", amxX1)
		g.op("ADDQ", amxX0, amxX1)
	}
	weights, aheads := []string{amxW0, amxW1}[:tiles], []string{amxAhead0, amxAhead1}[:tiles]
	for _, from := range []struct {
		arg string
		off int
		to  []string
	}{{"offs_base", 24, weights}, {"ahead_base", 48, aheads}} {
		g.op("MOVQ", arg(from.arg, from.off), temp)
		for i, reg := range from.to {
			g.op("MOVQ", at(8*i, temp), reg)
			g.op("ADDQ", arg("w_base", 0), reg)
		}
		g.op("ADDQ", fmt.Sprint("$", 8*tiles), arg(from.arg, from.off))
	}
	halves := (m + 15) / 16
	for i := range halves * 2 {
		if i%2 < tiles {
			g.tileZero(i)
		}
	}
	g.op("MOVQ", arg("n", 72), amxSteps)
	g.op("TESTQ", amxSteps, amxSteps)
	g.op("JEQ", name("sum"))
	g.label(name("loop"))
	g.tileLoad(amxRowsReg, 6, 9) // SI, R9
	for i := range tiles {
		g.tileLoad(amxTileReg+i, 10+i, 15) // R10 or R11, R15
		g.tileDot(bytes, i, amxRowsReg, amxTileReg+i)
		if halves > 1 {
			if i == 0 {
				g.tileLoad(amxRowsReg+1, 8, 9) // R8, R9
			}
			g.tileDot(bytes, 2+i, amxRowsReg+1, amxTileReg+i)
		}
		for j := range 16 {
			g.op("PREFETCHT1", at(j*line, aheads[i]))
		}
		g.op("ADDQ", fmt.Sprint("$", 16*line), weights[i])
		g.op("ADDQ", fmt.Sprint("$", 16*line), aheads[i])
	}
	g.op("ADDQ", "$64", amxX0)
	if halves > 1 {
		g.op("ADDQ", "$64", amxX1)
	}
	g.op("DECQ", amxSteps)
	g.op("JNE", name("loop"))
	g.label(name("sum"))
	g.op("MOVQ", out, temp)
	for half := range halves {
		for i := range tiles {
			g.tileStore(2*half+i, 0, 3, i*line) // AX, BX
		}
		if half+1 < halves {
			g.op("MOVQ", outStep, amxSteps)
			g.op("SHLQ", "$4", amxSteps)
			g.op("ADDQ", amxSteps, temp)
		}
	}
	if bytes {
		g.amxScale(m, tiles, name("bias"), name("row"), name("plain"))
	} else {
		g.amxBias(m, tiles, name("row"), name("next"))
	}
	g.op("ADDQ", fmt.Sprint("$", tiles*line), out)
}

// amxBias adds the bias, if there is one, to the results.
func (g *gen) amxBias(m, tiles int, row, next string) {
	g.used = 0
	bias, v := g.vecs(tiles), g.vec()
	g.op("MOVQ", arg("bias_base", 144), temp)
	g.op("TESTQ", temp, temp)
	g.op("JEQ", next)
	for i := range tiles {
		g.op("VMOVUPS", at(i*line, temp), bias[i])
	}
	g.op("ADDQ", fmt.Sprint("$", tiles*line), arg("bias_base", 144))
	g.op("MOVQ", out, temp)
	g.op("MOVQ", fmt.Sprint("$", m), amxSteps)
	g.label(row)
	for i := range tiles {
		g.op("VADDPS", at(i*line, temp), bias[i], v)
		g.op("VMOVUPS", v, at(i*line, temp))
	}
	g.op("ADDQ", outStep, temp)
	g.op("DECQ", amxSteps)
	g.op("JNE", row)
	g.label(next)
}

// amxScale turns the integers of W8A8 into floats, as dot.scaleWhole does. The scales of
// the tiles, and what each row has besides its numbers, come after the columns, where the
// registers point now.
func (g *gen) amxScale(m, tiles int, withBias, row, plain string) {
	g.used = 0
	scales, bias, v := g.vecs(tiles), g.vecs(tiles), g.vec()
	for i, w := range []string{amxW0, amxW1}[:tiles] {
		g.op("VMOVUPS", at(0, w), scales[i])
	}
	g.op("MOVQ", arg("bias_base", 144), temp)
	g.op("TESTQ", temp, temp)
	g.op("JEQ", withBias)
	for i := range tiles {
		g.op("VMOVUPS", at(i*line, temp), bias[i])
	}
	g.op("ADDQ", fmt.Sprint("$", tiles*line), arg("bias_base", 144))
	g.label(withBias)
	g.op("MOVQ", out, amxAhead0)
	g.op("MOVQ", fmt.Sprint("$", m), amxSteps)
	g.label(row)
	for i := range tiles {
		to := at(i*line, amxAhead0)
		g.op("VMOVDQU32", to, v)
		g.op("VPADDD.BCST", at(0, amxX0), v, v)
		g.op("VCVTDQ2PS", v, v)
		g.op("VMULPS.BCST", at(4, amxX0), v, v)
		g.op("VMULPS", scales[i], v, v)
		g.op("TESTQ", temp, temp)
		g.op("JEQ", fmt.Sprint(plain, "at", i))
		g.op("VADDPS", bias[i], v, v)
		g.label(fmt.Sprint(plain, "at", i))
		g.op("VMOVUPS", v, to)
	}
	g.op("ADDQ", stride, amxX0)
	g.op("ADDQ", outStep, amxAhead0)
	g.op("DECQ", amxSteps)
	g.op("JNE", row)
}

// vexBytes is an instruction with a VEX prefix of three bytes (VEX.128, map 0F38, W0). pp
// chooses among opcodes: 0 none, 1 66, 2 F3, 3 F2. base and index are general registers of
// a memory operand, vvvv the register of the second source; then ModRM, SIB and more.
func vexBytes(pp, vvvv, opcode, base, index int, rest ...int) string {
	s := fmt.Sprintf("BYTE $0xc4; BYTE $0x%02x; BYTE $0x%02x; BYTE $0x%02x", 0xe2&^(base>>3<<5|index>>3<<6), (^vvvv&15)<<3|pp, opcode)
	for _, b := range rest {
		s += fmt.Sprintf("; BYTE $0x%02x", b)
	}
	return s
}

// tileMemory is the ModRM and SIB of register reg and (base)(index*1), and an offset of 32
// bits if it is not 0. Base registers are not BP and R13, which need an offset.
func tileMemory(reg, base, index, off int) []int {
	b := []int{0x04 | reg<<3, index&7<<3 | base&7}
	if off != 0 {
		b[0] |= 0x80
		for i := range 4 {
			b = append(b, off>>(8*i)&255)
		}
	}
	return b
}

func tileLoad(reg, base, index int) string {
	return vexBytes(3, 0, 0x4b, base, index, tileMemory(reg, base, index, 0)...)
}

func tileStore(reg, base, index, off int) string {
	return vexBytes(2, 0, 0x4b, base, index, tileMemory(reg, base, index, off)...)
}

// tileDot is the product of the rows in register x with the lines in register w, added to
// sum: of signed bytes with those without sign, or of bfloat16.
func tileDot(bytes bool, sum, x, w int) string {
	opcode := 0x5c
	if bytes {
		opcode = 0x5e
	}
	return vexBytes(2, w, opcode, 0, 0, 0xc0|sum<<3|x)
}

func tileZero(reg int) string { return vexBytes(3, 0, 0x49, 0, 0, 0xc0|reg<<3) }

// registerNames are general registers as Go's assembler calls them, by number.
var registerNames = []string{"AX", "CX", "DX", "BX", "SP", "BP", "SI", "DI", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15"}

func (g *gen) tileLoad(reg, base, index int) {
	g.raw("\t%s // TILELOADD (%s)(%s*1), TMM%d\n", tileLoad(reg, base, index), registerNames[base], registerNames[index], reg)
}

func (g *gen) tileStore(reg, base, index, off int) {
	g.raw("\t%s // TILESTORED TMM%d, %d(%s)(%s*1)\n", tileStore(reg, base, index, off), reg, off, registerNames[base], registerNames[index])
}

func (g *gen) tileDot(bytes bool, sum, x, w int) {
	name := "TDPBF16PS"
	if bytes {
		name = "TDPBSUD"
	}
	g.raw("\t%s // %s TMM%d, TMM%d, TMM%d\n", tileDot(bytes, sum, x, w), name, w, x, sum)
}

func (g *gen) tileZero(reg int) { g.raw("\t%s // TILEZERO TMM%d\n", tileZero(reg), reg) }
