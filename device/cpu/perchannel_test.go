package cpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"weir/model"
	"weir/weights"
)

// TestQuantizeWhole: every implementation writes the bits of the definition:
// the greatest number is 127 units and the rest is off by half a unit.
func TestQuantizeWhole(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(15)
		for n := range 258 {
			for kind := range wholeKinds {
				x := wholeOfKind(rnd, n, kind)
				all, got := bandedBytes(W8A8.rowSteps(groups(n)), n%8)
				im.quantizeAll(got, x.v)
				x.intact(t)
				intactBytes(t, all, got)
				want := make([]byte, len(got))
				plain().quantizeAll(want, x.v)
				if !bytes.Equal(got, want) {
					t.Fatalf("row of %d, kind %d:\n got %v\nwant %v\n   x %v", n, kind, got, want, x.v)
				}
				checkWhole(t, got, x.v, kind == notFinite && n > 0)
			}
		}
	})
}

// Kinds of rows: of about 1, too small for a scale, of halves of units, and with a
// number that is not finite.
const (
	notFinite  = 3
	wholeKinds = 4
)

func wholeOfKind(rnd *rand.Rand, n, kind int) banded {
	x := randomBanded(rnd, n, n%4)
	for i := range x.v {
		switch kind {
		case 1:
			x.v[i] *= 0x1p-120
		case 2:
			x.v[i] = float32(rnd.IntN(509)-254) / 2
		case notFinite:
			if i == n/2 {
				x.v[i] = []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))}[n%3]
			}
		}
	}
	return x
}

// checkWhole holds a quantized row of x against the definition.
func checkWhole(t *testing.T, row []byte, x []float32, broken bool) {
	t.Helper()
	n := len(x)
	end := row[groups(n)*groupColumns:]
	scale := float64(math.Float32frombits(binary.LittleEndian.Uint32(end[4:])))
	if broken {
		if !math.IsNaN(scale) && !math.IsInf(scale, 0) {
			t.Fatalf("row of %d: what is not finite is forgotten", n)
		}
		return
	}
	sum, size := 0, 0.0
	for i, v := range x {
		size = max(size, math.Abs(float64(v)))
		sum += int(int8(row[i]))
	}
	if start := int32(binary.LittleEndian.Uint32(end)); start != int32(-128*sum) {
		t.Fatalf("row of %d: start %d for a sum of %d", n, start, sum)
	}
	for i, v := range x {
		if d := math.Abs(float64(int8(row[i]))*scale - float64(v)); d > size/127*0.50001 && size > leastScaled {
			t.Fatalf("row of %d: %g is stored as %d * %g", n, v, int8(row[i]), scale)
		}
	}
}

// TestDotsWhole: every implementation and number of rows, extremes included: the
// integer is exact, so the result is known to the bit. At the end of a page, no operand
// is read beyond its end.
func TestDotsWhole(t *testing.T) {
	eachDots(t, W8A8, func(t *testing.T, im *impl) {
		rnd := newRand(16)
		// A kernel takes whole groups of 64 columns; the rest is padding.
		for _, k := range []int{0, 1, 15, 16, 17, 63, 64, 65, 128, 129, 190, 192, 257} {
			wholeTest(t, rnd, im, k).check(t)
		}
	})
}

