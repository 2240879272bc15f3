package memory

import (
	"context"
	"errors"
	"sync"
	"time"

	"weir/internal/invariants"
	"weir/internal/retry"
)

var (
	// ErrNever refuses a reservation that is larger than the limit of its account.
	ErrNever = errors.New("memory: more than the limit")
	// ErrFull refuses a reservation that does not fit now.
	ErrFull = errors.New("memory: the account is full")
)

// Account counts reserved bytes against a limit. Its methods may be called from any
// goroutine.
type Account struct {
	limit int64
	wait  time.Duration

	mu struct {
		sync.Mutex
		used    int64
		most    int64 // see Stats
		cached  int64 // of these, the bytes of caches
		owners  map[string]*owner
		waiting [2]line // by waiter.light
		caches  []*Reservation
		never   uint64
		full    uint64
		lived   retry.Mean // of bytes: from the opening of their reservation to its release
	}
}

// New returns an account of limit bytes, at least 1, in which a reservation waits at most
// for the given time.
func New(limit int64, wait time.Duration) *Account {
	return &Account{limit: max(limit, 1), wait: wait}
}

// Part returns an account of its own that waits as long as a does, for those who together
// may hold only so many of its bytes: they reserve in both.
func (a *Account) Part(limit int64) *Account { return New(min(limit, a.limit), a.wait) }

// Stats is what an account has counted.
type Stats struct {
	Limit, Used int64  // bytes; Used has those of caches too
	Cached      int64  // bytes of caches
	Most        int64  // the most that Used was so far without those of caches
	Waiting     int    // reservations that wait
	Never, Full uint64 // reservations that were refused so far, by their error
}

// Stats returns the counts of now.
func (a *Account) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := a.mu.waiting[heavy].Len() + a.mu.waiting[light].Len()
	return Stats{Limit: a.limit, Used: a.mu.used, Cached: a.mu.cached, Most: a.mu.most, Waiting: waiting, Never: a.mu.never, Full: a.mu.full}
}

// Limit returns the limit in bytes.
func (a *Account) Limit() int64 { return a.limit }

// Reservation is a number of bytes of an account. Its methods may be called from any
// goroutine.
type Reservation struct {
	account *Account
	owner   *owner // nil: the process itself
	opened  time.Time
	held    int64       // guarded by Account.mu
	beside  int64       // see Beside; likewise
	closed  bool        // likewise
	reclaim func(int64) // of a cache
}

// Open returns a reservation of no bytes, which belongs to the process itself.
func (a *Account) Open() *Reservation { return &Reservation{account: a, opened: time.Now()} }

// owner is somebody whose reservations are counted together.
type owner struct {
	name string
	held int64 // bytes
	open int   // reservations
}

// OpenFor returns a reservation of no bytes that belongs to somebody, who shares the account
// with others.
func (a *Account) OpenFor(name string) *Reservation {
	r := a.Open()
	a.mu.Lock()
	defer a.mu.Unlock()
	o := a.mu.owners[name]
	if o == nil {
		if a.mu.owners == nil {
			a.mu.owners = make(map[string]*owner)
		}
		o = &owner{name: name}
		a.mu.owners[name] = o
	}
	o.open++
	r.owner = o
	return r
}

// Beside says that other reservations of the account hold n bytes for the same request, which
// end with it. They are nothing that it could wait for.
func (r *Reservation) Beside(n int64) {
	a := r.account
	a.mu.Lock()
	defer a.mu.Unlock()
	r.beside = n
}

// Reserve returns a reservation of n bytes, which it may have to wait for (see
// Reservation.Grow).
func (a *Account) Reserve(ctx context.Context, n int64) (*Reservation, error) {
	r := a.Open()
	if err := r.Grow(ctx, n); err != nil {
		return nil, err
	}
	return r, nil
}

// Cache returns a reservation of no bytes for what can be built again. reclaim is called
// when n bytes are missing elsewhere, with no lock held, and should shrink the reservation
// by as much of them as it can; it may be called at any time and by several goroutines.
func (a *Account) Cache(reclaim func(n int64)) *Reservation {
	r := &Reservation{account: a, reclaim: reclaim}
	a.mu.Lock()
	a.mu.caches = append(a.mu.caches, r)
	a.mu.Unlock()
	return r
}

