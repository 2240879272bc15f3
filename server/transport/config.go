package transport

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"weir/auth"
	"weir/ratelimit"
	"weir/server/failure"
	"weir/tracing"
	"weir/usage"
)

// Config is the configuration of everything between the socket and the handlers.
type Config struct {
	Access
	CORS CORS

	// MaxBody bounds a request body, in bytes. The default, 32 MiB, is some 8 million
	// tokens of plain text: enough for a long context in escaped JSON, and little enough
	// that a hundred bodies fit in memory.
	MaxBody int
	// MaxBodies bounds the bodies of all requests that are being read or prepared
	// together, in bytes. When they reach it, those that arrive slowly get 408; if there
	// are none, further requests get 503.
	MaxBodies int64
	// Memory bounds the bytes that all requests together hold or may come to hold: their
	// bodies, what preparing them takes, and their answers as long as they are not sent. A
	// request that does not fit waits for at most MemoryWait, and then gets 503. Bodies take
	// at most a quarter of it, whatever MaxBodies says.
	Memory     int64
	MemoryWait time.Duration
	// MaxHeader bounds the request line and the headers together, in bytes. Each open connection
	// holds a buffer of this size.
	MaxHeader int
	// MaxConnections is the number of clients that may be connected; more get 503. It is at
	// most three quarters of the files that the process may have open. An address may hold as
	// many as are left for others, and connections that wait for a request give way.
	MaxConnections int
	// MaxHandshakes is the number of TLS handshakes that may have begun and not ended; further
	// connections are closed. An address may have as many as are left for others.
	MaxHandshakes int
	// Timeouts bound the time that a client may take.
	Timeouts
	// RetryAfter is the value of the header Retry-After when nothing is known of how long it
	// will take, because nothing was measured yet; it is rounded up to whole seconds.
	RetryAfter time.Duration

	// PrepareWorkers is the number of requests that are rendered and tokenized at the same
	// time, PrepareQueue the number that may wait for that; more get 503.
	PrepareWorkers, PrepareQueue int

	// Queries bounds queries on what is stored.
	Queries TurnLimits

	// RootPath is removed from the front of every path, for a proxy that forwards paths
	// with its own prefix; "" or "/prefix".
	RootPath string
	// PollClients notices clients that leave by looking at their sockets ten times a
	// second, even where the kernel has a queue that reports it.
	PollClients bool

	Records
	Log   *slog.Logger     // nil: slog.Default()
	Clock func() time.Time // nil: time.Now
}

// Access configures which clients may do what.
type Access struct {
	// APIKeys are the keys that clients may send, each with all rights. If there are none,
	// clients need no key.
	APIKeys []string
	// Keys replaces APIKeys by keys with different rights; nil: APIKeys are used.
	Keys *auth.Keyring
	// FeedbackBearer makes the feedback interface accept bearer tokens, and not only
	// passwords.
	FeedbackBearer bool
	// AllowedHosts are the hosts, besides this machine's local names and addresses, that a
	// request may name in its header Host where that is checked: without keys, on a TCP
	// port that only this machine reaches. One * stands for any text.
	AllowedHosts []string
}

// Timeouts bound the time that clients may take.
type Timeouts struct {
	// ReadTimeout bounds the time for the headers, and for each further piece of a body;
	// BodyTimeout bounds the time for the whole body.
	ReadTimeout, BodyTimeout time.Duration
	// BodyRate is the least number of bytes per second that a body has to arrive with,
	// in each BodyWindow. Bodies of trajectories have a longer window.
	BodyRate   int64
	BodyWindow time.Duration
	// WriteTimeout is the time that a client may take to read 64 KiB of an answer. If it
	// takes longer, its connection is closed and its request is cancelled.
	WriteTimeout time.Duration
	// IdleTimeout is how long a connection may stay open between two requests. It is
	// long, because load generators that reuse theirs failed with a short one.
	IdleTimeout time.Duration
	// HandshakeTimeout is the time that a TLS handshake may take, from accept on.
	HandshakeTimeout time.Duration
}

