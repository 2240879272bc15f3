package weights

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// TestNotFinite: an infinity or NaN is found at every place, and no other number is taken for
// one.
func TestNotFinite(t *testing.T) {
	for _, c := range []struct {
		d                  DType
		greatest, infinite uint32 // the greatest is negative, so that a carry too far would show
	}{{F32, 0xff7fffff, 0x7f800000}, {F16, 0xfbff, 0x7c00}, {BF16, 0xff7f, 0x7f80}} {
		number := func(bits uint32) []byte { return binary.LittleEndian.AppendUint32(nil, bits)[:c.d.Size()] }
		for _, n := range []int{0, 1, 2, 3, 31, 32, 33, 64, 75} {
			data := bytes.Repeat(number(c.greatest), n)
			if at := NotFinite(c.d, data); at != -1 {
				t.Fatalf("%s: number %d of %d great ones is not finite", c.d, at, n)
			}
			for i := range n {
				for _, bad := range []uint32{c.infinite, c.infinite | 1, c.infinite | c.infinite<<1} {
					copy(data[i*c.d.Size():], number(bad))
					if at := NotFinite(c.d, data); at != i {
						t.Fatalf("%s: %#x at %d of %d: %d", c.d, bad, i, n, at)
					}
				}
				copy(data[i*c.d.Size():], number(c.greatest))
			}
		}
	}
}

// TestNotFiniteOfAll asks for all numbers of 16 bits.
func TestNotFiniteOfAll(t *testing.T) {
	for h := range 1 << 16 {
		b := binary.LittleEndian.AppendUint16(nil, uint16(h))
		wide := float64(math.Float32frombits(uint32(h) << 16))
		if got, want := NotFinite(BF16, b) >= 0, math.IsNaN(wide) || math.IsInf(wide, 0); got != want {
			t.Errorf("bfloat16 %#04x: %v", h, got)
		}
		if got, want := NotFinite(F16, b) >= 0, h>>10&31 == 31; got != want {
			t.Errorf("float16 %#04x: %v", h, got)
		}
	}
}

func BenchmarkNotFinite(b *testing.B) {
	data := make([]byte, 1<<20)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		NotFinite(BF16, data)
	}
}
