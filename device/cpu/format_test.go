package cpu

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"testing"

	"weir/model"
	"weir/weights"
)

// half is the value of a float16 by its definition.
func half(h uint16) float64 {
	sign := 1 - 2*float64(h>>15)
	e, m := int(h>>10&31), float64(h&0x3ff)
	switch e {
	case 0:
		return sign * math.Ldexp(m, -24)
	case 31:
		if m != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+m, e-25)
}

// TestFloat16 goes through all float16 numbers, the points halfway between
// neighbours and both sides of them.
func TestFloat16(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		v := fromF16(h)
		if want := half(h); float64(v) != want && !(math.IsNaN(want) && v != v) || math.Signbit(float64(v)) != (h>>15 == 1) {
			t.Fatalf("%#04x is %v, not %v", h, v, want)
		}
		back := toF16(v)
		if v != v && (back&0x7c00 != 0x7c00 || back&0x3ff == 0) {
			t.Fatalf("NaN becomes %#04x", back)
		}
		if v == v && back != h {
			t.Fatalf("%v becomes %#04x, not %#04x", v, back, h)
		}
		if h&0x7fff < 0x7c00 {
			testHalfway(t, h)
		}
	}
	for _, v := range []float32{math.MaxFloat32, float32(math.Inf(1)), 1e6} {
		if toF16(v) != 0x7c00 || toF16(-v) != 0xfc00 {
			t.Errorf("%v becomes %#04x", v, toF16(v))
		}
	}
}

// testHalfway rounds what lies between the finite float16 h and its neighbour away from
// zero. After the largest number that is 65536, where infinity begins.
func testHalfway(t *testing.T, h uint16) {
	t.Helper()
	v, next := half(h), half(h+1)
	if h&0x7fff == 0x7bff {
		next = math.Copysign(65536, v)
	}
	mid := float32((v + next) / 2) // exact: it has one bit more
	even := h + h&1
	for _, c := range []struct {
		v    float32
		want uint16
	}{{mid, even}, {math.Nextafter32(mid, float32(v)), h}, {math.Nextafter32(mid, float32(next)), h + 1}} {
		if got := toF16(c.v); got != c.want {
			t.Fatalf("%v becomes %#04x, not %#04x", c.v, got, c.want)
		}
	}
}

// TestBfloat16 does the same for bfloat16.
func TestBfloat16(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		v := math.Float32frombits(uint32(h) << 16)
		if v != v {
			if back := toBF16(math.Float32frombits(uint32(h)<<16 | 0xffff)); math.Float32frombits(uint32(back)<<16) == math.Float32frombits(uint32(back)<<16) {
				t.Fatalf("NaN becomes %#04x", back)
			}
			continue
		}
		if back := toBF16(v); back != h {
			t.Fatalf("%v becomes %#04x, not %#04x", v, back, h)
		}
		if h&0x7fff >= 0x7f80 {
			continue
		}
		bits := uint32(h) << 16
		for _, c := range []struct {
			bits uint32
			want uint16
		}{{bits | 0x7fff, h}, {bits | 0x8000, h + h&1}, {bits | 0x8001, h + 1}} {
			if got := toBF16(math.Float32frombits(c.bits)); got != c.want {
				t.Fatalf("%#08x becomes %#04x, not %#04x", c.bits, got, c.want)
			}
		}
	}
}

// TestTileLayout: what put stores, columns finds; every element has its own
// place.
func TestTileLayout(t *testing.T) {
	for f := F32; f <= BF16; f++ {
		for k := 1; k < 20; k++ {
			tile := countingTile(f, k)
			for i := range (k + 1) &^ 1 {
				for r, got := range tileColumn(f, tile, i) {
					want := float32(i*16 + r)
					if i == k {
						want = 0
					}
					if got != rounded(f, want) {
						t.Fatalf("%s, %d columns: column %d, row %d is %v", f, k, i, r, got)
					}
				}
			}
		}
	}
}

// countingTile has 16i+r as column i of row r.
func countingTile(f Format, k int) []byte {
	tile := make([]byte, f.tileBytes(k))
	for i := range k {
		for r := range rowsPerTile {
			f.put(tile, i, r, float32(i*16+r))
		}
	}
	return tile
}

