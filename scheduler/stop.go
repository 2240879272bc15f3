package scheduler

import "slices"

// Limits are the rules that end a sequence.
type Limits struct {
	MaxTokens  int     // most output tokens, at least 1
	MinTokens  int     // no rule ends the sequence before it has this many output tokens
	EOS        int32   // the primary end-of-sequence token; -1 if there is none or it is ignored
	StopIDs    []int32 // further token ids that end the sequence
	Repetition RepetitionLimit
}

// RepetitionLimit ends a sequence whose output ends in MinCount exact copies of
// some pattern of MinPattern to MaxPattern tokens. The zero value never does.
// Each token costs time and each sequence memory in proportion to MaxPattern,
// so callers have to bound it by [MaxRepetition].
type RepetitionLimit struct {
	MaxPattern int // tokens; 0 turns detection off
	MinPattern int // tokens; 0 means 1
	MinCount   int // copies, at least 2
}

// MaxRepetition is the largest pattern size and count that the engine accepts in
// a RepetitionLimit.
const MaxRepetition = 2048

// stop applies the rules to the newest output token and reports whether it ends
// the sequence. Their order decides which reason is reported
// (docs/interface/chat-completions.md, section 5.1).
func (q *Sequence) stop(maxSeqTokens int) (Reason, bool) {
	tok, out := q.Tokens[len(q.Tokens)-1], len(q.Tokens)-q.Prompt
	repeated := q.repeats() // counts matches even while MinTokens keeps the sequence from ending
	switch {
	case out < q.Limits.MinTokens:
		return NotDone, false
	case tok == q.Limits.EOS:
		return Stop, true
	case q.isStopID(tok):
		q.StopID = tok
		return Stop, true
	case out >= q.Limits.MaxTokens, len(q.Tokens) >= maxSeqTokens:
		return Length, true
	case repeated:
		return Repeated, true
	}
	return NotDone, false
}

func (q *Sequence) isStopID(tok int32) bool {
	if len(q.rules.stopIDs) == 0 { // most have none, and the call takes a tenth of the rules' time
		return false
	}
	_, found := slices.BinarySearch(q.rules.stopIDs, tok)
	return found
}

// repeats counts the newest output token and reports whether the output now ends
// in enough copies of a pattern.
//
// For each pattern length p, matches[p] is the number of tokens at the end of the
// output that equal the token p places before them. The output ends in c copies
// of a pattern of p tokens exactly if matches[p] >= p*(c-1):
//
//	output     5 1 2 1 2 1 2      p = 2, c = 3
//	matches        . . m m m m    matches[2] = 4 >= 2*(3-1)
//
// So a token costs one comparison for each pattern length. vLLM compares all
// copies of each pattern again for each token (vllm/v1/core/sched/utils.py).
func (q *Sequence) repeats() bool {
	r := q.Limits.Repetition
	if r.MaxPattern == 0 {
		return false
	}
	out := q.Tokens[q.Prompt:]
	last := len(out) - 1
	least, most := max(1, r.MinPattern), min(r.MaxPattern, last)
	if least > most {
		return false
	}
	tok, hit := out[last], false
	before := out[last-most : last-least+1] // the token p places before is before[most-p]
	matches := q.rules.matches[least:][:len(before)]
	needed := int32(least * (r.MinCount - 1)) // p*(c-1)
	for i := range matches {
		n := int32(0)
		if before[len(before)-1-i] == tok {
			n = matches[i] + 1
			hit = hit || n >= needed
		}
		matches[i] = n
		needed += int32(r.MinCount - 1)
	}
	return hit
}
