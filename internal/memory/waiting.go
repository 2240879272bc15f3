package memory

import (
	"container/list"

	"weir/internal/invariants"
	"weir/internal/retry"
)

// Shares of the limit: one in so many.
const (
	// lightShare is what a light owner holds at most. The last part of this size is kept for
	// light owners, and as much may pass a reservation that waits.
	lightShare = 8
	// What the reservations that wait may hold together, those of light owners and others.
	parkedLightShare, parkedShare = 8, 4
)

// The lines of Account.mu.waiting.
const (
	heavy = 0
	light = 1
)

// line has the reservations that wait, in order of arrival.
type line struct {
	list.List       // of *waiter
	parked    int64 // bytes that they hold
	wanted    int64 // bytes that they wait for
}

// waiter is one call of Grow that waits.
type waiter struct {
	r       *Reservation
	n       int64
	parked  int64 // what r held when it began to wait
	passed  int64 // bytes that others got while it was the first of the heavy ones
	line    int
	place   *list.Element // nil: it waits no more
	granted chan struct{} // closed when the bytes are the reservation's
}

// light reports whether the owner of r is light with n bytes more.
func (a *Account) light(r *Reservation, n int64) bool {
	return r.owner != nil && r.owner.held+n <= a.limit/lightShare
}

// room is the number of bytes that may be used in all when r has got n more. The last ones
// are for light owners, and for a reservation that could never be without them, while nobody
// else holds anything.
func (a *Account) room(r *Reservation, n int64) int64 {
	most := a.limit - a.limit/lightShare
	own := r.held + r.beside
	if r.owner == nil || a.light(r, n) || own+n > most && a.mu.used-a.mu.cached == own {
		return a.limit
	}
	return most
}

// mayPass reports whether n bytes may be taken although a heavy reservation waits. The caller
// tells it so by pass.
func (a *Account) mayPass(n int64) bool {
	first := a.mu.waiting[heavy].Front()
	return first == nil || first.Value.(*waiter).passed+n <= a.limit/lightShare
}

// pass counts bytes that were taken while a heavy reservation waited.
func (a *Account) pass(n int64) {
	if first := a.mu.waiting[heavy].Front(); first != nil {
		first.Value.(*waiter).passed += n
	}
}

// first reports whether r need not wait behind others for n bytes that are there, and counts
// them then.
func (a *Account) first(r *Reservation, n int64) bool {
	if a.mu.waiting[light].Len() > 0 {
		return false
	}
	if a.light(r, n) && a.mayPass(n) {
		a.pass(n)
		return true
	}
	return a.mu.waiting[heavy].Len() == 0
}

// queue makes r wait for n bytes. Without a waiter, the bytes have been taken after all or
// the error says why they cannot be waited for.
func (r *Reservation) queue(n int64) (*waiter, error) {
	a := r.account
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.held+r.beside+n > a.limit {
		a.mu.never++
		return nil, ErrNever
	}
	if a.mu.used+n <= a.room(r, n) && a.first(r, n) {
		a.add(r, n)
		return nil, nil
	}
	w := &waiter{r: r, n: n, parked: r.held, granted: make(chan struct{})}
	if a.light(r, n) {
		w.line = light
	}
	if a.wait <= 0 || !a.mayPark(w) {
		return nil, a.refuse(n)
	}
	a.join(w)
	return w, nil
}

// mayPark reports whether w may wait with what it holds.
func (a *Account) mayPark(w *waiter) bool {
	most := a.limit / parkedShare
	if w.line == light {
		most = a.limit / parkedLightShare
	}
	all := a.mu.waiting[heavy].parked + a.mu.waiting[light].parked + w.parked
	return a.mu.waiting[w.line].parked+w.parked <= most && all <= a.limit/parkedShare+a.limit/parkedLightShare
}

// join puts w at the end of its line.
func (a *Account) join(w *waiter) {
	l := &a.mu.waiting[w.line]
	w.place = l.PushBack(w)
	l.parked += w.parked
	l.wanted += w.n
}

// part takes w out of its line.
func (a *Account) part(w *waiter) {
	l := &a.mu.waiting[w.line]
	l.Remove(w.place)
	w.place = nil
	l.parked -= w.parked
	l.wanted -= w.n
}

// refuse counts a reservation of n bytes that does not fit, and returns ErrFull with the time
// after which it may be tried again: in the time that a byte is held on average, as many are
// given back as are held now. The caller holds mu.
func (a *Account) refuse(n int64) error {
	a.mu.full++
	missing := a.mu.used + n - a.limit + a.mu.waiting[light].wanted + a.mu.waiting[heavy].wanted
	return retry.After(ErrFull, a.mu.lived.Times(float64(max(missing, 0))/float64(max(a.mu.used, 1))))
}

// leave takes w out of the queue and returns err, unless its bytes have been granted in
// this moment.
func (a *Account) leave(w *waiter, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.place == nil {
		return nil
	}
	a.part(w)
	if err == ErrFull {
		err = a.refuse(w.n)
	}
	a.grant() // the next one may be smaller
	return err
}

// grant serves those that wait, as far as there are bytes: light owners first, as long as
// they may pass the first of the others. The caller holds mu.
func (a *Account) grant() {
	for {
		a.grantLight()
		first := a.mu.waiting[heavy].Front()
		if first == nil {
			return
		}
		w := first.Value.(*waiter)
		if a.mu.used+w.n > a.room(w.r, w.n) {
			return
		}
		a.serve(w)
	}
}

func (a *Account) grantLight() {
	for {
		first := a.mu.waiting[light].Front()
		if first == nil {
			return
		}
		w := first.Value.(*waiter)
		if !a.light(w.r, w.n) { // its owner has got bytes meanwhile
			a.part(w)
			w.line = heavy
			a.join(w)
			continue
		}
		if a.mu.used+w.n > a.limit || !a.mayPass(w.n) {
			return
		}
		a.pass(w.n)
		a.serve(w)
	}
}

// serve gives w its bytes.
func (a *Account) serve(w *waiter) {
	a.part(w)
	a.add(w.r, w.n)
	invariants.Check(a.mu.used <= a.limit, "%d bytes are granted of %d", a.mu.used, a.limit)
	close(w.granted)
}
