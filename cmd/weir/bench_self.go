package main

import (
	"net"
	"os"
	"path/filepath"

	"weir/server"
)

// selfBench is what /v1/bench needs; nil: there is no such path.
func (s *service) selfBench() (*server.Bench, error) {
	if !s.options.api.bench {
		return nil, nil
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	b := &server.Bench{Command: []string{program}, URL: func() string {
		if url := s.ownURL.Load(); url != nil {
			return *url
		}
		return ""
	}}
	if s.options.records.dir != "" {
		b.Dir = filepath.Join(s.options.records.dir, "bench")
	}
	return b, nil
}

// urlHere is the URL by which this machine reaches the first listener with a TCP port; "": there is none.
func urlHere(lns []net.Listener, secure bool) string {
	for _, ln := range lns {
		a, ok := ln.Addr().(*net.TCPAddr)
		if !ok {
			continue
		}
		host := *a
		if host.IP.IsUnspecified() {
			host.IP = net.IPv4(127, 0, 0, 1)
		}
		if secure {
			return "https://" + host.String()
		}
		return "http://" + host.String()
	}
	return ""
}
