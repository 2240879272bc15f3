package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
)

// lifeOptions say how the server ends, and where its operator talks to it.
type lifeOptions struct {
	delay, shutdown time.Duration
	admin           string // --admin-listen

	dump io.Writer // where the flight recorder is dumped
}

func (o *lifeOptions) bind(f *flagSet) {
	o.shutdown = 30 * time.Second
	f.group("Operation")
	f.Var((*span)(&o.delay), "drain-delay", "how long new requests are still taken after SIGTERM or SIGINT, while /ready is 503 already, so that load balancers notice")
	f.Var((*span)(&o.shutdown), "shutdown-timeout", "how long requests may continue after that")
	f.StringVar(&o.admin, "admin-listen", "", "`address` for the operator, with pprof, the newest steps, metrics, health and draining, and without keys: unix:PATH, which only the owner may open, or HOST:PORT on a loopback address (default: none)")
}

// validate refuses an address that others could reach.
func (o *lifeOptions) validate() error {
	if o.admin == "" {
		return nil
	}
	if path, ok := strings.CutPrefix(o.admin, "unix:"); ok {
		if path == "" {
			return usageError{errors.New("--admin-listen unix: has no path")}
		}
		return nil
	}
	host, port, err := net.SplitHostPort(o.admin)
	if err != nil {
		return usageError{fmt.Errorf("--admin-listen %s is neither unix:PATH nor HOST:PORT", o.admin)}
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return usageError{fmt.Errorf("--admin-listen %s: %s is no port", o.admin, port)}
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usageError{fmt.Errorf("--admin-listen %s: there are no keys at this address, so it has to be a loopback address or unix:PATH", o.admin)}
	}
	return nil
}

// listeners are all sockets of a server.
type listeners struct {
	public []net.Listener
	urls   []string     // of public
	admin  net.Listener // nil: there is none
}

// adminName is the name (FileDescriptorName=) of the socket for the operator, of those that systemd has opened.
const adminName = "admin"

// openAll opens the sockets that flags name. Those that systemd has opened take their place.
func (o *serveOptions) openAll(secure bool) (*listeners, error) {
	l := &listeners{}
	given, err := activation.ListenersWithNames()
	if err != nil {
		return nil, fmt.Errorf("sockets of systemd: %w", err)
	}
	for name, lns := range given {
		for _, ln := range lns {
			switch {
			case ln == nil:
				return nil, fmt.Errorf("sockets of systemd: %s is no socket that listens for streams", name)
			case name != adminName:
				l.public, l.urls = append(l.public, ln), append(l.urls, urlOf(ln, secure))
			case l.admin != nil || !loopback(ln.Addr()):
				return nil, fmt.Errorf("sockets of systemd: %s has to be one Unix socket or loopback port", adminName)
			default:
				l.admin = ln
			}
		}
	}
	if len(l.public) == 0 {
		ln, url, err := o.listen.open(secure)
		if err != nil {
			return nil, err
		}
		l.public, l.urls = []net.Listener{ln}, []string{url}
	}
	if l.admin == nil && o.life.admin != "" {
		if l.admin, err = o.life.open(); err != nil {
			return nil, errors.Join(fmt.Errorf("--admin-listen: %w", err), l.public[0].Close())
		}
	}
	return l, nil
}

// urlOf is the URL of a socket.
func urlOf(ln net.Listener, secure bool) string {
	if ln.Addr().Network() == "unix" {
		return "unix:" + ln.Addr().String()
	}
	if secure {
		return "https://" + ln.Addr().String()
	}
	return "http://" + ln.Addr().String()
}

// open opens the socket for the operator.
func (o *lifeOptions) open() (net.Listener, error) {
	if path, ok := strings.CutPrefix(o.admin, "unix:"); ok {
		return listenUnix(path, 0o600)
	}
	return net.Listen("tcp", o.admin)
}
