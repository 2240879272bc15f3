package scheduler

import (
	"math"

	"weir/kvcache"
)

// A network with a recurrent state has one slot of the device for the state of each running
// sequence, which every chunk overwrites. Where the state is to be kept, the sequence goes on from
// the old slot into a fresh one (package kvcache). So chunks of a prompt end where the state is
// worth keeping: at the last end of a block that a later prompt may repeat, where the further
// choices of the request begin, where an earlier sequence has gone on in another way, and every
// Config.StateEvery tokens. While tokens are drawn, the state at the newest end of a block is kept. No
// sequence is preempted for any of these: if no slot is free, the state is overwritten, and
// somebody computes more later.

// forkPoint is the number of prompt tokens after which the further choices of q begin.
func (s *Scheduler) forkPoint(q *Sequence) int {
	return (q.Prompt - 1) / s.kv.BlockTokens() * s.kv.BlockTokens()
}

// lastPoint is the number of prompt tokens that a later prompt may repeat, in whole blocks.
func (s *Scheduler) lastPoint(q *Sequence) int {
	return max(0, min(q.Prompt-1, q.Prompt-q.Suffix)) / s.kv.BlockTokens() * s.kv.BlockTokens()
}

// cutForState returns how many of the next n tokens of q are computed before the state is kept.
func (s *Scheduler) cutForState(q *Sequence, n int) int {
	if n <= 1 || !s.kv.Stateful() {
		return n
	}
	next := math.MaxInt
	if at := s.lastPoint(q); at > q.Computed && (s.kv.Caching() || q.Postponable) {
		next = at
	}
	if at := s.forkPoint(q); at > q.Computed && q.followers > 0 {
		next = min(next, at)
	}
	if at := q.Table.Branch(); at > q.Computed {
		next = min(next, at)
	}
	if every := s.cfg.StateEvery; every > 0 && s.kv.Caching() {
		next = min(next, (q.Computed/every+1)*every)
	}
	return min(n, next-q.Computed)
}

// keepState says what the state of q is kept for that its next chunk goes on from.
func (s *Scheduler) keepState(q *Sequence, draw bool) kvcache.Keep {
	at := q.Computed
	switch every := s.cfg.StateEvery; {
	case at%s.kv.BlockTokens() > 0:
	case at >= q.Prompt && s.kv.Caching():
		return kvcache.Rolling
	case s.kv.Caching() && (at == s.lastPoint(q) || at == q.Table.Branch() || every > 0 && at%every == 0),
		q.followers > 0 && at == s.forkPoint(q):
		return kvcache.Checkpoint
	}
	if draw && q.Postponable {
		return kvcache.Return
	}
	return kvcache.Overwrite
}

// advance finds the state slots of the chunk c, which is the next one of its sequence. While a
// sequence waits for a slot, one of those that are free is left for it.
func (s *Scheduler) advance(c *Chunk) {
	reserve := 0
	if s.lacking != nil {
		reserve = 1
	}
	c.StateIn, c.StateOut = s.kv.Advance(&c.Seq.Table, c.Start, c.Start+c.N, s.keepState(c.Seq, c.Draw), reserve)
}

// settle lets go of the states that no chunk goes on from after c, which has been computed. The one
// that further choices begin with is held until all have begun.
func (s *Scheduler) settle(c Chunk) {
	hold := 0
	if c.Seq.followers > 0 {
		hold = s.forkPoint(c.Seq)
	}
	s.kv.Settle(&c.Seq.Table, c.Start, hold)
}

// slide gives the blocks back that no chunk of q sees after c, which has been computed. What further
// choices begin with is held until all have begun.
func (s *Scheduler) slide(c Chunk) {
	if c.Seq.Status != Running {
		return // it has been preempted, and its table is empty
	}
	at := c.Start + c.N
	if c.Seq.followers > 0 {
		at = min(at, s.forkPoint(c.Seq))
	}
	s.kv.Slide(&c.Seq.Table, at)
}

// letGo gives the blocks back that q does not see any more, because it cannot go on otherwise. It may hold them
// for further choices, which compute the prompt themselves then. A step in flight that computes q has to
// end first.
func (s *Scheduler) letGo(q *Sequence) (freed, wait bool) {
	switch {
	case s.kv.HeldAt(&q.Table, q.Computed) >= s.kv.Held(&q.Table):
		return false, false
	case q.lastStep > s.ended:
		return false, true
	}
	s.kv.Slide(&q.Table, q.Computed)
	return true, false
}

// findState reports whether there is a state slot for the waiting sequence q, or none is needed. If
// all are in use, that is as if there were no place.
func (s *Scheduler) findState(q *Sequence) bool {
	if !s.kv.Stateful() || s.kv.FreeStates() > 0 {
		return true
	}
	s.lacking = q
	return s.deferredStates() == 0 && s.makePlace(q)
}

// deferredStates is the number of state slots that come back with the steps in flight.
func (s *Scheduler) deferredStates() int {
	n := 0
	for i := range s.deferred {
		n += s.deferred[i].table.States()
	}
	return n
}

// unfollow notes that q has begun without a leader, or will not begin.
func (s *Scheduler) unfollow(q *Sequence) {
	if q.Leader != nil {
		q.Leader.followers--
		q.Leader = nil
	}
}
