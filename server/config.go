package server

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"weir/api"
	"weir/auth"
	"weir/feedback"
	"weir/usage"
)

// Config is the server's configuration.
type Config struct {
	Version string // what GET /version says
	Access
	CORS   CORS
	Limits api.Limits // of what a body may hold

	// MaxBody bounds a request body, in bytes. 32 MiB are some 8 million tokens
	// of plain text: room for a long context in escaped JSON, and little enough
	// that a hundred of them fit in memory.
	MaxBody int
	// MaxBodies bounds the bodies of all requests that are being read or
	// prepared, in bytes; beyond it the answer is 503.
	MaxBodies int64
	// MaxHeader bounds request line and headers, in bytes. Each open connection
	// holds a buffer of this size.
	MaxHeader int
	// MaxConnections is how many clients may be connected; more get 503.
	MaxConnections int

	// ReadTimeout bounds the wait for the headers and for each further piece of
	// a body, BodyTimeout a body as a whole.
	ReadTimeout, BodyTimeout time.Duration
	// WriteTimeout is how long a client may take for 64 KiB of an answer. One
	// that takes longer is cut off and its request cancelled.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may stay open between two requests.
	// Load generators keep theirs for long: short ones made them fail.
	IdleTimeout time.Duration
	// Heartbeat is how long a stream may be silent. Then a blank line is sent,
	// and if nothing was sent before, status 200. 0 is never.
	Heartbeat time.Duration
	// RetryAfter is what a client is told to wait when the server is full,
	// loading or stopping; whole seconds, rounded up.
	RetryAfter time.Duration
	// StallAfter is the age of a step beyond which /health says 503.
	StallAfter time.Duration

	// PrepareWorkers is how many requests are rendered and tokenized at a time,
	// PrepareQueue how many wait for that; more get 503.
	PrepareWorkers, PrepareQueue int

	// MaxLogprobs bounds top_logprobs and prompt_logprobs; -1 is the vocabulary.
	MaxLogprobs int
	// ProcessedLogprobs takes the log-probabilities of generated tokens from the
	// distribution that they were drawn from, with biases, penalties, temperature
	// and filters, in place of the model's own (spec 7.2, logprobs-mode). Those of
	// the prompt are the model's own in either case.
	ProcessedLogprobs bool
	// TokensAsIDs is the default of return_tokens_as_token_ids.
	TokensAsIDs bool
	// ReasoningField names reasoning text in answers.
	ReasoningField api.ReasoningField
	// ForceUsage sends the usage chunk in streams that did not ask for it.
	ForceUsage bool
	// Functions says where functions are, and which of those that are not there
	// unless asked for.
	Functions Functions

	Log *slog.Logger // nil: slog.Default()

	Records
}

// Records is what is left of a request when it has ended.
type Records struct {
	// NoRequestID leaves the header X-Request-Id out of responses. (The
	// reference engine sends it only if it is told to; a client with a question
	// then has nothing to name its request by.)
	NoRequestID bool
	// LogRequests logs every finished request at Info, and not at Debug.
	LogRequests bool
	// Usage counts by project; whoever opened it closes it, after Shutdown. nil:
	// the server counts in memory.
	Usage *usage.Ledger
}

// Functions are a prefix of all paths, and switches for functions that a public
// server should not have.
type Functions struct {
	// RootPath is cut from the front of every path, for a proxy that does not
	// cut its own; "" or "/prefix".
	RootPath string

	Dev           bool // /server_info and /reset_prefix_cache
	TokenizerInfo bool // /tokenizer_info, which shows the chat template
	LoadTracking  bool // /load counts; otherwise it says 0

	Settings map[string]string // what /server_info says of the configuration; no secrets
	Device   string            // and of what computes, in words
}

// Access is who may do what, and what clients leave with the server.
type Access struct {
	// APIKeys open, any of them, what is not open to all; none: everything is open.
	APIKeys []string
	// Keys are who may do what, in place of APIKeys. nil: those.
	Keys *auth.Keyring
	// Feedback is what /feedback/ is about; nil: there is no such path. Whoever
	// opened its database closes it, after Shutdown.
	Feedback *feedback.Store
	// FeedbackBearer lets tokens in to /feedback/, which is for passwords.
	FeedbackBearer bool
	Trajectories   Trajectories // what is below /v1/preview/models
}

// DefaultConfig returns the configuration of a server that was told nothing.
func DefaultConfig() Config {
	limits := api.DefaultLimits()
	limits.Choices = 128 // OpenAI's limit; each choice has its copy of the prompt's ids
	return Config{
		Version:        "devel",
		Access:         Access{Trajectories: DefaultTrajectories()},
		CORS:           DefaultCORS(),
		Limits:         limits,
		MaxBody:        32 << 20,
		MaxBodies:      1 << 30,
		MaxHeader:      16 << 10,
		MaxConnections: 65_536,
		ReadTimeout:    30 * time.Second,
		BodyTimeout:    5 * time.Minute,
		WriteTimeout:   30 * time.Second,
		IdleTimeout:    900 * time.Second,
		Heartbeat:      15 * time.Second,
		RetryAfter:     2 * time.Second,
		StallAfter:     2 * time.Minute,
		PrepareWorkers: runtime.GOMAXPROCS(0),
		PrepareQueue:   4096,
		MaxLogprobs:    20,
	}
}

// Validate reports the first value that makes no sense.
func (c *Config) Validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxBody", int64(c.MaxBody)}, {"MaxBodies", c.MaxBodies}, {"MaxHeader", int64(c.MaxHeader)}, {"MaxConnections", int64(c.MaxConnections)},
		{"ReadTimeout", int64(c.ReadTimeout)}, {"BodyTimeout", int64(c.BodyTimeout)}, {"WriteTimeout", int64(c.WriteTimeout)},
		{"IdleTimeout", int64(c.IdleTimeout)}, {"RetryAfter", int64(c.RetryAfter)}, {"StallAfter", int64(c.StallAfter)},
		{"PrepareWorkers", int64(c.PrepareWorkers)}, {"PrepareQueue", int64(c.PrepareQueue)},
	} {
		if f.value <= 0 {
			return fmt.Errorf("server: Config.%s is %d, want more than 0", f.name, f.value)
		}
	}
	switch {
	case c.ReasoningField > api.ReasoningBoth:
		return fmt.Errorf("server: Config.ReasoningField is %d", c.ReasoningField)
	case c.Heartbeat < 0:
		return fmt.Errorf("server: Config.Heartbeat is %v, want at least 0", c.Heartbeat)
	case c.MaxLogprobs < -1:
		return fmt.Errorf("server: Config.MaxLogprobs is %d, want at least -1", c.MaxLogprobs)
	case c.MaxHeader < 1<<10:
		return fmt.Errorf("server: Config.MaxHeader is %d, want at least 1024", c.MaxHeader)
	case c.MaxBodies < int64(c.MaxBody):
		return errors.New("server: Config.MaxBodies is less than MaxBody")
	case c.Functions.RootPath != "" && (c.Functions.RootPath[0] != '/' || c.Functions.RootPath[len(c.Functions.RootPath)-1] == '/'):
		return fmt.Errorf("server: Config.RootPath is %q, want a path that begins with / and does not end in it", c.Functions.RootPath)
	case c.CORS.MaxAge < 0:
		return fmt.Errorf("server: Config.CORS.MaxAge is %d, want at least 0", c.CORS.MaxAge)
	}
	for _, k := range c.APIKeys {
		if k == "" {
			return errors.New("server: an API key is empty")
		}
	}
	if err := c.Trajectories.Validate(); err != nil {
		return err
	}
	return c.Limits.Validate()
}
