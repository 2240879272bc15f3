package cpu

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTurn: a tile of keys, turned, is the tile that values are stored in. Keys of Int8 have a bias for
// some instructions, and values have none.
func TestTurn(t *testing.T) {
	rnd := newRand(36)
	for _, c := range []struct {
		f    Format
		bias byte
	}{{F32, 0}, {F16, 0}, {BF16, 0}, {Int8, 0}, {Int8, keyBias}} {
		eachImpl(t, func(t *testing.T, im *impl) {
			size := c.f.tileBytes(rowsPerTile)
			keys, want := randomTiles(rnd, c.f, c.bias)
			got := make([]byte, size)
			if c.f.turn(got, keys, c.bias); !bytes.Equal(got, want) {
				t.Errorf("%s, bias %d: %x becomes %x, not %x", c.f, c.bias, keys, got, want)
			}
			f := im.turn[c.f]
			if f == nil {
				return
			}
			two, guarded := append(slices.Clone(keys), want...), make([]byte, 3*size)
			if f(guarded[:2*size], two, c.bias); !bytes.Equal(guarded[:size], want) || !bytes.Equal(guarded[2*size:], make([]byte, size)) {
				t.Errorf("%s, bias %d: %x becomes %x, not %x", c.f, c.bias, keys, guarded[:size], want)
			}
			if c.f.turn(got, want, c.bias); !bytes.Equal(guarded[size:2*size], got) {
				t.Errorf("%s, bias %d: %x becomes %x, not %x", c.f, c.bias, want, guarded[size:2*size], got)
			}
		})
	}
}

// randomTiles are the same random numbers as a tile of keys and as one of values.
func randomTiles(rnd *rand.Rand, f Format, bias byte) (keys, values []byte) {
	size := f.tileBytes(rowsPerTile)
	keys, values = make([]byte, size), make([]byte, size)
	for i := range rowsPerTile { // positions
		if f == Int8 {
			for d := range rowsPerTile {
				b := byte(rnd.IntN(256))
				keys[(d/4*rowsPerTile+i)*4+d%4] = b + bias
				values[(i/4*rowsPerTile+d)*4+i%4] = b
			}
			continue
		}
		row := make([]float32, rowsPerTile)
		for d := range row {
			row[d] = float32(rnd.NormFloat64())
		}
		f.putRow(keys, i, row)
		f.putColumn(values, i, row)
	}
	return keys, values
}
