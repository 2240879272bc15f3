//go:build !purego

package cpu

import (
	"slices"

	"golang.org/x/sys/cpu"
)

// pause executes n > 0 PAUSE instructions: it waits without taking the core's
// resources from its other thread.
//
//go:noescape
func pause(n int)

// native returns what this processor can run, best first.
//
// Matrices do not use VDPBF16PS: it rounds inputs to bfloat16. Attention does
// where it is twice as fast as widening: keys, values and weights between 0 and
// 1 have that precision anyway. On Intel's processors it is no faster.
func native() []*impl {
	var list []*impl
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL {
		base := impl{
			name:        "avx512",
			needs:       []string{"avx512f", "avx512bw", "avx512vl"},
			mul:         mulAVX512,
			dot:         dotAVX512,
			quantize:    quantizeTail(quantizeAVX512),
			quantizeAll: quantizeWhole(largestAVX512, roundAVX512),
			sumSquares:  sumTail(sumSquaresAVX512),
			scaleMul:    scaleMulTail(scaleMulAVX512),
			add:         addTail(addAVX512),
			gate:        gateTail(gateAVX512),
			rotate:      rotateTail(rotateAVX512),
			max:         maxAVX512,
			blend:       blendTail(blendAVX512),
			scale:       scaleTail(scaleAVX512),
			attention:   attentionAVX512,
		}
		if x.HasAVX512VNNI {
			vnni := base.with("avx512vnni", dotAVX512VNNI)
			vnni.dots[Int8] = dotsVNNIAVX512 // the same integers, faster
			list = append(list, vnni)
			if x.HasAVX512BF16 {
				bf16 := vnni.with("avx512bf16", dotAVX512VNNI)
				bf16.dots[BF16], bf16.toPairs = dotsPairsAVX512, toPairsAVX512
				list = slices.Insert(list, len(list)-fastPairs(), bf16)
			}
		}
		list = append(list, &base)
	}
	if x.HasAVX2 && x.HasFMA && x.HasF16C {
		base := impl{
			name:        "avx2",
			needs:       []string{"avx2", "fma", "f16c"},
			mul:         mulAVX2,
			dot:         dotAVX2,
			quantize:    quantizeTail(quantizeAVX2),
			quantizeAll: quantizeWhole(largestAVX2, roundAVX2),
			sumSquares:  sumTail(sumSquaresAVX2),
			scaleMul:    scaleMulTail(scaleMulAVX2),
			add:         addTail(addAVX2),
			gate:        gateTail(gateAVX2),
			rotate:      rotateTail(rotateAVX2),
			max:         maxAVX2,
			blend:       blendTail(blendAVX2),
			scale:       scaleTail(scaleAVX2),
			attention:   attentionAVX2,
		}
		if x.HasAVXVNNI {
			list = append(list, base.with("avxvnni", dotAVXVNNI))
		}
		list = append(list, &base)
	}
	return list
}

// vendor is the first four letters of the processor's maker.
func vendor() uint32

// fastPairs is 1 if VDPBF16PS is worth its rounding, 0 if not.
func fastPairs() int {
	if vendor() == 'A'|'u'<<8|'t'<<16|'h'<<24 { // AuthenticAMD
		return 1
	}
	return 0
}

// with is im under another name, with other products of block formats.
func (im impl) with(name string, dot [W8A8 + 1][]dotFunc) *impl {
	im.name, im.dot = name, dot
	return &im
}

// quantizeTail leaves what is no whole group to the plain loops.
func quantizeTail(f func(dst []byte, x []float32)) func(dst []byte, x []float32) {
	return func(dst []byte, x []float32) {
		n := len(x) / groupColumns
		f(dst[:n*groupRow], x[:n*groupColumns])
		quantizeGeneric(dst[n*groupRow:], x[n*groupColumns:])
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
