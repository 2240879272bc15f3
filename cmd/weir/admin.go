package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// admin is a server's answer to weir store: a small HTTP server on a Unix socket in
// the data directory. Weir store needs it because the lock of the databases keeps
// every other process out of them. The socket asks for no key: who may write in the
// data directory may do everything that it offers anyway.
type admin struct {
	http *http.Server
	path string
	dir  *os.File // keeps the short name of the socket valid
}

const socketName = "admin.sock"

// Trailers of an answer. They say how it ended, which is known only after the body.
const (
	trailerError   = "Weir-Error"
	trailerDamaged = "Weir-Damaged"
)

// maxSocketPath is a length that fits into a Unix address on every system.
const maxSocketPath = 100

// socketPath is the address of the socket in dir. If its path is too long for an
// address, it goes through a descriptor of the directory, which must stay open as
// long as the address is used.
func socketPath(dir string) (path string, open *os.File, err error) {
	path = filepath.Join(dir, socketName)
	if len(path) <= maxSocketPath {
		return path, nil, nil
	}
	if open, err = os.Open(dir); err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", open.Fd(), socketName), open, nil
}

// startAdmin starts to answer weir store about the server's records.
func startAdmin(dir string, r *records) (*admin, error) {
	path, open, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	// A socket that is there belongs to a process that has ended, because this
	// process holds the lock of the databases.
	_ = os.Remove(path)
	ln, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	mux := http.NewServeMux()
	handle := func(pattern string, f func(w io.Writer, req *http.Request) (damaged int, err error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Trailer", trailerError+", "+trailerDamaged)
			damaged, err := f(w, req)
			w.Header().Set(trailerDamaged, strconv.Itoa(damaged))
			if err != nil {
				w.Header().Set(trailerError, err.Error())
			}
		})
	}
	stores := r.open()
	handle("GET /backup", func(w io.Writer, _ *http.Request) (int, error) { return stores.backup(w) })
	handle("GET /verify", func(w io.Writer, _ *http.Request) (int, error) { return stores.verify(w) })
	handle("GET /export", func(w io.Writer, req *http.Request) (int, error) { return stores.export(w, req.URL.Query()) })
	a := &admin{http: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}, path: path, dir: open}
	go func() { _ = a.http.Serve(ln) }() // it ends when the server is closed
	return a, nil
}

func (a *admin) Close() error {
	err := a.http.Close()
	if a.dir != nil {
		err = errors.Join(err, a.dir.Close())
	}
	return err
}

// askServer asks the server that uses dir and copies its answer to w. found is false
// if there is no such server.
func askServer(dir, query string, w io.Writer) (damaged int, found bool, err error) {
	path, open, err := socketPath(dir)
	if err != nil {
		return 0, false, nil // the directory does not exist, which the caller finds out as well
	}
	if open != nil {
		defer open.Close()
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}}}
	defer client.CloseIdleConnections()
	resp, err := client.Get("http://weir" + query)
	if err != nil {
		return 0, false, nil // no process listens
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, true, fmt.Errorf("the server answers %s", resp.Status)
	}
	if _, err := io.Copy(w, resp.Body); err != nil {
		return 0, true, fmt.Errorf("the server's answer ends early: %w", err)
	}
	damaged, _ = strconv.Atoi(resp.Trailer.Get(trailerDamaged))
	if text := resp.Trailer.Get(trailerError); text != "" {
		return damaged, true, errors.New(text)
	}
	return damaged, true, nil
}
