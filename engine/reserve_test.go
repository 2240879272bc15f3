package engine_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"weir/engine"
	"weir/internal/retry"
)

// place reserves a place, which must be there.
func (c *crowd) place(r engine.Reservation) *engine.Place {
	c.t.Helper()
	p, err := c.Reserve(r)
	if err != nil {
		c.t.Fatal(err)
	}
	return p
}

// noPlace tries to reserve a place that must be refused.
func (c *crowd) noPlace(r engine.Reservation, want error) error {
	c.t.Helper()
	_, err := c.Reserve(r)
	if !errors.Is(err, want) {
		c.t.Errorf("the error is %v, want %v", err, want)
	}
	return err
}

// A place is one of the engine's until it is released, or a request takes it.
func TestReserve(t *testing.T) {
	c := newCrowd(t, engine.Config{Scheduler: schedulerConfig(64, 2), MaxLive: 3}, simSpec(65, 4, 64, 2, 1))
	defer c.stop()
	defer c.open()
	r := engine.Reservation{Tenant: "a", Tokens: 5}
	one, two, three := c.place(r), c.place(r), c.place(r)
	c.noPlace(r, engine.ErrFull)
	c.refuse(accounted(request(5, 2), "a", ""))
	two.Release()
	two.Release()
	c.refuse(accounted(request(5, 2), "a", ""), accounted(request(5, 2), "a", ""))
	q := accounted(request(5, 2), "a", "")
	q.Place = one
	c.mustSubmit(t, q)
	one.Release() // which a request has: it has no effect
	// A request of two choices has a place for one of them, and takes the other one that is left.
	q = accounted(request(5, 2), "a", "")
	q.Place, q.N = three, 2
	c.mustSubmit(t, q)
	c.noPlace(r, engine.ErrFull)
	(*engine.Place)(nil).Release()
}

// A request that needs more places than its own and those that are left is refused, and then has none.
func TestReserveTooFew(t *testing.T) {
	c := newCrowd(t, engine.Config{Scheduler: schedulerConfig(64, 2), MaxLive: 2}, simSpec(65, 4, 64, 2, 1))
	defer c.stop()
	defer c.open()
	r := engine.Reservation{Tenant: "a", Tokens: 5}
	one, two := c.place(r), c.place(r)
	q := accounted(request(5, 2), "a", "")
	q.Place, q.N = one, 2
	c.refuse(q)
	one.Release()
	c.place(r)
	c.noPlace(r, engine.ErrFull)
	two.Release()
}

// A place may be lost to a tenant who holds less, like that of a request that has not begun. Whoever
// has it is told, and can then submit nothing with it.
func TestReserveLost(t *testing.T) {
	c := newCrowd(t, engine.Config{Scheduler: schedulerConfig(64, 2), MaxLive: 4}, simSpec(65, 4, 64, 2, 1))
	defer c.stop()
	defer c.open()
	var lost atomic.Int64
	r := engine.Reservation{Tenant: "a", Tokens: 5, Lost: func(err error) {
		if !errors.Is(err, engine.ErrFull) {
			t.Error(err)
		}
		lost.Add(1)
	}}
	var last *engine.Place
	for range 4 {
		last = c.place(r)
	}
	c.place(engine.Reservation{Tenant: "b", Tokens: 5})
	if lost.Load() != 1 {
		t.Errorf("%d were told", lost.Load())
	}
	q := accounted(request(5, 2), "a", "")
	q.Place = last
	c.refuse(q)
	last.Release()
	c.noPlace(r, engine.ErrFull)
}

// The prompts of which nothing has been computed have so many tokens, those that are being prepared
// among them, and no more. One alone may be longer.
func TestMaxPrompts(t *testing.T) {
	c := newCrowd(t, engine.Config{Scheduler: schedulerConfig(64, 8), MaxLive: 100, MaxPrompts: 100}, simSpec(129, 4, 64, 8, 1))
	defer c.stop()
	defer c.open()
	first := c.place(engine.Reservation{Tenant: "a", Tokens: 500})
	c.noPlace(engine.Reservation{Tenant: "a", Tokens: 1}, engine.ErrPrompts)
	// It was estimated too high, which is corrected when it is submitted.
	q := accounted(request(60, 2), "a", "")
	q.Place = first
	stream := c.mustSubmit(t, q)
	c.next() // its prompt is computed, and does not count any more
	var ev engine.Events
	if err := stream.Next(t.Context(), &ev); err != nil {
		t.Fatal(err)
	}
	c.place(engine.Reservation{Tenant: "a", Tokens: 60})
	second := c.place(engine.Reservation{Tenant: "a", Tokens: 40})
	if err := c.noPlace(engine.Reservation{Tenant: "a", Tokens: 1}, engine.ErrPrompts); retry.Of(err) < 0 {
		t.Error(err)
	}
	// Another tenant has a right to as much.
	c.place(engine.Reservation{Tenant: "b", Tokens: 40})
	q.Place = second
	if _, err := c.Submit(q); !errors.Is(err, engine.ErrFull) {
		t.Errorf("the place that was lost: %v", err)
	}
	c.noPlace(engine.Reservation{Tenant: "b", Tokens: 40}, engine.ErrPrompts)
}
