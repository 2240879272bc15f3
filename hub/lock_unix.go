//go:build unix

package hub

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// tryLock takes the lock of a file without waiting, as Python's filelock does on Unix: with
// flock on the file, which stays where it is afterwards. unlock is nil if another process has the
// lock. The error wraps errors.ErrUnsupported where the file system has no locks.
//
// Older versions of filelock remove the file when they unlock it. A lock on a removed file is
// none, so the file is looked at again.
func tryLock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o664)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, unix.EACCES):
		return nil, f.Close()
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOLCK), errors.Is(err, unix.EINVAL):
		_ = f.Close()
		return nil, errors.ErrUnsupported
	case err != nil:
		return nil, errors.Join(&os.PathError{Op: "flock", Path: path, Err: err}, f.Close())
	}
	held, err := f.Stat()
	named, failed := os.Stat(path)
	if err != nil || failed != nil || !os.SameFile(held, named) {
		return nil, f.Close() // somebody has replaced it
	}
	return func() { _ = f.Close() }, nil
}

// freeSpace is how many bytes may be written below a folder without privileges.
func freeSpace(dir string) (free int64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(min(uint64(s.Bavail)*uint64(s.Bsize), 1<<62)), true
}
