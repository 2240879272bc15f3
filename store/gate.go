package store

import (
	"sync"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// gate lets readers to badger's database, and from time to time closes behind
// them to have it opened anew. A reader that takes long, a download perhaps, puts
// that off; it never keeps others out for longer than the wait for it. A
// sync.RWMutex would: behind a waiting writer nobody may read.
type gate struct {
	mu      sync.Mutex
	db      *badger.DB // nil: not open
	turn    uint64     // how often it was changed; constant while somebody reads
	readers int
	idle    chan struct{} // closed when the last reader leaves; nil: nobody waits for that
	reopens chan struct{} // closed when readers may enter again; nil: they may
}

// enter returns the database, or nil. A caller that gets one leaves.
func (g *gate) enter() *badger.DB {
	g.mu.Lock()
	for g.reopens != nil {
		wait := g.reopens
		g.mu.Unlock()
		<-wait
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	if g.db != nil {
		g.readers++
	}
	return g.db
}

func (g *gate) open() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.db != nil
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.readers--; g.readers == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// drain keeps new readers waiting and waits for the others. If they have not
// gone by then, it lets everybody in again and returns false.
func (g *gate) drain(within time.Duration) bool {
	g.mu.Lock()
	g.reopens = make(chan struct{})
	if g.readers == 0 {
		g.mu.Unlock()
		return true
	}
	idle := make(chan struct{})
	g.idle = idle
	g.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-time.After(within):
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.idle == nil {
		return true // just now
	}
	g.idle = nil
	close(g.reopens)
	g.reopens = nil
	return false
}

// swap changes the database, which nobody reads, and lets readers in; they find
// what was passed.
func (g *gate) swap(db *badger.DB) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.db = db
	g.turn++
	close(g.reopens)
	g.reopens = nil
}
