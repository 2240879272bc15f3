package cpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"weir/model"
	"weir/weights"
)

// packedCase is a matrix as a quantized checkpoint has it, and what becomes of it.
type packedCase struct {
	name   string
	layout weights.Layout
	bits   int
	group  int // columns; 0: all
	scales weights.DType
	zeros  bool
	zero   int32
	as     Format
	change func(t *weights.Tensor)
}

// tensor makes the matrix of random codes.
func (c *packedCase) tensor(rnd *rand.Rand, n, k int) weights.Tensor {
	group := c.group
	if group == 0 {
		group = k
	}
	groups := (k + group - 1) / group
	p := &weights.Packed{Layout: c.layout, Bits: c.bits, GroupRows: 1, GroupColumns: group, Zero: c.zero}
	t := weights.Tensor{Name: c.name, DType: weights.I32, Shape: []int{n, k}, Packed: p}
	words := func(n int) int { return (n*c.bits + 31) / 32 * 4 }
	zeros := 0
	switch c.layout {
	case weights.RowCodes:
		t.DType, t.Data, zeros = weights.I8, make([]byte, n*k), n*groups
	case weights.RowPairs:
		t.DType, t.Data = weights.F4, make([]byte, n*k/2)
	case weights.RowWords:
		t.Data, zeros = make([]byte, n*words(k)), words(n)*groups
	case weights.ColumnWords:
		t.Data, zeros, p.Transposed = make([]byte, n*words(k)), words(n)*groups, true
	case weights.AWQWords:
		t.Data, zeros, p.Transposed = make([]byte, n*k/2), n/2*groups, true
	}
	if c.zeros {
		p.Zeros = weights.Tensor{DType: weights.I32, Data: make([]byte, zeros)}
		if t.DType == weights.I8 {
			p.Zeros.DType = weights.I8
		}
	}
	for _, b := range [][]byte{t.Data, p.Zeros.Data} {
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
	}
	p.Scales = weights.Tensor{DType: c.scales, Shape: []int{n * groups}}
	for range n * groups {
		v := float32(rnd.NormFloat64()*0.01) + 0.05 // no bfloat16 that a float16 cannot hold
		switch c.scales {
		case weights.F32:
			p.Scales.Data = binary.LittleEndian.AppendUint32(p.Scales.Data, math.Float32bits(v))
		case weights.F16:
			p.Scales.Data = binary.LittleEndian.AppendUint16(p.Scales.Data, toF16(v))
		case weights.BF16:
			p.Scales.Data = binary.LittleEndian.AppendUint16(p.Scales.Data, toBF16(v))
		case weights.F8E4M3:
			p.Scales.Data = append(p.Scales.Data, byte(rnd.IntN(0x7f)))
		case weights.F8E8M0:
			p.Scales.Data = append(p.Scales.Data, byte(118+rnd.IntN(6)))
		}
	}
	if c.change != nil {
		c.change(&t)
	}
	return t
}

