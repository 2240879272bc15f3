//go:build cuda && linux && amd64

package cuda

import (
	"encoding/binary"
	"math"
	"testing"

	"weir/weights"
)

// TestWithin: one weight that a format cannot store is found wherever it is,
// and none where there is none.
func TestWithin(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct {
		f  Format
		d  weights.DType
		v  float32
		ok bool
	}{
		{Q8, weights.F32, 127 * 65504, true}, {Q8, weights.F32, -127 * 65504, true}, {Q8, weights.F32, 127*65504 + 1, false}, {Q8, weights.F32, -9e6, false},
		{Q8, weights.F32, inf, false}, {Q8, weights.F32, float32(math.NaN()), false}, {BF16, weights.F32, inf, true},
		{Q4, weights.F32, 8 * 65504, true}, {Q4, weights.F32, 8*65504 + 1, false},
		{Q8, weights.BF16, 8.25e6, true}, {Q8, weights.BF16, -8.4e6, false}, {Q4, weights.BF16, -5.2e5, true}, {Q4, weights.BF16, 5.3e5, false}, {Q4, weights.BF16, -inf, false},
		{Q4, weights.F16, 65504, true}, {Q8, weights.F16, inf, false}, {Q4, weights.F16, -inf, false},
	} {
		const n = 13 // no multiple of what is looked at at once
		for at := range n {
			b := make([]byte, n*c.d.Size())
			for i := range n {
				v := float32(i) - 6
				if i == at {
					v = c.v
				}
				switch bits := math.Float32bits(v); c.d {
				case weights.F32:
					binary.LittleEndian.PutUint32(b[4*i:], bits)
				case weights.BF16:
					binary.LittleEndian.PutUint16(b[2*i:], uint16(bits>>16))
				case weights.F16: // the two numbers and small ones
					h := uint16(i)
					if i == at {
						h = 0x7bff
						if math.IsInf(float64(v), 0) {
							h = uint16(bits>>31)<<15 | 0x7c00
						}
					}
					binary.LittleEndian.PutUint16(b[2*i:], h)
				}
			}
			if c.f.within(b, c.d) != c.ok {
				t.Errorf("%s of %s: %g as number %d: not %v", c.f, c.d, c.v, at, c.ok)
			}
		}
	}
}
