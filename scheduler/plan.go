package scheduler

import (
	"cmp"
	"slices"

	"weir/internal/invariants"
)

// budget is what is left of a step's tokens.
type budget struct {
	tokens  int
	prefill int // of tokens, the most that may go to sequences with more than one token to compute
	work    int // see Config.MaxWork; less than 0 if a sequence costs more than all of it
	scored  int // see Config.MaxScored
}

// Schedule plans the next step. The chunks are valid until the next call. An
// empty plan is no step: there is nothing to compute before a step in flight has
// ended. See the package comment for the order in which sequences are served.
func (s *Scheduler) Schedule() []Chunk {
	s.plan = s.plan[:0]
	s.planned++
	s.plans++
	s.unseat()
	s.lengthen()
	s.age()
	s.left = budget{tokens: s.cfg.MaxTokens, prefill: s.cfg.MaxTokens}
	s.beginWork()
	admit := s.planPassed()
	s.planFairly(s.planDecodes() && admit)
	s.planLeftOut()
	s.restore()
	s.noteWaiting()
	if s.waiting == 0 {
		s.epoch++
	}
	if len(s.plan) == 0 {
		s.planned--
	}
	return s.plan
}

// planDecodes begins a plan with the running sequences that want a single token, so
// that a prompt never stops a stream. The others are left in s.rest; if the budget
// is too small for a token each, or leaves nothing for others that want some of it, all of
// them are. It reports false if a sequence found too few blocks; then nothing may be
// admitted.
func (s *Scheduler) planDecodes() (ok bool) {
	s.rest = s.rest[:0]
	s.shareWork()
	decodes := 0
	for _, q := range s.running {
		if q.lastStep == s.planned || s.leftOut(q) {
			continue
		}
		switch {
		case s.demand(q) == 0:
			continue
		case q.uncomputed() == 1:
			decodes++
		}
		s.rest = append(s.rest, q)
	}
	if most := cmp.Or(s.cfg.prefill, s.cfg.MaxPrefill); decodes > 0 && most > 0 && !s.cfg.WholePrompts {
		s.left.prefill = most
	}
	if decodes == 0 || decodes > s.left.tokens || decodes == s.left.tokens && (len(s.rest) > decodes || s.waiting > 0) {
		return true
	}
	ok = true
	n := 0
	for i, q := range s.rest {
		switch {
		case q.Status != Running: // it has been preempted for one before it
		case q.uncomputed() > 1: // even if only one token is computed next, before a state is kept
			s.rest[n] = s.rest[i]
			n++
		default:
			ok = s.planChunk(q, 1) && ok
		}
	}
	s.rest = s.rest[:n]
	return ok
}

// planFairly gives what is left of the budget to the sequences in s.rest and to
// waiting ones, if admit is set, whichever has had less. So a long prompt that is
// being computed does not hold up those that wait.
func (s *Scheduler) planFairly(admit bool) {
	for s.left.tokens > 0 {
		q := s.fairest()
		if admit && s.left.prefill > 0 && s.waiting > 0 {
			if w := s.candidate(); w != nil && (q == nil || s.fairer(w, q)) {
				admit = s.admit(w)
				continue
			}
		}
		if q == nil {
			return
		}
		at := slices.Index(s.rest, q)
		s.rest = slices.Delete(s.rest, at, at+1)
		s.choose(q)
		n := s.fit(q)
		if n == 0 && !s.cfg.WholePrompts {
			continue // its prompt waits for the scores of others, and takes nothing from those that are admitted
		}
		admit = n > 0 && s.planChunk(q, n) && admit
		s.restore() // its followers may run now
	}
}

// fairest returns the sequence in s.rest that is to be served next; nil: there is none. One
// that has been preempted meanwhile may have been admitted again, and have its chunk.
//
// It is called for every chunk, so that a step of n sequences would take n² steps of it. Those of
// one project are served in the order of s.rest, and so the first one will do if there is no other project.
func (s *Scheduler) fairest() (least *Sequence) {
	for _, q := range s.rest {
		if q.Status != Running || q.lastStep == s.planned || s.left.prefill <= 0 && s.demand(q) != 1 {
			continue
		}
		if q.Account.in.running == len(s.running) {
			return q
		}
		if least == nil || s.fairer(q, least) {
			least = q
		}
	}
	return least
}