// Records configures what is recorded about requests.
type Records struct {
	// NoRequestID leaves the header X-Request-Id out of responses. (vLLM sends it only if
	// a flag asks for it, but without it a client cannot name its request when it has a
	// question.)
	NoRequestID bool
	// LogRequests logs every finished request at level Info instead of Debug.
	LogRequests bool
	// LogProbes logs requests to routes that need no key, too, such as /health and /metrics,
	// which other programs send every few seconds.
	LogProbes bool
	// Unlogged are paths whose requests LogRequests leaves out.
	Unlogged []string
	// Usage counts requests and tokens by project. The caller closes it after Shutdown.
	// nil: the server counts in memory.
	Usage *usage.Ledger
	// KeyLimits counts what is done with keys that have limits. The caller closes it after Shutdown.
	// nil: the server counts in memory.
	KeyLimits *ratelimit.Limiter
	// Traces makes the spans of requests. The caller closes it after Shutdown. nil: there are none.
	Traces *tracing.Tracer
}

// DefaultConfig returns the configuration of a server without flags.
func DefaultConfig() Config {
	c := Config{
		CORS:           DefaultCORS(),
		MaxBody:        32 << 20,
		MaxBodies:      1 << 30,
		Memory:         4 << 30,
		MemoryWait:     5 * time.Second,
		MaxHeader:      16 << 10,
		MaxConnections: 65_536,
		MaxHandshakes:  4096,
		Timeouts: Timeouts{
			ReadTimeout:  30 * time.Second,
			BodyTimeout:  5 * time.Minute,
			BodyRate:     1 << 10,
			BodyWindow:   10 * time.Second,
			WriteTimeout: 30 * time.Second,
			IdleTimeout:  900 * time.Second,

			HandshakeTimeout: 10 * time.Second,
		},
		RetryAfter:   2 * time.Second,
		PrepareQueue: 4096,
		Queries: TurnLimits{
			Places: 512,
			Begun:  8,
			Slice:  500 * time.Microsecond,
			Rest:   200 * time.Microsecond,
		},
	}
	c.UseProcessors(runtime.GOMAXPROCS(0))
	return c
}

// UseProcessors sets how much is done at a time beside inference, for a machine with so many
// processors.
func (c *Config) UseProcessors(n int) {
	c.PrepareWorkers, c.Queries.Workers = n, max(1, n/4)
}

// Validate returns an error for the first value that is out of range.
func (c *Config) Validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"MaxBody", int64(c.MaxBody)}, {"MaxBodies", c.MaxBodies}, {"Memory", c.Memory}, {"MemoryWait", int64(c.MemoryWait)},
		{"MaxHeader", int64(c.MaxHeader)}, {"MaxConnections", int64(c.MaxConnections)},
		{"ReadTimeout", int64(c.ReadTimeout)}, {"BodyTimeout", int64(c.BodyTimeout)},
		{"BodyRate", c.BodyRate}, {"BodyWindow", int64(c.BodyWindow)}, {"WriteTimeout", int64(c.WriteTimeout)},
		{"IdleTimeout", int64(c.IdleTimeout)}, {"HandshakeTimeout", int64(c.HandshakeTimeout)}, {"MaxHandshakes", int64(c.MaxHandshakes)}, {"RetryAfter", int64(c.RetryAfter)},
		{"PrepareWorkers", int64(c.PrepareWorkers)}, {"PrepareQueue", int64(c.PrepareQueue)},
		{"Queries.Workers", int64(c.Queries.Workers)}, {"Queries.Places", int64(c.Queries.Places)}, {"Queries.Begun", int64(c.Queries.Begun)},
		{"Queries.Slice", int64(c.Queries.Slice)},
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
	if err := cmp.Or(c.CORS.Validate(), ValidateHosts(c.AllowedHosts)); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	for _, k := range c.APIKeys {
		if k == "" {
			return errors.New("server: an API key is empty")
		}
	}
	return nil
}

// failures completes the settings of package failure with the bounds of this package, which
// appear in messages.
func (c *Config) failures(s failure.Settings) failure.Settings {
	s.Body, s.Header = c.MaxBody, c.MaxHeader
	return s
}
