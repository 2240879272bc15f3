package engine

import (
	"context"
	"errors"
)

// ErrBusy says that the prefix cache was kept: blocks of it are in use.
var ErrBusy = errors.New("engine: KV blocks are in use")

// forget is a call of ForgetPrefixes.
type forget struct {
	force bool
	done  chan bool // capacity 1: whether the cache is empty; closed without a word when the engine stops
}

// ForgetPrefixes empties the prefix cache between two steps. While requests run
// it returns ErrBusy, unless force: those are preempted then, and go on from
// their tokens. It waits for the step that is under way, but not beyond ctx.
func (e *Engine) ForgetPrefixes(ctx context.Context, force bool) error {
	f := &forget{force: force, done: make(chan bool, 1)}
	select {
	case <-e.ready:
	default:
		return ErrLoading
	}
	if err := e.post(func() error { e.mu.forgets = append(e.mu.forgets, f); return nil }); err != nil {
		return err
	}
	select {
	case done, answered := <-f.done:
		switch {
		case !answered:
			return ErrStopped
		case !done:
			return ErrBusy
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// forget answers the calls of ForgetPrefixes. A step in flight holds blocks, so
// it is ended first: at two steps in flight the device waits for the host here,
// which is why this is no call for a server under load.
func (e *Engine) forget() error {
	e.mu.Lock()
	calls := e.mu.forgets
	e.mu.forgets = nil
	e.mu.Unlock()
	if len(calls) == 0 {
		return nil
	}
	var err error
	if f := e.flying; f != nil {
		e.flying = nil
		err = e.land(f)
		e.signal()
	}
	for _, c := range calls {
		c.done <- err == nil && e.sched.ForgetPrefixes(c.force)
	}
	return err
}
