//go:build !purego

package cpu

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/cpu"

	"weir/sampler"
)

// pause executes n > 0 PAUSE instructions: it waits without taking the core's
// resources from its other thread.
//
//go:noescape
func pause(n int)

// native returns what this processor can run, best first.
//
// avx512bf16 is a tier of its own because VDPBF16PS takes activations, queries
// and the weights of attention in bfloat16, where every other tier multiplies
// with float32. It does twice as much as a fused multiply-add on Zen 4, and no
// more on Intel's processors.
func native() []*impl {
	var list []*impl
	x := &cpu.X86
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL {
		base := impl{
			name:        "avx512",
			needs:       []string{"avx512f", "avx512bw", "avx512vl"},
			mul:         mulAVX512,
			mulFP8:      mulFP8AVX512,
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
			pick:        sampler.Kernels{Near: nearAVX512},
			attention:   attentionAVX512,
			pointwise:   pointwiseTail(pointwiseAVX512),
			recurrent:   recurrentAVX512,
		}
		if x.HasAVX2 && x.HasFMA && x.HasF16C { // VPDPBUSD is what makes 512 bits worth it
			base.blocks, base.turn = blocksAVX2(), turnAVX2
		}
		if x.HasAVX512DQ { // all processors with AVX512BW have it, but CPUID lists it apart
			base.pick = sampler.Kernels{Near: nearAVX512, Load: pickLoadAVX512, Mass: pickMassAVX512, Above: pickAboveAVX512, Between: pickBetweenAVX512}
		}
		if x.HasAVX512VNNI {
			vnni := base.with("avx512vnni", dotAVX512VNNI)
			vnni.blocks = blockKernels{round: sumsTail(roundSumsAVX512), dot: dotBlocksAVX512VNNI, widen: widenAVX512}
			vnni.dots[Int8], vnni.toInt8 = dotsVNNIAVX512, toInt8AVX512 // the same integers, faster
			if byAMD() {
				// VSCALEFPS leaves the multipliers to the products on Zen 4. On Intel's
				// processors it takes two slots of them, a multiplication takes one.
				vnni.dot, vnni.exponents = dotAVX512VNNIExponents, true
				vnni.quantize = exponentTail(quantizeExponentsAVX512)
			}
			list = append(list, vnni)
			if x.HasAVX512BF16 {
				bf16 := vnni.with("avx512bf16", vnni.dot)
				bf16.dot[BF16], bf16.narrow = dotBF16AVX512, narrowTail(narrowBF16AVX512)
				bf16.dots[BF16], bf16.toPairs = dotsPairsAVX512, toPairsAVX512
				list = slices.Insert(list, len(list)-fastPairs(), bf16)
			}
			if x.HasAMXTile && x.HasAMXInt8 && x.HasAMXBF16 && permitTiles() {
				amx := vnni.with("amx", vnni.dot)
				amx.needs = append(amx.needs, "amx_tile", "amx_int8", "amx_bf16")
				amx.dot[BF16], amx.narrow = amxBF16(), narrowTail(narrowBF16AVX512)
				amx.dot[W8A8] = dotAMXW8A8
				list = slices.Insert(list, 0, amx)
			}
		}
		list = append(list, &base)
	}
	if x.HasAVX2 && x.HasFMA && x.HasF16C {
		base := impl{
			name:        "avx2",
			needs:       []string{"avx2", "fma", "f16c"},
			far:         true,
			mul:         mulAVX2,
			mulFP8:      mulFP8AVX2,
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
			pointwise:   pointwiseTail(pointwiseAVX2),
			recurrent:   recurrentAVX2,
		}
		base.blocks, base.turn = blocksAVX2(), turnAVX2
		if x.HasAVXVNNI {
			vnni := base.with("avxvnni", dotAVXVNNI)
			vnni.blocks = blocksAVXVNNI()
			list = append(list, vnni)
		}
		base.pairs = pairsAVX2
		list = append(list, &base)
	}
	return list
}

// turnAVX2 are kernels that turn tiles.
var turnAVX2 = [Int8 + 1]func(to, from []byte, flip byte){BF16: func(to, from []byte, _ byte) { turnPairsAVX2(to, from) }, Int8: turnBytesAVX2}

// blocksAVX2 are kernels for tiles of blocks. All tiers compute the same bits, so any may have
// them.
func blocksAVX2() blockKernels {
	return blockKernels{round: lanesTail(roundLanesAVX2), lanes: true, dot: dotBlocksAVX2, expand: expandAVX2, dotExpanded: dotExpandedAVX2, widen: widenAVX2}
}

// blocksAVXVNNI adds up whole blocks in 32 bits, which needs no sums of lanes.
func blocksAVXVNNI() blockKernels {
	return blockKernels{round: sumsTail(roundSumsAVX2), dot: dotBlocksAVXVNNI, expand: expandAVX2, dotExpanded: dotExpandedAVXVNNI, widen: widenAVX2}
}

// vendor is the first four letters of the processor's maker.
func vendor() uint32

func byAMD() bool { return vendor() == 'A'|'u'<<8|'t'<<16|'h'<<24 } // AuthenticAMD

// fastPairs is 1 if VDPBF16PS is worth its rounding, 0 if not.
func fastPairs() int {
	if byAMD() {
		return 1
	}
	return 0
}

// narrowTail leaves the numbers after the last multiple of 16 to the plain loop.
func narrowTail(f func(dst []byte, x []float32)) func(dst []byte, x []float32) {
	return func(dst []byte, x []float32) {
		n := head(len(x))
		f(dst[:2*n], x[:n])
		for i, v := range x[n:] {
			binary.LittleEndian.PutUint16(dst[2*(n+i):], toBF16(v))
		}
		if len(x)%2 == 1 {
			binary.LittleEndian.PutUint16(dst[2*len(x):], 0)
		}
	}
}
