package transport

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"weir/auth"
	"weir/metrics"
	"weir/server/failure"
	"weir/usage"
)

// Server is an HTTP server that finds the functions of its routes with a Router.
type Server struct {
	cfg      Config
	log      *slog.Logger
	router   Router
	failures failure.Settings
	http     *fasthttp.Server
	conns    *connections
	queue    *Queue
	keys     *auth.Keyring
	bodies   budget
	draining atomic.Bool
	exposed  atomic.Bool // other machines can reach it
	usage    *usage.Ledger
	counts   *metrics.Metrics

	base context.Context // of every request
	stop context.CancelCauseFunc
}

// New returns a server that Serve starts. failures has the bounds of the surfaces; those
// of this package are filled in.
func New(cfg Config, router Router, failures failure.Settings, counts *metrics.Metrics) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, router: router, failures: cfg.failures(failures), keys: cfg.Keys, counts: counts,
		bodies: budget{most: cfg.MaxBodies},
	}
	s.base, s.stop = context.WithCancelCause(context.Background())
	watch := newWatcher(s.log)
	watch.peeks = cfg.PollClients
	s.conns = newConnections(watch, cfg.WriteTimeout)
	var err error
	if s.keys == nil {
		if s.keys, err = auth.New(cfg.APIKeys, ""); err != nil {
			return nil, err
		}
	}
	if s.queue, err = NewQueue(cfg.PrepareQueue, cfg.PrepareWorkers); err != nil {
		return nil, err
	}
	if s.usage = cfg.Usage; s.usage == nil {
		if s.usage, err = usage.Open(usage.DefaultConfig()); err != nil {
			return nil, err
		}
	}
	s.http = &fasthttp.Server{
		Handler:      s.handle,
		ErrorHandler: s.malformed,
		Name:         "weir",
		Logger:       httpLog{s.log},
		Concurrency:  cfg.MaxConnections,
		ConnState: func(nc net.Conn, state fasthttp.ConnState) {
			nc.(*conn).active.Store(state == fasthttp.StateActive)
		},

		ReadBufferSize: cfg.MaxHeader,
		ReadTimeout:    cfg.ReadTimeout,
		IdleTimeout:    cfg.IdleTimeout,

		// Handlers read bodies through this package, because fasthttp does not bound a
		// streamed body at all.
		StreamRequestBody:            true,
		DisablePreParseMultipartForm: true,
		CloseOnShutdown:              true,
		NoDefaultContentType:         true,
	}
	return s, nil
}

// httpLog takes what fasthttp logs: faults of single connections.
type httpLog struct{ log *slog.Logger }

func (l httpLog) Printf(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }

// RandomHex returns n random bytes in hexadecimal.
func RandomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// Serve answers the connections of ln until Shutdown, and then returns nil, at
// once if that came before. It may run for several listeners at a time.
func (s *Server) Serve(ln net.Listener) error {
	if a, ok := ln.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		s.Expose()
	}
	if err := s.http.Serve(&listener{ln, s.conns, &s.draining}); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// Expose says that other machines can reach the server. What is private is then refused
// to everybody without a key, even if there are no keys. Serve calls it for a listener
// that is not a loopback address.
func (s *Server) Expose() { s.exposed.Store(true) }

// Exposed reports whether Expose was called.
func (s *Server) Exposed() bool { return s.exposed.Load() }

// Drain makes handlers refuse new requests.
func (s *Server) Drain() { s.draining.Store(true) }

// Draining reports whether new requests are to be refused.
func (s *Server) Draining() bool { return s.draining.Load() }

// Queue is where requests wait for a worker to prepare them.
func (s *Server) Queue() *Queue { return s.queue }

// Usage are the requests and tokens by project.
func (s *Server) Usage() *usage.Ledger { return s.usage }

// Log is where the server logs.
func (s *Server) Log() *slog.Logger { return s.log }

// Now is the time, by the server's clock.
func (s *Server) Now() time.Time { return s.cfg.Clock() }

// Held is what a server holds for its clients. All of it is 0 when the last one has left.
type Held struct {
	Connections, Watched int   // open connections, and those whose client is watched
	Bodies               int64 // bytes of request bodies
}

// Held returns what the server holds now.
func (s *Server) Held() Held {
	s.conns.mu.Lock()
	open := len(s.conns.open)
	s.conns.mu.Unlock()
	return Held{open, s.conns.watch.watched(), s.bodies.used.Load()}
}

// grace is what requests get to tell their clients that the server stops, once
// Shutdown's context has ended.
const grace = 2 * time.Second

// Shutdown refuses new connections and requests, lets those in flight end, and
// returns when all have. When ctx ends first they are ended with an error, and
// ctx's error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	err := s.http.ShutdownWithContext(ctx)
	s.stop(failure.ErrDraining)
	if err != nil {
		// fasthttp has given up on its connections; they are ours to end.
		s.conns.await(grace, (*conn).answering)
	}
	s.conns.abort()
	if !s.conns.await(grace, nil) {
		err = errors.Join(err, errors.New("server: a connection does not end"))
	}
	s.conns.watch.close()
	s.queue.Close()
	return err
}
