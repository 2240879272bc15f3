package engine

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"weir/internal/retry"
	"weir/scheduler"
)

// places are the books of the intake: who holds the places for choices that have been
// accepted and have not ended. There are Config.MaxLive of them, and one tenant alone may
// hold them all, as long as nobody else wants one. If they are all taken, a newcomer gets
// those of requests that have not begun:
//
//   - of the tenant that holds most, if it then still holds no less than the newcomer's tenant
//     would, and no less than a sixty-fourth of all places. Otherwise many tenants with one
//     request each could take the places of one that has a few.
//   - Otherwise of the project that holds most in the newcomer's own tenant, if it then still
//     holds no less than the newcomer's project would.
//
// What tenants and projects hold is compared for their weights: 30 places at the weight 3 are
// as many as 10 at the weight 1.
//
// In either case the project of that tenant that holds most gives up its newest request, or
// where priorities count the newest of its least urgent ones. It ends with ErrFull. Requests
// that have begun are never given up, because their work would be lost. If there is nobody
// whose places a newcomer may have, tenants that hold few may take some more, together an
// eighth of MaxLive at most, and each of them no more than it leaves to others.
//
// Requests that were submitted together are given up together. Engine.mu protects all this.
// Giving up is noted here by the newcomer's goroutine, and carried out by the loop
// (Engine.giveUp). Package scheduler shares out what is computed in the same way, but it
// belongs to the loop, which is busy while the newcomer has to be told.
type places struct {
	most     int
	prompts  int64         // most prompt tokens of those that have not begun; 0: there is no bound
	timed    int           // submissions that have not begun and may wait only for a while
	shed     time.Duration // when those were looked through, since Engine.epoch
	priority bool          // Config.Scheduler.Priority
	all      holder
	accepted uint64  // submissions so far
	output   float64 // tokens that a choice puts out, on average of those that ended last
}

// holder is all of the intake, what a tenant holds of it, or a project of a tenant.
type holder struct {
	name    string
	within  *holder            // nil: this is all
	parts   map[string]*holder // by name; each holds something
	weight  int64              // in hundredths, by the newest request
	weights int64              // of all parts
	live    int                // choices
	tokens  int64              // about what is still to be computed for them
	latent  latentFirst        // the parts that have submissions that have not begun
	index   int                // in within.latent; below 0: it is not there
	queue   []*submission      // of a project: those that have not begun; the last one is given up first
	queued  sums               // of those that have not begun
}

// submission has the requests of one call of SubmitAll, or the place that Reserve has taken for one.
type submission struct {
	requests []*request
	priority int64
	number   uint64
	project  *holder
	live     int   // choices that have not ended
	tokens   int64 // about what is still to be computed for them
	begun    bool
	evicted  bool  // it holds no place any more, and the loop is to end it
	place    bool  // it is a place that was reserved, and has no request yet
	queueing       // how long it waits
	before   int64 // tokens that would be computed before those of a request that came in its place
}

// A tenant that holds no more than one in keptShare of the places loses none to others. There is
// one in spareShare more for tenants that hold few.
const (
	keptShare  = 64
	spareShare = 8
)

// firstOutput is taken for the average length of outputs before any has ended.
const firstOutput = 128

func newPlaces(most int, priority bool) places {
	return places{most: most, priority: priority, output: firstOutput}
}

// admit gives s its places. Those in out have lost theirs for it. If it reports false, s has
// none, and nobody has lost any.
func (p *places) admit(s *submission) (out []*submission, ok bool) {
	r := &s.requests[0].Request
	if t := p.all.parts[r.Tenant]; t != nil {
		t.weigh(r.Weight)
		t.parts[r.Project].weigh(r.ProjectWeight)
	}
	s.tokens = p.estimate(s)
	missing := min(s.live-s.had, p.all.live+s.live-p.most) // what was taken beyond most is not made up for by others
	for missing > 0 {
		v := p.victim(r, s.live)
		if v == nil {
			break
		}
		p.leave(v)
		out = append(out, v)
		missing -= v.live
	}
	if out, s.short = p.admitPrompt(s, out); s.short || missing > 0 && !p.beyond(r.Tenant, s.live) {
		for _, v := range out {
			p.enter(v)
		}
		s.before = p.before(s)
		return nil, false
	}
	if s.number == 0 { // else it is that of its place
		p.accepted++
		s.number = p.accepted
	}
	s.priority = 0
	if p.priority {
		s.priority = r.Priority
	}
	p.enter(s)
	for _, v := range out {
		v.evicted = true
		v.before = p.before(v)
	}
	return out, true
}

