package transport

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// conn is a client's connection: the net.Conn that fasthttp reads and writes. It sets a
// deadline before every write, notices when the client leaves, and closes in such a way
// that an answer arrives that was sent before the request had been read.
type conn struct {
	net.Conn
	conns *connections
	presence

	socket net.Conn // that was accepted: Conn, or what is beneath its TLS
	secure *secure  // nil: there is no TLS

	address  string // the client's, as Call.Tenant has it
	loopback bool   // it was accepted on a TCP port that only this machine reaches
	framing  framing

	id  uint64          // the number that the watcher knows it by; 0: not watched
	raw syscall.RawConn // nil: it has no file descriptor

	active  atomic.Bool // from the first byte of a request to the last of its answer
	linger  atomic.Bool // Close reads on for a while first, because the client is still sending
	closing atomic.Bool

	impatient time.Duration // bounds a write of the answer, see Call.Impatient; 0: as of all others

	serving atomic.Bool // from the last byte of a request's headers to the last of its answer
	reading atomic.Bool // the body of a request is being waited for

	// Guarded by conns.mu:
	waiting *list.Element // in address.idle; nil: it does not wait for a request
	began   time.Time     // when it last began not to wait
}

// connections are all open connections of a server.
type connections struct {
	watch      *watcher
	timeout    time.Duration // of a write
	handshakes handshakes

	accepted, received, sent atomic.Uint64 // connections, and bytes

	mu     sync.Mutex
	open   map[*conn]struct{}
	places *places
}

func newConnections(watch *watcher, timeout time.Duration, most int, now func() time.Time) *connections {
	return &connections{watch: watch, timeout: timeout, open: make(map[*conn]struct{}), places: newPlaces(most, now)}
}

// accept takes a connection in, with the TLS of security if that is not nil. It fails with
// failure.ErrConnections if there is no place for it.
func (cs *connections) accept(nc net.Conn, security func() *tls.Config) (*conn, error) {
	c := &conn{Conn: nc, socket: nc, conns: cs, address: clientAddress(nc.RemoteAddr())}
	cs.mu.Lock()
	instead, ok := cs.places.admit(c.address)
	if instead != nil {
		cs.remove(instead)
	}
	var full error
	if ok {
		cs.open[c] = struct{}{}
		cs.places.add(c)
	} else {
		full = cs.places.full(c.address)
	}
	cs.mu.Unlock()
	cs.hangUp(instead)
	if full != nil {
		return nil, full
	}
	if b, ok := nc.(interface{ SetWriteBuffer(bytes int) error }); ok {
		_ = b.SetWriteBuffer(sendBuffer) // it fails if the client has left already
	}
	if security != nil {
		c.secure = newSecure(nc, security)
		c.Conn = c.secure.tls
	}
	cs.watch.open(c)
	cs.accepted.Add(1)
	return c, nil
}

// sendBuffer is the number of bytes that the system takes of the answers that a client does not
// read. By itself it would take up to 4 MB on Linux for each connection, which no account
// counts: a few hundred connections that ask and never read would fill a control group, and all
// that they ask for would be computed at once. Linux counts its own overhead and keeps twice
// as much.
const sendBuffer = 128 << 10

// evict closes the connection that can be spared best, and reports whether there is one.
func (cs *connections) evict() bool {
	cs.mu.Lock()
	c := cs.places.spare(0)
	if c != nil {
		cs.remove(c)
	}
	cs.mu.Unlock()
	cs.hangUp(c)
	return c != nil
}

// remove forgets a connection and gives back its place. cs.mu is locked.
func (cs *connections) remove(c *conn) {
	if _, ok := cs.open[c]; ok {
		delete(cs.open, c)
		cs.places.remove(c)
	}
}

// hangUp closes the socket of a connection that was removed because it waited for a request.
// Its goroutine then gets an error and ends.
func (cs *connections) hangUp(c *conn) {
	if c != nil {
		cs.watch.forget(c)
		_ = c.socket.Close()
	}
}

// wait is called when a connection begins to wait for a request.
func (cs *connections) wait(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if _, ok := cs.open[c]; ok {
		cs.places.wait(c)
	}
}

// work is called when the first bytes of a request have come. It reports false for a
// connection that was closed meanwhile, so that the request is not served.
func (cs *connections) work(c *conn) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	_, ok := cs.open[c]
	if ok {
		cs.places.work(c)
	}
	return ok
}

// abort closes the socket of every connection, whatever its goroutine is doing. The
// goroutine then gets an error and ends.
func (cs *connections) abort() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		cs.watch.forget(c)
		_ = c.socket.Close()
	}
}

