//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package usage

import (
	"os"
	"syscall"
	"time"
)

// lockFile takes an exclusive lock. Other processes need it for milliseconds, unless they,
// or the file system, have been stopped. If they hold it for longer than patience, the
// result is an error and counts stay in memory, so nobody hangs. The system releases the
// lock when a process ends, in whatever way.
func lockFile(f *os.File, patience time.Duration) error {
	const most = 20 * time.Millisecond
	for end, wait := time.Now().Add(patience), time.Millisecond; ; wait = min(2*wait, most) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR && (err != syscall.EWOULDBLOCK || time.Now().After(end)) {
			return err
		}
		time.Sleep(wait)
	}
}

func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
