//go:build !purego

package cpu

import "golang.org/x/sys/cpu"

// pause executes n > 0 PAUSE instructions: it waits without taking the core's
// resources from its other thread.
//
//go:noescape
func pause(n int)

// native returns what this processor can run, best first.
//
// VDPBF16PS is left out on purpose: it rounds products in its own way, and on
// current processors is no faster than widening bfloat16 with a shift.
func native() []*impl {
	var list []*impl
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL {
		base := impl{
			name:       "avx512",
			needs:      []string{"avx512f", "avx512bw", "avx512vl"},
			mul:        mulAVX512,
			dot:        dotAVX512,
			quantize:   quantizeTail(quantizeAVX512),
			sumSquares: sumTail(sumSquaresAVX512),
			scaleMul:   scaleMulTail(scaleMulAVX512),
			add:        addTail(addAVX512),
			gate:       gateTail(gateAVX512),
			rotate:     rotateTail(rotateAVX512),
			max:        maxAVX512,
			blend:      blendTail(blendAVX512),
			scale:      scaleTail(scaleAVX512),
			attention:  attentionAVX512,
		}
		if x.HasAVX512VNNI {
			vnni := base.with("avx512vnni", dotAVX512VNNI)
			vnni.dots[Int8] = dotsVNNIAVX512 // the same integers, faster
			list = append(list, vnni)
		}
		list = append(list, &base)
	}
	if x.HasAVX2 && x.HasFMA && x.HasF16C {
		base := impl{
			name:       "avx2",
			needs:      []string{"avx2", "fma", "f16c"},
			mul:        mulAVX2,
			dot:        dotAVX2,
			quantize:   quantizeTail(quantizeAVX2),
			sumSquares: sumTail(sumSquaresAVX2),
			scaleMul:   scaleMulTail(scaleMulAVX2),
			add:        addTail(addAVX2),
			gate:       gateTail(gateAVX2),
			rotate:     rotateTail(rotateAVX2),
			max:        maxAVX2,
			blend:      blendTail(blendAVX2),
			scale:      scaleTail(scaleAVX2),
			attention:  attentionAVX2,
		}
		if x.HasAVXVNNI {
			list = append(list, base.with("avxvnni", dotAVXVNNI))
		}
		list = append(list, &base)
	}
	return list
}
