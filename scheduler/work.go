package scheduler

import (
	"cmp"
	"math"
	"slices"
)

// Some sequences cost a step much beside their computation: thousands of biases, penalties and
// bans change the logits of a row, and the scores of a prompt are rows of their own. A request
// has bounds for that, but a step has hundreds of them. So Config.MaxWork and Config.MaxScored
// bound the step. A sequence for which nothing is left of them sits out for this step: it has
// no chunk, and so it draws the same token in a later one.
//
// Who draws is decided by fair queueing with start tags (Goyal, Vin and Cheng: "Start-time
// Fair Queueing", SIGCOMM 1996): tenants have parts of the work by their weights, and of the sequences of
// a tenant the one is next that has not drawn for longest. So nobody starves, and a sequence
// that costs little does not wait for those that cost much. Steps with enough for all, which
// are nearly all steps, take from nobody and count for nothing.

// Work is what a sequence costs a step beside its computation.
type Work struct {
	Draw   int  // units for drawing its next token; the caller may change it between any two calls
	Scored bool // the scores of the prompt's tokens are wanted, from the second one on

	paid, out uint64 // the newest plans that had its work, and that left it out
	since     uint64 // the plan in which it last drew, or the one before it was admitted
	tag       int64  // in the order of rank
}

// workPlan is what the scheduler knows of the work of the step that is being planned.
type workPlan struct {
	plan  uint64      // number of plans, also of empty ones
	want  []*Sequence // those that would draw
	out   []*Sequence // those for which nothing was left
	clock int64       // the least tag of the last step that had too little for all
}

// workShare is what a tenant has had while there was too little for all.
type workShare struct {
	served int64
	tag    int64  // of its next sequence in rank
	plan   uint64 // for which tag is
}

// beginWork begins a plan with all of the bounds.
func (s *Scheduler) beginWork() {
	s.work.plan++
	s.work.out = s.work.out[:0]
	s.left.work, s.left.scored = s.mostWork(), s.mostScored()
}

func (s *Scheduler) mostWork() int   { return orUnbounded(s.cfg.MaxWork) }
func (s *Scheduler) mostScored() int { return orUnbounded(s.cfg.MaxScored) }

func orUnbounded(n int) int {
	if n == 0 {
		return math.MaxInt
	}
	return n
}

// shareWork decides which of the running sequences that want a single token draw in this
// step. If there is too little work for all, the others are left out.
func (s *Scheduler) shareWork() {
	w, total := &s.work, 0
	w.want = w.want[:0]
	for _, q := range s.running {
		if q.Work.Draw > 0 && q.lastStep != s.planned && q.uncomputed() == 1 && s.demand(q) == 1 {
			w.want = append(w.want, q)
			total += q.Work.Draw
		}
	}
	if total <= max(0, s.left.work) {
		for _, q := range w.want {
			s.payWork(q)
		}
		return
	}
	s.rank(w.want)
	w.clock = w.want[0].Work.tag
	for _, q := range w.want {
		if !s.enoughWork(q) {
			q.Work.out = w.plan
			w.out = append(w.out, q)
			s.counters.LeftOut++
			continue
		}
		s.payWork(q)
		t := &q.tenant().work
		t.served = max(t.served, w.clock) + q.workPrice()
	}
}

// rank sorts sequences that want to draw by who is next.
func (s *Scheduler) rank(want []*Sequence) {
	slices.SortFunc(want, func(a, b *Sequence) int {
		return cmp.Or(cmp.Compare(a.Work.since, b.Work.since), s.order(a, b))
	})
	for _, q := range want {
		t := &q.tenant().work
		if t.plan != s.work.plan {
			t.plan, t.tag = s.work.plan, max(t.served, s.work.clock)
		}
		q.Work.tag = t.tag
		t.tag += q.workPrice()
	}
	slices.SortStableFunc(want, func(a, b *Sequence) int { return cmp.Compare(a.Work.tag, b.Work.tag) })
}

// workPrice is what the next draw of q costs its tenant, for its weight.
func (q *Sequence) workPrice() int64 { return int64(q.Work.Draw) * MaxWeight / q.tenant().weight }

// enoughWork reports whether the step has enough work left for q to draw. A step that has
// none yet has enough for anything, or a sequence that costs more than the bound would never
// draw.
func (s *Scheduler) enoughWork(q *Sequence) bool {
	return q.Work.paid == s.work.plan || q.Work.Draw <= max(0, s.left.work) || s.left.work == s.mostWork()
}

// payWork takes the work of drawing a token of q out of what is left.
func (s *Scheduler) payWork(q *Sequence) {
	if q.Work.paid != s.work.plan {
		q.Work.paid, q.Work.since = s.work.plan, s.work.plan
		s.left.work -= q.Work.Draw
	}
}

// refundWork gives back the work of q if it has paid for a token that the step does not draw. Others
// would have too little for no reason, and the step might be empty.
func (s *Scheduler) refundWork(q *Sequence) {
	if q.Work.paid == s.work.plan && q.lastStep != s.planned {
		s.left.work += q.Work.Draw
		q.Work.paid = 0
	}
}

// leftOut reports whether this step has no work left for q.
func (s *Scheduler) leftOut(q *Sequence) bool { return q.Work.out == s.work.plan }

// LeftOut is the number of running sequences for which the newest plan had no work left.
func (s *Scheduler) LeftOut() int { return len(s.work.out) }

// planLeftOut plans a sequence that was left out, if the plan is empty otherwise: those for
// which it had work may have found no blocks.
func (s *Scheduler) planLeftOut() {
	if len(s.plan) > 0 {
		return
	}
	for _, q := range s.work.out {
		if q.Status == Running && s.planChunk(q, 1) {
			return
		}
	}
}

// scoredOf is the number of tokens of a chunk that are scored.
func scoredOf(c Chunk) int {
	if !c.Seq.Work.Scored {
		return 0
	}
	return max(0, min(c.Start+c.N, c.Seq.Prompt-1)-c.Start)
}

// fitsWork reports whether there is enough left for the next n tokens of q.
func (s *Scheduler) fitsWork(q *Sequence, n int) bool { return s.cutForWork(q, n) == n }

// cutForWork returns how many of the next n tokens of q there is enough left for. A prompt
// whose token cannot be drawn is computed but for its last token, and then waits like
// those that want a single one.
func (s *Scheduler) cutForWork(q *Sequence, n int) int {
	if k := scoredOf(Chunk{Seq: q, Start: q.Computed, N: n}); k > s.left.scored && (s.left.scored < s.mostScored() || !s.cfg.WholePrompts) {
		return s.left.scored
	}
	if n > 0 && n == q.uncomputed() && !s.enoughWork(q) {
		return n - 1
	}
	return n
}

// chargeWork takes what the chunk c costs out of what is left.
func (s *Scheduler) chargeWork(c Chunk) {
	s.left.scored = max(0, s.left.scored-scoredOf(c))
	if c.Draw {
		s.payWork(c.Seq)
	}
}
