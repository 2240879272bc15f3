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

// ErrNoToken ends a choice whose constraints leave no token to draw.
var ErrNoToken = errors.New("engine: the request's constraints leave no token to draw")

// ErrTooComplex ends a choice whose mask takes too much work. Mask.Fill returns it.
var ErrTooComplex = errors.New("engine: the request's mask takes too much work")

// ErrUnread ends a stream whose Budget has no memory for events that are not read.
var ErrUnread = errors.New("engine: the answer is not read, and there is no memory to keep it")

// ErrModelLost ends the requests of a step that could not be computed because a file of the
// model was cut, or cannot be read any more.
var ErrModelLost = backend.ErrModelLost

// errContradiction ends a choice whose mask does not accept a token that its row allowed.
// Package grammar gives up readings of a very ambiguous grammar, and then does that.
var errContradiction = fmt.Errorf("%w: it forbids a token that it has allowed", ErrTooComplex)

// errMaskBroken means that the device is faulty.
var errMaskBroken = errors.New("engine: the device drew a token that the request's mask forbids")

// Config is the engine's configuration.
type Config struct {
	// Scheduler bounds a step. If MaxTokens, MaxSeqs or MaxSeqTokens is 0, the backend's
	// own limit is used; none may exceed that.
	Scheduler scheduler.Config
	Caching   bool // look up and publish prefixes in the prefix cache
	MaxChunk  int  // most tokens of one prompt that a step computes; 0: no such limit
	// MaxPrompts is the most prompt tokens of requests of which nothing has been computed yet; beyond
	// it requests end with ErrPrompts. A single prompt may be longer. 0: there is no such limit.
	MaxPrompts int
	MaxLive    int // most choices that are accepted and have not ended; beyond it requests end with ErrFull, see places

	// MaskWait is how long a step waits for masks at most. 0 means 2 ms, or an eighth of the
	// step before if that is longer; less than 0, not at all. All waits together take no more
	// than an eighth of the time.
	MaskWait time.Duration

	// Offload keeps copies of the prefix cache outside of the backend, which has to be a backend.Copier. nil: nothing does.
	Offload Offload
	// LoadWait is how long a sequence may be held back until copies of its prefix are there. 0: no longer than it takes to compute
	// them, by measure, and not at all if that is quicker.
	LoadWait time.Duration
	// SaveShare is which part of the time, 1/SaveShare, may be spent on copying out while sequences are running. 0: a fiftieth.
	SaveShare int

	// Changes, if it is not nil, is given what has changed in the prefix cache since its last call, before readers see what
	// a step gave. It has to be fast, and must not keep what it is given. MostChanges is the most of them between two calls.
	Changes     func(*kvcache.Changes)
	MostChanges int

	// ITLTarget is how long a step may take because of prompts, while answers are being
	// written: the number of their tokens then adapts, up to Scheduler.MaxTokens, and
	// Scheduler.MaxPrefill counts until something is measured. 0: it is always MaxPrefill.
	ITLTarget time.Duration

	// Tokenizer turns tokens into text. If it is nil, events have no text and stop strings
	// never match.
	Tokenizer *tokenizer.Tokenizer
}

// choice is one choice of a request: its sequence and what the engine keeps beside it.
type choice struct {
	seq      scheduler.Sequence
	req      *request
	index    int32 // in req.choices
	row      int32 // the row of the newest planned step that draws its token
	sampling *sampler.State
	forcer   Forcer // nil: nothing is forced
	text     text
	times    choiceTimes
	recalled recalled

	constraint *constraint // nil: none
}

// request is a Request with what its choices share.
type request struct {
	Request
	stream      *Stream
	sub         *submission
	index       int   // among the requests of the stream
	firstChoice int32 // number of choice 0 in the stream
	choices     []choice
	live        int             // number of choices that have not ended
	scores      []PromptLogprob // log-probabilities of the prompt's tokens so far
	started     bool            // choice 0 has its first token
	kin         kinship         // of its masks
	pooled      pooled          // if vectors are wanted
	stops       *stopStrings    // nil: none

	arrived, submitted time.Duration // since Engine.epoch
}

