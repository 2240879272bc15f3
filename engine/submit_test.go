package engine_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
)

// TestSubmitRefuses: a request is refused before the backend is open, after the engine has
// stopped, when the engine is full, and if it is invalid.
func TestSubmitRefuses(t *testing.T) {
	opening, gate := make(chan struct{}), make(chan struct{})
	e := engine.New(engine.Config{MaxLive: 3}, func() (backend.Backend, error) {
		<-opening
		return sim.NewOracle(simSpec(5, 16, 100, 4, 1), sim.OracleConfig{Hook: func(sim.Call, int) error { <-gate; return nil }})
	})
	ctx, cancel := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	if _, err := e.Submit(request(5, 5)); !errors.Is(err, engine.ErrLoading) {
		t.Errorf("while the backend opens: %v", err)
	}
	close(opening)
	<-e.Ready()
	checkInvalid(t, e)

	r := request(5, 40)
	r.N = 3
	s, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Submit(request(5, 5)); !errors.Is(err, engine.ErrFull) {
		t.Errorf("when the engine is full: %v", err)
	}
	s.Cancel() // is never refused, not even now
	s.Cancel()
	close(gate) // no choice has come to its end before
	for e.Stats().Finished[engine.Aborted] != 3 {
		runtime.Gosched()
	}
	if s, err := e.Submit(request(5, 5)); err != nil {
		t.Errorf("after the abort: %v", err)
	} else if r := collect(ctx, s, job{req: request(5, 5)}); r.err != nil {
		t.Error(r.err)
	}
	cancel()
	loop.Wait()
	if _, err := e.Submit(request(5, 5)); !errors.Is(err, engine.ErrStopped) {
		t.Errorf("when the engine has stopped: %v", err)
	}
}

func checkInvalid(t *testing.T, e *engine.Engine) {
	t.Helper()
	for name, change := range map[string]func(*engine.Request){
		"no prompt":             func(r *engine.Request) { r.Tokens = nil },
		"no output":             func(r *engine.Request) { r.Limits.MaxTokens = 0 },
		"longer than sequences": func(r *engine.Request) { r.Limits.MaxTokens = simLen },
		"integer overflow":      func(r *engine.Request) { r.Limits.MaxTokens = math.MaxInt },
		"more than all blocks":  func(r *engine.Request) { r.Limits.MaxTokens = 70 },
		"token too large":       func(r *engine.Request) { r.Tokens = []int32{simVocab} },
		"token negative":        func(r *engine.Request) { r.Tokens = []int32{-1} },
		"temperature":           func(r *engine.Request) { r.Sampling.Temperature = -1 },
		"pattern too long":      func(r *engine.Request) { r.Limits.Repetition = engine.Repetition{MaxPattern: 4096, MinCount: 2} },
		"one copy":              func(r *engine.Request) { r.Limits.Repetition = engine.Repetition{MaxPattern: 4, MinCount: 1} },
		"prompt scores":         func(r *engine.Request) { r.Prompt = &engine.PromptScores{Top: simVocab + 1} },
	} {
		r := request(5, 5)
		change(&r)
		if s, err := e.Submit(r); !errors.Is(err, engine.ErrInvalid) || s != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSubmitAll: requests that share a stream get what each of them gets alone. Choices are
// numbered consecutively, cached tokens add up, and each request has scores of its own.
func TestSubmitAll(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		spec := simSpec(100, 16, 1000, 16, depth)
		rs := []engine.Request{request(40, 5), request(7, 9), request(40, 3), request(1, 4)}
		rs[0].Prompt = &engine.PromptScores{Top: 2, Mode: backend.RawLogprobs}
		rs[1].N = 3
		rs[3].Prompt = &engine.PromptScores{Top: 1, Mode: backend.RawLogprobs}
		var want []answer
		var scores [][]engine.PromptLogprob
		for _, r := range rs {
			e := start(t, engine.Config{MaxLive: 100}, oracle(spec))
			res := e.mustRun(t, r)
			e.mustStop(t)
			want, scores = append(want, res.choices...), append(scores, res.prompt)
		}
		e := start(t, engine.Config{MaxLive: 6, Caching: true}, oracle(spec))
		for round := range 2 {
			s, err := e.SubmitAll(slices.Clone(rs))
			if err != nil {
				t.Fatal(err)
			}
			got := collect(t.Context(), s, job{req: engine.Request{N: len(want)}})
			if got.err != nil || !reflect.DeepEqual(got.choices, want) {
				t.Errorf("error %v, choices\n%+v, want\n%+v", got.err, got.choices, want)
			}
			for i := range rs {
				if !reflect.DeepEqual(s.PromptLogprobs(i), scores[i]) {
					t.Errorf("scores of request %d: %+v, want %+v", i, s.PromptLogprobs(i), scores[i])
				}
			}
			// In the second round the third prompt finds two blocks. The first one is the same,
			// but does not read the cache because of its scores.
			if round == 1 && s.Cached() != 32 {
				t.Errorf("%d cached tokens, want 32", s.Cached())
			}
		}
		e.mustStop(t)
	})
}

// TestSubmitAllOrNone: requests of which not all fit, or of which one is invalid, are
// refused together; cancelling ends them together.
func TestSubmitAllOrNone(t *testing.T) {
	gate := make(chan struct{})
	e := start(t, engine.Config{MaxLive: 4}, configuredOracle(simSpec(100, 16, 1000, 16, 1), sim.OracleConfig{Hook: func(sim.Call, int) error { <-gate; return nil }}))
	two := request(5, 50)
	two.N = 2
	if _, err := e.SubmitAll([]engine.Request{two, two, request(5, 5)}); !errors.Is(err, engine.ErrFull) {
		t.Errorf("five choices: %v", err)
	}
	if _, err := e.SubmitAll([]engine.Request{two, {}}); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("an invalid request: %v", err)
	}
	if _, err := e.SubmitAll(nil); !errors.Is(err, engine.ErrInvalid) {
		t.Errorf("no request: %v", err)
	}
	s, err := e.SubmitAll([]engine.Request{two, two}) // what was refused takes no place
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Submit(request(5, 5)); !errors.Is(err, engine.ErrFull) {
		t.Errorf("when the engine is full: %v", err)
	}
	s.Cancel()
	close(gate)
	for e.Stats().Finished[engine.Aborted] != 4 {
		runtime.Gosched()
	}
	e.mustStop(t)
}
