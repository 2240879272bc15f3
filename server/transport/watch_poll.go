//go:build unix

package transport

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// peekEvery is how often the sockets of requests in flight are looked at where
// the kernel has no queue for it that we use.
const peekEvery = 100 * time.Millisecond

// peeker looks at the sockets of all requests in flight, ten times a second. It does not
// see that a client has left if bytes of it have not been read yet (a pipelined request).
type peeker struct {
	w    *watcher
	stop chan struct{}
}

func newPeeker(w *watcher) *peeker {
	p := &peeker{w: w, stop: make(chan struct{})}
	w.goners.Go(p.run)
	return p
}

func (p *peeker) add(uint64, syscall.RawConn) error { return nil } // it asks the watcher

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
			if hungUp(c.raw) {
				c.left()
			}
			conns[i] = nil
		}
	}
}

// hungUp reports whether the peer has closed its end, or the connection broke.
func hungUp(raw syscall.RawConn) bool {
	var n int
	var err error
	// Control and not Read: the latter obeys the read deadline, which may have
	// passed long ago while an answer is being written.
	if raw.Control(func(fd uintptr) {
		var b [1]byte
		n, _, err = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	}) != nil {
		return true // closed
	}
	if err != nil {
		return err != unix.EAGAIN && err != unix.EINTR
	}
	return n == 0
}

func (p *peeker) close() { close(p.stop) }
