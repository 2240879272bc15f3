package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// mark fills memory that a kernel must neither use nor change.
var mark = math.Float32frombits(0x7fc0dead)

func isMark(v float32) bool { return math.Float32bits(v) == math.Float32bits(mark) }

// banded is a slice of n numbers with marks on both sides, its start shifted by
// the given number of elements from the alignment of a vector.
type banded struct {
	all []float32
	v   []float32
}

const band = 24

func newBanded(n, shift int) banded {
	all := make([]float32, band+shift+n+band)
	for i := range all {
		all[i] = mark
	}
	return banded{all, all[band+shift:][:n:n]}
}

func randomBanded(rnd *rand.Rand, n, shift int) banded {
	b := newBanded(n, shift)
	for i := range b.v {
		b.v[i] = float32(rnd.NormFloat64())
	}
	return b
}

// intact reports a write outside the slice.
func (b banded) intact(t *testing.T) {
	t.Helper()
	before := (len(b.all) - len(b.v) - band)
	for i, v := range b.all {
		if (i < before || i >= before+len(b.v)) && !isMark(v) {
			t.Fatalf("a write %d elements from the start of %d", i-before, len(b.v))
		}
	}
}

// near fails unless got is want within tolerance times size, the magnitude of
// what was added up.
func near(t *testing.T, got float32, want, size, tolerance float64, format string, args ...any) {
	t.Helper()
	if d := math.Abs(float64(got) - want); !(d <= tolerance*size+1e-38) {
		t.Fatalf("%s: got %v, want %v: off by %.3g of %.3g", fmt.Sprintf(format, args...), got, want, d, size)
	}
}

// epsilon is the relative rounding error of one float32 operation.
const epsilon = 1.0 / (1 << 24)

// tileOf stores rows of a matrix, [16][k], as one tile. The padding after
// the last column is marked.
func tileOf(f Format, rows [][]float32, tile []byte) {
	k := len(rows[0])
	for r := range rows {
		for i, v := range rows[r] {
			f.put(tile, i, r, v)
		}
		if k%2 == 1 {
			f.put(tile, k, r, mark)
		}
	}
}

// rounded is v as the format stores it.
func rounded(f Format, v float32) float32 {
	switch f {
	case F16:
		return fromF16(toF16(v))
	case BF16:
		return math.Float32frombits(uint32(toBF16(v)) << 16)
	}
	return v
}

// TestProducts: mul of every implementation, format and number of rows against double
// precision. Results of one row never depend on the number of rows; nothing outside the
// operands is read or written.
func TestProducts(t *testing.T) {
	for f := F32; f <= BF16; f++ {
		t.Run(f.String(), func(t *testing.T) {
			eachKernel(t, func(im *impl) uintptr { return table(im, im.mul[f]) }, func(t *testing.T, im *impl) {
				rnd := newRand(1)
				for _, k := range someLengths() {
					mulTest(rnd, im, f, k).check(t)
				}
			})
		})
	}
}

// mulTest is mul of rows of k numbers with two tiles. Between the rows, and after the
// last column of a tile, there are marks.
func mulTest(rnd *rand.Rand, im *impl, f Format, k int) *productTest {
	const tiles = 2
	tileBytes := f.tileBytes(k)
	// The second tile comes first in memory, a gap between them.
	w := make([]byte, 2*tileBytes+64)
	offs := []int{tileBytes + 64, 0}
	ahead := []int{math.MinInt / 4, math.MaxInt / 4} // anywhere
	var columns [][]float32
	for u := range tiles {
		for range rowsPerTile {
			column := make([]float32, k)
			for i := range column {
				column[i] = rounded(f, float32(rnd.NormFloat64()))
			}
			columns = append(columns, column)
		}
		tileOf(f, columns[u*rowsPerTile:], w[offs[u]:])
	}
	ldx := k + 3
	x := randomBanded(rnd, im.rows()*ldx, k%4).v
	for r := range im.rows() {
		for i := k; i < ldx; i++ {
			x[r*ldx+i] = mark
		}
	}
	return &productTest{
		name: fmt.Sprintf("mul of %d", k), rows: im.rows(), columns: len(columns), bias: randomBanded(rnd, len(columns), 1).v,
		run: func(first, m int, y []float32, ldy int, bias []float32) {
			im.mul[f][m](w, offs, ahead, k, x[first*ldx:], ldx, y, ldy, bias)
		},
		want: func(r, c int) (v, size float64) {
			return addProducts(k, func(i int) float64 { return float64(columns[c][i]) }, func(i int) float64 { return float64(x[r*ldx+i]) })
		},
		tolerance: epsilon * (2 + math.Sqrt(float64(k))),
	}
}

