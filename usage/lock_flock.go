//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package usage

import (
	"os"
	"syscall"
	"time"
)

// lockPatience is how long others may hold the lock: they need milliseconds,
// unless they have been stopped, or the file system has. Counts then stay in
// memory for a while; nobody hangs.
const lockPatience = time.Second

// lockFile gets an exclusive lock. The system takes it back when the process
// ends, however it ends.
func lockFile(f *os.File) error {
	const most = 20 * time.Millisecond
	for end, wait := time.Now().Add(lockPatience), time.Millisecond; ; wait = min(2*wait, most) {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err != syscall.EINTR && (err != syscall.EWOULDBLOCK || time.Now().After(end)) {
			return err
		}
		time.Sleep(wait)
	}
}

func unlockFile(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
