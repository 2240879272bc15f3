package cpu

import (
	"slices"
	"testing"
)

// TestRecurrentBits: kernels of recurrences and convolutions compute the bits of the plain loops, for
// every number of keys, in place and from another state, and write nothing else.
func TestRecurrentBits(t *testing.T) {
	plain := recurrentGeneric()
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(45)
		floats := func(n int) []float32 { return randomBanded(rnd, n, rnd.IntN(4)).v }
		for keys := 1; keys < 140; keys += 1 + keys/8 {
			for _, n := range []int{1, 7, 16, 24, 32} {
				v, decay, forget, k, q, from := floats(n), floats(keys), floats(keys), floats(keys), floats(keys), floats(keys*n)
				y, to := newBanded(n, 1), newBanded(keys*n, 2)
				wantY, want := make([]float32, n), make([]float32, keys*n)
				check := func(name string) {
					t.Helper()
					y.intact(t)
					to.intact(t)
					if !slices.Equal(bitsOf(y.v), bitsOf(wantY)) || !slices.Equal(bitsOf(to.v), bitsOf(want)) {
						t.Fatalf("%s of %d keys and %d columns differs from the plain loop", name, keys, n)
					}
				}
				deltaGeneric(wantY, v, want, from, decay, forget, k, q, 0.4)
				im.deltaOf(n)(y.v, v, to.v, from, decay, forget, k, q, 0.4)
				check("delta")
				copy(to.v, from)
				im.deltaOf(n)(y.v, v, to.v, to.v, decay, forget, k, q, 0.4)
				check("delta in place")
				scanGeneric(wantY, v, want, from, k, q, 0.9, -1.5)
				im.scanOf(n)(y.v, v, to.v, from, k, q, 0.9, -1.5)
				check("scan")
				copy(to.v, from)
				im.scanOf(n)(y.v, v, to.v, to.v, k, q, 0.9, -1.5)
				check("scan in place")
			}
		}
		for n := 0; n <= convColumns; n += 8 {
			for width := 2; width <= maxConv; width++ {
				rows, w, y, want := floats(n*width), floats(n*(width+1)), newBanded(n, 3), make([]float32, n)
				convGeneric(want, rows, w, width)
				im.convOf(n)(y.v, rows, w, width)
				y.intact(t)
				if !slices.Equal(bitsOf(y.v), bitsOf(want)) {
					t.Fatalf("a convolution of %d over %d columns differs from the plain loop", width, n)
				}
			}
		}
		for n := range 200 {
			x := floats(n)
			if got, want := im.sum(x), plain.sum(x); !equalBits(got, want) {
				t.Fatalf("the sum of %d squares is %v, not %v", n, got, want)
			}
		}
	})
}
