package engine

import (
	"errors"
	"time"

	"weir/internal/retry"
)

var (
	// ErrPrompts refuses a request because the prompts of those that wait have too many tokens
	// (Config.MaxPrompts).
	ErrPrompts = errors.New("engine: too many prompt tokens are waiting")
	// ErrQueueTime refuses a request, or ends one of which nothing has been computed, because it
	// cannot begin within the time that it may wait.
	ErrQueueTime = errors.New("engine: the request cannot begin in time")
)

// Reservation asks for a place for a request that is still to be prepared.
type Reservation struct {
	Tenant, Project string
	Weight          int // of the tenant, and of its project, as those of Request
	ProjectWeight   int
	Priority        int64
	Tokens          int           // of its prompt, about
	Arrived         time.Time     // zero: now
	MaxWait         time.Duration // see Queueing.MaxWait
	// Lost is called, at most once, if the place is lost to others, or because the request cannot
	// begin in time. Submitting it then fails with the same error. Lost must not wait, nor call the
	// engine. nil: nobody wants to know.
	Lost func(error)
}

// Place is a place of one choice in the intake. It is lost like that of a request that has not begun.
type Place struct {
	e   *Engine
	sub *submission // protected by Engine.mu
}

// Reserve takes a place for a request before the work of preparing it, so that a request which the
// engine has no place for is refused before that. Submitting the request with it ([Queueing.Place])
// turns it into the places of the request; otherwise it has to be released. The error is, or wraps, one of
// ErrLoading, ErrFull, ErrPrompts, ErrQueueTime and ErrStopped.
func (e *Engine) Reserve(r Reservation) (*Place, error) {
	select {
	case <-e.ready:
	default:
		return nil, ErrLoading
	}
	q := &request{Request: Request{Tenant: r.Tenant, Project: r.Project, Weight: r.Weight, ProjectWeight: r.ProjectWeight, Priority: r.Priority}, arrived: e.clock()}
	if !r.Arrived.IsZero() {
		q.arrived = r.Arrived.Sub(e.epoch)
	}
	sub := &submission{requests: []*request{q}, live: 1, place: true}
	sub.queueing = queueing{prompt: int64(r.Tokens), due: dueAt(q.arrived, r.MaxWait), onLost: r.Lost}
	if err := e.admit(sub, nil); err != nil {
		return nil, err
	}
	return &Place{e, sub}, nil
}

// dueAt is when a request has to begin that arrived at a time and may wait for so long; 0: whenever.
func dueAt(arrived, most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return max(1, arrived+most)
}

// Release gives the place back, unless a request was submitted with it or it was lost. It may be called
// several times, and p may be nil.
func (p *Place) Release() {
	if p == nil {
		return
	}
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	p.take()
}

// take gives the place back and returns its submission; nil: it was given back before. Engine.mu is
// held.
func (p *Place) take() *submission {
	s := p.sub
	p.sub = nil
	if s != nil && !s.evicted {
		p.e.mu.places.leave(s)
	}
	return s
}

// admit gives a submission its places, or returns why it has none. instead is the place that was
// reserved for it; nil: there is none.
func (e *Engine) admit(sub *submission, instead *Place) error {
	speed := e.Stats().Speed
	err := e.post(func() error {
		p := &e.mu.places
		now := e.clock()
		if instead != nil {
			if old := instead.take(); old != nil {
				if old.evicted {
					return old.refusal(speed)
				}
				sub.had, sub.number = old.live, old.number
			}
		}
		if p.timed > 0 && (p.all.live+sub.live > p.most || p.prompts > 0) {
			e.shed(now, speed) // those that cannot begin in time are given up first
		}
		if sub.due > 0 && p.late(sub, p.ahead(sub), now, speed) {
			return sub.refusal(speed)
		}
		out, ok := p.admit(sub)
		if !ok {
			return sub.refusal(speed)
		}
		e.lose(out, speed)
		if !sub.place {
			e.mu.in = append(e.mu.in, sub.requests...)
		}
		return nil
	})
	return err
}

// lose tells those that have lost their places. The loop ends their requests; places without requests
// have none. The lock is held.
func (e *Engine) lose(out []*submission, speed float64) {
	for _, s := range out {
		s.evicted = true
		if !s.place {
			e.mu.evicted = append(e.mu.evicted, s)
		} else if s.onLost != nil {
			s.onLost(s.refusal(speed))
		}
	}
}

// refusal is the error with which s is refused, or given up.
func (s *submission) refusal(speed float64) error {
	switch {
	case s.tardy > 0:
		return retry.After(ErrQueueTime, s.tardy)
	case s.short:
		return retry.After(ErrPrompts, retry.Time(float64(s.before), speed))
	}
	return s.full(speed)
}

// queueing is what a submission has of the time and the prompt tokens that it may have while it waits.
type queueing struct {
	prompt  int64         // tokens of its prompts, or about as many
	had     int           // choices for which it had reserved a place
	due     time.Duration // when it has to begin, since Engine.epoch; 0: whenever
	counted sums          // what it is counted with among those that have not begun
	onLost  func(error)   // of a place; nil: nobody wants to know

	// Why it is refused or given up: it would begin so much too late, or there is no room for its
	// prompt. Otherwise there was no place.
	tardy time.Duration
	short bool
}

