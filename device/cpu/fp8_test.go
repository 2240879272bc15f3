package cpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"weir/weights"
)

// TestFP8Bits: the bits of each E4M3 number are those of a float16 that is 256 times smaller.
func TestFP8Bits(t *testing.T) {
	w := weights.Tensor{DType: weights.F8E4M3, Packed: &weights.Packed{}}
	for c, want := range w.Numbers() {
		if c&0x7f != 0x7f && math.Float32bits(fromF16(fp8Half(uint8(c)))*fp8Bias) != math.Float32bits(want) {
			t.Errorf("%#x is %v, not %v", c, fromF16(fp8Half(uint8(c)))*fp8Bias, want)
		}
	}
}

// randomFP8 is a tile of k columns that ends where unreadable memory begins, and the same as F32.
func randomFP8(t *testing.T, rnd *rand.Rand, k int) (tile, wide []byte) {
	t.Helper()
	tile, wide = beforeGuard(t, FP8.tileBytes(k)), make([]byte, F32.tileBytes(k))
	for i := range tile {
		if tile[i] = byte(rnd.Uint32()); tile[i]&0x7f == 0x7f {
			tile[i] = 0
		}
	}
	for u := 0; u < len(tile); u += fp8Unit {
		for r := range rowsPerTile {
			binary.LittleEndian.PutUint32(tile[u+4*r:], math.Float32bits(float32(rnd.NormFloat64())))
		}
	}
	var c [rowsPerTile]float32
	for i := range k {
		fp8Column(&c, tile, i)
		for r, v := range c {
			F32.put(wide, i, r, v)
		}
	}
	return tile, wide
}

// TestFP8Kernels: for every number of rows and any columns, products with FP8 have the bits of
// products with the same numbers in float32, and nothing is read beyond the operands.
func TestFP8Kernels(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(44)
		most := im.most(byMul, FP8)
		for _, k := range []int{1, 2, 3, 15, 62, 63, 64, 65, 66, 127, 128, 129, 190, 256, 333} {
			tile, wide := randomFP8(t, rnd, k)
			x, bias := guardedFloats(t, most*k), guardedFloats(t, rowsPerTile)
			for _, v := range [][]float32{x, bias} {
				for i := range v {
					v[i] = float32(rnd.NormFloat64())
				}
			}
			for m := 1; m <= most; m++ {
				for _, bias := range [][]float32{nil, bias} {
					got := resultRows(t, m, rowsPerTile, func(y []float32, ldy int) {
						im.mulFP8[m](tile, []int{0}, []int{0}, k, x[:m*k], k, y, ldy, bias)
					})
					for r := range m {
						want := make([]float32, rowsPerTile)
						im.mul[F32][1](wide, []int{0}, []int{0}, k, x[r*k:][:k], k, want, rowsPerTile, bias)
						sameBits(t, got[r], want, "%d columns, row %d of %d", k, r, m)
					}
				}
			}
		}
	})
}

// TestFP8Refuses: NaN, and scales that make a number infinite, are refused.
func TestFP8Refuses(t *testing.T) {
	rnd := newRand(45)
	for _, c := range packedCases {
		if c.as != FP8 {
			continue
		}
		w := c.tensor(rnd, 20, 128)
		w.Data[130] = 0xff
		checkRefused(t, w)
	}
}
