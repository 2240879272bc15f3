//go:build unix

package kvstore

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes an exclusive lock that lasts until f is closed, or fails if another has it.
func lockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// freeBytes is how much room the disk of dir has.
func freeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// exposed reports whether others than the owner can read a file.
func exposed(m fs.FileMode) bool { return m.Perm()&0o077 != 0 }
