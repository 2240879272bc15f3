package weights

import (
	"encoding/binary"
	"math"
	"testing"
)

// TestNotFinite: an infinity or NaN is found at every place, and no other number is taken for
// one, all numbers of 16 bits among them.
func TestNotFinite(t *testing.T) {
	for _, d := range []DType{F32, F16, BF16} {
		for _, n := range []int{0, 1, 2, 3, 31, 32, 33, 64, 75} {
			data := make([]byte, n*d.Size())
			for i := range data {
				data[i] = 0xff
			}
			set := func(i int, bits uint32) {
				if d == F32 {
					binary.LittleEndian.PutUint32(data[i*4:], bits)
				} else {
					binary.LittleEndian.PutUint16(data[i*2:], uint16(bits))
				}
			}
			// The greatest number, negative, so that a carry too far would show.
			finite, infinite := map[DType]uint32{F32: 0xff7fffff, F16: 0xfbff, BF16: 0xff7f}[d], map[DType]uint32{F32: 0x7f800000, F16: 0x7c00, BF16: 0x7f80}[d]
			for i := range n {
				set(i, finite)
			}
			if at := NotFinite(d, data); at != -1 {
				t.Fatalf("%s: number %d of %d great ones is not finite", d, at, n)
			}
			for i := range n {
				for _, bad := range []uint32{infinite, infinite | 1, infinite | infinite<<1} {
					set(i, bad)
					if at := NotFinite(d, data); at != i {
						t.Fatalf("%s: %#x at %d of %d: %d", d, bad, i, n, at)
					}
				}
				set(i, finite)
			}
		}
	}
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
