package cpu

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// halfFloatsOf are the places of the float16 numbers in a block of each type, and where else
// not every byte is legal.
var halfFloatsOf = map[weights.DType][]int{
	weights.Q8_0: {0}, weights.Q4_0: {0}, weights.Q4_1: {0, 2}, weights.Q5_0: {0}, weights.Q5_1: {0, 2},
	weights.Q2_K: {80, 82}, weights.Q3_K: {108}, weights.Q4_K: {0, 2}, weights.Q5_K: {0, 2}, weights.Q6_K: {208},
	weights.IQ4_NL: {0}, weights.IQ4_XS: {0}, weights.MXFP4: {}, weights.Q1_0: {0}, weights.Q2_0: {0}, weights.TQ1_0: {52}, weights.TQ2_0: {64},
	weights.IQ1_S: {0}, weights.IQ1_M: {}, weights.IQ2_XXS: {0}, weights.IQ2_XS: {0}, weights.IQ2_S: {0}, weights.IQ3_XXS: {0}, weights.IQ3_S: {0},
}

// blockTypes are the types whose codes are kept, which Widen defines.
func blockTypes(t testing.TB) []weights.DType {
	t.Helper()
	var list []weights.DType
	for d := weights.Q4_0; d.Blocked(); d++ {
		if blockFormatOf(d) == Auto {
			continue
		}
		if w := (weights.Tensor{DType: d}); !w.Widens() {
			t.Logf("%s is not tested: nothing says what its numbers are", d)
			continue
		}
		list = append(list, d)
	}
	return list
}

// randomBlocks is a matrix of blocks of any bits, with scales that are not too different.
func randomBlocks(rnd *rand.Rand, d weights.DType, n, k int) weights.Tensor {
	t := weights.Tensor{Name: d.String(), DType: d, Shape: []int{n, k}, Data: make([]byte, n*d.RowBytes(k))}
	for i := range t.Data {
		t.Data[i] = byte(rnd.Uint32())
	}
	_, size := d.Block()
	for at := 0; at < len(t.Data); at += size {
		for _, off := range halfFloatsOf[d] {
			binary.LittleEndian.PutUint16(t.Data[at+off:], toF16(float32(rnd.NormFloat64()*0.01)))
		}
		switch d {
		case weights.MXFP4:
			t.Data[at] = byte(118 + rnd.IntN(6))
		case weights.IQ1_M: // the exponent's highest bits are those of the scale's last quarter
			t.Data[at+55] &^= 0x40
		}
	}
	return t
}

// widenedRow is row r of t.
func widenedRow(t *weights.Tensor, r int) []float32 {
	v := make([]float32, t.Shape[1])
	t.Widen(v, r, 0)
	return v
}

// TestRepack: no number of a tensor of blocks changes while it is loaded, whatever its place
// in a tile, whether rows take turns, and however types are stacked. Memory is at most 1.15
// times what the file has, if the matrix fills its tiles.
func TestRepack(t *testing.T) {
	types := blockTypes(t)
	rnd := newRand(31)
	for i, d := range types {
		for _, k := range []int{256, 512, 1536} {
			if columns, _ := d.Block(); columns <= 64 {
				k -= columns
			}
			other := types[(i+1)%len(types)]
			rows := []weights.Tensor{randomBlocks(rnd, d, 20, k), randomBlocks(rnd, d, 12, k)}
			rows[0].Pairs = 10
			testRepack(t, rows)
			if columns, _ := other.Block(); k%columns == 0 {
				testRepack(t, append(rows, randomBlocks(rnd, other, 7, k), tensor(rnd, weights.F16, 1, 3, k)))
			}
		}
	}
}

