package openai

import (
	"weir/api"
	"weir/engine"
	"weir/server/failure"
)

// maxEdits bounds the logits that a request changes at every step before all its choices are
// drawn, by logit_bias and by the repetition penalty of the tokens of its prompts. They are
// copied and applied for each choice, which takes some 5 ns each, in everybody's step.
const maxEdits = 1 << 19

// checkEdits refuses a request that changes too many logits at every step.
func (p *prepared) checkEdits(vocabulary int) *api.Error {
	edits := 0
	for i := range p.requests {
		r := &p.requests[i]
		each := len(r.Sampling.Bias)
		if r.Sampling.Repetition != 1 {
			each += repeatable(r.Tokens, vocabulary)
		}
		if edits += max(1, r.N) * each; edits > maxEdits {
			return failure.BadRequest("n", "logit_bias and repetition_penalty change more than %d logits in all choices together: the entries of logit_bias and the different tokens of the prompt, times n.", maxEdits)
		}
	}
	return nil
}

// repeatable returns the number of different tokens of a prompt.
func repeatable(tokens []int32, vocabulary int) (n int) {
	seen := make([]bool, vocabulary)
	for _, t := range tokens {
		if t >= 0 && int(t) < vocabulary && !seen[t] {
			seen[t] = true
			n++
		}
	}
	return n
}

// tablesSize returns the bytes that the engine holds for the lists of a request: what its
// choices share, and what each of them has.
func tablesSize(r *engine.Request, vocabulary int) int64 {
	const (
		edit   = 64 // a logit that is changed, with its place in a table
		copied = 20 // its copy in a choice with penalties
		banned = 4
	)
	s, choices := &r.Sampling, int64(max(1, r.N))
	edits, each := int64(len(s.Bias)), int64(0)
	if s.Repetition != 1 {
		edits += int64(min(len(r.Tokens), vocabulary))
	}
	if s.Frequency != 0 || s.Presence != 0 || s.Repetition != 1 {
		each = copied * edits
	}
	each += banned * int64(len(s.BadWords)+2*len(r.Limits.StopIDs)+r.Limits.Repetition.MaxPattern)
	shared := edit * edits
	if s.Allowed != nil {
		shared += int64(vocabulary) / 8
	}
	return shared + choices*each + engine.StopStringsSize(r.Stop, int(choices))
}
