//go:build unix

package weights

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the whole file. The mapping outlives f.
func mapFile(f *os.File, size int) (mapping, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return mapping{}, err
	}
	return mapping{data: b, release: func() error { return unix.Munmap(b) }}, nil
}
