package cpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// TestPairs: products by pairs have the bits of impl.dot, for every number of rows, with any
// weights and rows, with and without bias, where a tile is prepared in several parts, and
// where the matrix ends within a tile.
func TestPairs(t *testing.T) {
	eachPairs(t, func(t *testing.T, im *impl) {
		rnd := newRand(31)
		for _, k := range []int{1, 33, 64, 130, pairColumns, pairColumns + 1, 2*pairColumns + 70} {
			for kind := range rowKinds {
				p := newPairTest(rnd, im, k, 11, func(r int) []float32 { return rowOfKind(rnd, k, kind).v })
				for n := 1; n <= p.rows; n++ {
					p.check(t, n)
				}
			}
		}
	})
}

// TestPairsAreExact: the ends of the ranges of both operands.
func TestPairsAreExact(t *testing.T) {
	eachPairs(t, func(t *testing.T, im *impl) {
		rnd := newRand(32)
		for round := range 40 {
			p := newPairTest(rnd, im, exactColumns, 5, func(int) []float32 { return extremeRow(rnd, round) })
			p.m.bias = nil
			for u := range 2 {
				copy(p.m.data[u*p.m.tile:], extremeTile(rnd, Q8, round))
			}
			p.check(t, p.rows)
			for r := range p.rows {
				row := p.j.q[r*p.j.ldq:]
				for c := range p.m.n {
					sum := 0
					for i := range exactColumns {
						w, _ := element(Q8, p.m.data[c/rowsPerTile*p.m.tile:], i, c%rowsPerTile)
						x, _ := quantity(im, row, i)
						sum += w * x
					}
					if got := p.y[r*p.ldy+c]; got != float32(sum) {
						t.Fatalf("round %d, row %d, column %d: %v, not %d", round, r, c, got, sum)
					}
				}
			}
		}
	})
}

// TestPairScales: scales of rows at which the second number of a row would be infinite, and
// those that are infinite themselves, are not multiplied by pairs, and all others are.
func TestPairScales(t *testing.T) {
	eachPairs(t, func(t *testing.T, im *impl) {
		rnd := newRand(33)
		for _, c := range []struct {
			largest float64
			fits    bool
		}{
			{0, true}, {0x1p-120, true}, {0x1p-90, true}, {1, true}, {0x1p108, true}, {0x1p111, false}, {math.MaxFloat32, false}, {math.Inf(1), false}, {math.NaN(), false},
		} {
			p := newPairTest(rnd, im, 70, 6, func(r int) []float32 {
				x := randomBanded(rnd, 70, 0).v
				if r == 4 {
					clear(x)
					x[69] = float32(c.largest)
				}
				return x
			})
			if got := p.j.preparePairs(&p.sc.pairs, 0, 6); got != c.fits {
				t.Errorf("rows up to %g: %t", c.largest, got)
			}
			p.check(t, p.rows)
		}
	})
}

// TestPairProducts: whole products give a row the same bits alone and among others, also where
// one of them has a scale that is not multiplied by pairs.
func TestPairProducts(t *testing.T) {
	for _, d := range []weights.DType{weights.Q8_0, weights.IQ4_NL, weights.IQ4_XS} {
		eachPairs(t, func(t *testing.T, im *impl) {
			for _, largest := range []float32{1, 0x1p112} {
				testPairProducts(t, im, d, largest)
			}
		})
	}
}

func testPairProducts(t *testing.T, im *impl, dtype weights.DType, largest float32) {
	t.Helper()
	const rows, n, k = 30, 3*rowsPerTile - 2, 768
	rnd := newRand(34)
	spec := backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 2, MaxTokens: rows, MaxSeqs: rows, MaxSeqTokens: rows, Depth: 1}
	acts := []model.ActShape{{Width: k}, {Width: n}}
	d := openPlanned(t, Config{Threads: 2, KVType: BF16, Impl: im.name}, model.Shape{KV: model.UniformKV(1, 1, 1, 16), Acts: acts, Spec: spec})
	w, err := d.Load(model.Matrix{Rows: []weights.Tensor{randomBlocks(rnd, dtype, n, k)}})
	if err != nil {
		t.Fatal(err)
	}
	src, dst := model.Act{Width: k}, model.Act{Buf: 1, Width: n}
	product := func(x [][]float32) [][]float32 { return productOf(d, w, dst, src, x) }
	var x, alone [][]float32
	for range rows {
		x = append(x, randomBanded(rnd, k, 0).v)
	}
	x[rows-1][k/2] = largest
	for r := range rows {
		alone = append(alone, product(x[r : r+1])[0])
	}
	for count := 1; count <= rows; count++ {
		for r, row := range product(x[rows-count:]) {
			sameBits(t, row, alone[rows-count+r], "%s, row %d of %d, up to %g", dtype, r, count, largest)
		}
	}
}

