package transport

import (
	"sync"
	"time"

	"weir/internal/retry"
)

// FairPlaces are the requests of a kind that may be served at a time. An owner gets another place as long
// as it holds fewer than are left, so that one alone has at most half of them, and there is
// always one for an owner that has none yet, unless very many have some.
type FairPlaces[Owner comparable] struct {
	most    int
	now     func() time.Time
	refused error

	mu    sync.Mutex
	taken int
	held  map[Owner]int // those with none are not there
	took  retry.Mean    // how long a request has its place
}

// NewFairPlaces returns as many places as given, by a clock. Who gets none is told refused.
func NewFairPlaces[Owner comparable](most int, now func() time.Time, refused error) *FairPlaces[Owner] {
	return &FairPlaces[Owner]{most: most, now: now, refused: refused, held: make(map[Owner]int)}
}

// Take takes a place for an owner, which give gives back. If there is none, the error also says how
// long it takes until so many requests have ended that there is ([retry.Of]).
func (p *FairPlaces[Owner]) Take(owner Owner) (give func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if missing := p.held[owner] - (p.most - p.taken) + 1; missing > 0 {
		return nil, retry.After(p.refused, p.took.Times(float64(missing)/float64(max(1, p.taken))))
	}
	p.taken++
	p.held[owner]++
	began := p.now()
	return func() { p.give(owner, began) }, nil
}

func (p *FairPlaces[Owner]) give(owner Owner, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took.Add(p.now().Sub(began), 1)
	p.taken--
	if p.held[owner]--; p.held[owner] == 0 {
		delete(p.held, owner)
	}
}

// Taken returns how many places are taken.
func (p *FairPlaces[Owner]) Taken() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
