//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package usage

import (
	"os"
	"syscall"
)

// lockFile waits for an exclusive lock. The system gives it back when the
// process ends, however it ends.
func lockFile(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err != syscall.EINTR {
			return err
		}
	}
}

func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
