package scheduler

import (
	"slices"

	"weir/internal/invariants"
)

// budget is what is left of a step's tokens.
type budget struct {
	tokens  int
	prefill int // of tokens, the most that may go to sequences with more than one token to compute
}

// Schedule plans the next step. The chunks are valid until the next call. An
// empty plan is no step: there is nothing to compute before a step in flight has
// ended. See the package comment for the order in which sequences are served.
func (s *Scheduler) Schedule() []Chunk {
	s.plan = s.plan[:0]
	s.planned++
	s.unseat()
	left, ok := s.planRunning()
	if ok {
		s.admit(left)
	}
	if len(s.plan) == 0 {
		s.planned--
	}
	return s.plan
}

// planRunning plans chunks for the running sequences and returns what is left of
// the budget. It reports false if a sequence found too few blocks; then nothing
// may be admitted.
func (s *Scheduler) planRunning() (left budget, ok bool) {
	decodes := 0 // sequences after the current one that want a single token
	for _, q := range s.running {
		if s.demand(q) == 1 {
			decodes++
		}
	}
	left = budget{tokens: s.cfg.MaxTokens, prefill: s.cfg.MaxTokens}
	if decodes > 0 && s.cfg.MaxPrefill > 0 {
		left.prefill = s.cfg.MaxPrefill
	}
	ok = true
	for i := 0; i < len(s.running) && left.tokens > 0; i++ {
		q := s.running[i]
		n := s.demand(q)
		switch {
		case n == 0:
			continue
		case n == 1:
			decodes--
		default: // leave a token for each decode that follows, so that a prompt never stops a stream
			if n = min(n, left.prefill, max(1, left.tokens-decodes)); n == 0 {
				continue
			}
			left.prefill -= n
		}
		if s.grow(q, n) {
			s.addChunk(q, n)
			left.tokens -= n
			continue
		}
		ok = false
		if q.Status != Running { // q was the last in order and has been preempted itself
			break
		}
	}
	return left, ok
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
	n := q.uncomputed()
	if q.MaxChunk > 0 {
		n = min(n, q.MaxChunk)
	}
	return n
}

// addChunk plans the next n tokens of q, for which it has blocks.
func (s *Scheduler) addChunk(q *Sequence, n int) {
	c := Chunk{Seq: q, Start: q.Computed, N: n, Draw: n == q.uncomputed()}
	q.Computed += n
	if c.Draw {
		q.Pending++
	}
	q.lastStep = s.planned
	s.plan = append(s.plan, c)
}

// grow finds blocks for n more tokens of the running sequence q. If it has to, it
// preempts the last sequences in order, which may include q. It reports false if
// q cannot be part of this step.
func (s *Scheduler) grow(q *Sequence, n int) bool {
	for !s.kv.Grow(&q.Table, q.Computed+n) {
		if q.Pending > 0 {
			return false // its pending token may end it: no other sequence is preempted for that
		}
		need := s.kv.Need(q.Computed+n) - len(q.Table.Blocks)
		if need <= s.kv.Free()+s.deferredBlocks() {
			return false // enough blocks come back with the steps in flight
		}
		victim := s.running[len(s.running)-1]
		s.preempt(victim)
		if victim == q {
			return false
		}
	}
	return true
}

// admit starts waiting sequences as long as there is room. A sequence that waits
// for its leader may be overtaken, one that lacks blocks may not.
func (s *Scheduler) admit(left budget) {
	for i := 0; i < len(s.waiting) && left.tokens > 0 && left.prefill > 0 && len(s.running) < s.cfg.MaxSeqs; {
		q := s.waiting[i]
		if s.sitsOut(q) || q.waitsForLeader() {
			i++
			continue
		}
		invariants.Check(q.Pending == 0, "scheduler: sequence %d waits with a token in flight", q.ID)
		if q == s.blocked && len(s.running) > 0 && s.kv.Free() <= s.blockedFree {
			return
		}
		s.findComputed(q)
		n := s.demand(q)
		if n > 1 {
			n = min(n, left.prefill)
		}
		n = min(n, left.tokens)
		if !s.growAdmitted(q, n) {
			s.kv.Release(&q.Table)
			q.Computed = 0
			s.blocked, s.blockedFree = q, s.kv.Free()
			return
		}
		s.waiting = slices.Delete(s.waiting, i, i+1)
		s.start(q)
		if n > 1 {
			left.prefill -= n
		}
		s.addChunk(q, n)
		left.tokens -= n
	}
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
		if q.late.sat++; q.late.sat > maxSat && slices.ContainsFunc(s.waiting, s.canRun) {
			s.preempt(q)
		}
	}
}

// canRun reports whether the waiting sequence q lacks nothing but a place or blocks.
func (s *Scheduler) canRun(q *Sequence) bool { return !s.sitsOut(q) && !q.waitsForLeader() }

// waitsForLeader reports whether q has a leader that may still compute the prompt
// for it, all of it but the last token, whose block is not shared. Once the leader
// has finished, q has to compute the prompt itself.
func (q *Sequence) waitsForLeader() bool {
	l := q.Leader
	if l == nil || l.Status == Finished {
		return false
	}
	return l.Status == Waiting || l.Computed < l.Prompt-1
}

// findComputed gives the waiting sequence q the blocks of its tokens that are
// computed already: by its leader, or by any sequence with the same prefix.
func (s *Scheduler) findComputed(q *Sequence) {
	if l := q.Leader; l != nil && l.Status == Running {
		q.Computed = s.kv.Fork(&q.Table, &l.Table, q.Prompt-1, q.Salt)
		return
	}
	q.Computed = s.kv.Share(&q.Table, q.Tokens, q.Salt, !q.NoCacheRead)
}

// growAdmitted finds blocks for n tokens of a sequence that is to be admitted. It
// leaves a free block for each running sequence: the new one would soon be
// preempted for their sake otherwise, and have computed its tokens for nothing.
func (s *Scheduler) growAdmitted(q *Sequence, n int) bool {
	need := s.kv.Need(q.Computed+n) - len(q.Table.Blocks)
	if len(s.running) > 0 && need+len(s.running) > s.kv.Free() {
		return false
	}
	return s.kv.Grow(&q.Table, q.Computed+n)
}

// start moves q, which has left the waiting queue, to the running sequences.
func (s *Scheduler) start(q *Sequence) {
	if !q.admitted {
		q.admitted, q.Cached = true, min(q.Computed, q.Prompt)
		if s.kv.Caching() && !q.NoCacheRead && (q.Leader == nil || !q.Leader.NoCacheRead) {
			s.counters.PrefixTokens += uint64(q.Prompt)
			s.counters.PrefixHits += uint64(q.Cached)
		}
	}
	q.Leader = nil
	q.Status = Running
	i, _ := slices.BinarySearchFunc(s.running, q, s.order)
	s.running = slices.Insert(s.running, i, q)
}
