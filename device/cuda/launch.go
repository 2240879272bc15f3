//go:build cuda && linux && amd64

package cuda

import (
	"math"
	"unsafe"

	"gorgonia.org/cu"

	"weir/device/cuda/kernels"
	"weir/internal/cudrv"
	"weir/internal/invariants"
)

// kernel is an entry of the launch table that can be launched.
type kernel struct {
	fn       cu.Function
	entry    *kernels.Entry
	launches int // for Lab.Launched
}

const maxWords = 32

// launcher puts kernels on a stream through cu, without an allocation: cu reads eight
// bytes at each pointer, for parameters of any type.
type launcher struct {
	stream  cu.Stream
	copying copying
	words   [maxWords]uint64
	ptrs    [maxWords]unsafe.Pointer
	params  *cudrv.Params // of launches with tensor maps
}

func (l *launcher) bind() {
	for i := range l.ptrs {
		l.ptrs[i] = unsafe.Pointer(&l.words[i])
	}
}

// launch queues k over a grid of blocks. words are its parameters.
func (l *launcher) launch(k *kernel, x, y, z int, words ...uint64) error {
	if invariants.Enabled {
		invariants.Check(len(words) == len(k.entry.Params), "cuda: %d parameters for %s, which has %d", len(words), k.entry.Name, len(k.entry.Params))
	}
	if x == 0 || y == 0 || z == 0 {
		return nil
	}
	k.launches++
	n := copy(l.words[:], words)
	if err := k.fn.Launch(x, y, z, k.entry.Threads, 1, 1, k.entry.Shared, l.stream, l.ptrs[:n]); err != nil {
		return deviceError("launch "+k.entry.Name, err)
	}
	return nil
}

// tensor is a row-major bf16 matrix as a kernel's first parameter.
type tensor struct {
	base           uint64
	rows, cols, ld int
	boxRows        int
}

// launchTensor queues a kernel whose first parameter is a tensor map, which cu
// cannot pass.
func (l *launcher) launchTensor(k *kernel, x, y, z int, t tensor, words ...uint64) error {
	if invariants.Enabled {
		invariants.Check(len(words)+1 == len(k.entry.Params), "cuda: %d parameters for %s, which has %d", len(words)+1, k.entry.Name, len(k.entry.Params))
	}
	return l.launchTensors(k, x, y, z, []tensor{t}, words...)
}

// launchTensors is launchTensor for several maps.
func (l *launcher) launchTensors(k *kernel, x, y, z int, maps []tensor, words ...uint64) error {
	k.launches++
	l.params.Reset()
	for _, t := range maps {
		if err := l.params.MapBF16(cu.DevicePtr(t.base), t.cols, t.rows, t.ld*2, t.boxRows); err != nil {
			return deviceError("describe a matrix to "+k.entry.Name, err)
		}
	}
	for _, w := range words {
		l.params.Word(w)
	}
	g := cudrv.Grid{X: x, Y: y, Z: z, Threads: k.entry.Threads, Shared: k.entry.Shared}
	if err := cudrv.LaunchEx(k.fn, g, l.stream, 1, false, l.params); err != nil {
		return deviceError("launch "+k.entry.Name, err)
	}
	return nil
}

// i32 and f32 are parameters of four bytes.
func i32(v int) uint64     { return uint64(uint32(int32(v))) }
func f32(v float32) uint64 { return uint64(math.Float32bits(v)) }

func cdiv(a, b int) int { return (a + b - 1) / b }
