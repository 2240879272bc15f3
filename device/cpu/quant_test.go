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
	"unsafe"

	"weir/model"
	"weir/weights"
)

// blockFormats are the formats of impl.dot.
var blockFormats = []Format{Q8, Q4}

// eachDots runs a test once for every set of products of block formats.
func eachDots(t *testing.T, f func(t *testing.T, im *impl)) {
	eachImpl(t, func(t *testing.T, im *impl) {
		if im.narrow != nil {
			t.Skip("those of the next tier")
		}
		f(t, im)
	})
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
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	special := []float32{0, 1, -1, math.MaxFloat32, -math.MaxFloat32, inf, -inf, nan, math.SmallestNonzeroFloat32, leastScaled, -leastScaled, math.Nextafter32(leastScaled, 0), 127, -127, 126.5, 63.5, 64.5}
	eachImpl(t, func(t *testing.T, im *impl) {
		rnd := newRand(5)
		for n := range 258 {
			for kind := range 4 {
				x := randomBanded(rnd, n, n%4)
				for i := range x.v {
					switch kind {
					case 1:
						x.v[i] *= float32(math.Ldexp(1, rnd.IntN(200)-100))
					case 2:
						if rnd.IntN(20) == 0 {
							x.v[i] = special[rnd.IntN(len(special))]
						}
					case 3: // halves of units
						x.v[i] = float32(rnd.IntN(509)-254) / 2
					}
				}
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
			sum, top, size := 0, 0, 0.0
			for i := range blockColumns {
				q, _ := quantity(plain(), row, b*blockColumns+i)
				sum, top = sum+q, max(top, q, -q)
				if c := b*blockColumns + i; c < n {
					size = max(size, math.Abs(float64(x[c])))
				}
			}
			for i := range blockColumns {
				q, scale := quantity(plain(), row, b*blockColumns+i)
				if c := b*blockColumns + i; c >= n {
					if q != 0 {
						t.Fatalf("row of %d: column %d is %d", n, c, q)
					}
				} else if d := math.Abs(float64(q)*scale - float64(x[c])); d > scale*0.50001 {
					t.Fatalf("row of %d: column %d is %d * %g for %g", n, c, q, scale, x[c])
				}
			}
			if size > 0 && (top < 64 || top > 127) || size == 0 && top != 0 {
				t.Fatalf("row of %d, block %d: the greatest number is %d", n, b, top)
			}
			if _, scale := quantity(plain(), row, b*blockColumns); size > 0 && (math.Exp2(math.Round(math.Log2(scale))) != scale || scale*largestUnits < size*0.99999) {
				t.Fatalf("row of %d, block %d: a scale of %g for numbers up to %g", n, b, scale, size)
			}
			if got := int32(binary.LittleEndian.Uint32(row[b/2*groupRow+b%2*4:])); int(got) != -128*sum {
				t.Fatalf("row of %d, block %d: start %d for a sum of %d", n, b, got, sum)
			}
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
				tile := make([]byte, f.tileBytes(n))
				r := rnd.IntN(rowsPerTile)
				for b := 0; b*blockColumns < n; b++ {
					f.packBlock(tile, b, r, w[b*blockColumns:min(n, (b+1)*blockColumns)])
				}
				for c, v := range w {
					top := 0.0
					for _, v := range w[c/32*32 : min(n, c/32*32+32)] {
						top = max(top, math.Abs(float64(v)))
					}
					q, scale := element(f, tile, c, r)
					unit := max(math.Abs(scale), 0x1p-24)
					limit := 0.5 * unit
					if f == Q4 {
						limit = unit // 8 units of the other sign do not exist; nor does a scale below 2^-24
					}
					if d := math.Abs(float64(q)*scale - float64(v)); d > limit*1.02+8*0x1p-25 {
						t.Fatalf("%s: %g of at most %g is stored as %d * %g", f, v, top, q, scale)
					}
				}
			}
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

// TestBlockDots: every implementation, block format and number of rows, for all
// lengths up to 257, against the definition: exact integers, then double
// precision. Results of one row never depend on the number of rows; nothing
// outside the operands is read or written.
func TestBlockDots(t *testing.T) {
	eachDots(t, func(t *testing.T, im *impl) {
		for _, f := range blockFormats {
			t.Run(f.String(), func(t *testing.T) {
				rnd := newRand(8)
				for k := range 258 {
					testDot(t, rnd, im, f, k)
				}
			})
		}
	})
}

func testDot(t *testing.T, rnd *rand.Rand, im *impl, f Format, k int) {
	const tiles, columns = 2, 2 * rowsPerTile
	n, size, rows := groups(k), f.tileBytes(k), len(im.dot[f])-1
	_, w := bandedBytes(2*size+64, k%8)
	offs, ahead := []int{size + 64, 0}, []int{math.MinInt / 4, math.MaxInt / 4}
	for _, off := range offs {
		randomTile(rnd, f, k, w[off:])
	}
	bias := randomBanded(rnd, columns, 1)
	ldx, ldy := n*groupRow+16, columns+5
	_, x := bandedBytes(rows*ldx, k%8)
	for r := range rows {
		im.quantize(x[r*ldx:][:n*groupRow], randomBanded(rnd, k, 0).v)
	}
	alone := make([][]float32, rows)
	for r := range alone {
		y := newBanded(columns, r%4)
		im.dot[f][1](w, offs, ahead, n, x[r*ldx:], ldx, y.v, ldy, nil)
		y.intact(t)
		alone[r] = y.v
		for c, got := range y.v {
			want, sum := 0.0, 0.0
			for b := 0; b*blockColumns < k; b++ {
				dot, ws, xs := 0, 0.0, 0.0
				for i := b * blockColumns; i < (b+1)*blockColumns; i++ {
					var q, v int
					q, ws = element(f, w[offs[c/rowsPerTile]:], i, c%rowsPerTile)
					v, xs = quantity(im, x[r*ldx:], i)
					dot += q * v
				}
				want, sum = want+float64(dot)*ws*xs, sum+math.Abs(float64(dot)*ws*xs)
			}
			near(t, got, want, sum, epsilon*(3+math.Sqrt(float64(n))), "%s: k %d, row %d, column %d", f, k, r, c)
		}
	}
	for m := 1; m <= rows; m++ {
		for _, b := range [][]float32{nil, bias.v} {
			y := newBanded((m-1)*ldy+columns, m%4)
			im.dot[f][m](w, offs, ahead, n, x[:(m-1)*ldx+n*groupRow], ldx, y.v, ldy, b)
			y.intact(t)
			for r := range m {
				for c := range min(ldy, len(y.v)-r*ldy) {
					got := y.v[r*ldy+c]
					if c >= columns {
						if !isMark(got) {
							t.Fatalf("%s: k %d, %d rows: a write between rows", f, k, m)
						}
						continue
					}
					want := alone[r][c]
					if b != nil {
						want += b[c]
					}
					if math.Float32bits(got) != math.Float32bits(want) {
						t.Fatalf("%s: k %d, row %d of %d, bias %t: %v, alone %v", f, k, r, m, b != nil, got, want)
					}
				}
			}
		}
	}
}

// TestDotsAreExact: the extremes of both operands, where 16-bit sums of products
// would overflow. With scales of one the result is the integer itself.
func TestDotsAreExact(t *testing.T) {
	const k = 512
	eachDots(t, func(t *testing.T, im *impl) {
		for _, f := range blockFormats {
			rnd := newRand(9)
			for round := range 40 {
				w := make([]byte, f.tileBytes(k))
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
				for g := range groups(k) {
					for i := range 2 * rowsPerTile {
						binary.LittleEndian.PutUint16(w[g*f.groupBytes()+2*i:], 0x3c00)
					}
				}
				x := make([]float32, k)
				for i := range x {
					x[i] = []float32{127, -127, 126, -126, 0, float32(rnd.IntN(255) - 127)}[min(round/2, rnd.IntN(6))]
					if i%blockColumns == 0 {
						x[i] = 127 // the unit is one
					}
				}
				row := make([]byte, groups(k)*groupRow)
				im.quantize(row, x)
				for m := 1; m < len(im.dot[f]); m++ {
					y := make([]float32, m*rowsPerTile)
					im.dot[f][m](w, []int{0}, []int{0}, groups(k), row, 0, y, rowsPerTile, nil)
					for i, got := range y {
						want := 0
						for c, v := range x {
							q, _ := element(f, w, c, i%rowsPerTile)
							want += q * int(v)
						}
						if got != float32(want) {
							t.Fatalf("%s, round %d, %d rows: %v, not %d", f, round, m, got, want)
						}
					}
				}
			}
		}
	})
}

// TestBlockDotsAtPageEnd: no operand is read behind its end.
func TestBlockDotsAtPageEnd(t *testing.T) {
	floats := func(n int) []float32 {
		return unsafe.Slice((*float32)(unsafe.Pointer(&beforeGuard(t, n*4)[0])), n)
	}
	eachDots(t, func(t *testing.T, im *impl) {
		for k := 1; k <= 130; k += 43 {
			im.quantize(beforeGuard(t, groups(k)*groupRow), floats(k))
			for _, f := range blockFormats {
				for m := 1; m < len(im.dot[f]); m++ {
					n := groups(k) * groupRow
					im.dot[f][m](beforeGuard(t, f.tileBytes(k)), []int{0}, []int{0}, groups(k), beforeGuard(t, m*n), n, floats(m*rowsPerTile), rowsPerTile, floats(rowsPerTile))
				}
			}
		}
	})
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
			} else if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), `"the.bad.one"`) || !strings.Contains(err.Error(), f.String()) {
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
		m := &d.params[0].mat
		for i := range n * k {
			v := float64(number(src.DType, src.Data, i))
			q, scale := element(format, m.data[i/k/rowsPerTile*m.tile:], i%k, i/k%rowsPerTile)
			if d := math.Abs(float64(q)*scale - v); d > 1.02*max(math.Abs(scale), 0x1p-22) {
				t.Fatalf("%s: element %d is %d * %g for %g", format, i, q, scale, v)
			}
		}
	})
}

// TestQuantizedTwin: a whole decoder with weights in blocks is close to the one
// with all bits; how close is what the format allows.
func TestQuantizedTwin(t *testing.T) {
	for _, c := range []struct {
		f     Format
		limit float64
	}{{Q8, 5e-2}, {Q4, 0.5}, {W8A8, 8e-2}} {
		rnd := newRand(1)
		n := newNet(rnd, weights.BF16, 32)
		tokens := randomTokens(rnd, 60, n.vocab)
		want := n.twin(tokens)
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
