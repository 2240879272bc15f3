package ratelimit

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"weir/auth"
	"weir/internal/retry"
)

// BytesPerToken is taken for the bytes of a request for each token of its prompt, until it has been
// tokenized.
const BytesPerToken = 4

// The limits that a request may go beyond.
var (
	ErrRequests    = errors.New("ratelimit: too many requests per minute")
	ErrTokens      = errors.New("ratelimit: too many tokens per minute")
	ErrDayTokens   = errors.New("ratelimit: too many tokens per day")
	ErrConcurrency = errors.New("ratelimit: too many requests at a time")
)

// Exceeded refuses a request. It wraps one of the errors above.
type Exceeded struct {
	Key   string
	Limit int64
	After time.Duration // until the limit lets the request through, at least 1 ns
	err   error
}

func (e *Exceeded) Error() string {
	return fmt.Sprintf("%v: key %s has a limit of %d", e.err, e.Key, e.Limit)
}

func (e *Exceeded) Unwrap() error { return e.err }

// Config is the configuration of a Limiter.
type Config struct {
	Dir string           // of the counts of days, created if need be; "": they are in memory only
	Now func() time.Time // nil: time.Now
	Log *slog.Logger     // nil: slog.Default()
}

// Limiter has the counts of all keys. Its methods may be called from any goroutine.
type Limiter struct {
	cfg Config

	mu struct {
		sync.Mutex
		keys map[string]*counts
		day  *day
	}
}

// counts are those of a key.
type counts struct {
	requests, tokens bucket
	reserved         int64 // tokens that requests which have not ended may come to use
	live             int64 // requests that have not ended
	took             retry.Mean
	output           float64 // tokens that a choice puts out, on average of those that ended last
}

// firstOutput is taken for the length of outputs before one has ended.
const firstOutput = 256

// Open returns a limiter with the counts of today, if they were kept. If they cannot be read or
// written, the error says so, and the limiter counts in memory.
func Open(cfg Config) (*Limiter, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	l := &Limiter{cfg: cfg}
	l.mu.keys = make(map[string]*counts)
	var err error
	l.mu.day, err = l.openDay(dayOf(cfg.Now()))
	return l, err
}

// Close writes what was counted. No ticket may be open. There is nothing to close where l is nil.
func (l *Limiter) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.day.ledger.Close()
}

// today begins a new day if the old one is over. The lock is held.
func (l *Limiter) today(now time.Time) *day {
	if n := dayOf(now); n > l.mu.day.number {
		old := l.mu.day
		next, err := l.openDay(n)
		if next == nil {
			l.cfg.Log.Error("no new day of tokens begins", "error", err)
			old.number, old.used = n, map[string]int64{}
			return old
		}
		if err != nil {
			l.cfg.Log.Error("the tokens of the day are counted in memory", "error", err)
		}
		if err := old.ledger.Close(); err != nil {
			l.cfg.Log.Warn("the last tokens of yesterday were not written", "error", err)
		}
		l.mu.day = next
	}
	return l.mu.day
}

// of returns the counts of a key. The lock is held.
func (l *Limiter) of(key string) *counts {
	c := l.mu.keys[key]
	if c == nil {
		c = &counts{output: firstOutput}
		l.mu.keys[key] = c
	}
	return c
}

// Ticket is a request that was admitted. Its methods are called by one goroutine at a time.
type Ticket struct {
	all      *Limiter
	key      string
	limits   auth.Limits
	counts   *counts
	reserved int64
	begun    time.Time

	background, ended bool
}

// Asked is what a request asks for.
type Asked struct {
	Tokens int64 // as far as that is known
	// Background says that the request is computed when nobody else wants the machine, as those of
	// batches are. Only its tokens count then: how many of these run at a time is not up to the client.
	Background bool
}

// Admit admits a request of a key, or returns an *Exceeded, and has then counted nothing. The limits
// may change from one request of a key to the next.
func (l *Limiter) Admit(key string, limits auth.Limits, a Asked) (*Ticket, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, c := l.cfg.Now(), l.of(key)
	if a.Background {
		limits.Concurrency, limits.RequestsPerMinute = 0, 0
	}
	refused := func(err error, limit int64, after time.Duration) (*Ticket, error) {
		return nil, &Exceeded{Key: key, Limit: limit, After: max(1, after), err: err}
	}
	if n := limits.Concurrency; n > 0 && c.live >= n {
		// One of those that run ends, on average, after this time.
		return refused(ErrConcurrency, n, c.took.Times(1/float64(n)))
	}
	if n := limits.RequestsPerMinute; n > 0 {
		c.requests.fill(n, now)
		if wait := c.requests.wait(n, 1); wait > 0 {
			return refused(ErrRequests, n, wait)
		}
	}
	if err := l.fits(key, &limits, c, a.Tokens, 0, now); err != nil {
		return nil, err
	}
	t := &Ticket{all: l, key: key, limits: limits, counts: c, begun: now, background: a.Background}
	if limits.RequestsPerMinute > 0 {
		c.requests.missing++
	}
	if !a.Background {
		c.live++
	}
	t.reserve(a.Tokens, now)
	return t, nil
}

