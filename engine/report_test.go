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
	"weir/internal/retry"
)

const (
	stepTime = 10 * time.Millisecond
	ms       = time.Millisecond
)

// timed opens an oracle whose steps take stepTime. Its tests run in virtual time.
func timed(spec backend.Spec) opener {
	return configuredOracle(spec, sim.OracleConfig{Hook: func(c sim.Call, _ int) error {
		if c == sim.End {
			time.Sleep(stepTime)
		}
		return nil
	}})
}

// eachDepthTimed runs a test in virtual time, with one and with two steps in flight.
func eachDepthTimed(t *testing.T, f func(t *testing.T, depth int)) {
	eachDepth(t, func(t *testing.T, depth int) {
		synctest.Test(t, func(t *testing.T) { f(t, depth) })
	})
}

// sums adds reports up. The loop writes it, and tests read it when the loop has ended.
type sums struct {
	engine.Report
	gaps int // sum of Gap.N
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

func observe(e runningEngine) *sums {
	s := new(sums)
	e.Observe(s.add)
	return s
}

// TestReportTimes: the times of a request that runs alone, of one that waits for its turn,
// and of one that arrived before it was submitted.
func TestReportTimes(t *testing.T) {
	eachDepthTimed(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{MaxLive: 10, Scheduler: schedulerConfig(100, 1)}, timed(simSpec(100, 16, 100, 4, depth)))
		time.Sleep(time.Hour) // idle time counts for no request
		got := observe(e)
		first, second := request(20, 5), request(30, 3)
		first.Arrived = time.Now().Add(-3 * time.Second)
		e.mustRun(t, first)
		// The same again, and the second has to wait for its 5 steps.
		one, two := e.mustSubmit(t, first), e.mustSubmit(t, second)
		for s, r := range map[*engine.Stream]engine.Request{one: first, two: second} {
			if res := collect(t.Context(), s, job{req: r}); res.err != nil {
				t.Fatal(res.err)
			}
		}
		e.mustStop(t)
		const early = 3 * time.Second // from the arrival of first to its first Submit
		want := []engine.Ended{
			{Reason: engine.Length, Prompt: 20, Output: 5, MaxTokens: 5, N: 1, Longest: 5, Total: early + 50*ms, Prefill: 10 * ms, Decode: 40 * ms},
			{Reason: engine.Length, Prompt: 20, Output: 5, MaxTokens: 5, N: 1, Longest: 5, Total: early + 100*ms, Prefill: 10 * ms, Decode: 40 * ms},
			{Reason: engine.Length, Prompt: 30, Output: 3, MaxTokens: 3, N: 1, Longest: 3, Total: 80 * ms, Queue: 50 * ms, Prefill: 10 * ms, Decode: 20 * ms},
		}
		if !reflect.DeepEqual(got.Ended, want) {
			t.Errorf("ended\n%+v, want\n%+v", got.Ended, want)
		}
		if want := []time.Duration{early + 10*ms, early + 60*ms, 60 * ms}; !reflect.DeepEqual(got.First, want) {
			t.Errorf("times to the first token %v, want %v", got.First, want)
		}
		for _, g := range got.Gaps {
			if g.D != stepTime {
				t.Errorf("a gap of %v", g.D)
			}
		}
		if got.gaps != 4+4+2 || got.Tokens != 13 || got.Prompt != 70 || got.Cached != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestReportPreemption: a request that is preempted, and computes its prompt again, counts
// its prompt once. Only its first wait counts as Queue.
func TestReportPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, engine.Config{MaxLive: 10}, timed(simSpec(9, 16, 200, 4, 1)))
		got := observe(e)
		three := []job{{req: request(17, 60)}, {req: request(17, 60)}, {req: request(17, 60)}}
		for _, res := range runAll(t, e, three) {
			if res.err != nil {
				t.Fatal(res.err)
			}
		}
		if e.Stats().Preemptions == 0 {
			t.Fatal("no request was preempted")
		}
		if got.Prompt != 3*17 || len(got.First) != 3 || got.Tokens != 180 || got.gaps != 3*59 || len(got.Ended) != 3 {
			t.Errorf("%+v", got)
		}
		longest := time.Duration(0)
		for _, d := range got.Ended {
			if d.Queue > stepTime || d.Prefill != stepTime || d.Total != d.Queue+d.Prefill+d.Decode {
				t.Errorf("%+v", d)
			}
			longest = max(longest, d.Decode)
		}
		if longest <= 59*stepTime { // a wait after a preemption is a gap between tokens
			t.Errorf("the longest decode took %v", longest)
		}
	})
}

