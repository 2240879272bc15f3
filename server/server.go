package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"weir/calls"
	"weir/feedback"
	"weir/metrics"
	"weir/objects"
	"weir/queues"
	"weir/server/batchesapi"
	"weir/server/benchapi"
	"weir/server/failure"
	"weir/server/feedbackapi"
	"weir/server/liveapi"
	"weir/server/messagesapi"
	"weir/server/ollamaapi"
	"weir/server/openai"
	"weir/server/recording"
	"weir/server/responsesapi"
	"weir/server/routerapi"
	"weir/server/trajectoryapi"
	"weir/server/transport"
	"weir/server/weaveapi"
)

// Server answers HTTP. It may listen before it has a model: until SetModel,
// what needs one is answered with 503.
type Server struct {
	cfg    Config
	log    *slog.Logger
	http   *transport.Server
	openai *openai.Service
	counts *metrics.Metrics

	live         *liveapi.Handlers
	messages     *messagesapi.Handlers
	ollama       *ollamaapi.Handlers
	routers      *routerapi.Handlers
	feedback     *feedbackapi.Handlers   // nil: there is no feedback
	weave        *weaveapi.Handlers      // nil: there are no calls and objects
	trajectories *trajectoryapi.Handlers // nil: there are no trajectories
	responses    *responsesapi.Handlers
	batches      *batchesapi.Handlers // nil: there are none
	bench        *benchapi.Handlers   // nil: there is none
	recorder     *recording.Recorder  // nil: nothing is recorded
	linker       *recording.Linker    // nil: feedback sets no rewards

	unknown      sync.Map // members of feedback that were in the log
	unknownCount atomic.Int64

	document func() string            // what GET /openapi.json answers
	progress atomic.Pointer[progress] // why there is no model yet
}

// New returns a server that Serve starts.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, counts: metrics.New()}
	s.document = sync.OnceValue(s.describe)
	var err error
	if s.http, err = transport.New(cfg.Config, router{s}, s.failures(), s.counts); err != nil {
		return nil, err
	}
	s.log = s.http.Log()
	s.counts.SetMemory(s.http.Memory())
	if cfg.Prefixes.Stats != nil {
		s.counts.SetCopies(cfg.Prefixes.Stats)
	}
	if cfg.Prefixes.Transfers != nil {
		s.counts.SetTransfers(cfg.Prefixes.Transfers)
	}
	if cfg.Prefixes.Events != nil {
		s.counts.SetEvents(cfg.Prefixes.Events)
	}
	if cfg.Keys != nil {
		s.counts.SetCredentials(cfg.Keys.Stale)
	}
	if t := cfg.Traces; t != nil {
		s.counts.SetTraces(func() metrics.Spans { return metrics.Spans(t.Counts()) })
	}
	if cfg.Sinks != nil {
		s.counts.SetSinks(cfg.Sinks)
	}
	if cfg.Trajectories.Archive != nil {
		to := cfg.recording(s.http.Memory(), s.log, s.http.Now)
		if cfg.Feedback != nil {
			s.linker = recording.NewLinker(to, cfg.Feedback, s.counts)
		}
		s.recorder = recording.NewRecorder(to, s.linker, s.counts)
	}
	if s.openai, err = openai.New(cfg.answers(), s.http, s.recorder, s.counts); err != nil {
		return nil, err
	}
	s.responses = responsesapi.New(responsesapi.Config{
		Service: s.openai, Store: s.cfg.Responses, Limits: s.cfg.Answers.Limits, Now: s.http.Now, Log: s.log, HTTP: s.http, Heartbeat: s.cfg.Answers.Heartbeat,
		Background: s.cfg.Background,
	})
	if b := s.cfg.Batches; b != nil {
		s.batches = batchesapi.New(batchesapi.Config{
			Store: b, Do: s.http.Do, Holds: s.http.Holds, InFlight: s.batchRequests, MaxFile: s.cfg.MaxFile, MaxLine: s.cfg.MaxBody, Draining: s.http.Draining, Now: s.http.Now, Log: s.log,
		})
	}
	s.live = liveapi.New(liveapi.Config{HTTP: s.http, Engine: s.openai.Engine, Counts: s.counts, Version: cfg.Version})
	if b := s.cfg.Bench; b != nil {
		s.bench = benchapi.New(benchapi.Config{Command: b.Command, URL: b.URL, Dir: b.Dir, Now: s.http.Now, Log: s.log, Draining: s.http.Draining})
	}
	s.messages = messagesapi.New(s.openai, s.http.Memory())
	s.ollama = ollamaapi.New(s.openai, s.http.Now)
	s.routers = routerapi.New(routerapi.Config{Service: s.openai, Version: cfg.Version, Now: s.http.Now, Feed: cfg.Prefixes.Feed})
	s.http.Turns().RestWhile(s.openai.Computing)
	s.surfaces()
	s.counts.SetStores(s.stores())
	s.SetProgress("the model is loading", 0)
	return s, nil
}

