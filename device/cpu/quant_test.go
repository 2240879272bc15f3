package cpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/model"
	"weir/weights"
)

// blockFormats are the formats of impl.dot.
var blockFormats = []Format{Q8, Q4}

// eachDots runs a test for every tier that has kernels of its own for the products of
// a format of integers.
func eachDots(t *testing.T, format Format, f func(t *testing.T, im *impl)) {
	t.Helper()
	eachKernel(t, func(im *impl) uintptr { return table(im, im.dot[format]) }, f)
}

// element is column c of row r of a tile in a block format, by the definition in
// quant.go and not by way of Format.block.
func element(f Format, tile []byte, c, r int) (weight int, scale float64) {
	group, b, i := c/64, c/32%2, c%32
	if f == Q8 {
		g := tile[group*1088:][:1088]
		return int(g[64+b*512+i/4*64+r*4+i%4]) - 128, half(binary.LittleEndian.Uint16(g[b*32+r*2:]))
	}
	g := tile[group*576:][:576]
	v := g[64+b*256+i%16/4*64+r*4+i%4]
	if i >= 16 {
		v >>= 4
	}
	return int(v&15) - 8, half(binary.LittleEndian.Uint16(g[b*32+r*2:]))
}

// quantity is column c of a row that im quantized.
func quantity(im *impl, row []byte, c int) (v int, scale float64) {
	g := row[c/64*80:][:80]
	scale = float64(math.Float32frombits(binary.LittleEndian.Uint32(g[8+c/32%2*4:])))
	if im.exponents {
		scale = math.Exp2(scale)
	}
	return int(int8(g[16+c%64])), scale
}

// plain is the last implementation, by which the others are measured.
func plain() *impl { return impls[len(impls)-1] }

// bandedBytes is a slice of n bytes between marks.
func bandedBytes(n, shift int) (all, v []byte) {
	all = bytes.Repeat([]byte{0xa5}, 2*64+shift+n)
	return all, all[64+shift:][:n:n]
}

func intactBytes(t *testing.T, all, v []byte) {
	t.Helper()
	before := len(all) - len(v) - 64
	for i, b := range all {
		if (i < before || i >= before+len(v)) && b != 0xa5 {
			t.Fatalf("a write %d bytes from the start of %d", i-before, len(v))
		}
	}
}

// TestQuantizeRow: every implementation writes the bits of the definition, for
// all lengths and alignments, and for numbers of every kind.
func TestQuantizeRow(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(5)
		for n := range 258 {
			for kind := range rowKinds {
				x := rowOfKind(rnd, n, kind)
				all, got := bandedBytes(groups(n)*groupRow, n%8)
				im.quantize(got, x.v)
				x.intact(t)
				intactBytes(t, all, got)
				want := make([]byte, len(got))
				quantizeGeneric(want, x.v)
				if im.exponents {
					toExponents(want)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("row of %d, kind %d:\n got %v\nwant %v\n   x %v", n, kind, got, want, x.v)
				}
			}
		}
	})
}

const rowKinds = 4

// rowOfKind is a row of about 1 (0), of very different numbers (1), with infinities, NaN
// and ends of ranges among them (2), or of halves of units (3).
func rowOfKind(rnd *rand.Rand, n, kind int) banded {
	inf := float32(math.Inf(1))
	special := []float32{0, 1, -1, math.MaxFloat32, -math.MaxFloat32, inf, -inf, float32(math.NaN()), math.SmallestNonzeroFloat32, leastScaled, -leastScaled, math.Nextafter32(leastScaled, 0), 127, -127, 126.5, 63.5, 64.5}
	x := randomBanded(rnd, n, n%4)
	for i := range x.v {
		switch kind {
		case 1:
			x.v[i] *= float32(math.Ldexp(1, rnd.IntN(200)-100))
		case 2:
			if rnd.IntN(20) == 0 {
				x.v[i] = special[rnd.IntN(len(special))]
			}
		case 3:
			x.v[i] = float32(rnd.IntN(509)-254) / 2
		}
	}
	return x
}

// TestQuantizeGeneric: the definition itself.
func TestQuantizeGeneric(t *testing.T) {
	rnd := newRand(6)
	for n := range 258 {
		x := randomBanded(rnd, n, 0).v
		if n > 40 {
			clear(x[:32])
		}
		row := make([]byte, groups(n)*groupRow)
		quantizeGeneric(row, x)
		for b := range 2 * groups(n) {
			checkBlock(t, row, b, x)
		}
	}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))} {
		row := make([]byte, groupRow)
		quantizeGeneric(row, []float32{1, bad, 2})
		if _, scale := quantity(plain(), row, 0); !math.IsNaN(scale) && !math.IsInf(scale, 0) {
			t.Errorf("%v is forgotten: scale %v", bad, scale)
		}
	}
}

