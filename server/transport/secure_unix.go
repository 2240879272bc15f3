//go:build unix

package transport

import (
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// readNow reads what a socket has and does not wait for more.
func readNow(raw syscall.RawConn, p []byte) (int, error) {
	var n int
	var err error
	// Control is used because Read would fail after the read deadline, which may have passed
	// long ago while an answer is being written.
	if raw.Control(func(fd uintptr) {
		for {
			if n, err = unix.Read(int(fd), p); err != unix.EINTR {
				return
			}
		}
	}) != nil {
		return 0, net.ErrClosed
	}
	switch {
	case err == unix.EAGAIN:
		return 0, errLater
	case err != nil:
		return 0, os.NewSyscallError("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}
