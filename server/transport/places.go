package transport

import (
	"container/heap"
	"container/list"
	"time"

	"weir/internal/retry"
	"weir/server/failure"
)

// places shares the places for connections among the clients' addresses, so that one address
// neither takes all of them nor all memory for their buffers.
//
//   - An address gets a place as long as it has fewer connections than there are places left,
//     so that one alone has at most half of them, and some are always left. (This is the rule
//     by which bodies share their memory.)
//   - Beyond that it gets the place of a connection that waits for a request: the oldest of
//     the address that has most of those, if they are more than all connections of the address
//     that asks, and otherwise the oldest of its own.
//
// The caller locks.
type places struct {
	most  int
	taken int
	of    map[string]*address // those with a connection
	idle  idleFirst           // those with a connection that waits
	now   func() time.Time
	busy  retry.Mean // how long connections do not wait for a request

	sleepers int // connections that wait for a request
}

// address is what places know of a client's address.
type address struct {
	name  string
	taken int       // its connections
	idle  list.List // of *conn: those that wait for a request, the longest one first
	index int       // in places.idle; below 0: it is not there
}

func newPlaces(most int, now func() time.Time) *places {
	return &places{most: most, of: make(map[string]*address), now: now}
}

// admit reports whether a connection from an address gets a place; instead is the connection
// that has to go for it; nil: none has to.
func (p *places) admit(name string) (instead *conn, ok bool) {
	own := 0
	a := p.of[name]
	if a != nil {
		own = a.taken
	}
	if own < p.most-p.taken {
		return nil, true
	}
	if instead = p.spare(own); instead == nil && a != nil && a.idle.Len() > 0 {
		instead = a.idle.Front().Value.(*conn)
	}
	return instead, instead != nil
}

// full is failure.ErrConnections, with the time after which a connection from an address may be
// tried again: until one of its own ends its request, or, if it has none, any connection.
func (p *places) full(name string) error {
	n := p.taken
	if a := p.of[name]; a != nil {
		n = a.taken
	}
	return retry.After(failure.ErrConnections, p.busy.Times(1/float64(max(1, n))))
}

// spare returns the connection that waits longest among those of the address that has most of
// them, if these are more than own; nil: they are not.
func (p *places) spare(own int) *conn {
	if len(p.idle) == 0 || p.idle[0].idle.Len() <= own {
		return nil
	}
	return p.idle[0].idle.Front().Value.(*conn)
}

// add takes a place for a connection. It waits for its first request.
func (p *places) add(c *conn) {
	a := p.of[c.address]
	if a == nil {
		a = &address{name: c.address, index: -1}
		p.of[c.address] = a
	}
	a.taken++
	p.taken++
	p.wait(c)
}

// remove gives back the place of a connection.
func (p *places) remove(c *conn) {
	if c.waiting == nil {
		p.rested(c)
	}
	p.leave(c)
	a := p.of[c.address]
	p.taken--
	if a.taken--; a.taken == 0 {
		delete(p.of, c.address)
	}
}

// wait is called when a connection begins to wait for a request.
func (p *places) wait(c *conn) {
	if c.waiting != nil {
		return
	}
	p.rested(c)
	a := p.of[c.address]
	c.waiting = a.idle.PushBack(c)
	p.sleepers++
	p.order(a)
}

// work is called when a connection does not wait for a request any more.
func (p *places) work(c *conn) {
	if c.waiting != nil {
		p.leave(c)
		c.began = p.now()
	}
}

// rested measures the request of a connection, which has ended.
func (p *places) rested(c *conn) {
	if !c.began.IsZero() {
		p.busy.Add(p.now().Sub(c.began), 1)
	}
}

// leave takes a connection out of those that wait, if it is one.
func (p *places) leave(c *conn) {
	if c.waiting == nil {
		return
	}
	a := p.of[c.address]
	a.idle.Remove(c.waiting)
	c.waiting = nil
	p.sleepers--
	p.order(a)
}

// waiting is the number of connections that wait for a request.
func (p *places) waiting() int { return p.sleepers }

// order moves an address whose number of waiting connections has changed.
func (p *places) order(a *address) {
	switch n := a.idle.Len(); {
	case a.index < 0 && n > 0:
		heap.Push(&p.idle, a)
	case a.index >= 0 && n == 0:
		heap.Remove(&p.idle, a.index)
	case a.index >= 0:
		heap.Fix(&p.idle, a.index)
	}
}

// idleFirst is a heap of addresses. The first has most connections that wait.
type idleFirst []*address

func (h idleFirst) Len() int           { return len(h) }
func (h idleFirst) Less(i, j int) bool { return h[i].idle.Len() > h[j].idle.Len() }
func (h idleFirst) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *idleFirst) Push(x any) {
	a := x.(*address)
	a.index = len(*h)
	*h = append(*h, a)
}

func (h *idleFirst) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	a.index = -1
	return a
}
