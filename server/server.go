package server

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

// Server answers HTTP. It may listen before it has a model: until SetModel,
// what needs one is answered with 503.
type Server struct {
	cfg       Config
	log       *slog.Logger
	http      *fasthttp.Server
	conns     *connections
	queue     *queue
	compiling *queue // of grammars
	keys      *auth.Keyring
	salts     salter
	bodies    budget
	load      atomic.Int64 // requests that generate; counted with LoadTracking

	uploads  atomic.Int64 // log requests being read
	recorder *recorder    // nil: nothing is recorded
	linker   *linker      // nil: feedback sets no rewards

	model    atomic.Pointer[Model]
	progress atomic.Pointer[string] // why there is no model yet
	failed   atomic.Bool            // there will be no answers any more
	draining atomic.Bool
	exposed  atomic.Bool // other machines can reach it

	usage  *usage.Ledger
	counts *metrics.Metrics

	base context.Context // of every request
	stop context.CancelCauseFunc

	// Tests replace these.
	now   func() time.Time
	newID func() string // of a request that brings none
}

// New returns a server that Serve starts.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	s := &Server{
		cfg: cfg, log: cfg.Log, keys: cfg.Keys, salts: newSalter(),
		bodies: budget{most: cfg.MaxBodies}, counts: metrics.New(), now: time.Now, newID: func() string { return randomHex(8) },
	}
	s.base, s.stop = context.WithCancelCause(context.Background())
	s.conns = newConnections(newWatcher(s.log), cfg.WriteTimeout)
	var err error
	if s.keys == nil {
		if s.keys, err = auth.New(cfg.APIKeys, ""); err != nil {
			return nil, err
		}
	}
	if s.queue, err = newQueue(cfg.PrepareQueue, cfg.PrepareWorkers); err != nil {
		return nil, err
	}
	if s.compiling, err = newQueue(cfg.PrepareQueue, max(1, cfg.PrepareWorkers/2)); err != nil {
		return nil, err
	}
	if s.usage = cfg.Usage; s.usage == nil {
		if s.usage, err = usage.Open(usage.DefaultConfig()); err != nil {
			return nil, err
		}
	}
	if cfg.Trajectories.Archive != nil {
		if cfg.Feedback != nil {
			s.linker = newLinker(s)
		}
		s.recorder = newRecorder(s)
	}
	s.counts.SetStores(s.stores())
	s.SetProgress("the model is loading")
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

		// Bodies are read by their route, with limits of ours: what fasthttp
		// enforces on a streamed body is nothing.
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

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// Serve answers the connections of ln until Shutdown, and then returns nil, at
// once if that came before. It may run for several listeners at a time.
func (s *Server) Serve(ln net.Listener) error {
	if a, ok := ln.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
		s.exposed.Store(true)
	}
	if err := s.http.Serve(&listener{ln, s.conns, &s.draining}); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	return nil
}

// SetModel publishes the model, whose engine has to be ready: from now on requests are answered with it.
// Those that have begun keep the one they began with.
func (s *Server) SetModel(m *Model) error {
	if err := m.validate(); err != nil {
		return err
	}
	m.constraints = newConstraints(m)
	s.counts.SetEngine(m.Engine, metrics.Model{Name: m.Names[0], MaxLen: m.MaxLen, CacheType: m.CacheType})
	s.model.Store(m)
	g := &m.Generation
	s.log.Info("model ready", "names", m.Names, "max_model_len", m.MaxLen, "temperature", or(nil, g.Temperature, 1), "top_p", or(nil, g.TopP, 1),
		"top_k", or(nil, g.TopK, 0), "min_p", or(nil, g.MinP, 0), "repetition_penalty", or(nil, g.RepetitionPenalty, 1), "max_new_tokens", or(nil, g.MaxNewTokens, m.MaxLen))
	return nil
}

// SetProgress says what is still to be done until SetModel; clients that ask
// too early are told.
func (s *Server) SetProgress(text string) { s.progress.Store(&text) }

// Fail turns /health to 503 for good: the engine has ended (engine.Engine.Run
// has returned), and the process should be restarted.
func (s *Server) Fail(err error) {
	s.log.Error("the engine has failed", "error", err)
	s.failed.Store(true)
}

// grace is what requests get to tell their clients that the server stops, once
// Shutdown's context has ended.
const grace = 2 * time.Second

// Shutdown refuses new connections and requests, lets those in flight end, and
// returns when all have. When ctx ends first they are ended with an error, and
// ctx's error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	s.draining.Store(true)
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
	s.queue.close()
	s.compiling.close()
	if s.recorder != nil {
		s.recorder.close()
	}
	if s.linker != nil {
		s.linker.close() // behind the recorder: it may have waited for a record
	}
	return err
}
