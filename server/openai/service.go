package openai

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"weir/api"
	"weir/engine"
	"weir/metrics"
	"weir/server/failure"
	"weir/server/recording"
	"weir/server/transport"
)

// Config is the configuration of a Service.
type Config struct {
	Limits  api.Limits // bounds of what a body may hold
	MaxEcho int        // bounds the echoes of all choices of an answer, in bytes

	// Heartbeat is how long a stream may be silent. Then a blank line is sent, after
	// status 200 if nothing was sent before. 0: streams may be silent for ever.
	Heartbeat time.Duration
	// StallAfter is the age of a step from which on Alive says that the engine is stuck.
	StallAfter time.Duration
	// MaxLogprobs bounds top_logprobs and prompt_logprobs; -1: the whole vocabulary is
	// allowed.
	MaxLogprobs int
	// ProcessedLogprobs takes the log-probabilities of generated tokens from the
	// distribution that they were drawn from, with biases, penalties, temperature
	// and filters, in place of the model's own (docs/interface/chat-completions.md,
	// section 7.2). Those of the prompt are the model's own in either case.
	ProcessedLogprobs bool
	// TokensAsIDs is the default of return_tokens_as_token_ids.
	TokensAsIDs bool
	// ReasoningField selects the field, or both fields, that reasoning has in answers.
	ReasoningField api.ReasoningField
	// ForceUsage sends usage in every chunk of every stream, and the usage chunk, also where
	// the request did not ask for them.
	ForceUsage bool
	// MaxQueueTime is the longest time that a request may wait until something of it is computed; a
	// request may ask for less. 0: there is no limit.
	MaxQueueTime time.Duration
	// StreamInterval is the least number of tokens in a chunk of a stream; up to 1: each has a
	// chunk of its own. A request may ask for more.
	StreamInterval int
	// NoPromptDetails leaves prompt_tokens_details out of the usage.
	NoPromptDetails bool
	// Tools says what becomes of the tools of a request.
	Tools
	// Seed, if not nil, makes the seeds of requests that give none: the same requests in the
	// same order then have the same answers. nil: such seeds are random.
	Seed *uint64
	// Constrained are defaults of constrained requests.
	Constrained
	// LoadTracking makes Load count the requests that generate.
	LoadTracking bool
	// CompileQueue is the number of requests that may wait for their grammar,
	// CompileWorkers the number of grammars that are compiled at the same time.
	CompileQueue, CompileWorkers int
	// SaltKey is the secret behind the namespaces of the prefix cache. nil: a new one.
	SaltKey *[32]byte
	// NewID makes the id of a request that has none; nil: ids are random.
	NewID func() string
}

// Tools says what becomes of the tools of a request.
type Tools struct {
	// ExcludeTools hides the tools of a request with tool_choice "none" from the template.
	ExcludeTools bool
	// UnconstrainedCalls lets a model write what it likes in the calls of tools, unless a
	// request demands a call or a tool is strict.
	UnconstrainedCalls bool
}

// Constrained are defaults of constrained requests.
type Constrained struct {
	NoWhitespace bool // JSON without white space between its tokens, as if each request said so
	OneOfAny     bool // a oneOf of a schema that cannot be kept exactly is read as anyOf, with a warning
	InThoughts   bool // the constraint holds for the whole output, and not for what follows the thoughts
}

// Validate returns an error for the first value that is out of range.
func (c *Config) Validate() error {
	switch {
	case c.StallAfter <= 0:
		return fmt.Errorf("server: Config.StallAfter is %v, want more than 0", c.StallAfter)
	case c.ReasoningField > api.ReasoningBoth:
		return fmt.Errorf("server: Config.ReasoningField is %d", c.ReasoningField)
	case c.MaxQueueTime < 0:
		return fmt.Errorf("server: Config.MaxQueueTime is %v, want at least 0", c.MaxQueueTime)
	case c.StreamInterval < 0:
		return fmt.Errorf("server: Config.StreamInterval is %d, want at least 0", c.StreamInterval)
	case c.Heartbeat < 0:
		return fmt.Errorf("server: Config.Heartbeat is %v, want at least 0", c.Heartbeat)
	case c.MaxLogprobs < -1:
		return fmt.Errorf("server: Config.MaxLogprobs is %d, want at least -1", c.MaxLogprobs)
	}
	return c.Limits.Validate()
}