var packedCases = []packedCase{
	{"int4", weights.RowWords, 4, 32, weights.F16, false, 8, Q4, nil},
	{"int4 of GPTQ", weights.ColumnWords, 4, 128, weights.F16, false, 8, Q4, nil},
	{"int4 with a scale for each row", weights.RowWords, 4, 0, weights.BF16, false, 8, Q4, nil},
	{"int4 of GPTQ that says that it is symmetric", weights.ColumnWords, 4, 64, weights.F16, true, 1, Q4, func(t *weights.Tensor) {
		t.Packed.Symmetric = true
		for i := range t.Packed.Zeros.Data {
			t.Packed.Zeros.Data[i] = 0x77
		}
	}},
	{"int4 of GPTQ that wrongly says that it is symmetric", weights.ColumnWords, 4, 64, weights.F16, true, 1, I4Z, func(t *weights.Tensor) { t.Packed.Symmetric = true }},
	{"int3 with zero points", weights.RowWords, 3, 64, weights.F16, true, 0, Q4, nil},
	{"int2 of GPTQ with zero points", weights.ColumnWords, 2, 32, weights.F16, true, 1, Q4, nil},
	{"int6 with zero points", weights.RowWords, 6, 32, weights.F16, true, 0, Q8, nil},
	{"int8 in groups", weights.ColumnWords, 8, 32, weights.BF16, false, 128, Q8, nil},
	{"int8 with a scale for each row", weights.RowCodes, 8, 0, weights.F32, false, 0, W8A8, nil},
	{"int8 with one short scale for each row", weights.RowCodes, 8, 0, weights.F16, false, 0, Q8, nil},
	{"int8 for rows of int8", weights.RowCodes, 8, 0, weights.BF16, false, 0, W8A8, func(t *weights.Tensor) { t.Packed.Activations = weights.I8 }},
	{"int8 with one scale", weights.RowCodes, 8, 0, weights.F32, false, 0, W8A8, func(t *weights.Tensor) {
		t.Packed.GroupRows = t.Shape[0]
		t.Packed.Scales = weights.Tensor{DType: weights.F32, Shape: nil, Data: []byte{0, 0, 128, 60}}
	}},
	{"E2M1 with powers of two", weights.RowPairs, 4, 32, weights.F8E8M0, false, 0, MXFP4, nil},
	{"FP8 with a scale for each row", weights.RowCodes, 8, 0, weights.F32, false, 0, FP8, asFP8},
	{"FP8 in blocks of rows and columns", weights.RowCodes, 8, 128, weights.BF16, false, 0, FP8, func(t *weights.Tensor) {
		asFP8(t)
		p := t.Packed
		p.GroupRows = 24
		n := (t.Shape[0] + 23) / 24 * ((t.Shape[1] + 127) / 128)
		p.Scales.Shape, p.Scales.Data = []int{n}, p.Scales.Data[:2*n]
	}},
	{"int4 with zero points", weights.RowWords, 4, 32, weights.BF16, true, 0, I4Z, nil},
	{"int4 of GPTQ with zero points", weights.ColumnWords, 4, 64, weights.F16, true, 1, I4Z, nil},
	{"int4 of AWQ", weights.AWQWords, 4, 128, weights.F16, true, 0, I4Z, nil},
	{"int4 with another zero point", weights.RowWords, 4, 0, weights.F16, false, 7, I4Z, nil},
	{"int8 of GPTQ with zero points", weights.ColumnWords, 8, 32, weights.F16, true, 1, I8Z, nil},
	{"int8 with short scales and zero points", weights.RowCodes, 8, 0, weights.BF16, true, 0, I8Z, nil},
	{"columns out of order", weights.ColumnWords, 4, 32, weights.F16, false, 8, Q4, outOfOrder},
	{"columns out of order with zero points", weights.ColumnWords, 4, 64, weights.F16, true, 1, I4Z, outOfOrder},
	{"NVFP4", weights.RowPairs, 4, 16, weights.F8E4M3, false, 0, NVFP4, func(t *weights.Tensor) { t.Packed.Global = 0.0123 }},
	{"NVFP4 with a divisor", weights.RowPairs, 4, 16, weights.F8E4M3, false, 0, NVFP4, func(t *weights.Tensor) {
		t.Packed.Global, t.Packed.Divides = 321.7, true
	}},
	// No tiles hold these.
	{"NVFP4 with a negative scale", weights.RowPairs, 4, 16, weights.F8E4M3, false, 0, F32, func(t *weights.Tensor) { t.Packed.Scales.Data[3] = 0x81 }},
	{"FP8 in short groups", weights.RowCodes, 8, 32, weights.F32, false, 0, F32, asFP8},
	{"int4 in short groups", weights.RowWords, 4, 16, weights.F16, false, 8, F32, nil},
	{"int8 with zero points", weights.RowCodes, 8, 0, weights.F32, true, 0, F32, nil},
	{"int4 with long scales", weights.RowWords, 4, 32, weights.F32, false, 8, F32, nil},
	{"int4 with scales beyond float16", weights.RowWords, 4, 32, weights.BF16, false, 8, F32, func(t *weights.Tensor) { t.Packed.Scales.Data[21] = 0x20 }},
	{"columns in uneven groups", weights.ColumnWords, 4, 32, weights.F16, false, 8, F32, func(t *weights.Tensor) {
		outOfOrder(t)
		t.Packed.Order[1] = t.Packed.Order[0]
	}},
}

// outOfOrder puts the columns of t into groups as GPTQ's desc_act does.
func outOfOrder(t *weights.Tensor) {
	for k := range t.Shape[1] {
		t.Packed.Order = append(t.Packed.Order, int32(k*7%t.Shape[1])%int32(t.Groups()))
	}
}

// asFP8 makes the codes of t E4M3, without a NaN.
func asFP8(t *weights.Tensor) {
	t.DType = weights.F8E4M3
	for i, c := range t.Data {
		if c&0x7f == 0x7f {
			t.Data[i] = 0
		}
	}
}