func testRepack(t *testing.T, rows []weights.Tensor) {
	t.Helper()
	d, err := Open(Config{Threads: 2, KVType: BF16, Impl: "generic"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w, err := d.Load(model.Matrix{Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range d.params[w].linear.parts {
		size := 0
		for n := 0; n < m.n; rows = rows[1:] {
			for r := range rows[0].Shape[0] {
				sameBits(t, tileRow(&m, n+r), widenedRow(&rows[0], r), "%s, row %d", rows[0].DType, r)
			}
			n += rows[0].Shape[0]
			size += len(rows[0].Data)
		}
		wide := m.format == K8 || m.format == Q4 && size != len(m.data)
		if limit := 1.15; m.n%rowsPerTile == 0 && !wide && m.k >= 480 && float64(len(m.data)) > limit*float64(size) {
			t.Errorf("%s: %d bytes take %d", m.format, size, len(m.data))
		}
	}
}

// tileRow is row i of a matrix, as float32.
func tileRow(m *matrix, i int) []float32 {
	tile, v := m.data[i/rowsPerTile*m.tile:][:m.tile], make([]float32, m.k)
	s := m.format.expandable()
	var e expandedBlock
	for c := 0; c < m.k; c += blockColumns {
		if s == nil {
			for j := c; j < c+blockColumns; j++ {
				v[j] = tileColumn(m.format, tile, j)[i%rowsPerTile]
			}
			continue
		}
		s.expand(&e, tile, c/blockColumns)
		e.widen(s, v[c:c+blockColumns], i%rowsPerTile)
	}
	return v
}

// FuzzRepack: blocks of any bytes are refused, or every number is what Widen says.
func FuzzRepack(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5}, uint8(2))
	f.Add(bytes.Repeat([]byte{0x12, 0x3c, 0x7f, 0x80, 0xff}, 60), uint8(12))
	f.Add(bytes.Repeat([]byte{0x00, 0x7c}, 200), uint8(14))
	types := blockTypes(f)
	f.Fuzz(func(t *testing.T, data []byte, kind uint8) {
		d := types[int(kind)%len(types)]
		columns, size := d.Block()
		w := weights.Tensor{Name: "w", DType: d, Shape: []int{1, columns}, Data: make([]byte, size)}
		copy(w.Data, data)
		m := matrix{n: 1, k: columns, format: blockFormatOf(d)}
		m.tile = m.format.tileBytes(columns)
		m.data = make([]byte, m.tile)
		ok := true
		for k0 := 0; k0 < columns; k0 += packColumns {
			ok = ok && m.format.repack(m.data, 0, &w, 0, k0, min(k0+packColumns, columns))
		}
		want := widenedRow(&w, 0)
		for _, v := range want {
			if !finite(v) {
				if ok {
					t.Fatalf("%s: %v is accepted", d, v)
				}
				return
			}
		}
		if !ok {
			return // the scale of zeros may be infinite
		}
		for i, v := range tileRow(&m, 0) {
			if v != want[i] {
				t.Fatalf("%s: number %d is %v, not %v", d, i, v, want[i])
			}
		}
	})
}

// TestRepackRefuses: a scale that is infinite or NaN is refused with the tensor's name.
func TestRepackRefuses(t *testing.T) {
	for _, d := range blockTypes(t) {
		if d == weights.MXFP4 {
			continue
		}
		for _, off := range halfFloatsOf[d] {
			for _, bad := range []uint16{0x7c00, 0xfc00, 0x7e01} {
				w := randomBlocks(newRand(1), d, 20, 512)
				w.Name = "the.bad.one"
				_, size := d.Block()
				binary.LittleEndian.PutUint16(w.Data[len(w.Data)-size+off:], bad)
				checkRefused(t, w)
			}
		}
	}
}

func checkRefused(t *testing.T, w weights.Tensor) {
	t.Helper()
	d, err := Open(Config{Threads: 2, KVType: BF16})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if _, err = d.Load(model.Matrix{Rows: []weights.Tensor{w}}); !errors.Is(err, weights.ErrDamaged) || !strings.Contains(err.Error(), w.Name) {
		t.Errorf("%s: %v", w.DType, err)
	}
}

// TestFMA: rounded once. The cases where rounding twice would be wrong have sums that lie
// close to the middle between two float32.
func TestFMA(t *testing.T) {
	rnd := newRand(32)
	exact := func(a, b, c float32) float32 {
		float := func(v float32) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(float64(v)) }
		p := float(a)
		v, _ := p.Add(p.Mul(p, float(b)), float(c)).Float32()
		return v
	}
	for i := range 200000 {
		a, b := float32(rnd.NormFloat64()), float32(rnd.NormFloat64())
		c := float32(rnd.NormFloat64() * math.Ldexp(1, rnd.IntN(60)-30))
		if i%2 == 0 { // a*b is half a unit of c and a little more or less
			c = float32(1+rnd.IntN(1<<24)) * float32(1-2*rnd.IntN(2))
			a = float32(0.5 + 0x1p-24*float64(rnd.IntN(3)))
			b = float32(1 + math.Ldexp(float64(rnd.IntN(5)-2), -24))
		}
		if got, want := fma32(a, b, c), exact(a, b, c); got != want {
			t.Fatalf("fma(%v, %v, %v) = %v, not %v", a, b, c, got, want)
		}
	}
	inf := float32(math.Inf(1))
	if fma32(inf, 1, 3) != inf || fma32(2, 3, -inf) != -inf || !math.IsNaN(float64(fma32(inf, 0, 1))) || fma32(math.MaxFloat32, 2, 0) != inf {
		t.Error("infinities")
	}
}

// TestRoundSums: every implementation writes the bits of the definition.
func TestRoundSums(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		if im.blocks.round == nil {
			t.Skip("no kernel")
		}
		rnd := newRand(33)
		row, long := make([]byte, groups(100)*2*sumBlock), rowOfKind(rnd, 100, 0)
		if n := testing.AllocsPerRun(5, func() { im.blocks.round(row, long.v) }); n != 0 {
			t.Errorf("%v allocations per row", n)
		}
		for n := range 258 {
			for kind := range rowKinds {
				x := rowOfKind(rnd, n, kind)
				all, got := bandedBytes(groups(n)*2*sumBlock, n%8)
				im.blocks.round(got, x.v)
				x.intact(t)
				intactBytes(t, all, got)
				checkSums(t, im, got, x.v)
			}
		}
	})
}

