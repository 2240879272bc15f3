package engine

import (
	"fmt"
	"slices"

	"weir/kvcache"
	"weir/sampler"
	"weir/scheduler"
)

// Submit hands r to the engine. It never blocks. The caller must read the stream until
// every choice has ended, or cancel it. The error is, or wraps, one of ErrLoading,
// ErrFull, ErrStopped and ErrInvalid.
func (e *Engine) Submit(r Request) (*Stream, error) { return e.SubmitAll([]Request{r}) }

// SubmitAll is Submit for requests that are answered together. Either all are accepted or
// none. One stream has the events of all, and cancelling it cancels all. Its choices are
// numbered consecutively: those of rs[1] follow those of rs[0], and so on. The first request
// says for whom they are.
//
// If the engine is full, the requests of somebody who holds more, and which have not begun,
// may end with ErrFull in place of rs (see places).
func (e *Engine) SubmitAll(rs []Request) (*Stream, error) {
	select {
	case <-e.ready:
	default:
		return nil, ErrLoading
	}
	if len(rs) == 0 {
		return nil, fmt.Errorf("%w: no requests", ErrInvalid)
	}
	s := &Stream{ready: make(chan struct{}, 1), budget: rs[0].Budget}
	s.mu.prompt, s.mu.pooled = make([][]PromptLogprob, len(rs)), make([][]float32, len(rs))
	qs, choices, err := e.prepare(rs, s)
	if err != nil {
		return nil, err
	}
	sub := &submission{requests: qs, live: choices}
	for _, q := range qs {
		q.sub = sub
	}
	s.cancel = func() {
		// The only possible error is that the engine has stopped, which has ended qs.
		_ = e.post(func() error { e.mu.aborts = append(e.mu.aborts, qs...); return nil })
	}
	sub.due = dueAt(qs[0].arrived, rs[0].MaxWait)
	if err := e.admit(sub, rs[0].Place); err != nil {
		return nil, err
	}
	return s, nil
}

// prepare checks the requests and makes what the loop needs of them. It returns the
// number of their choices, too.
func (e *Engine) prepare(rs []Request, s *Stream) (qs []*request, choices int, err error) {
	now := e.clock()
	qs = make([]*request, len(rs))
	for i, r := range rs {
		r.N = max(1, r.N)
		if err := e.checkPooling(&r); err != nil {
			return nil, 0, err
		}
		if err := e.validate(&r); err != nil {
			return nil, 0, err
		}
		qs[i] = &request{Request: r, stream: s, index: i, firstChoice: int32(choices), choices: make([]choice, r.N), live: r.N, arrived: now, submitted: now}
		if !r.Arrived.IsZero() {
			qs[i].arrived = r.Arrived.Sub(e.epoch)
		}
		qs[i].share(qs[:i], e.spec.VocabSize)
		choices += r.N
	}
	for _, q := range qs {
		for i := range q.choices {
			e.prepareChoice(q, i)
		}
		e.preparePool(q)
	}
	return qs, choices, nil
}

// validate protects the engine. The server has refused nearly all of this before, with
// better messages.
func (e *Engine) validate(r *Request) error {
	n, lim := len(r.Tokens), r.Limits
	most := e.spec.MaxSeqTokens
	if r.Pool != NoPooling {
		most = min(most, e.cfg.Scheduler.MaxSeqTokens) // with an encoder, what fits a step
		lim.MaxTokens = 0                              // nothing is drawn
	}
	switch {
	case n == 0:
		return fmt.Errorf("%w: the prompt is empty", ErrInvalid)
	case r.Suffix < 0:
		return fmt.Errorf("%w: the prompt ends in %d tokens that are not repeated", ErrInvalid, r.Suffix)
	case lim.MaxTokens < 1 && r.Pool == NoPooling:
		return fmt.Errorf("%w: %d output tokens are less than 1", ErrInvalid, lim.MaxTokens)
	case lim.MaxTokens > most-n:
		return fmt.Errorf("%w: %d prompt tokens and %d output tokens are more than %d", ErrInvalid, n, lim.MaxTokens, most)
	case e.spec.SequenceBlocks(n+lim.MaxTokens) > e.spec.NumBlocks-1:
		return fmt.Errorf("%w: %d tokens do not fit the KV cache", ErrInvalid, n+lim.MaxTokens)
	case max(lim.Repetition.MaxPattern, lim.Repetition.MinPattern, lim.Repetition.MinCount) > MaxRepetition:
		return fmt.Errorf("%w: a size or count of repetition detection is more than %d", ErrInvalid, MaxRepetition)
	case lim.Repetition.MaxPattern > 0 && lim.Repetition.MinCount < 2:
		return fmt.Errorf("%w: repetition detection needs at least 2 copies, not %d", ErrInvalid, lim.Repetition.MinCount)
	case r.Masks != nil && (len(r.Masks) != r.N || slices.Contains(r.Masks, nil)):
		return fmt.Errorf("%w: %d choices need as many masks, not %d", ErrInvalid, r.N, len(r.Masks))
	case r.Prompt != nil && (r.Prompt.Top < 0 || r.Prompt.Top > e.spec.VocabSize):
		return fmt.Errorf("%w: %d alternatives for each prompt token are less than 0 or more than the vocabulary", ErrInvalid, r.Prompt.Top)
	}
	for _, t := range r.Tokens {
		if t < 0 || int(t) >= e.spec.VocabSize {
			return fmt.Errorf("%w: token %d is not in the vocabulary of %d", ErrInvalid, t, e.spec.VocabSize)
		}
	}
	if err := r.Sampling.Validate(e.spec.VocabSize); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return r.checkChosen(e.spec.VocabSize)
}

