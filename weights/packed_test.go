package weights

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// plainMatrix is a matrix with everything that Packed describes, number by number.
type plainMatrix struct {
	codes  [][]int     // [N][K]
	zeros  [][]int     // [N][groups]
	scales [][]float64 // [N][groups]
	order  []int       // [K] the group of a column
}

// want is the number at n, k.
func (m *plainMatrix) want(value func(code int) float64, n, k int) float32 {
	g := m.order[k]
	return float32((value(m.codes[n][k]) - float64(m.zeros[n][g])) * m.scales[n][g])
}

// bitString writes fields of so many bits one after another, and fills the last word with zeros.
func bitString(fields []int, bits int) []uint32 {
	text := ""
	for _, f := range fields {
		for i := range bits {
			text += fmt.Sprint(f >> i & 1)
		}
	}
	text += strings.Repeat("0", (32-len(text)%32)%32)
	var words []uint32
	for ; text != ""; text = text[32:] {
		w := uint32(0)
		for i, c := range text[:32] {
			w |= uint32(c-'0') << i
		}
		words = append(words, w)
	}
	return words
}

// transpose turns rows into columns.
func transpose[T any](m [][]T) [][]T {
	out := make([][]T, len(m[0]))
	for i := range out {
		for _, row := range m {
			out[i] = append(out[i], row[i])
		}
	}
	return out
}

func wordBytes(rows [][]uint32) []byte {
	var b []byte
	for _, w := range slices.Concat(rows...) {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

func eachRow(m [][]int, bits int) [][]uint32 {
	var out [][]uint32
	for _, row := range m {
		out = append(out, bitString(row, bits))
	}
	return out
}

// awqOrder puts each 8 numbers of a row into the order of AWQ.
func awqOrder(m [][]int) [][]int {
	var out [][]int
	for _, row := range m {
		var to []int
		for i := 0; i < len(row); i += 8 {
			for _, j := range []int{0, 2, 4, 6, 1, 3, 5, 7} {
				to = append(to, row[i+j])
			}
		}
		out = append(out, to)
	}
	return out
}

// randomPacked makes a matrix of integers in one of the layouts, and its numbers.
func randomPacked(rng *rand.Rand, layout Layout, bits int) (Tensor, plainMatrix) {
	n, k, size := 1+rng.IntN(40), 1+rng.IntN(70), 1+rng.IntN(20)
	if layout == AWQWords {
		n, bits = (n+7)/8*8, 4
	}
	groups := ceil(k, size)
	m := plainMatrix{}
	for range n {
		m.codes = append(m.codes, randomInts(rng, k, 1<<bits))
		m.zeros = append(m.zeros, randomInts(rng, groups, 1<<bits))
		scales := make([]float64, groups)
		for g := range scales {
			scales[g] = float64(rng.Float32()-0.5) * 8
		}
		m.scales = append(m.scales, scales)
	}
	p := &Packed{Layout: layout, Bits: bits, GroupRows: 1, GroupColumns: size}
	for i := range k {
		m.order = append(m.order, i/size)
	}
	if rng.IntN(2) == 0 {
		m.order = randomInts(rng, k, groups)
		for _, g := range m.order {
			p.Order = append(p.Order, int32(g))
		}
	}
	t := Tensor{Name: "w", DType: I32, Shape: []int{n, k}, Packed: p}
	scales := m.scales
	p.Zeros.DType = I32
	switch layout {
	case RowWords:
		t.Data = wordBytes(eachRow(m.codes, bits))
		p.Zeros.Data = wordBytes(transpose(eachRow(transpose(m.zeros), bits)))
	case ColumnWords:
		t.Data = wordBytes(transpose(eachRow(m.codes, bits)))
		p.Zeros.Data = wordBytes(eachRow(transpose(m.zeros), bits))
		p.Transposed, scales = true, transpose(scales)
	case AWQWords:
		t.Data = wordBytes(eachRow(awqOrder(transpose(m.codes)), bits))
		p.Zeros.Data = wordBytes(eachRow(awqOrder(transpose(m.zeros)), bits))
		p.Transposed, scales = true, transpose(scales)
	}
	p.Scales = float32s(slices.Concat(scales...))
	return t, m
}

func randomInts(rng *rand.Rand, n, below int) []int {
	v := make([]int, n)
	for i := range v {
		v[i] = rng.IntN(below)
	}
	return v
}

func float32s(v []float64) Tensor {
	t := Tensor{Name: "s", DType: F32, Shape: []int{len(v)}}
	for _, x := range v {
		t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(float32(x)))
	}
	return t
}

// TestPackedWords: codes, zero points and numbers of all layouts of words equal those of a
// matrix that is not packed, whatever the width of a code and wherever a reader begins.
func TestPackedWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, layout := range []Layout{RowWords, ColumnWords, AWQWords} {
		for bits := 1; bits <= 8; bits++ {
			for range 20 {
				w, m := randomPacked(rng, layout, bits)
				if err := w.CheckSize(); err != nil {
					t.Fatal(err)
				}
				comparePacked(t, rng, &w, &m, func(code int) float64 { return float64(code) })
			}
		}
	}
}