// planChunk plans n tokens of the running sequence q. It reports false if there were
// too few blocks.
func (s *Scheduler) planChunk(q *Sequence, n int) bool {
	if !s.grow(q, n) {
		return false
	}
	if n > 1 {
		s.left.prefill -= n
	}
	s.left.tokens -= n
	s.addChunk(q, n)
	return true
}

// demand is the number of tokens of q that the next step could compute. It is 0
// if q sits out, or is certain to end with a token that is being drawn.
func (s *Scheduler) demand(q *Sequence) int {
	if s.sitsOut(q) {
		return 0
	}
	if q.Pending > 0 && (q.output() >= q.Limits.MaxTokens || len(q.Tokens)+q.Pending >= s.cfg.MaxSeqTokens) {
		return 0
	}
	if q.Pending > 0 && s.outgrown(q) {
		return 0 // unless that token ends it, all of it is computed anew
	}
	n := q.uncomputed()
	if q.MaxChunk > 0 {
		n = min(n, q.MaxChunk)
	}
	return s.cutForState(q, n)
}

// addChunk plans the next n tokens of q, for which it has blocks.
func (s *Scheduler) addChunk(q *Sequence, n int) {
	c := Chunk{Seq: q, Start: q.Computed, N: n, Draw: n == q.uncomputed()}
	if s.kv.Stateful() {
		s.advance(&c)
	}
	q.Computed += n
	if c.Draw {
		q.Pending++
	}
	q.lastStep = s.planned
	if q == s.passed.seq {
		s.passed = passed{}
	}
	s.plan = append(s.plan, c)
	s.charge(q, c.Start)
	s.chargeWork(c)
}

// grow finds blocks for n more tokens of the running sequence q. If it has to, it
// preempts others ([Scheduler.preemptForBlocks]), which may include q. It reports false if
// q cannot be part of this step.
func (s *Scheduler) grow(q *Sequence, n int) bool {
	for !s.kv.Grow(&q.Table, q.Computed+n) {
		if q.Pending > 0 {
			return false // its pending token may end it: no other sequence is preempted for that
		}
		if freed, wait := s.letGo(q); wait {
			return false
		} else if freed {
			continue
		}
		if need := s.kv.Lacks(&q.Table, q.Computed+n); need <= s.kv.Free()+s.deferredBlocks() {
			return false // enough blocks come back with the steps in flight
		}
		if victim := s.preemptForBlocks(); victim == nil || victim == q {
			return false
		}
	}
	return true
}

// admit starts the waiting sequence q. It reports false if there is no place, too little
// memory or, for a prompt that is not to be cut, too little budget for it. Then no other one
// is admitted, or q might never get its turn.
func (s *Scheduler) admit(q *Sequence) bool {
	invariants.Check(q.Pending == 0, "scheduler: sequence %d waits with a token in flight", q.ID)
	if s.holdBack(q) {
		return true
	}
	s.choose(q)
	if !s.fitsWaiting(q) {
		return false
	}
	if len(s.running) >= s.cfg.MaxSeqs && !s.makePlace(q) {
		return false
	}
	if !s.findState(q) {
		return false
	}
	if b := &s.blocked; q == b.seq && len(s.running) > 0 && s.kv.Free() <= b.free && s.kv.FreeStates() <= b.states && !s.makeBlocks(q, b.need) {
		return false
	}
	for {
		s.findComputed(q)
		n := s.fit(q)
		need := s.kv.Lacks(&q.Table, q.Computed+max(n, 1))
		if len(s.running) > 0 {
			need += s.spare() // see growAdmitted
		}
		if least := s.leastAdmitted(n); least > 0 && s.growAdmitted(q, least) {
			s.dequeue(q)
			s.start(q)
			s.repay(q)
			return n == 0 || s.planChunk(q, n)
		}
		s.kv.Release(&q.Table)
		q.Computed = 0
		if s.leastAdmitted(n) == 0 {
			return false // its leader, whose blocks it would have shared, was preempted for its place
		}
		s.blocked = blocked{q, s.kv.Free(), s.kv.FreeStates(), need}
		if !s.makeBlocks(q, need) {
			return false
		}
	}
}

// leastAdmitted is the number of tokens for which a sequence needs blocks to be admitted, if n
// of its tokens fit the step. If none does, for lack of work, it begins with a step that
// leaves it out. 0: a prompt that must not be cut does not fit.
func (s *Scheduler) leastAdmitted(n int) int {
	if s.cfg.WholePrompts {
		return n
	}
	return max(n, 1)
}