// eachPairs runs a test for every tier that multiplies by pairs.
func eachPairs(t *testing.T, f func(t *testing.T, im *impl)) {
	t.Helper()
	eachKernel(t, func(im *impl) uintptr {
		if im.pairs.dot == nil {
			return 0
		}
		return kernel(im.pairs.dot[1])
	}, f)
}

// pairTest is a product of rows with a matrix of two tiles, of which the second is not full.
type pairTest struct {
	j    productJob
	m    matrix
	sc   scratch
	rows int
	y    []float32 // [rows, ldy] the last results
	ldy  int
}

func newPairTest(rnd *rand.Rand, im *impl, k, rows int, row func(r int) []float32) *pairTest {
	p := &pairTest{rows: rows, ldy: 2*rowsPerTile + 3}
	p.m = matrix{n: 2*rowsPerTile - 5, k: k, format: Q8, tile: Q8.tileBytes(k), bias: randomBanded(rnd, 2*rowsPerTile, 1).v}
	p.m.data = make([]byte, 2*p.m.tile)
	for u := range 2 {
		randomTile(rnd, Q8, k, p.m.data[u*p.m.tile:])
	}
	p.j = productJob{product: 1, d: &Device{impl: im}, m: &p.m, ldq: groups(k)*groupRow + 16}
	p.j.q = make([]byte, rows*p.j.ldq)
	for r := range rows {
		im.quantize(p.j.q[r*p.j.ldq:][:groups(k)*groupRow], row(r))
	}
	p.sc.pairs = pairScratch{weights: make([]byte, pairColumns/blockColumns*pairBlock), rows: make([]byte, rows*2*groups(k)*pairRow), edge: make([]float32, rows*rowsPerTile)}
	return p
}

// check compares n rows with impl.dot's.
func (p *pairTest) check(t *testing.T, n int) {
	t.Helper()
	y := newBanded((n-1)*p.ldy+p.m.n, n%4)
	p.y = y.v
	p.j.product++
	if !p.j.preparePairs(&p.sc.pairs, 0, n) {
		return
	}
	for tile := range 2 {
		p.j.multiplyPairs(&p.sc, tile, 1, n, view{y.v[tile*rowsPerTile:], p.m.n - tile*rowsPerTile, p.ldy})
	}
	y.intact(t)
	im, want := p.j.d.impl, make([]float32, 2*rowsPerTile)
	for r := range n {
		row := p.j.q[r*p.j.ldq:][:groups(p.m.k)*groupRow]
		im.dot[Q8][1](p.m.data, []int{0, p.m.tile}, []int{0, 0}, groups(p.m.k), row, 0, want, len(want), p.m.bias)
		sameBits(t, y.v[r*p.ldy:][:p.m.n], want[:p.m.n], "row %d of %d, %d columns", r, n, p.m.k)
		if r+1 < n {
			for _, v := range y.v[r*p.ldy+p.m.n:][:p.ldy-p.m.n] {
				if !isMark(v) {
					t.Fatalf("%d rows: a write between rows", n)
				}
			}
		}
	}
}

// TestPairsAtPageEnd: no operand is read beyond its end.
func TestPairsAtPageEnd(t *testing.T) {
	eachPairs(t, func(t *testing.T, im *impl) {
		for groups := 1; groups <= 3; groups++ {
			k := &im.pairs
			w, tile := beforeGuard(t, 2*groups*pairBlock), beforeGuard(t, groups*Q8.groupBytes())
			k.expand(w, tile, groups)
			row := beforeGuard(t, groups*groupRow)
			for i := 8; i < len(row); i += groupRow {
				binary.LittleEndian.PutUint32(row[i:], math.Float32bits(1))
			}
			size := 2 * groups * pairRow
			for m := 1; m < len(k.dot); m++ {
				x := beforeGuard(t, 2*m*size)
				for r := range 2 * m {
					if got := k.round(x[r*size:][:size], row, groups); got != math.Float32bits(1) {
						t.Fatalf("the greatest scale is %#x", got)
					}
				}
				k.dot[m](w, 2*groups, x, size, 2, guardedFloats(t, 2*m*rowsPerTile), rowsPerTile, guardedFloats(t, rowsPerTile), 1, 0)
			}
		}
	})
}
