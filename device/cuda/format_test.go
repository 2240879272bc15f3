//go:build cuda && linux && amd64

package cuda

import (
	"encoding/binary"
	"math"
	"testing"

	"weir/weights"
)

// TestWithin: a weight that a format cannot store is found at every place, and nothing is
// found if all weights can be stored.
func TestWithin(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		f  Format
		d  weights.DType
		v  float32
		ok bool
	}{
		{Q8, weights.F32, 127 * 65504, true}, {Q8, weights.F32, -127 * 65504, true}, {Q8, weights.F32, 127*65504 + 1, false}, {Q8, weights.F32, -9e6, false},
		{Q8, weights.F32, inf, false}, {Q8, weights.F32, float32(math.NaN()), false}, {BF16, weights.F32, inf, false},
		{BF16, weights.BF16, float32(math.NaN()), false}, {BF16, weights.BF16, 3e38, true}, {BF16, weights.F32, math.MaxFloat32, false}, {BF16, weights.F16, 65504, true}, {BF16, weights.F16, -inf, false},
		{Q4, weights.F32, 8 * 65504, true}, {Q4, weights.F32, 8*65504 + 1, false},
		{Q8, weights.BF16, 8.25e6, true}, {Q8, weights.BF16, -8.4e6, false}, {Q4, weights.BF16, -5.2e5, true}, {Q4, weights.BF16, 5.3e5, false}, {Q4, weights.BF16, -inf, false},
		{Q4, weights.F16, 65504, true}, {Q8, weights.F16, inf, false}, {Q4, weights.F16, -inf, false},
	} {
		const n = 13 // not a multiple of how many numbers within looks at at once
		for at := range n {
			b := make([]byte, 0, n*c.d.Size())
			for i := range n {
				v := float32(0x1p-14) // some small number
				if i == at {
					v = c.v
				}
				b = appendNumber(b, c.d, v)
			}
			if c.f.within(b, c.d) != c.ok {
				t.Errorf("%s of %s: %g as number %d: not %v", c.f, c.d, c.v, at, c.ok)
			}
		}
	}
}

// appendNumber appends v as a stored number. Of float16 it knows 2^-14, 65504
// and the infinities.
func appendNumber(b []byte, d weights.DType, v float32) []byte {
	bits := math.Float32bits(v)
	switch d {
	case weights.F32:
		return binary.LittleEndian.AppendUint32(b, bits)
	case weights.BF16:
		return binary.LittleEndian.AppendUint16(b, uint16(bits>>16))
	}
	half := uint16(bits>>31) << 15
	switch a := math.Abs(float64(v)); {
	case a == 0x1p-14:
		half |= 0x0400
	case a == 65504:
		half |= 0x7bff
	case math.IsInf(a, 0):
		half |= 0x7c00
	}
	return binary.LittleEndian.AppendUint16(b, half)
}