// sitsOut reports whether q sits out, or a step in flight still computes what is
// discarded of it. Its next chunk writes to the same slots.
func (s *Scheduler) sitsOut(q *Sequence) bool { return q.late.held || s.Stale(q) }

// maxSat is the number of plans that leave a running sequence out before it has to
// give its place to one that waits.
const maxSat = 16

// unseat preempts the running sequences that have sat out for long, if others wait.
// They would hold places and blocks, and a client could fill all places with
// sequences that never get on.
func (s *Scheduler) unseat() {
	for i := len(s.running) - 1; i >= 0; i-- {
		q := s.running[i]
		if !q.late.held {
			continue
		}
		if q.late.sat++; q.late.sat > maxSat && s.anyCanRun() {
			s.preempt(q)
		}
	}
}

// canRun reports whether the waiting sequence q lacks nothing but a place or blocks. One
// that was preempted while a step in flight computes it waits for the end of that step,
// which would be booked as if it had written to the new blocks.
func (s *Scheduler) canRun(q *Sequence) bool {
	return q.lastStep <= s.ended && !q.recall.held && !s.sitsOut(q) && !s.waitsForLeader(q)
}

// anyCanRun reports whether that is so of any waiting sequence.
func (s *Scheduler) anyCanRun() bool {
	any := s.candidate() != nil
	s.restore()
	return any
}

// waitsForLeader reports whether q has a leader that may still compute the prompt
// for it, all of it but the last token, whose block is not shared. Once the leader
// has finished, q has to compute the prompt itself. A recurrent state is shared where the
// leader has gone on from it.
func (s *Scheduler) waitsForLeader(q *Sequence) bool {
	l := q.Leader
	if l == nil || l.Status == Finished || l.Long != s.isLong(q) {
		return false
	}
	if l.Status == Waiting || l.Computed < l.Prompt-1 {
		return true
	}
	at := s.forkPoint(l)
	return s.kv.Stateful() && at > 0 && l.Computed <= at
}

// findComputed gives the waiting sequence q the blocks of its tokens that are
// computed already: by its leader, or by any sequence with the same prefix.
func (s *Scheduler) findComputed(q *Sequence) {
	q.Long = s.isLong(q)
	if l := q.Leader; l != nil && l.Status == Running && l.Long == q.Long {
		l.Account.forked = s.planned
		q.Computed = s.kv.Fork(&q.Table, &l.Table, q.Prompt-1, q.root())
		if q.Computed > 0 {
			return
		} // else there was no slot to keep the state in, or the leader has given back what q sees
	}
	q.Computed = s.kv.Share(&q.Table, q.Tokens, q.root(), !q.NoCacheRead)
}

// growAdmitted finds blocks for n tokens of a sequence that is to be admitted. It
// leaves free what each running sequence takes next, a block of each group: the new one would soon be
// preempted for their sake otherwise, and have computed its tokens for nothing.
func (s *Scheduler) growAdmitted(q *Sequence, n int) bool {
	if len(s.running) > 0 && s.kv.Lacks(&q.Table, q.Computed+n)+s.spare() > s.kv.Free() {
		return false
	}
	return s.kv.Grow(&q.Table, q.Computed+n)
}

// spare is the number of blocks that running sequences take when each grows by an entry of its table.
func (s *Scheduler) spare() int { return len(s.running) * s.kv.Groups() }

// start moves q, which has left the waiting queue, to the running sequences.
func (s *Scheduler) start(q *Sequence) {
	if !q.admitted {
		q.admitted, q.Cached = true, min(q.Computed, q.Prompt)
		if s.kv.Caching() && !q.NoCacheRead && (q.Leader == nil || !q.Leader.NoCacheRead) {
			s.counters.PrefixTokens += uint64(q.Prompt)
			s.counters.PrefixHits += uint64(q.Cached)
			if q.Cached > 0 && s.kv.Stateful() {
				s.counters.StateHits++
			}
		}
	}
	s.unfollow(q)
	if s.lacking == q {
		s.lacking = nil
	}
	q.Status = Running
	q.Account.begun = s.plans
	q.Work.since = s.work.plan - 1 // it comes before those that draw in this step
	s.enlist(q)
}

// enlist counts q among the running sequences.
func (s *Scheduler) enlist(q *Sequence) {
	i, _ := slices.BinarySearchFunc(s.running, q, s.order)
	s.running = slices.Insert(s.running, i, q)
	q.Account.in.running++
	q.tenant().running++
	q.tenant().share.Running++
}
