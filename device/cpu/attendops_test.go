package cpu

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// dotCase is one product of attention: what the kernels are given, and the
// numbers in it.
type dotCase struct {
	f      Format
	pairs  bool
	bytes  bool // the kernels' is set, and this is a case of scores
	kv     []byte
	x      []float32   // rows as the kernels take them
	ldx    int         // their distance
	rows   [][]float64 // the same rows, [k]
	offs   []int
	ahead  []int
	column func(t, j int) []float64 // row j of tile t, [k]
	scale  func(t, j int) float64   // Int8: scale of score j of tile t
	most   int                      // Int8: the greatest number in x
}

// form fills row r of x with n random numbers, then zeros up to a multiple of 4, and
// marks after those.
func (c *dotCase) form(rnd *rand.Rand, r, n int) {
	row := c.x[r*c.ldx:][:c.ldx]
	for i := range row {
		row[i] = mark
	}
	v := make([]float64, (n+3)&^3)
	for i := range n {
		switch {
		case c.pairs:
			v[i] = float64(rounded(BF16, float32(rnd.NormFloat64())))
		case c.f != Int8:
			v[i] = float64(float32(rnd.NormFloat64()))
		case rnd.IntN(3) == 0: // the ends, where sums are greatest
			v[i] = float64(rnd.IntN(2)*2-1) * float64(c.most)
		default:
			v[i] = float64(rnd.IntN(2*c.most+1) - c.most)
		}
	}
	c.rows[r] = v[:n]
	word := func(lo, hi uint16) float32 { return math.Float32frombits(uint32(lo) | uint32(hi)<<16) }
	switch {
	case c.pairs:
		for i := 0; i < n; i += 2 {
			row[i/2] = word(toBF16(float32(v[i])), toBF16(float32(v[i+1])))
		}
	case c.bytes:
		sum := 0.0
		for i := 0; i < n; i += 4 {
			row[i/4] = word(uint16(byte(int8(v[i])))|uint16(byte(int8(v[i+1])))<<8, uint16(byte(int8(v[i+2])))|uint16(byte(int8(v[i+3])))<<8)
			sum += v[i] + v[i+1] + v[i+2] + v[i+3]
		}
		row[n/4] = math.Float32frombits(uint32(int32(-keyBias * sum)))
	case c.f == Int8:
		for i := 0; i < n; i += 4 {
			row[i/2], row[i/2+1] = word(uint16(int16(v[i])), uint16(int16(v[i+2]))), word(uint16(int16(v[i+1])), uint16(int16(v[i+3])))
		}
	default:
		for i, v := range v[:n] {
			row[i] = float32(v)
		}
	}
}

// value is a random number as the format stores it.
func (c *dotCase) value(rnd *rand.Rand) float32 {
	if c.f == Int8 {
		if rnd.IntN(3) == 0 {
			return float32(rnd.IntN(2)*2-1) * keyMax
		}
		return float32(rnd.IntN(2*keyMax+1) - keyMax)
	}
	return rounded(c.f, float32(rnd.NormFloat64()))
}

// put stores v in a tile.
func (c *dotCase) put(tile []byte, k, j int, v float32) {
	if c.f == Int8 {
		b := byte(int8(v))
		if c.bytes {
			b += keyBias
		}
		tile[(k/4*rowsPerTile+j)*4+k%4] = b
		return
	}
	c.f.put(tile, k, j, v)
}

// scoresCase has tiles of k columns, a multiple of 4, at random places. If
// guarded, the last of them ends where unreadable memory begins.
func scoresCase(t testing.TB, rnd *rand.Rand, d *dotKernels, f Format, rows, tiles, k int, guarded bool) *dotCase {
	scales := 0
	if f == Int8 {
		scales = rowsPerTile * 4
	}
	size := f.tileBytes(k) + scales
	c := &dotCase{f: f, pairs: d.pairs, bytes: d.bytes, most: queryMax, ldx: k + 5, offs: make([]int, tiles), rows: make([][]float64, rows)}
	c.kv, c.x = make([]byte, tiles*size), make([]float32, rows*c.ldx)
	if guarded {
		c.kv, c.ldx = beforeGuard(t, tiles*size), k
		switch {
		case d.bytes:
			c.ldx = k/4 + 1
		case f == Int8 || d.pairs:
			c.ldx = k / 2
		}
		c.x = guardedFloats(t, rows*c.ldx)
	}
	numbers := make([][rowsPerTile][]float64, tiles)
	for u, p := range rnd.Perm(tiles) {
		c.offs[u] = p * size
		for j := range rowsPerTile {
			for i := range k {
				v := c.value(rnd)
				numbers[u][j] = append(numbers[u][j], float64(v))
				c.put(c.kv[c.offs[u]:], i, j, v)
			}
			if f == Int8 {
				s := math.Float32bits(float32(rnd.Float64()))
				for b := range 4 {
					c.kv[c.offs[u]+f.tileBytes(k)+j*4+b] = byte(s >> (8 * b))
				}
			}
		}
	}
	for r := range rows {
		c.form(rnd, r, k)
	}
	c.column = func(t, j int) []float64 { return numbers[t][j] }
	c.scale = func(t, j int) float64 {
		if f != Int8 {
			return 1
		}
		return float64(scaleAt(c.kv[c.offs[t]+f.tileBytes(k):], j))
	}
	return c
}