func comparePacked(t *testing.T, rng *rand.Rand, w *Tensor, m *plainMatrix, value func(int) float64) {
	t.Helper()
	for n := range w.Shape[0] {
		k0 := rng.IntN(w.Shape[1])
		codes, numbers := make([]uint8, w.Shape[1]-k0), make([]float32, w.Shape[1]-k0)
		w.Codes(codes, n, k0)
		w.Widen(numbers, n, k0)
		for i := range codes {
			k := k0 + i
			g := w.Group(k)
			if g != m.order[k] || int(codes[i]) != m.codes[n][k] || int(w.GroupZero(n, g)) != m.zeros[n][g] || w.GroupScale(n, g) != float32(m.scales[n][g]) {
				t.Fatalf("layout %d, %d bits, shape %d: row %d, column %d: group %d, code %d, zero point %d, scale %v; want %d, %d, %d, %v", w.Packed.Layout, w.Packed.Bits,
					w.Shape, n, k, g, codes[i], w.GroupZero(n, g), w.GroupScale(n, g), m.order[k], m.codes[n][k], m.zeros[n][g], m.scales[n][g])
			}
			if want := m.want(value, n, k); math.Float32bits(numbers[i]) != math.Float32bits(want) {
				t.Fatalf("layout %d, %d bits: number %d, %d is %v, not %v", w.Packed.Layout, w.Packed.Bits, n, k, numbers[i], want)
			}
		}
	}
}

// TestPackedZeros: GPTQ stores zero points less one; the one is taken from whole words, so that
// a zero point of 0 borrows from its neighbour.
func TestPackedZeros(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, bits := range []int{2, 3, 4, 8} {
		w, m := randomPacked(rng, ColumnWords, bits)
		z := w.Packed.Zeros.Data
		if 32%bits == 0 {
			for i := 0; i < len(z); i += 4 {
				binary.LittleEndian.PutUint32(z[i:], binary.LittleEndian.Uint32(z[i:])-math.MaxUint32/(1<<bits-1))
			}
		} else {
			for _, row := range m.zeros {
				for g := range row {
					row[g] = (row[g] + 1) % (1 << bits)
				}
			}
		}
		w.Packed.Zero = 1
		comparePacked(t, rng, &w, &m, func(code int) float64 { return float64(code) })
	}
}

// TestPackedBytes: 8-bit codes with a scale for a block of rows and columns, and integers with
// zero points of a byte.
func TestPackedBytes(t *testing.T) {
	w := Tensor{Name: "w", DType: F8E4M3, Shape: []int{3, 5}, Packed: &Packed{
		Layout: RowCodes, Bits: 8, GroupRows: 2, GroupColumns: 3, Scales: float32s([]float64{1, 2, 3, 4}), Global: 0.5,
	}}
	w.Data = []byte{0x38, 0x40, 0xb8, 0x01, 0x7e, 0, 0, 0, 0, 0, 0x38, 0x38, 0x38, 0x38, 0x38}
	want := [][]float32{{0.5, 1, -0.5, 0x1p-9, 448}, {0, 0, 0, 0, 0}, {1.5, 1.5, 1.5, 2, 2}}
	compareRows(t, &w, want)
	w.Packed.Divides = true
	compareRows(t, &w, [][]float32{{2, 4, -2, 0x1p-7, 1792}})

	w = Tensor{Name: "w", DType: I8, Shape: []int{2, 2}, Data: []byte{0xff, 1, 0x80, 0x7f}, Packed: &Packed{
		Layout: RowCodes, Bits: 8, GroupRows: 1, GroupColumns: 9, Scales: float32s([]float64{2, 1}), Zeros: Tensor{DType: I8, Data: []byte{0, 0xfe}},
	}}
	compareRows(t, &w, [][]float32{{-2, 2}, {-126, 129}})

	w = Tensor{Name: "w", DType: F4, Shape: []int{2, 1, 4}, Data: []byte{0x10, 0xf9, 0x75, 0x2a}, Packed: &Packed{
		Layout: RowPairs, Bits: 4, GroupRows: 1, GroupColumns: 2, Scales: Tensor{DType: F8E8M0, Shape: []int{4}, Data: []byte{127, 128, 0, 126}},
	}}
	compareRows(t, &w, [][]float32{{0, 0.5, -1, -12}, {3 * 0x1p-127, 6 * 0x1p-127, -0.5, 0.5}})
}

func compareRows(t *testing.T, w *Tensor, want [][]float32) {
	t.Helper()
	if err := w.CheckSize(); err != nil {
		t.Fatal(err)
	}
	for r, row := range want {
		got := make([]float32, len(row))
		w.Widen(got, r, 0)
		if !slices.Equal(got, row) {
			t.Errorf("row %d is %v, not %v", r, got, row)
		}
	}
}