// estimate is about what is to be computed for a new submission: its prompts, and outputs of
// the usual length.
func (p *places) estimate(s *submission) (n int64) {
	if s.place {
		return s.prompt + int64(p.output)
	}
	s.prompt = 0
	for _, q := range s.requests {
		s.prompt += int64(len(q.Tokens))
	}
	for _, q := range s.requests {
		n += int64(len(q.Tokens)) + int64(len(q.choices))*min(int64(q.Limits.MaxTokens), int64(p.output))
	}
	return n
}

// victim is the submission that is given up next for n choices of r; nil: there is none.
func (p *places) victim(r *Request, n int) *submission {
	if len(p.all.latent) == 0 {
		return nil
	}
	own := p.all.parts[r.Tenant]
	if t := p.all.latent[0]; t != own {
		v := t.latent[0].last()
		if left := t.live - v.live; left >= p.most/keptShare && int64(left)*weightOf(r.Weight) >= int64(own.holds()+n)*t.weight {
			return v
		}
	}
	if own == nil || len(own.latent) == 0 {
		return nil
	}
	mine := own.parts[r.Project]
	if t := own.latent[0]; t != mine {
		if v := t.last(); int64(t.live-v.live)*weightOf(r.ProjectWeight) >= int64(mine.holds()+n)*t.weight {
			return v
		}
	}
	return nil
}

// weightOf is a weight of a request, in hundredths.
func weightOf(w int) int64 {
	if w <= 0 {
		return scheduler.UsualWeight
	}
	return int64(min(w, scheduler.MaxWeight))
}

// beyond reports whether a tenant may have n places more, although there are none.
func (p *places) beyond(tenant string, n int) bool {
	left := p.most + max(1, p.most/spareShare) - p.all.live
	return n <= left && p.all.parts[tenant].holds()+n <= max(1, left-n)
}

// holds is the number of choices of h, which may be nil.
func (h *holder) holds() int {
	if h == nil {
		return 0
	}
	return h.live
}

// last is the submission that a project gives up first.
func (h *holder) last() *submission { return h.queue[len(h.queue)-1] }

// order compares submissions of a project: the greater is given up first.
func (s *submission) order(t *submission) int {
	return cmp.Or(cmp.Compare(s.priority, t.priority), cmp.Compare(s.number, t.number))
}

// enter takes the places of s, which has not begun.
func (p *places) enter(s *submission) {
	r := &s.requests[0].Request
	h := p.all.part(r.Tenant, r.Weight).part(r.Project, r.ProjectWeight)
	s.project = h
	i, _ := slices.BinarySearchFunc(h.queue, s, (*submission).order)
	h.queue = slices.Insert(h.queue, i, s)
	p.enqueued(s)
	p.book(h, s.live, s.tokens)
}

// leave gives back all places of s, which has not begun.
func (p *places) leave(s *submission) {
	p.dequeue(s)
	p.book(s.project, -s.live, -s.tokens)
}

// dequeue takes s out of those that may be given up.
func (p *places) dequeue(s *submission) {
	h := s.project
	if i, found := slices.BinarySearchFunc(h.queue, s, (*submission).order); found {
		h.queue = slices.Delete(h.queue, i, i+1)
		p.dequeued(s)
	}
}

// begin notes that something of s is computed. Half of it counts as done from now on, which
// is right on average.
func (p *places) begin(s *submission) {
	if s.begun || s.evicted {
		return
	}
	s.begun = true
	p.dequeue(s)
	half := s.tokens / 2
	s.tokens -= half
	p.book(s.project, 0, -half)
}