// valuesCase has tiles of units of 16 columns, the first n of which count; what
// comes after them is marked.
func valuesCase(t testing.TB, rnd *rand.Rand, d *dotKernels, f Format, rows, tiles, n int, guarded bool) *dotCase {
	units := (n + rowsPerTile - 1) / rowsPerTile
	size := f.tileBytes(rowsPerTile)
	c := &dotCase{f: f, pairs: d.pairs, most: weightMax, ldx: n + 5, offs: make([]int, units), ahead: make([]int, units), rows: make([][]float64, rows)}
	c.kv, c.x = make([]byte, units*tiles*size), make([]float32, rows*c.ldx)
	if guarded {
		c.kv, c.ldx = beforeGuard(t, units*tiles*size), n
		if f == Int8 || d.pairs {
			c.ldx = (n + 3) / 4 * 2
		}
		c.x = guardedFloats(t, rows*c.ldx)
	}
	for i := range c.kv {
		c.kv[i] = 0xff // NaN
	}
	numbers := make([][rowsPerTile][]float64, tiles)
	for u, p := range rnd.Perm(units) {
		c.offs[u], c.ahead[u] = p*tiles*size, rnd.Int()-math.MaxInt/2 // anywhere
		for t := range tiles {
			for j := range rowsPerTile {
				for i := range min(rowsPerTile, n-u*rowsPerTile) {
					v := c.value(rnd)
					numbers[t][j] = append(numbers[t][j], float64(v))
					c.put(c.kv[c.offs[u]+t*size:], i, j, v)
				}
			}
		}
	}
	for r := range rows {
		c.form(rnd, r, n)
	}
	c.column = func(t, j int) []float64 { return numbers[t][j] }
	c.scale = func(int, int) float64 { return 1 }
	return c
}

// want is what row r times row j of tile t is, and the magnitude of its terms.
func (c *dotCase) want(r, t, j int) (v, size float64) {
	for i, w := range c.column(t, j) {
		p := w * c.rows[r][i]
		v, size = v+p, size+math.Abs(p)
	}
	s := c.scale(t, j)
	return v * s, size * s
}

// TestDots: products of every implementation and format with keys and values, for
// all numbers of rows, against double precision; those of integers are exact. No result
// depends on the number of rows or tiles of a call, and nothing but the results is
// written.
func TestDots(t *testing.T) {
	for _, f := range []Format{F32, F16, BF16, Int8} {
		t.Run(f.String(), func(t *testing.T) {
			eachKernel(t, func(im *impl) uintptr { return table(im, im.dots[f].scores) }, func(t *testing.T, im *impl) {
				for _, n := range someLengths() {
					if n%4 == 0 && n > 0 {
						testScores(t, newRand(uint64(n)), &im.dots[f], f, n)
					}
					testValues(t, newRand(uint64(n)), &im.dots[f], f, n)
				}
			})
		})
	}
}

// tolerance of a chain of n multiplications.
func (c *dotCase) tolerance(n int) float64 {
	if c.f == Int8 { // the sum is exact, then rounded, and perhaps scaled
		return 2 * epsilon
	}
	return epsilon * (2 + 2*math.Sqrt(float64(n)))
}

func (c *dotCase) check(t *testing.T, got float32, r, tile, j, n int, format string, args ...any) {
	t.Helper()
	want, size := c.want(r, tile, j)
	if c.f == Int8 {
		size = math.Abs(want)
	}
	near(t, got, want, size, c.tolerance(n), "%s: row %d, tile %d, column %d", fmt.Sprintf(format, args...), r, tile, j)
}