// tileColumn is column i of a tile.
func tileColumn(f Format, tile []byte, i int) [rowsPerTile]float32 {
	var pair [2][rowsPerTile]float32
	f.columns(&pair, tile, i/2)
	return pair[i%2]
}

// TestTileRowsAndColumns: storing a row or a column is the same as storing its elements
// one by one.
func TestTileRowsAndColumns(t *testing.T) {
	rnd := newRand(4)
	for f := F32; f <= BF16; f++ {
		for k := 1; k < 20; k++ {
			for r := range rowsPerTile {
				row := randomBanded(rnd, k, 0).v
				got, want := bytes.Repeat([]byte{0xa5}, f.tileBytes(k)), bytes.Repeat([]byte{0xa5}, f.tileBytes(k))
				f.putRow(got, r, row)
				for i, v := range row {
					f.put(want, i, r, v)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("%s: row %d of %d columns", f, r, k)
				}
				column := randomBanded(rnd, 1+(r+k)%rowsPerTile, 0).v
				f.putColumn(got, k-1, column)
				for i, v := range column {
					f.put(want, k-1, i, v)
				}
				if !bytes.Equal(got, want) {
					t.Fatalf("%s: column %d, %d rows", f, k-1, len(column))
				}
			}
		}
	}
}

// TestPack: all types into all formats; matrices stacked across the border of a
// tile; ragged ends are zero.
func TestPack(t *testing.T) {
	rnd := newRand(3)
	for _, dtype := range []weights.DType{weights.F32, weights.F16, weights.BF16} {
		for _, as := range []Format{Auto, F32, F16, BF16} {
			for _, k := range []int{1, 2, 17, 511, 512, 513, 1030} {
				t.Run(fmt.Sprintf("%s_as_%s_%d", dtype, as, k), func(t *testing.T) {
					want := as
					if as == Auto {
						want = formatOf(dtype)
					}
					testPack(t, as, want, tensor(rnd, dtype, 1, 5, k), tensor(rnd, dtype, 1, 30, k), tensor(rnd, dtype, 1, 2, k))
				})
			}
		}
	}
	for _, as := range []Format{Auto, F32, BF16} {
		t.Run(fmt.Sprintf("different types as %s", as), func(t *testing.T) {
			testPack(t, as, as, tensor(rnd, weights.F16, 1, 5, 3), tensor(rnd, weights.BF16, 1, 5, 3), tensor(rnd, weights.BF16, 1, 17, 3), tensor(rnd, weights.F16, 1, 2, 3))
		})
	}
}

// testPack loads stacked matrices. Each part of the layer is stored in the format of its
// tensors, or in the format want.
func testPack(t *testing.T, as, want Format, rows ...weights.Tensor) {
	t.Helper()
	d, err := Open(Config{Threads: 2, WeightType: as, KVType: BF16})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	w, err := d.Load(model.Matrix{Rows: rows})
	if err != nil {
		t.Fatal(err)
	}
	k, first := rows[0].Shape[1], 0
	for _, m := range d.params[w].linear.parts {
		format, tiles, n := want, make([]byte, len(m.data)), 0
		if want == Auto {
			format = formatOf(rows[0].DType)
		}
		for ; len(rows) > 0 && (want != Auto || formatOf(rows[0].DType) == format); rows = rows[1:] {
			src := rows[0]
			for i := range src.Len() {
				format.put(tiles[(n+i/k)/rowsPerTile*m.tile:], i%k, (n+i/k)%rowsPerTile, number(src.DType, src.Data, i))
			}
			n += src.Shape[0]
		}
		if m.format != format || m.n != n || m.k != k || m.first != first || m.tiles() != (n+rowsPerTile-1)/rowsPerTile {
			t.Fatalf("%s, not %s: %+v", m.format, want, m)
		}
		if !bytes.Equal(m.data, tiles) {
			t.Error("wrong bytes")
		}
		first += n
	}
	if len(rows) > 0 {
		t.Errorf("%d tensors are missing", len(rows))
	}
}

func TestParseFormat(t *testing.T) {
	for f := Auto; f <= BF16; f++ {
		if got, err := ParseFormat(f.String()); got != f || err != nil {
			t.Errorf("%s: %v, %v", f, got, err)
		}
	}
	if _, err := ParseFormat("int3"); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}
