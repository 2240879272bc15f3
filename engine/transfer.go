package engine

import (
	"context"

	"weir/kvcache"
	"weir/scheduler"
)

// PrefixKeys are the keys of all that may be found of a prompt with a salt, in the order of positions; see kvcache.AppendChain. The engine
// has to be ready. Any goroutine may call it.
func (e *Engine) PrefixKeys(tokens []int32, salt [16]byte) []kvcache.Key {
	s := &e.spec
	root := scheduler.Root(salt, s.LongAfter > 0 && len(tokens) > s.LongAfter)
	return kvcache.AppendChain(nil, tokens, root, s.BlockTokens, s.NumGroups(), s.StateSlots > 0)
}

// CopiesOut waits until all that had been published when it was called has been copied out that Config.Offload wants and has memory for, the engine
// stops, or ctx ends.
func (e *Engine) CopiesOut(ctx context.Context) error {
	if !e.Offloads() {
		return nil
	}
	done := make(chan struct{})
	if err := e.post(func() error { e.mu.copies = append(e.mu.copies, done); return nil }); err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// copiedOut answers the calls of CopiesOut.
func (e *Engine) copiedOut() {
	e.mu.Lock()
	calls := e.mu.copies
	e.mu.copies = nil
	e.mu.Unlock()
	for _, done := range calls {
		close(done)
	}
}
