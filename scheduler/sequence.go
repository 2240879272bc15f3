package scheduler

import "weir/kvcache"

// Status is where a sequence stands.
type Status uint8

const (
	Waiting  Status = iota // wants to run; holds no blocks
	Running                // holds blocks
	Finished               // done; its blocks are given back, or will be when the steps in flight have ended
)

// Reason says why a sequence finished.
type Reason uint8

const (
	NotDone  Reason = iota
	Stop            // an end-of-sequence token, a stop id or a stop string
	Length          // its own limit, or the longest sequence there can be
	Repeated        // repetition detection
	Aborted         // the client left, or the server stops
	Failed          // the engine could not go on with it
)

// Limits are a sequence's stop rules.
type Limits struct {
	MaxTokens  int     // most output tokens, at least 1
	MinTokens  int     // nothing stops the sequence before it has this many output tokens
	EOS        int32   // the primary end-of-sequence token; -1: none, or ignored
	StopIDs    []int32 // further ids that stop
	Repetition RepetitionLimit
}

// RepetitionLimit stops a sequence whose output ends in Count exact copies of
// a pattern of MinPattern to MaxPattern tokens. The zero value never stops.
// A token costs O(MaxPattern), so callers cap it (MaxRepetition).
type RepetitionLimit struct {
	MaxPattern int // tokens; 0 disables
	MinPattern int // tokens; 0 means 1
	MinCount   int // copies, at least 2
}

// MaxRepetition is the largest size or count of a RepetitionLimit that the
// server lets through: it bounds the time a token and the memory a sequence
// can cost.
const MaxRepetition = 2048

// Sequence is one continuation of one prompt. Its fields belong to the
// scheduler from Add until it is Finished; the engine reads them between
// calls.
//
// Two counts tell where it stands. Computed is planned: the KV cache holds
// Tokens[:Computed] when the steps in flight have ended. Pending is the number
// of tokens those steps will draw and that are not in Tokens yet.
//
//	0 ........ Prompt ........ Computed ........ len(Tokens) ........ +Pending
//	|  prompt    |   output, KV written or in flight   | not drawn yet |
//
// (Computed may pass len(Tokens) by up to Pending-1: a step may compute a
// token that the step before it is still drawing.)
type Sequence struct {
	ID       uint64 // unique; breaks every tie
	Priority int64  // lower runs earlier, if the scheduler goes by priority
	Arrival  uint64 // lower runs earlier

	Salt     kvcache.Hash // prefix cache namespace
	Private  bool         // does not read the prefix cache (but fills it)
	Leader   *Sequence    // the first choice of the same prompt, whose blocks are shared once it has computed them; nil
	MaxChunk int          // most tokens of it in one step; 0: no limit of its own

	Tokens []int32 // prompt, then output
	Prompt int     // length of the prompt in Tokens
	Limits Limits

	Owner any // the caller's; not touched

	Computed  int
	Pending   int
	Cached    int // prompt tokens that its first admission found in the prefix cache
	Preempted int // times its blocks were taken back
	Table     kvcache.Table
	Status    Status
	Reason    Reason
	StopID    int32 // Reason Stop by one of StopIDs: which; else -1

	admitted bool    // Cached is settled
	last     uint64  // last step that computes it
	stopIDs  []int32 // Limits.StopIDs, sorted
	runs     []int32 // runs[p]: how many tokens at the end of the output equal the token p before them
}

// want is the number of tokens that could be computed next.
func (q *Sequence) want() int { return len(q.Tokens) + q.Pending - q.Computed }

// output is the number of output tokens, drawn or being drawn.
func (q *Sequence) output() int { return len(q.Tokens) + q.Pending - q.Prompt }

// stop books the newest output token against the stop rules (spec
// chat-completions 5.1, in this order) and says whether the sequence ends.
func (q *Sequence) stop(maxSeqTokens int) (Reason, bool) {
	tok, out := q.Tokens[len(q.Tokens)-1], len(q.Tokens)-q.Prompt
	repeated := q.repeats() // the counters advance even while nothing may stop
	switch {
	case out < q.Limits.MinTokens:
		return NotDone, false
	case tok == q.Limits.EOS:
		return Stop, true
	case found(q.stopIDs, tok):
		q.StopID = tok
		return Stop, true
	case out >= q.Limits.MaxTokens, len(q.Tokens) >= maxSeqTokens:
		return Length, true
	case repeated:
		return Repeated, true
	}
	return NotDone, false
}

// repeats advances the run counters by the newest output token and reports
// whether the output now ends in enough copies of a pattern. A pattern of p
// tokens stands c times at the end exactly when the last p*(c-1) tokens each
// equal the one p before them, so one counter per p replaces the search of
// every period (vllm/v1/core/sched/utils.py compares anew each time).
func (q *Sequence) repeats() bool {
	r := q.Limits.Repetition
	if r.MaxPattern == 0 {
		return false
	}
	out := q.Tokens[q.Prompt:]
	last := len(out) - 1
	hit := false
	for p := max(1, r.MinPattern); p <= r.MaxPattern && p <= last; p++ {
		if out[last] != out[last-p] {
			q.runs[p] = 0
			continue
		}
		q.runs[p]++
		hit = hit || int(q.runs[p]) >= p*(r.MinCount-1)
	}
	return hit
}

func found(sorted []int32, v int32) bool {
	lo, hi := 0, len(sorted)
	for lo < hi {
		if mid := (lo + hi) / 2; sorted[mid] < v {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo < len(sorted) && sorted[lo] == v
}
