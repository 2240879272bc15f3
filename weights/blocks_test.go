package weights

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// goldenBlocks reads blocks of a type and the numbers that ggml makes of them
// (tools/golden/ggml_blocks.py).
func goldenBlocks(t testing.TB, d DType) (blocks []byte, numbers []float32) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "blocks", d.String()+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	n := int(binary.LittleEndian.Uint32(data))
	size := d.RowBytes(n)
	if len(data) != 4+size+4*n {
		t.Fatalf("%v: %d bytes with %d columns", d, len(data), n)
	}
	numbers = make([]float32, n)
	widenNumbers(F32, numbers, data[4+size:])
	return data[4 : 4+size], numbers
}

// widening are the types of blocks that matrices are stored in.
func widening() (list []DType) {
	for i, b := range blockTypes {
		if b.widen != nil {
			list = append(list, firstBlocked+DType(i))
		}
	}
	return list
}

// same compares numbers bit by bit, but all NaNs are one.
func same(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// Every type's numbers are those of ggml, in every bit, for random bytes and for what ggml's
// quantizer writes.
func TestBlocksGolden(t *testing.T) {
	if n := len(widening()); n != 25 {
		t.Errorf("%d types", n)
	}
	for _, d := range widening() {
		blocks, want := goldenBlocks(t, d)
		w := Tensor{Name: "w", DType: d, Shape: []int{1, len(want)}, Data: blocks}
		if err := w.CheckSize(); err != nil || !w.Widens() {
			t.Fatal(d, err)
		}
		got := make([]float32, len(want))
		w.Widen(got, 0, 0)
		for i := range got {
			if !same(got[i], want[i]) {
				t.Errorf("%v: number %d is %v (%#x), not %v (%#x)", d, i, got[i], math.Float32bits(got[i]), want[i], math.Float32bits(want[i]))
				break
			}
		}
	}
}

// The golden data has every value of every byte somewhere in a block, so that no code and no
// place in a grid is left out.
func TestBlocksGoldenCoversCodes(t *testing.T) {
	for _, d := range widening() {
		blocks, _ := goldenBlocks(t, d)
		var seen [256]bool
		for _, b := range blocks {
			seen[b] = true
		}
		for b, ok := range seen {
			if !ok {
				t.Errorf("%v: no byte %#x", d, b)
			}
		}
	}
}

// A matrix is the same whether its rows are widened at once or block by block, in the order of
// its rows or with the rows of heads taking turns.
func TestBlocksByPart(t *testing.T) {
	for _, d := range widening() {
		per, size := d.Block()
		blocks, _ := goldenBlocks(t, d)
		w := Tensor{Name: "w", DType: d, Shape: []int{4, 2 * per}, Data: blocks[:8*size]}
		for _, pairs := range []int{0, 4} {
			w.Pairs = pairs
			for r := range 4 {
				row, part := make([]float32, 2*per), make([]float32, per)
				w.Widen(row, r, 0)
				for k0 := 0; k0 < 2*per; k0 += per {
					w.Widen(part, r, k0)
					for i, x := range part {
						if !same(x, row[k0+i]) {
							t.Fatalf("%v: row %d, column %d: %v, not %v", d, r, k0+i, x, row[k0+i])
						}
					}
				}
			}
		}
	}
}

// ggml has no numbers for what it rounds activations to.
func TestBlocksOfActivations(t *testing.T) {
	for _, d := range []DType{Q8_1, Q8_K} {
		if w := (Tensor{DType: d, Shape: []int{1, 256}}); w.Widens() {
			t.Errorf("%v widens", d)
		}
	}
}

// Blocks of any bytes are widened, and touch no number of another block.
func FuzzBlocks(f *testing.F) {
	for i := range blockTypes {
		f.Add(byte(i), []byte("any bytes are codes and scales"))
		f.Add(byte(i), bytes.Repeat([]byte{0xff}, 300))
	}
	f.Fuzz(func(t *testing.T, kind byte, src []byte) {
		list := widening()
		d := list[int(kind)%len(list)]
		per, size := d.Block()
		block := make([]byte, size)
		copy(block, src)
		const mark = 12345.678
		y := make([]float32, 3*per)
		for i := range y {
			y[i] = mark
		}
		widenBlocks(d, y[per:2*per], block)
		for i, x := range y {
			if inside := i >= per && i < 2*per; !inside && x != mark {
				t.Fatalf("%v wrote number %d of a block", d, i-per)
			}
		}
	})
}
