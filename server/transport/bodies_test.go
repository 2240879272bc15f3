package transport

import (
	"errors"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"weir/internal/memory"
	"weir/internal/retry"
	"weir/server/failure"
)

// deadlineConn is a connection that knows its deadline, and nothing else.
type deadlineConn struct {
	net.Conn
	deadline time.Time
}

func (c *deadlineConn) SetReadDeadline(t time.Time) error {
	c.deadline = t
	return nil
}

// bodyScript is a set of bodies under a clock that the test moves.
type bodyScript struct {
	t   *testing.T
	all *bodies
	now time.Time
}

func newBodyScript(t *testing.T, largest int, most int64) *bodyScript {
	s := &bodyScript{t: t, now: time.Unix(1000, 0)}
	cfg := DefaultConfig()
	cfg.MaxBody, cfg.MaxBodies, cfg.Clock = largest, most, func() time.Time { return s.now }
	s.all = newBodies(&cfg, memory.New(cfg.Memory, 0))
	return s
}

// body begins a body, which has n bytes of memory and a rate.
func (s *bodyScript) body(client string, n int64, bytesPerSecond int) *body {
	s.t.Helper()
	b := &body{all: s.all, client: client, conn: &conn{Conn: &deadlineConn{}}, bytes: []byte{0}}
	b.pace.least, b.pace.window = 1, time.Hour
	b.pace.got, b.pace.waited = int64(bytesPerSecond)*10, 10*time.Second
	if err := s.all.reserve(b, n); err != nil {
		s.t.Fatalf("%d bytes for %s: %v", n, client, err)
	}
	return b
}

func (s *bodyScript) refused(b *body, n int64) {
	s.t.Helper()
	if err := s.all.reserve(b, n); !errors.Is(err, failure.ErrMemory) {
		s.t.Errorf("%d bytes more for %s: %v", n, b.client, err)
	}
}

// One client gets as much as it leaves to others, and each client at least one body.
func TestShareOfBodies(t *testing.T) {
	s := newBodyScript(t, 100, 1000)
	for range 5 {
		s.body("greedy", 100, 1000)
	}
	next := s.body("greedy", 0, 1000)
	s.refused(next, 1)
	second := s.body("second", 100, 1000)
	if err := s.all.reserve(second, 100); err != nil {
		t.Errorf("a second body, with 400 bytes left: %v", err)
	}
	s.refused(second, 100)
	for _, client := range []string{"a", "b", "c"} {
		s.body(client, 100, 1000)
	}
	s.refused(s.body("d", 0, 1000), 1)
	if s.all.left() != 0 {
		t.Errorf("%d bytes left", s.all.left())
	}
	second.free()
	s.body("d", 100, 1000)
}

// Under pressure the slowest body that is still arriving gives up its memory: of any
// client, or of the same one if that is at its share.
func TestSlowestBodyEnds(t *testing.T) {
	s := newBodyScript(t, 100, 400)
	slow, slower, fast := s.body("a", 100, 20), s.body("b", 100, 10), s.body("c", 100, 1000)
	complete := s.body("d", 100, 1)
	if !s.all.arrived(complete) {
		t.Fatal("it was ended before")
	}
	fresh := s.body("e", 0, 0)
	fresh.pace.waited = 0
	if err := s.all.reserve(fresh, 50); err != nil {
		t.Fatal(err)
	}
	if !slower.ended.Load() || slow.ended.Load() || fast.ended.Load() || complete.ended.Load() {
		t.Error("not the slowest was ended")
	}
	if d := slower.conn.Conn.(*deadlineConn).deadline; d.IsZero() || d.After(time.Now()) {
		t.Errorf("its goroutine does not wake up: deadline %v", d)
	}
	if err := s.all.reserve(slower, 1); !errors.Is(err, failure.ErrSlowBody) {
		t.Errorf("it may go on: %v", err)
	}
	if _, err := slower.await(time.Minute); !errors.Is(err, failure.ErrSlowBody) {
		t.Errorf("it may wait: %v", err)
	}
	if s.all.arrived(slower) {
		t.Error("it may be complete")
	}
	slower.free()
	if used := s.all.used.Load(); used != 350 {
		t.Errorf("%d bytes are taken, want 350", used)
	}

	// A body is not ended for one that is slower, nor for a client that holds more.
	crawling := s.body("f", 50, 1)
	s.refused(crawling, 10)
	if s.body("a", 100, 2000); !slow.ended.Load() {
		t.Error("the client's own slow body is not ended")
	}
}