// TestReportChoices: each choice is counted, and the request once, with its last choice.
func TestReportChoices(t *testing.T) {
	e := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 8, 1)))
	got := observe(e)
	r := request(40, 30)
	r.N, r.Limits.StopIDs, r.Sampling.Temperature = 3, prompt(simVocab/8), 1
	res := e.mustRun(t, r)
	e.mustStop(t)
	longest := 0
	for _, c := range res.choices {
		longest = max(longest, len(c.tokens))
	}
	for i, d := range got.Ended {
		want := engine.Ended{}
		if i == 2 {
			want.N, want.Longest = 3, longest
		}
		if d.N != want.N || d.Longest != want.Longest {
			t.Errorf("end %d of 3: %+v, want N %d and Longest %d", i+1, d, want.N, want.Longest)
		}
	}
	// Two choices share the full blocks of the prompt with the first.
	if len(got.Ended) != 3 || got.Prompt != 120 || got.Cached != 2*32 || len(got.First) != 3 {
		t.Errorf("%+v", got)
	}
}

// TestReportEnds: a request that ends early has the times that it lived to see.
func TestReportEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, engine.Config{MaxLive: 10, Scheduler: schedulerConfig(100, 1)}, timed(simSpec(100, 16, 100, 4, 1)))
		got := observe(e)
		runs, waits := e.mustSubmit(t, request(20, 50)), e.mustSubmit(t, request(20, 50))
		time.Sleep(stepTime * 5 / 2)
		waits.Cancel()
		time.Sleep(stepTime)
		runs.Cancel()
		time.Sleep(stepTime)
		e.mustStop(t)
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
		e := start(t, engine.Config{MaxLive: 10}, configuredOracle(simSpec(100, 16, 100, 4, 1), sim.OracleConfig{Hook: func(c sim.Call, _ int) error {
			if c != sim.End {
				return nil
			}
			time.Sleep(stepTime)
			if steps++; steps == 3 {
				return errors.New("out of order")
			}
			return nil
		}}))
		got := observe(e)
		e.mustSubmit(t, request(20, 50))
		synctest.Wait()
		time.Sleep(4 * stepTime)
		e.mustStop(t)
		want := engine.Ended{Reason: engine.Failed, Prompt: 20, Output: 2, MaxTokens: 50, N: 1, Longest: 2, Total: 3 * stepTime, Prefill: stepTime, Decode: stepTime}
		if len(got.Ended) != 1 || got.Ended[0] != want || e.Stats().Reopened != 1 {
			t.Errorf("%+v, want %+v", got.Ended, want)
		}
	})
}

// TestReportForced: the tokens of one step are one output, however many of them are forced.
func TestReportForced(t *testing.T) {
	e := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, 1)))
	got := observe(e)
	j := job{req: request(20, 60), maskSeed: 5}
	j.req.Limits.EOS = 7
	e.mustRun(t, j.request())
	e.mustStop(t)
	s := e.Stats() // each step gave tokens, because the first one has the whole prompt
	if s.ForcedTokens == 0 || uint64(got.gaps) != s.Steps-1 || uint64(got.Tokens) != s.Steps+s.ForcedTokens {
		t.Errorf("%d gaps and %d tokens in %d steps, %d of them forced", got.gaps, got.Tokens, s.Steps, s.ForcedTokens)
	}
}

