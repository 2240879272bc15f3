package limits

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

const hugePage = 2 << 20

func allocate(n int) ([]byte, func() error, error) {
	mapped, err := unix.Mmap(-1, 0, n+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, nil, err
	}
	// The kernel aligns to small pages; a huge one needs its own alignment.
	data := mapped[int(-uintptr(unsafe.Pointer(&mapped[0]))&(hugePage-1)):][:n]
	_ = unix.Madvise(data, unix.MADV_HUGEPAGE) // advice: without it reads are slower, not wrong
	return data, func() error { return unix.Munmap(mapped) }, nil
}