// checkBlock holds block b of a row that was quantized from x against the definition.
func checkBlock(t *testing.T, row []byte, b int, x []float32) {
	t.Helper()
	n := len(x)
	sum, top, size := 0, 0, 0.0
	_, scale := quantity(plain(), row, b*blockColumns)
	for c := b * blockColumns; c < (b+1)*blockColumns; c++ {
		q, _ := quantity(plain(), row, c)
		sum, top = sum+q, max(top, q, -q)
		v := 0.0 // the padding
		if c < n {
			v = float64(x[c])
		}
		size = max(size, math.Abs(v))
		if d := math.Abs(float64(q)*scale - v); d > scale*0.50001 || c >= n && q != 0 {
			t.Fatalf("row of %d: column %d is %d * %g for %g", n, c, q, scale, v)
		}
	}
	if size > 0 && (top < 64 || top > 127) || size == 0 && top != 0 {
		t.Fatalf("row of %d, block %d: the greatest number is %d", n, b, top)
	}
	if size > 0 && (math.Exp2(math.Round(math.Log2(scale))) != scale || scale*largestUnits < size*0.99999) {
		t.Fatalf("row of %d, block %d: a scale of %g for numbers up to %g", n, b, scale, size)
	}
	if got := int32(binary.LittleEndian.Uint32(row[b/2*groupRow+b%2*4:])); int(got) != -128*sum {
		t.Fatalf("row of %d, block %d: start %d for a sum of %d", n, b, got, sum)
	}
}

// TestPackBlock: a weight is off by half a unit at most, the greatest of a block
// is never cut off, and what is smaller than a float16 can scale becomes zero
// or a unit.
func TestPackBlock(t *testing.T) {
	rnd := newRand(7)
	for _, f := range blockFormats {
		for size := 1e-12; size <= float64(f.largest()); size *= 3 {
			for n := 1; n <= 64; n++ {
				w := make([]float32, n)
				for i := range w {
					w[i] = float32(rnd.Float64()*2-1) * float32(size)
				}
				if n > 1 {
					w[rnd.IntN(n)] = float32(size) * float32(1-2*rnd.IntN(2))
				}
				checkPacked(t, f, rnd.IntN(rowsPerTile), w)
			}
		}
	}
}

// checkPacked packs w as row r of a tile and looks at each weight.
func checkPacked(t *testing.T, f Format, r int, w []float32) {
	t.Helper()
	tile := make([]byte, f.tileBytes(len(w)))
	for b := 0; b*blockColumns < len(w); b++ {
		f.packBlock(tile, b, r, w[b*blockColumns:min(len(w), (b+1)*blockColumns)])
	}
	for c, v := range w {
		q, scale := element(f, tile, c, r)
		unit := max(math.Abs(scale), 0x1p-24)
		limit := 0.5 * unit
		if f == Q4 {
			limit = unit // 8 units of the other sign do not exist; nor does a scale below 2^-24
		}
		if d := math.Abs(float64(q)*scale - float64(v)); d > limit*1.02+8*0x1p-25 {
			t.Fatalf("%s: %g of %v is stored as %d * %g", f, v, w, q, scale)
		}
	}
}

// randomTile is a tile of any bits: every weight that can be stored, and scales
// that are not too different.
func randomTile(rnd *rand.Rand, f Format, k int, tile []byte) {
	for i := range tile[:f.tileBytes(k)] {
		tile[i] = byte(rnd.Uint32())
	}
	for g := range groups(k) {
		for i := range 2 * rowsPerTile {
			binary.LittleEndian.PutUint16(tile[g*f.groupBytes()+2*i:], toF16(float32(rnd.NormFloat64())))
		}
	}
}

// TestBlockDots: every implementation, block format and number of rows against the
// definition: exact integers, then double precision. Results of one row never depend on
// the number of rows; nothing outside the operands is read or written.
func TestBlockDots(t *testing.T) {
	for _, f := range blockFormats {
		t.Run(f.String(), func(t *testing.T) {
			eachDots(t, f, func(t *testing.T, im *impl) {
				rnd := newRand(8)
				// A kernel takes whole groups of 64 columns; the rest is padding.
				for _, k := range []int{0, 1, 31, 32, 33, 63, 64, 65, 97, 128, 129, 190, 192, 257} {
					dotTest(rnd, im, f, k).check(t)
				}
			})
		})
	}
}

