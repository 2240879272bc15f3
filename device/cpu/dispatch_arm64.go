//go:build !purego

package cpu

import (
	"math"

	"golang.org/x/sys/cpu"
)

// pause waits for n short moments. Each is an ISB instruction, because YIELD does
// nothing on most processors.
//
//go:noescape
func pause(n int)

// native returns what this processor can run, best first. Every arm64 processor
// has NEON; the integer products came later.
//
// SMMLA is not used: it needs eight columns of a row in one register, while the tiles
// have four, and joining them costs as much as it saves.
func native() []*impl {
	base := impl{
		name:        "neon",
		mul:         mulNEON,
		mulFP8:      generic().mulFP8,
		dot:         generic().dot,
		quantize:    quantizeTail(quantizeNEON),
		quantizeAll: quantizeWhole(largestNEON, roundNEON),
		sumSquares:  sumTail(sumSquaresNEON),
		scaleMul:    scaleMulTail(scaleMulNEON),
		add:         addTail(addNEON),
		gate:        gateTail(gateNEON),
		rotate:      rotateTail(rotateNEON),
		max:         maxNEON,
		blend:       blendTail(blendNEON),
		scale:       scaleTail(scaleNEON),
		attention:   attentionGeneric(),
		pointwise:   pointwiseTail(pointwiseNEON),
		recurrent:   recurrentNEON,
	}
	base.expSum, base.expSumScaled, base.absMax, base.prefetch = expSumNEON, expSumScaledNEON, absMaxNEON, prefetchNEON
	for f := F32; f <= BF16; f++ {
		base.dots[f] = dotsNEON[f]
	}
	list := []*impl{&base}
	if cpu.ARM64.HasASIMDDP {
		base.blocks = blockKernels{expand: expandNEON, dotExpanded: dotExpandedNEON}
		base.blocks.round = roundSumsNEON
		list = append([]*impl{base.with("dotprod", dotDotProd)}, list...)
		if cpu.ARM64.HasI8MM {
			list = append([]*impl{base.with("i8mm", dotI8MM)}, list...)
		}
	}
	return list
}

// roundSumsNEON is blockKernels.round, with sums in plain Go.
func roundSumsNEON(dst []byte, x []float32) {
	var group [groupRow]byte
	n := len(x) / groupColumns
	for g := range n {
		quantizeNEON(group[:], x[g*groupColumns:][:groupColumns])
		for b := range 2 {
			sumOne(dst[(2*g+b)*sumBlock:][:sumBlock], group[16+b*blockColumns:][:blockColumns], group[8+4*b:][:4])
		}
	}
	roundSums(dst[n*2*sumBlock:], x[n*groupColumns:])
}

func largestNEON(x []float32) uint32 { return math.Float32bits(absMaxNEON(x)) }
