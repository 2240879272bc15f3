package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/retry"
)

// model is a simple implementation of what an account decides.
type model struct {
	limit   int64
	held    []int64 // by reservation
	owner   []int   // by reservation; 0: the process
	closed  []bool
	waiting []want         // those of light owners first
	passed  map[int]int64  // what has passed a heavy reservation that waits, by its number
	now     int            // milliseconds
	outcome map[int]string // of reservations that do not wait any more
}

type want struct {
	who   int
	n     int64
	until int // milliseconds
	light bool
}

const waits = 100 // milliseconds

func (m *model) used() (n int64) {
	for _, h := range m.held {
		n += h
	}
	return n
}

func (m *model) waits(who int) bool {
	return slices.ContainsFunc(m.waiting, func(w want) bool { return w.who == who })
}

// light reports whether the owner of a reservation would hold an eighth at most.
func (m *model) light(who int, n int64) bool {
	for i := range m.held {
		if m.owner[i] == m.owner[who] {
			n += m.held[i]
		}
	}
	return m.owner[who] != 0 && n <= m.limit/8
}

// fits reports whether the bytes are there.
func (m *model) fits(who int, n int64) bool {
	most := m.limit
	if m.owner[who] != 0 && !m.light(who, n) {
		alone := m.held[who]+n > m.limit-m.limit/8 && m.used() == m.held[who]
		if !alone {
			most -= m.limit / 8
		}
	}
	return m.used()+n <= most
}

// firstOf is the first reservation in one of the lines; -1: there is none.
func (m *model) firstOf(light bool) int {
	return slices.IndexFunc(m.waiting, func(w want) bool { return w.light == light })
}

func (m *model) mayPass(n int64) bool {
	i := m.firstOf(false)
	return i < 0 || m.passed[m.waiting[i].who]+n <= m.limit/8
}

func (m *model) pass(n int64) {
	if i := m.firstOf(false); i >= 0 {
		m.passed[m.waiting[i].who] += n
	}
}

func (m *model) serve(i int) {
	w := m.waiting[i]
	m.waiting = slices.Delete(m.waiting, i, i+1)
	delete(m.passed, w.who)
	m.held[w.who] += w.n
	m.outcome[w.who] = "granted"
}

func (m *model) grant() {
	for m.grantOne() {
	}
}

func (m *model) grantOne() bool {
	if i := m.firstOf(true); i >= 0 {
		w := m.waiting[i]
		if !m.light(w.who, w.n) {
			w.light = false
			m.waiting = append(slices.Delete(m.waiting, i, i+1), w)
			return true
		}
		if m.fits(w.who, w.n) && m.mayPass(w.n) {
			m.pass(w.n)
			m.serve(i)
			return true
		}
	}
	if i := m.firstOf(false); i >= 0 && m.fits(m.waiting[i].who, m.waiting[i].n) {
		m.serve(i)
		return true
	}
	return false
}

// tick lets a millisecond pass.
func (m *model) tick() {
	m.now++
	for {
		i := slices.IndexFunc(m.waiting, func(w want) bool { return w.until <= m.now })
		if i < 0 {
			return
		}
		m.leave(m.waiting[i].who, "full")
	}
}

func (m *model) grow(who int, n int64) {
	light := m.light(who, n)
	both, own, most := m.held[who], m.held[who], m.limit/4
	if light {
		most = m.limit / 8
	}
	for _, w := range m.waiting {
		both += m.held[w.who]
		if w.light == light {
			own += m.held[w.who]
		}
	}
	turn := m.firstOf(true) < 0 && (light && m.mayPass(n) || m.firstOf(false) < 0)
	switch {
	case m.held[who]+n > m.limit:
		m.outcome[who] = "never"
	case m.fits(who, n) && turn:
		if light {
			m.pass(n)
		}
		m.held[who] += n
		m.outcome[who] = "granted"
	case own > most || both > m.limit/4+m.limit/8:
		m.outcome[who] = "full"
	default:
		m.waiting = append(m.waiting, want{who, n, m.now + waits, light})
	}
}

func (m *model) leave(who int, why string) {
	m.waiting = slices.DeleteFunc(m.waiting, func(w want) bool { return w.who == who })
	delete(m.passed, who)
	m.outcome[who] = why
	m.grant()
}