// dotTest is dot of rows of k columns with two tiles of a block format.
func dotTest(rnd *rand.Rand, im *impl, f Format, k int) *productTest {
	const columns = 2 * rowsPerTile
	n, size, rows := groups(k), f.tileBytes(k), len(im.dot[f])-1
	_, w := bandedBytes(2*size+64, k%8)
	offs, ahead := []int{size + 64, 0}, []int{math.MinInt / 4, math.MaxInt / 4}
	for _, off := range offs {
		randomTile(rnd, f, k, w[off:])
	}
	ldx := n*groupRow + 16
	_, x := bandedBytes(rows*ldx, k%8)
	for r := range rows {
		im.quantize(x[r*ldx:][:n*groupRow], randomBanded(rnd, k, 0).v)
	}
	block := func(r, c, b int) float64 {
		dot, ws, xs := 0, 0.0, 0.0
		for i := b * blockColumns; i < (b+1)*blockColumns; i++ {
			var q, v int
			q, ws = element(f, w[offs[c/rowsPerTile]:], i, c%rowsPerTile)
			v, xs = quantity(im, x[r*ldx:], i)
			dot += q * v
		}
		return float64(dot) * ws * xs
	}
	return &productTest{
		name: fmt.Sprintf("%s of %d", f, k), rows: rows, columns: columns, bias: randomBanded(rnd, columns, 1).v,
		run: func(first, m int, y []float32, ldy int, bias []float32) {
			im.dot[f][m](w, offs, ahead, n, x[first*ldx:][:(m-1)*ldx+n*groupRow], ldx, y, ldy, bias)
		},
		want: func(r, c int) (v, size float64) {
			return addProducts((k+blockColumns-1)/blockColumns, func(b int) float64 { return block(r, c, b) }, func(int) float64 { return 1 })
		},
		tolerance: epsilon * (3 + math.Sqrt(float64(n))),
	}
}

// TestDotsAreExact: the extremes of both operands, where 16-bit sums of products
// would overflow. With scales of one the result is the integer itself.
func TestDotsAreExact(t *testing.T) {
	for _, f := range blockFormats {
		t.Run(f.String(), func(t *testing.T) {
			eachDots(t, f, func(t *testing.T, im *impl) {
				rnd := newRand(9)
				for round := range 40 {
					testExact(t, im, f, extremeTile(rnd, f, round), extremeRow(rnd, round))
				}
			})
		})
	}
}

// exactColumns is the length of the rows of TestDotsAreExact.
const exactColumns = 512

// extremeTile has scales of one. Its weights are the least in round 0, the greatest in
// round 1, and then mostly ends of their range.
func extremeTile(rnd *rand.Rand, f Format, round int) []byte {
	w := make([]byte, f.tileBytes(exactColumns))
	for i := range w {
		switch round {
		case 0:
			w[i] = 0 // -128, -8
		case 1:
			w[i] = 255
		default:
			w[i] = []byte{0, 1, 127, 128, 129, 254, 255, byte(rnd.Uint32())}[rnd.IntN(8)]
		}
	}
	for g := range groups(exactColumns) {
		for i := range 2 * rowsPerTile {
			binary.LittleEndian.PutUint16(w[g*f.groupBytes()+2*i:], 0x3c00)
		}
	}
	return w
}

// extremeRow has 127 in each block, so that its unit is one.
func extremeRow(rnd *rand.Rand, round int) []float32 {
	x := make([]float32, exactColumns)
	for i := range x {
		x[i] = []float32{127, -127, 126, -126, 0, float32(rnd.IntN(255) - 127)}[min(round/2, rnd.IntN(6))]
		if i%blockColumns == 0 {
			x[i] = 127
		}
	}
	return x
}

func testExact(t *testing.T, im *impl, f Format, w []byte, x []float32) {
	t.Helper()
	var want [rowsPerTile]float32
	for r := range want {
		sum := 0
		for c, v := range x {
			q, _ := element(f, w, c, r)
			sum += q * int(v)
		}
		want[r] = float32(sum)
	}
	n := groups(len(x))
	row := make([]byte, n*groupRow)
	im.quantize(row, x)
	for m := 1; m < len(im.dot[f]); m++ {
		y := make([]float32, m*rowsPerTile)
		im.dot[f][m](w, []int{0}, []int{0}, n, row, 0, y, rowsPerTile, nil)
		for i, got := range y {
			if got != want[i%rowsPerTile] {
				t.Fatalf("row %d of %d: %v, not %v", i/rowsPerTile, m, got, want[i%rowsPerTile])
			}
		}
	}
}

