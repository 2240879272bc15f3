//go:build unix

package weights

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the whole file. f belongs to the mapping from then on, also if it fails.
func mapFile(f *os.File, size int) (Mapping, error) {
	fd := int(f.Fd())
	b, err := unix.Mmap(fd, 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return Mapping{}, errors.Join(err, f.Close())
	}
	return Mapping{
		Data: b, File: &File{path: f.Name(), fd: fd, size: int64(size)},
		release: func() error { return errors.Join(unix.Munmap(b), f.Close()) },
	}, nil
}

// sizeOf is the size that an open file has now.
func sizeOf(fd int) (int64, error) {
	var s unix.Stat_t
	err := unix.Fstat(fd, &s)
	return s.Size, err
}

// identityOf is the identity of an open file.
func identityOf(fd int) (string, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return "", err
	}
	return fileIdentity(uint64(s.Dev), s.Ino, s.Size, s.Mtim.Nano()), nil
}