// checkSums holds a rounded row against quantizeGeneric.
func checkSums(t *testing.T, im *impl, got []byte, x []float32) {
	t.Helper()
	plain := make([]byte, groups(len(x))*groupRow)
	quantizeGeneric(plain, x)
	for b := range 2 * groups(len(x)) {
		p, g := plain[b/2*groupRow:][:groupRow], got[b*sumBlock:][:sumBlock]
		scale := math.Float32frombits(word(p[8+b%2*4:]))
		var sums [4]int // of half i/2, and of columns 2*(i%2) and 2*(i%2)+1 of four
		for i := range blockColumns {
			q := p[16+b%2*32+i]
			if g[20+i] != q {
				t.Fatalf("row of %d: number %d of block %d", len(x), i, b)
			}
			sums[i/16*2+i%4/2] += int(int8(q))
		}
		sum := sums[0] + sums[1] + sums[2] + sums[3]
		value := float32(sum) * scale
		gotValue := math.Float32frombits(word(g[16:]))
		var want []byte
		if im.blocks.lanes {
			for _, v := range []int{-32 * sums[0], -32 * sums[1], -32 * sums[2], -32 * sums[3], -16 * (sums[0] + sums[2]), -16 * (sums[1] + sums[3])} {
				if v != int(int16(v)) {
					t.Fatalf("row of %d, block %d: 16 bits do not hold %d", len(x), b, v)
				}
				want = binary.LittleEndian.AppendUint16(want, uint16(v))
			}
		} else {
			for _, v := range []int{-128 * (sums[0] + sums[1]), -128 * (sums[2] + sums[3]), -128 * sum} {
				want = binary.LittleEndian.AppendUint32(want, uint32(v))
			}
		}
		if !bytes.Equal(g[:12], want) || !equalBits(math.Float32frombits(word(g[12:])), scale) || gotValue != value && (gotValue == gotValue || value == value) {
			t.Fatalf("row of %d, block %d: %v for sums %v of scale %v", len(x), b, g[:20], sums, scale)
		}
	}
}