// surfaces makes the handlers of what is stored, where there is a store for it.
func (s *Server) surfaces() {
	if s.cfg.Feedback != nil {
		cfg := feedbackapi.Config{
			Store: s.cfg.Feedback, MaxBody: s.cfg.MaxBody, Draining: s.http.Draining,
			Written: s.linker.Reward, Unset: s.counts.RewardUnset, Unknown: s.unknownMember,
		}
		if s.cfg.Prefixes.Erase != nil {
			cfg.ErasePrefixes = s.erasePrefixes
		}
		if c := s.cfg.Weave.Calls; c != nil {
			cfg.EraseCalls = func(ctx context.Context, e *feedback.Erasure) (int, error) {
				return c.Erase(ctx, calls.ErasureOf(e.Project, e.DryRun, e.Named))
			}
		}
		if o := s.cfg.Weave.Objects; o != nil {
			cfg.EraseObjects = func(ctx context.Context, e *feedback.Erasure) (int, error) { return eraseObjects(ctx, o, e) }
		}
		if q := s.cfg.Weave.Queues; q != nil {
			cfg.EraseQueues = func(ctx context.Context, e *feedback.Erasure) (int, error) {
				named := calls.ErasureOf(e.Project, e.DryRun, e.Named)
				return q.Erase(ctx, &queues.Erasure{Project: e.Project, DryRun: e.DryRun, Users: named.Users, Refs: named.Refs, Before: named.Before})
			}
		}
		if r := s.cfg.Responses; r != nil {
			cfg.EraseResponses = func(ctx context.Context, e *feedback.Erasure) (int, error) { return eraseResponses(ctx, r, e) }
		}
		if b := s.cfg.Batches; b != nil {
			cfg.EraseBatches = func(ctx context.Context, e *feedback.Erasure) (int, error) { return eraseBatches(ctx, b, e) }
		}
		s.feedback = feedbackapi.New(cfg)
	}
	if w := &s.cfg.Weave; w.Calls != nil {
		s.weave = weaveapi.New(weaveapi.Config{
			Calls: w.Calls, Objects: w.Objects, Queues: w.Queues, Feedback: s.cfg.Feedback, MaxBody: s.cfg.MaxBody, MaxRatio: s.cfg.Trajectories.MaxRatio,
			Draining: s.http.Draining,
		})
	}
	if s.cfg.Trajectories.Archive != nil {
		var settle func(context.Context) error
		if s.linker != nil {
			settle = s.linker.Pass
		}
		s.trajectories = trajectoryapi.New(s.cfg.Trajectories.Config, s.http, s.counts, settle)
	}
}

// unknownMember says once in the log that clients send a member of feedback that this version
// does not know, so that an operator learns that a newer one may know more.
func (s *Server) unknownMember(name string) {
	if s.unknownCount.Load() >= 100 { // somebody invents names
		return
	}
	if _, again := s.unknown.LoadOrStore(name, true); !again {
		s.unknownCount.Add(1)
		s.log.Info("feedback has a member that this version of weir does not know; it is kept", "name", name)
	}
}

// failures are the bounds that the texts of errors name.
func (s *Server) failures() failure.Settings {
	t := &s.cfg.Trajectories
	return failure.Settings{
		Upload: t.MaxBody, Ratio: t.MaxRatio, Quota: t.Quota,
		Trajectory: t.Limits.Trajectory, Trajectories: t.Limits.Trajectories,
		Progress: func() (text string, left time.Duration) {
			p := s.progress.Load()
			if p.ready.IsZero() {
				return p.text, 0
			}
			return p.text, max(1, p.ready.Sub(s.http.Now()))
		},
	}
}

// Transport is the server's connections, queue and accounts.
func (s *Server) Transport() *transport.Server { return s.http }

// OpenAI is what answers the OpenAI interface.
func (s *Server) OpenAI() *openai.Service { return s.openai }

// Live is what answers GET /v1/live.
func (s *Server) Live() *liveapi.Handlers { return s.live }

