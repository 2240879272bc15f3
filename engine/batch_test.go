package engine_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
)

// TestSubmitAll: requests that share a stream get what each gets alone; choices
// are numbered through; cached tokens add up; scores are each request's own.
func TestSubmitAll(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		rs := []engine.Request{ask(40, 5), ask(7, 9), ask(40, 3), ask(1, 4)}
		rs[0].Prompt = &engine.PromptScores{Top: 2, Mode: backend.RawLogprobs}
		rs[1].N = 3
		rs[3].Prompt = &engine.PromptScores{Top: 1, Mode: backend.RawLogprobs}
		var want []answer
		var scores [][]engine.PromptLogprob
		for _, r := range rs {
			h := start(t, engine.Config{MaxLive: 100}, oracle(simSpec(100, 16, 1000, 16, depth)))
			res := mustCollect(t, h, r)
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			want, scores = append(want, res.choices...), append(scores, res.prompt)
		}
		h := start(t, engine.Config{MaxLive: 6, Caching: true}, oracle(simSpec(100, 16, 1000, 16, depth)))
		for round := range 2 {
			s, err := h.SubmitAll(slices.Clone(rs))
			if err != nil {
				t.Fatal(err)
			}
			all := engine.Request{N: len(want)}
			got := collect(t.Context(), s, job{req: all})
			if got.err != nil || !reflect.DeepEqual(got.choices, want) {
				t.Errorf("depth %d, round %d: %v\n%+v, want\n%+v", depth, round, got.err, got.choices, want)
			}
			for i := range rs {
				if !reflect.DeepEqual(s.PromptLogprobs(i), scores[i]) {
					t.Errorf("depth %d: scores %d: %+v, want %+v", depth, i, s.PromptLogprobs(i), scores[i])
				}
			}
			// The third prompt finds the first one's blocks; the first reads none,
			// for the sake of its scores.
			if round == 1 && s.Cached() != 32 {
				t.Errorf("depth %d: %d cached", depth, s.Cached())
			}
		}
		if err := h.stop(); err != nil {
			t.Error(err)
		}
	}
}

// TestSubmitAllOrNone: a batch that does not fit as a whole, or of which one
// request is bad, leaves no trace; cancelling ends all of it.
func TestSubmitAllOrNone(t *testing.T) {
	gate := make(chan struct{})
	h := start(t, engine.Config{MaxLive: 4}, func() (backend.Backend, error) {
		return sim.NewOracle(simSpec(100, 16, 1000, 16, 1), sim.OracleConfig{Hook: func(sim.Call, int) error { <-gate; return nil }})
	})
	two := ask(5, 50)
	two.N = 2
	if _, err := h.SubmitAll([]engine.Request{two, two, ask(5, 5)}); !errors.Is(err, engine.ErrFull) {
		t.Errorf("five choices: %v", err)
	}
	if _, err := h.SubmitAll([]engine.Request{two, {}}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("a bad request: %v", err)
	}
	if _, err := h.SubmitAll(nil); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("nothing: %v", err)
	}
	s, err := h.SubmitAll([]engine.Request{two, two}) // all four places are free
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Submit(ask(5, 5)); !errors.Is(err, engine.ErrFull) {
		t.Errorf("when full: %v", err)
	}
	s.Cancel()
	close(gate)
	for h.Stats().Finished[engine.Aborted] != 4 {
		runtime.Gosched()
	}
	if err := h.stop(); err != nil {
		t.Error(err)
	}
}

// TestForgetPrefixes (spec chat-completions 14): refused while blocks are in
// use; with force, what runs starts over and says the same; afterwards nothing
// is found.
func TestForgetPrefixes(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		synctest.Test(t, func(t *testing.T) { testForgetPrefixes(t, depth) })
	}
}

func testForgetPrefixes(t *testing.T, depth int) {
	var on bool // read by the loop, written while it is blocked
	gate := make(chan struct{})
	h := start(t, engine.Config{MaxLive: 10, Caching: true}, func() (backend.Backend, error) {
		return sim.NewOracle(simSpec(100, 16, 1000, 16, depth), sim.OracleConfig{Hook: func(c sim.Call, _ int) error {
			if on && c == sim.End {
				<-gate
			}
			return nil
		}})
	})
	cached := func(want int) {
		t.Helper()
		s, err := h.Submit(ask(40, 3))
		if err != nil {
			t.Fatal(err)
		}
		if res := collect(t.Context(), s, job{req: ask(40, 3)}); res.err != nil || s.Cached() != want {
			t.Errorf("depth %d: %v, %d cached, want %d", depth, res.err, s.Cached(), want)
		}
	}
	forget := func(ctx context.Context, force bool) <-chan error {
		done := make(chan error, 1)
		go func() { done <- h.ForgetPrefixes(ctx, force) }()
		synctest.Wait()
		return done
	}
	cached(0)
	cached(32)
	if err := <-forget(t.Context(), false); err != nil { // the engine sleeps
		t.Errorf("depth %d: idle: %v", depth, err)
	}
	cached(0)

	long := ask(50, 40)
	long.N = 3
	want := mustCollect(t, h, long)
	synctest.Wait()
	on = true
	s, err := h.Submit(long)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 { // steps
		synctest.Wait()
		gate <- struct{}{}
	}
	synctest.Wait() // in the middle of a step, at depth 2 with another one behind it
	ended, end := context.WithCancel(t.Context())
	end()
	if err := <-forget(ended, false); !errors.Is(err, context.Canceled) { // does not wait for the step
		t.Errorf("depth %d: %v", depth, err)
	}
	gentle, force := forget(t.Context(), false), forget(t.Context(), true)
	select {
	case err := <-gentle:
		t.Errorf("depth %d: answered within a step: %v", depth, err)
	case err := <-force:
		t.Errorf("depth %d: answered within a step: %v", depth, err)
	default:
	}
	close(gate)
	if err := <-gentle; !errors.Is(err, engine.ErrBusy) {
		t.Errorf("depth %d: busy: %v", depth, err)
	}
	if err := <-force; err != nil {
		t.Errorf("depth %d: force: %v", depth, err)
	}
	if res := collect(t.Context(), s, job{req: long}); res.err != nil || !reflect.DeepEqual(res.choices, want.choices) {
		t.Errorf("depth %d: another answer after ForgetPrefixes: %v", depth, res.err)
	}
	if n := h.Stats().Preemptions; n != 3 {
		t.Errorf("depth %d: %d preemptions", depth, n)
	}
	if err := h.stop(); err != nil {
		t.Error(err)
	}
	if err := h.ForgetPrefixes(t.Context(), true); !errors.Is(err, engine.ErrStopped) {
		t.Errorf("depth %d: stopped: %v", depth, err)
	}
}