func TestOwnBodiesEndFirst(t *testing.T) {
	s := newBodyScript(t, 100, 1000)
	other := s.body("other", 10, 1)
	var own []*body
	for i := range 4 {
		own = append(own, s.body("greedy", 100, 100-i))
	}
	next := s.body("greedy", 90, 1000)
	if err := s.all.reserve(next, 10); err != nil {
		t.Fatal(err)
	}
	if other.ended.Load() || own[0].ended.Load() || !own[3].ended.Load() {
		t.Error("not the slowest of the client's own")
	}
}

// A client that is within its share does not end the body of one that holds less, however slow
// that is.
func TestPoorerBodyStays(t *testing.T) {
	s := newBodyScript(t, 100, 400)
	poor := s.body("poor", 50, 1)
	for client, n := range map[string]int64{"a": 100, "b": 100, "c": 90} {
		if !s.all.arrived(s.body(client, n, 1000)) {
			t.Fatal("it was ended before")
		}
	}
	rich := s.body("rich", 60, 1000)
	s.refused(rich, 40)
	if poor.ended.Load() {
		t.Error("it was ended for a client that holds more")
	}
}

func TestPace(t *testing.T) {
	now := time.Unix(1000, 0)
	p := pace{least: 100, window: 10 * time.Second}
	wait := func(seconds float64, n int) bool {
		now = now.Add(time.Duration(seconds * float64(time.Second)))
		return p.add(now, n)
	}
	patience := func(want time.Duration) {
		t.Helper()
		if d := p.patience(now); d != want {
			t.Errorf("patience %v, want %v", d, want)
		}
	}
	patience(10 * time.Second)
	if rate := p.bytesPerSecond(now); !math.IsInf(rate, 1) {
		t.Errorf("at once: %v", rate)
	}
	if rate := p.bytesPerSecond(now.Add(2 * time.Second)); rate != 0 {
		t.Errorf("after silence: %v", rate)
	}
	if !wait(4, 500) {
		t.Error("in the middle of a window")
	}
	now = now.Add(time.Hour) // nobody waits
	patience(6 * time.Second)
	if !wait(1, 500) {
		t.Error("enough in time")
	}
	patience(15 * time.Second) // this window has enough; the next one has to have as much
	if !wait(5, 0) {
		t.Error("a window with just enough")
	}
	patience(10 * time.Second)
	if rate := p.bytesPerSecond(now.Add(10 * time.Second)); rate != 50 {
		t.Errorf("over two windows: %v", rate)
	}
	if wait(10, 999) {
		t.Error("a window with too little")
	}
}

// Memory is taken as bytes arrive.
func TestGrow(t *testing.T) {
	s := newBodyScript(t, 32<<20, 1<<30)
	b := s.body("a", 0, 1000)
	b.bytes = nil
	for n := 0; n < 32<<20; n = len(b.bytes) {
		if err := b.grow(32 << 20); err != nil {
			t.Fatal(err)
		}
		if more := len(b.bytes) - n; more > max(n, 16<<10) || b.taken != int64(len(b.bytes)) {
			t.Errorf("%d bytes after %d, %d are taken", len(b.bytes), n, b.taken)
		}
	}
	b.free()
	if s.all.used.Load() != 0 || len(s.all.held) != 0 || len(s.all.arriving) != 0 {
		t.Errorf("%d bytes left, %v %v", s.all.used.Load(), s.all.held, s.all.arriving)
	}
}

func TestConfigOfBodies(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"BodyRate":   func(c *Config) { c.BodyRate = 0 },
		"BodyWindow": func(c *Config) { c.BodyWindow = -1 },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Who is refused is told when so many bytes are given back, as long as bodies held theirs before.
func TestBodiesSayWhenToRetry(t *testing.T) {
	s := newBodyScript(t, 100, 1000)
	for range 10 {
		b := s.body("a", 100, 10)
		s.now = s.now.Add(20 * time.Second)
		s.all.mu.Lock()
		s.all.release(b)
		s.all.mu.Unlock()
	}
	for i := range 10 {
		s.body(string(rune('a'+i)), 100, 10)
	}
	b := &body{all: s.all, client: "z", conn: &conn{Conn: &deadlineConn{}}}
	b.pace.got, b.pace.waited = 1, 10*time.Second // slower than all
	for n, want := range map[int64]time.Duration{10: time.Second / 5, 50: time.Second, 100: 2 * time.Second} {
		if err := s.all.reserve(b, n); !errors.Is(err, failure.ErrMemory) || retry.Of(err).Round(time.Millisecond) != want {
			t.Errorf("%d bytes: %v after %v, want %v", n, err, retry.Of(err), want)
		}
	}
}
