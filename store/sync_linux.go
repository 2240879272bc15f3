package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// syncsMaps says that a sync of a file writes what was changed through a map of it.
const syncsMaps = true

// datasync makes last what was written to a file, and of what is kept about it
// only what is needed to read that.
func datasync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); err != unix.EINTR {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
