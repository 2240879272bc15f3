package cpu

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

func mapSegment(n int, huge bool) (segment, error) {
	// There is no MAP_NORESERVE, so the system refuses now what the machine can never
	// hold. A huge page needs alignment to 2 MiB, and mmap aligns to 4 KiB only.
	mapped, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return segment{}, err
	}
	skip := int(-uintptr(unsafe.Pointer(&mapped[0])) & (hugePage - 1))
	data := mapped[skip:][:n]
	if huge {
		// An error is ignored: without huge pages all works, only slower.
		_ = unix.Madvise(data, unix.MADV_HUGEPAGE)
	}
	return segment{data: data, mapped: mapped}, nil
}

// collapse replaces small pages by huge ones. There are small ones if the system gives
// huge pages only on request, or had none left when the memory was first touched.
func collapse(b []byte) {
	if b = pages(b); len(b) >= hugePage {
		_ = unix.Madvise(b, unix.MADV_COLLAPSE) // ignored again: old kernels do not know it
	}
}

// interleave spreads pages that have not been touched yet over the memory nodes.
func interleave(b []byte, nodes []int) error {
	const mpolInterleave = 3 // linux/mempolicy.h
	var mask [maxNodes / 64]uint64
	for _, n := range nodes {
		mask[n/64] |= 1 << (n % 64)
	}
	if b = pages(b); len(b) == 0 {
		return nil
	}
	// The kernel reads one bit less than the number that it is passed.
	_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), mpolInterleave, uintptr(unsafe.Pointer(&mask)), maxNodes+1, 0)
	if errno != 0 {
		return fmt.Errorf("cpu: spread %d MiB over the memory nodes %v: %w", len(b)>>20, nodes, errno)
	}
	return nil
}

// pages is the part of b that consists of whole pages.
func pages(b []byte) []byte {
	size := unix.Getpagesize()
	skip := min(len(b), int(-uintptr(unsafe.Pointer(unsafe.SliceData(b)))&uintptr(size-1)))
	return b[skip:][:(len(b)-skip)&^(size-1)]
}

func unmapSegment(s segment) error { return unix.Munmap(s.mapped) }
