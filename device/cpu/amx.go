//go:build amd64 && !purego

package cpu

import (
	"encoding/binary"
	"math"
)

// Products with AMX: of bfloat16, whose rows are rounded to bfloat16 as on the tier
// avx512bf16, and of W8A8, whose results have the bits of every tier. The instruction that
// multiplies bfloat16 adds up the products of 32 columns in an order of its own, those of
// even columns and those of odd ones, and rounds denormal numbers to zero. So products of
// any number of rows use it, and the columns after the last multiple of 32 have a chain.

// stepPairs is how many pairs of columns a kernel of AMX multiplies at once.
const stepPairs = 16

// amxBF16 is impl.dot[BF16] of the tier amx.
func amxBF16() []dotFunc {
	list := []dotFunc{nil}
	for m := 1; m < len(dotAMXBF16); m++ {
		list = append(list, withTail(m))
	}
	return list
}

// withTail is the product of m rows of any number of pairs of columns.
func withTail(m int) dotFunc {
	return func(w []byte, offs, ahead []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32) {
		steps := n / stepPairs
		if n%stepPairs == 0 {
			dotAMXBF16[m](w, offs, ahead, steps, x, ldx, y, ldy, bias)
			return
		}
		dotAMXBF16[m](w, offs, ahead, steps, x, ldx, y, ldy, nil)
		const pairBytes = 2 * 2
		for u, off := range offs {
			lines := w[off+steps*stepPairs*codeLine:][:n%stepPairs*codeLine]
			for r := range m {
				out := y[r*ldy+u*rowsPerTile:][:rowsPerTile]
				addPairs(out, lines, x[r*ldx+steps*stepPairs*pairBytes:])
				if bias != nil {
					addGeneric(out, bias[u*rowsPerTile:])
				}
			}
		}
	}
}

// addPairs adds the products of a row of bfloat16 with lines of a tile, two columns each.
func addPairs(y []float32, lines, x []byte) {
	for i := 0; i < len(lines); i += codeLine {
		var c [2][rowsPerTile]float32
		BF16.columns(&c, lines[i:], 0)
		v := binary.LittleEndian.Uint32(x[i/rowsPerTile:])
		for j := range y {
			y[j] += float32(math.Float32frombits(v<<16) * c[0][j])
			y[j] += float32(math.Float32frombits(v&0xffff0000) * c[1][j])
		}
	}
}
