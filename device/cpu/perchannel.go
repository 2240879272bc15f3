package cpu

import (
	"encoding/binary"
	"math"

	"weir/weights"
)

// W8A8 has one scale for a row of weights and one for a row of activations, so a
// product consists of integers until its end. It is the fastest format, and as coarse as
// a row's greatest number makes it. Its tiles and rows are those of Q8 (quant.go), but
// the scales come after all columns and not between them:
//
//	tile: [groups][16][16 rows][4 columns] weight + 128, [16 rows] float32 scale
//	row:  [groups][64] int8, int32 -128 * sum, float32 scale
//
// A sum of products stays below 2^31 up to maxWhole columns. Sums may wrap around on the
// way, because of the weights' offset, and then wrap back.
const (
	groupWhole = groupColumns * rowsPerTile
	wholeScale = 4 * rowsPerTile
	wholeRow   = 4 + 4
	maxWhole   = 1 << 17
)

// packWhole stores row i of t as row r of the tile. It returns a number that cannot be stored,
// if there is one.
func packWhole(tile []byte, r int, t *weights.Tensor, i, k int) (bad float32, ok bool) {
	var buf [packColumns]float32
	each := func(f func(k0 int, v []float32)) {
		for k0 := 0; k0 < k; k0 += packColumns {
			v := buf[:min(packColumns, k-k0)]
			t.Widen(v, i, k0)
			f(k0, v)
		}
	}
	ok = true
	top := float32(0)
	each(func(_ int, v []float32) {
		for _, x := range v {
			if !(x <= math.MaxFloat32 && x >= -math.MaxFloat32) {
				bad, ok = x, false
			}
			top = max(top, x, -x)
		}
	})
	if !ok || top < leastScaled {
		return bad, ok // and the scale stays 0
	}
	inverse := 127 / top
	each(func(k0 int, v []float32) {
		for i, x := range v {
			c := k0 + i
			tile[c/4*4*rowsPerTile+r*4+c%4] = byte(nearest(x*inverse) + 128)
		}
	})
	binary.LittleEndian.PutUint32(tile[groups(k)*groupWhole+4*r:], math.Float32bits(top*(1.0/127)))
	return 0, true
}

// quantizeWhole is impl.quantizeAll, from the two passes over a row's whole
// groups that an implementation has.
func quantizeWhole(largest func(x []float32) uint32, round func(dst []byte, x []float32, inverse float32) int32) func(dst []byte, x []float32) {
	return func(dst []byte, x []float32) {
		n := len(x) &^ (groupColumns - 1)
		bits := max(largest(x[:n]), largestGeneric(x[n:]))
		data, end := dst[:groups(len(x))*groupColumns], dst[groups(len(x))*groupColumns:][:wholeRow]
		top, sum, scale := math.Float32frombits(bits), int32(0), float32(0)
		if top < leastScaled {
			clear(data)
		} else {
			inverse := 127 / top
			sum = round(data[:n], x[:n], inverse) + roundGeneric(data[n:], x[n:], inverse)
			clear(data[len(x):])
			scale = float32(top * (1.0 / 127))
		}
		binary.LittleEndian.PutUint32(end, uint32(sum*-128))
		binary.LittleEndian.PutUint32(end[4:], math.Float32bits(scale))
	}
}

// largestGeneric compares magnitudes as integers, so that infinity and NaN win.
func largestGeneric(x []float32) uint32 {
	bits := uint32(0)
	for _, v := range x {
		bits = max(bits, math.Float32bits(v)&0x7fffffff)
	}
	return bits
}

func roundGeneric(dst []byte, x []float32, inverse float32) int32 {
	sum := int32(0)
	for i, v := range x {
		q := int32(math.MinInt32) // what processors say of a NaN
		if p := float32(v * inverse); p == p {
			q = int32(math.RoundToEven(float64(p)))
		}
		q = max(q, -127)
		dst[i] = byte(q)
		sum += q
	}
	return sum
}

// dotWholeGeneric is impl.dot of W8A8 for m rows.
func dotWholeGeneric(m int) dotFunc {
	return func(w []byte, offs, _ []int, n int, x []byte, ldx int, y []float32, ldy int, bias []float32) {
		for u, off := range offs {
			tile := w[off:][:n*groupWhole+wholeScale]
			for r := range m {
				row := x[r*ldx:][:n*groupColumns+wholeRow]
				xs := math.Float32frombits(binary.LittleEndian.Uint32(row[n*groupColumns+4:]))
				var dots [rowsPerTile]int32
				for c, v := range row[:n*groupColumns] {
					column := tile[c/4*4*rowsPerTile+c%4:]
					for j := range dots {
						dots[j] += (int32(column[4*j]) - 128) * int32(int8(v))
					}
				}
				out := y[r*ldy+u*rowsPerTile:][:rowsPerTile]
				for j := range out {
					ws := math.Float32frombits(binary.LittleEndian.Uint32(tile[n*groupWhole+4*j:]))
					out[j] = float32(float32(float32(dots[j])*xs) * ws)
					if bias != nil {
						out[j] += bias[u*rowsPerTile+j]
					}
				}
			}
		}
	}
}
