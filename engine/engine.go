// Package engine runs the one loop that owns the scheduler, the KV cache's
// books, the sampling state and the backend. Requests enter through Submit,
// tokens leave through Streams, statistics by snapshot; nothing else crosses,
// and there is no lock inside the loop's own state.
//
// One iteration with one step in flight:
//
//	intake: new requests and aborts
//	plan, Begin, Draw           the device only records
//	signal the readers          of the last step's tokens
//	End                         the device computes
//	book: tokens, text, stop rules, events
//
// and with two:
//
//	intake
//	plan n+1, Begin(n+1)        its newest tokens are those that step n draws
//	End(n), book n
//	Draw(n+1)                   with the penalties and masks that n's tokens give
//	signal the readers
//
// Mask rows are filled by workers between Draw and the moment the device reads
// them. A token that a mask leaves no alternative to is taken without a forward
// pass where none is in flight for the sequence; its draw could not have given
// another one.
package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/backend"
	"weir/internal/invariants"
	"weir/kvcache"
	"weir/sampler"
	"weir/scheduler"
	"weir/tokenizer"
)

// Errors of Submit.
var (
	ErrLoading = errors.New("engine: the model is still loading")
	ErrFull    = errors.New("engine: too many requests")
	ErrStopped = errors.New("engine: stopped")
	ErrInvalid = errors.New("engine: invalid request")
)

// errIllegal is a device that broke a mask.
var errIllegal = errors.New("engine: the device drew a token that the request's constraint forbids")

// ErrNoToken ends a choice whose constraints leave no token to draw.
var ErrNoToken = errors.New("engine: the request's constraints leave no token to draw")

// Config is the engine's configuration.
type Config struct {
	// Scheduler bounds a step. MaxTokens, MaxSeqs and MaxSeqTokens that are 0
	// are taken from the backend; they may not exceed what it can do.
	Scheduler scheduler.Config
	Caching   bool // automatic prefix caching
	MaxLive   int  // choices accepted and not yet finished; more are refused with ErrFull

	// Tokenizer turns tokens into text. Without one, events carry no text and
	// stop strings never match.
	Tokenizer *tokenizer.Tokenizer
}

// work is one choice of a request, with what the engine keeps beside its
// sequence.
type work struct {
	seq    scheduler.Sequence
	req    *request
	choice int32
	row    int32 // the row of the newest planned step that draws for it
	smp    *sampler.State
	mask   Mask // nil: none
	text   text
	stamps stamps
}

// request is what the choices of a request share.
type request struct {
	Request
	stream *Stream
	index  int   // among the requests of the stream
	first  int32 // what the stream calls its choice 0
	works  []work
	live   int             // choices that have not finished
	prompt []PromptLogprob // scores so far, [at most len(Tokens)-1]
	begun  bool            // its first token has been counted

	arrived, queued time.Duration // since Engine.epoch
}

// Engine is the owner. Submit, Stats and the methods of Stream are for
// everybody; Run is one goroutine's.
type Engine struct {
	cfg  Config
	open func() (backend.Backend, error)

	// mu is the intake: all that is shared with other goroutines.
	mu struct {
		sync.Mutex
		in      []*request
		aborts  []*request
		forgets []*forget
		live    int
		stopped bool
	}
	stats struct {
		sync.Mutex
		Stats
	}
	wake  chan struct{} // capacity 1: the intake is not empty
	rows  chan struct{} // capacity 1: there are mask rows to fill
	ready chan struct{} // closed when spec is set
	epoch time.Time     // when the engine was made

	observer atomic.Pointer[func(*Report)]

	// Below: the engine goroutine's own, but for spec, which is constant once
	// ready is closed.
	spec    backend.Spec
	be      backend.Backend
	kv      *kvcache.Manager
	sched   *scheduler.Scheduler
	flights [2]flight      // in use alternately
	flying  *flight        // the step in flight that is planned and drawn, if any
	dirty   []*Stream      // pushed to since the last signal
	next    uint64         // sequence ids
	alts    []TokenLogprob // scratch
	count   Stats
	report  Report
	now     time.Duration // since epoch: when the last step ended, or work came after a pause
}