// eachBlockFormat runs a test for every format of blocks and every tier with kernels for it.
func eachBlockFormat(t *testing.T, f func(t *testing.T, im *impl, format Format, s *blockSpec)) {
	t.Helper()
	for format := firstBlocks; format <= lastBlocks; format++ {
		t.Run(format.String(), func(t *testing.T) {
			eachImpl(t, func(t *testing.T, im *impl) {
				if !im.multiplies(format) {
					t.Skip("no kernels")
				}
				f(t, im, format, format.blocks())
			})
		})
	}
}

// randomUnits is a tile of any bits, its scales not too different. It ends where unreadable
// memory begins.
func randomUnits(t testing.TB, rnd *rand.Rand, s *blockSpec, units int) []byte {
	t.Helper()
	tile := beforeGuard(t, units*s.unitBytes())
	for i := range tile {
		tile[i] = byte(rnd.Uint32())
	}
	for u := range units {
		s.randomScales(rnd, tile[u*s.unitBytes():], u == 0)
	}
	return tile
}

// randomScales fills the header of a unit, with any exponents if it has exponents.
func (s *blockSpec) randomScales(rnd *rand.Rand, unit []byte, any bool) {
	half := func(at int) { binary.LittleEndian.PutUint16(unit[at:], toF16(float32(rnd.NormFloat64()))) }
	floats := s.factorsAt()
	switch s.source {
	case exponents:
		for i := range s.unit * rowsPerTile {
			unit[i] = byte(118 + rnd.IntN(6))
			if any {
				unit[i] = byte(rnd.IntN(maxExponent + 1))
			}
		}
		return
	case mantissas:
		for i := range rowsPerTile {
			binary.LittleEndian.PutUint32(unit[4*i:], math.Float32bits(float32(math.Abs(rnd.NormFloat64()))*0x1p-8+0x1p-20))
		}
		return
	case zeroPoints:
		for i := range s.unit * rowsPerTile {
			half(i/rowsPerTile*zeroRows + 2*(i%rowsPerTile))
		}
		return
	case halfFloats:
		floats = 2 * rowsPerTile * s.unit
		if s.mins() {
			floats *= 2
		}
	}
	for i := 0; i < floats; i += 2 {
		half(i)
	}
}

// blockRows are rows of activations, rounded by im and by the plain code.
func blockRows(t testing.TB, rnd *rand.Rand, im *impl, rows, k int) (got, plain []byte, ldx int) {
	t.Helper()
	ldx = groups(k) * 2 * sumBlock
	got, plain = beforeGuard(t, rows*ldx), make([]byte, rows*ldx)
	for r := range rows {
		x := rowOfKind(rnd, k, []int{0, 3, 0, 1}[r%4]).v
		im.blocks.round(got[r*ldx:][:ldx], x)
		generic().blocks.round(plain[r*ldx:][:ldx], x)
	}
	return got, plain, ldx
}

// TestBlockKernels: the kernels of every tier, for every number of rows, compute the bits of
// the plain code, and touch nothing else.
func TestBlockKernels(t *testing.T) {
	eachBlockFormat(t, func(t *testing.T, im *impl, f Format, s *blockSpec) {
		rnd := newRand(34)
		for units := 1; units <= 3; units++ {
			testBlockKernels(t, rnd, im, f, units)
		}
	})
}