// TestAgainstModel does random operations with an account and with the model. After each,
// both have to hold the same bytes for everybody and to have the same outcomes.
func TestAgainstModel(t *testing.T) {
	for seed := range uint64(200) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { compare(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

// errLeft is the cause of a context whose client has left.
var errLeft = errors.New("left")

// comparison is an account beside a model of it.
type comparison struct {
	t       *testing.T
	rng     *rand.Rand
	account *Account
	model   *model
	all     []*Reservation
	cancel  map[int]context.CancelCauseFunc
	results chan string // "<reservation> <outcome>"
}

func compare(t *testing.T, rng *rand.Rand) {
	const limit = 1000
	c := &comparison{
		t: t, rng: rng, account: New(limit, waits*time.Millisecond), model: &model{limit: limit, outcome: map[int]string{}, passed: map[int]int64{}},
		cancel: map[int]context.CancelCauseFunc{}, results: make(chan string, 1000),
	}
	for range 300 {
		if len(c.all) == 0 || rng.IntN(6) == 0 {
			c.open(rng.IntN(4))
		}
		if who := rng.IntN(len(c.all)); !c.model.closed[who] {
			c.operate(who)
		}
		c.check()
		c.tick()
	}
	for range waits {
		c.tick()
	}
	for i, r := range c.all {
		if !c.model.closed[i] {
			r.Release()
		}
	}
	if s := c.account.Stats(); s.Used != 0 || s.Waiting != 0 || len(c.account.mu.owners) != 0 {
		t.Errorf("in the end: %+v, %d owners", s, len(c.account.mu.owners))
	}
}

// open opens a reservation of an owner; 0: of the process.
func (c *comparison) open(owner int) {
	r := c.account.Open()
	if owner > 0 {
		r = c.account.OpenFor(fmt.Sprint(owner))
	}
	c.all = append(c.all, r)
	c.model.held, c.model.owner, c.model.closed = append(c.model.held, 0), append(c.model.owner, owner), append(c.model.closed, false)
}

// tick lets a millisecond pass on the test's own clock.
func (c *comparison) tick() {
	time.Sleep(time.Millisecond)
	c.model.tick()
	c.check()
}

// operate does one random operation with a reservation.
func (c *comparison) operate(who int) {
	m, r := c.model, c.all[who]
	if m.waits(who) {
		if c.rng.IntN(3) == 0 {
			c.cancel[who](errLeft)
			m.leave(who, "left")
		}
		return
	}
	switch n := c.rng.Int64N(400); c.rng.IntN(7) {
	case 6:
		to := c.rng.IntN(len(c.all))
		if !m.closed[to] && !m.waits(to) {
			n = min(n, m.held[who])
			m.held[who] -= n
			m.held[to] += n
			r.Move(c.all[to], n)
		}
	case 0, 1:
		ctx, cancel := context.WithCancelCause(c.t.Context())
		c.cancel[who] = cancel
		m.grow(who, n)
		go func() { c.results <- fmt.Sprint(who, " ", outcome(r.Grow(ctx, n))) }()
	case 2:
		fits := m.used()+n <= m.limit
		if fits {
			m.held[who] += n
		}
		if got := r.TryGrow(n); got != fits {
			c.t.Fatalf("TryGrow(%d) is %t, want %t", n, got, fits)
		}
	case 3:
		n = min(n, m.held[who])
		m.held[who] -= n
		r.Shrink(n)
		m.grant()
	case 4:
		m.held[who], m.closed[who] = 0, true
		r.Release()
		m.grant()
	case 5:
		if c.rng.IntN(10) == 0 {
			m.held[who] += n
			r.Force(n)
		}
	}
}

func outcome(err error) string {
	switch {
	case err == nil:
		return "granted"
	case errors.Is(err, ErrNever):
		return "never"
	case errors.Is(err, ErrFull):
		return "full"
	case errors.Is(err, errLeft):
		return "left"
	}
	return err.Error()
}

// check compares what is held, and takes the outcomes that both must have by now.
func (c *comparison) check() {
	c.t.Helper()
	synctest.Wait()
	for len(c.results) > 0 {
		var who int
		var got string
		_, _ = fmt.Sscan(<-c.results, &who, &got)
		if want := c.model.outcome[who]; got != want {
			c.t.Fatalf("reservation %d: %s, want %s", who, got, want)
		}
		delete(c.model.outcome, who)
	}
	if len(c.model.outcome) > 0 {
		c.t.Fatalf("no outcome yet: %v", c.model.outcome)
	}
	for i, r := range c.all {
		if r.Held() != c.model.held[i] {
			c.t.Fatalf("reservation %d holds %d, want %d", i, r.Held(), c.model.held[i])
		}
	}
	if s := c.account.Stats(); s.Used != c.model.used() || s.Waiting != len(c.model.waiting) {
		c.t.Fatalf("%+v, want %d used and %d waiting", s, c.model.used(), len(c.model.waiting))
	}
}

// A large reservation is not starved by small ones that come after it.
func TestLargeIsNotStarved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(100, time.Minute)
		first, _ := a.Reserve(t.Context(), 60)
		large := make(chan error, 1)
		go func() {
			r, err := a.Reserve(t.Context(), 90)
			large <- err
			if err == nil {
				r.Release()
			}
		}()
		synctest.Wait()
		small := make(chan error, 1)
		go func() {
			_, err := a.Reserve(t.Context(), 40)
			small <- err
		}()
		synctest.Wait()
		if len(small) != 0 {
			t.Fatal("a small reservation has passed a large one that waited")
		}
		first.Release()
		if err := <-large; err != nil {
			t.Fatal(err)
		}
		if err := <-small; err != nil {
			t.Fatal(err)
		}
	})
}

