package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// healthOptions are the flags of weir health. Those that weir serve has too are also read
// from the same variables of the environment, so that in a container both know the port.
type healthOptions struct {
	port     int
	socket   string
	rootPath string
	cert     string // --ssl-certfile
	admin    string // --admin-listen
	timeout  time.Duration
}

func (o *healthOptions) bind(f *flagSet) {
	f.IntVar(&o.port, "port", 8000, "TCP `port` of the server on this machine")
	f.StringVar(&o.socket, "uds", "", "`path` of the server's Unix domain socket, instead of a port")
	f.StringVar(&o.rootPath, "root-path", "", "`prefix` of every URL path")
	f.StringVar(&o.cert, "ssl-certfile", "", "PEM `file` with the server's certificate, if it speaks HTTPS")
	f.StringVar(&o.admin, "admin-listen", "", "`address` of the operator's listener, unix:PATH or HOST:PORT, to ask in place of the port")
	f.DurationVar(&o.timeout, "timeout", 2*time.Second, "how long to wait for the answer")
}

func setupHealth(f *flagSet, env *environment) action {
	o := &healthOptions{}
	o.bind(f)
	return func(args []string) error {
		if err := noArguments("health", args); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), o.timeout)
		defer cancel()
		if err := o.ask(ctx); err != nil {
			return err
		}
		fmt.Fprintln(env.out, "healthy")
		return nil
	}
}

// ask asks the server's /health. An answer other than 200 is an error.
func (o *healthOptions) ask(ctx context.Context) error {
	address, network := net.JoinHostPort("127.0.0.1", strconv.Itoa(o.port)), "tcp"
	if o.socket != "" {
		address, network = o.socket, "unix"
	}
	if path, unix := strings.CutPrefix(o.admin, "unix:"); unix {
		address, network = path, "unix"
	} else if o.admin != "" {
		address = o.admin
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	defer transport.CloseIdleConnections()
	scheme := "http"
	root := strings.TrimRight(o.rootPath, "/")
	if o.admin != "" {
		root = ""
	} else if o.cert != "" {
		// The server is on this machine. That it has another certificate by now does not make it unhealthy.
		scheme, transport.TLSClientConfig = "https", &tls.Config{InsecureSkipVerify: true}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://localhost"+root+"/health", nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(req)
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer from %s within %v", address, o.timeout)
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return fmt.Errorf("%s answers %s %s", address, resp.Status, strings.TrimSpace(string(text)))
	}
	return nil
}
