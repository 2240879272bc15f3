package cpu

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

func mapSegment(n int, huge bool) (segment, error) {
	// No MAP_NORESERVE: what this machine can never hold is to be refused now.
	// A huge page needs an aligned 2 MiB; the system aligns to 4 KiB only.
	mapped, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return segment{}, err
	}
	skip := int(-uintptr(unsafe.Pointer(&mapped[0])) & (hugePage - 1))
	data := mapped[skip:][:n]
	if huge {
		// Advice: without transparent huge pages all works, only slower.
		_ = unix.Madvise(data, unix.MADV_HUGEPAGE)
	}
	return segment{data: data, mapped: mapped}, nil
}

func unmapSegment(s segment) error { return unix.Munmap(s.mapped) }