// share makes what the choices of q share. The requests before it are those that are answered
// together with it, which mostly differ in their prompts alone.
func (q *request) share(before []*request, vocab int) {
	q.Sampling.PrepareFor(vocab, q.Tokens)
	if n := len(before); n > 0 && q.IncludeStop == before[n-1].IncludeStop && slices.Equal(q.Stop, before[n-1].Stop) {
		q.stops = before[n-1].stops
		return
	}
	q.stops = newStopStrings(q.Stop, q.IncludeStop)
}

// Engine runs requests on a backend. Run is called by one goroutine; all other exported
// methods, and those of Stream, may be called by any.
type Engine struct {
	cfg  Config
	open func() (backend.Backend, error)

	// mu protects the intake.
	mu struct {
		sync.Mutex
		in      []*request
		aborts  []*request
		forgets []*forgetCall
		copies  []chan struct{} // see CopiesOut
		places  places
		evicted []*submission // that have lost their places, until the loop ends them
		stopped bool
	}
	stats struct {
		sync.Mutex
		Stats
		shares []Share
	}
	wake     chan struct{} // capacity 1: something is in the intake
	ready    chan struct{} // closed when spec is set
	epoch    time.Time     // when the engine was made
	observer atomic.Pointer[func(*Report)]

	spec backend.Spec // constant once ready is closed

	// The rest belongs to the goroutine of Run.
	be      backend.Backend
	kv      *kvcache.Manager
	sched   *scheduler.Scheduler
	steps   [2]stepData // used in turn
	masks   *maskPool
	account maskAccount
	holding
	inFlight    *stepData      // the step that is begun and drawn and not ended, if Depth is 2
	unsignalled []*Stream      // pushed to since the last signal
	lastID      uint64         // of a sequence
	top         []TokenLogprob // alternatives of the token that is being booked
	counts      Stats
	report      Report
	flight      flight
	now         time.Duration // since epoch: when the last step ended, or work came after a pause
}

// holding is what the loop knows of sequences that could go on but for something that does not come from the device.
type holding struct {
	late    []*choice // those that sit out, until resume
	starved bool      // the last iteration found nothing to compute, although there are sequences
	offload offload   // copies of KV blocks, and those that wait for some
}

// New returns an engine. Run opens its backend with open, and opens it again after a
// failure.
func New(cfg Config, open func() (backend.Backend, error)) *Engine {
	e := &Engine{cfg: cfg, open: open, wake: make(chan struct{}, 1), ready: make(chan struct{}), epoch: time.Now()}
	for i := range e.steps {
		s := &e.steps[i]
		s.ready = func() { e.masksReady(s) }
	}
	e.mu.places = newPlaces(cfg.MaxLive, cfg.Scheduler.Priority)
	e.mu.places.prompts = int64(cfg.MaxPrompts)
	e.masks = newMaskPool(max(1, runtime.GOMAXPROCS(0)/4), e.clock)
	e.account.saved = maskWaitSaved
	return e
}

// Ready is closed when the backend is open and Submit can succeed.
func (e *Engine) Ready() <-chan struct{} { return e.ready }

// Spec is that of the backend. It waits until Ready is closed.
func (e *Engine) Spec() backend.Spec {
	<-e.ready
	return e.spec
}

// Caching reports whether prompts are looked up in the prefix cache.
func (e *Engine) Caching() bool { return e.cfg.Caching }

// clock is the time since the engine was made.
func (e *Engine) clock() time.Duration { return time.Since(e.epoch) }

// Run is the engine loop. It returns nil when ctx ends, after ending all live requests as
// aborted. If the backend cannot be opened, first or after a failure, it returns the
// error, after ending them as failed.
func (e *Engine) Run(ctx context.Context) (err error) {
	runtime.LockOSThread() // the backend may turn out to be bound to its thread
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
	defer e.masks.close()
	e.now = e.clock()
	close(e.ready)
	err = e.loop(ctx)
	if err == nil {
		e.saveLast()
	}
	return err
}

