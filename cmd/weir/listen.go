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

// listen opens the port, or the socket in its place, and says where it is.
func (h *httpOptions) listen() (ln net.Listener, url string, err error) {
	if *h.socket != "" {
		if ln, err = listenUnix(*h.socket); err != nil {
			return nil, "", err
		}
		return ln, "unix:" + *h.socket, nil
	}
	if ln, err = net.Listen("tcp", net.JoinHostPort(*h.host, strconv.Itoa(*h.port))); err != nil {
		return nil, "", err
	}
	return ln, "http://" + ln.Addr().String(), nil
}

// listenUnix listens on a socket at path. A socket that nobody listens on any
// more, because its process was killed, is replaced; anything else that is there
// is not. Owner and group may connect, so that a proxy can be let in. The listener
// removes the socket when it is closed.
func listenUnix(path string) (net.Listener, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("--uds: %w", err)
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("--uds: %s is there and is no socket", path)
	default:
		c, err := net.Dial("unix", path)
		if err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("--uds: another process listens on %s", path)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("--uds: %w", err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("--uds: %w", err)
		}
	}
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("--uds: %w", err)
	}
	if err := os.Chmod(path, 0o660); err != nil {
		return nil, errors.Join(fmt.Errorf("--uds: %w", err), ln.Close())
	}
	return ln, nil
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
