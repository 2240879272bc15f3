package cpu

import (
	"fmt"
	"math"
	"math/bits"
	"unsafe"
)

const (
	cacheLine   = 64
	hugePage    = 2 << 20
	segmentSize = 16 << 20
	maxBytes    = math.MaxInt / 4 // sums of a few sizes do not overflow
)

// An arena hands out zeroed memory that lives until close and never moves. If the
// system can map memory, it is outside of the Go heap, so the garbage collector does
// not scan gigabytes of weights and does not set its pace by their size.
//
// Memory that is never touched costs address space only.
type arena struct {
	huge     bool
	segments []segment
	free     []byte // the rest of the newest segment
	total    int64  // bytes handed out
}

// segment is one mapping.
type segment struct {
	data   []byte // aligned
	mapped []byte // all of the mapping, for unmapSegment
}

// bytes returns n zeroed bytes that share no cache line with others. A large piece
// gets a segment of its own.
func (a *arena) bytes(n int) ([]byte, error) {
	if n < 0 || n > maxBytes {
		return nil, fmt.Errorf("%w: %d bytes are more than any machine has", ErrConfig, n)
	}
	n = (n + cacheLine - 1) &^ (cacheLine - 1)
	if n > len(a.free) {
		s, err := mapSegment(max(n, segmentSize), a.huge)
		if err != nil {
			return nil, fmt.Errorf("cpu: allocate %d MiB: %w", (n+1<<20-1)>>20, err)
		}
		a.segments = append(a.segments, s)
		if len(s.data)-n < len(a.free) { // the old rest is larger: keep it
			a.total += int64(n)
			return s.data[:n:n], nil
		}
		a.free = s.data
	}
	b := a.free[:n:n]
	a.free = a.free[n:]
	a.total += int64(n)
	return b, nil
}

// floats returns n zeroed numbers that share no cache line with others.
func (a *arena) floats(n int) ([]float32, error) {
	size, err := sizeOf(n, 4)
	if err != nil {
		return nil, err
	}
	b, err := a.bytes(size)
	if err != nil || n == 0 {
		return nil, err
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), n), nil
}

// close releases all memory. Nothing that was handed out may be touched afterwards.
func (a *arena) close() error {
	var first error
	for _, s := range a.segments {
		if err := unmapSegment(s); err != nil && first == nil {
			first = fmt.Errorf("cpu: release memory: %w", err)
		}
	}
	*a = arena{huge: a.huge}
	return first
}

// sizeOf is the product of sizes, an error if it is more than memory can hold.
func sizeOf(factors ...int) (int, error) {
	p := uint64(1)
	for _, f := range factors {
		if f < 0 {
			return 0, fmt.Errorf("%w: negative size %d", ErrConfig, f)
		}
		hi, lo := bits.Mul64(p, uint64(f))
		if hi != 0 || lo > maxBytes {
			return 0, fmt.Errorf("%w: a size of %v elements is more than any machine has", ErrConfig, factors)
		}
		p = lo
	}
	return int(p), nil
}