// configure completes the configuration by what the backend can do, and makes scheduler
// and books.
func (e *Engine) configure() error {
	c := &e.cfg.Scheduler
	for _, limit := range []struct {
		name string
		have *int
		most int
	}{{"tokens of a step", &c.MaxTokens, e.spec.MaxTokens}, {"running sequences", &c.MaxSeqs, e.spec.MaxSeqs}, {"tokens of a sequence", &c.MaxSeqTokens, e.spec.MaxSeqTokens}} {
		if *limit.have == 0 {
			*limit.have = limit.most
		}
		if *limit.have > limit.most {
			return fmt.Errorf("engine: %d %s are configured, but the backend takes %d", *limit.have, limit.name, limit.most)
		}
	}
	e.configureWork()
	e.configureWhole()
	if err := c.Validate(); err != nil {
		return err
	}
	if d := e.spec.Depth; d != 1 && d != 2 {
		return fmt.Errorf("engine: the backend wants %d steps in flight, not 1 or 2", d)
	}
	c.LongAfter = e.spec.LongAfter
	e.kv = kvcache.New(e.spec.NumBlocks, e.spec.BlockTokens, e.spec.StateSlots, e.cfg.Caching, e.spec.Groups...)
	e.sched = scheduler.New(*c, e.kv)
	e.flight.pace = pacer{target: e.cfg.ITLTarget, most: c.MaxTokens}
	e.watch()
	return e.configureOffload()
}

// loop runs steps until ctx ends, or until the backend has failed and cannot be opened
// again.
func (e *Engine) loop(ctx context.Context) error {
	for {
		e.intake()
		e.resume()
		if err := e.recoverFrom(e.forget()); err != nil {
			return err
		}
		if err := e.recoverFrom(e.moveCopies()); err != nil {
			return err
		}
		if e.sched.Idle() && e.inFlight == nil {
			if on, err := e.idle(ctx); !on {
				return err
			}
			continue
		}
		if ctx.Err() != nil {
			if e.inFlight == nil {
				return nil
			}
			return e.finish(e.inFlight) // its tokens are computed already
		}
		e.counts.StepBegan = e.epoch.Add(e.now)
		e.publishStats()
		e.masks.busy.Store(true)
		if err := e.recoverFrom(e.step()); err != nil {
			return err
		}
		if e.starved && !e.beginLoads() {
			e.awaitMasks(ctx)
		}
	}
}

// awaitMasks waits until a choice that sits out may go on, copies of blocks have been read, or there is something in the
// intake, because there is nothing to compute.
func (e *Engine) awaitMasks(ctx context.Context) {
	e.counts.StepBegan = time.Time{}
	e.signal()
	e.masks.busy.Store(false)
	e.masks.timer.Reset(idleMaskChecks)
	select {
	case <-e.wake:
	case <-e.masks.arrived:
	case <-e.masks.timer.C:
	case <-ctx.Done():
	}
	e.now = e.clock()
}

// idle copies blocks out while there is nothing to compute, and then sleeps. It reports false if the loop ends, with its error.
func (e *Engine) idle(ctx context.Context) (on bool, err error) {
	more, err := e.save(idleSave)
	if err != nil {
		err = e.recoverFrom(err)
		return err == nil, err
	}
	return more || e.sleep(ctx), nil
}

// sleep waits until there is something in the intake. It reports false if ctx ends first.
func (e *Engine) sleep(ctx context.Context) bool {
	e.counts.StepBegan = time.Time{}
	e.signal() // the last thing to do may have been an abort
	if invariants.Enabled {
		invariants.NoError(e.sched.Check())
	}
	select {
	case <-e.wake:
		e.now = e.clock()
		return true
	case <-ctx.Done():
		return false
	}
}

// push adds an event to the stream of c, which is signalled later.
func (e *Engine) push(c *choice, ev Event, text []byte, top []TokenLogprob) {
	s := c.req.stream
	ev.Choice = c.req.firstChoice + c.index
	s.push(ev, text, top)
	if !s.dirty {
		s.dirty = true
		e.unsignalled = append(e.unsignalled, s)
	}
}

// signal publishes the counts and then wakes the readers of all streams that were pushed
// to since the last call.
func (e *Engine) signal() {
	e.publish()
	for i, s := range e.unsignalled {
		s.dirty = false
		s.signal()
		e.unsignalled[i] = nil
	}
	e.unsignalled = e.unsignalled[:0]
}