// fits returns an *Exceeded if a request of a key may not come to use so many tokens more. Of those
// that are reserved, own are its own. The lock is held.
func (l *Limiter) fits(key string, limits *auth.Limits, c *counts, tokens, own int64, now time.Time) error {
	if n := limits.TokensPerMinute; n > 0 {
		c.tokens.fill(n, now)
		// What the request has reserved itself counts as not taken yet: otherwise one with more tokens
		// than the limit, which needs a full bucket, would wait for itself.
		b := c.tokens
		b.missing -= float64(own)
		if wait := b.wait(n, own+tokens); wait > 0 {
			return &Exceeded{Key: key, Limit: n, After: wait, err: ErrTokens}
		}
	}
	if n := limits.TokensPerDay; n > 0 {
		used := l.today(now).used[name(key)]
		if asked := min(own+tokens, n); used+c.reserved-own+asked > n {
			after := time.Nanosecond // some of what is reserved may come back at any time
			if used+asked > n {
				after = untilNextDay(now)
			}
			return &Exceeded{Key: key, Limit: n, After: after, err: ErrDayTokens}
		}
	}
	return nil
}

// reserve takes tokens, or gives some back. The lock is held.
func (t *Ticket) reserve(tokens int64, now time.Time) {
	t.reserved += tokens
	t.counts.reserved += tokens
	if n := t.limits.TokensPerMinute; n > 0 {
		t.counts.tokens.fill(n, now)
		t.counts.tokens.missing += float64(tokens)
	}
}

// Correct makes the number of reserved tokens another one. If it is more, and there are not so many,
// it returns an *Exceeded and changes nothing.
func (t *Ticket) Correct(tokens int64) error {
	l := t.all
	l.mu.Lock()
	defer l.mu.Unlock()
	now, more := l.cfg.Now(), tokens-t.reserved
	if more > 0 {
		if err := l.fits(t.key, &t.limits, t.counts, more, t.reserved, now); err != nil {
			return err
		}
	}
	t.reserve(more, now)
	return nil
}

// Output returns about how many tokens each choice of a request puts out that does not say how many
// it wants: as many as those of its key had lately.
func (t *Ticket) Output() int64 {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	return int64(t.counts.output)
}

// Used is what a request has used.
type Used struct {
	Prompt, Completion int64 // tokens
	Choices            int64 // whose outputs these are; 0: nothing was generated
	// Free says that the request shall not count as one, because the server had no place for it.
	Free bool
}

// Done ends a request. Later calls have no effect.
func (t *Ticket) Done(u Used) {
	l := t.all
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.ended {
		return
	}
	t.ended = true
	now, c := l.cfg.Now(), t.counts
	t.reserve(-t.reserved, now)
	used := u.Prompt + u.Completion
	if t.limits.TokensPerMinute > 0 {
		c.tokens.missing = max(0, c.tokens.missing+float64(used))
	}
	if !t.background {
		c.live--
	}
	switch {
	case !u.Free:
		c.took.Add(now.Sub(t.begun), 1)
	case t.limits.RequestsPerMinute > 0:
		c.requests.missing = max(0, c.requests.missing-1)
	}
	if u.Choices > 0 {
		c.output += (float64(u.Completion)/float64(u.Choices) - c.output) / 16
	}
	if t.limits.TokensPerDay > 0 && used > 0 {
		l.today(now).add(t.key, u.Prompt, u.Completion)
	}
}

// Left is what is left of a limit. Limit is 0 where there is none.
type Left struct {
	Limit, Remaining int64
	Reset            time.Duration // until all of it is there again
}

// Left returns what is left of a key's limits of requests, and of tokens: per minute or per day,
// whichever leaves less.
func (l *Limiter) Left(key string, limits *auth.Limits) (requests, tokens Left) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, c := l.cfg.Now(), l.of(key)
	if n := limits.RequestsPerMinute; n > 0 {
		c.requests.fill(n, now)
		requests = Left{n, c.requests.left(n), c.requests.full(n)}
	}
	if n := limits.TokensPerMinute; n > 0 {
		c.tokens.fill(n, now)
		tokens = Left{n, c.tokens.left(n), c.tokens.full(n)}
	}
	if n := limits.TokensPerDay; n > 0 {
		left := max(0, n-l.today(now).used[name(key)]-c.reserved)
		if tokens.Limit == 0 || left < tokens.Remaining {
			tokens = Left{n, left, untilNextDay(now)}
		}
	}
	return requests, tokens
}
