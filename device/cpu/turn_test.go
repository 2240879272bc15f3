package cpu

import (
	"bytes"
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
			keys, want, got := make([]byte, size), make([]byte, size), make([]byte, size)
			for i := range rowsPerTile { // positions
				row := make([]float32, rowsPerTile)
				for d := range row {
					row[d] = float32(rnd.NormFloat64())
					if c.f == Int8 {
						b := byte(rnd.IntN(256))
						keys[(d/4*rowsPerTile+i)*4+d%4] = b + c.bias
						want[(i/4*rowsPerTile+d)*4+i%4] = b
					}
				}
				if c.f != Int8 {
					c.f.putRow(keys, i, row)
					c.f.putColumn(want, i, row)
				}
			}
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
