package weights

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"unsafe"
)

// ErrLost says that a file that is in use was cut, or that its bytes cannot be read any more.
// The message around it names the file.
var ErrLost = errors.New("weights: a file that is in use was cut or cannot be read")

// File is a file that is mapped into memory. It stays open until the checkpoint is closed.
type File struct {
	path string
	fd   int
	size int64 // when it was mapped
}

// Check returns an error if the file is shorter than when it was mapped, or if the system
// does not say. A nil File, which is that of tensors in memory, is always whole. Check
// allocates nothing if it finds nothing.
func (f *File) Check() error {
	if f == nil {
		return nil
	}
	size, err := sizeOf(f.fd)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrLost, f.path, err)
	}
	if size < f.size {
		return fmt.Errorf("%w: %s has %d bytes, and had %d when it was opened", ErrLost, f.path, size, f.size)
	}
	return nil
}

// lost is the error of a fault in the file.
func (f *File) lost(tensor string) error {
	err := f.Check()
	if err == nil { // the disk failed, or the file is whole again
		err = fmt.Errorf("%w: %s", ErrLost, f.path)
	}
	if tensor != "" {
		err = fmt.Errorf("%w (tensor %.200q)", err, tensor)
	}
	return err
}

// CatchFault makes it an error, and not the end of the process, that the bytes of a tensor
// cannot be read, because its mapped file was cut or its disk has failed: the system then
// raises SIGBUS. A function that reads some tensors' Data defers it, with the setting that
// is restored:
//
//	func read(tensors []weights.Tensor) (err error) {
//		defer weights.CatchFault(debug.SetPanicOnFault(true), tensors, &err)
//
// This works in Go and in Go's assembly, but for the goroutine that defers it only, and not in
// C. Every other panic, also a fault at another address, goes on.
//
// Where a file ends within a page, the rest of the page reads as zeros without a
// fault. Who reads zeros, or has read all there is, asks [File.Check].
func CatchFault(before bool, tensors []Tensor, err *error) {
	debug.SetPanicOnFault(before)
	if v := recover(); v != nil {
		*err = faultIn(v, slices.Values(tensors))
	}
}

// CatchFault is the function of this name for all tensors of c.
func (c *Checkpoint) CatchFault(before bool, err *error) {
	debug.SetPanicOnFault(before)
	if v := recover(); v != nil {
		*err = faultIn(v, func(yield func(Tensor) bool) {
			for _, t := range c.tensors {
				if !yield(t) {
					return
				}
			}
		})
	}
}

// Fault is the error of a panic with v that is a fault in one of the tensors, and panics again
// with all others. It is for functions like CatchFault, which have to call recover themselves.
func Fault(v any, tensors []Tensor) error { return faultIn(v, slices.Values(tensors)) }

// faultIn is the error of a panic with v that is a fault in one of the tensors, and panics
// again with all others.
func faultIn(v any, tensors func(yield func(Tensor) bool)) error {
	fault, ok := v.(interface { // as debug.SetPanicOnFault says
		error
		Addr() uintptr
	})
	if !ok {
		panic(v)
	}
	for t := range tensors {
		if t.covers(fault.Addr()) {
			return t.File.lost(t.Name)
		}
		if p := t.Packed; p != nil {
			for _, part := range []*Tensor{&p.Scales, &p.Zeros} {
				if part.covers(fault.Addr()) {
					return part.File.lost(part.Name)
				}
			}
		}
	}
	panic(v)
}

// covers reports whether t's Data are mapped at this address.
func (t *Tensor) covers(addr uintptr) bool {
	first := uintptr(unsafe.Pointer(unsafe.SliceData(t.Data)))
	return t.File != nil && addr >= first && addr-first < uintptr(len(t.Data))
}

// Check returns an error if one of the files was cut since it was mapped.
func (c *Checkpoint) Check() error {
	for _, m := range c.files {
		if err := m.File.Check(); err != nil {
			return err
		}
	}
	return nil
}
