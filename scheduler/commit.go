package scheduler

import "weir/internal/invariants"

// Commit books a chunk of the oldest step, once that step has been computed. If
// c.Draw is set, tok is the token drawn from its logits, or -1 if no token was
// legal; else tok is ignored. A chunk of a sequence that has finished meanwhile
// is skipped, and so is one that followed a token which was postponed.
func (s *Scheduler) Commit(c Chunk, tok int32) {
	q := c.Seq
	if q.Status == Finished || s.Stale(q) {
		return
	}
	if s.kv.Stateful() {
		s.settle(c)
	}
	s.kv.Publish(&q.Table, q.Tokens, c.Start+c.N) // does nothing if q has been preempted, because its table is empty
	s.slide(c)
	if !c.Draw {
		return
	}
	q.Pending--
	if tok < 0 {
		s.End(q, Failed)
		return
	}
	s.appendToken(q, tok)
}

// Postpone books a chunk of the oldest step, with Draw set, whose token counts as
// not drawn, because something that decides it was not known in time. The sequence
// computes its newest token again in a later step and draws then, from the same
// logits. What steps in flight compute after that token is discarded. The sequence
// sits out: no step is planned for it until [Scheduler.Resume].
//
// The block of the newest token is not published here. So no other table lists the
// block to which that token is written a second time.
//
// With a recurrent state, the whole chunk is computed again from the state before it. If that was
// not kept, because there was no slot for it, the sequence is preempted.
func (s *Scheduler) Postpone(c Chunk) {
	q := c.Seq
	if q.Status == Finished || s.Stale(q) {
		return
	}
	invariants.Check(c.Draw && q.Pending > 0, "scheduler: a chunk of sequence %d that draws nothing is postponed", q.ID)
	newest, lost := len(q.Tokens)-1, false
	if s.kv.Stateful() {
		newest = c.Start
		lost = q.Status == Running && !s.kv.Rewind(&q.Table, c.Start)
	}
	s.kv.Publish(&q.Table, q.Tokens, newest)
	q.Computed = min(q.Computed, newest) // less if q has been preempted
	q.Pending = 0
	q.late.stale = q.lastStep
	q.late.held, q.late.sat = true, 0
	s.counters.Postponed++
	if lost {
		s.preempt(q)
	}
}

// Resume ends what Postpone began: q is planned again.
func (s *Scheduler) Resume(q *Sequence) { q.late.held = false }

// Stale reports whether what the oldest step in flight has computed of q is
// discarded, because it followed a token that was postponed.
func (s *Scheduler) Stale(q *Sequence) bool { return q.late.stale > s.ended }

// Append books an output token that needed no draw. q must not have finished and
// must not have a token in flight.
func (s *Scheduler) Append(q *Sequence, tok int32) {
	invariants.Check(q.Status != Finished && q.Pending == 0, "scheduler: token appended to sequence %d with status %d and %d tokens in flight", q.ID, q.Status, q.Pending)
	s.appendToken(q, tok)
}

func (s *Scheduler) appendToken(q *Sequence, tok int32) {
	q.Tokens = append(q.Tokens, tok)
	if r, done := q.stop(s.cfg.MaxSeqTokens); done {
		s.End(q, r)
	}
}

// EndStep closes the oldest step. Blocks that no later step writes to return to
// the pool.
func (s *Scheduler) EndStep() {
	s.ended++
	n := 0
	for i := range s.deferred {
		if s.deferred[i].step <= s.ended {
			s.kv.Release(&s.deferred[i].table)
		} else {
			s.deferred[n] = s.deferred[i]
			n++
		}
	}
	clear(s.deferred[n:])
	s.deferred = s.deferred[:n]
}
