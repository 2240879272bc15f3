// Package scheduler decides, step by step, which tokens of which sequences are
// computed next. It is a plain state machine: no goroutines, no clock, no
// locks, no I/O. The engine drives it; tests drive it the same way.
//
// There is no prefill phase and no decode phase. A sequence has tokens that
// are computed and tokens that are known; each step lets the first catch up
// with the second within a token budget. Chunked prefill, prefix hits,
// preemption and resumption are all the same arithmetic. (The idea and the
// rules are those of vLLM's v1 scheduler, vllm/v1/core/sched/scheduler.py.)
//
// A caller plans a step with Schedule, runs it, books each of its chunks with
// Commit and closes it with EndStep. Steps end in the order they were planned;
// with two steps in flight, step n+1 is planned before step n is booked.
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
	MaxTokens    int // most tokens of a step
	MaxSeqs      int // most running sequences
	MaxSeqTokens int // longest sequence, prompt and output together

	// MaxPrefill is the most tokens of a step that go to sequences with more
	// than one token to compute, while others have just one: a long prompt must
	// not hold up the streams. 0 means no such limit.
	MaxPrefill int

	// Priority orders sequences by (Priority, Arrival), else by Arrival alone.
	Priority bool
}

// Validate says what is wrong with c.
func (c Config) Validate() error {
	switch {
	case c.MaxTokens < 1:
		return fmt.Errorf("scheduler: token budget %d is less than 1", c.MaxTokens)
	case c.MaxSeqs < 1:
		return fmt.Errorf("scheduler: %d running sequences are less than 1", c.MaxSeqs)
	case c.MaxSeqTokens < 2:
		return fmt.Errorf("scheduler: sequences of %d tokens leave no room for a prompt and an answer", c.MaxSeqTokens)
	case c.MaxPrefill < 0:
		return fmt.Errorf("scheduler: prefill limit %d is negative", c.MaxPrefill)
	}
	return nil
}

// Chunk says: compute positions [Start, Start+N) of Seq. Draw says that this
// reaches its newest token, so that its logits give the next one.
type Chunk struct {
	Seq      *Sequence
	Start, N int
	Draw     bool
}

// Counters only grow.
type Counters struct {
	Preemptions  uint64
	PrefixTokens uint64 // prompt tokens looked up in the prefix cache, first admissions only
	PrefixHits   uint64 // those found
}

// Scheduler plans steps. Its queues are sorted, so the running set is a prefix
// of all sequences in order, but for those that had to be passed over.
type Scheduler struct {
	cfg      Config
	kv       *kvcache.Manager
	waiting  []*Sequence // next to run first
	running  []*Sequence // last to be preempted first
	plan     []Chunk
	limbo    []claim // blocks that steps in flight may still write, in order of step
	begun    uint64  // steps planned
	ended    uint64  // steps ended
	stuck    *Sequence
	stuckAt  int // free blocks when stuck could not be admitted
	counters Counters
}

// claim is a table whose blocks return when step has ended.
type claim struct {
	table kvcache.Table
	step  uint64
}

// New returns a scheduler over the books kv.
func New(cfg Config, kv *kvcache.Manager) *Scheduler {
	return &Scheduler{cfg: cfg, kv: kv}
}

func (s *Scheduler) order(a, b *Sequence) int {
	if s.cfg.Priority && a.Priority != b.Priority {
		return cmp.Compare(a.Priority, b.Priority)
	}
	if a.Arrival != b.Arrival {
		return cmp.Compare(a.Arrival, b.Arrival)
	}
	return cmp.Compare(a.ID, b.ID)
}

// Idle reports that no sequence is left to run. Steps may still be in flight.
func (s *Scheduler) Idle() bool { return len(s.waiting)+len(s.running) == 0 }

// Len is the number of waiting and of running sequences.
func (s *Scheduler) Len() (waiting, running int) { return len(s.waiting), len(s.running) }

// Live returns every sequence that has not finished.
func (s *Scheduler) Live() []*Sequence { return slices.Concat(s.running, s.waiting) }

// Counters returns what has been counted so far.
func (s *Scheduler) Counters() Counters { return s.counters }

