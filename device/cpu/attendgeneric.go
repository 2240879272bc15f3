package cpu

import (
	"encoding/binary"
	"math"
)

// Attention's kernels in plain Go.

func attentionGeneric() attention {
	a := attention{
		expSum:       expSumGeneric,
		expSumScaled: expSumScaledGeneric,
		absMax:       absMaxGeneric,
		toInt16:      toInt16Generic,
		prefetch:     func([]byte, []int, int) {},
	}
	for f := F32; f <= Int8; f++ {
		k := &a.dots[f]
		k.tiles, k.scores, k.values = []int{0}, []scoresFunc{nil}, []valuesFunc{nil}
		for m := 1; m <= genericRows; m++ {
			k.tiles = append(k.tiles, 1)
			if f == Int8 {
				k.scores, k.values = append(k.scores, scoresInt8Generic(m)), append(k.values, valuesInt8Generic(m))
			} else {
				k.scores, k.values = append(k.scores, scoresGeneric(f, m)), append(k.values, valuesGeneric(f, m))
			}
		}
		k.value = k.values
	}
	return a
}

// rowSums are the results of one tile for some rows.
type rowSums [genericRows][rowsPerTile]float32

// addColumns adds the first k columns of a tile times x to the sums of m rows.
func (s *rowSums) addColumns(f Format, m int, tile []byte, k int, x []float32, ldx int) {
	var c [2][rowsPerTile]float32
	for i := range k {
		if i%2 == 0 {
			f.columns(&c, tile, i/2)
		}
		for r := range m {
			v := x[r*ldx+i]
			for j, w := range &c[i%2] {
				s[r][j] += float32(v * w)
			}
		}
	}
}

func scoresGeneric(f Format, m int) scoresFunc {
	return func(kv []byte, offs []int, _ int, k int, x []float32, ldx int, y []float32, ldy int) {
		for u, off := range offs {
			var s rowSums
			s.addColumns(f, m, kv[off:], k, x, ldx)
			for r := range m {
				copy(y[r*ldy+u*rowsPerTile:], s[r][:])
			}
		}
	}
}

func valuesGeneric(f Format, m int) valuesFunc {
	return func(kv []byte, offs, _ []int, n int, x []float32, ldx int, y []float32, ldy int) {
		var s rowSums
		for u := 0; u*rowsPerTile < n; u++ {
			s.addColumns(f, m, kv[offs[u]:], min(rowsPerTile, n-u*rowsPerTile), x[u*rowsPerTile:], ldx)
		}
		for r := range m {
			copy(y[r*ldy:], s[r][:])
		}
	}
}

// rowInts are the results of one tile of Int8 for some rows.
type rowInts [genericRows][rowsPerTile]int32

// addQuads adds the first n quads of a tile times x.
func (s *rowInts) addQuads(m int, tile []byte, n int, x []float32, ldx int) {
	for q := range n {
		tile := tile[q*rowsPerTile*4:][:rowsPerTile*4]
		for r := range m {
			x0, x2 := halves(x[r*ldx+q*2])
			x1, x3 := halves(x[r*ldx+q*2+1])
			for j := range rowsPerTile {
				w := tile[j*4:][:4]
				s[r][j] += x0*int32(int8(w[0])) + x1*int32(int8(w[1])) + x2*int32(int8(w[2])) + x3*int32(int8(w[3]))
			}
		}
	}
}

// halves are the two 16-bit integers in a word.
func halves(v float32) (lo, hi int32) {
	b := math.Float32bits(v)
	return int32(int16(b)), int32(int16(b >> 16))
}

func scoresInt8Generic(m int) scoresFunc {
	return func(kv []byte, offs []int, _ int, k int, x []float32, ldx int, y []float32, ldy int) {
		for u, off := range offs {
			var s rowInts
			s.addQuads(m, kv[off:], k/4, x, ldx)
			for r := range m {
				for j, v := range &s[r] {
					y[r*ldy+u*rowsPerTile+j] = float32(v) * scaleAt(kv[off+k*rowsPerTile:], j)
				}
			}
		}
	}
}