func testScores(t *testing.T, rnd *rand.Rand, d *dotKernels, f Format, k int) {
	const tiles = 8
	c := scoresCase(t, rnd, d, f, d.rows(), tiles, k, false)
	var alone [][]float32
	for r := range d.rows() {
		y := resultRows(t, 1, tiles*rowsPerTile, func(y []float32, ldy int) {
			d.scores[1](c.kv, c.offs, math.MaxInt/4, k, c.x[r*c.ldx:], c.ldx, y, ldy)
		})[0]
		alone = append(alone, y)
		for i, got := range y {
			c.check(t, got, r, i/rowsPerTile, i%rowsPerTile, k, "scores of %d columns", k)
		}
	}
	for m := 1; m <= d.rows(); m++ {
		n := d.tiles[m] // a single turn, of other tiles
		for first := 0; first+n <= tiles; first += n {
			for r, row := range resultRows(t, m, n*rowsPerTile, func(y []float32, ldy int) {
				d.scores[m](c.kv, c.offs[first:first+n], 64, k, c.x, c.ldx, y, ldy)
			}) {
				sameBits(t, row, alone[r][first*rowsPerTile:][:n*rowsPerTile], "scores of %d columns, row %d of %d", k, r, m)
			}
		}
	}
}

func testValues(t *testing.T, rnd *rand.Rand, d *dotKernels, f Format, n int) {
	const tiles = 4
	c := valuesCase(t, rnd, d, f, d.rows(), tiles, n, false)
	size := f.tileBytes(rowsPerTile)
	// In a case of no positions there is nothing to point into.
	from := func(tile int) []byte { return c.kv[min(tile*size, len(c.kv)):] }
	alone := make([][]float32, d.rows())
	for r := range d.rows() {
		for tile := range tiles {
			y := resultRows(t, 1, rowsPerTile, func(y []float32, ldy int) {
				d.value[1](from(tile), c.offs, c.ahead, n, c.x[r*c.ldx:], c.ldx, y, ldy)
			})[0]
			alone[r] = append(alone[r], y...)
			for j, got := range y {
				c.check(t, got, r, tile, j, n, "values of %d positions", n)
			}
		}
	}
	for m := 1; m <= d.rows(); m++ {
		for _, k := range []struct {
			f     valuesFunc
			tiles int
		}{{d.value[m], 1}, {d.values[m], d.tiles[m]}} {
			for first := 0; first+k.tiles <= tiles; first += k.tiles {
				for r, row := range resultRows(t, m, k.tiles*rowsPerTile, func(y []float32, ldy int) {
					k.f(from(first), c.offs, c.ahead, n, c.x, c.ldx, y, ldy)
				}) {
					sameBits(t, row, alone[r][first*rowsPerTile:][:k.tiles*rowsPerTile], "values of %d positions, row %d of %d", n, r, m)
				}
			}
		}
	}
}

func sameBits(t *testing.T, got, want []float32, format string, args ...any) {
	t.Helper()
	for i := range want {
		if math.Float32bits(got[i]) != math.Float32bits(want[i]) {
			t.Fatalf("%s: number %d is %v, alone %v", fmt.Sprintf(format, args...), i, got[i], want[i])
		}
	}
}

// guardedFloats are n numbers that end where unreadable memory begins.
func guardedFloats(t testing.TB, n int) []float32 {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&beforeGuard(t, n*4)[0])), n)
}

// TestDotsAtPageEnd: no operand is read beyond its end.
func TestDotsAtPageEnd(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(1)
		for f := F32; f <= Int8; f++ {
			d := &im.dots[f]
			for m := 1; m <= d.rows(); m++ {
				tiles := d.tiles[m]
				for _, k := range []int{4, 16, 20, 64} {
					c := scoresCase(t, rnd, d, f, m, tiles, k, true)
					d.scores[m](c.kv, c.offs, 0, k, c.x, c.ldx, guardedFloats(t, m*tiles*rowsPerTile), tiles*rowsPerTile)
				}
				for _, n := range []int{1, 2, 3, 4, 15, 16, 17, 33} {
					c := valuesCase(t, rnd, d, f, m, tiles, n, true)
					d.values[m](c.kv, c.offs, c.ahead, n, c.x, c.ldx, guardedFloats(t, m*tiles*rowsPerTile), tiles*rowsPerTile)
					c = valuesCase(t, rnd, d, f, m, 1, n, true)
					d.value[m](c.kv, c.offs, c.ahead, n, c.x, c.ldx, guardedFloats(t, m*rowsPerTile), rowsPerTile)
				}
			}
		}
		for n := 0; n <= 64; n += rowsPerTile {
			scales := beforeGuard(t, rowsPerTile*4)
			im.expSum(guardedFloats(t, n), 0, 1, 0)
			im.expSumScaled(guardedFloats(t, n), 0, 1, 0, scales, make([]int, n/rowsPerTile))
			im.absMax(guardedFloats(t, n))
			im.toInt16(guardedFloats(t, n/2), guardedFloats(t, n), 1)
		}
	})
}

