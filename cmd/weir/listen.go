package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"syscall"
)

// open opens the TCP port, or the Unix socket if there is one, and returns its URL.
func (o *listenOptions) open(secure bool) (ln net.Listener, url string, err error) {
	if o.socket != "" {
		if ln, err = listenUnix(o.socket, 0o660); err != nil {
			return nil, "", fmt.Errorf("--uds: %w", err)
		}
		return ln, "unix:" + o.socket, nil
	}
	if ln, err = net.Listen("tcp", net.JoinHostPort(o.host, strconv.Itoa(o.port))); err != nil {
		return nil, "", err
	}
	return ln, urlOf(ln, secure), nil
}

// listenUnix listens on a Unix socket at path. Those may connect whom the mode of the file lets write:
// with 0660 the owner and the group, so that a proxy can be let in. Closing the listener removes the file.
func listenUnix(path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return ln, nil
}

// removeStaleSocket removes a socket that no process listens on any more, as one
// that was killed leaves it. Anything else at path is an error.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket:
		return fmt.Errorf("%s exists and is not a socket", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("another process listens on %s", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// loopback reports whether only this machine can reach the address.
func loopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
