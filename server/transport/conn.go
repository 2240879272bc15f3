package transport

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is a client's connection: the net.Conn that fasthttp reads and writes,
// with a deadline before every write, a watch on the client, and an orderly end
// for answers that were given before the request was read.
type conn struct {
	net.Conn
	conns *connections
	presence

	id  uint64          // the watcher's; 0: not watched
	raw syscall.RawConn // nil: no descriptor

	active  atomic.Bool // from the first byte of a request to the last of its answer
	linger  atomic.Bool // the client is still sending: read on for a while before closing
	closing atomic.Bool
}

// connections are all that are open.
type connections struct {
	watch   *watcher
	timeout time.Duration // of a write

	mu   sync.Mutex
	open map[*conn]struct{}
}

func newConnections(watch *watcher, timeout time.Duration) *connections {
	return &connections{watch: watch, timeout: timeout, open: make(map[*conn]struct{})}
}

func (cs *connections) accept(nc net.Conn) *conn {
	c := &conn{Conn: nc, conns: cs}
	cs.mu.Lock()
	cs.open[c] = struct{}{}
	cs.mu.Unlock()
	cs.watch.open(c)
	return c
}

// abort closes every connection, whatever it is doing. Its goroutine notices and
// does the rest.
func (cs *connections) abort() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		cs.watch.forget(c)
		_ = c.Conn.Close()
	}
}

// await waits until no connection that counts is open, but not for long; nil
// counts all.
func (cs *connections) await(within time.Duration, counts func(*conn) bool) bool {
	none := func() bool {
		cs.mu.Lock()
		defer cs.mu.Unlock()
		for c := range cs.open {
			if counts == nil || counts(c) {
				return false
			}
		}
		return true
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); !none(); <-tick.C {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func (c *conn) answering() bool { return c.active.Load() }

// writePiece is what one deadline is for: a reader that takes so many bytes
// within the write timeout is slow, but not too slow.
const writePiece = 64 << 10

// Write sets a deadline before each piece: fasthttp arms its own once per
// response, which is no limit at all for an answer that streams for minutes,
// or a wrong one.
func (c *conn) Write(p []byte) (int, error) {
	n := 0
	for {
		piece := p[n:min(len(p), n+writePiece)]
		if err := c.SetWriteDeadline(time.Now().Add(c.conns.timeout)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(piece)
		n += m
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// What a connection reads and throws away after its last answer, so that the answer
// arrives: closing with unread bytes makes the system reset the connection,
// and the client may lose what it has not read yet (RFC 9112, 9.6).
const (
	lingerBytes = 256 << 20
	lingerTime  = 5 * time.Second
)

// Close is called by fasthttp.
func (c *conn) Close() error {
	if c.closing.Swap(true) {
		return nil
	}
	if c.linger.Load() {
		c.readOn()
	}
	c.conns.watch.forget(c)
	c.conns.mu.Lock()
	delete(c.conns.open, c)
	c.conns.mu.Unlock()
	return c.Conn.Close()
}

func (c *conn) readOn() {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		if half.CloseWrite() != nil {
			return
		}
	}
	if c.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes) // whatever ends it, the connection is closed next
}

// listener hands fasthttp our connections.
type listener struct {
	net.Listener
	conns    *connections
	draining *atomic.Bool
}

// Accept waits for the next connection. It tries again while the process or
// the system is out of something: fasthttp would take the error for the end.
func (l *listener) Accept() (net.Conn, error) {
	const first, most = 5 * time.Millisecond, time.Second
	// Shutdown closes the listeners that fasthttp knows. One that it gets to know
	// after that comes here with draining set.
	if l.draining.Load() {
		_ = l.Close() // no connection has been accepted
		return nil, net.ErrClosed
	}
	for wait := first; ; wait = min(2*wait, most) {
		nc, err := l.Listener.Accept()
		if err == nil {
			return l.conns.accept(nc), nil
		}
		if !passing(err) {
			return nil, err
		}
		l.conns.watch.log.Warn("cannot accept a connection; trying again", "error", err)
		time.Sleep(wait)
	}
}

func passing(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
