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

// dataEnd is where the data of a file ends, as far as the file system knows. The rest of
// the file, if there is any, is a hole.
func dataEnd(f *os.File, size int64) int64 {
	var end int64
	for {
		data, err := unix.Seek(int(f.Fd()), end, unix.SEEK_DATA)
		if err == unix.ENXIO {
			return end // there is no data after end
		}
		if err != nil {
			return size
		}
		if end, err = unix.Seek(int(f.Fd()), data, unix.SEEK_HOLE); err != nil {
			return size
		}
	}
}

func syncAccount(f *os.File) error { return datasync(f) }

// exchange swaps the names of two files.
func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}
