package scheduler

import (
	"cmp"
	"math"
)

// A tenant that holds more than its part of the places or blocks, by its weight, has to give some
// back when another one wants them. What is preempted for that is computed again, so that this must
// not happen too often: it is paid for by credit, and each token that is computed for the
// first time earns a quarter of a token of credit. So at most a fifth of the work is lost,
// and sequences that want the same memory cannot take it from each other for ever.

// creditRate is the number of new tokens that pay for one that is computed again.
const creditRate = 4

// maxCredit is the most credit that is saved up: what a few steps compute.
func (s *Scheduler) maxCredit() int64 { return creditRate * 8 * int64(s.cfg.MaxTokens) }

// takeBack preempts q for the fair part of somebody else, if there is credit. One that was admitted in this plan stays:
// two whose prefixes are in the cache, so that they lose nothing, would take the memory from each other without
// end.
func (s *Scheduler) takeBack(q *Sequence) bool {
	if q == nil || s.credit <= 0 || q.Account.begun == s.plans {
		return false
	}
	s.unplan(q)
	s.credit -= creditRate * int64(q.Computed)
	q.Account.lost = q.Computed
	s.preempt(q)
	return true
}

// repay gives back the credit for the tokens of q that need not be computed again, because
// the prefix cache has kept them.
func (s *Scheduler) repay(q *Sequence) {
	s.credit = min(s.maxCredit(), s.credit+creditRate*int64(min(q.Account.lost, q.Computed)))
	q.Account.lost = 0
}

// unplan takes the chunk of q, if there is one, out of the step that is being planned.
func (s *Scheduler) unplan(q *Sequence) {
	if q.lastStep != s.planned {
		return
	}
	for i, c := range s.plan {
		if c.Seq == q {
			copy(s.plan[i:], s.plan[i+1:])
			s.plan = s.plan[:len(s.plan)-1]
			q.Computed -= c.N
			if c.Draw {
				q.Pending--
			}
			s.left.tokens += c.N
			s.left.scored = min(s.mostScored(), s.left.scored+scoredOf(c))
			if c.N > 1 {
				s.left.prefill += c.N
			}
			break
		}
	}
	q.lastStep = s.planned - 1 // or before that, but then its blocks return only a little later than they might
}

// pinned reports whether the step that is being planned has a chunk of q that another one
// needs, so that q cannot be preempted now.
func (s *Scheduler) pinned(q *Sequence) bool {
	return q.Account.forked == s.planned && q.lastStep == s.planned
}

// measure is what a part holds of something that is scarce.
type measure func(*part) int

func places(p *part) int { return p.running }
func blocks(p *part) int { return p.blocks }

// tally counts the blocks of the running sequences of each tenant and project.
func (s *Scheduler) tally() {
	for _, q := range s.running {
		q.Account.in.blocks, q.tenant().blocks = 0, 0
	}
	for _, q := range s.running {
		n := s.kv.Held(&q.Table)
		q.Account.in.blocks += n
		q.tenant().blocks += n
	}
}

// hog returns the last sequence of the tenant that holds most for its weight, and of its project
// that does, among the running sequences of a class that may be preempted. nil: there is none.
func (s *Scheduler) hog(class *part, holds measure) *Sequence {
	var last *Sequence
	for _, q := range s.running {
		if q.tenant().within != class || s.pinned(q) {
			continue
		}
		if last == nil {
			last = q
			continue
		}
		t, most := rivals(q, last)
		more := t.compare(holds(t), most, holds(most))
		if more > 0 || more == 0 && q.tenant() == last.tenant() { // s.running is sorted, so that q comes after last
			last = q
		}
	}
	return last
}

// rivals are the parts between which something scarce is divided: the tenants of two sequences,
// or their projects if they have the same tenant.
func rivals(a, b *Sequence) (*part, *part) {
	if a.tenant() != b.tenant() {
		return a.tenant(), b.tenant()
	}
	return a.Account.in, b.Account.in
}

// compare says whether n of something are more for the weight of p than m are for that of o.
func (p *part) compare(n int, o *part, m int) int {
	return cmp.Compare(int64(n)*o.weight, int64(m)*p.weight)
}

// Background is the priority of work that nobody waits for. It gives way to all other work: its
// running sequences are preempted for sequences that wait for their places or blocks. Otherwise a
// client would wait for the end of a batch's longest answer.
const Background = math.MaxInt64

// background returns the last running sequence of work in the background, if q is more urgent and
// it may be preempted; nil: there is none.
func (s *Scheduler) background(q *Sequence) *Sequence {
	if q.tenant().within.priority == Background {
		return nil
	}
	for i := len(s.running) - 1; i >= 0; i-- {
		switch v := s.running[i]; {
		case v.tenant().within.priority != Background:
			return nil // s.running is sorted by class
		case !s.pinned(v):
			return v
		}
	}
	return nil
}

// makePlace preempts a sequence in the background for the place of q, or one of the same
// class if its tenant or project would then still have as many places, for its weight, as that of q.
func (s *Scheduler) makePlace(q *Sequence) bool {
	if s.takeBack(s.background(q)) {
		return true
	}
	victim := s.hog(q.tenant().within, places)
	if victim == nil || s.credit <= 0 {
		return false
	}
	theirs, mine := rivals(victim, q)
	return theirs.compare(places(theirs)-1, mine, places(mine)+1) >= 0 && theirs != mine && s.takeBack(victim)
}

// makeBlocks preempts a sequence in the background for the blocks of q, which needs some, or one
// of the same class if somebody holds more than twice the blocks that the tenant or the project of q would
// hold, each for its weight. It reports false if blocks that come back will do, too.
func (s *Scheduler) makeBlocks(q *Sequence, need int) bool {
	if s.credit <= 0 || need <= s.kv.Free()+s.deferredBlocks() {
		return false
	}
	if s.takeBack(s.background(q)) {
		return true
	}
	q.Account.in.blocks, q.tenant().blocks = 0, 0 // none of their sequences may be running
	s.tally()
	victim := s.hog(q.tenant().within, blocks)
	if victim == nil {
		return false
	}
	theirs, mine := rivals(victim, q)
	return theirs.compare(blocks(theirs), mine, 2*(blocks(mine)+need)) > 0 && s.takeBack(victim)
}

// preemptForBlocks preempts a sequence so that a running sequence can grow, and returns it.
// It is the last in order. This rule alone lets the first in order always go on, so that
// all sequences end at some time. But if a tenant holds more than twice the blocks of the
// tenant of the last one, a sequence of that tenant goes instead: its last one, if it has
// others, which leaves the first in order in peace, or else its only one, for credit. nil:
// no sequence can be preempted in this step.
func (s *Scheduler) preemptForBlocks() *Sequence {
	victim := s.running[len(s.running)-1]
	if s.running[0].Account.in != victim.Account.in {
		s.tally()
		hog := s.hog(victim.tenant().within, blocks)
		if hog != nil && hog.Account.in != victim.Account.in {
			theirs, mine := rivals(hog, victim)
			switch {
			case theirs.compare(blocks(theirs), mine, 2*blocks(mine)) <= 0:
			case hog.Account.in.running > 1:
				victim = hog
			case s.takeBack(hog):
				return hog
			}
		}
	}
	if s.pinned(victim) {
		return nil
	}
	s.unplan(victim)
	s.preempt(victim)
	return victim
}
