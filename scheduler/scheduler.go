package scheduler

import (
	"cmp"
	"fmt"
	"slices"

	"weir/internal/invariants"
	"weir/kvcache"
)

// Config bounds a step.
type Config struct {
	MaxTokens    int // most tokens of a step, at least 1
	MaxSeqs      int // most running sequences, at least 1
	MaxSeqTokens int // longest sequence, prompt and output together, at least 2

	// MaxPrefill is the most tokens that a step gives to sequences with more than
	// one token to compute, while other running sequences have just one. It keeps
	// a long prompt from slowing down the output of others. 0 means no such limit.
	MaxPrefill int

	// WholePrompts has what a sequence has to compute computed in one step, and never in
	// chunks, as far as the sequence's own MaxChunk allows. MaxPrefill then means nothing,
	// and MaxTokens must be enough for the longest sequence.
	WholePrompts bool

	// MaxWork is the most work of a step: the sum of Work.Draw over the sequences that draw a
	// token, unless a single one has more. 0 means no limit.
	MaxWork int

	// MaxScored is the most prompt tokens of a step whose scores are wanted (Work.Scored). With
	// WholePrompts a prompt of more is alone with that. 0 means no limit.
	MaxScored int

	// StateEvery is the number of prompt tokens after which the state of a network with a
	// recurrent state is kept for other sequences, beside that at the prompt's end. It is
	// rounded up to whole blocks. 0: it is kept there only.
	StateEvery int

	// LongAfter is the number of tokens after which a sequence is a long one, whose tokens are all computed in
	// another way: one that grows beyond it is computed anew, from its first token on. 0: there is no such number.
	LongAfter int

	prefill int // in place of MaxPrefill; 0: that counts, see LimitPrefill

	// Priority orders sequences by (Priority, Arrival) instead of by Arrival alone.
	Priority bool
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	switch {
	case c.MaxTokens < 1:
		return fmt.Errorf("scheduler: a step needs a budget of at least 1 token, not %d", c.MaxTokens)
	case c.MaxSeqs < 1:
		return fmt.Errorf("scheduler: at least 1 sequence must be able to run, not %d", c.MaxSeqs)
	case c.MaxSeqTokens < 2:
		return fmt.Errorf("scheduler: a sequence needs room for 2 tokens, a prompt and an answer, not %d", c.MaxSeqTokens)
	case c.MaxPrefill < 0:
		return fmt.Errorf("scheduler: the prefill limit of %d tokens is negative", c.MaxPrefill)
	case c.MaxWork < 0 || c.MaxScored < 0:
		return fmt.Errorf("scheduler: the limits of %d units of work and %d scored tokens are negative", c.MaxWork, c.MaxScored)
	case c.StateEvery < 0:
		return fmt.Errorf("scheduler: states cannot be kept every %d tokens", c.StateEvery)
	case c.WholePrompts && c.MaxTokens < c.MaxSeqTokens:
		return fmt.Errorf("scheduler: a step of %d tokens is too short for a whole sequence of %d", c.MaxTokens, c.MaxSeqTokens)
	}
	return nil
}

// Chunk is one sequence's part of a step: compute positions [Start, Start+N) of
// Seq. Draw says that this includes its newest token, whose logits give the next
// one.
type Chunk struct {
	Seq      *Sequence
	Start, N int
	Draw     bool

	// StateIn is the state slot that the chunk goes on from, or 0 if Start is 0, and StateOut
	// the one that it leaves its state in. Both are 0 for a network without a recurrent state.
	StateIn, StateOut kvcache.StateID
}

// Counters only grow.
type Counters struct {
	Preemptions  uint64
	PrefixTokens uint64 // prompt tokens looked up in the prefix cache; a prompt counts when it is first admitted
	PrefixHits   uint64 // prompt tokens found there
	StateHits    uint64 // sequences that began with a state that was kept at the end of their prefix
	Postponed    uint64 // tokens that had to be drawn later, see Postpone
	LeftOut      uint64 // times that a plan had no work left for a running sequence
	Aged         uint64 // sequences that were moved to the most urgent class because theirs had waited (age.go)
}

