package engine_test

import (
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
)

const stepTime = 10 * time.Millisecond

// timed is an oracle whose steps take stepTime, in a bubble of virtual time.
func timed(spec backend.Spec) func() (backend.Backend, error) {
	return func() (backend.Backend, error) {
		return sim.NewOracle(spec, sim.OracleConfig{Hook: func(c sim.Call, _ int) error {
			if c == sim.End {
				time.Sleep(stepTime)
			}
			return nil
		}})
	}
}

// sums adds reports up. Only the loop touches it; tests look when it has ended.
type sums struct {
	engine.Report
	gaps int
}

func (s *sums) add(r *engine.Report) {
	s.Tokens += r.Tokens
	s.Prompt += r.Prompt
	s.Cached += r.Cached
	s.First = append(s.First, r.First...)
	s.Gaps = append(s.Gaps, r.Gaps...)
	s.Ended = append(s.Ended, r.Ended...)
	for _, g := range r.Gaps {
		s.gaps += g.N
	}
}

func observed(h house) *sums {
	s := new(sums)
	h.Observe(s.add)
	return s
}

// TestReportTimes: what is counted of requests that run alone, wait for their
// turn, and came in before they were submitted.
func TestReportTimes(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		synctest.Test(t, func(t *testing.T) {
			h := start(t, engine.Config{MaxLive: 10, Scheduler: schedulerConfig(100, 1)}, timed(simSpec(100, 16, 100, 4, depth)))
			time.Sleep(time.Hour) // idle time is nobody's
			got := observed(h)
			first, second := ask(20, 5), ask(30, 3)
			first.Arrived = time.Now().Add(-3 * time.Second)
			mustCollect(t, h, first)
			const wait = 5 * stepTime // the first one's
			one, err := h.Submit(first)
			if err != nil {
				t.Fatal(err)
			}
			two, err := h.Submit(second)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				s *engine.Stream
				r engine.Request
			}{{one, first}, {two, second}} {
				if res := collect(t.Context(), c.s, job{req: c.r}); res.err != nil {
					t.Fatal(res.err)
				}
			}
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			const ms = time.Millisecond
			late := 3*time.Second + 50*ms // the first run
			want := []engine.Ended{
				{Reason: engine.Length, Prompt: 20, Output: 5, MaxTokens: 5, N: 1, Longest: 5, Total: 3*time.Second + 50*ms, Prefill: 10 * ms, Decode: 40 * ms},
				{Reason: engine.Length, Prompt: 20, Output: 5, MaxTokens: 5, N: 1, Longest: 5, Total: late + 50*ms, Prefill: 10 * ms, Decode: 40 * ms},
				{Reason: engine.Length, Prompt: 30, Output: 3, MaxTokens: 3, N: 1, Longest: 3, Total: wait + 30*ms, Queue: wait, Prefill: 10 * ms, Decode: 20 * ms},
			}
			if !reflect.DeepEqual(got.Ended, want) {
				t.Errorf("depth %d:\n%+v, want\n%+v", depth, got.Ended, want)
			}
			if want := []time.Duration{3*time.Second + 10*ms, late + 10*ms, wait + 10*ms}; !reflect.DeepEqual(got.First, want) {
				t.Errorf("depth %d: first %v, want %v", depth, got.First, want)
			}
			for _, g := range got.Gaps {
				if g.D != stepTime {
					t.Errorf("depth %d: gap %v", depth, g.D)
				}
			}
			if got.gaps != 4+4+2 || got.Tokens != 13 || got.Prompt != 70 || got.Cached != 0 {
				t.Errorf("depth %d: %+v", depth, got)
			}
		})
	}
}

// TestReportPreemption: a request that loses its blocks and computes its prompt
// again counts its prompt once, and of its waits the first.
func TestReportPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, engine.Config{MaxLive: 10}, timed(simSpec(9, 16, 200, 4, 1)))
		got := observed(h)
		var jobs []job
		for range 3 {
			jobs = append(jobs, job{req: ask(17, 60)})
		}
		for _, res := range runAll(t, h, jobs) {
			if res.err != nil {
				t.Fatal(res.err)
			}
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		if h.Stats().Preemptions == 0 {
			t.Fatal("nobody was preempted")
		}
		if got.Prompt != 3*17 || len(got.First) != 3 || got.Tokens != 180 || got.gaps != 3*59 || len(got.Ended) != 3 {
			t.Errorf("%+v", got)
		}
		longest := time.Duration(0)
		for _, e := range got.Ended {
			if e.Queue > stepTime || e.Prefill != stepTime || e.Total != e.Queue+e.Prefill+e.Decode {
				t.Errorf("%+v", e)
			}
			longest = max(longest, e.Decode)
		}
		if longest <= 59*stepTime { // the wait behind a preemption is a gap between tokens
			t.Errorf("the longest decode took %v", longest)
		}
	})
}

// TestReportChoices: choices count one by one, their request once, when the
// last has ended.
func TestReportChoices(t *testing.T) {
	h := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 8, 1)))
	got := observed(h)
	r := ask(40, 30)
	r.N, r.Limits.StopIDs, r.Sampling.Temperature = 3, prompt(simVocab/8), 1
	res := mustCollect(t, h, r)
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	longest, parents := 0, 0
	for _, c := range res.choices {
		longest = max(longest, len(c.tokens))
	}
	for i, e := range got.Ended {
		if e.N > 0 {
			parents++
			if i != 2 || e.N != 3 || e.Longest != longest {
				t.Errorf("%d: %+v", i, e)
			}
		}
	}
	// The two that came later share the prompt's full blocks with the first.
	if parents != 1 || len(got.Ended) != 3 || got.Prompt != 120 || got.Cached != 2*32 || len(got.First) != 3 {
		t.Errorf("%+v", got)
	}
}