// An owner whose requests fill the memory and wait for more of it makes others wait neither
// for what he holds nor for those that wait.
func TestLightOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(8000, time.Minute)
		grow := func(r *Reservation, n int64) chan error {
			done := make(chan error, 1)
			go func() { done <- r.Grow(t.Context(), n) }()
			synctest.Wait()
			return done
		}
		for range 10 {
			grow(a.OpenFor("many"), 1000) // seven of them are served
		}
		if s := a.Stats(); s.Used != 7000 || s.Waiting != 3 {
			t.Fatalf("%+v, want 7,000 bytes used and 3 waiting", s)
		}
		for i := range 10 {
			done := grow(a.OpenFor("few"), 100)
			if len(done) != 1 {
				t.Fatalf("%d reservations of 100 bytes were served", i)
			}
		}
		if done := grow(a.OpenFor("others"), 1); len(done) != 0 {
			t.Error("more than an eighth has passed those that wait")
		}
	})
}

// A reservation that needs nearly all is served when nobody else holds anything.
func TestNearlyAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(8000, time.Minute)
		small := a.OpenFor("a")
		if err := small.Grow(t.Context(), 10); err != nil {
			t.Fatal(err)
		}
		large, done := a.OpenFor("b"), make(chan error, 1)
		go func() { done <- large.Grow(t.Context(), 7900) }()
		synctest.Wait()
		if len(done) != 0 {
			t.Fatal("it was served beside another reservation")
		}
		small.Release()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}

// What a request holds in other reservations, such as its body, does not keep it from having
// nearly all, and it counts when it can never fit.
func TestNearlyAllBeside(t *testing.T) {
	a := New(8000, 0)
	body := a.Open()
	if !body.TryGrow(500) {
		t.Fatal("no memory for the body")
	}
	r := a.OpenFor("a")
	if err := r.Grow(t.Context(), 6800); !errors.Is(err, ErrFull) {
		t.Fatalf("beside bytes that are somebody else's: %v", err)
	}
	r.Beside(500)
	if err := r.Grow(t.Context(), 7501); !errors.Is(err, ErrNever) {
		t.Fatalf("with its body, more than there is: %v", err)
	}
	if err := r.Grow(t.Context(), 7500); err != nil {
		t.Fatalf("with its body, all there is: %v", err)
	}
}

