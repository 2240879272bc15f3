package transport

import (
	"context"
	"log/slog"
	"sync"
	"syscall"

	"weir/server/failure"
)

// failure.ErrGone is the cause of a context whose client has left.

// watcher tells requests in flight that their client has left, whatever they
// are waiting for. One goroutine of it owns the sockets: it is a kernel queue's
// (watch_linux.go), or peeks ten times a second (watch_poll.go). Connections
// without a descriptor are not watched; there a failed write tells.
//
// A connection is known by a number that is never used again, so a descriptor
// that the system hands out anew cannot be mistaken for its predecessor.
type watcher struct {
	log    *slog.Logger
	peeks  bool // peek even where there is a kernel queue
	goners sync.WaitGroup

	mu struct {
		sync.Mutex
		conns  map[uint64]*conn // open connections that have a descriptor
		next   uint64
		source source // nil until the first of them
		closed bool
	}
}

// source says which clients have left.
type source interface {
	add(id uint64, raw syscall.RawConn) error
	close()
}

func newWatcher(log *slog.Logger) *watcher {
	w := &watcher{log: log}
	w.mu.conns = make(map[uint64]*conn)
	return w
}

// open begins to watch c, until forget.
func (w *watcher) open(c *conn) {
	sc, ok := c.Conn.(syscall.Conn)
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
		// Only now: a server over in-memory connections has no goroutine that
		// waits for the kernel.
		w.mu.source = w.newSource()
	}
	w.mu.next++
	c.id, c.raw = w.mu.next, raw
	w.mu.conns[c.id] = c
	if err := w.mu.source.add(c.id, raw); err != nil {
		w.log.Warn("a connection cannot be watched; if its client leaves, only a failed write will tell", "error", err)
	}
}

// forget ends the watch. It must come before the descriptor is closed.
func (w *watcher) forget(c *conn) {
	w.mu.Lock()
	delete(w.mu.conns, c.id)
	w.mu.Unlock()
}

// left is called by the source.
func (w *watcher) left(id uint64) {
	w.mu.Lock()
	c := w.mu.conns[id]
	w.mu.Unlock()
	if c != nil {
		c.left()
	}
}

// watched is the number of connections that are watched.
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
	w.goners.Wait()
}

// presence is the part of a connection that the watcher tells about its client.
type presence struct {
	mu    sync.Mutex
	gone  bool
	leave context.CancelCauseFunc // of the request in flight; nil: none
}

// attach makes leave be called with failure.ErrGone when the client leaves; at once if
// it has left already.
func (p *presence) attach(leave context.CancelCauseFunc) {
	p.mu.Lock()
	p.leave = leave
	gone := p.gone
	p.mu.Unlock()
	if gone {
		leave(failure.ErrGone)
	}
}

func (p *presence) detach() {
	p.mu.Lock()
	p.leave = nil
	p.mu.Unlock()
}

func (p *presence) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leave != nil
}

func (p *presence) left() {
	p.mu.Lock()
	p.gone = true
	leave := p.leave
	p.mu.Unlock()
	if leave != nil {
		leave(failure.ErrGone)
	}
}
