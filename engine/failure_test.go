package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
)

// pausedAt opens an oracle that pauses in the End of step n, counted from 1: it closes
// reached, waits until release is closed, and returns err. It cannot be opened twice; the
// second time open returns reopenErr.
type pausedAt struct {
	n                int
	reached, release chan struct{}
	err, reopenErr   error
	ends, opened     int
}

func (p *pausedAt) open() (backend.Backend, error) {
	if p.opened++; p.opened > 1 {
		return (*sim.Oracle)(nil), p.reopenErr // as functions do that return another one's two results
	}
	return sim.NewOracle(simSpec(100, 16, 100, 2, 2), sim.OracleConfig{Hook: p.hook})
}

func (p *pausedAt) hook(c sim.Call, _ int) error {
	if c != sim.End {
		return nil
	}
	if p.ends++; p.ends != p.n {
		return nil
	}
	close(p.reached)
	<-p.release
	return p.err
}

// submitFour submits four requests, of which two can run at a time, and returns a function
// that waits for their results.
func submitFour(t *testing.T, e runningEngine) (wait func() []result) {
	t.Helper()
	results := make([]result, 4)
	var wg sync.WaitGroup
	for i := range results {
		s := e.mustSubmit(t, request(5, 100))
		wg.Go(func() { results[i] = collect(context.Background(), s, job{req: request(5, 100)}) })
	}
	return func() []result { wg.Wait(); return results }
}

// TestStopEndsAllRequests: when the engine is stopped, every request gets a last event.
func TestStopEndsAllRequests(t *testing.T) {
	p := &pausedAt{n: 5, reached: make(chan struct{}), release: make(chan struct{})}
	e := start(t, engine.Config{MaxLive: 10}, p.open)
	wait := submitFour(t, e)
	<-p.reached
	e.cancel()
	close(p.release)
	for i, r := range wait() {
		if r.choices[0].reason != engine.Aborted || r.err != nil {
			t.Errorf("request %d: reason %v, error %v", i, r.choices[0].reason, r.err)
		}
	}
	e.mustStop(t)
}

// TestFailureForGood: when a step fails and the backend cannot be opened again, every
// request gets a last event with the error. Those of the failed step get its error.
func TestFailureForGood(t *testing.T) {
	failed, gone := errors.New("a step fails"), errors.New("no device any more")
	p := &pausedAt{n: 5, reached: make(chan struct{}), release: make(chan struct{}), err: failed, reopenErr: gone}
	e := start(t, engine.Config{MaxLive: 10}, p.open)
	wait := submitFour(t, e)
	<-p.reached
	close(p.release)
	inStep := 0
	for i, r := range wait() {
		if r.choices[0].reason != engine.Failed || !errors.Is(r.err, failed) {
			t.Errorf("request %d: reason %v, error %v", i, r.choices[0].reason, r.err)
		}
		if !errors.Is(r.err, gone) {
			inStep++
		}
	}
	if inStep < 1 || inStep > 2 {
		t.Errorf("%d requests ended with the failed step, which can have two", inStep)
	}
	if err := e.stop(); !errors.Is(err, gone) {
		t.Errorf("Run returned %v", err)
	}
}

// TestNoLegalToken: a choice whose constraints leave no token ends with an error, and so do
// the other choices of its request.
func TestNoLegalToken(t *testing.T) {
	e := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, 2)))
	defer e.stop()
	r := request(5, 10)
	r.N = 2
	r.Sampling.Allowed = []int32{7}
	r.Sampling.BadWords = [][]int32{{7, 7}}
	res := e.run(t, r)
	if !errors.Is(res.err, engine.ErrNoToken) || res.choices[0].reason != engine.Failed || res.choices[1].reason != engine.Failed {
		t.Errorf("%+v", res)
	}
	if want := []int32{7}; !slices.Equal(res.choices[0].tokens, want) {
		t.Errorf("before the end came %v, want %v", res.choices[0].tokens, want)
	}
	if got := e.mustRun(t, request(5, 3)); len(got.choices[0].tokens) != 3 {
		t.Error("the engine does not go on")
	}
}

// TestFailureEndsAllChoices: when one choice fails, the others of its request end with it,
// although they could go on.
func TestFailureEndsAllChoices(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, depth)))
		r := request(5, 100)
		r.N = 2
		r.Sampling.Allowed = []int32{7, 8}
		r.Sampling.BadWords = [][]int32{{7, 7}, {7, 8}} // after a 7 no token is legal
		uneven := 0
		for seed := range uint64(20) {
			r.Sampling.Seed = seed * 1000
			res := e.run(t, r)
			a, b := res.choices[0], res.choices[1]
			if !errors.Is(res.err, engine.ErrNoToken) || a.reason != engine.Failed || b.reason != engine.Failed {
				t.Fatalf("seed %d: %+v", seed, res)
			}
			if slices.Contains(a.tokens, 7) != slices.Contains(b.tokens, 7) {
				uneven++
			}
		}
		if uneven == 0 {
			t.Error("no choice was ended by the failure of the other")
		}
		e.mustStop(t)
	})
}
