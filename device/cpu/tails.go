//go:build (amd64 || arm64) && !purego

package cpu

// with is im under another name, with other products of block formats.
func (im impl) with(name string, dot [W8A8 + 1][]dotFunc) *impl {
	im.name, im.dot = name, dot
	return &im
}

// quantizeTail leaves the numbers after the last whole group to the plain loops.
func quantizeTail(f func(dst []byte, x []float32)) func(dst []byte, x []float32) {
	return func(dst []byte, x []float32) {
		n := len(x) / groupColumns
		f(dst[:n*groupRow], x[:n*groupColumns])
		quantizeGeneric(dst[n*groupRow:], x[n*groupColumns:])
	}
}

// exponentTail is quantizeTail where scales are exponents.
func exponentTail(f func(dst []byte, x []float32)) func(dst []byte, x []float32) {
	f = quantizeTail(f)
	return func(dst []byte, x []float32) {
		f(dst, x)
		toExponents(dst[len(x)/groupColumns*groupRow : groups(len(x))*groupRow])
	}
}

// sumsTail is quantizeTail for blockKernels.round.
func sumsTail(f func(dst []byte, x []float32)) func(dst []byte, x []float32) {
	return func(dst []byte, x []float32) {
		n := len(x) / groupColumns
		f(dst[:n*2*sumBlock], x[:n*groupColumns])
		roundSums(dst[n*2*sumBlock:], x[n*groupColumns:])
	}
}

// lanesTail is sumsTail with sums of lanes.
func lanesTail(f func(dst []byte, x []float32)) func(dst []byte, x []float32) {
	f = sumsTail(f)
	return func(dst []byte, x []float32) {
		f(dst, x)
		sumLanes(dst[len(x)/groupColumns*2*sumBlock : groups(len(x))*2*sumBlock])
	}
}

// The assembly of element-wise kernels handles whole groups of 16 numbers, the
// width of nearly all models; the rest is left to the plain loops. The cut
// depends on the length alone, so it keeps the order of sums fixed.

func head(n int) int { return n &^ (rowsPerTile - 1) }

func sumTail(f func(x []float32) float32) func(x []float32) float32 {
	return func(x []float32) float32 {
		n := head(len(x))
		s := f(x[:n])
		if n < len(x) {
			s += sumSquaresGeneric(x[n:])
		}
		return s
	}
}

func scaleMulTail(f func(y, x, w []float32, s float32)) func(y, x, w []float32, s float32) {
	return func(y, x, w []float32, s float32) {
		n := head(len(y))
		f(y[:n], x[:n], w[:n], s)
		scaleMulGeneric(y[n:], x[n:], w[n:], s)
	}
}

func addTail(f func(y, x []float32)) func(y, x []float32) {
	return func(y, x []float32) {
		n := head(len(y))
		f(y[:n], x[:n])
		addGeneric(y[n:], x[n:])
	}
}

func gateTail(f func(y, g, u []float32)) func(y, g, u []float32) {
	return func(y, g, u []float32) {
		n := head(len(y))
		f(y[:n], g[:n], u[:n])
		gateGeneric(y[n:], g[n:], u[n:])
	}
}

func rotateTail(f func(a, b, cos, sin []float32)) func(a, b, cos, sin []float32) {
	return func(a, b, cos, sin []float32) {
		n := head(len(cos))
		f(a[:n], b[:n], cos[:n], sin[:n])
		rotateGeneric(a[n:], b[n:], cos[n:], sin[n:])
	}
}

func blendTail(f func(y, x []float32, a, b float32)) func(y, x []float32, a, b float32) {
	return func(y, x []float32, a, b float32) {
		n := head(len(y))
		f(y[:n], x[:n], a, b)
		blendGeneric(y[n:], x[n:], a, b)
	}
}

func scaleTail(f func(y, x []float32, s float32)) func(y, x []float32, s float32) {
	return func(y, x []float32, s float32) {
		n := head(len(y))
		f(y[:n], x[:n], s)
		scaleGeneric(y[n:], x[n:], s)
	}
}