// await waits until no connection is open for which counts returns true, and reports
// whether that was within the given time. With nil all connections count.
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

// drain waits until no complete request is in flight, or ctx ends.
func (cs *connections) drain(ctx context.Context) {
	for ctx.Err() == nil && !cs.await(10*time.Millisecond, (*conn).inFlight) {
	}
}

// cut closes the connections on which no complete request is in flight.
func (cs *connections) cut() {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		if !c.inFlight() {
			cs.watch.forget(c)
			_ = c.socket.Close()
		}
	}
}

func (c *conn) inFlight() bool { return c.serving.Load() && !c.reading.Load() }

func (c *conn) answering() bool { return c.active.Load() }

// writePiece is the number of bytes that one write deadline is for, so that a client that
// reads slowly, but steadily, is not cut off.
const writePiece = 64 << 10

// Write sets a deadline before each piece. The deadline of fasthttp would be for a whole
// response, and an answer may stream for minutes.
func (c *conn) Write(p []byte) (int, error) {
	n := 0
	for {
		piece := p[n:min(len(p), n+writePiece)]
		timeout := c.conns.timeout
		if c.impatient > 0 {
			timeout = min(timeout, c.impatient)
		}
		if err := c.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(piece)
		n += m
		c.conns.sent.Add(uint64(m))
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

// Bounds of what a connection reads and discards after its last answer. If a socket is
// closed while it has unread bytes, the system resets the connection, and the client may
// lose the part of the answer that it has not read yet (RFC 9112, section 9.6).
const (
	lingerBytes = 256 << 20
	lingerTime  = 5 * time.Second
)

// Close ends the connection. fasthttp calls it.
func (c *conn) Close() error {
	if c.closing.Swap(true) {
		return nil
	}
	if c.linger.Load() {
		c.discard()
	}
	c.conns.watch.forget(c)
	c.conns.mu.Lock()
	c.conns.remove(c)
	c.conns.mu.Unlock()
	return c.Conn.Close()
}

// discard discards what a client is still sending.
func (c *conn) discard() {
	if c.secure != nil {
		c.secure.mu.Lock() // nobody reads ahead
		defer c.secure.mu.Unlock()
	}
	discardInput(c.Conn)
}

// discardInput closes the sending side, and reads until the client closes its side, or has
// taken too long.
func discardInput(nc net.Conn) {
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		if half.CloseWrite() != nil {
			return
		}
	}
	if nc.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, nc, lingerBytes) // the connection is closed next, whatever the error
}

// listener wraps the connections that it accepts for fasthttp.
type listener struct {
	net.Listener
	conns    *connections
	closing  *atomic.Bool
	refuse   func(net.Conn, error) // answers a connection for which there is no place, and closes it
	loopback bool                  // it listens on a TCP port that only this machine reaches
	security func() *tls.Config    // of a connection that begins; nil: there is no TLS
}

// Accept waits for the next connection for which there is a place. It tries again while the
// process or the system lacks a resource; fasthttp would stop serving at such an error. As
// long as there are connections that wait for a request, these give their resources up.
func (l *listener) Accept() (net.Conn, error) {
	const first, most = 5 * time.Millisecond, time.Second
	// Shutdown closes the listeners that fasthttp knows at that time. A listener that is
	// served only later finds closing set here.
	if l.closing.Load() {
		_ = l.Close() // no connection has been accepted
		return nil, net.ErrClosed
	}
	for wait := first; ; {
		nc, err := l.Listener.Accept()
		if err == nil {
			c, full := l.conns.accept(nc, l.security)
			if full == nil {
				c.loopback = l.loopback
				return c, nil
			}
			l.turnAway(nc, full)
			wait = first
			continue
		}
		if !temporary(err) {
			return nil, err
		}
		if !errors.Is(err, syscall.ECONNABORTED) && l.conns.evict() {
			l.conns.watch.log.Debug("cannot accept a connection; one that waited for a request was closed", "error", err)
			time.Sleep(time.Millisecond) // the descriptor is free when its goroutine has woken up
			wait = first
			continue
		}
		l.conns.watch.log.Warn("cannot accept a connection; trying again", "error", err)
		time.Sleep(wait)
		wait = min(2*wait, most)
	}
}

// turnAway refuses a connection for which there is no place. With TLS it is closed without an
// answer, because a handshake would take more than there is for it.
func (l *listener) turnAway(nc net.Conn, full error) {
	if l.security != nil {
		_ = nc.Close()
		return
	}
	l.refuse(nc, full)
}

// temporary reports whether accepting may succeed after a while.
func temporary(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
