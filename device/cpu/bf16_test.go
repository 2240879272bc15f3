package cpu

import (
	"encoding/binary"
	"math"
	"testing"
)

// TestBF16Rows: rows are rounded as single numbers are, and padded with a zero.
func TestBF16Rows(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		if im.narrow == nil {
			t.Skip("float32 rows")
		}
		rnd := newRand(17)
		for n := range 258 {
			x := randomBanded(rnd, n, n%4)
			for i := range x.v {
				if i%3 == 0 {
					x.v[i] = math.Float32frombits(rnd.Uint32()) // NaN, infinities, ties
				}
				if i%7 == 0 {
					x.v[i] = math.Float32frombits(rnd.Uint32()&0xffff0000 | 0x8000)
				}
			}
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
					t.Fatalf("row of %d: %x becomes %#04x, not %#04x", n, math.Float32bits(x.v[i]), h, want)
				}
			}
		}
	})
}

// TestBF16Dots: all lengths up to 257 and numbers of rows against double
// precision; a row's bits do not depend on the number of rows; everything lies
// at the end of a page.
func TestBF16Dots(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		if im.dot[BF16] == nil {
			t.Skip("float32 rows")
		}
		rnd := newRand(18)
		rows := len(im.dot[BF16]) - 1
		for k := 1; k < 258; k++ {
			n := BF16.steps(k)
			const tiles = 2
			tile := BF16.tileBytes(k)
			w := beforeGuard(t, tiles*tile)
			offs, ahead := []int{tile, 0}, []int{math.MinInt / 4, math.MaxInt / 4}
			for u := range tiles {
				for c := range k {
					for r := range rowsPerTile {
						BF16.put(w[u*tile:], c, r, float32(rnd.NormFloat64()))
					}
				}
			}
			ldx := BF16.rowSteps(n)
			x := beforeGuard(t, rows*ldx)
			for r := range rows {
				im.narrow(x[r*ldx:][:ldx], randomBanded(rnd, k, 0).v)
			}
			bias := randomBanded(rnd, tiles*rowsPerTile, 1)
			var alone [][]float32
			for r := range rows {
				y := newBanded(tiles*rowsPerTile, r%4)
				im.dot[BF16][1](w, offs, ahead, n, x[r*ldx:], ldx, y.v, 0, nil)
				y.intact(t)
				alone = append(alone, y.v)
				for j, got := range y.v {
					want, size := 0.0, 0.0
					for c := range k {
						var cols [2][rowsPerTile]float32
						BF16.columns(&cols, w[offs[j/rowsPerTile]:][:tile], c/2)
						v := math.Float32frombits(uint32(binary.LittleEndian.Uint16(x[r*ldx+2*c:])) << 16)
						p := float64(cols[c%2][j%rowsPerTile]) * float64(v)
						want, size = want+p, size+math.Abs(p)
					}
					near(t, got, want, size, epsilon*(2+math.Sqrt(float64(k))), "k %d, row %d, column %d", k, r, j)
				}
			}
			ldy := tiles*rowsPerTile + 3
			for m := 1; m <= rows; m++ {
				for _, b := range [][]float32{nil, bias.v} {
					y := newBanded((m-1)*ldy+tiles*rowsPerTile, m%4)
					im.dot[BF16][m](w, offs, ahead, n, x[:m*ldx], ldx, y.v, ldy, b)
					y.intact(t)
					for r := range m {
						for j, v := range alone[r] {
							if b != nil {
								v += b[j]
							}
							if math.Float32bits(y.v[r*ldy+j]) != math.Float32bits(v) {
								t.Fatalf("k %d, row %d of %d: %v, alone %v", k, r, m, y.v[r*ldy+j], v)
							}
						}
					}
				}
			}
		}
	})
}
