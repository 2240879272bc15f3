package cpu

import (
	"encoding/binary"
	"math"

	"weir/weights"
)

// FP8 keeps matrices of E4M3 as they are stored; kernels decode them in registers and multiply
// them with float32 activations. A tile consists of units of 64 columns:
//
//	[16 rows] float32 scale, times 256
//	[64 columns][16 rows] E4M3
//
// The bits of an E4M3 number are those of a float16 that is 256 times smaller, but for NaN,
// which is refused (OCP 8-bit Floating Point Specification 1.0). It is exact, so its product
// with the scale is rounded once and equals weights.Tensor.Widen. A float16 holds no such
// product, and neither does a bfloat16.
//
// The sums are those of mul: a chain of even and one of odd columns, in float32.
const (
	fp8Columns = 64 // of a unit
	fp8Scales  = 4 * rowsPerTile
	fp8Unit    = fp8Scales + fp8Columns*rowsPerTile
	fp8Bias    = 256
)

// fp8Half is the bits of a float16 that is 256 times smaller than the number c.
func fp8Half(c uint8) uint16 { return uint16(int8(c)) << 7 & 0xbfff }

// fp8Column widens column k of a tile.
func fp8Column(c *[rowsPerTile]float32, tile []byte, k int) {
	unit := tile[k/fp8Columns*fp8Unit:][:fp8Unit]
	column := unit[fp8Scales+k%fp8Columns*rowsPerTile:][:rowsPerTile]
	for r, v := range column {
		c[r] = fromF16(fp8Half(v)) * lineFloat(unit, r)
	}
}

// repackFP8 stores columns [k0, k1) of row i of t as row r of the tile; k0 begins a unit. It
// reports false if one of the numbers is infinite or NaN.
func repackFP8(tile []byte, r int, t *weights.Tensor, i, k0, k1 int) bool {
	var b [fp8Columns]uint8
	for ; k0 < k1; k0 += fp8Columns {
		n := min(fp8Columns, k1-k0)
		scale := t.GroupScale(i, t.Group(k0)) * fp8Bias
		if !finite(scale) {
			return false
		}
		t.Codes(b[:n], i, k0)
		unit := tile[k0/fp8Columns*fp8Unit:][:fp8Unit]
		binary.LittleEndian.PutUint32(unit[4*r:], math.Float32bits(scale))
		for c, v := range b[:n] {
			if v&0x7f == 0x7f || !finite(fromF16(fp8Half(v))*scale) {
				return false
			}
			unit[fp8Scales+c*rowsPerTile+r] = v
		}
	}
	return true
}

// mulFP8Generic is impl.mulFP8 for m rows.
func mulFP8Generic(m int) mulFunc {
	return func(w []byte, offs, _ []int, k int, x []float32, ldx int, y []float32, ldy int, bias []float32) {
		for u, off := range offs {
			tile := w[off:][:groups(k)*fp8Unit]
			var s [genericRows]chains
			var c [2][rowsPerTile]float32
			for i := range k {
				fp8Column(&c[i%2], tile, i)
				for r := range m {
					s[r].addProduct(i%2, &c, x[r*ldx+i])
				}
			}
			for r := range m {
				out := y[r*ldy+u*rowsPerTile:][:rowsPerTile]
				for j := range out {
					out[j] = s[r][0][j] + s[r][1][j]
					if bias != nil {
						out[j] += bias[u*rowsPerTile+j]
					}
				}
			}
		}
	}
}