// end gives back the place of one choice of s, which has put out so many tokens, and reports
// whether it has had it until now.
func (p *places) end(s *submission, r Reason, output int) (held bool) {
	if s.evicted {
		return false
	}
	if r != Aborted && r != Failed {
		p.output += (float64(output) - p.output) / 64
	}
	part := s.tokens / int64(s.live)
	s.live--
	s.tokens -= part
	if s.live == 0 && !s.begun {
		p.dequeue(s)
	}
	p.book(s.project, -1, -part)
	return true
}

// book changes what a project holds, and what it is a part of.
func (p *places) book(h *holder, live int, tokens int64) {
	for ; h != nil; h = h.within {
		h.live += live
		h.tokens += tokens
		w := h.within
		if w == nil {
			return
		}
		switch latent := len(h.queue)+len(h.latent) > 0; {
		case latent && h.index < 0:
			heap.Push(&w.latent, h)
		case latent:
			heap.Fix(&w.latent, h.index)
		case h.index >= 0:
			heap.Remove(&w.latent, h.index)
		}
		if h.live == 0 {
			delete(w.parts, h.name)
			w.weights -= h.weight
		}
	}
}

// part returns the part of a name, which has the given weight from now on, and makes it if
// need be.
func (h *holder) part(name string, weight int) *holder {
	c := h.parts[name]
	if c == nil {
		if c = (&holder{name: name, within: h, index: -1}); h.parts == nil {
			h.parts = make(map[string]*holder)
		}
		h.parts[name] = c
	}
	c.weigh(weight)
	return c
}

// weigh sets the weight of a tenant or a project, which may be nil.
func (h *holder) weigh(weight int) {
	if h == nil || h.weight == weightOf(weight) {
		return
	}
	h.within.weights += weightOf(weight) - h.weight
	if h.weight = weightOf(weight); h.index >= 0 {
		heap.Fix(&h.within.latent, h.index)
	}
}

// before is about how many tokens would be computed before s, which has no places, was done if
// it came now: those of its own project, for the other projects of its tenant as many as
// their weights allow them meanwhile, and for the other tenants in the same way, but no more
// than there are.
func (p *places) before(s *submission) int64 {
	r := &s.requests[0].Request
	n := s.tokens
	t := p.all.parts[r.Tenant]
	if t != nil {
		own := t.parts[r.Project]
		if own != nil {
			n += own.tokens
		}
		n = t.shared(n, own, weightOf(r.ProjectWeight))
	}
	return p.all.shared(n, t, weightOf(r.Weight)) - s.tokens
}

// shared is about how many tokens are computed in h until n are in one of its parts, of the
// given weight, which is not there yet if it is nil.
func (h *holder) shared(n int64, one *holder, weight int64) int64 {
	others, weights := h.tokens, h.weights
	if one != nil {
		others, weights = others-one.tokens, weights-one.weight
	}
	return n + min(others, n*weights/weight)
}

// full is ErrFull for s, with the time after which it may be submitted again: that in which
// the tokens before it are computed, so many per second.
func (s *submission) full(speed float64) error {
	return retry.After(ErrFull, retry.Time(float64(s.before), speed))
}

// latentFirst is a heap of the parts of a holder that have submissions that have not begun.
// The first holds most for its weight; among equal ones it is that whose name comes last.
type latentFirst []*holder

func (l latentFirst) Len() int { return len(l) }
func (l latentFirst) Less(i, j int) bool {
	a, b := int64(l[i].live)*l[j].weight, int64(l[j].live)*l[i].weight
	return a > b || a == b && l[i].name > l[j].name
}

func (l latentFirst) Swap(i, j int) {
	l[i], l[j] = l[j], l[i]
	l[i].index, l[j].index = i, j
}

func (l *latentFirst) Push(x any) {
	h := x.(*holder)
	h.index = len(*l)
	*l = append(*l, h)
}

func (l *latentFirst) Pop() any {
	last := len(*l) - 1
	h := (*l)[last]
	(*l)[last] = nil
	*l = (*l)[:last]
	h.index = -1
	return h
}
