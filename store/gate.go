package store

import (
	"sync"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// gate counts the readers of badger's database, so that it can be closed and opened again
// between them. A reader that takes long, such as a download, puts that off. It delays
// other readers only as long as drain waits for it; with a sync.RWMutex a waiting writer
// would keep all new readers out until the last one is finished.
type gate struct {
	mu      sync.Mutex
	db      *badger.DB // nil: not open
	turn    uint64     // how often it was changed; constant while there are readers
	readers int
	idle    chan struct{} // closed when the last reader leaves; nil if nothing waits for that
	reopens chan struct{} // closed when readers may enter again; nil if they may
}

// enter returns the database, or nil. A caller that gets one must call leave.
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

// drain keeps new readers waiting until swap is called, and waits for the others. If they
// have not left in time, it lets new readers in again and returns false.
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

// swap replaces the database, which has no readers after drain, and lets readers in.
func (g *gate) swap(db *badger.DB) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.db = db
	g.turn++
	close(g.reopens)
	g.reopens = nil
}
