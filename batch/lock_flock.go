//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package batch

import (
	"errors"
	"os"
	"syscall"
)

// lock takes a lock on a file, which ends with the process.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another process is writing it")
	}
	return err
}
