package transport

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/memory"
	"weir/internal/retry"
	"weir/server/failure"
)

// bodies shares the memory for request bodies among clients, so that those who send slowly
// or much keep nobody else out. A client is a tenant as [Call.Tenant] has it.
//
//   - Memory is taken as bytes arrive, and not by the length that was announced.
//   - A client may hold one body of the largest size. Beyond that it may hold as much as is
//     then still left for others, so that one client alone gets at most half of all, and there
//     is always some left. (Network switches share their packet memory by this rule: Choudhury
//     and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998.)
//   - When memory is short, the slowest body that is still arriving is ended and gives up its
//     memory, if it is slower than the body that needs it, and its client holds no less.
type bodies struct {
	budget
	largest int64            // bytes of one body
	now     func() time.Time // Config.Clock

	mu       sync.Mutex
	held     map[string]int64   // bytes by client; those with none are not there
	arriving map[*body]struct{} // bodies that hold memory and are still being read
	lived    retry.Mean         // how long bodies hold a byte
}

// budget bounds the bytes of all request bodies in memory together. Each single body is
// bounded by Config.MaxBody.
type budget struct {
	most int64
	used atomic.Int64
	held *memory.Reservation // of used bytes; bodies do not wait for memory
}

// take adds n bytes, and reports whether they are within the bound. If not, it adds none.
func (b *budget) take(n int64) bool {
	if b.used.Add(n) > b.most || !b.held.TryGrow(n) {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *budget) give(n int64) {
	b.used.Add(-n)
	b.held.Shrink(n)
}

func (b *budget) left() int64 { return b.most - b.used.Load() }

// bodiesShare is the part of Config.Memory that bodies may take: one in so many. The rest is
// for preparing requests and for answers, without which bodies are never freed.
const bodiesShare = 4

func newBodies(cfg *Config, account *memory.Account) *bodies {
	most := max(int64(cfg.MaxBody), min(cfg.MaxBodies, account.Limit()/bodiesShare))
	return &bodies{
		budget: budget{most: most, held: account.Open()}, largest: int64(cfg.MaxBody), now: cfg.Clock,
		held: make(map[string]int64), arriving: make(map[*body]struct{}),
	}
}

// reserve takes n more bytes for a body that is being read. It fails with
// failure.ErrMemory if there is no place, and with failure.ErrSlowBody if the body has been
// ended to make place for another.
func (s *bodies) reserve(b *body, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		if b.ended.Load() {
			return failure.ErrSlowBody
		}
		own := s.held[b.client]
		within := own+n <= max(s.largest, s.left()-n)
		if within && s.take(n) {
			break
		}
		// A client that has its share can only get the memory of its own bodies.
		slowest := s.slowest(b, func(other *body) bool {
			return other.client == b.client || within && s.held[other.client] >= own
		})
		if slowest == nil {
			// In the time that a byte is held on average, as many are given back as are held now.
			return retry.After(failure.ErrMemory, s.lived.Times(float64(n)/float64(max(1, s.used.Load()))))
		}
		s.end(slowest)
	}
	if b.taken == 0 {
		b.since = s.now()
	}
	b.taken += n
	s.held[b.client] += n
	s.arriving[b] = struct{}{}
	return nil
}

// slowest returns the slowest body that may be ended for b; nil: there is none that is
// slower than b.
func (s *bodies) slowest(b *body, may func(*body) bool) *body {
	now := s.now()
	least := b.pace.bytesPerSecond(now)
	var slowest *body
	for other := range s.arriving {
		if other == b || !may(other) {
			continue
		}
		if rate := other.pace.bytesPerSecond(now); rate < least {
			slowest, least = other, rate
		}
	}
	return slowest
}

// end ends a body that is being read, and gives its memory back. The bytes themselves
// become garbage when its goroutine wakes up, at once.
func (s *bodies) end(b *body) {
	b.ended.Store(true)
	_ = b.conn.SetReadDeadline(time.Unix(1, 0)) // the goroutine finds out, or the connection is closed already
	s.release(b)
}

// release gives the memory of a body back.
func (s *bodies) release(b *body) {
	delete(s.arriving, b)
	if b.taken > 0 {
		s.lived.Add(s.now().Sub(b.since), float64(b.taken))
	}
	if s.held[b.client] -= b.taken; s.held[b.client] == 0 {
		delete(s.held, b.client)
	}
	s.give(b.taken)
	b.taken = 0
}

// arrived is called when a body is complete. It is not ended for others any more; arrived
// reports whether it has not been ended before.
func (s *bodies) arrived(b *body) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.arriving, b)
	return !b.ended.Load()
}

// pace measures how fast a body arrives. Only the time counts in which bytes were waited for.
// The rate is that of a window of time, and not of the whole body: otherwise a client that
// begins fast could then be silent for long.
type pace struct {
	least  int64         // bytes per second
	window time.Duration // in which so many bytes per second have to arrive

	mu      sync.Mutex
	since   time.Time // when the present wait began; zero: nobody waits
	waited  time.Duration
	got     int64
	before  int64 // bytes of the window before this one
	earlier time.Duration
}

// settled is the time after which a rate means something. A body that has been waited for
// less counts as infinitely fast.
const settled = time.Second

// patience begins a wait for bytes, and returns how long it may last: if nothing has come
// by then, the body is too slow.
func (p *pace) patience(now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = now
	if p.got >= p.need() {
		return 2*p.window - p.waited
	}
	return p.window - p.waited
}

func (p *pace) need() int64 { return int64(float64(p.least) * p.window.Seconds()) }

// add ends a wait in which n bytes came, and reports whether the body is fast enough.
func (p *pace) add(now time.Time, n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waited += now.Sub(p.since)
	p.got += int64(n)
	p.since = time.Time{}
	if p.waited < p.window {
		return true
	}
	enough := p.got >= p.need()
	p.before, p.earlier, p.got, p.waited = p.got, p.waited, 0, 0
	return enough
}

// bytesPerSecond returns the rate over this window and the one before.
func (p *pace) bytesPerSecond(now time.Time) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.waited + p.earlier
	if !p.since.IsZero() {
		t += now.Sub(p.since)
	}
	if t < settled {
		return math.Inf(1)
	}
	return float64(p.got+p.before) / t.Seconds()
}

// body is a request's body and its share of the memory for bodies.
type body struct {
	bytes  []byte
	all    *bodies
	client string
	conn   *conn
	pace   pace
	taken  int64       // guarded by all.mu
	since  time.Time   // when it took its first memory; likewise
	ended  atomic.Bool // its memory was needed for another body
}
