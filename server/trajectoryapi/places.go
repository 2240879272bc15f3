package trajectoryapi

import (
	"sync"
	"time"

	"weir/internal/retry"
	"weir/server/failure"
)

// places are the log requests that may be read at a time. A tenant gets another place as long
// as it holds fewer than are left, so that one alone has at most half of them, and there is
// always one for a tenant that has none yet, unless very many have some.
type places struct {
	most int
	now  func() time.Time

	mu    sync.Mutex
	taken int
	held  map[string]int // by tenant; those with none are not there
	took  retry.Mean     // how long a request has its place
}

func newPlaces(most int, now func() time.Time) *places {
	return &places{most: most, now: now, held: make(map[string]int)}
}

// take takes a place for a tenant, which give gives back. It fails with failure.ErrUploads if
// there is none, and says how long it takes until so many requests have ended that there is.
func (p *places) take(tenant string) (give func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if missing := p.held[tenant] - (p.most - p.taken) + 1; missing > 0 {
		return nil, retry.After(failure.ErrUploads, p.took.Times(float64(missing)/float64(max(1, p.taken))))
	}
	p.taken++
	p.held[tenant]++
	began := p.now()
	return func() { p.give(tenant, began) }, nil
}

func (p *places) give(tenant string, began time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took.Add(p.now().Sub(began), 1)
	p.taken--
	if p.held[tenant]--; p.held[tenant] == 0 {
		delete(p.held, tenant)
	}
}

func (p *places) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}
