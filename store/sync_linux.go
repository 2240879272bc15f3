package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncsMaps says that a sync of a file also writes what was changed through a mapping.
const syncsMaps = true

// datasync makes durable what was written to a file, and of its metadata only what is
// needed to read that.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// dataEnd is an offset behind which a file consists of a hole, as far as the file system
// knows, and at most its size.
func dataEnd(f *os.File, size int64) int64 {
	var end int64
	for {
		data, err := unix.Seek(int(f.Fd()), end, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return end // there is no data behind end
		}
		if err != nil {
			return size
		}
		if end, err = unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE); err != nil {
			return size
		}
	}
}
