package transport

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"weir/auth"
)

// Ongoing is what others may be told of a request that generates, from the reading of its
// headers to the last byte of its answer.
type Ongoing struct {
	RequestID  string // X-Request-Id of the answer, or that of the request; "": neither is there
	Path       string
	Project    string         // "": none
	Who        *auth.Identity // nil: an open route
	Tenant     string         // see Call.Tenant
	Background bool
	Begun      time.Time

	number uint64 // in the order in which they came

	// What is known when the engine has accepted it.
	ID     string // of the answer
	Model  string
	Prompt int    // tokens
	Tokens Tokens // nil: the engine has not accepted it
}

// ongoing are the requests that generate. Each enters once and leaves once.
type ongoing struct {
	mu   sync.Mutex
	all  map[*Ongoing]struct{}
	last uint64 // number of the newest
}

// Track makes the call one of Server.Ongoing until it ends.
func (c *Call) Track() {
	id := c.answerID
	if id == "" {
		id = c.RequestID
	}
	c.tracked = &Ongoing{RequestID: id, Path: c.Target, Project: c.Project, Who: c.Who, Tenant: c.Tenant(), Background: c.background, Begun: c.Begun}
	o := &c.server.ongoing
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = make(map[*Ongoing]struct{})
	}
	o.last++
	c.tracked.number = o.last
	o.all[c.tracked] = struct{}{}
}

// accepted adds what is known when the engine has accepted a request. t may be nil.
func (o *ongoing) accepted(t *Ongoing, id, model string, prompt int, tokens Tokens) {
	if t == nil {
		return
	}
	o.mu.Lock()
	t.ID, t.Model, t.Prompt, t.Tokens = id, model, prompt, tokens
	o.mu.Unlock()
}

func (o *ongoing) remove(t *Ongoing) {
	if t == nil {
		return
	}
	o.mu.Lock()
	delete(o.all, t)
	o.mu.Unlock()
}

// Ongoing appends the requests that generate now and that shows returns true for to dst, the
// oldest first. Nothing is computed for it as long as nobody asks.
func (s *Server) Ongoing(dst []Ongoing, shows func(*Ongoing) bool) []Ongoing {
	from := len(dst)
	s.ongoing.mu.Lock()
	for t := range s.ongoing.all {
		if shows(t) {
			dst = append(dst, *t)
		}
	}
	s.ongoing.mu.Unlock()
	slices.SortFunc(dst[from:], func(a, b Ongoing) int { return cmp.Or(a.Begun.Compare(b.Begun), cmp.Compare(a.number, b.number)) })
	return dst
}