// Trajectories is what answers below /v1/preview/models; nil without an archive.
func (s *Server) Trajectories() *trajectoryapi.Handlers { return s.trajectories }

// Serve answers the connections of ln until Shutdown, and then returns nil, at
// once if that came before. It may run for several listeners at a time.
func (s *Server) Serve(ln net.Listener) error { return s.http.Serve(ln) }

// ServeTLS is Serve with TLS: security returns the configuration of a connection that begins.
func (s *Server) ServeTLS(ln net.Listener, security func() *tls.Config) error {
	return s.http.ServeTLS(ln, security)
}

// SetTLS adds the series of TLS to the metrics: when the certificate expires, and whether it is
// of an earlier version of its files. It may be called once, before ServeTLS.
func (s *Server) SetTLS(expires func() time.Time, stale func() bool) {
	s.counts.SetTLS(expires, stale)
}

// SetModel publishes the model, whose engine has to be ready: from now on requests are
// answered with it. Those that have begun keep the one they began with.
func (s *Server) SetModel(m *openai.Model) error {
	err := s.openai.SetModel(m)
	if err == nil {
		s.responses.Start()
		if s.batches != nil {
			s.batches.Begin()
		}
	}
	return err
}

// batchRequests is how many requests of a batch are computed at a time: so many that steps are full.
func (s *Server) batchRequests() int {
	m, err := s.openai.Serving()
	if err != nil {
		return 1
	}
	return m.Engine.Spec().MaxSeqs
}

// progress is what is still to be done until there is a model.
type progress struct {
	text  string
	ready time.Time // when it will be done; zero: that is not known
}

// SetProgress says what is still to be done until SetModel, and how long that takes; 0: it is
// not known. Clients that ask too early are told.
func (s *Server) SetProgress(text string, left time.Duration) {
	p := &progress{text: text}
	if left > 0 {
		p.ready = s.http.Now().Add(left)
	}
	s.progress.Store(p)
}

// Fail turns /health to 503 for good: the engine has ended (engine.Engine.Run
// has returned), and the process should be restarted.
func (s *Server) Fail(err error) { s.openai.Fail(err) }

// Shutdown refuses new connections and requests, lets those in flight end, and
// returns when all have. When ctx ends first they are ended with an error, and
// ctx's error is returned.
func (s *Server) Shutdown(ctx context.Context) error {
	if s.bench != nil {
		s.bench.Close()
	}
	if s.batches != nil {
		s.batches.Close() // they go on after the next start
	}
	s.responses.Close() // what is computed in the background goes on after the next start
	err := s.http.Shutdown(ctx)
	s.openai.Close()
	if s.recorder != nil {
		s.recorder.Close()
	}
	if s.linker != nil {
		s.linker.Close() // after the recorder: it may have waited for a record
	}
	s.http.CheckReleased()
	return err
}

// eraseObjects erases the objects that an erasure of feedback is about. One that names a call is
// about none.
func eraseObjects(ctx context.Context, o *objects.Store, e *feedback.Erasure) (int, error) {
	named := calls.ErasureOf(e.Project, e.DryRun, e.Named)
	if len(named.Refs) > 0 {
		return 0, nil
	}
	return o.Erase(ctx, &objects.Erasure{Project: e.Project, DryRun: e.DryRun, Users: named.Users, Before: named.Before})
}

// eraseResponses erases the responses that an erasure of feedback is about. One that names a call is
// about none.
func eraseResponses(ctx context.Context, r *responsesapi.Store, e *feedback.Erasure) (int, error) {
	named := calls.ErasureOf(e.Project, e.DryRun, e.Named)
	if len(named.Refs) > 0 {
		return 0, nil
	}
	before := named.Before / 1000 // which is in microseconds
	if named.Before != 0 && before == 0 {
		before = 1
	}
	return r.Erase(ctx, &responsesapi.Erasure{Project: e.Project, DryRun: e.DryRun, Users: named.Users, Before: before})
}

// eraseBatches erases the files and batches that an erasure of feedback is about. One that names a call is
// about none.
func eraseBatches(ctx context.Context, b *batchesapi.Store, e *feedback.Erasure) (int, error) {
	named := calls.ErasureOf(e.Project, e.DryRun, e.Named)
	if len(named.Refs) > 0 {
		return 0, nil
	}
	before := named.Before / 1_000_000 // which is in microseconds
	if named.Before != 0 && before == 0 {
		before = 1
	}
	return b.Erase(ctx, &batchesapi.Erasure{Project: e.Project, DryRun: e.DryRun, Users: named.Users, Before: before})
}
