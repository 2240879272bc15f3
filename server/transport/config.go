package transport

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"weir/auth"
	"weir/server/failure"
	"weir/usage"
)

// Config is the configuration of everything between the socket and the handlers.
type Config struct {
	Access
	CORS CORS

	// MaxBody bounds a request body, in bytes. 32 MiB are some 8 million tokens
	// of plain text: enough for a long context in escaped JSON, and little enough
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
	// Timeouts bound how long a client may take.
	Timeouts
	// RetryAfter is what a client is told to wait when the server is full,
	// loading or stopping; whole seconds, rounded up.
	RetryAfter time.Duration

	// PrepareWorkers is how many requests are rendered and tokenized at a time,
	// PrepareQueue how many wait for that; more get 503.
	PrepareWorkers, PrepareQueue int

	// RootPath is cut from the front of every path, for a proxy that does not
	// cut its own; "" or "/prefix".
	RootPath string
	// PollClients notices clients that leave by looking at their sockets ten times a
	// second, even where the kernel has a queue that reports it.
	PollClients bool

	Records
	Log   *slog.Logger     // nil: slog.Default()
	Clock func() time.Time // nil: time.Now
}

// Access says who may do what.
type Access struct {
	// APIKeys open, any of them, what is not open to all; none: everything is open.
	APIKeys []string
	// Keys are who may do what, in place of APIKeys. nil: those.
	Keys *auth.Keyring
	// FeedbackBearer lets tokens in to the feedback interface, which is for passwords.
	FeedbackBearer bool
}

// Timeouts bound how long clients may take.
type Timeouts struct {
	// ReadTimeout bounds the wait for the headers and for each further piece of
	// a body, BodyTimeout a body as a whole.
	ReadTimeout, BodyTimeout time.Duration
	// WriteTimeout is how long a client may take for 64 KiB of an answer. One
	// that takes longer is cut off and its request cancelled.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may stay open between two requests. It is
	// long, because load generators that reuse theirs failed with a short one.
	IdleTimeout time.Duration
}

// Records is what remains of a request when it has ended.
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

// DefaultConfig returns the configuration of a server that was told nothing.
func DefaultConfig() Config {
	return Config{
		CORS:           DefaultCORS(),
		MaxBody:        32 << 20,
		MaxBodies:      1 << 30,
		MaxHeader:      16 << 10,
		MaxConnections: 65_536,
		Timeouts: Timeouts{
			ReadTimeout:  30 * time.Second,
			BodyTimeout:  5 * time.Minute,
			WriteTimeout: 30 * time.Second,
			IdleTimeout:  900 * time.Second,
		},
		RetryAfter:     2 * time.Second,
		PrepareWorkers: runtime.GOMAXPROCS(0),
		PrepareQueue:   4096,
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
		{"IdleTimeout", int64(c.IdleTimeout)}, {"RetryAfter", int64(c.RetryAfter)},
		{"PrepareWorkers", int64(c.PrepareWorkers)}, {"PrepareQueue", int64(c.PrepareQueue)},
	} {
		if f.value <= 0 {
			return fmt.Errorf("server: Config.%s is %d, want more than 0", f.name, f.value)
		}
	}
	switch {
	case c.MaxHeader < 1<<10:
		return fmt.Errorf("server: Config.MaxHeader is %d, want at least 1024", c.MaxHeader)
	case c.MaxBodies < int64(c.MaxBody):
		return errors.New("server: Config.MaxBodies is less than MaxBody")
	case c.RootPath != "" && (c.RootPath[0] != '/' || c.RootPath[len(c.RootPath)-1] == '/'):
		return fmt.Errorf("server: Config.RootPath is %q, want a path that begins with / and does not end in it", c.RootPath)
	case c.CORS.MaxAge < 0:
		return fmt.Errorf("server: Config.CORS.MaxAge is %d, want at least 0", c.CORS.MaxAge)
	}
	for _, k := range c.APIKeys {
		if k == "" {
			return errors.New("server: an API key is empty")
		}
	}
	return nil
}

// failures completes the settings of the classification of errors with what this
// package bounds.
func (c *Config) failures(s failure.Settings) failure.Settings {
	s.Body, s.Header = c.MaxBody, c.MaxHeader
	return s
}
