package transport

import (
	"context"
	"log/slog"
	"sync"
	"syscall"

	"weir/server/failure"
)

// watcher cancels the context of requests whose client has left, with the cause
// failure.ErrGone, so that they end whatever they are waiting for. One goroutine observes
// all sockets, by a kernel queue (watch_linux.go) or by peeking ten times a second
// (watch_poll.go). Connections without a file descriptor are not watched; there only a
// failed write shows that the client has left.
//
// A connection is known by a number that is never used again, because the system uses file
// descriptors again.
type watcher struct {
	log     *slog.Logger
	peeks   bool           // peek even where there is a kernel queue
	running sync.WaitGroup // the goroutine of source

	mu struct {
		sync.Mutex
		conns  map[uint64]*conn // open connections that have a descriptor
		next   uint64
		source source // nil until the first of them
		closed bool
	}
}

// source observes sockets and calls watcher.left for a client that has left. For those that are
// added with arrivals it calls watcher.arrived when bytes have come.
type source interface {
	add(id uint64, raw syscall.RawConn, arrivals bool) error
	close()
}

func newWatcher(log *slog.Logger) *watcher {
	w := &watcher{log: log}
	w.mu.conns = make(map[uint64]*conn)
	return w
}

// open watches c until forget.
func (w *watcher) open(c *conn) {
	sc, ok := c.socket.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return // closed already
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed {
		return
	}
	if w.mu.source == nil {
		// The source is made only now, so that a server with in-memory connections alone
		// has no goroutine that waits for the kernel.
		w.mu.source = w.newSource()
	}
	w.mu.next++
	c.id, c.raw = w.mu.next, raw
	w.mu.conns[c.id] = c
	if err := w.mu.source.add(c.id, raw, c.secure != nil); err != nil {
		w.log.Warn("a connection cannot be watched; if its client leaves, only a failed write will tell", "error", err)
	}
}

// forget ends the watch. It must come before the descriptor is closed.
func (w *watcher) forget(c *conn) {
	w.mu.Lock()
	delete(w.mu.conns, c.id)
	w.mu.Unlock()
}

// left is called by the source when the client of a connection has left.
func (w *watcher) left(id uint64) {
	w.mu.Lock()
	c := w.mu.conns[id]
	w.mu.Unlock()
	if c != nil {
		c.left()
	}
}

// arrived is called by the source when bytes have come on a connection.
func (w *watcher) arrived(id uint64) {
	w.mu.Lock()
	c := w.mu.conns[id]
	w.mu.Unlock()
	if c != nil {
		c.look(&w.running)
	}
}

// watched returns the number of connections that are watched.
func (w *watcher) watched() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.mu.conns)
}

// inFlight appends the watched connections that have a request in flight.
func (w *watcher) inFlight(dst []*conn) []*conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.mu.conns {
		if c.busy() {
			dst = append(dst, c)
		}
	}
	return dst
}

// close ends the watcher's goroutine and waits for it.
func (w *watcher) close() {
	w.mu.Lock()
	s := w.mu.source
	w.mu.source, w.mu.closed = nil, true
	w.mu.Unlock()
	if s != nil {
		s.close()
	}
	w.running.Wait()
}

// presence is the part of a connection that knows whether its client is still there.
type presence struct {
	mu     sync.Mutex
	gone   bool
	cancel context.CancelCauseFunc // of the request in flight; nil: there is none
}

// attach begins a request: cancel is called with failure.ErrGone when the client leaves, or
// at once if it has already left.
func (p *presence) attach(cancel context.CancelCauseFunc) {
	p.mu.Lock()
	p.cancel = cancel
	gone := p.gone
	p.mu.Unlock()
	if gone {
		cancel(failure.ErrGone)
	}
}

// detach ends a request.
func (p *presence) detach() {
	p.mu.Lock()
	p.cancel = nil
	p.mu.Unlock()
}

// busy reports whether a request is in flight.
func (p *presence) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cancel != nil
}

// left records that the client has left, and cancels the request in flight.
func (p *presence) left() {
	p.mu.Lock()
	p.gone = true
	cancel := p.cancel
	p.mu.Unlock()
	if cancel != nil {
		cancel(failure.ErrGone)
	}
}