// TestSoftmax: exponentials, their sums, scaled weights and integers, of all
// lengths that the kernels take.
func TestSoftmax(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(2)
		for n := 0; n <= partTokens; n += rowsPerTile {
			s := newSoftmaxTest(rnd, im, n)
			s.checkSum(t)
			s.checkWide(t)
			s.checkScaled(t, rnd)
			testToInt16(t, im, s.scores, im.absMax(s.scores))
		}
	})
}

// softmaxTest is a row of scores.
type softmaxTest struct {
	im     *impl
	scores []float32
	top    float32 // the greatest of them, or 0
	scale  rowScale
	// The results of expSum: the weights and their sum.
	weights []float32
	sum     float32
}

func newSoftmaxTest(rnd *rand.Rand, im *impl, n int) *softmaxTest {
	s := &softmaxTest{im: im, scores: randomBanded(rnd, n, 0).v, scale: newRowScale(0.37)}
	for i := range s.scores {
		s.scores[i] *= 30
		s.top = max(s.top, s.scores[i])
	}
	return s
}

// checkSum compares expSum with double precision.
func (s *softmaxTest) checkSum(t *testing.T) {
	t.Helper()
	n := len(s.scores)
	x := newBanded(n, n/rowsPerTile%4)
	copy(x.v, s.scores)
	s.sum = s.im.expSum(x.v, s.top, s.scale.hi, s.scale.lo)
	x.intact(t)
	sum := 0.0
	for i, got := range x.v {
		want := math.Exp(float64(s.scores[i]-s.top) * float64(s.scale.e))
		near(t, got, want, want, 3*epsilon, "expSum of %d: element %d", n, i)
		sum += want
	}
	near(t, s.sum, sum, sum, 4*epsilon, "expSum of %d", n)
	s.weights = x.v
}

// checkWide puts -Inf on both sides of the row, which changes no bit of the sum.
func (s *softmaxTest) checkWide(t *testing.T) {
	t.Helper()
	n := len(s.scores)
	wide := newBanded(n+3*rowsPerTile, 3)
	for i := range wide.v {
		wide.v[i] = float32(math.Inf(-1))
	}
	copy(wide.v[rowsPerTile:], s.scores)
	if got := s.im.expSum(wide.v, s.top, s.scale.hi, s.scale.lo); got != s.sum {
		t.Fatalf("expSum of %d: %v, with zeros around it %v", n, s.sum, got)
	}
	for i, v := range wide.v {
		if (i < rowsPerTile || i >= rowsPerTile+n) && math.Float32bits(v) != 0 {
			t.Fatalf("exp(-Inf) is %v", v)
		}
	}
}

// checkScaled has scales in units in any order.
func (s *softmaxTest) checkScaled(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	n := len(s.scores)
	scales := make([]byte, n*4)
	offs := rnd.Perm(n / rowsPerTile)
	for i := range offs {
		offs[i] *= rowsPerTile * 4
	}
	for i := range n {
		binary.LittleEndian.PutUint32(scales[i*4:], math.Float32bits(float32(rnd.Float64())))
	}
	x := newBanded(n, 1)
	copy(x.v, s.scores)
	sum, most := s.im.expSumScaled(x.v, s.top, s.scale.hi, s.scale.lo, scales, offs)
	x.intact(t)
	greatest := float32(0)
	for i, got := range x.v {
		if want := s.weights[i] * scaleAt(scales[offs[i/rowsPerTile]:], i%rowsPerTile); got != want {
			t.Fatalf("expSumScaled of %d: element %d is %v, not %v", n, i, got, want)
		}
		greatest = max(greatest, got)
	}
	if n > 0 && (sum != s.sum || most != greatest) {
		t.Fatalf("expSumScaled of %d: %v and %v, not %v and %v", n, sum, most, s.sum, greatest)
	}
	testToInt16(t, s.im, x.v, most)
}

