package engine

import (
	"errors"
	"fmt"
	"time"

	"weir/kvcache"
	"weir/scheduler"
)

// end ends every live choice of q without a further token.
func (e *Engine) end(q *request, r Reason, err error) {
	for i := range q.choices {
		if c := &q.choices[i]; c.seq.Status != scheduler.Finished {
			e.endChoice(c, r, err)
		}
	}
}

// fail ends c, which the scheduler may have finished already, and with it its request.
func (e *Engine) fail(c *choice, err error) {
	e.endChoice(c, Failed, err)
	e.end(c.req, Failed, err)
}

// endChoice ends c without a further token and gives out the text that was held back.
func (e *Engine) endChoice(c *choice, r Reason, err error) {
	e.sched.End(&c.seq, r)
	e.push(c, Event{Token: -1, Reason: r, StopID: -1, Err: err}, c.text.take(true), nil)
	e.retire(c, r)
}

// retire counts a choice that has ended. One that has lost its place before it began does not
// count: it is as if it had been refused.
func (e *Engine) retire(c *choice, r Reason) {
	c.req.live--
	if c.constraint != nil {
		c.constraint.gone.Store(true)
	}
	e.mu.Lock()
	held := e.mu.places.end(c.req.sub, r, c.output())
	e.mu.Unlock()
	if held {
		e.counts.Finished[r]++
		e.reportEnd(c, r)
	}
}

// recoverFrom makes the engine usable again after an error of the backend. It returns nil
// if err is nil or the backend could be opened again, or else what to give up with.
//
// The requests of the steps in flight end with the error, because one of them may be its
// cause. All others go on: their tokens are known, and what was computed of them is
// computed again.
func (e *Engine) recoverFrom(err error) error {
	if err == nil {
		return nil
	}
	cause := fmt.Errorf("engine: a step failed: %w", err)
	e.now = e.clock()
	for i := range e.steps {
		s := &e.steps[i]
		e.recordFailed(s)
		for _, chunk := range s.chunks {
			e.end(chunk.Seq.Owner.(*choice).req, Failed, cause)
		}
		s.chunks = s.chunks[:0]
	}
	e.signal()
	_ = e.be.Close() // a failure to close does not matter: the backend is not used again
	if e.be, err = e.open(); err != nil {
		e.be = nil // what open returned beside the error may be a nil pointer, which is not a nil backend
		return errors.Join(cause, fmt.Errorf("engine: the backend cannot be opened again: %w", err))
	}
	if s := e.be.Spec(); !s.Equal(e.spec) {
		return errors.Join(cause, fmt.Errorf("engine: the backend was opened again and is another one: %+v instead of %+v", s, e.spec))
	}
	e.counts.Reopened++
	e.offload.counts.Uncopied += e.kv.Uncopied()
	e.kv = kvcache.New(e.spec.NumBlocks, e.spec.BlockTokens, e.spec.StateSlots, e.cfg.Caching, e.spec.Groups...)
	e.watch()
	e.sched.Restart(e.kv)
	return e.configureOffload()
}

// stop ends everything that is live and refuses what comes from now on. cause is the
// error of Run.
func (e *Engine) stop(cause error) {
	e.mu.Lock()
	e.mu.stopped = true
	for _, f := range e.mu.forgets {
		close(f.done)
	}
	e.mu.forgets = nil
	for _, done := range e.mu.copies {
		close(done)
	}
	e.mu.copies = nil
	e.mu.Unlock()
	if e.sched == nil {
		return // the backend was never open, so nothing was accepted
	}
	e.intake()
	reason, err := Aborted, error(nil)
	if cause != nil {
		reason, err = Failed, errors.Join(ErrStopped, cause)
	}
	for _, q := range e.sched.Live() {
		e.end(q.Owner.(*choice).req, reason, err)
	}
	e.counts.StepBegan = time.Time{}
	e.signal()
}