// TestAtPageEnd: no operand is read beyond its end.
func TestAtPageEnd(t *testing.T) {
	floats := func(n int) []float32 {
		if n == 0 {
			return nil
		}
		return unsafe.Slice((*float32)(unsafe.Pointer(&beforeGuard(t, n*4)[0])), n)
	}
	eachImpl(t, func(t *testing.T, im *impl) {
		for f := F32; f <= BF16; f++ {
			for _, k := range []int{1, 2, 3, 15, 16, 17, 31, 64, 71} {
				for m := 1; m <= im.rows(); m++ {
					w, x, y := beforeGuard(t, f.tileBytes(k)), floats(m*k), floats(m*rowsPerTile)
					im.mul[f][m](w, []int{0}, []int{0}, k, x, k, y, rowsPerTile, floats(rowsPerTile))
				}
			}
		}
		for n := 1; n <= 64; n++ {
			im.sumSquares(floats(n))
			im.scaleMul(floats(n), floats(n), floats(n), 1)
			im.add(floats(n), floats(n))
			im.gate(floats(n), floats(n), floats(n))
			im.rotate(floats(n), floats(n), floats(n), floats(n))
			im.blend(floats(n), floats(n), 1, 1)
			im.scale(floats(n), floats(n), 1)
			for k := range im.pointwise {
				im.pointwise[k](floats(n), floats(n), floats(n), new([4]float32))
			}
			im.sum(floats(n))
			im.convOf(n)(floats(n), floats(3*n), floats(4*n), 3)
			if n <= stateColumns {
				im.deltaOf(n)(floats(n), floats(n), floats(5*n), floats(5*n), floats(5), floats(5), floats(5), floats(5), 1)
				im.scanOf(n)(floats(n), floats(n), floats(5*n), floats(5*n), floats(5), floats(5), 1, 1)
			}
			if n%rowsPerTile == 0 {
				im.max(floats(n))
			}
		}
	})
}

