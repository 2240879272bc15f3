package transport

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"weir/auth"
	"weir/internal/invariants"
	"weir/internal/memory"
	"weir/metrics"
	"weir/ratelimit"
	"weir/server/failure"
	"weir/usage"
)

// Server is an HTTP server. A Router tells it the function of each path.
type Server struct {
	cfg      Config
	log      *slog.Logger
	router   Router
	failures failure.Settings
	http     *fasthttp.Server
	conns    *connections
	queue    *Queue
	turns    *Turns
	keys     *auth.Keyring
	pages    *pages
	memory   *memory.Account
	bodies   *bodies
	ongoing  ongoing
	leaving  atomic.Bool // see Leave
	draining drain
	stops    atomic.Pointer[time.Time] // when requests in flight are ended; nil: that is not known
	closing  atomic.Bool               // the listeners are being closed
	exposed  atomic.Bool               // see Expose
	usage    *usage.Ledger
	limits   *ratelimit.Limiter
	counts   *metrics.Metrics

	ended bool // Shutdown has ended all requests

	base context.Context // the parent of the contexts of all requests
	stop context.CancelCauseFunc
}

// New returns a server, which Serve starts. failures has the bounds of the handlers that
// appear in messages of errors; New adds those of this package.
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
		memory: memory.New(cfg.Memory, cfg.MemoryWait),
	}
	s.bodies = newBodies(&cfg, s.memory)
	s.base, s.stop = context.WithCancelCause(context.Background())
	watch := newWatcher(s.log)
	watch.peeks = cfg.PollClients
	s.conns = newConnections(watch, cfg.WriteTimeout, max(1, min(cfg.MaxConnections, openFiles()/4*3)), time.Now)
	s.conns.handshakes.most, s.conns.handshakes.within, s.conns.handshakes.failed = cfg.MaxHandshakes, cfg.HandshakeTimeout, s.unsecured
	var err error
	if s.keys == nil {
		if s.keys, err = auth.New(cfg.APIKeys, ""); err != nil {
			return nil, err
		}
	}
	counts.SetConnections(s.connections)
	s.pages = newPages(&cfg, s.keys.Open())
	if s.queue, err = NewQueue(cfg.PrepareQueue, cfg.PrepareWorkers); err != nil {
		return nil, err
	}
	s.turns = newTurns(cfg.Queries, time.Now)
	if s.usage = cfg.Usage; s.usage == nil {
		if s.usage, err = usage.Open(usage.DefaultConfig()); err != nil {
			return nil, err
		}
	}
	if s.limits = cfg.KeyLimits; s.limits == nil {
		if s.limits, err = ratelimit.Open(ratelimit.Config{Now: cfg.Clock, Log: cfg.Log}); err != nil {
			return nil, err
		}
	}
	s.http = &fasthttp.Server{
		Handler:       s.handle,
		ErrorHandler:  s.malformed,
		ExpectHandler: s.expect,
		HeaderReceived: func(h *fasthttp.RequestHeader) fasthttp.RequestConfig {
			if !h.IsHTTP11() {
				h.Del("Expect") // RFC 9110, section 10.1.1: HTTP/1.0 knows no such answer
			}
			return fasthttp.RequestConfig{}
		},
		Name:        "weir",
		Logger:      httpLog{s.log},
		Concurrency: 2 * cfg.MaxConnections, // connections bound it; the goroutine of a closed one may take a moment to end
		ConnState: func(nc net.Conn, state fasthttp.ConnState) {
			c := nc.(*conn)
			c.active.Store(state == fasthttp.StateActive)
			if state == fasthttp.StateIdle {
				c.serving.Store(false)
				s.conns.wait(c)
			}
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

// httpLog receives the log of fasthttp, which is about errors of single connections.
type httpLog struct{ log *slog.Logger }

func (l httpLog) Printf(format string, args ...any) { l.log.Debug(fmt.Sprintf(format, args...)) }

// RandomHex returns n random bytes in hexadecimal.
func RandomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// Serve answers the connections of ln until Shutdown, and then returns nil. If Shutdown has
// been called before, it returns at once. It may be called for several listeners.
func (s *Server) Serve(ln net.Listener) error { return s.ServeTLS(ln, nil) }

// ServeTLS is Serve with TLS. security returns the configuration of a connection that begins,
// which must not change after that; nil: there is no TLS.
func (s *Server) ServeTLS(ln net.Listener, security func() *tls.Config) error {
	a, tcp := ln.Addr().(*net.TCPAddr)
	loopback := tcp && a.IP.IsLoopback()
	if tcp && !loopback {
		s.Expose()
	}
	if err := s.http.Serve(&listener{ln, s.conns, &s.closing, s.refuse, loopback, security}); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// Expose tells the server that other machines can reach it. Private routes are then refused
// to clients without a key, even if there are no keys at all. Serve calls it for a TCP
// listener whose address is not a loopback address.
func (s *Server) Expose() { s.exposed.Store(true) }

// Exposed reports whether Expose was called.
func (s *Server) Exposed() bool { return s.exposed.Load() }

// InFlight counts the requests that have arrived completely and are being answered.
func (s *Server) InFlight() (n int) {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	for c := range s.conns.open {
		if c.inFlight() {
			n++
		}
	}
	return n
}

// Queue returns the queue in which requests wait for a worker to prepare them.
func (s *Server) Queue() *Queue { return s.queue }

// Memory returns the account of the bytes that requests hold or may come to hold.
func (s *Server) Memory() *memory.Account { return s.memory }

// Usage returns the counts of requests and tokens by project.
func (s *Server) Usage() *usage.Ledger { return s.usage }

// Log returns the logger of the server.
func (s *Server) Log() *slog.Logger { return s.log }

// Now returns the time of Config.Clock.
func (s *Server) Now() time.Time { return s.cfg.Clock() }

// Held counts the resources that a server holds for its clients. All counts are 0 after the
// last client has left.
type Held struct {
	Connections, Watched int   // open connections, and how many of them are watched
	Waiting              int   // open connections that wait for a request
	Handshakes           int   // of TLS, that have begun
	Bodies               int64 // bytes of request bodies in memory
	Memory               int64 // bytes that are reserved, without those of caches
}

// Held returns the resources that the server holds now.
func (s *Server) Held() Held {
	s.conns.mu.Lock()
	open, waiting := len(s.conns.open), s.conns.places.waiting()
	s.conns.mu.Unlock()
	m := s.memory.Stats()
	return Held{open, s.conns.watch.watched(), waiting, s.conns.handshakes.begun(), s.bodies.used.Load(), m.Used - m.Cached}
}

// connections tells the metrics of the connections of clients.
func (s *Server) connections() metrics.Sockets {
	cs := s.conns
	cs.mu.Lock()
	open, idle := len(cs.open), cs.places.waiting()
	cs.mu.Unlock()
	return metrics.Sockets{Open: open, Idle: idle, Accepted: cs.accepted.Load(), Received: cs.received.Load(), Sent: cs.sent.Load()}
}

// grace is the time that requests have to send an error to their clients after the context
// of Shutdown has ended.
const grace = 2 * time.Second

// Shutdown refuses new requests, and returns when those in flight have ended. Until then the
// listeners stay open, so that clients and probes get an answer. Requests that have not
// arrived completely are not waited for. If ctx ends first, Shutdown ends those in flight
// with failure.ErrDraining and returns the error of ctx.
func (s *Server) Shutdown(ctx context.Context) error {
	if end, ok := ctx.Deadline(); ok {
		end = s.Now().Add(time.Until(end))
		s.stops.Store(&end)
	}
	s.Drain()
	s.conns.drain(ctx)
	s.closing.Store(true)
	s.conns.cut()
	err := s.http.ShutdownWithContext(ctx)
	s.stop(failure.ErrDraining)
	if err != nil {
		// fasthttp does not wait for its connections any longer; they are ended here.
		s.conns.await(grace, (*conn).answering)
	}
	s.conns.abort()
	if !s.conns.await(grace, nil) {
		err = errors.Join(err, errors.New("server: a connection does not end"))
	}
	s.conns.watch.close()
	idle := s.queue.Close(grace)
	s.ended = err == nil && idle
	return err
}

// CheckReleased panics in builds that check invariants if all requests have ended and memory
// is still reserved. It is called after Shutdown, when nothing else works for them any more.
func (s *Server) CheckReleased() {
	invariants.Check(!s.ended || s.Held().Memory == 0, "all requests have ended and hold %d bytes", s.Held().Memory)
}
