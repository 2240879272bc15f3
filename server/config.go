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
)

// Config is the server's configuration.
type Config struct {
	Version string   // what GET /version says
	APIKeys []string // any of them opens everything; none: everything is open
	// Keys are who may do what. nil: APIKeys alone.
	Keys *auth.Keyring
	Records
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
	// TokensAsIDs is the default of return_tokens_as_token_ids.
	TokensAsIDs bool
	// ReasoningField names reasoning text in answers.
	ReasoningField api.ReasoningField
	// ForceUsage sends the usage chunk in streams that did not ask for it.
	ForceUsage bool
	// NoRequestID leaves the header X-Request-Id out of responses.
	NoRequestID bool

	Log *slog.Logger // nil: slog.Default()
}

// Records are what clients leave with the server. Whoever opened their databases
// closes them, after Shutdown.
type Records struct {
	Feedback *feedback.Book // what /feedback/ is about; nil: there is no such path
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
		Records:        Records{Trajectories: DefaultTrajectories()},
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
