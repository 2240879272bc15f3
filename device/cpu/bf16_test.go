package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// eachBF16 runs a test for every tier that rounds rows to bfloat16.
func eachBF16(t *testing.T, f func(t *testing.T, im *impl)) {
	t.Helper()
	eachKernel(t, func(im *impl) uintptr { return table(im, im.dot[BF16]) }, f)
}

// TestBF16Rows: rows are rounded as single numbers are, and padded with a zero.
func TestBF16Rows(t *testing.T) {
	eachBF16(t, func(t *testing.T, im *impl) {
		rnd := newRand(17)
		for n := range 258 {
			x := rowOfBits(rnd, n)
			all, got := bandedBytes(BF16.rowSteps(BF16.steps(n)), n%8)
			im.narrow(got, x.v)
			x.intact(t)
			intactBytes(t, all, got)
			for i := range len(got) / 2 {
				want := uint16(0)
				if i < n {
					want = toBF16(x.v[i])
				}
				if h := binary.LittleEndian.Uint16(got[2*i:]); h != want {
					t.Fatalf("row of %d: number %d becomes %#04x, not %#04x", n, i, h, want)
				}
			}
		}
	})
}

// rowOfBits is a row with numbers of any bits among others: NaN, infinities, and
// numbers halfway between two of bfloat16.
func rowOfBits(rnd *rand.Rand, n int) banded {
	x := randomBanded(rnd, n, n%4)
	for i := range x.v {
		if i%3 == 0 {
			x.v[i] = math.Float32frombits(rnd.Uint32())
		}
		if i%7 == 0 {
			x.v[i] = math.Float32frombits(rnd.Uint32()&0xffff0000 | 0x8000)
		}
	}
	return x
}

// TestBF16Dots: all numbers of rows against double precision; a row's bits do not
// depend on the number of rows; everything lies at the end of a page.
func TestBF16Dots(t *testing.T) {
	eachBF16(t, func(t *testing.T, im *impl) {
		rnd := newRand(18)
		for _, k := range someLengths()[1:] {
			bf16Test(t, rnd, im, k).check(t)
		}
	})
}

// bf16Test is dot of rows of k columns with two tiles of bfloat16.
func bf16Test(t *testing.T, rnd *rand.Rand, im *impl, k int) *productTest {
	const tiles = 2
	n, tile, rows := BF16.steps(k), BF16.tileBytes(k), len(im.dot[BF16])-1
	w := beforeGuard(t, tiles*tile)
	offs, ahead := []int{tile, 0}, []int{math.MinInt / 4, math.MaxInt / 4}
	for _, off := range offs {
		for c := range k {
			for r := range rowsPerTile {
				BF16.put(w[off:], c, r, float32(rnd.NormFloat64()))
			}
		}
	}
	ldx := BF16.rowSteps(n)
	x := beforeGuard(t, rows*ldx)
	for r := range rows {
		im.narrow(x[r*ldx:][:ldx], randomBanded(rnd, k, 0).v)
	}
	weight := func(c, i int) float64 {
		return float64(tileColumn(BF16, w[offs[c/rowsPerTile]:][:tile], i)[c%rowsPerTile])
	}
	input := func(r, i int) float64 {
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(x[r*ldx+2*i:])) << 16))
	}
	return &productTest{
		name: fmt.Sprintf("bfloat16 of %d", k), rows: rows, columns: tiles * rowsPerTile, bias: randomBanded(rnd, tiles*rowsPerTile, 1).v,
		run: func(first, m int, y []float32, ldy int, bias []float32) {
			im.dot[BF16][m](w, offs, ahead, n, x[first*ldx:][:m*ldx], ldx, y, ldy, bias)
		},
		want: func(r, c int) (v, size float64) {
			return addProducts(k, func(i int) float64 { return weight(c, i) }, func(i int) float64 { return input(r, i) })
		},
		tolerance: epsilon * (2 + math.Sqrt(float64(k))),
	}
}