func valuesInt8Generic(m int) valuesFunc {
	return func(kv []byte, offs, _ []int, n int, x []float32, ldx int, y []float32, ldy int) {
		var s rowInts
		for u := 0; u*rowsPerTile < n; u++ {
			s.addQuads(m, kv[offs[u]:], (min(rowsPerTile, n-u*rowsPerTile)+3)/4, x[u*rowsPerTile/2:], ldx)
		}
		for r := range m {
			for j, v := range &s[r] {
				y[r*ldy+j] = float32(v)
			}
		}
	}
}

// scaleAt is the i-th of a unit's scales.
func scaleAt(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[i*4:]))
}

// exp2Poly are the coefficients of 2^x - 1 from x on, for x in [-0.5, 0.5]: least
// relative error with 2^0 exactly 1, 3e-9 (Remez).
var exp2Poly = [...]float32{0.6931472421, 0.2402265221, 0.05550310388, 0.009617692791, 0.001340664341, 0.0001559467782}

// exp2Least is where 2^x becomes zero, which keeps denormals, slow on some
// processors, out of all sums.
const exp2Least = -125

// exp2 is 2^(x*(hi+lo)), x*hi at most 127. NaN stays NaN.
func exp2(x, hi, lo float32) float32 {
	n := float32(math.RoundToEven(float64(float32(x * hi))))
	if n < exp2Least {
		return 0
	}
	// As precise as fused multiplication: x*hi fits a float64.
	f := float32(float64(x)*float64(hi)-float64(n)) + float32(x*lo)
	p := exp2Poly[len(exp2Poly)-1]
	for i := len(exp2Poly) - 2; i >= 0; i-- {
		p = float32(p*f) + exp2Poly[i]
	}
	p = float32(p*f) + 1
	if p != p {
		return p
	}
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

func expSumGeneric(x []float32, top, hi, lo float32) float32 {
	var lanes [rowsPerTile]float32
	for i, v := range x {
		e := exp2(v-top, hi, lo)
		x[i] = e
		lanes[i%rowsPerTile] += e
	}
	return addLanes(&lanes)
}

// addLanes adds 16 sums as vectors do, half to half.
func addLanes(lanes *[rowsPerTile]float32) float32 {
	for n := rowsPerTile / 2; n > 0; n /= 2 {
		for i := range n {
			lanes[i] += lanes[i+n]
		}
	}
	return lanes[0]
}

func expSumScaledGeneric(x []float32, top, hi, lo float32, kv []byte, offs []int) (sum, most float32) {
	var lanes [rowsPerTile]float32
	greatest := uint32(0)
	for i, v := range x {
		e := exp2(v-top, hi, lo)
		lanes[i%rowsPerTile] += e
		if e != 0 {
			e *= scaleAt(kv[offs[i/rowsPerTile]:], i%rowsPerTile)
		}
		greatest = max(greatest, math.Float32bits(e)&0x7fffffff) // NaN is the greatest
		x[i] = e
	}
	return addLanes(&lanes), math.Float32frombits(greatest)
}

func absMaxGeneric(x []float32) float32 {
	most := uint32(0)
	for _, v := range x {
		most = max(most, math.Float32bits(v)&0x7fffffff) // NaN is the greatest
	}
	return math.Float32frombits(most)
}

func toInt16Generic(dst, x []float32, inv float32) {
	const shift = 3 << 22 // adding it leaves the nearest integer in the low bits
	for i := 0; i < len(x); i += 4 {
		var v [4]uint32
		for k := range v {
			v[k] = math.Float32bits(float32(x[i+k]*inv)+shift) & 0xffff
		}
		dst[i/2], dst[i/2+1] = math.Float32frombits(v[0]|v[2]<<16), math.Float32frombits(v[1]|v[3]<<16)
	}
}
