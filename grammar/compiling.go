package grammar

import (
	"context"
	"errors"
	"time"
)

// stage is how far a compilation is. Nobody knows what a constraint costs before it is
// compiled: a regular expression of a hundred bytes can take as much as a schema of a
// megabyte. So each first has the budget of a small one. If that is spent, what was built is
// dropped, and it waits for its turn among the large ones. The callers that wait for one
// entry all stand in line for it, each where its tenant has its turn, and whoever comes first
// compiles it for all of them.
type stage uint8

const (
	waitsSmall stage = iota
	waitsLarge
	runs
	ended
)

const (
	// smallWork is the budget of a small compilation: some 50 ms, which all but a few of
	// the schemas that people publish get by with.
	smallWork = 500_000

	// smallSpec is the size from which a constraint counts as large without a try, because
	// its text alone takes long to read.
	smallSpec = 128 << 10
)

// errLarge ends the compilation of a constraint that is not small.
var errLarge = errors.New("grammar: not small")

// A Queue runs f on a worker, when its turn comes among the small or the large
// compilations, and returns when f has returned. It may return earlier if ctx has ended. If
// it does not run f, it says why.
type Queue func(ctx context.Context, large bool, f func()) error

// Compile is [Compiler.CompileOn] in the goroutine of the caller. It may take as long as
// Config.Deadline, so it belongs on a worker.
func (c *Compiler) Compile(ctx context.Context, s Spec) (*Grammar, error) {
	return c.CompileOn(ctx, s, nil)
}

// CompileOn returns the grammar of s, whose first mask has been filled. If ctx ends first, it
// returns the cause. A compilation goes on as long as any caller waits for it, and ends soon
// after the last of them has left. Callers of the same constraint do not keep workers of the
// queue busy while another one compiles it.
//
// If s has a Prefix that the constraint does not allow, the error is an *Error of the kind
// ErrPrefix.
//
// CompileOn fails with the error of the queue; with ErrDeadline; with memory.ErrFull if there
// is no memory for it now, and with memory.ErrNever if there never can be. All other errors
// are *Error. The caller has to call Grammar.Release.
func (c *Compiler) CompileOn(ctx context.Context, s Spec, queue Queue) (*Grammar, error) {
	if s.Prefix != "" {
		return c.compileAfter(ctx, s, queue)
	}
	return c.cached(ctx, s, queue)
}

// cached is CompileOn for what is kept under the key of s.
func (c *Compiler) cached(ctx context.Context, s Spec, queue Queue) (*Grammar, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	e := c.join(&s)
	stop := context.AfterFunc(ctx, func() { c.leave(e) })
	err := c.await(ctx, s, e, queue)
	if !stop() { // ctx has ended, and leave is called
		return nil, context.Cause(ctx)
	}
	if err == nil && e.err == nil {
		err = c.reserve(ctx, e)
	}
	if err != nil {
		c.leave(e)
		return nil, err
	}
	if e.err != nil {
		return nil, e.err // nobody counts the users of what was not compiled
	}
	return e.g, nil
}

// await waits until e has ended, and has its turns in the queue for that.
func (c *Compiler) await(ctx context.Context, s Spec, e *entry, queue Queue) error {
	waits, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)() // another caller has compiled it
	for {
		now, moved := c.stageOf(e)
		var err error
		switch {
		case now == runs || now == ended:
			select {
			case <-moved:
			case <-waits.Done():
			}
		case queue == nil:
			c.attempt(s, e, now, false)
		default:
			err = queue(waits, now == waitsLarge, func() { c.attempt(s, e, now, now == waitsSmall) })
		}
		select {
		case <-e.done:
			return nil
		default:
		}
		if waits.Err() != nil {
			return context.Cause(waits) // it was the caller that has left
		}
		if err != nil {
			return err
		}
	}
}

func (c *Compiler) stageOf(e *entry) (now stage, moved <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return e.stage, e.moved
}

// move begins a stage of a compilation. The caller holds mu.
func (c *Compiler) move(e *entry, to stage) {
	close(e.moved)
	e.stage, e.moved = to, make(chan struct{})
}

// begin reports whether the caller is the one to compile e, which was in the given stage.
func (c *Compiler) begin(e *entry, from stage) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.stage != from || e.users == 0 {
		return false
	}
	c.move(e, runs)
	return true
}

// attempt compiles s for everybody who waits for e, unless another caller does. With small,
// it does so only if s is small.
func (c *Compiler) attempt(s Spec, e *entry, from stage, small bool) {
	if !c.begin(e, from) {
		return
	}
	h := &holding{r: c.account.Open()}
	large := false
	// The error of those who wait if compiling panics.
	e.err = errors.New("grammar: compiling has failed")
	defer func() {
		if large && c.postpone(e) {
			h.close()
			return
		}
		if !c.finish(e, h) {
			h.close()
		}
		close(e.done)
		e.end(nil)
	}()
	work := &meter{
		left: c.cfg.MaxWork, deadline: time.Now().Add(c.cfg.Deadline),
		abandoned: func() bool { return e.ctx.Err() != nil },
		reserve:   func(n int64) error { return h.r.Grow(e.ctx, n) },
	}
	if small && c.cfg.MaxWork > smallWork {
		work.left, work.small = smallWork, true
	}
	e.g, e.err = compileMetered(s, c.voc, c.cfg, work, h)
	if large = errors.Is(e.err, errLarge); e.err != nil {
		return
	}
	// The first mask is filled here and not by the callers, who have no worker. If it has an
	// error, their own fill has it again.
	_ = e.g.NewMatcher().FillPaced(make([]uint32, c.voc.words()), func(bool) bool { return e.ctx.Err() == nil })
}

// postpone makes e wait for its turn among the large compilations. It reports false if
// nobody waits for it any more.
func (c *Compiler) postpone(e *entry) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.users == 0 {
		return false
	}
	c.move(e, waitsLarge)
	return true
}
