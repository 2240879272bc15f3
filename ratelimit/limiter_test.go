package ratelimit

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/auth"
)

// noon is the middle of a day of UTC.
var noon = time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)

// clocked is a limiter whose clock the test sets.
type clocked struct {
	*Limiter
	t   *testing.T
	now time.Time
}

func open(t *testing.T, dir string) *clocked {
	t.Helper()
	c := &clocked{t: t, now: noon}
	var err error
	if c.Limiter, err = Open(Config{Dir: dir, Now: func() time.Time { return c.now }, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// admit admits a request, which has to succeed.
func (c *clocked) admit(l auth.Limits, tokens int64) *Ticket {
	c.t.Helper()
	t, err := c.Admit("k", l, Asked{Tokens: tokens})
	if err != nil {
		c.t.Fatal(err)
	}
	return t
}

// refuse tries a request that must fail, and checks when it may come again: a moment earlier it is still
// too early, and then it is not.
func (c *clocked) refuse(l auth.Limits, tokens int64, want error) time.Duration {
	c.t.Helper()
	_, err := c.Admit("k", l, Asked{Tokens: tokens})
	e := (*Exceeded)(nil)
	if !errors.Is(err, want) || !errors.As(err, &e) || e.After < 1 || e.Key != "k" {
		c.t.Fatalf("the error is %v, want %v", err, want)
	}
	return e.After
}

func TestRequestsPerMinute(t *testing.T) {
	c, l := open(t, ""), auth.Limits{RequestsPerMinute: 3}
	for range 3 {
		c.admit(l, 0).Done(Used{})
	}
	if after := c.refuse(l, 0, ErrRequests); after != 20*time.Second {
		t.Errorf("again after %v", after)
	}
	c.now = c.now.Add(20*time.Second - time.Millisecond)
	if after := c.refuse(l, 0, ErrRequests); after.Round(time.Microsecond) != time.Millisecond {
		t.Errorf("again after %v", after)
	}
	c.now = c.now.Add(time.Millisecond)
	c.admit(l, 0).Done(Used{})
	c.refuse(l, 0, ErrRequests)
	if requests, tokens := c.Left("k", &l); requests != (Left{3, 0, time.Minute}) || tokens != (Left{}) {
		t.Errorf("left are %+v, %+v", requests, tokens)
	}
	c.now = c.now.Add(time.Hour) // which fills it, and no more than that
	for range 3 {
		c.admit(l, 0).Done(Used{})
	}
	c.refuse(l, 0, ErrRequests)
	// One that the server had no place for does not count, and neither does one of a batch.
	c.now = c.now.Add(20 * time.Second)
	c.admit(l, 0).Done(Used{Free: true})
	if _, err := c.Admit("k", l, Asked{Background: true}); err != nil {
		t.Error(err)
	}
	c.admit(l, 0).Done(Used{})
	c.refuse(l, 0, ErrRequests)
	if _, err := c.Admit("other", l, Asked{}); err != nil {
		t.Errorf("another key is refused: %v", err)
	}
	// A clock that is set back gives nothing.
	c.now = c.now.Add(-time.Hour)
	c.refuse(l, 0, ErrRequests)
}

func TestTokensPerMinute(t *testing.T) {
	c, l := open(t, ""), auth.Limits{TokensPerMinute: 600}
	first := c.admit(l, 100)
	if err := first.Correct(400); err != nil {
		t.Fatal(err)
	}
	if after := c.refuse(l, 250, ErrTokens); after != 5*time.Second {
		t.Errorf("again after %v", after)
	}
	e := (*Exceeded)(nil)
	second := c.admit(l, 200)
	if err := second.Correct(201); !errors.Is(err, ErrTokens) || !errors.As(err, &e) || e.After != 100*time.Millisecond {
		t.Errorf("one token too many: %v", err)
	}
	if _, left := c.Left("k", &l); left != (Left{600, 0, time.Minute}) {
		t.Errorf("left are %+v", left)
	}
	first.Done(Used{Prompt: 50, Completion: 50, Choices: 1}) // 300 fewer than were reserved
	first.Done(Used{Prompt: 500})                            // which has ended
	if _, left := c.Left("k", &l); left != (Left{600, 300, 30 * time.Second}) {
		t.Errorf("left are %+v", left)
	}
	if err := second.Correct(10); err != nil {
		t.Error(err)
	}
	second.Done(Used{Prompt: 700, Choices: 1}) // more than it could have: the key is in debt
	if after := c.refuse(l, 1, ErrTokens); after != 20*time.Second+100*time.Millisecond {
		t.Errorf("again after %v", after)
	}
	// A request that is larger than the limit passes when the bucket is full, and then others wait for
	// what it took.
	c.now = c.now.Add(time.Hour)
	large := c.admit(l, 100)
	if err := large.Correct(1800); err != nil {
		t.Error(err)
	}
	if after := c.refuse(l, 0, ErrTokens); after != 2*time.Minute {
		t.Errorf("again after %v", after)
	}
	large.Done(Used{})
	if _, left := c.Left("k", &l); left.Remaining != 600 {
		t.Errorf("left are %+v", left)
	}
}

func TestConcurrency(t *testing.T) {
	c, l := open(t, ""), auth.Limits{Concurrency: 2}
	one, two := c.admit(l, 0), c.admit(l, 0)
	if after := c.refuse(l, 0, ErrConcurrency); after != 1 {
		t.Errorf("again after %v, although nothing is known", after)
	}
	c.now = c.now.Add(8 * time.Second)
	one.Done(Used{})
	one.Done(Used{})
	three := c.admit(l, 0)
	if after := c.refuse(l, 0, ErrConcurrency); after != 4*time.Second {
		t.Errorf("again after %v, where one of two that take 8 s has to end", after)
	}
	if _, err := c.Admit("k", l, Asked{Background: true}); err != nil {
		t.Errorf("a batch is refused: %v", err)
	}
	two.Done(Used{})
	three.Done(Used{})
	c.admit(l, 0)
	c.admit(l, 0)
	c.refuse(l, 0, ErrConcurrency)
}

// A request that one limit refuses takes nothing of the others.
func TestAllOrNothing(t *testing.T) {
	c := open(t, "")
	l := auth.Limits{RequestsPerMinute: 2, TokensPerMinute: 100, TokensPerDay: 100, Concurrency: 2}
	c.admit(l, 60)
	for range 5 {
		c.refuse(l, 50, ErrTokens)
	}
	c.admit(l, 40)
	c.refuse(l, 0, ErrConcurrency)
}

func TestOutput(t *testing.T) {
	c, l := open(t, ""), auth.Limits{TokensPerMinute: 1e6}
	if n := c.admit(l, 0).Output(); n != firstOutput {
		t.Errorf("%d tokens are taken for an output", n)
	}
	for range 100 {
		c.admit(l, 0).Done(Used{Completion: 40, Choices: 2})
		c.admit(l, 0).Done(Used{Prompt: 1000}) // puts out nothing
	}
	if n := c.admit(l, 0).Output(); n < 20 || n > 22 {
		t.Errorf("%d tokens are taken for an output, where 20 are usual", n)
	}
}

// What cannot be kept is counted all the same, and Open says that it is not kept.
func TestUnwritable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := Open(Config{Dir: file, Log: slog.New(slog.DiscardHandler)})
	if err == nil || l == nil {
		t.Fatalf("%v, %v", l, err)
	}
	limits := auth.Limits{TokensPerDay: 10}
	ticket, err := l.Admit("k", limits, Asked{Tokens: 10})
	if err != nil {
		t.Fatal(err)
	}
	ticket.Done(Used{Prompt: 10})
	if _, err := l.Admit("k", limits, Asked{Tokens: 1}); !errors.Is(err, ErrDayTokens) {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

// Names of keys are any text, and those of the ledger are not.
func TestNames(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{"k", "other", "-", "a b", "a+b", "käse", "a/b", "\n", strings.Repeat("x", 400), strings.Repeat("x", 401)} {
		n := name(key)
		if seen[n] != "" || len(n) > 256 || strings.ContainsFunc(n, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
			t.Errorf("%q is called %q, as %q", key, n, seen[n])
		}
		seen[n] = key
	}
}

// twin is a simple limiter: it counts the same things as two plain sums.
type twin struct {
	limits           auth.Limits
	requests, tokens float64 // that are missing
	live             []*Ticket
	reserved         map[*Ticket]int64
}

func (w *twin) pass(minutes float64) {
	w.requests = max(0, w.requests-minutes*float64(w.limits.RequestsPerMinute))
	w.tokens = max(0, w.tokens-minutes*float64(w.limits.TokensPerMinute))
}

// fits reports whether a request may have n tokens, beside others that miss so many.
func (w *twin) fits(missing float64, n int64) bool {
	return missing+float64(min(n, w.limits.TokensPerMinute)) <= float64(w.limits.TokensPerMinute)+1e-6
}

func (w *twin) admits(n int64) bool {
	return int64(len(w.live)) < w.limits.Concurrency && w.requests+1 <= float64(w.limits.RequestsPerMinute)+1e-6 && w.fits(w.tokens, n)
}

func (w *twin) corrects(one *Ticket, n int64) bool {
	return n <= w.reserved[one] || w.fits(w.tokens-float64(w.reserved[one]), n)
}

// step does one thing with the limiter and with its twin, and reports whether they agree.
func (w *twin) step(l *Limiter, what int, n int64) bool {
	if what == 0 {
		want := w.admits(n)
		ticket, err := l.Admit("k", w.limits, Asked{Tokens: n})
		if err == nil {
			w.live, w.reserved[ticket] = append(w.live, ticket), n
			w.requests, w.tokens = w.requests+1, w.tokens+float64(n)
		}
		return (err == nil) == want
	}
	if len(w.live) == 0 {
		return true
	}
	one := w.live[0]
	if what == 1 {
		want := w.corrects(one, n)
		err := one.Correct(n)
		if err == nil {
			w.tokens, w.reserved[one] = w.tokens+float64(n-w.reserved[one]), n
		}
		return (err == nil) == want
	}
	w.live = w.live[1:]
	one.Done(Used{Prompt: n})
	w.tokens = max(0, w.tokens-float64(w.reserved[one])+float64(n))
	return true
}

// TestTwin holds the limiter against a simple one.
func TestTwin(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		c := open(t, "")
		w := &twin{limits: auth.Limits{RequestsPerMinute: 1 + rnd.Int64N(20), TokensPerMinute: 1 + rnd.Int64N(1000), Concurrency: 1 + rnd.Int64N(5)}, reserved: map[*Ticket]int64{}}
		for i := range 200 {
			passed := time.Duration(rnd.Int64N(int64(10 * time.Second)))
			c.now = c.now.Add(passed)
			w.pass(passed.Minutes())
			if !w.step(c.Limiter, rnd.IntN(3), rnd.Int64N(400)) {
				t.Fatalf("seed %d, step %d: they differ", seed, i)
			}
		}
	}
}
