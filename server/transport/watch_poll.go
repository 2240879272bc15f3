//go:build unix

package transport

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// peekEvery is the time between two looks at the sockets of requests in flight.
const peekEvery = 100 * time.Millisecond

// peeker is the source for systems without epoll. It peeks at the sockets of all requests in
// flight ten times a second. It does not notice that a client has left as long as bytes of
// it are unread, for example a pipelined request.
type peeker struct {
	w    *watcher
	stop chan struct{}
}

func newPeeker(w *watcher) *peeker {
	p := &peeker{w: w, stop: make(chan struct{})}
	w.running.Go(p.run)
	return p
}

func (p *peeker) add(uint64, syscall.RawConn, bool) error { return nil } // run asks the watcher

func (p *peeker) run() {
	tick := time.NewTicker(peekEvery)
	defer tick.Stop()
	var conns []*conn
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
		}
		conns = p.w.inFlight(conns[:0])
		for i, c := range conns {
			switch waiting, gone := peek(c.raw); {
			case gone:
				c.left()
			case waiting:
				c.look(&p.w.running)
			}
			conns[i] = nil
		}
	}
}

// peek reports whether bytes wait to be read, and whether the client has closed its side, or the
// connection is broken.
func peek(raw syscall.RawConn) (waiting, gone bool) {
	var n int
	var err error
	// Control is used because Read would fail after the read deadline, which may have
	// passed long ago while an answer is being written.
	if raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	}) != nil {
		return false, true // closed
	}
	if err != nil {
		return false, err != unix.EAGAIN && err != unix.EINTR
	}
	return n > 0, n == 0
}

func (p *peeker) close() { close(p.stop) }
