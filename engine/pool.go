package engine

import (
	"fmt"
	"slices"

	"weir/backend"
	"weir/sampler"
	"weir/scheduler"
)

// Pooling says which vectors of a network, which are the inputs of its head, a request wants in place of
// tokens, and what is made of them. The vectors of a prompt come in the order of their positions, in as many
// steps as the prompt takes, and are taken in one after the other: so the result has the same bits in any
// chunking, beside any other requests and after any preemption.
type Pooling uint8

const (
	NoPooling   Pooling = iota // the request generates tokens
	PoolLast                   // the vector of the last token
	PoolFirst                  // that of the first token, which an encoder calls CLS
	PoolMean                   // the sum of all in float32, in the order of positions, divided by their number
	PoolMax                    // the greatest of each component
	PoolAll                    // a vector for each token
	numPoolings = iota
)

// pooled is what a request has of its vector.
type pooled struct {
	vector []float32
	next   int // the position whose vector is taken next
}

// checkPooling refuses a request that cannot be pooled, or that an encoder cannot serve, and sets what a
// pooled request leaves out: it ends with its prompt.
func (e *Engine) checkPooling(r *Request) error {
	n := len(r.Tokens)
	switch {
	case r.Pool == NoPooling && e.spec.Whole:
		return fmt.Errorf("%w: the model is an encoder, which generates no tokens", ErrInvalid)
	case r.Pool == NoPooling:
		return nil
	case r.Pool >= numPoolings:
		return fmt.Errorf("%w: pooling %d is unknown", ErrInvalid, r.Pool)
	case e.spec.Hidden == 0:
		return fmt.Errorf("%w: the backend reports no vectors", ErrInvalid)
	case r.N != 1 || r.Masks != nil || r.Forcers != nil || r.LogprobIDs != nil || r.Prompt != nil || len(r.Stop) > 0:
		return fmt.Errorf("%w: a pooled request has one choice and generates nothing", ErrInvalid)
	case r.Types != nil && (!e.spec.Whole || len(r.Types) != n || slices.Min(r.Types) < 0):
		return fmt.Errorf("%w: the token types are not those of %d tokens of an encoder", ErrInvalid, n)
	}
	// One draw is planned after the last token. It draws nothing, so that it needs no room.
	r.Limits = Limits{MaxTokens: 1, EOS: -1}
	r.Sampling = sampler.DefaultParams()
	return nil
}

// configureWhole has the scheduler compute whole sequences if the backend is an encoder.
func (e *Engine) configureWhole() {
	if !e.spec.Whole {
		return
	}
	c := &e.cfg.Scheduler
	c.WholePrompts = true
	c.MaxSeqTokens = min(c.MaxSeqTokens, c.MaxTokens)
	e.cfg.Caching, e.cfg.MaxChunk = false, 0
}

// preparePool makes the memory of a pooled request, so that its steps allocate nothing.
func (e *Engine) preparePool(q *request) {
	if q.Pool == NoPooling {
		return
	}
	vectors := 1
	if q.Pool == PoolAll {
		vectors = len(q.Tokens)
	}
	q.pooled.vector = make([]float32, 0, vectors*e.spec.Hidden)
	// What is found in the prefix cache has no vectors.
	q.choices[0].seq.NoCacheRead = q.Pool != PoolLast
}

// wantsVector reports whether the vector at position p is needed. What has been taken in survives a
// preemption and is not reported again.
func (c *choice) wantsVector(p int) bool {
	q := c.req
	switch q.Pool {
	case NoPooling:
		return false
	case PoolLast:
		return p == c.seq.Prompt-1
	case PoolFirst:
		return p == 0 && q.pooled.next == 0
	}
	return p >= q.pooled.next
}

// add takes in the vector at position p. A vector that was reported twice, because a preemption came
// between, is ignored the second time.
func (q *request) add(p int, vector []float32) {
	a := &q.pooled
	if p != a.next && q.Pool != PoolLast {
		return
	}
	a.next = p + 1
	switch {
	case len(a.vector) == 0 || q.Pool == PoolAll:
		a.vector = append(a.vector, vector...)
	case q.Pool == PoolMean:
		for i, v := range vector {
			a.vector[i] += v
		}
	case q.Pool == PoolMax:
		for i, v := range vector {
			a.vector[i] = max(a.vector[i], v)
		}
	}
}

// drawPooled adds the rows of the pooled chunk i of s, from row on, to its draws. It returns how many report
// vectors.
func (e *Engine) drawPooled(s *stepData, i, row int) (vectors int) {
	d, q := &s.draws, s.chunks[i].Seq
	over := q.Status == scheduler.Finished || e.sched.Stale(q)
	for ; row < s.rowEnd[i]; row++ {
		d.Rows = append(d.Rows, backend.Draw{Hidden: !over, Dead: over, Mask: -1, Allow: -1, Target: -1, EditEnd: int32(len(d.Edits))})
		if !over {
			vectors++
		}
	}
	return vectors
}

// finishPooled books the pooled chunk i of s, whose rows begin at row and whose vectors at the given
// component. It returns where those of the next chunk begin.
func (e *Engine) finishPooled(s *stepData, i, row, at int) int {
	chunk := s.chunks[i]
	q := chunk.Seq
	c := q.Owner.(*choice)
	for ; row < s.rowEnd[i]; row++ {
		if !s.draws.Rows[row].Hidden {
			continue
		}
		if q.Status != scheduler.Finished {
			c.req.add(int(s.batch.Pos[s.batch.At[row]]), s.out.Hidden[at:at+e.spec.Hidden])
		}
		at += e.spec.Hidden
	}
	last := chunk.Draw && q.Status != scheduler.Finished && !e.sched.Stale(q)
	chunk.Draw = false // nothing was drawn
	e.sched.Commit(chunk, -1)
	if last {
		e.endPooled(c)
	}
	return at
}

// endPooled gives the reader of c its vector.
func (e *Engine) endPooled(c *choice) {
	q, seq := c.req, &c.seq
	if q.Pool == PoolMean {
		n := float32(seq.Prompt)
		for i := range q.pooled.vector {
			q.pooled.vector[i] /= n
		}
	}
	q.started = true
	e.counts.PromptTokens += uint64(seq.Prompt)
	e.counts.CachedTokens += uint64(seq.Cached)
	e.report.Prompt += seq.Prompt
	e.report.Cached += seq.Cached
	c.times.first, c.times.last = e.now, e.now
	q.stream.setPrompt(q.index, seq.Cached, nil)
	q.stream.setPooled(q.index, q.pooled.vector)
	e.sched.End(seq, Stop)
	e.push(c, Event{Token: -1, Reason: Stop, StopID: -1}, nil, nil)
	e.retire(c, Stop)
}