// TestBlockDotsAtPageEnd: no operand is read beyond its end.
func TestBlockDotsAtPageEnd(t *testing.T) {
	for _, f := range blockFormats {
		eachDots(t, f, func(t *testing.T, im *impl) {
			for k := 1; k <= 130; k += 43 {
				im.quantize(beforeGuard(t, groups(k)*groupRow), guardedFloats(t, k))
				for m := 1; m < len(im.dot[f]); m++ {
					n := groups(k) * groupRow
					im.dot[f][m](beforeGuard(t, f.tileBytes(k)), []int{0}, []int{0}, groups(k), beforeGuard(t, m*n), n, guardedFloats(t, m*rowsPerTile), rowsPerTile, guardedFloats(t, rowsPerTile))
				}
			}
		})
	}
}

// TestLoadRefuses: what a block format cannot store is refused by the tensor's
// name.
func TestLoadRefuses(t *testing.T) {
	for f := Q8; f <= W8A8; f++ {
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e8} {
			d, err := Open(Config{Threads: 2, WeightType: f, KVType: BF16})
			if err != nil {
				t.Fatal(err)
			}
			w := tensor(newRand(1), weights.F32, 1, 20, 600)
			binary.LittleEndian.PutUint32(w.Data[4*(17*600+598):], math.Float32bits(bad))
			w.Name = "the.bad.one"
			_, err = d.Load(model.Matrix{Rows: []weights.Tensor{tensor(newRand(1), weights.BF16, 1, 5, 600), w}})
			if f == W8A8 && bad == 1e8 {
				if err != nil { // a float32 scale is enough for it
					t.Error(err)
				}
			} else if want := map[bool]error{true: ErrConfig, false: weights.ErrDamaged}[bad == 1e8]; !errors.Is(err, want) || !strings.Contains(err.Error(), `"the.bad.one"`) {
				t.Errorf("%v as %s: %v", bad, f, err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// FuzzPack: a matrix of any numbers is refused, or every weight lies where it
// belongs, close to what it was.
func FuzzPack(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 0x80, 0x3f, 0x80, 0xbf}, uint8(3), true)
	f.Add(bytes.Repeat([]byte{0xff, 0x3f, 0x12, 0xb0}, 200), uint8(33), false)
	f.Add(bytes.Repeat([]byte{0xff, 0x7f, 0, 0}, 20), uint8(65), false)
	f.Fuzz(func(t *testing.T, data []byte, width uint8, four bool) {
		k := int(width) + 1
		n := len(data) / 2 / k
		if n == 0 {
			return
		}
		format := Q8
		if four {
			format = Q4
		}
		src := weights.Tensor{Name: "w", DType: weights.BF16, Shape: []int{n, k}, Data: data[:2*n*k]}
		d, err := Open(Config{Threads: 1, WeightType: format, KVType: BF16})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		_, err = d.Load(model.Matrix{Rows: []weights.Tensor{src}})
		legal := true
		for i := range n * k {
			v := number(src.DType, src.Data, i)
			legal = legal && v >= -format.largest() && v <= format.largest()
		}
		if legal != (err == nil) {
			t.Fatalf("legal: %t, error: %v", legal, err)
		}
		if err != nil {
			return
		}
		m := &d.params[0].linear.parts[0]
		for i := range n * k {
			v := float64(number(src.DType, src.Data, i))
			q, scale := element(format, m.data[i/k/rowsPerTile*m.tile:], i%k, i/k%rowsPerTile)
			if d := math.Abs(float64(q)*scale - v); d > 1.02*max(math.Abs(scale), 0x1p-22) {
				t.Fatalf("%s: element %d is %d * %g for %g", format, i, q, scale, v)
			}
		}
	})
}

// TestQuantizedReference: a whole decoder with weights in blocks is close to the one
// with all bits; how close is what the format allows.
func TestQuantizedReference(t *testing.T) {
	for _, c := range []struct {
		f     Format
		limit float64
	}{{Q8, 5e-2}, {Q4, 0.5}, {W8A8, 8e-2}} {
		rnd := newRand(1)
		n := newNet(rnd, weights.BF16, 32)
		tokens := randomTokens(rnd, 60, n.vocab)
		want := n.reference(tokens)
		eachImpl(t, func(t *testing.T, im *impl) {
			t.Run(fmt.Sprint(c.f), func(t *testing.T) {
				r := newRunner(t, n, Config{Threads: 2, WeightType: c.f, KVType: F32, Impl: im.name}, testSpec)
				f := newFeeder(rnd, testSpec)
				f.add(&sequence{tokens: tokens}, len(tokens), true)
				var off, size float64
				for i, row := range f.run(t, r) {
					for v := range row {
						d := float64(row[v]) - want[i][v]
						off, size = off+d*d, size+want[i][v]*want[i][v]
					}
				}
				rel := math.Sqrt(off / size)
				t.Logf("relative error %.3g", rel)
				if !(rel < c.limit) {
					t.Errorf("relative error %.3g > %.3g", rel, c.limit)
				}
			})
		})
	}
}