// TestPackedTiles: no number of a quantized checkpoint changes while it is loaded, and it has
// the format that its header promises, but where its numbers contradict.
func TestPackedTiles(t *testing.T) {
	rnd := newRand(41)
	for _, c := range packedCases {
		for _, k := range []int{64, 96, 1024, 1056} {
			m := c.tensor(rnd, 48, k)
			if err := m.CheckSize(); err != nil {
				t.Fatal(err)
			}
			got := loadPacked(t, m)
			want := c.as
			if b := want.blocks(); b != nil && b.unit > 2 && k%b.unitColumns() != 0 {
				want = F32
			}
			if got.format != want {
				t.Errorf("%s with %d columns is stored as %s, not %s", c.name, k, got.format, want)
			}
			for r := range 48 {
				sameBits(t, unsignedZeros(packedTileRow(got, r)), unsignedZeros(widenedRow(&m, r)), "%s, row %d", c.name, r)
			}
		}
	}
}

// loadPacked is what a device makes of a matrix.
func loadPacked(t *testing.T, m weights.Tensor) *matrix {
	t.Helper()
	d, err := Open(Config{Threads: 2, KVType: BF16, Impl: "generic"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	w, err := d.Load(model.Matrix{Rows: []weights.Tensor{m}})
	if err != nil {
		t.Fatal(err)
	}
	return &d.params[w].linear.parts[0]
}

// packedTileRow is row i of a matrix whose rows may end within a block.
func packedTileRow(m *matrix, i int) []float32 {
	tile, v := m.data[i/rowsPerTile*m.tile:][:m.tile], make([]float32, (m.k+blockColumns-1)/blockColumns*blockColumns)
	s := m.format.expandable()
	var e expandedBlock
	var wide []byte
	if m.format == W8A8 {
		wide = make([]byte, groups(m.k)*groupColumns*codeLine)
		widenWhole(wide, tile, groups(m.k))
	}
	for c := 0; c < m.k; c++ {
		switch {
		case m.format == FP8:
			var column [rowsPerTile]float32
			fp8Column(&column, tile, c)
			v[c] = column[i%rowsPerTile]
		case wide != nil:
			v[c] = lineFloat(wide[c*codeLine:], i%rowsPerTile)
		case s == nil:
			v[c] = tileColumn(m.format, tile, c)[i%rowsPerTile]
		case c%blockColumns == 0:
			s.expand(&e, tile, c/blockColumns)
			e.widen(s, v[c:c+blockColumns], i%rowsPerTile)
		}
	}
	if m.order != nil {
		inOrder := make([]float32, m.k)
		for j, k := range m.order {
			inOrder[k] = v[j]
		}
		return inOrder
	}
	return v[:m.k]
}

// TestPackedProducts: with float32 activations, products are those of the numbers on every tier;
// otherwise they are near them.
func TestPackedProducts(t *testing.T) {
	rnd := newRand(42)
	for _, c := range packedCases {
		const n, rows = 48, 5
		k := 160
		if c.as.blocks() != nil {
			k = 256
		}
		m := c.tensor(rnd, n, k)
		wide := weights.Tensor{Name: "wide", DType: weights.F32, Shape: m.Shape}
		for r := range n {
			for _, v := range unsignedZeros(widenedRow(&m, r)) {
				wide.Data = binary.LittleEndian.AppendUint32(wide.Data, math.Float32bits(v))
			}
		}
		for _, im := range impls {
			product := func(w weights.Tensor, as Format) [][]float32 {
				return blockProduct(t, Config{Threads: 2, Impl: im.name, WeightType: as}, model.Matrix{Rows: []weights.Tensor{w}}, rows, n, k)
			}
			want, exact, rounded := product(wide, F32), product(m, F32), product(m, Auto)
			var off, size float64
			for r := range want {
				sameBits(t, exact[r], want[r], "%s, %s, row %d", im.name, c.name, r)
				for i, v := range want[r] {
					off, size = off+math.Pow(float64(rounded[r][i]-v), 2), size+math.Pow(float64(v), 2)
				}
			}
			if limit := 0.02; !(math.Sqrt(off/size) <= limit) {
				t.Errorf("%s, %s: rounded activations change the products by %.2g", im.name, c.name, math.Sqrt(off/size))
			}
		}
	}
}

// unsignedZeros are the numbers v, in which zeros have no sign, as integers have none.
func unsignedZeros(v []float32) []float32 {
	for i := range v {
		v[i] += 0
	}
	return v
}

// TestPackedRefusesScales: a scale that is infinite or NaN is refused with the tensor's name.
func TestPackedRefusesScales(t *testing.T) {
	rnd := newRand(43)
	for _, c := range packedCases {
		w := c.tensor(rnd, 16, 64)
		last := w.Packed.Scales.Data[len(w.Packed.Scales.Data)-w.Packed.Scales.DType.Size():]
		for i := range last {
			last[i] = 0xff
		}
		checkRefused(t, w)
	}
}
