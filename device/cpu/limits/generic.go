package limits

import (
	"encoding/binary"
	"sync/atomic"
)

// The loops in Go, for processors that have no assembly here. Tests compare the assembly
// with them.

func genericLoops() loops {
	return loops{
		read: readGeneric, readForm: "Go",
		fma: fmaGeneric, fmaOps: 2 * chains, fmaForm: "Go",
		dot: dotGeneric, dotOps: 2 * chains, dotForm: "Go",
	}
}

// chains is how many independent sums a turn has.
const chains = 8

// kept takes results, so that loops are not compiled away.
var kept atomic.Uint64

func readGeneric(b []byte) uint64 {
	var s [4]uint64
	for ; len(b) >= 32; b = b[32:] {
		s[0] ^= binary.LittleEndian.Uint64(b)
		s[1] ^= binary.LittleEndian.Uint64(b[8:])
		s[2] ^= binary.LittleEndian.Uint64(b[16:])
		s[3] ^= binary.LittleEndian.Uint64(b[24:])
	}
	return s[0] ^ s[1] ^ s[2] ^ s[3]
}

func fmaGeneric(n int) {
	var a, b, c, d, e, f, g, h float32
	x, y := float32(n), float32(0)
	for range n {
		a, b, c, d = a+x*y, b+x*y, c+x*y, d+x*y
		e, f, g, h = e+x*y, f+x*y, g+x*y, h+x*y
		y = a // the products of the next turn are not those of this one
	}
	kept.Add(uint64(a + b + c + d + e + f + g + h))
}

func dotGeneric(n int) {
	var a, b, c, d, e, f, g, h int32
	x, y := int8(n), int8(3)
	for range n {
		a, b, c, d = a+int32(x)*int32(y), b+int32(x)*int32(y+1), c+int32(x)*int32(y+2), d+int32(x)*int32(y+3)
		e, f, g, h = e+int32(x)*int32(y+4), f+int32(x)*int32(y+5), g+int32(x)*int32(y+6), h+int32(x)*int32(y+7)
		y++
	}
	kept.Add(uint64(a + b + c + d + e + f + g + h))
}