// Grow adds n bytes. If they are not there it waits for them in turn. It fails
// with ErrNever if its request would hold more than the limit, with ErrFull if the
// bytes are not there in time, and with the cause of ctx if that ends before.
func (r *Reservation) Grow(ctx context.Context, n int64) error {
	if r.grow(n, false) {
		return nil
	}
	w, err := r.queue(n)
	if w == nil {
		return err
	}
	timer := time.NewTimer(r.account.wait)
	defer timer.Stop()
	select {
	case <-w.granted:
		return nil
	case <-timer.C:
		err = ErrFull
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return r.account.leave(w, err)
}

// TryGrow adds n bytes if they are there, even if other reservations wait for some. It is
// for work that has begun and cannot wait.
func (r *Reservation) TryGrow(n int64) bool { return r.grow(n, true) }

// grow adds n bytes, after asking the caches for what is missing. pass lets it pass those
// that wait.
func (r *Reservation) grow(n int64, pass bool) bool {
	a := r.account
	ok, missing := a.take(r, n, pass)
	if ok || missing <= 0 || n > a.limit {
		return ok
	}
	if r.reclaim == nil { // a cache does not drive out others
		a.reclaim(missing)
		ok, _ = a.take(r, n, pass)
	}
	return ok
}

// take adds n bytes to r if that is possible at once. missing is the number of bytes that
// would have to be given back before.
func (a *Account) take(r *Reservation, n int64, pass bool) (ok bool, missing int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	invariants.Check(n >= 0 && !r.closed, "growing a reservation by %d bytes, which was released: %t", n, r.closed)
	room := a.room(r, n)
	if pass {
		room = a.limit
	}
	missing = a.mu.used + n - room
	if missing > 0 || (!pass || r.reclaim != nil) && !a.first(r, n) {
		return false, missing
	}
	a.add(r, n)
	return true, 0
}

// add adds n bytes, which may be less than 0. The caller holds mu.
func (a *Account) add(r *Reservation, n int64) {
	r.held += n
	a.mu.used += n
	if r.owner != nil {
		r.owner.held += n
	}
	if r.reclaim != nil {
		a.mu.cached += n
	}
	a.mu.most = max(a.mu.most, a.mu.used-a.mu.cached)
	invariants.Check(r.held >= 0 && a.mu.used >= 0, "a reservation holds %d bytes, the account %d", r.held, a.mu.used)
}

// reclaim asks the caches for n bytes.
func (a *Account) reclaim(n int64) {
	a.mu.Lock()
	caches := a.mu.caches
	a.mu.Unlock()
	for _, c := range caches {
		before := c.Held()
		c.reclaim(n)
		if n -= before - c.Held(); n <= 0 {
			return
		}
	}
}

// Force adds n bytes that are held already, even beyond the limit. Others then wait until
// as many have been given back. It is for what is known only afterwards.
func (r *Reservation) Force(n int64) {
	a := r.account
	a.mu.Lock()
	defer a.mu.Unlock()
	invariants.Check(n >= 0 && !r.closed, "forcing a reservation by %d bytes, which was released: %t", n, r.closed)
	a.add(r, n)
}

// Shrink gives back n of the bytes that are held. The reservation must not wait.
func (r *Reservation) Shrink(n int64) {
	a := r.account
	a.mu.Lock()
	defer a.mu.Unlock()
	invariants.Check(n >= 0 && n <= r.held, "shrinking a reservation of %d bytes by %d", r.held, n)
	a.add(r, -n)
	a.grant()
}

// Move gives n of the bytes that are held to another reservation of the account. Nobody gets
// them in between.
func (r *Reservation) Move(to *Reservation, n int64) {
	a := r.account
	a.mu.Lock()
	defer a.mu.Unlock()
	invariants.Check(n >= 0 && n <= r.held && !to.closed && to.account == a, "moving %d of %d bytes", n, r.held)
	a.add(r, -n)
	a.add(to, n)
}

// Held returns the number of bytes that r holds.
func (r *Reservation) Held() int64 {
	r.account.mu.Lock()
	defer r.account.mu.Unlock()
	return r.held
}

// Release gives back all bytes. It is called once; after it the reservation must not be
// used any more.
func (r *Reservation) Release() {
	a := r.account
	a.mu.Lock()
	defer a.mu.Unlock()
	invariants.Check(!r.closed, "a reservation is released twice")
	r.closed = true
	if r.held > 0 && r.reclaim == nil {
		a.mu.lived.Add(time.Since(r.opened), float64(r.held))
	}
	a.add(r, -r.held)
	if o := r.owner; o != nil {
		if o.open--; o.open == 0 {
			delete(a.mu.owners, o.name)
		}
	}
	for i, c := range a.mu.caches {
		if c == r {
			a.mu.caches = append(a.mu.caches[:i:i], a.mu.caches[i+1:]...)
			break
		}
	}
	a.grant()
}
