package scheduler

import "slices"

// A class of priority waits for as long as more urgent ones have enough to do, which may be
// for ever. So a class that has got less than a sixteenth of what is computed is owed the
// rest: for each token of more urgent classes while it waits it is owed a token, and each
// token of its own takes ageShare of them back. When it is owed what ageSteps full steps
// compute, its next sequence is lifted to the most urgent class there is, where it comes
// before others of its project, and keeps that rank to its end. Its tenant has to share with
// others there. Of several classes that are owed as much, it
// is the sequence that arrived first.
//
// What is lifted is paid for, too, over all classes together, or a client could invent
// hundreds of them: ageShare tokens have to be computed of others for each one of a sequence
// that was lifted. So the urgent lose no more than a sixteenth.
//
// This is the ageing that operating systems have. The clock is what was computed, because
// there is no other here, and because a slow device makes all wait longer.
const (
	ageShare = 15
	ageSteps = 16
)

// classAge is what the scheduler notes of a class.
type classAge struct {
	given int64 // tokens computed in it since the last plan
	own   int64 // the same of its sequences, also of those that were lifted
	owed  int64
	waits bool // one of its sequences could run, and the last plan had nothing for it
}

// sequenceAge is what the scheduler notes of a sequence that was lifted.
type sequenceAge struct {
	lifted bool
	paid   int // tokens of it that are paid for
}

// mostOwed is the most that is owed to a class, and the most that is saved up for lifting.
func (s *Scheduler) mostOwed() int64 { return ageSteps * int64(s.cfg.MaxTokens) }

// chargeAge notes that n tokens of q were computed.
func (s *Scheduler) chargeAge(q *Sequence, n int64) {
	if len(s.classes) == 1 && !q.age.lifted {
		s.lifts = min(s.mostOwed(), s.lifts+n)
		return
	}
	q.tenant().within.age.given += n
	if c := s.class(q.Priority); c != nil {
		c.age.own += n
	}
	if !q.age.lifted {
		s.lifts = min(s.mostOwed(), s.lifts+n)
		return
	}
	if more := q.Computed - q.age.paid; more > 0 {
		q.age.paid = q.Computed
		s.lifts -= ageShare * int64(more)
	}
}

// class returns the class of a priority; nil: it has no sequences.
func (s *Scheduler) class(priority int64) *part {
	i, found := slices.BinarySearchFunc(s.classes, priority, comparePriority)
	if !found {
		return nil
	}
	return s.classes[i]
}

// noteWaiting notes which classes could have computed more in the step that was planned.
func (s *Scheduler) noteWaiting() {
	for _, c := range s.classes {
		c.age.waits = len(c.ready) > 0
	}
	for _, q := range s.rest {
		if s.hungry(q) {
			q.tenant().within.age.waits = true
		}
	}
}

// hungry reports whether the running sequence q could have computed more, and had no chunk
// in the newest plan.
func (s *Scheduler) hungry(q *Sequence) bool {
	return q.Status == Running && q.lastStep != s.planned && s.demand(q) > 0
}

// age begins a plan: classes grow older by what was computed since the last one, and
// sequences of those that have waited too long are lifted.
func (s *Scheduler) age() {
	if len(s.classes) < 2 {
		return
	}
	urgent := int64(0)
	for _, c := range s.classes {
		a := c.age
		if a.waits {
			a.owed += urgent
		}
		a.owed = min(s.mostOwed(), max(0, a.owed-ageShare*a.own))
		urgent += a.given
		a.given, a.own = 0, 0
	}
	for s.lifts > 0 {
		q := s.nextLifted()
		if q == nil {
			break
		}
		s.lift(q)
	}
	s.restore()
}

// nextLifted returns the sequence that is lifted next; nil: there is none.
func (s *Scheduler) nextLifted() (next *Sequence) {
	for _, c := range s.classes[1:] {
		if c.age.owed < s.mostOwed() {
			continue
		}
		if q := s.firstOf(c); q != nil && (next == nil || q.Arrival < next.Arrival) {
			next = q
		}
	}
	return next
}

// firstOf is the sequence of a class that is served next when the class is: a running one that
// the last plan had nothing for, or else a waiting one.
func (s *Scheduler) firstOf(class *part) (first *Sequence) {
	for _, q := range s.running {
		if q.tenant().within == class && q.uncomputed() > 1 && q.lastStep+1 < s.planned && s.demand(q) > 0 && (first == nil || s.fairer(q, first)) {
			first = q
		}
	}
	if first == nil {
		first = s.candidateOf(class)
	}
	return first
}

// lift moves q to the most urgent class.
func (s *Scheduler) lift(q *Sequence) {
	class := q.tenant().within
	waits := q.Status == Waiting
	if waits {
		s.dequeue(q)
	} else {
		s.leave(q)
	}
	price := ageShare * int64(len(q.Tokens)-q.Computed)
	s.lifts -= price
	class.age.owed = max(0, class.age.owed-price)
	q.rank, q.age = s.classes[0].priority, sequenceAge{lifted: true, paid: len(q.Tokens)}
	s.retire(q)
	s.join(q)
	if waits {
		s.enqueue(q)
	} else {
		s.enlist(q)
	}
	s.counters.Aged++
}
