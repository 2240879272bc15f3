package scheduler

import "weir/internal/invariants"

// Commit books a chunk of the oldest step, once that step has been computed. If
// c.Draw is set, tok is the token drawn from its logits, or -1 if no token was
// legal; else tok is ignored. A chunk of a sequence that has finished meanwhile
// is skipped.
func (s *Scheduler) Commit(c Chunk, tok int32) {
	q := c.Seq
	if q.Status == Finished {
		return
	}
	s.kv.Publish(&q.Table, q.Tokens, c.Start+c.N) // does nothing if q has been preempted, because its table is empty
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