// Fits reports whether a sequence of n tokens can run at all.
func (s *Scheduler) Fits(n int) bool {
	return n <= s.cfg.MaxSeqTokens && s.kv.Need(n) <= s.kv.Total()
}

// Add queues q, whose prompt and limits the caller has checked (Fits).
func (s *Scheduler) Add(q *Sequence) {
	q.stopIDs = slices.Sorted(slices.Values(q.Limits.StopIDs))
	q.StopID = -1
	if n := q.Limits.Repetition.MaxPattern; n > 0 {
		q.runs = make([]int32, n+1)
	}
	s.enqueue(q)
}

func (s *Scheduler) enqueue(q *Sequence) {
	q.Status = Waiting
	i, dup := slices.BinarySearchFunc(s.waiting, q, s.order)
	invariants.Check(!dup, "scheduler: sequence %d queued twice", q.ID)
	s.waiting = slices.Insert(s.waiting, i, q)
}

// Abort ends q wherever it is.
func (s *Scheduler) Abort(q *Sequence) { s.End(q, Aborted) }

// End finishes q for a reason that the caller found (a stop string, a failure).
// A sequence that is finished already keeps its reason.
func (s *Scheduler) End(q *Sequence, r Reason) {
	switch q.Status {
	case Finished:
		return
	case Running:
		s.running = s.without(s.running, q)
		s.giveBack(q)
	case Waiting:
		s.waiting = s.without(s.waiting, q)
	}
	q.Status, q.Reason, q.Leader = Finished, r, nil
	if s.stuck == q {
		s.stuck = nil
	}
}

func (s *Scheduler) without(list []*Sequence, q *Sequence) []*Sequence {
	i, ok := slices.BinarySearchFunc(list, q, s.order)
	invariants.Check(ok, "scheduler: sequence %d is not in its queue", q.ID)
	if !ok {
		return list
	}
	return slices.Delete(list, i, i+1)
}

// giveBack returns q's blocks: now, or when the last step that writes them has
// ended.
func (s *Scheduler) giveBack(q *Sequence) {
	if q.last <= s.ended {
		s.kv.Release(&q.Table)
	} else {
		s.limbo = append(s.limbo, claim{q.Table, q.last})
		q.Table = kvcache.Table{}
	}
}

// Schedule plans the next step. The chunks are valid until the next call; an
// empty plan is no step: there is nothing to do before a step in flight ends.
//
// Running sequences come first, in order; then the queue, in order, as long as
// nothing ran short. A sequence that cannot grow takes blocks back from the
// last in order.
func (s *Scheduler) Schedule() []Chunk {
	s.plan = s.plan[:0]
	s.begun++
	budget, short := s.cfg.MaxTokens, false
	decodes := 0 // running sequences behind the current one that want a single token
	for _, q := range s.running {
		if s.wants(q) == 1 {
			decodes++
		}
	}
	prefill := budget
	if decodes > 0 && s.cfg.MaxPrefill > 0 {
		prefill = s.cfg.MaxPrefill
	}
	for i := 0; i < len(s.running) && budget > 0; i++ {
		q := s.running[i]
		n := s.wants(q)
		switch {
		case n == 0:
			continue
		case n == 1:
			decodes--
		default: // leave a token for each decode behind, so that a prompt never stops a stream
			if n = min(n, prefill, max(1, budget-decodes)); n == 0 {
				continue
			}
			prefill -= n
		}
		if s.grow(q, n) {
			s.add(q, n)
			budget -= n
			continue
		}
		short = true
		if q.Status != Running { // it was the last in order itself
			break
		}
	}
	if !short {
		s.admit(budget, prefill)
	}
	if len(s.plan) == 0 {
		s.begun--
	}
	return s.plan
}

// wants is the number of tokens of q that a step could compute: none if q is
// sure to end with a token that is being drawn.
func (s *Scheduler) wants(q *Sequence) int {
	if q.Pending > 0 && (q.output() >= q.Limits.MaxTokens || len(q.Tokens)+q.Pending >= s.cfg.MaxSeqTokens) {
		return 0
	}
	n := q.want()
	if q.MaxChunk > 0 {
		n = min(n, q.MaxChunk)
	}
	return n
}

