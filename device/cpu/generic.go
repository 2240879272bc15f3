package cpu

import "math"

// The kernels in plain Go, for every machine. Products are rounded before they are added
// (float32(a*b) + c): otherwise the compiler may fuse the two in one place and not in
// another, and then two loops that compute the same might differ.

// genericRows is how many rows share the widening of a tile's columns.
const genericRows = 4

func generic() *impl {
	im := &impl{
		name:        "generic",
		sumSquares:  sumSquaresGeneric,
		scaleMul:    scaleMulGeneric,
		add:         addGeneric,
		gate:        gateGeneric,
		rotate:      rotateGeneric,
		max:         maxGeneric,
		blend:       blendGeneric,
		scale:       scaleGeneric,
		quantize:    quantizeGeneric,
		quantizeAll: quantizeWhole(largestGeneric, roundGeneric),
		blocks:      blocksGeneric(),
		attention:   attentionGeneric(),
		pointwise:   pointwiseGeneric(),
		recurrent:   recurrentGeneric(),
	}
	for f := Q8; f <= W8A8; f++ {
		im.dot[f] = make([]dotFunc, genericRows+1)
		for m := 1; m <= genericRows; m++ {
			im.dot[f][m] = dotGeneric(f, m)
			if f == W8A8 {
				im.dot[f][m] = dotWholeGeneric(m)
			}
		}
	}
	im.mulFP8 = make([]mulFunc, genericRows+1)
	for m := 1; m <= genericRows; m++ {
		im.mulFP8[m] = mulFP8Generic(m)
	}
	for f := F32; f <= BF16; f++ {
		im.mul[f] = make([]mulFunc, genericRows+1)
		for m := 1; m <= genericRows; m++ {
			im.mul[f][m] = mulGeneric(f, m)
		}
	}
	return im
}

// chains are the two sums of each element of a tile's product with a row.
type chains [2][rowsPerTile]float32

// addProduct adds column p of c times v to the chain of p's parity.
func (s *chains) addProduct(parity int, c *[2][rowsPerTile]float32, v float32) {
	for j, w := range &c[parity] {
		s[parity][j] += float32(v * w)
	}
}

func mulGeneric(f Format, m int) mulFunc {
	return func(w []byte, offs, _ []int, k int, x []float32, ldx int, y []float32, ldy int, bias []float32) {
		for u, off := range offs {
			tile := w[off:][:f.tileBytes(k)]
			var s [genericRows]chains
			addTile(f, s[:m], tile, x, ldx, k)
			for r := range m {
				out := y[r*ldy+u*rowsPerTile:][:rowsPerTile]
				for j := range out {
					out[j] = s[r][0][j] + s[r][1][j]
					if bias != nil {
						out[j] += bias[u*rowsPerTile+j]
					}
				}
			}
		}
	}
}

// addTile adds the first k columns of a tile times x to the chains.
func addTile(f Format, s []chains, tile []byte, x []float32, ldx, k int) {
	var c [2][rowsPerTile]float32
	for i := 0; i < k; i += 2 {
		f.columns(&c, tile, i/2)
		for r := range s {
			s[r].addProduct(0, &c, x[r*ldx+i])
			if i+1 < k {
				s[r].addProduct(1, &c, x[r*ldx+i+1])
			}
		}
	}
}

func sumSquaresGeneric(x []float32) float32 {
	var s [4]float32 // independent sums: faster and more precise than one
	n := len(x) &^ 3
	for i := 0; i < n; i += 4 {
		for j := range s {
			v := x[i+j]
			s[j] += float32(v * v)
		}
	}
	for _, v := range x[n:] {
		s[0] += float32(v * v)
	}
	return s[0] + s[1] + (s[2] + s[3])
}

func scaleMulGeneric(y, x, w []float32, s float32) {
	x, w = x[:len(y)], w[:len(y)]
	for i := range y {
		y[i] = float32(x[i]*s) * w[i]
	}
}

func addGeneric(y, x []float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] += x[i]
	}
}

func gateGeneric(y, g, u []float32) {
	g, u = g[:len(y)], u[:len(y)]
	for i := range y {
		y[i] = g[i] / (1 + exp(-g[i])) * u[i]
	}
}

func rotateGeneric(a, b, cos, sin []float32) {
	a, b, sin = a[:len(cos)], b[:len(cos)], sin[:len(cos)]
	for i, c := range cos {
		p, q := a[i], b[i]
		a[i] = float32(p*c) - float32(q*sin[i])
		b[i] = float32(q*c) + float32(p*sin[i])
	}
}

func maxGeneric(x []float32) float32 {
	top := x[0]
	for _, v := range x[1:] {
		if v > top {
			top = v
		}
	}
	return top
}

func blendGeneric(y, x []float32, a, b float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] = float32(y[i]*a) + float32(x[i]*b)
	}
}

func scaleGeneric(y, x []float32, s float32) {
	x = x[:len(y)]
	for i := range y {
		y[i] = x[i] * s
	}
}

// The exponential that every tier computes, by range reduction to
// [-ln2/2, ln2/2] and a polynomial (Cephes expf). It is exactly 0 below expLow
// and stays at exp(expHigh) above expHigh: the results between are normal
// numbers, so that no arithmetic on them meets a slow denormal. NaN stays NaN.
const (
	expLow  = -87
	expHigh = 88
	log2e   = 1.44269504088896341
	ln2High = 0.693359375
	ln2Low  = -2.12194440e-4
)

var expPoly = [...]float32{1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1}

func exp(x float32) float32 {
	switch {
	case x < expLow:
		return 0
	case x > expHigh:
		x = expHigh
	case x != x:
		return x
	}
	const shift = 3 << 22 // adding it leaves the nearest integer in the low bits
	t := float32(x*log2e) + shift
	n := t - shift
	r := x - float32(n*ln2High) - float32(n*ln2Low)
	p := expPoly[0]
	for _, c := range expPoly[1:] {
		p = float32(p*r) + c
	}
	p = float32(float32(p*r)*r) + r + 1
	return math.Float32frombits(math.Float32bits(p) + math.Float32bits(t)<<23)
}
