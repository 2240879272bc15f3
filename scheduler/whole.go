package scheduler

// Config.WholePrompts: what a sequence has to compute is computed in one step or not begun.
// A prompt that does not fit beside what a step has already waits for another step, and
// nothing is admitted after it in this one: smaller prompts would take the budget again and
// again. Where the single tokens of running sequences leave too little budget in every step,
// waiting for the ends of some of them could take minutes in which nobody is admitted. So a
// prompt that has waited for maxPassed plans is planned before the single tokens, some of
// which then wait for one step.

// maxPassed is the number of plans that a prompt waits for a step with enough budget before
// it comes before the single tokens of other sequences. Those lose at most one step in
// maxPassed that way.
const maxPassed = 8

// passed is about the sequence that lacks budget.
type passed struct {
	seq   *Sequence // nil: there is none
	plans int       // since it first lacked budget
	need  int       // the budget that it needed then
	last  uint64    // the plan in which it last lacked budget
}

// passOver notes that q lacks budget for n tokens in this step. The sequence that has waited
// longest is remembered, unless it lacks something else now, or is not next any more.
func (s *Scheduler) passOver(q *Sequence, n int) {
	p := &s.passed
	if p.seq != q {
		if p.seq != nil && p.last+1 >= s.planned {
			return
		}
		*p = passed{seq: q, need: n}
	}
	p.last = s.planned
}

// fit returns how many tokens of q the rest of this step's budget is for. 0: a prompt that
// is not to be cut has more than are left, or there is too little work left for any.
func (s *Scheduler) fit(q *Sequence) int {
	n := s.demand(q)
	switch {
	case s.cfg.WholePrompts && (n > s.left.tokens || !s.fitsWork(q, n)):
		s.passOver(q, n)
		return 0
	case n > 1:
		n = min(n, s.left.prefill)
	}
	return s.cutForWork(q, min(n, s.left.tokens))
}

// fitsWaiting reports whether the budget is enough for the waiting sequence q. It is asked
// before another sequence is preempted for q.
func (s *Scheduler) fitsWaiting(q *Sequence) bool {
	if !s.cfg.WholePrompts {
		return true
	}
	if p := &s.passed; q == p.seq && p.plans < maxPassed && s.left.tokens < p.need {
		p.last = s.planned
		return false // without looking for its prefix in the cache again
	}
	s.findComputed(q)
	n := s.fit(q)
	s.kv.Release(&q.Table)
	q.Computed = 0
	return n > 0
}

// planPassed plans the sequence that has lacked budget for too long, before anything else.
// It reports whether more may be admitted in this step.
func (s *Scheduler) planPassed() bool {
	q := s.passed.seq
	if q == nil {
		return true
	}
	if s.passed.plans++; s.passed.plans < maxPassed {
		return true
	}
	switch q.Status {
	case Waiting:
		first := s.candidate() == q
		s.restore()
		if first {
			s.admit(q)
			return false
		}
	case Running:
		if n := s.demand(q); n > 0 {
			s.choose(q)
			s.planChunk(q, n)
			return false
		}
	}
	return true
}