func (s *Scheduler) add(q *Sequence, n int) {
	c := Chunk{Seq: q, Start: q.Computed, N: n, Draw: n == q.want()}
	q.Computed += n
	if c.Draw {
		q.Pending++
	}
	q.last = s.begun
	s.plan = append(s.plan, c)
}

// grow finds blocks for n more tokens of q. It takes them from the last in
// order if it must, which may be q itself.
func (s *Scheduler) grow(q *Sequence, n int) bool {
	for !s.kv.Grow(&q.Table, q.Computed+n) {
		if q.Pending > 0 {
			return false // its newest token may yet end it: nobody is preempted for that
		}
		need := s.kv.Need(q.Computed+n) - len(q.Table.Blocks)
		if need <= s.kv.Free()+s.returning() {
			return false // enough is coming back from steps in flight
		}
		victim := s.running[len(s.running)-1]
		s.preempt(victim)
		if victim == q {
			return false
		}
	}
	return true
}

// returning is the number of blocks that steps in flight will give back; it
// may count a shared block that stays in use, which costs a step of waiting.
func (s *Scheduler) returning() int {
	n := 0
	for i := range s.limbo {
		n += len(s.limbo[i].table.Blocks)
	}
	return n
}

// preempt takes q's blocks back. It keeps its tokens and computes them again
// when its turn comes; draws depend on (seed, index, token) alone, so it goes
// on as if nothing had happened.
func (s *Scheduler) preempt(q *Sequence) {
	s.running = s.without(s.running, q)
	s.giveBack(q)
	q.Computed = 0
	q.Preempted++
	s.counters.Preemptions++
	s.enqueue(q)
}

// admit starts waiting sequences while there is room. Nothing overtakes a
// sequence that only lacks blocks; one that waits for its leader is passed
// over.
func (s *Scheduler) admit(budget, prefill int) {
	for i := 0; i < len(s.waiting) && budget > 0 && prefill > 0 && len(s.running) < s.cfg.MaxSeqs; {
		q := s.waiting[i]
		if l := q.Leader; l != nil && !(l.Status == Running && l.Computed >= l.Prompt) && l.Status != Finished {
			i++
			continue
		}
		invariants.Check(q.Pending == 0, "scheduler: sequence %d was preempted two steps ago and still has a token in flight", q.ID)
		if q == s.stuck && len(s.running) > 0 && s.kv.Free() <= s.stuckAt {
			return
		}
		s.start(q)
		n := s.wants(q)
		if n > 1 {
			n = min(n, prefill)
		}
		n = min(n, budget)
		// Leave a block for each running sequence, or the newcomer would soon be
		// thrown out again for their sake and have computed for nothing.
		need := s.kv.Need(q.Computed+n) - len(q.Table.Blocks)
		if len(s.running) > 0 && need+len(s.running) > s.kv.Free() || !s.kv.Grow(&q.Table, q.Computed+n) {
			s.kv.Release(&q.Table)
			q.Computed = 0
			s.stuck, s.stuckAt = q, s.kv.Free()
			return
		}
		if !q.admitted {
			q.admitted, q.Cached = true, min(q.Computed, q.Prompt)
			if q.Leader == nil && !q.Private {
				s.counters.PrefixTokens += uint64(q.Prompt)
				s.counters.PrefixHits += uint64(q.Cached)
			}
		}
		q.Leader = nil
		s.waiting = slices.Delete(s.waiting, i, i+1)
		q.Status = Running
		at, _ := slices.BinarySearchFunc(s.running, q, s.order)
		s.running = slices.Insert(s.running, at, q)
		if n > 1 {
			prefill -= n
		}
		s.add(q, n)
		budget -= n
	}
}

// start finds what of q's tokens is computed already: by its leader, or by
// anybody with the same prefix.
func (s *Scheduler) start(q *Sequence) {
	if l := q.Leader; l != nil && l.Status == Running {
		q.Computed = s.kv.Fork(&q.Table, &l.Table, q.Prompt-1, q.Salt)
		return
	}
	q.Computed = s.kv.Share(&q.Table, q.Tokens, q.Salt, !q.Private)
}