// TestCountedBeforeItIsRead: a reader that has a token finds it in the report and in the
// statistics, and with the last token the end of the choice.
func TestCountedBeforeItIsRead(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, depth)))
		var tokens, ended atomic.Int64
		e.Observe(func(r *engine.Report) { tokens.Add(int64(r.Tokens)); ended.Add(int64(len(r.Ended))) })
		taken := int64(0)
		var events engine.Events
		// take reads some events and reports whether the choice has ended.
		take := func(s *engine.Stream) (done bool) {
			if err := s.Next(t.Context(), &events); err != nil {
				t.Fatal(err)
			}
			taken += int64(len(events.Items))
			return events.Items[len(events.Items)-1].Reason != engine.NotDone
		}
		for round := range int64(50) {
			s := e.mustSubmit(t, request(5, 10))
			for done := false; !done; {
				done = take(s)
				if st := e.Stats(); tokens.Load() < taken || done && ended.Load() != round+1 || st.GenerationTokens < uint64(taken) {
					t.Fatalf("round %d: %d tokens are read; %d tokens and %d ends are reported, and the statistics have %d tokens", round, taken, tokens.Load(), ended.Load(), st.GenerationTokens)
				}
			}
		}
		e.mustStop(t)
	})
}

// TestStepBegan: the age of a step does not include the loading of the model, or the time in
// which there was nothing to do.
func TestStepBegan(t *testing.T) {
	eachDepthTimed(t, func(t *testing.T, depth int) {
		open := timed(simSpec(100, 16, 100, 4, depth))
		e := start(t, engine.Config{MaxLive: 10}, func() (backend.Backend, error) {
			time.Sleep(time.Hour)
			return open()
		})
		for range 2 {
			begun := time.Now()
			s := e.mustSubmit(t, request(20, 3))
			for i := range 3 {
				time.Sleep(stepTime / 2)
				if got, want := e.Stats().StepBegan, begun.Add(time.Duration(i)*stepTime); !got.Equal(want) {
					t.Errorf("step %d began at %v, want %v", i, got, want)
				}
				time.Sleep(stepTime / 2)
			}
			if res := collect(t.Context(), s, job{req: request(20, 3)}); res.err != nil {
				t.Fatal(res.err)
			}
			time.Sleep(time.Hour)
			if !e.Stats().StepBegan.IsZero() {
				t.Error("an idle engine has a step")
			}
		}
		e.mustStop(t)
	})
}

// TestFullSaysWhenToRetry: who is refused, or gives up its place, is told how long the tokens
// before its own take, as fast as tokens were computed before. Idle time does not count.
func TestFullSaysWhenToRetry(t *testing.T) {
	eachDepthTimed(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{MaxLive: 6}, timed(simSpec(100, 16, 100, 1, depth)))
		if e.Stats().Speed != 0 {
			t.Error("there is a speed before the first step")
		}
		refused := func(err error, least, most float64) {
			t.Helper()
			if got := retry.Of(err).Seconds(); !errors.Is(err, engine.ErrFull) || got < least || got > most {
				t.Errorf("%v after %v s, want %v to %v", err, got, least, most)
			}
		}
		submit := func(tenant string, r engine.Request) (*engine.Stream, error) {
			return e.Submit(accounted(r, tenant, ""))
		}
		var streams []*engine.Stream
		fill := func(n int, r engine.Request) {
			for range n {
				s, err := submit("A", r)
				if err != nil {
					t.Fatal(err)
				}
				streams = append(streams, s)
			}
		}
		fill(6, request(20, 4))
		_, err := submit("A", request(20, 4))
		refused(err, 0, 0)
		drain(t, streams)
		time.Sleep(time.Hour)
		speed := e.Stats().Speed // 23 tokens in four steps of 10 ms
		if speed < 500 || speed > 600 {
			t.Errorf("%v tokens per second", speed)
		}
		streams = nil
		fill(6, request(20, 100))
		_, err = submit("A", request(20, 100))
		refused(err, 5*120/speed, 6*120/speed) // of the first one, half is taken as computed
		if _, err = submit("B", request(20, 4)); err != nil {
			t.Error(err)
		}
		refused(drain(t, streams[5:]), 3*120/speed, 5.5*120/speed) // speed has changed
		for _, s := range streams {
			s.Cancel()
		}
		e.mustStop(t)
	})
}

// drain reads streams to their ends, and returns an error that one has ended with.
func drain(t *testing.T, streams []*engine.Stream) (err error) {
	t.Helper()
	for _, s := range streams {
		if r := collect(t.Context(), s, job{}); r.err != nil {
			err = r.err
		}
	}
	return err
}
