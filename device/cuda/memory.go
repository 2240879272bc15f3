//go:build cuda && linux && amd64

package cuda

import (
	"errors"
	"fmt"
	"math"
	"unsafe"

	"gorgonia.org/cu"

	"weir/internal/cudrv"
)

const (
	align = 256      // of every address that a kernel gets
	slab  = 64 << 20 // the least that is asked of the driver for weights: it rounds every allocation up to pages of 2 MiB
)

// arena allocates device memory that is freed all at once.
type arena struct {
	blocks []cu.DevicePtr
	next   uint64 // free memory of the newest block
	left   int64
	total  int64 // bytes asked of the driver
}

// reserve makes the next calls of bytes, up to n bytes in sum, part of one
// allocation.
func (a *arena) reserve(n int64) error {
	p, err := cu.MemAlloc(n)
	if err != nil {
		return deviceError(fmt.Sprintf("allocate %d MiB", n>>20), err)
	}
	a.blocks = append(a.blocks, p)
	a.next, a.left = uint64(p), n
	a.total += n
	return nil
}

// bytes returns n bytes, aligned, their contents undefined.
func (a *arena) bytes(n int64) (uint64, error) {
	n = max(roundUp(n, align), align)
	if n > a.left {
		if err := a.reserve(max(n, slab)); err != nil {
			return 0, err
		}
	}
	p := a.next
	a.next += uint64(n)
	a.left -= n
	return p, nil
}

func (a *arena) close() error {
	var err error
	for _, p := range a.blocks {
		err = errors.Join(err, cudrv.Wrap(cu.MemFree(p)))
	}
	*a = arena{}
	return err
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// product multiplies sizes, and refuses those that no memory can have.
func product(factors ...int) (int64, error) {
	n := int64(1)
	for _, f := range factors {
		if f < 0 || f > 0 && n > math.MaxInt64/4/int64(f) {
			return 0, fmt.Errorf("%w: sizes %v are too large", ErrConfig, factors)
		}
		n *= int64(f)
	}
	return n, nil
}

// pinned is host memory that the device can read and write, of which the first n bytes
// are in use.
type pinned struct {
	mem []byte
	dev uint64 // its address on the device
	n   int    // bytes in use
}

func newPinned(n int) (pinned, error) {
	m, err := cudrv.HostAlloc(int(roundUp(int64(max(n, 1)), 4096)))
	if err != nil {
		return pinned{}, deviceError(fmt.Sprintf("allocate %d KiB of pinned memory", n>>10), err)
	}
	p, err := cudrv.HostPtr(m)
	if err != nil {
		return pinned{}, errors.Join(deviceError("map pinned memory", err), cudrv.HostFree(m))
	}
	return pinned{mem: m, dev: uint64(p)}, nil
}

func (p *pinned) free() error {
	err := cudrv.HostFree(p.mem)
	*p = pinned{}
	return err
}

func (p *pinned) pointer() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(p.mem)) }

// take lays out room for n values of T, aligned to 16 bytes, and returns it with
// its offset. The memory was sized for it.
func take[T any](p *pinned, n int) ([]T, int) {
	p.n = int(roundUp(int64(p.n), 16))
	at, size := p.n, n*int(unsafe.Sizeof(*new(T)))
	p.n += size
	if n == 0 {
		return nil, at
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&p.mem[at : at+size : at+size][0])), n), at
}

// of is a slice's bytes.
func of[T any](s []T) []byte {
	if len(s) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(s[0])))
}