func testBlockKernels(t *testing.T, rnd *rand.Rand, im *impl, f Format, units int) {
	t.Helper()
	s, kernels := f.blocks(), &im.blocks
	blocks := units * s.unit
	k := blocks * blockColumns
	tile := randomUnits(t, rnd, s, units)
	own, plain := beforeGuard(t, blocks*s.kind.size()), make([]byte, blocks*s.kind.size())
	s.expandGeneric(plain, tile, units)
	most := max(im.most(byBlocks, f), im.most(byExpanded, f))
	x, xPlain, ldx := blockRows(t, rnd, im, most, k)
	bias := guardedFloats(t, rowsPerTile)
	for i := range bias {
		bias[i] = float32(rnd.NormFloat64())
	}
	for _, bias := range [][]float32{nil, bias} {
		var want [][]float32
		for r := range most {
			y := make([]float32, rowsPerTile)
			s.kind.dotGeneric(1)(plain, 0, 0, blocks, xPlain[r*ldx:], ldx, y, 0, bias)
			want = append(want, y)
		}
		for m := 1; m <= im.most(byExpanded, f); m++ {
			kernels.expand[f-firstBlocks](own, tile, units)
			checkBlockRows(t, want, m, func(y []float32, ldy int) {
				kernels.dotExpanded[f-firstBlocks][m](own, math.MinInt/4, 13, blocks, x[:m*ldx], ldx, y, ldy, bias)
			})
		}
		for m := 1; m <= im.most(byBlocks, f); m++ {
			checkBlockRows(t, want, m, func(y []float32, ldy int) {
				kernels.dot[f-firstBlocks][m](tile, []int{0}, []int{math.MaxInt / 4}, units, x[:m*ldx], ldx, y, ldy, bias)
			})
		}
	}
}

// TestWidenTiles: every tier widens tiles to the bits of the plain code.
func TestWidenTiles(t *testing.T) {
	rnd := newRand(38)
	for f := Q8; f <= lastBlocks; f++ {
		s := f.expandable()
		if s == nil {
			continue
		}
		eachImpl(t, func(t *testing.T, im *impl) {
			for units := 1; units <= 3; units++ {
				tile := randomUnits(t, rnd, s, units)
				size := units * s.unitColumns() * codeLine
				got, want := beforeGuard(t, size), make([]byte, size)
				im.blocks.widen[f](got, tile, units)
				s.widenGeneric(want, tile, units)
				if !bytes.Equal(got, want) {
					t.Errorf("%s: %d units are widened to other numbers", f, units)
				}
			}
		})
	}
}

func checkBlockRows(t *testing.T, want [][]float32, m int, run func(y []float32, ldy int)) {
	t.Helper()
	for r, row := range resultRows(t, m, rowsPerTile, run) {
		for i := range row {
			if !equalBits(row[i], want[r][i]) && (row[i] == row[i] || want[r][i] == want[r][i]) {
				t.Fatalf("row %d of %d, column %d: %v, not %v", r, m, i, row[i], want[r][i])
			}
		}
	}
}

// TestBlockSums: the plain code itself, against double precision.
func TestBlockSums(t *testing.T) {
	rnd := newRand(35)
	for f := firstBlocks; f <= lastBlocks; f++ {
		s := f.blocks()
		k := 2 * s.unitColumns()
		tile := randomUnits(t, rnd, s, 2)
		if s.source == exponents {
			copy(tile, tile[s.unitBytes():])
		}
		m := matrix{n: rowsPerTile, k: k, format: f, tile: len(tile), data: tile}
		blocks := make([]byte, 2*s.unit*s.kind.size())
		s.expandGeneric(blocks, tile, 2)
		row, _, _ := blockRows(t, rnd, generic(), 1, k)
		y := make([]float32, rowsPerTile)
		s.kind.dotGeneric(1)(blocks, 0, 0, k/blockColumns, row, 0, y, 0, nil)
		wide := make([]byte, k*codeLine)
		s.widenGeneric(wide, tile, 2)
		for r := range y {
			w := tileRow(&m, r)
			want, size := addProducts(k, func(i int) float64 { return float64(w[i]) }, func(i int) float64 {
				return float64(int8(row[i/32*sumBlock+sumNumbers+i%32])) * float64(math.Float32frombits(word(row[i/32*sumBlock+sumScale:])))
			})
			near(t, y[r], want, size, 30*epsilon, "%s: row %d", f, r)
			for c, v := range w {
				if got := lineFloat(wide[c*codeLine:], r); !equalBits(got, v) {
					t.Fatalf("%s: row %d, column %d is widened to %v, not %v", f, r, c, got, v)
				}
			}
		}
	}
}