// sums are of the submissions of a holder that have not begun.
type sums struct {
	tokens int64 // about what is to be computed for them
	prompt int64 // tokens of their prompts
}

// enqueued and dequeued keep the books of those that have not begun.
func (p *places) enqueued(s *submission) {
	s.counted = sums{s.tokens, s.prompt}
	p.count(s, 1)
}

func (p *places) dequeued(s *submission) { p.count(s, -1) }

func (p *places) count(s *submission, sign int64) {
	for h := s.project; h != nil; h = h.within {
		h.queued.tokens += sign * s.counted.tokens
		h.queued.prompt += sign * s.counted.prompt
	}
	if s.due > 0 {
		p.timed += int(sign)
	}
}

// admitPrompt makes sure that the prompt of s fits beside those that wait, and adds those to out that
// have to give up their places for that: the newest of the tenant whose prompts are longest, if those
// that are left to it are still no shorter than those of the newcomer's tenant would be. It reports
// true if there is no room. A single prompt may be longer than the bound. The prompt that was counted
// when its place was reserved has had its room.
func (p *places) admitPrompt(s *submission, out []*submission) ([]*submission, bool) {
	if p.prompts == 0 || s.had > 0 {
		return out, false
	}
	r := &s.requests[0].Request
	for p.all.queued.prompt > 0 && p.all.queued.prompt+s.prompt > p.prompts {
		longest := longestPrompts(&p.all)
		if longest == nil {
			return out, true
		}
		own := int64(0)
		if t := p.all.parts[r.Tenant]; t != nil {
			own = t.queued.prompt
		}
		v := longestPrompts(longest).last()
		if longest.name == r.Tenant || (longest.queued.prompt-v.prompt)*weightOf(r.Weight) < (own+s.prompt)*longest.weight {
			return out, true
		}
		p.leave(v)
		out = append(out, v)
	}
	return out, false
}

// longestPrompts is the part of h whose prompts that wait are longest for its weight; nil: none waits.
func longestPrompts(h *holder) (longest *holder) {
	for _, part := range h.latent {
		if longest == nil || part.queued.prompt*longest.weight > longest.queued.prompt*part.weight {
			longest = part
		}
	}
	return longest
}

// ahead is about how many tokens are computed before s, which has no place yet, can begin: those of
// requests that have not begun, shared out between tenants and projects. Those that run are not counted,
// because where requests wait, as many end as begin.
func (p *places) ahead(s *submission) int64 {
	r := &s.requests[0].Request
	n := int64(1)
	t := p.all.parts[r.Tenant]
	if t != nil {
		own := t.parts[r.Project]
		if own != nil {
			n += own.queued.tokens
		}
		n = t.aheadIn(n, own, weightOf(r.ProjectWeight))
	}
	return p.all.aheadIn(n, t, weightOf(r.Weight)) - 1
}

// aheadIn is about how many tokens of those that wait in h are computed until n are in one of its parts,
// of the given weight, which is not there yet if it is nil.
func (h *holder) aheadIn(n int64, one *holder, weight int64) int64 {
	others, weights := h.queued.tokens, h.weights
	if one != nil {
		others, weights = others-one.queued.tokens, weights-one.weight
	}
	return n + min(others, n*weights/weight)
}

// late reports whether s cannot begin in time behind so many tokens, and notes by how much.
func (p *places) late(s *submission, ahead int64, now time.Duration, speed float64) bool {
	begins := now
	if speed > 0 {
		begins += retry.Time(float64(ahead), speed)
	}
	if ahead > 0 || now > s.due { // one with nobody before it may begin at any moment
		s.tardy = max(0, begins-s.due)
	}
	return s.tardy > 0
}

// shedEvery is how often those that wait are looked through.
const shedEvery = 20 * time.Millisecond

// shed gives up those that cannot begin in time any more. The lock is held.
func (e *Engine) shed(now time.Duration, speed float64) {
	p := &e.mu.places
	if p.timed == 0 || now-p.shed < shedEvery && p.shed > 0 {
		return
	}
	p.shed = now
	var out []*submission
	for _, t := range p.all.latent {
		for _, h := range t.latent {
			sum := int64(0)
			for _, s := range h.queue {
				ahead := p.all.aheadIn(t.aheadIn(sum+1, h, h.weight), t, t.weight) - 1
				if s.due > 0 && p.late(s, ahead, now, speed) {
					out = append(out, s)
				} else {
					sum += s.counted.tokens
				}
			}
		}
	}
	for _, s := range out {
		p.leave(s)
	}
	e.lose(out, speed)
}

// shedLate is called by the loop between steps.
func (e *Engine) shedLate() {
	e.mu.Lock()
	if e.mu.places.timed > 0 {
		e.shed(e.clock(), e.counts.Speed)
	}
	e.mu.Unlock()
}
