//go:build unix

package compute

import "golang.org/x/sys/unix"

// allocate maps memory outside the Go heap. On the heap, half a gigabyte of weights would keep
// the garbage collector from running while steps are measured.
func allocate(n int) ([]byte, func() error, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	return b, func() error { return unix.Munmap(b) }, err
}