// TestReportEnds: what ends early has the times that it got to.
func TestReportEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, engine.Config{MaxLive: 10, Scheduler: schedulerConfig(100, 1)}, timed(simSpec(100, 16, 100, 4, 1)))
		got := observed(h)
		runs, err := h.Submit(ask(20, 50))
		if err != nil {
			t.Fatal(err)
		}
		waits, err := h.Submit(ask(20, 50))
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(stepTime * 5 / 2)
		waits.Cancel()
		time.Sleep(stepTime)
		runs.Cancel()
		time.Sleep(stepTime)
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		want := []engine.Ended{
			{Reason: engine.Aborted, Prompt: 20, MaxTokens: 50, N: 1, Total: 3 * stepTime, Queue: -1, Prefill: -1, Decode: -1},
			{Reason: engine.Aborted, Prompt: 20, Output: 4, MaxTokens: 50, N: 1, Longest: 4, Total: 4 * stepTime, Prefill: stepTime, Decode: 3 * stepTime},
		}
		if !reflect.DeepEqual(got.Ended, want) {
			t.Errorf("%+v\nwant %+v", got.Ended, want)
		}
	})
}

// TestReportFailure: a step that fails ends its requests with the times so far.
func TestReportFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := 0
		h := start(t, engine.Config{MaxLive: 10}, func() (backend.Backend, error) {
			return sim.NewOracle(simSpec(100, 16, 100, 4, 1), sim.OracleConfig{Hook: func(c sim.Call, _ int) error {
				if c != sim.End {
					return nil
				}
				time.Sleep(stepTime)
				if steps++; steps == 3 {
					return errors.New("out of order")
				}
				return nil
			}})
		})
		got := observed(h)
		if _, err := h.Submit(ask(20, 50)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(4 * stepTime)
		want := engine.Ended{Reason: engine.Failed, Prompt: 20, Output: 2, MaxTokens: 50, N: 1, Longest: 2, Total: 3 * stepTime, Prefill: stepTime, Decode: stepTime}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		if len(got.Ended) != 1 || got.Ended[0] != want || h.Stats().Reopened != 1 {
			t.Errorf("%+v, want %+v", got.Ended, want)
		}
	})
}

// TestReportForced: the tokens of a step are one output, however many a mask
// forces.
func TestReportForced(t *testing.T) {
	h := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, 1)))
	got := observed(h)
	j := job{req: ask(20, 60), rule: 5}
	j.req.Limits.EOS = 7
	s, err := h.Submit(j.request())
	if err != nil {
		t.Fatal(err)
	}
	if res := collect(t.Context(), s, j); res.err != nil {
		t.Fatal(res.err)
	}
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	st := h.Stats()
	steps := st.Steps // each gave tokens: the prompt fits the first
	if st.ForcedTokens == 0 || uint64(got.gaps) != steps-1 || uint64(got.Tokens) != steps+st.ForcedTokens {
		t.Errorf("%d gaps and %d tokens in %d steps; %d forced", got.gaps, got.Tokens, steps, st.ForcedTokens)
	}
}

// TestCountedBeforeItIsRead: whoever has a token finds it in the report and in
// the statistics, and whoever has the last finds the choice ended.
func TestCountedBeforeItIsRead(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		h := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, depth)))
		var tokens, ended atomic.Int64
		h.Observe(func(r *engine.Report) { tokens.Add(int64(r.Tokens)); ended.Add(int64(len(r.Ended))) })
		taken := int64(0)
		for round := range int64(50) {
			s, err := h.Submit(ask(5, 10))
			if err != nil {
				t.Fatal(err)
			}
			var ev engine.Events
			for done := false; !done; {
				if err := s.Next(t.Context(), &ev); err != nil {
					t.Fatal(err)
				}
				for _, e := range ev.Items {
					taken++
					done = e.Reason != engine.NotDone
				}
				if st := h.Stats(); tokens.Load() < taken || done && ended.Load() != round+1 || st.GenerationTokens < uint64(taken) {
					t.Fatalf("depth %d, round %d: %d tokens and %d ends reported, %d tokens in %+v, but %d read", depth, round, tokens.Load(), ended.Load(), st.GenerationTokens, st, taken)
				}
			}
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPulse: a step's age is its own, however long the model took to load or
// the engine had nothing to do.
func TestPulse(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		synctest.Test(t, func(t *testing.T) {
			open := timed(simSpec(100, 16, 100, 4, depth))
			h := start(t, engine.Config{MaxLive: 10}, func() (backend.Backend, error) {
				time.Sleep(time.Hour)
				return open()
			})
			for range 2 {
				begun := time.Now()
				s, err := h.Submit(ask(20, 3))
				if err != nil {
					t.Fatal(err)
				}
				for i := range 3 {
					time.Sleep(stepTime / 2)
					if got, want := h.Stats().StepBegan, begun.Add(time.Duration(i)*stepTime); !got.Equal(want) {
						t.Errorf("depth %d: step %d began at %v, want %v", depth, i, got, want)
					}
					time.Sleep(stepTime / 2)
				}
				if res := collect(t.Context(), s, job{req: ask(20, 3)}); res.err != nil {
					t.Fatal(res.err)
				}
				time.Sleep(time.Hour)
				if !h.Stats().StepBegan.IsZero() {
					t.Errorf("depth %d: an idle engine has a step", depth)
				}
			}
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}
