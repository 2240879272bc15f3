package engine_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"weir/backend/sim"
	"weir/engine"
)

// TestFlightRecorder: the recorder has a line for each step, with its tokens, and keeps the newest
// thousand, also while others read it.
func TestFlightRecorder(t *testing.T) {
	for _, depth := range []int{1, 2} {
		e := start(t, engine.Config{MaxLive: 100}, oracle(simSpec(100, 16, 64, 4, depth)))
		var readers sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		readers.Go(func() {
			for ctx.Err() == nil && consecutive(t, e.Steps(nil)) {
			}
		})
		e.together(t, 100, 10, 3) // prompts that need several steps
		for e.Stats().Running > 0 {
		}
		prefill, decode := 0, 0
		for _, r := range e.Steps(nil) {
			prefill, decode = prefill+r.Prefill, decode+r.Decode
			checkStep(t, depth, r)
		}
		// The first token of each comes with its prompt. With two steps in flight some are computed for
		// sequences that have ended.
		if prefill != 300 || decode < 27 || decode > 27+3*(depth-1) {
			t.Errorf("depth %d: %d and %d tokens", depth, prefill, decode)
		}
		for range 25 {
			e.together(t, 2, 60, 1)
		}
		steps := e.Steps(nil)
		if len(steps) != 1000 || steps[999].Step < 1400 || steps[999].Waiting != 0 || steps[500].State != engine.StepEnded {
			t.Errorf("depth %d: %d steps, the last is %+v", depth, len(steps), steps[len(steps)-1])
		}
		cancel()
		readers.Wait()
		if err := e.stop(); err != nil {
			t.Error(err)
		}
	}
}

// together runs n requests at a time.
func (e runningEngine) together(t *testing.T, prompts, tokens, n int) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		s := e.mustSubmit(t, request(prompts, tokens))
		wg.Go(func() { collect(context.Background(), s, job{req: request(prompts, tokens)}) })
	}
	wg.Wait()
}

// consecutive checks that no step is missing between two others.
func consecutive(t *testing.T, steps []engine.StepRecord) bool {
	for i := 1; i < len(steps); i++ {
		if steps[i].Step != steps[i-1].Step+1 {
			t.Errorf("step %d is followed by step %d", steps[i-1].Step, steps[i].Step)
			return false
		}
	}
	return true
}

// checkStep checks what holds for every step of TestFlightRecorder.
func checkStep(t *testing.T, depth int, r engine.StepRecord) {
	t.Helper()
	want := "mixed"
	switch {
	case r.Decode == 0:
		want = "prefill"
	case r.Prefill == 0:
		want = "decode"
	}
	if r.Kind != want || r.Sequences < 1 || r.Sequences > 4 || r.Prefill+r.Decode > 64 || r.MaskedDraws != 0 {
		t.Errorf("depth %d: %+v", depth, r)
	}
	if r.BlocksUsed < 1 || r.BlocksTotal != 99 || r.Planned.IsZero() || r.Plan <= 0 || r.Running < 1 {
		t.Errorf("depth %d: %+v", depth, r)
	}
	if r.State == engine.StepEnded && (r.Wait <= 0 || r.Draw <= 0 || r.Book <= 0) {
		t.Errorf("depth %d, times: %+v", depth, r)
	}
}

// TestFlightFailure: a step that fails is marked.
func TestFlightFailure(t *testing.T) {
	for _, depth := range []int{1, 2} {
		ends := 0
		e := start(t, engine.Config{MaxLive: 10}, configuredOracle(simSpec(100, 16, 64, 4, depth), sim.OracleConfig{Hook: func(c sim.Call, _ int) error {
			if c == sim.End {
				if ends++; ends == 3 {
					return errors.New("broken")
				}
			}
			return nil
		}}))
		collect(context.Background(), e.mustSubmit(t, request(5, 10)), job{req: request(5, 10)})
		collect(context.Background(), e.mustSubmit(t, request(5, 2)), job{req: request(5, 2)})
		var states []engine.StepState
		for _, r := range e.Steps(nil) {
			states = append(states, r.State)
		}
		if err := e.stop(); err != nil {
			t.Error(err)
		}
		if len(states) < 5 || states[1] != engine.StepEnded || states[2] != engine.StepFailed || states[1+depth] != engine.StepFailed || states[2+depth] != engine.StepEnded {
			t.Errorf("depth %d: %v", depth, states)
		}
	}
}

// TestStepsAfter: steps that were had already are left out, and none is lost between two questions.
func TestStepsAfter(t *testing.T) {
	e := start(t, engine.Config{MaxLive: 100}, oracle(simSpec(100, 16, 64, 4, 1)))
	var all []engine.StepRecord
	for range 3 {
		e.together(t, 2, 10, 2)
		last := uint64(0)
		if len(all) > 0 {
			last = all[len(all)-1].Step
		}
		all = e.StepsAfter(all, last)
	}
	for i := range all {
		if all[i].Step != uint64(i+1) {
			t.Fatalf("step %d is number %d", i+1, all[i].Step)
		}
	}
	if len(all) < 30 || len(e.StepsAfter(nil, all[len(all)-1].Step)) != 0 {
		t.Errorf("%d steps", len(all))
	}
	if got := e.StepsAfter(nil, 1<<40); len(got) != 0 {
		t.Errorf("%d steps after one that is to come", len(got))
	}
	if err := e.stop(); err != nil {
		t.Error(err)
	}
}
