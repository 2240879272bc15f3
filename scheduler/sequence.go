package scheduler

import (
	"slices"

	"weir/kvcache"
)

// Status says where a sequence stands.
type Status uint8

const (
	Waiting  Status = iota // wants to run; holds no blocks
	Running                // holds blocks
	Finished               // done; its blocks are released when the steps in flight have ended
)

// Reason says why a sequence finished.
type Reason uint8

const (
	NotDone  Reason = iota // it has not finished
	Stop                   // an end-of-sequence token, a stop id or a stop string
	Length                 // Limits.MaxTokens or Config.MaxSeqTokens
	Repeated               // repetition detection
	Aborted                // the client left, or the server stops
	Failed                 // the engine could not continue it
)

// Sequence is one continuation of one prompt. Its fields belong to the scheduler
// from Add until it is Finished; the engine reads them between calls.
//
// Computed counts the tokens that are computed once the steps in flight have
// ended: the KV cache then holds Tokens[:Computed]. Pending counts the tokens
// that these steps draw and that are not in Tokens yet.
//
//	0 ........ Prompt ........ Computed ........ len(Tokens) ........ +Pending
//	|  prompt    |   output, computed or in flight   | being drawn |
//
// Computed may exceed len(Tokens) by up to Pending-1, because a step may compute
// a token that the step before it is still drawing.
type Sequence struct {
	ID       uint64 // unique; decides between equal arrivals
	Priority int64  // lower runs earlier, if Config.Priority is set
	Arrival  uint64 // lower runs earlier

	Account Account // for whom it runs

	Salt        kvcache.Hash // namespace in the prefix cache
	NoCacheRead bool         // compute the whole prompt; it is still published
	Leader      *Sequence    // the first choice of the same prompt, if this is a further one; else nil
	MaxChunk    int          // most tokens of this sequence in one step; 0: no limit of its own
	Suffix      int          // tokens at the prompt's end that a later prompt may not repeat, as the generation prompt of a template
	Postponable bool         // its draws may be postponed, so that a recurrent state before each is kept if possible

	Tokens []int32 // prompt, then output
	Prompt int     // length of the prompt in Tokens
	Limits Limits
	Work   Work

	Owner any // for the caller; the scheduler does not use it

	Computed  int
	Pending   int
	Cached    int // prompt tokens found in the cache, or shared with Leader, when first admitted
	Preempted int // number of preemptions
	Table     kvcache.Table
	Status    Status
	Reason    Reason
	StopID    int32 // the stop id that ended the sequence; -1 if none did

	progress
	rules rules
}

// progress is what the scheduler notes of a sequence while it waits and runs.
type progress struct {
	// Long says that the sequence has more than Config.LongAfter tokens, and that what is computed of it was
	// computed so.
	Long bool

	// Recall is set by the caller: before the sequence is admitted, the caller is asked to bring back what is kept of its prefix outside of
	// the pool, see Scheduler.Recalls.
	Recall bool
	rank   int64 // decides between sequences in place of Priority: the same, or that of the class that it was lifted to
	age    sequenceAge

	admitted  bool   // has been admitted once, so Cached is set
	followers int    // sequences whose Leader it is
	lastStep  uint64 // the last planned step that computes it
	late      late
	recall    recall
}

// rules are made of Limits.
type rules struct {
	stopIDs []int32 // Limits.StopIDs, sorted; nil before Prepare
	matches []int32 // [Limits.Repetition.MaxPattern+1] see repeats
}

// late is what Postpone notes of a sequence.
type late struct {
	held  bool   // it sits out until Resume
	sat   int    // plans that have left it out meanwhile
	stale uint64 // what steps up to this one compute of it is discarded
}

// Prepare makes what the rules of q need, and may be called before Add by another goroutine
// than that of the scheduler. Otherwise Add calls it: the sorting of thousands of stop ids,
// for each of many choices, is then part of a step.
func (q *Sequence) Prepare() {
	if q.rules.stopIDs != nil {
		return
	}
	q.StopID = -1
	q.rules.stopIDs = append([]int32{}, q.Limits.StopIDs...)
	slices.Sort(q.rules.stopIDs)
	if n := q.Limits.Repetition.MaxPattern; n > 0 {
		q.rules.matches = make([]int32, n+1)
	}
}

// uncomputed is the number of tokens that could be computed next, including a
// pending one.
func (q *Sequence) uncomputed() int { return len(q.Tokens) + q.Pending - q.Computed }

// Held reports whether the sequence sits out (see [Scheduler.Postpone]).
func (q *Sequence) Held() bool { return q.late.held }

// output is the number of output tokens, including pending ones.
func (q *Sequence) output() int { return len(q.Tokens) + q.Pending - q.Prompt }