// Scheduler plans steps.
type Scheduler struct {
	cfg      Config
	kv       *kvcache.Manager
	waiting  int         // number of waiting sequences, which are in the queues of classes
	running  []*Sequence // sorted by order; the last is preempted first
	plan     []Chunk     // result of Schedule
	left     budget      // of the step that is being planned
	rest     []*Sequence // running sequences that it has not served yet
	work     workPlan
	deferred []deferredRelease
	planned  uint64 // number of steps planned
	plans    uint64 // number of plans, those of no step included
	ended    uint64 // number of steps ended
	counters Counters

	obstacles

	passed passed // the sequence that lacks budget, if Config.WholePrompts is set

	classes []*part    // by priority, the most urgent first; there is one unless Config.Priority is set
	aside   []*part    // projects in which nothing can run, while a step is planned
	idle    []idlePart // in the order in which they became idle
	idles   uint64     // entries of idle so far
	turns   uint64     // of enter
	epoch   uint64     // grows whenever nobody waits
	credit  int64      // new tokens that have not paid for tokens computed again, see takeBack
	lifts   int64      // tokens that have not paid for sequences of less urgent classes, see lift
	shares  shares
}

// obstacles are what keeps waiting sequences from being admitted.
type obstacles struct {
	blocked blocked
	lacking *Sequence   // a waiting sequence that found no state slot; nil: there is none
	recalls []*Sequence // held back, and not told yet
}

// blocked is about the waiting sequence that last found too few blocks or no state slot. It need
// not be tried again before more are free.
type blocked struct {
	seq          *Sequence // nil: there is none
	free, states int       // how many were free
	need         int       // free blocks that it needs
}

// deferredRelease is a table that steps in flight may still write to. It is
// released when the given step has ended. Scheduler.deferred is in the order of
// the calls that deferred them, not of the steps.
type deferredRelease struct {
	table kvcache.Table
	step  uint64
}

// New returns a scheduler that takes blocks from kv.
func New(cfg Config, kv *kvcache.Manager) *Scheduler {
	s := &Scheduler{cfg: cfg, kv: kv}
	s.cfg.StateEvery = kv.Entries(cfg.StateEvery) * kv.BlockTokens()
	s.credit = s.maxCredit()
	return s
}

// order compares two sequences of the same project: the lesser runs earlier. Running ones
// of all projects are in this order, too, for what needs one that never changes.
func (s *Scheduler) order(a, b *Sequence) int {
	if a.rank != b.rank {
		return cmp.Compare(a.rank, b.rank)
	}
	if a.age.lifted != b.age.lifted {
		if a.age.lifted {
			return -1
		}
		return 1
	}
	if a.Arrival != b.Arrival {
		return cmp.Compare(a.Arrival, b.Arrival)
	}
	return cmp.Compare(a.ID, b.ID)
}

// LimitPrefill sets the limit that Config.MaxPrefill is, for the plans from now on. 0: it is
// that again. The caller, which has a clock, adapts it to the time that steps take.
func (s *Scheduler) LimitPrefill(n int) { s.cfg.prefill = n }

// Idle reports that no sequence is left to run. Steps may still be in flight.
func (s *Scheduler) Idle() bool { return s.waiting+len(s.running) == 0 }

// Len is the number of waiting and of running sequences.
func (s *Scheduler) Len() (waiting, running int) { return s.waiting, len(s.running) }

// Live returns every sequence that has not finished.
func (s *Scheduler) Live() []*Sequence {
	live := slices.Clone(s.running)
	s.eachProject(func(p *part) { live = append(live, p.queue...) })
	slices.SortFunc(live, s.order)
	return live
}

func (s *Scheduler) eachProject(f func(*part)) {
	for _, class := range s.classes {
		for _, tenant := range class.parts {
			for _, project := range tenant.parts {
				f(project)
			}
		}
	}
}

// Counters returns what has been counted so far.
func (s *Scheduler) Counters() Counters { return s.counters }

// Add queues q. The caller has checked that its prompt and output fit: they are at most
// Config.MaxSeqTokens, and the pool has all the blocks that they take at a time.
func (s *Scheduler) Add(q *Sequence) {
	q.Prepare()
	q.rank, q.age = 0, sequenceAge{}
	if s.cfg.Priority {
		q.rank = q.Priority
	}
	if q.Leader != nil {
		q.Leader.followers++
	}
	s.join(q)
	s.enqueue(q)
}

// Abort ends q, whether it waits or runs. It does nothing if q has finished.
func (s *Scheduler) Abort(q *Sequence) { s.End(q, Aborted) }