// TestBlockMatrices: whole products of stacked matrices of several types, with any number of
// rows and threads, are the same bits on every tier; as float32 they are those of the widened
// matrix.
func TestBlockMatrices(t *testing.T) {
	types := blockTypes(t)
	rnd := newRand(36)
	const k = 512
	var rows []weights.Tensor
	var bias []weights.Tensor
	n := 0
	for i, d := range types {
		rows = append(rows, randomBlocks(rnd, d, 21+i, k))
		bias = append(bias, tensor(rnd, weights.F32, 1, 21+i))
		n += 21 + i
	}
	m := model.Matrix{Rows: rows, Bias: bias}
	var wide model.Matrix
	wide.Bias = bias
	for i := range rows {
		w := weights.Tensor{Name: "wide", DType: weights.F32, Shape: rows[i].Shape}
		for r := range rows[i].Shape[0] {
			for _, v := range widenedRow(&rows[i], r) {
				w.Data = binary.LittleEndian.AppendUint32(w.Data, math.Float32bits(v))
			}
		}
		wide.Rows = append(wide.Rows, w)
	}
	const most = 40
	want := blockProduct(t, Config{Threads: 1, Impl: "generic"}, m, most, n, k)
	eachImpl(t, func(t *testing.T, im *impl) {
		exact := blockProduct(t, Config{Threads: 2, Impl: im.name, WeightType: F32}, wide, most, n, k)
		for _, count := range []int{1, 2, 3, 5, 12, 13, most} {
			if im.multiplies(firstBlocks) {
				// Q8 and Q4 do not promise the same bits on every tier.
				got := blockProduct(t, Config{Threads: 1 + count%2, Impl: im.name}, m, count, n, k)
				checkBlockProduct(t, got, want, types, fmt.Sprintf("%d rows", count))
			}
			got := blockProduct(t, Config{Threads: 2, Impl: im.name, WeightType: F32}, m, count, n, k)
			for r := range got {
				sameBits(t, got[r], exact[r], "as float32, row %d of %d", r, count)
			}
		}
	})
}

// checkBlockProduct compares what matrices of blocks computed. The columns of types that are
// stored as Q4 and Q8 are left out.
func checkBlockProduct(t *testing.T, got, want [][]float32, types []weights.DType, what string) {
	t.Helper()
	for r := range got {
		at := 0
		for i, d := range types {
			if blockFormatOf(d).blocks() != nil {
				sameBits(t, got[r][at:at+21+i], want[r][at:at+21+i], "%s: %s, row %d", what, d, r)
			}
			at += 21 + i
		}
	}
}

// blockProduct multiplies rows with a matrix.
func blockProduct(t *testing.T, cfg Config, m model.Matrix, rows, n, k int) [][]float32 {
	t.Helper()
	cfg.KVType = BF16
	spec := backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 2, MaxTokens: rows, MaxSeqs: rows, MaxSeqTokens: rows, Depth: 1}
	acts := []model.ActShape{{Width: k}, {Width: n}}
	d := openPlanned(t, cfg, model.Shape{KV: model.UniformKV(1, 1, 1, 16), Acts: acts, Spec: spec})
	w, err := d.Load(m)
	if err != nil {
		t.Fatal(err)
	}
	d.batch = &backend.Batch{Tokens: make([]int32, rows)}
	rnd := newRand(37)
	src, dst := model.Act{Width: k}, model.Act{Buf: 1, Width: n}
	for r := range rows {
		for i := range d.view(src).row(r) {
			d.view(src).row(r)[i] = float32(rnd.NormFloat64())
		}
	}
	d.MatMul(dst, w, src)
	var y [][]float32
	for r := range rows {
		y = append(y, append([]float32(nil), d.view(dst).row(r)...))
	}
	return y
}