func testToInt16(t *testing.T, im *impl, x []float32, most float32) {
	t.Helper()
	inv, unit := inverse(most, weightMax)
	for _, inPlace := range []bool{false, true} {
		y := newBanded(len(x)/2, 1)
		if inPlace {
			y = newBanded(len(x), 2)
			copy(y.v, x)
			im.toInt16(y.v, y.v, inv)
		} else {
			im.toInt16(y.v, x, inv)
		}
		y.intact(t)
		for i, v := range x {
			word := y.v[i/4*2+i%2]
			lo, hi := halves(word)
			got := [2]int32{lo, hi}[i/2%2]
			if math.Abs(float64(got)-float64(v)*float64(inv)) > 0.51 || math.Abs(float64(got)*float64(unit)-float64(v)) > 0.51*float64(unit) {
				t.Fatalf("toInt16 of %d: number %d, %v of at most %v, is %d", len(x), i, v, most, got)
			}
		}
	}
}

// TestExp2: the exponential of every implementation over its whole range, and
// its ends.
func TestExp2(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		scale := newRowScale(0.7)
		exps := func(x ...float32) []float32 {
			for len(x)%rowsPerTile != 0 {
				x = append(x, 0)
			}
			im.expSum(x, 0, scale.hi, scale.lo)
			return x
		}
		worst := 0.0
		for x := float32(-124); x <= 0; {
			var in []float32
			for range 1024 {
				in = append(in, min(x, 0))
				x += 1.0 / 512
			}
			for i, got := range exps(append([]float32(nil), in...)...) {
				want := math.Exp(float64(in[i]) * float64(scale.e))
				ulp := math.Ldexp(1, math.Ilogb(want)-23)
				worst = max(worst, math.Abs(float64(got)-want)/ulp)
			}
		}
		t.Logf("largest error %.2f ulp", worst)
		if worst > 1.5 {
			t.Errorf("largest error %.2f ulp", worst)
		}
		nan, inf := float32(math.NaN()), float32(math.Inf(1))
		oddNaN := math.Float32frombits(0xffc001ff)
		edge := float32(exp2Least-0.5) * math.Ln2 / 0.7
		got := exps(0, nan, oddNaN, -inf, edge*1.001, edge*0.999, -1e30, -3e38)
		if got[0] != 1 {
			t.Errorf("2^0 = %v", got[0])
		}
		if got[1] == got[1] || got[2] == got[2] {
			t.Errorf("2^NaN = %v, %v", got[1], got[2])
		}
		if got[3] != 0 || got[4] != 0 || got[6] != 0 || got[7] != 0 {
			t.Errorf("below the range: %v", got[3:8])
		}
		if got[5] < 1.6e-38 || got[5] > 1.9e-38 {
			t.Errorf("at the end of the range: %v", got[5])
		}
	})
}

// TestBrokenWeights: NaN and infinity are not lost when numbers are quantized, and
// scales of zero weights do no harm.
func TestBrokenWeights(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	eachImpl(t, func(t *testing.T, im *impl) {
		for _, bad := range []float32{nan, math.Float32frombits(0xffc00000), inf} {
			for place := range 2 * rowsPerTile {
				testBrokenWeight(t, im, bad, place)
			}
		}
		for _, most := range []float32{nan, inf} {
			if inv, unit := inverse(most, weightMax); inv != 0 || unit == unit && unit != inf {
				t.Errorf("inverse of %v: %v, %v", most, inv, unit)
			}
		}
	})
}

// testBrokenWeight has a bad number, and then a bad scale, at one place of two units.
func testBrokenWeight(t *testing.T, im *impl, bad float32, place int) {
	t.Helper()
	inf := float32(math.Inf(1))
	finite := func(v float32) bool { return v == v && v != inf }
	x := make([]float32, 2*rowsPerTile)
	for i := range x {
		x[i] = float32(i)
	}
	x[place] = bad
	if got := im.absMax(x); finite(got) {
		t.Fatalf("absMax with %v at %d is %v", bad, place, got)
	}
	scales, offs := make([]byte, len(x)*4), []int{0, rowsPerTile * 4}
	binary.LittleEndian.PutUint32(scales[place*4:], math.Float32bits(bad))
	clear(x)
	if _, most := im.expSumScaled(x, 0, 1, 0, scales, offs); finite(most) {
		t.Fatalf("a scale of %v at %d: %v", bad, place, most)
	}
	clear(x)
	x[place] = -inf
	if sum, most := im.expSumScaled(x, 0, 1, 0, scales, offs); sum != float32(len(x)-1) || most != 0 || x[place] != 0 {
		t.Fatalf("a scale of %v at %d of a zero weight: %v %v %v", bad, place, sum, most, x[place])
	}
}