// End finishes q for a reason that the caller found, such as a stop string or a
// failure. A sequence that has already finished keeps its reason.
func (s *Scheduler) End(q *Sequence, r Reason) {
	switch q.Status {
	case Finished:
		return
	case Running:
		s.leave(q)
		s.release(q)
	case Waiting:
		s.dequeue(q)
	}
	s.retire(q)
	s.forgetRecall(q)
	q.Status, q.Reason = Finished, r
	s.unfollow(q)
	if s.blocked.seq == q {
		s.blocked = blocked{}
	}
	if s.lacking == q {
		s.lacking = nil
	}
	if s.passed.seq == q {
		s.passed = passed{}
	}
}

// leave takes q out of the running sequences.
func (s *Scheduler) leave(q *Sequence) {
	s.running = s.remove(s.running, q)
	q.Account.in.running--
	q.tenant().running--
	q.tenant().share.Running--
}

// remove returns queue without q.
func (s *Scheduler) remove(queue []*Sequence, q *Sequence) []*Sequence {
	i, found := slices.BinarySearchFunc(queue, q, s.order)
	invariants.Check(found, "scheduler: sequence %d is not in its queue", q.ID)
	if !found {
		return queue
	}
	return slices.Delete(queue, i, i+1)
}

// release gives the blocks of q back: at once, or when the last step that writes
// to them has ended.
func (s *Scheduler) release(q *Sequence) {
	if q.lastStep <= s.ended {
		s.kv.Release(&q.Table)
	} else {
		s.deferred = append(s.deferred, deferredRelease{q.Table, q.lastStep})
		q.Table = kvcache.Table{}
	}
}

// deferredBlocks is the number of blocks that come back with the steps in flight.
// It may count a shared block that stays in use; a sequence that relies on it
// then waits for a step in vain.
func (s *Scheduler) deferredBlocks() int {
	n := 0
	for i := range s.deferred {
		n += s.kv.Held(&s.deferred[i].table)
	}
	return n
}

// preempt takes the blocks of q back and queues it again. It keeps its tokens.
func (s *Scheduler) preempt(q *Sequence) {
	s.requeue(q)
	q.Preempted++
	s.counters.Preemptions++
}

// requeue takes the blocks of q back and lets it wait, from its first token on.
func (s *Scheduler) requeue(q *Sequence) {
	s.leave(q)
	s.release(q)
	s.refundWork(q)
	q.Computed = 0
	s.enqueue(q)
}

// Restart forgets everything that was computed, because the device lost it. Live
// sequences keep their tokens and wait again. kv is a new manager of an empty
// pool. The steps in flight are lost: they must neither be committed nor ended.
func (s *Scheduler) Restart(kv *kvcache.Manager) {
	live := s.Live()
	s.kv, s.running, s.waiting, s.deferred, s.plan, s.blocked, s.lacking = kv, nil, 0, nil, nil, blocked{}, nil
	s.passed = passed{}
	s.classes, s.idle = nil, nil
	s.shares.clear()
	s.planned, s.ended = s.planned+1, s.planned+1
	for _, q := range live {
		q.Table, q.Computed, q.Pending, q.lastStep, q.late.stale = kvcache.Table{}, 0, 0, 0, 0
		s.join(q)
		s.enqueue(q)
	}
}

// ForgetPrefixes empties the prefix cache. With force, all running sequences are
// preempted first. It reports false, and keeps the cache, if any block is still
// in use: by a running sequence or by a step in flight.
func (s *Scheduler) ForgetPrefixes(force bool) bool {
	for force && len(s.running) > 0 {
		s.preempt(s.running[len(s.running)-1])
	}
	return s.kv.Forget()
}

// Check recounts the queues, the tenants and the books of the KV cache. The error says what is
// wrong first.
func (s *Scheduler) Check() error {
	var tables []*kvcache.Table
	for _, q := range s.running {
		if q.Status != Running {
			return fmt.Errorf("scheduler: sequence %d is in the running queue with status %d", q.ID, q.Status)
		}
		if have := s.kv.Holds(&q.Table); have < q.Computed {
			return fmt.Errorf("scheduler: sequence %d has computed %d tokens and has blocks for %d", q.ID, q.Computed, have)
		}
		tables = append(tables, &q.Table)
	}
	for i := range s.deferred {
		tables = append(tables, &s.deferred[i].table)
	}
	if !slices.IsSortedFunc(s.running, s.order) {
		return fmt.Errorf("scheduler: the running sequences are out of order")
	}
	if err := s.checkParts(); err != nil {
		return err
	}
	return s.kv.Check(tables...)
}
