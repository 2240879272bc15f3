package transport

import (
	"sync"
	"sync/atomic"
)

// drain says whether new requests are to be refused, and wakes those who wait for that.
type drain struct {
	on atomic.Bool

	mu    sync.Mutex
	begun chan struct{} // closed when on becomes true; nil: nobody has asked for it
}

func (d *drain) set(on bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.on.Swap(on) == on || d.begun == nil {
		return
	}
	if on {
		close(d.begun)
	} else {
		d.begun = nil // whoever waits for the next time gets another one
	}
}

func (d *drain) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.begun == nil {
		d.begun = make(chan struct{})
		if d.on.Load() {
			close(d.begun)
		}
	}
	return d.begun
}

// Drain makes Draining return true, so that handlers refuse new requests.
func (s *Server) Drain() { s.draining.set(true) }

// Draining reports whether new requests are to be refused.
func (s *Server) Draining() bool { return s.draining.on.Load() }

// DrainBegins returns a channel that is closed when Drain is called, or that is closed already
// if Draining is true. Answers that have no end of their own end then.
func (s *Server) DrainBegins() <-chan struct{} { return s.draining.wait() }

// Leave says that the server will soon refuse new requests, so that nobody should be sent here who can
// be sent elsewhere. They are still answered.
func (s *Server) Leave() { s.leaving.Store(true) }

// Leaving reports whether Leave or Drain was called.
func (s *Server) Leaving() bool { return s.leaving.Load() || s.Draining() }

// Resume undoes Leave and Drain. It must not be called after Shutdown.
func (s *Server) Resume() {
	s.draining.set(false)
	s.leaving.Store(false)
}