// Commit books a chunk of the oldest step, when that step has been computed.
// tok is the token drawn from its logits if c.Draw, and -1 if no token was
// legal; it is ignored otherwise. Chunks of sequences that finished meanwhile
// are skipped.
func (s *Scheduler) Commit(c Chunk, tok int32) {
	q := c.Seq
	if q.Status == Finished {
		return
	}
	s.kv.Publish(&q.Table, q.Tokens, c.Start+c.N) // if it was preempted meanwhile, its table is empty and this nothing
	if !c.Draw {
		return
	}
	q.Pending--
	if tok < 0 {
		s.End(q, Failed)
		return
	}
	s.take(q, tok)
}

// Append books an output token that needed no draw. q must be live, with no
// token in flight.
func (s *Scheduler) Append(q *Sequence, tok int32) {
	invariants.Check(q.Status != Finished && q.Pending == 0, "scheduler: token appended to sequence %d with status %d and %d in flight", q.ID, q.Status, q.Pending)
	s.take(q, tok)
}

func (s *Scheduler) take(q *Sequence, tok int32) {
	q.Tokens = append(q.Tokens, tok)
	if r, ok := q.stop(s.cfg.MaxSeqTokens); ok {
		s.End(q, r)
	}
}

// EndStep closes the oldest step: what only it still wrote returns to the pool.
func (s *Scheduler) EndStep() {
	s.ended++
	n := 0
	for i := range s.limbo {
		if s.limbo[i].step <= s.ended {
			s.kv.Release(&s.limbo[i].table)
		} else {
			s.limbo[n] = s.limbo[i]
			n++
		}
	}
	clear(s.limbo[n:])
	s.limbo = s.limbo[:n]
}

// Restart forgets everything that was computed: the device lost it. Live
// sequences keep their tokens and wait again; kv is a fresh pool's books.
// Steps in flight are void: they are neither booked nor ended.
func (s *Scheduler) Restart(kv *kvcache.Manager) {
	live := s.Live()
	s.kv, s.running, s.waiting, s.limbo, s.plan, s.stuck = kv, nil, nil, nil, nil, nil
	s.begun, s.ended = s.begun+1, s.begun+1
	for _, q := range live {
		q.Table, q.Computed, q.Pending, q.last = kvcache.Table{}, 0, 0, 0
		s.enqueue(q)
	}
}

// ForgetPrefixes empties the prefix cache. Unless force, it refuses and
// reports false while anything runs; with force, everything running is
// preempted first. It also refuses while steps in flight hold blocks.
func (s *Scheduler) ForgetPrefixes(force bool) bool {
	for force && len(s.running) > 0 {
		s.preempt(s.running[len(s.running)-1])
	}
	return s.kv.Forget()
}

// Check recounts queues and books.
func (s *Scheduler) Check() error {
	var tables []*kvcache.Table
	for _, q := range s.running {
		if q.Status != Running {
			return fmt.Errorf("scheduler: sequence %d runs with status %d", q.ID, q.Status)
		}
		if have := len(q.Table.Blocks) * s.kv.BlockTokens(); have < q.Computed {
			return fmt.Errorf("scheduler: sequence %d computed %d tokens in blocks for %d", q.ID, q.Computed, have)
		}
		tables = append(tables, &q.Table)
	}
	for _, q := range s.waiting {
		if q.Status != Waiting || len(q.Table.Blocks) > 0 || q.Computed > 0 {
			return fmt.Errorf("scheduler: sequence %d waits with status %d, %d blocks and %d tokens computed", q.ID, q.Status, len(q.Table.Blocks), q.Computed)
		}
	}
	for i := range s.limbo {
		tables = append(tables, &s.limbo[i].table)
	}
	if !slices.IsSortedFunc(s.running, s.order) || !slices.IsSortedFunc(s.waiting, s.order) {
		return fmt.Errorf("scheduler: a queue is out of order")
	}
	return s.kv.Check(tables...)
}
