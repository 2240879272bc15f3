//go:build !purego

package limits

import "golang.org/x/sys/cpu"

// asmChains is how many sums one turn of the assembly has.
const asmChains = 12

func native() loops {
	l := genericLoops()
	x := &cpu.X86
	if x.HasAVX2 && x.HasFMA {
		l.read, l.readForm = readAVX2, "VMOVDQU ymm"
		l.fma, l.fmaOps, l.fmaForm = fmaAVX2, 16*asmChains, "VFMADD231PS ymm"
		l.dot, l.dotOps, l.dotForm = dotAVX2, 64*asmChains, "VPMADDUBSW ymm"
		if x.HasAVXVNNI {
			l.dot, l.dotForm = dotVNNI256, "VPDPBUSD ymm"
		}
	}
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512VL {
		l.read, l.readForm = readAVX512, "VMOVDQU64 zmm"
		l.fma, l.fmaOps, l.fmaForm = fmaAVX512, 32*asmChains, "VFMADD231PS zmm"
		if x.HasAVX512VNNI {
			l.dot, l.dotOps, l.dotForm = dotVNNI512, 128*asmChains, "VPDPBUSD zmm"
		}
	}
	return l
}