// maxPromptTop is the most alternatives of prompt tokens that a step reports for one
// request. It bounds the memory of the step's result.
const maxPromptTop = 1 << 20

// firstTokens is the number of output tokens for which a choice has memory before it begins:
// room for all would be most of the memory, as few have so many. A loop that lets slices
// grow while memory is being collected has to help with that, and every step waits.
const firstTokens = 1024

// prepareChoice makes choice i of q.
func (e *Engine) prepareChoice(q *request, i int) {
	c := &q.choices[i]
	tokens := len(q.Tokens) + min(q.Limits.MaxTokens, firstTokens)
	c.req, c.index, c.times = q, int32(i), choiceTimes{scheduled: never, first: never, last: never}
	p := q.Sampling
	p.Seed += uint64(i)
	c.sampling = sampler.NewState(&p, e.spec.VocabSize, q.Tokens)
	c.text = newText(e.cfg.Tokenizer, &q.Request, q.stops)
	if q.Masks != nil {
		k := &constraint{mask: q.Masks[i], pool: e.masks, kin: &q.kin, token: -1}
		k.pace = k.keepPace
		c.constraint = k
	}
	if q.Forcers != nil {
		c.forcer = q.Forcers[i]
	}
	c.seq = scheduler.Sequence{
		Account: scheduler.Account{Tenant: q.Tenant, Project: q.Project, Weight: q.Weight, ProjectWeight: q.ProjectWeight}, Priority: q.Priority, Salt: q.Salt, Owner: c, Prompt: len(q.Tokens), Limits: q.Limits,
		MaxChunk: e.cfg.MaxChunk, Suffix: q.Suffix, Postponable: c.constraint != nil,
		Tokens: append(make([]int32, 0, tokens), q.Tokens...),
	}
	c.seq.Table.Blocks = make([]kvcache.BlockID, 0, (tokens/e.spec.BlockTokens+1)*e.spec.NumGroups())
	c.seq.Prepare()
	e.setWork(c)
	if i > 0 {
		c.seq.Leader = &q.choices[0].seq
	} else if q.Prompt != nil {
		c.seq.NoCacheRead, c.seq.Work.Scored = true, true
		most := max(1, maxPromptTop/(q.Prompt.Top+1))
		if c.seq.MaxChunk == 0 || most < c.seq.MaxChunk {
			c.seq.MaxChunk = most
		}
	}
}

// post changes the intake by f and wakes the loop. Its error is ErrStopped, or that of f.
func (e *Engine) post(f func() error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.stopped {
		return ErrStopped
	}
	if err := f(); err != nil {
		return err
	}
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return nil
}

// intake takes in all requests and aborts that have come since the last call.
func (e *Engine) intake() {
	e.shedLate()
	e.mu.Lock()
	in, aborts, evicted := e.mu.in, e.mu.aborts, e.mu.evicted
	e.mu.in, e.mu.aborts, e.mu.evicted = nil, nil, nil
	e.mu.Unlock()
	for _, q := range in {
		arrival := e.lastID + 1
		for i := range q.choices {
			c := &q.choices[i]
			e.lastID++
			c.seq.ID, c.seq.Arrival = e.lastID, arrival
			e.sched.Add(&c.seq)
		}
	}
	for _, q := range aborts {
		e.end(q, Aborted, nil)
	}
	e.giveUp(evicted)
}

// begin notes that a step has been planned with choices that were in none before. Nobody else
// gets their places from now on. Those who have lost theirs since intake are ended before
// anything is drawn for them, unless they have come since then, too: the next intake ends those.
func (e *Engine) begin(chunks []scheduler.Chunk) {
	e.mu.Lock()
	for i := range chunks {
		e.mu.places.begin(chunks[i].Seq.Owner.(*choice).req.sub)
	}
	var known []*submission
	e.mu.evicted = slices.DeleteFunc(e.mu.evicted, func(s *submission) bool {
		added := s.requests[0].choices[0].seq.ID > 0
		if added {
			known = append(known, s)
		}
		return added
	})
	e.mu.Unlock()
	e.giveUp(known)
}

// giveUp ends submissions that have lost their places to others.
func (e *Engine) giveUp(evicted []*submission) {
	for _, s := range evicted {
		err := s.refusal(e.counts.Speed)
		for _, q := range s.requests {
			e.end(q, Failed, err)
		}
	}
}
