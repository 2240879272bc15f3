package engine

import (
	"fmt"

	"weir/backend"
	"weir/scheduler"
)

// rowResult is what a step gave for one row.
type rowResult struct {
	out      *backend.Out
	row      int
	top, num int // the row's alternatives are out.TopTokens[top:top+num]
	host     hostRow
}

// alternatives appends the row's alternatives to dst.
func (r rowResult) alternatives(dst []TokenLogprob) []TokenLogprob {
	for i := r.top; i < r.top+r.num && r.out.TopTokens[i] >= 0; i++ {
		dst = append(dst, TokenLogprob{r.out.TopTokens[i], r.out.TopLogprobs[i]})
	}
	return dst
}

// addScore keeps the score of the prompt token after position p.
func (c *choice) addScore(p int, r rowResult) {
	q := c.req
	if c.seq.Status == scheduler.Finished || p != len(q.scores) {
		return // after a preemption, two steps in flight may have computed the same score
	}
	if q.scores == nil {
		q.scores = make([]PromptLogprob, 0, len(q.Tokens)-1)
	}
	var top []TokenLogprob
	if r.num > 0 {
		top = r.alternatives(make([]TokenLogprob, 0, r.num))
	}
	q.scores = append(q.scores, PromptLogprob{Token: r.out.Tokens[r.row], Logprob: r.out.Logprobs[r.row], Rank: r.out.Ranks[r.row], Top: top})
}

// book books the token drawn for c, and the tokens after it that need no draw. An error
// means that the backend is faulty.
func (e *Engine) book(c *choice, chunk scheduler.Chunk, r rowResult) error {
	q := chunk.Seq
	if q.Status == scheduler.Finished || e.sched.Stale(q) {
		e.sched.Commit(chunk, -1)
		return nil
	}
	tok := r.out.Tokens[r.row]
	if int(tok) >= e.spec.VocabSize {
		return fmt.Errorf("the backend drew token %d of a vocabulary of %d", tok, e.spec.VocabSize)
	}
	e.sched.Commit(chunk, tok)
	if tok < 0 {
		e.fail(c, ErrNoToken)
		return nil
	}
	if c.index == 0 && !c.req.started {
		c.req.started = true
		e.counts.PromptTokens += uint64(q.Prompt)
		e.counts.CachedTokens += uint64(q.Cached)
		c.req.stream.setPrompt(c.req.index, q.Cached, c.req.scores)
	}
	ev := Event{Token: tok}
	if c.req.Sampling.Logprobs != backend.NoLogprobs {
		ev.Logprob, ev.Rank = r.out.Logprobs[r.row], r.out.Ranks[r.row]
	}
	if r.host.logits != nil {
		e.top = r.host.chosen(e.top[:0], c.req.LogprobIDs, tok, ev.Logprob)
	} else {
		e.top = r.alternatives(e.top[:0])
	}
	e.accept(c, ev)
	return nil
}

// bookUnmasked books the chunk of c whose mask the device did not have, so that the token
// it has drawn is discarded: c sits out until there is one, or fails if there is none.
func (e *Engine) bookUnmasked(c *choice, chunk scheduler.Chunk, f fate) {
	q := chunk.Seq
	switch {
	case q.Status == scheduler.Finished || e.sched.Stale(q):
		e.sched.Commit(chunk, -1)
	case f == maskBad:
		e.sched.Commit(chunk, -1)
		e.fail(c, c.constraint.err)
	default:
		e.sched.Postpone(chunk)
		e.late = append(e.late, c)
	}
}

// bookForced books the tokens to which the mask of c leaves no alternative, if that is
// known without waiting. A token that the other parameters forbid is left to the next draw,
// which ends the request with ErrNoToken. Of the alternatives that a request asks for, a
// forced token has only itself, with probability 1. It books no more than most, and returns
// how many.
func (e *Engine) bookForced(c *choice, most int) (n int) {
	q := &c.seq
	for ; n < most && q.Status != scheduler.Finished && q.Pending == 0; n++ {
		tok := c.constraint.only()
		if tok < 0 || !c.sampling.Legal(tok, q.Tokens[q.Prompt:]) {
			return n
		}
		e.sched.Append(q, tok)
		ev := Event{Token: tok}
		e.top = e.top[:0]
		if c.req.Sampling.Logprobs != backend.NoLogprobs {
			ev.Rank = 1
			e.top = append(e.top, TokenLogprob{Token: tok})[:min(c.sampling.Top(), 1)]
			if len(c.req.LogprobIDs) > 0 {
				e.top = forced(e.top[:0], c.req.LogprobIDs, tok)
			}
		}
		e.counts.ForcedTokens++
		e.accept(c, ev)
	}
	return n
}

// accept takes a token that the scheduler has booked to the sampling state, the mask, the
// text with its stop strings, and the reader. Its alternatives are e.top.
func (e *Engine) accept(c *choice, ev Event) {
	q := &c.seq
	c.sampling.Accept(ev.Token)
	e.setWork(c)
	if c.forcer != nil {
		c.forcer.Accept(ev.Token)
	}
	e.counts.GenerationTokens++
	e.reportToken(c)
	if c.constraint != nil {
		if err := c.constraint.follow(ev.Token); err != nil {
			e.fail(c, err)
			return
		}
	}
	ev.StopID = -1
	if q.Status == scheduler.Finished {
		ev.Reason, ev.StopID = q.Reason, q.StopID
	}
	if ev.Reason != Stop || c.req.IncludeStop { // else the text leaves out the token that stopped the choice
		checkStops := len(q.Tokens)-q.Prompt > q.Limits.MinTokens
		if hit := c.text.add(ev.Token, checkStops, c.req.IncludeStop); hit >= 0 { // a stop string takes precedence over all other reasons
			e.sched.End(q, Stop)
			ev.Reason, ev.StopID, ev.StopStr = Stop, -1, c.req.Stop[hit]
		}
	}
	e.push(c, ev, c.text.take(ev.Reason != NotDone), e.top)
	c.text.trim()
	if ev.Reason != NotDone {
		e.retire(c, ev.Reason)
	}
}