// TestElementwise: the other kernels, all lengths up to 257 (where the kernel
// wants multiples of 16, those), at all alignments, against double precision.
func TestElementwise(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(2)
		for n := range 258 {
			shift := n % 4
			x, w, y := randomBanded(rnd, n, shift), randomBanded(rnd, n, (n+1)%4), randomBanded(rnd, n, (n+2)%4)
			old := append([]float32(nil), y.v...)
			var sum float64
			for _, v := range x.v {
				sum += float64(v) * float64(v)
			}
			near(t, im.sumSquares(x.v), sum, sum, 8*epsilon, "sumSquares of %d", n)
			each := func(name string, want func(i int) (v, size float64)) {
				t.Helper()
				y.intact(t)
				for i, got := range y.v {
					v, size := want(i)
					near(t, got, v, size, 4*epsilon, "%s: element %d of %d", name, i, n)
				}
				copy(y.v, old)
			}
			f := func(v float32) float64 { return float64(v) }
			im.scaleMul(y.v, x.v, w.v, 0.3)
			each("scaleMul", func(i int) (float64, float64) {
				v := f(x.v[i]) * f(float32(0.3)) * f(w.v[i])
				return v, math.Abs(v)
			})
			im.add(y.v, x.v)
			each("add", func(i int) (float64, float64) { return f(old[i]) + f(x.v[i]), math.Abs(f(old[i]) + f(x.v[i])) })
			im.blend(y.v, x.v, 0.7, -1.2)
			each("blend", func(i int) (float64, float64) {
				a, b := f(old[i])*f(float32(0.7)), f(x.v[i])*f(float32(-1.2))
				return a + b, math.Abs(a) + math.Abs(b)
			})
			im.scale(y.v, x.v, -3)
			each("scale", func(i int) (float64, float64) { return -3 * f(x.v[i]), 3 * math.Abs(f(x.v[i])) })
			for i := range x.v { // wide enough for the ends of the exponential
				x.v[i] *= 40
			}
			silu := func(i int) (float64, float64) {
				v := f(x.v[i]) / (1 + math.Exp(-f(x.v[i]))) * f(w.v[i])
				return v, math.Abs(v) + 1e-29 // the exponential stays at exp(88)
			}
			im.gate(y.v, x.v, w.v)
			each("gate", silu)
			copy(y.v, x.v)
			im.gate(y.v, y.v, w.v)
			each("gate in place", silu)

			a, b := randomBanded(rnd, n, 0), randomBanded(rnd, n, 1)
			a0, b0 := append([]float32(nil), a.v...), append([]float32(nil), b.v...)
			im.rotate(a.v, b.v, x.v, w.v)
			a.intact(t)
			b.intact(t)
			for i := range n {
				c, s := f(x.v[i]), f(w.v[i])
				p, q := f(a0[i]), f(b0[i])
				size := (math.Abs(c) + math.Abs(s)) * (math.Abs(p) + math.Abs(q))
				near(t, a.v[i], p*c-q*s, size, 2*epsilon, "rotate: element %d of %d", i, n)
				near(t, b.v[i], q*c+p*s, size, 2*epsilon, "rotate: element %d of %d", i, n)
			}
			if n > 0 && n%rowsPerTile == 0 {
				testMax(t, rnd, im, n)
			}
		}
	})
}

func testMax(t *testing.T, rnd *rand.Rand, im *impl, n int) {
	x := randomBanded(rnd, n, n/rowsPerTile%4)
	for place := range n {
		x.v[place] += 9
		top := x.v[0]
		for _, v := range x.v {
			top = max(top, v)
		}
		if got := im.max(x.v); got != top {
			t.Fatalf("max of %d, greatest at %d: %v, want %v", n, place, got, top)
		}
		x.v[place] -= 9
	}
}

// TestExp: the exponential of gates and of merged partial results over its
// whole range, and its ends.
func TestExp(t *testing.T) {
	worst := 0.0
	for x := float32(expLow); x <= expHigh; x += 1.0 / 512 {
		want := math.Exp(float64(x))
		worst = max(worst, math.Abs(float64(exp(x))-want)/math.Ldexp(1, math.Ilogb(want)-23))
	}
	t.Logf("largest error %.2f ulp", worst)
	if worst > 1.5 {
		t.Errorf("largest error %.2f ulp", worst)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	if got := exp(math.Float32frombits(0xffc001ff)); exp(nan) == exp(nan) || got == got {
		t.Errorf("exp(NaN) = %v, %v", exp(nan), got)
	}
	if exp(0) != 1 || exp(-inf) != 0 || exp(math.Nextafter32(expLow, -inf)) != 0 || exp(-1e30) != 0 {
		t.Error("exp of 0 and below the range")
	}
	if got := exp(expLow); got < 1.6e-38 || got > 1.7e-38 {
		t.Errorf("exp(%d) = %v", expLow, got)
	}
	if top := exp(expHigh); exp(inf) != top || exp(1000) != top || math.IsInf(float64(top), 0) {
		t.Errorf("above the range: %v", top)
	}
}