// Service answers the functions of the OpenAI interface with one model.
type Service struct {
	cfg       Config
	log       *slog.Logger
	http      *transport.Server
	compiling *transport.Queue    // of grammars
	recorder  *recording.Recorder // nil: nothing is recorded
	counts    *metrics.Metrics
	salts     salter
	unread    *unread
	seeds     atomic.Uint64 // seeds that were made from Config.Seed
	load      atomic.Int64  // requests that generate; counted with LoadTracking
	warned    sometimes     // the log, of constraints with warnings
	ignored   ignoredNames

	model  atomic.Pointer[Model]
	failed atomic.Bool // the engine has ended
}

// New returns a service without a model, which refuses requests until SetModel.
func New(cfg Config, http *transport.Server, recorder *recording.Recorder, counts *metrics.Metrics) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.NewID == nil {
		cfg.NewID = func() string { return transport.RandomHex(8) }
	}
	s := &Service{cfg: cfg, log: http.Log(), http: http, recorder: recorder, counts: counts, salts: newSalter(cfg.SaltKey), unread: newUnread(http.Memory())}
	var err error
	s.compiling, err = transport.NewQueue(cfg.CompileQueue, cfg.CompileWorkers)
	return s, err
}

// Close ends the workers. No request may be in flight.
func (s *Service) Close() { s.compiling.Close(0) }

// SetModel publishes a model: from now on requests are answered with it, while requests
// that have begun keep the model they began with. It fails if the engine of m is not ready
// or m is incomplete.
func (s *Service) SetModel(m *Model) error {
	if err := m.validate(); err != nil {
		return err
	}
	m.constraints = newConstraints(m, s.http.Memory())
	m.Chat.SetMemory(s.http.Memory())
	s.counts.SetEngine(m.Engine, metrics.Model{Name: m.Names[0], MaxLen: m.MaxLen, CacheType: m.CacheType})
	s.model.Store(m)
	g := &m.Generation
	s.log.Info("model ready", "names", m.Names, "max_model_len", m.MaxLen, "temperature", or(nil, g.Temperature, 1), "top_p", or(nil, g.TopP, 1),
		"top_k", or(nil, g.TopK, 0), "min_p", or(nil, g.MinP, 0), "repetition_penalty", or(nil, g.RepetitionPenalty, 1), "max_new_tokens", or(nil, g.MaxNewTokens, m.MaxLen))
	return nil
}

// Fail is called when the engine has ended with an error. From then on all requests are
// refused.
func (s *Service) Fail(err error) {
	s.log.Error("the engine has failed", "error", err)
	s.failed.Store(true)
}

// Serving returns the model that a new request is answered with, or the error that it is
// refused with: no model is published yet, the engine has failed, or the server stops.
func (s *Service) Serving() (*Model, error) {
	m := s.model.Load()
	switch {
	case s.failed.Load():
		return nil, failure.ErrEngineFailed
	case m == nil:
		return nil, failure.ErrLoading
	case s.http.Draining():
		return nil, failure.ErrDraining
	}
	return m, nil
}

// Engine is the engine of the model that requests are answered with; nil: there is none yet.
func (s *Service) Engine() *engine.Engine {
	if m := s.model.Load(); m != nil {
		return m.Engine
	}
	return nil
}

// Alive returns nil if the engine can be expected to answer, and otherwise why not: there
// is no model yet, the engine has failed, or a step has been computing for longer than
// Config.StallAfter.
func (s *Service) Alive() error {
	if s.failed.Load() {
		return failure.ErrEngineFailed
	}
	m := s.model.Load()
	if m == nil {
		return failure.ErrLoading
	}
	if began := m.Engine.Stats().StepBegan; !began.IsZero() && s.http.Now().Sub(began) > s.cfg.StallAfter {
		return failure.ErrStalled
	}
	return nil
}

// Computing reports whether the engine has something to compute, or a model is being loaded.
func (s *Service) Computing() bool {
	m := s.model.Load()
	if m == nil {
		return !s.failed.Load()
	}
	st := m.Engine.Stats()
	return st.Running+st.Waiting > 0 || !st.StepBegan.IsZero()
}

// Load returns the number of requests that are being answered by the engine. It is 0
// without Config.LoadTracking.
func (s *Service) Load() int64 { return s.load.Load() }

// Compiling returns the queue in which requests wait for their grammar.
func (s *Service) Compiling() *transport.Queue { return s.compiling }

// track counts a request that generates, until its answer is complete.
func (s *Service) track(c *transport.Call) {
	c.Track()
	if s.cfg.LoadTracking {
		s.load.Add(1)
		c.AtEnd(func() { s.load.Add(-1) })
	}
}
