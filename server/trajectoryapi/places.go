package trajectoryapi

import "sync"

// places are the log requests that may be read at a time. A tenant gets another place as long
// as it holds fewer than are left, so that one alone has at most half of them, and there is
// always one for a tenant that has none yet, unless very many have some.
type places struct {
	most int

	mu    sync.Mutex
	taken int
	held  map[string]int // by tenant; those with none are not there
}

func newPlaces(most int) *places { return &places{most: most, held: make(map[string]int)} }

// take takes a place for a tenant, and reports whether there is one.
func (p *places) take(tenant string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held[tenant] >= p.most-p.taken {
		return false
	}
	p.taken++
	p.held[tenant]++
	return true
}

func (p *places) give(tenant string) {
	p.mu.Lock()
	defer p.mu.Unlock()
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