// TestPackedRefused: what does not fit together is one sentence.
func TestPackedRefused(t *testing.T) {
	for says, change := range map[string]func(w *Tensor){
		"should have 40 bytes, but have 36":                   func(w *Tensor) { w.Data = w.Data[4:] },
		"scales of type int8":                                 func(w *Tensor) { w.Packed.Scales.DType = I8 },
		"3 scales in a row of 17 columns":                     func(w *Tensor) { w.Packed.GroupColumns = 5 },
		"0 scales of 0 bytes":                                 func(w *Tensor) { w.Packed.Scales = Tensor{DType: F32, Shape: []int{0}} },
		"a column is in group 3 of 3":                         func(w *Tensor) { w.Packed.Order = []int32{16: 3} },
		"a column is in group -1 of 3":                        func(w *Tensor) { w.Packed.Order = []int32{16: -1} },
		"the groups of 1 columns are given, but there are 17": func(w *Tensor) { w.Packed.Order = []int32{0} },
		"groups of 0 by 8 numbers":                            func(w *Tensor) { w.Packed.GroupRows = 0 },
		"words of type int32 with codes of 9 bits":            func(w *Tensor) { w.Packed.Bits = 9 },
		"unknown layout 0":                                    func(w *Tensor) { w.Packed.Layout = 0 },
		"not shape [0 17]":                                    func(w *Tensor) { w.Shape = []int{0, 17} },
		"should have 12 bytes, but have 0":                    func(w *Tensor) { w.Packed.Zeros = Tensor{DType: I32, Data: []byte{}} },
		"zero points of type uint8":                           func(w *Tensor) { w.Packed.Zeros = Tensor{DType: U8, Data: []byte{1}} },
		"codes of 4 bits of 2 rows":                           func(w *Tensor) { w.Packed.Layout = AWQWords },
		"pairs of type int32":                                 func(w *Tensor) { w.Packed.Layout = RowPairs },
		"codes of type int32 and 4 bits in a row":             func(w *Tensor) { w.Packed.Layout = RowCodes },
	} {
		w := Tensor{Name: "w", DType: I32, Shape: []int{2, 17}, Data: make([]byte, 24), Packed: &Packed{
			Layout: RowWords, Bits: 4, GroupRows: 1, GroupColumns: 8, Scales: float32s(make([]float64, 6)), Zero: 8,
		}}
		if err := w.CheckSize(); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(says, "40 bytes") {
			w.Shape[1] = 33
			w.Data = make([]byte, 40)
		}
		change(&w)
		if err := w.CheckSize(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v does not say %q", err, says)
		}
	}
}

// FuzzPacked: what CheckSize accepts can be read to its end.
func FuzzPacked(f *testing.F) {
	f.Add(uint8(1), uint8(8), uint8(I8), 2, 3, 1, 2, uint8(F32), 4, uint8(I8), 4, false, make([]byte, 64))
	f.Add(uint8(2), uint8(4), uint8(F4), 2, 4, 1, 4, uint8(F8E8M0), 2, uint8(I32), 0, false, make([]byte, 64))
	f.Add(uint8(3), uint8(3), uint8(I32), 4, 40, 1, 20, uint8(BF16), 8, uint8(I32), 2, false, make([]byte, 200))
	f.Add(uint8(4), uint8(4), uint8(I32), 8, 16, 1, 8, uint8(F16), 16, uint8(I32), 2, true, make([]byte, 200))
	f.Add(uint8(5), uint8(4), uint8(I32), 8, 16, 1, 8, uint8(F16), 16, uint8(I32), 2, true, make([]byte, 200))
	f.Fuzz(func(t *testing.T, layout, bits, dtype uint8, n, k, rows, columns int, scaleType uint8, scales int, zeroType uint8, zeros int, transposed bool, data []byte) {
		if n < 0 || k < 0 || n > 64 || k > 200 || scales < 0 || zeros < 0 || int(dtype) >= len(dtypes) || int(scaleType) >= len(dtypes) || int(zeroType) >= len(dtypes) {
			return
		}
		take := func(size int) []byte { return data[:max(0, min(len(data), size))] }
		w := Tensor{Name: "w", DType: DType(dtype), Shape: []int{n, k}, Packed: &Packed{
			Layout: Layout(layout), Bits: int(bits), GroupRows: rows, GroupColumns: columns, Transposed: transposed,
			Scales: Tensor{DType: DType(scaleType), Shape: []int{scales}, Data: take(scales * DType(scaleType).Size())},
		}}
		if zeros > 0 {
			w.Packed.Zeros = Tensor{DType: DType(zeroType), Data: take(zeros * DType(zeroType).Size())}
		}
		if size, err := w.codeBytes(n, k); err == nil {
			w.Data = take(size)
		}
		if w.CheckSize() != nil {
			return
		}
		row := make([]float32, k)
		for r := range n {
			w.Widen(row, r, 0)
			w.Widen(row[k-1:], r, k-1)
			w.GroupScale(r, w.Groups()-1)
			w.GroupZero(r, w.Groups()-1)
		}
	})
}
