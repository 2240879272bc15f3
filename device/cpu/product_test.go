package cpu

import (
	"math"
	"testing"
)

// productTest holds the kernels of one product, for all numbers of rows, against a
// reference.
type productTest struct {
	name          string
	rows, columns int // of the result; rows is what a kernel can take at most
	bias          []float32
	// run computes m rows from row first on.
	run func(first, m int, y []float32, ldy int, bias []float32)
	// want is the result of row r and column c without the bias, and the magnitude of
	// what was added up to it.
	want      func(r, c int) (v, size float64)
	tolerance float64 // relative to that magnitude
}

// check compares each row alone with the reference, and the rows of every kernel with
// the bits of the row alone. Nothing but the results may be written.
func (p *productTest) check(t *testing.T) {
	t.Helper()
	alone := make([][]float32, p.rows)
	for r := range alone {
		alone[r] = resultRows(t, 1, p.columns, func(y []float32, ldy int) { p.run(r, 1, y, ldy, nil) })[0]
		for c, got := range alone[r] {
			want, size := p.want(r, c)
			near(t, got, want, size, p.tolerance, "%s: row %d, column %d", p.name, r, c)
		}
	}
	for m := 1; m <= p.rows; m++ {
		for _, bias := range [][]float32{nil, p.bias} {
			for r, row := range resultRows(t, m, p.columns, func(y []float32, ldy int) { p.run(0, m, y, ldy, bias) }) {
				sameBits(t, row, sum(alone[r], bias), "%s, row %d of %d, bias %t", p.name, r, m, bias != nil)
			}
		}
	}
}

// sum is a+b, or a if there is no b.
func sum(a, b []float32) []float32 {
	if b == nil {
		return a
	}
	s := make([]float32, len(a))
	for i := range s {
		s[i] = a[i] + b[i]
	}
	return s
}

// addProducts is Σ a(i)*b(i) for i below n, and the sum of the magnitudes.
func addProducts(n int, a, b func(i int) float64) (v, size float64) {
	for i := range n {
		p := a(i) * b(i)
		v, size = v+p, size+math.Abs(p)
	}
	return v, size
}

// resultRows are the results of a kernel of m rows of some columns. Nothing beside
// them may be written.
func resultRows(t *testing.T, m, columns int, f func(y []float32, ldy int)) [][]float32 {
	t.Helper()
	ldy := columns + 3
	y := newBanded((m-1)*ldy+columns, m%4)
	f(y.v, ldy)
	y.intact(t)
	var rows [][]float32
	for r := range m {
		rows = append(rows, y.v[r*ldy:][:columns])
		if r+1 == m {
			break
		}
		for _, v := range y.v[r*ldy+columns:][:3] {
			if !isMark(v) {
				t.Fatalf("%d rows: a write between rows", m)
			}
		}
	}
	return rows
}