// New returns an engine that Run will open a backend for with open. If the
// backend fails, open is called again.
func New(cfg Config, open func() (backend.Backend, error)) *Engine {
	e := &Engine{cfg: cfg, open: open, wake: make(chan struct{}, 1), rows: make(chan struct{}, 1), ready: make(chan struct{}), epoch: time.Now()}
	for i := range e.flights {
		e.flights[i].ready = e.flights[i].masks.ready
	}
	return e
}

// Ready is closed when the backend is open and Submit can succeed.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Spec is the backend's, once Ready is closed.
func (e *Engine) Spec() backend.Spec {
	<-e.ready
	return e.spec
}

// Caching reports whether prompts are looked up in the prefix cache.
func (e *Engine) Caching() bool { return e.cfg.Caching }

// Submit hands r to the engine. It never blocks. The stream must be read until
// every choice has ended, or cancelled.
func (e *Engine) Submit(r Request) (*Stream, error) { return e.SubmitAll([]Request{r}) }

// SubmitAll is Submit for requests that are answered together: either all are
// accepted or none is, one stream has the events of all, and cancelling it
// cancels all. The stream numbers choices through: those of rs[i] come behind
// those of rs[i-1].
func (e *Engine) SubmitAll(rs []Request) (*Stream, error) {
	select {
	case <-e.ready:
	default:
		return nil, ErrLoading
	}
	if len(rs) == 0 {
		return nil, fmt.Errorf("%w: none", ErrInvalid)
	}
	queued := e.clock()
	s := &Stream{ready: make(chan struct{}, 1)}
	s.mu.prompt = make([][]PromptLogprob, len(rs))
	qs, choices := make([]*request, len(rs)), 0
	for i, r := range rs {
		r.N = max(1, r.N)
		if err := e.validate(&r); err != nil {
			return nil, err
		}
		qs[i] = &request{Request: r, stream: s, index: i, first: int32(choices), works: make([]work, r.N), live: r.N, arrived: queued, queued: queued}
		if !r.Arrived.IsZero() {
			qs[i].arrived = r.Arrived.Sub(e.epoch)
		}
		choices += r.N
	}
	s.cancel = func() {
		// The only refusal is that the engine has stopped, which ended qs too.
		_ = e.post(func() error { e.mu.aborts = append(e.mu.aborts, qs...); return nil })
	}
	for _, q := range qs {
		for i := range q.works {
			e.prepare(q, i)
		}
	}
	err := e.post(func() error {
		if e.mu.live+choices > e.cfg.MaxLive {
			return ErrFull
		}
		e.mu.in = append(e.mu.in, qs...)
		e.mu.live += choices
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// validate is the last line: whoever prepared the request has answered for
// these before, with better words.
func (e *Engine) validate(r *Request) error {
	n, lim := len(r.Tokens), r.Limits
	switch {
	case n == 0:
		return fmt.Errorf("%w: empty prompt", ErrInvalid)
	case lim.MaxTokens < 1:
		return fmt.Errorf("%w: %d output tokens", ErrInvalid, lim.MaxTokens)
	case lim.MaxTokens > e.spec.MaxSeqTokens-n:
		return fmt.Errorf("%w: %d prompt and %d output tokens are more than %d", ErrInvalid, n, lim.MaxTokens, e.spec.MaxSeqTokens)
	case (n+lim.MaxTokens+e.spec.BlockTokens-1)/e.spec.BlockTokens > e.spec.NumBlocks-1:
		return fmt.Errorf("%w: %d tokens do not fit the KV cache", ErrInvalid, n+lim.MaxTokens)
	case max(lim.Repetition.MaxPattern, lim.Repetition.MinPattern, lim.Repetition.MinCount) > MaxRepetition:
		return fmt.Errorf("%w: repetition detection beyond %d", ErrInvalid, MaxRepetition)
	case lim.Repetition.MaxPattern > 0 && lim.Repetition.MinCount < 2:
		return fmt.Errorf("%w: repetition detection of %d copies", ErrInvalid, lim.Repetition.MinCount)
	case r.Masks != nil && (len(r.Masks) != r.N || slices.Contains(r.Masks, nil)):
		return fmt.Errorf("%w: %d choices and %d masks", ErrInvalid, r.N, len(r.Masks))
	case r.Prompt != nil && (r.Prompt.Top < 0 || r.Prompt.Top > e.spec.VocabSize):
		return fmt.Errorf("%w: %d alternatives for each prompt token", ErrInvalid, r.Prompt.Top)
	}
	for _, t := range r.Tokens {
		if t < 0 || int(t) >= e.spec.VocabSize {
			return fmt.Errorf("%w: token %d is not in the vocabulary of %d", ErrInvalid, t, e.spec.VocabSize)
		}
	}
	if err := r.Sampling.Validate(e.spec.VocabSize); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// maxScores bounds the alternatives that a step reports for prompt tokens.
const maxScores = 1 << 20

func (e *Engine) prepare(q *request, i int) {
	w := &q.works[i]
	w.req, w.choice, w.stamps = q, int32(i), stamps{scheduled: never, first: never, last: never}
	p := q.Sampling
	p.Seed += uint64(i)
	w.smp = sampler.NewState(&p, e.spec.VocabSize, q.Tokens)
	w.text = newText(e.cfg.Tokenizer, &q.Request)
	if q.Masks != nil {
		w.mask = q.Masks[i]
	}
	w.seq = scheduler.Sequence{
		Priority: q.Priority, Salt: q.Salt, Owner: w, Prompt: len(q.Tokens), Limits: q.Limits,
		Tokens: append(make([]int32, 0, len(q.Tokens)+min(q.Limits.MaxTokens, 64)), q.Tokens...),
	}
	if i > 0 {
		w.seq.Leader = &q.works[0].seq
	} else if q.Prompt != nil {
		w.seq.NoCacheRead = true
		w.seq.MaxChunk = max(1, maxScores/(q.Prompt.Top+1))
	}
}

// post runs f on the intake and wakes the loop.
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

// Run is the engine loop. It returns when ctx ends, or with the error of a
// backend that could not be opened, first or again. Requests that are still
// live then end as aborted, or failed.
func (e *Engine) Run(ctx context.Context) (err error) {
	runtime.LockOSThread() // until we know whether the backend is bound to its thread
	locked := true
	defer func() {
		if e.stop(err); locked {
			runtime.UnlockOSThread()
		}
	}()
	if e.be, err = e.open(); err != nil {
		return err
	}
	defer func() {
		if e.be != nil {
			err = errors.Join(err, e.be.Close())
		}
	}()
	e.spec = e.be.Spec()
	if err := e.configure(); err != nil {
		return err
	}
	if !e.spec.ThreadBound {
		runtime.UnlockOSThread()
		locked = false
	}
	stopped := make(chan struct{})
	defer close(stopped)
	for range max(1, runtime.GOMAXPROCS(0)/4) {
		go e.fill(stopped)
	}
	e.now = e.clock()
	close(e.ready)
	for {
		e.intake()
		if err := e.forget(); err != nil {
			if err = e.recover(fmt.Errorf("engine: step: %w", err)); err != nil {
				return err
			}
		}
		if e.sched.Idle() && e.flying == nil {
			e.count.StepBegan = time.Time{}
			e.signal() // an abort may have been the last work
			if invariants.Enabled {
				invariants.NoError(e.sched.Check())
			}
			select {
			case <-e.wake:
				e.now = e.clock()
				continue
			case <-ctx.Done():
				return nil
			}
		}
		if ctx.Err() != nil {
			if e.flying == nil {
				return nil
			}
			return e.land(e.flying) // its tokens are paid for
		}
		e.count.StepBegan = e.epoch.Add(e.now)
		e.publishStats()
		if err := e.step(); err != nil {
			if err = e.recover(fmt.Errorf("engine: step: %w", err)); err != nil {
				return err
			}
		}
	}
}

// configure fits the configuration to the backend and makes the books.
func (e *Engine) configure() error {
	c := &e.cfg.Scheduler
	for _, f := range []struct {
		name string
		have *int
		most int
	}{{"tokens of a step", &c.MaxTokens, e.spec.MaxTokens}, {"running sequences", &c.MaxSeqs, e.spec.MaxSeqs}, {"tokens of a sequence", &c.MaxSeqTokens, e.spec.MaxSeqTokens}} {
		if *f.have == 0 {
			*f.have = f.most
		}
		if *f.have > f.most {
			return fmt.Errorf("engine: %d %s, but the backend takes %d", *f.have, f.name, f.most)
		}
	}
	if err := c.Validate(); err != nil {
		return err
	}
	if d := e.spec.Depth; d != 1 && d != 2 {
		return fmt.Errorf("engine: a backend with %d steps in flight", d)
	}
	e.kv = kvcache.New(e.spec.NumBlocks, e.spec.BlockTokens, e.cfg.Caching)
	e.sched = scheduler.New(*c, e.kv)
	return nil
}

// intake takes in everything that has come since the last step.
func (e *Engine) intake() {
	e.mu.Lock()
	in, aborts := e.mu.in, e.mu.aborts
	e.mu.in, e.mu.aborts = nil, nil
	e.mu.Unlock()
	for _, q := range in {
		arrival := e.next + 1
		for i := range q.works {
			w := &q.works[i]
			e.next++
			w.seq.ID, w.seq.Arrival = e.next, arrival
			e.sched.Add(&w.seq)
		}
	}
	for _, q := range aborts {
		e.end(q, Aborted, nil)
	}
}

// end finishes every live choice of q without a further token.
func (e *Engine) end(q *request, r Reason, err error) {
	for i := range q.works {
		if w := &q.works[i]; w.seq.Status != scheduler.Finished {
			e.sched.End(&w.seq, r)
			e.push(w, Event{Token: -1, Reason: r, StopID: -1, Err: err}, w.text.take(true), nil)
			e.retire(w, r)
		}
	}
}

func (e *Engine) push(w *work, ev Event, text []byte, top []TokenLogprob) {
	s := w.req.stream
	ev.Choice = w.req.first + w.choice
	s.push(ev, text, top)
	if !s.dirty {
		s.dirty = true
		e.dirty = append(e.dirty, s)
	}
}

// signal wakes the readers of everything pushed since it was last called, all of
// which has then been counted.
func (e *Engine) signal() {
	e.publish()
	for i, s := range e.dirty {
		s.dirty = false
		s.signal()
		e.dirty[i] = nil
	}
	e.dirty = e.dirty[:0]
}

// retire counts a finished choice.
func (e *Engine) retire(w *work, r Reason) {
	e.count.Finished[r]++
	w.req.live--
	e.ended(w, r)
	e.mu.Lock()
	e.mu.live--
	e.mu.Unlock()
}

// recover fails the requests of the steps in flight, one of which may be to
// blame, and opens the backend anew. Everybody else goes on: their tokens are
// known and what was computed is computed again.
func (e *Engine) recover(cause error) error {
	e.now = e.clock()
	for i := range e.flights {
		f := &e.flights[i]
		f.masks.ready()
		for _, c := range f.chunks {
			e.end(c.Seq.Owner.(*work).req, Failed, cause)
		}
		f.chunks = f.chunks[:0]
	}
	e.signal()
	_ = e.be.Close() // its state is of no further use: a failure to close it neither
	var err error
	if e.be, err = e.open(); err != nil {
		return errors.Join(cause, fmt.Errorf("engine: cannot open the backend again: %w", err))
	}
	if s := e.be.Spec(); s != e.spec {
		return errors.Join(cause, fmt.Errorf("engine: the backend changed from %+v to %+v", e.spec, s))
	}
	e.count.Reopened++
	e.kv = kvcache.New(e.spec.NumBlocks, e.spec.BlockTokens, e.cfg.Caching)
	e.sched.Restart(e.kv)
	return nil
}

// stop refuses what comes and ends everything that is live.
func (e *Engine) stop(cause error) {
	e.mu.Lock()
	e.mu.stopped = true
	for _, f := range e.mu.forgets {
		close(f.done)
	}
	e.mu.forgets = nil
	e.mu.Unlock()
	if e.sched == nil {
		return // the backend never opened, so nothing was accepted
	}
	e.intake()
	reason, err := Aborted, error(nil)
	if cause != nil {
		reason, err = Failed, errors.Join(ErrStopped, cause)
	}
	for _, q := range e.sched.Live() {
		e.end(q.Owner.(*work).req, reason, err)
	}
	e.count.StepBegan = time.Time{}
	e.signal()
}
