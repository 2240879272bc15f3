package engine_test

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"

	"weir/backend/sim"
	"weir/engine"
)

// steppedEngine is an engine whose steps can be run one by one.
type steppedEngine struct {
	runningEngine
	gate    chan struct{}
	stepped bool // steps wait for gate; written only while the loop is blocked
}

func startStepped(t *testing.T, depth int) *steppedEngine {
	t.Helper()
	e := &steppedEngine{gate: make(chan struct{})}
	e.runningEngine = start(t, engine.Config{MaxLive: 10, Caching: true}, configuredOracle(simSpec(100, 16, 1000, 16, depth), sim.OracleConfig{Hook: func(c sim.Call, _ int) error {
		if e.stepped && c == sim.End {
			<-e.gate
		}
		return nil
	}}))
	return e
}

// forget calls ForgetPrefixes and returns a channel for its result, when the call waits or
// has returned.
func (e *steppedEngine) forget(ctx context.Context, force bool) <-chan error {
	done := make(chan error, 1)
	go func() { done <- e.ForgetPrefixes(ctx, force) }()
	synctest.Wait()
	return done
}

// wantCached runs a request of 40 prompt tokens, of which this many must be in the cache.
func (e *steppedEngine) wantCached(t *testing.T, want int) {
	t.Helper()
	s := e.mustSubmit(t, request(40, 3))
	if res := collect(t.Context(), s, job{req: request(40, 3)}); res.err != nil || s.Cached() != want {
		t.Errorf("error %v, %d tokens cached, want %d", res.err, s.Cached(), want)
	}
}

// TestForgetPrefixes (docs/interface/chat-completions.md, section 14): the prefix cache is
// kept while blocks are in use. With force, requests that run start over, and their answers
// stay the same.
func TestForgetPrefixes(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		synctest.Test(t, func(t *testing.T) { testForgetPrefixes(t, depth) })
	})
}

func testForgetPrefixes(t *testing.T, depth int) {
	e := startStepped(t, depth)
	e.wantCached(t, 0)
	e.wantCached(t, 32)
	if err := <-e.forget(t.Context(), false); err != nil {
		t.Errorf("while the engine is idle: %v", err)
	}
	e.wantCached(t, 0)

	long := request(50, 40)
	long.N = 3
	want := e.mustRun(t, long)
	synctest.Wait()
	e.stepped = true
	s := e.mustSubmit(t, long)
	for range 5 { // steps
		synctest.Wait()
		e.gate <- struct{}{}
	}
	synctest.Wait() // a step is being computed; at depth 2 another one is in flight
	ended, end := context.WithCancel(t.Context())
	end()
	if err := <-e.forget(ended, false); !errors.Is(err, context.Canceled) {
		t.Errorf("when its context has ended, the call returns %v", err)
	}
	unforced, forced := e.forget(t.Context(), false), e.forget(t.Context(), true)
	select {
	case err := <-unforced:
		t.Errorf("answered before the step has ended: %v", err)
	case err := <-forced:
		t.Errorf("answered before the step has ended: %v", err)
	default:
	}
	close(e.gate)
	if err := <-unforced; !errors.Is(err, engine.ErrBusy) {
		t.Errorf("while requests run: %v", err)
	}
	if err := <-forced; err != nil {
		t.Errorf("with force: %v", err)
	}
	if res := collect(t.Context(), s, job{req: long}); res.err != nil || !reflect.DeepEqual(res.choices, want.choices) {
		t.Errorf("error %v, or another answer after ForgetPrefixes", res.err)
	}
	if n := e.Stats().Preemptions; n != 3 {
		t.Errorf("%d preemptions, want 3", n)
	}
	e.mustStop(t)
	if err := e.ForgetPrefixes(t.Context(), true); !errors.Is(err, engine.ErrStopped) {
		t.Errorf("when the engine has stopped: %v", err)
	}
}