// wholeTest is dot of rows of k columns with a tile of W8A8.
func wholeTest(t *testing.T, rnd *rand.Rand, im *impl, k int) *productTest {
	n, rows := groups(k), len(im.dot[W8A8])-1
	tile := beforeGuard(t, W8A8.tileBytes(k))
	for i := range n * groupWhole {
		tile[i] = []byte{0, 255, 128, byte(rnd.Uint32())}[rnd.IntN(4)]
	}
	ws, xs := make([]float32, rowsPerTile), make([]float32, rows)
	for r := range ws {
		ws[r] = float32(rnd.NormFloat64())
		binary.LittleEndian.PutUint32(tile[n*groupWhole+4*r:], math.Float32bits(ws[r]))
	}
	ldx := W8A8.rowSteps(n)
	x := beforeGuard(t, rows*ldx)
	for r := range xs {
		row := make([]float32, k)
		for i := range row {
			row[i] = []float32{127, -127, 0, float32(rnd.IntN(255) - 127)}[rnd.IntN(4)]
		}
		im.quantizeAll(x[r*ldx:][:ldx], row)
		xs[r] = math.Float32frombits(binary.LittleEndian.Uint32(x[r*ldx+n*groupColumns+4:]))
	}
	return &productTest{
		name: fmt.Sprintf("W8A8 of %d", k), rows: rows, columns: rowsPerTile, bias: randomBanded(rnd, rowsPerTile, 1).v,
		run: func(first, m int, y []float32, ldy int, bias []float32) {
			im.dot[W8A8][m](tile, []int{0}, []int{0}, n, x[first*ldx:][:m*ldx], ldx, y, ldy, bias)
		},
		want: func(r, c int) (v, size float64) {
			dot := 0
			for i := range n * groupColumns {
				dot += (int(tile[i/4*64+c*4+i%4]) - 128) * int(int8(x[r*ldx+i]))
			}
			return float64(float32(float32(float32(dot)*xs[r]) * ws[c])), 0
		},
	}
}

// TestDotsWholeWrap: the longest rows of the greatest numbers stay exact.
func TestDotsWholeWrap(t *testing.T) {
	eachDots(t, W8A8, func(t *testing.T, im *impl) {
		const k = maxWhole
		tile := make([]byte, W8A8.tileBytes(k))
		for i := range groups(k) * groupWhole {
			tile[i] = 255
		}
		for r := range rowsPerTile {
			binary.LittleEndian.PutUint32(tile[groups(k)*groupWhole+4*r:], math.Float32bits(1))
		}
		for _, v := range []float32{127, -127} {
			row := make([]float32, k)
			for i := range row {
				row[i] = v
			}
			x := make([]byte, W8A8.rowSteps(groups(k)))
			im.quantizeAll(x, row)
			y := make([]float32, rowsPerTile)
			im.dot[W8A8][1](tile, []int{0}, []int{0}, groups(k), x, 0, y, rowsPerTile, nil)
			if want := v * 127 * k; y[3] != want {
				t.Errorf("%v, not %v", y[3], want)
			}
		}
	})
}

// TestPackWhole: Load stores every weight in its place.
func TestPackWhole(t *testing.T) {
	for _, k := range []int{1, 63, 64, 65, 511, 512, 513, 1030} {
		d, err := Open(Config{Threads: 2, WeightType: W8A8, KVType: BF16})
		if err != nil {
			t.Fatal(err)
		}
		src := []weights.Tensor{tensor(newRand(1), weights.BF16, 1, 21, k), tensor(newRand(2), weights.F32, 3, 14, k)}
		if _, err := d.Load(model.Matrix{Rows: src}); err != nil {
			t.Fatal(err)
		}
		m := &d.params[0].linear.parts[0]
		for n := range 35 {
			s, row := src[0], n
			if n >= 21 {
				s, row = src[1], n-21
			}
			tile, r := m.data[n/16*m.tile:][:m.tile], n%16
			scale := float64(math.Float32frombits(binary.LittleEndian.Uint32(tile[m.tile-64+4*r:])))
			top := 0
			for c := range k {
				q := int(tile[c/4*64+r*4+c%4]) - 128
				top = max(top, q, -q)
				if v := float64(number(s.DType, s.Data, row*k+c)); math.Abs(v-float64(q)*scale) > scale*0.50001 {
					t.Fatalf("k %d: element %d, %d is %d * %g for %g", k, n, c, q, scale, v)
				}
			}
			if top != 127 {
				t.Fatalf("k %d: the greatest weight of row %d is %d units", k, n, top)
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
