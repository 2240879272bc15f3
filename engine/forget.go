package engine

import (
	"context"
	"errors"
)

// ErrBusy says that the prefix cache was kept because some of its blocks are in use.
var ErrBusy = errors.New("engine: KV blocks are in use")

// forgetCall is a call of ForgetPrefixes that waits for the loop.
type forgetCall struct {
	force bool
	done  chan bool // capacity 1: whether the cache was emptied; closed if the engine stops
}

// ForgetPrefixes empties the prefix cache between two steps, and with it Config.Offload (Offload.Drop). If requests are running, it
// returns ErrBusy; with force it preempts them, and they go on from their tokens. It waits
// until the step that is being computed has ended, or ctx ends.
func (e *Engine) ForgetPrefixes(ctx context.Context, force bool) error {
	f := &forgetCall{force: force, done: make(chan bool, 1)}
	select {
	case <-e.ready:
	default:
		return ErrLoading
	}
	if err := e.post(func() error { e.mu.forgets = append(e.mu.forgets, f); return nil }); err != nil {
		return err
	}
	select {
	case emptied, answered := <-f.done:
		switch {
		case !answered:
			return ErrStopped
		case !emptied:
			return ErrBusy
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// forget answers the calls of ForgetPrefixes. A step in flight holds blocks, so it is
// finished first. With two steps in flight the device then has to wait for the host,
// which is why this should not be called often on a server under load.
func (e *Engine) forget() error {
	e.mu.Lock()
	calls := e.mu.forgets
	e.mu.forgets = nil
	e.mu.Unlock()
	if len(calls) == 0 {
		return nil
	}
	var err error
	if s := e.inFlight; s != nil {
		e.inFlight = nil
		err = e.finish(s)
		e.signal()
	}
	for _, c := range calls {
		emptied := err == nil && e.sched.ForgetPrefixes(c.force)
		if emptied {
			e.forgetCopies()
		}
		c.done <- emptied
	}
	return err
}