// Requests that hold memory and need more cannot lock each other out: when those that wait
// hold a quarter, others are refused at once.
func TestNoCircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(1000, time.Minute)
		results, all := make(chan error, 50), make(chan struct{})
		for range 50 {
			go func() {
				r, err := a.Reserve(t.Context(), 20)
				if err != nil {
					results <- err
					return
				}
				<-all
				err = r.Grow(t.Context(), 300)
				r.Release()
				results <- err
			}()
		}
		synctest.Wait() // all hold their first bytes, and together the whole limit
		close(all)
		served, full := 0, 0
		for range 50 {
			if err := <-results; err == nil {
				served++
			} else if errors.Is(err, ErrFull) {
				full++
			}
		}
		if served == 0 || served+full != 50 || a.Stats().Used != 0 {
			t.Errorf("%d served, %d refused, %+v", served, full, a.Stats())
		}
	})
}

// A cache gives back before anybody waits or is refused, and grows only into what nobody
// waits for.
func TestCacheGivesBack(t *testing.T) {
	a := New(100, 0)
	var cache *Reservation
	var asked []int64
	cache = a.Cache(func(n int64) {
		asked = append(asked, n)
		cache.Shrink(min(n, cache.Held()))
	})
	if !cache.TryGrow(80) {
		t.Fatal("the cache may not grow in an empty account")
	}
	r, err := a.Reserve(t.Context(), 50)
	if err != nil || !slices.Equal(asked, []int64{30}) || cache.Held() != 50 {
		t.Fatalf("%v, asked for %v, the cache holds %d", err, asked, cache.Held())
	}
	if !r.TryGrow(20) || cache.Held() != 30 {
		t.Errorf("the cache holds %d", cache.Held())
	}
	if cache.TryGrow(1) {
		t.Error("the cache has grown beyond the limit")
	}
	if _, err := a.Reserve(t.Context(), 101); !errors.Is(err, ErrNever) || cache.Held() != 30 {
		t.Errorf("%v; the cache holds %d", err, cache.Held())
	}
	if s := a.Stats(); s.Cached != 30 || s.Used != 100 || s.Never != 1 {
		t.Errorf("%+v", s)
	}
	r.Release()
	cache.Release()
	if s := a.Stats(); s.Used != 0 || s.Cached != 0 {
		t.Errorf("%+v", s)
	}
}

// Reserving what is there costs one allocation, growing and shrinking none.
func TestAllocations(t *testing.T) {
	a := New(1<<20, 0)
	r := a.Open()
	if n := testing.AllocsPerRun(100, func() {
		if r.TryGrow(10) && r.Grow(t.Context(), 20) == nil {
			r.Shrink(30)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Who is refused is told when so many bytes are given back, as long as they were held before; those that
// wait come first.
func TestWhenToRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(1000, 10*time.Second)
		reserve := func(n int64) *Reservation {
			r, err := a.Reserve(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		refused := func(n int64, want time.Duration) {
			t.Helper()
			if _, err := a.Reserve(t.Context(), n); !errors.Is(err, ErrFull) || retry.Of(err).Round(time.Millisecond) != want {
				t.Errorf("%d bytes: %v after %v, want %v", n, err, retry.Of(err), want)
			}
		}
		all := reserve(1000)
		refused(10, 0) // nothing was given back yet
		time.Sleep(30 * time.Second)
		all.Release() // after 40 s
		all = reserve(1000)
		refused(250, 10*time.Second)
		refused(500, 20*time.Second)
		left := make(chan error)
		go func() {
			_, err := a.Reserve(t.Context(), 250)
			left <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		refused(500, 20*time.Second) // when its time was over, nobody waited any more
		if err := <-left; retry.Of(err).Round(time.Millisecond) != 30*time.Second {
			t.Errorf("before another: %v after %v", err, retry.Of(err))
		}
		all.Release()
	})
}

// Moved bytes are those of the other reservation, and nobody who waits gets them in between.
func TestMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(100, time.Minute)
		from, _ := a.Reserve(t.Context(), 90)
		to := a.Open()
		waits := make(chan error, 1)
		go func() {
			_, err := a.Reserve(t.Context(), 30)
			waits <- err
		}()
		synctest.Wait()
		from.Move(to, 80)
		synctest.Wait()
		if len(waits) != 0 || from.Held() != 10 || to.Held() != 80 || a.Stats().Used != 90 {
			t.Errorf("%d and %d bytes are held, of %+v; %d waiters were served", from.Held(), to.Held(), a.Stats(), len(waits))
		}
		to.Release()
		if err := <-waits; err != nil {
			t.Error(err)
		}
	})
}
