package engine_test

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/internal/invariants"
	"weir/sampler"
	"weir/scheduler"
)

// spy wraps a backend and looks at every call.
type spy struct {
	backend.Backend
	spec  func(backend.Spec) backend.Spec
	begin func(*backend.Batch)
	draw  func(*backend.Draws)
	end   func()
}

func (s *spy) Spec() backend.Spec {
	if s.spec != nil {
		return s.spec(s.Backend.Spec())
	}
	return s.Backend.Spec()
}

func (s *spy) Begin(b *backend.Batch) error {
	if s.begin != nil {
		s.begin(b)
	}
	return s.Backend.Begin(b)
}

func (s *spy) Draw(d *backend.Draws) error {
	if s.draw != nil {
		s.draw(d)
	}
	return s.Backend.Draw(d)
}

func (s *spy) End(o *backend.Out) error {
	if s.end != nil {
		s.end()
	}
	return s.Backend.End(o)
}

func oracle(spec backend.Spec) func() (backend.Backend, error) {
	return func() (backend.Backend, error) { return sim.NewOracle(spec, sim.OracleConfig{}) }
}

func spied(spec backend.Spec, s *spy) func() (backend.Backend, error) {
	return func() (be backend.Backend, err error) {
		s.Backend, err = sim.NewOracle(spec, sim.OracleConfig{})
		return s, err
	}
}

func schedulerConfig(tokens, seqs int) scheduler.Config {
	return scheduler.Config{MaxTokens: tokens, MaxSeqs: seqs}
}

func prompt(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(1 + i%(simVocab-1))
	}
	return ids
}

// ask is a plain request that runs to its limit.
func ask(promptLen, maxTokens int) engine.Request {
	return engine.Request{Tokens: prompt(promptLen), Limits: engine.Limits{MaxTokens: maxTokens, EOS: -1}, Sampling: sampler.DefaultParams()}
}

func mustCollect(t *testing.T, h house, r engine.Request) result {
	t.Helper()
	s, err := h.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	res := collect(t.Context(), s, job{req: r})
	if res.err != nil {
		t.Fatal(res.err)
	}
	return res
}

// TestDeliversBeforeItComputes: with one step in flight, event k is readable
// before the computation of step k+1 starts.
func TestDeliversBeforeItComputes(t *testing.T) {
	const tokens = 20
	var s *engine.Stream
	submitted := make(chan struct{})
	got, steps := 0, 0
	var ev engine.Events
	sp := &spy{end: func() { // the device computes here
		<-submitted
		select {
		case <-s.Ready():
		default:
			if steps > 0 {
				t.Errorf("step %d starts and the reader has not been woken", steps)
			}
		}
		s.Take(&ev)
		if got += len(ev.Items); got != steps {
			t.Errorf("step %d starts and %d events are readable", steps, got)
		}
		steps++
	}}
	h := start(t, engine.Config{MaxLive: 1}, spied(simSpec(100, 16, 100, 4, 1), sp))
	var err error
	if s, err = h.Submit(ask(5, tokens)); err != nil {
		t.Fatal(err)
	}
	close(submitted)
	for h.Stats().Finished[engine.Length] == 0 {
		runtime.Gosched()
	}
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	if steps != tokens {
		t.Errorf("%d steps", steps)
	}
}

// TestChoicesShareThePrompt: n > 1 computes the prompt once, without any prefix
// cache; each further choice computes what does not fill a block.
func TestChoicesShareThePrompt(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		var computed, most atomic.Int64
		sp := &spy{begin: func(b *backend.Batch) {
			computed.Add(int64(len(b.Tokens)))
			blocks := slices.Compact(slices.Sorted(slices.Values(b.Tables)))
			most.Store(max(most.Load(), int64(len(blocks))))
		}}
		h := start(t, engine.Config{MaxLive: 100}, spied(simSpec(100, 16, 1000, 16, depth), sp))
		r := ask(70, 5)
		r.N = 4
		res := mustCollect(t, h, r)
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		// 70 = 4 full blocks and 6 tokens; then 4 further tokens for each choice.
		if n := computed.Load(); n != 70+3*6+4*4 {
			t.Errorf("depth %d: %d tokens computed", depth, n)
		}
		if n := most.Load(); n != 4+4 {
			t.Errorf("depth %d: %d blocks in use", depth, n)
		}
		for i, c := range res.choices[1:] {
			if slices.Equal(c.tokens, res.choices[0].tokens) {
				t.Errorf("depth %d: choice %d is like choice 0", depth, i+1)
			}
			one := ask(70, 5) // C111: choice i is the single answer with seed + i
			one.Sampling.Seed += uint64(i + 1)
			h := start(t, engine.Config{MaxLive: 1}, oracle(simSpec(100, 16, 1000, 16, depth)))
			if alone := mustCollect(t, h, one).choices[0]; !alone.equal(c) {
				t.Errorf("depth %d: choice %d is %v, alone %v", depth, i+1, c, alone)
			}
			h.stop()
		}
	}
}

// TestPrefixCache: what a second request finds (C143, C144, C145).
func TestPrefixCache(t *testing.T) {
	h := start(t, engine.Config{Caching: true, MaxLive: 10}, oracle(simSpec(100, 16, 1000, 16, 2)))
	defer h.stop()
	cached := func(promptLen int, salt byte, scores bool) int {
		r := ask(promptLen, 3)
		r.Salt[0] = salt
		if scores {
			r.Prompt = &engine.PromptScores{Mode: backend.RawLogprobs}
		}
		s, err := h.Submit(r)
		if err != nil {
			t.Fatal(err)
		}
		res := collect(t.Context(), s, job{req: r})
		if res.err != nil {
			t.Fatal(res.err)
		}
		if scores && len(res.prompt) != promptLen-1 {
			t.Errorf("%d scores of a prompt of %d", len(res.prompt), promptLen)
		}
		return s.Cached()
	}
	for _, c := range []struct {
		prompt int
		salt   byte
		scores bool
		want   int
	}{{16, 0, false, 0}, {16, 0, false, 0}, {32, 0, false, 16}, {32, 0, false, 16}, {33, 0, false, 32}, {33, 0, true, 0}, {33, 1, false, 0}, {33, 2, true, 0}, {33, 2, false, 32}, {33, 1, false, 32}} {
		if got := cached(c.prompt, c.salt, c.scores); got != c.want {
			t.Errorf("%+v: %d cached", c, got)
		}
	}
}

// TestSubmitRefuses: full, stopped, not open yet, and what does not fit.
func TestSubmitRefuses(t *testing.T) {
	opening := make(chan struct{})
	e := engine.New(engine.Config{MaxLive: 3}, func() (backend.Backend, error) {
		<-opening
		return sim.NewOracle(simSpec(5, 16, 100, 4, 1), sim.OracleConfig{Hook: func(sim.Call, int) error { runtime.Gosched(); return nil }})
	})
	ctx, cancel := context.WithCancel(t.Context())
	var loop sync.WaitGroup
	loop.Go(func() {
		if err := e.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	if _, err := e.Submit(ask(5, 5)); !errors.Is(err, engine.ErrLoading) {
		t.Errorf("while loading: %v", err)
	}
	close(opening)
	<-e.Ready()
	bad := map[string]func(*engine.Request){
		"no prompt":     func(r *engine.Request) { r.Tokens = nil },
		"no output":     func(r *engine.Request) { r.Limits.MaxTokens = 0 },
		"too long":      func(r *engine.Request) { r.Limits.MaxTokens = simLen },
		"overflow":      func(r *engine.Request) { r.Limits.MaxTokens = math.MaxInt },
		"no blocks":     func(r *engine.Request) { r.Limits.MaxTokens = 70 },
		"bad token":     func(r *engine.Request) { r.Tokens = []int32{simVocab} },
		"negative":      func(r *engine.Request) { r.Tokens = []int32{-1} },
		"temperature":   func(r *engine.Request) { r.Sampling.Temperature = -1 },
		"pattern":       func(r *engine.Request) { r.Limits.Repetition = engine.Repetition{MaxPattern: 4096, MinCount: 2} },
		"one copy":      func(r *engine.Request) { r.Limits.Repetition = engine.Repetition{MaxPattern: 4, MinCount: 1} },
		"prompt scores": func(r *engine.Request) { r.Prompt = &engine.PromptScores{Top: simVocab + 1} },
	}
	for name, f := range bad {
		r := ask(5, 5)
		f(&r)
		if s, err := e.Submit(r); !errors.Is(err, engine.ErrInvalid) || s != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := ask(5, 40)
	r.N = 3
	s, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Submit(ask(5, 5)); !errors.Is(err, engine.ErrFull) {
		t.Errorf("when full: %v", err)
	}
	s.Cancel() // never refused, also when full
	s.Cancel()
	for e.Stats().Finished[engine.Aborted] != 3 {
		runtime.Gosched()
	}
	if s, err := e.Submit(ask(5, 5)); err != nil {
		t.Errorf("after the abort: %v", err)
	} else if r := collect(ctx, s, job{req: ask(5, 5)}); r.err != nil {
		t.Error(r.err)
	}
	cancel()
	loop.Wait()
	if _, err := e.Submit(ask(5, 5)); !errors.Is(err, engine.ErrStopped) {
		t.Errorf("when stopped: %v", err)
	}
}

// TestStopEndsEverybody: live requests get a last event when the engine stops,
// and the error when it fails for good.
func TestStopEndsEverybody(t *testing.T) {
	for _, fails := range []bool{false, true} {
		steps, opened := 0, 0
		reached, release := make(chan struct{}), make(chan struct{})
		cause := errors.New("no device any more")
		h := start(t, engine.Config{MaxLive: 10}, func() (backend.Backend, error) {
			if opened++; opened > 1 {
				return nil, cause
			}
			return sim.NewOracle(simSpec(100, 16, 100, 2, 2), sim.OracleConfig{Hook: func(c sim.Call, _ int) error {
				if c != sim.End {
					return nil
				}
				if steps++; steps == 5 {
					close(reached)
					<-release
					if fails {
						return errors.New("a step fails")
					}
				}
				return nil
			}})
		})
		var wg sync.WaitGroup
		for range 4 { // two run, two wait
			s, err := h.Submit(ask(5, 100))
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				r := collect(context.Background(), s, job{req: ask(5, 100)})
				switch a := r.choices[0]; {
				case fails && (a.reason != engine.Failed || !errors.Is(r.err, cause) && r.err.Error() != "engine: step: sim: End of step 4: a step fails"):
					t.Errorf("after a failure: %v, %v", a.reason, r.err)
				case !fails && (a.reason != engine.Aborted || r.err != nil):
					t.Errorf("after a stop: %v, %v", a.reason, r.err)
				}
			})
		}
		<-reached
		if !fails {
			h.cancel()
		}
		close(release)
		wg.Wait()
		if err := h.stop(); fails != errors.Is(err, cause) {
			t.Errorf("Run returned %v", err)
		}
	}
}

// TestSlowReader: a reader that takes nothing holds up nobody, and finds
// everything when it comes.
func TestSlowReader(t *testing.T) {
	h := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, 2)))
	defer h.stop()
	slow, err := h.Submit(ask(5, 100))
	if err != nil {
		t.Fatal(err)
	}
	want := mustCollect(t, h, ask(5, 100))
	for h.Stats().Finished[engine.Length] < 2 {
		runtime.Gosched()
	}
	got := collect(t.Context(), slow, job{req: ask(5, 100)})
	if got.err != nil || !got.choices[0].equal(want.choices[0]) {
		t.Errorf("the slow reader got %+v", got)
	}
}

// TestNoLegalToken: a choice whose constraints leave nothing ends with an
// error, and takes its siblings along.
func TestNoLegalToken(t *testing.T) {
	h := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, 2)))
	defer h.stop()
	r := ask(5, 10)
	r.N = 2
	r.Sampling.Allowed = []int32{7}
	r.Sampling.BadWords = [][]int32{{7, 7}}
	s, err := h.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	res := collect(t.Context(), s, job{req: r})
	if !errors.Is(res.err, engine.ErrNoToken) || res.choices[0].reason != engine.Failed || res.choices[1].reason != engine.Failed {
		t.Errorf("%+v", res)
	}
	if want := []int32{7}; !slices.Equal(res.choices[0].tokens, want) {
		t.Errorf("before that: %v", res.choices[0].tokens)
	}
	if got := mustCollect(t, h, ask(5, 3)); len(got.choices[0].tokens) != 3 {
		t.Error("the engine did not go on")
	}
}

// TestFailureTakesSiblings: when one choice fails, the others of its request
// end with it, however well they were doing.
func TestFailureTakesSiblings(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		h := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, depth)))
		r := ask(5, 100)
		r.N = 2
		r.Sampling.Allowed = []int32{7, 8}
		r.Sampling.BadWords = [][]int32{{7, 7}, {7, 8}} // behind a 7 nothing is legal
		uneven := 0
		for seed := range uint64(20) {
			r.Sampling.Seed = seed * 1000
			s, err := h.Submit(r)
			if err != nil {
				t.Fatal(err)
			}
			res := collect(t.Context(), s, job{req: r})
			a, b := res.choices[0], res.choices[1]
			if !errors.Is(res.err, engine.ErrNoToken) || a.reason != engine.Failed || b.reason != engine.Failed {
				t.Fatalf("seed %d: %+v", seed, res)
			}
			if slices.Contains(a.tokens, 7) != slices.Contains(b.tokens, 7) {
				uneven++
			}
		}
		if uneven == 0 {
			t.Error("no choice was taken along by the other")
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPenaltiesCount: every committed token reaches the sampling state, so a
// frequency penalty grows until the other token wins.
func TestPenaltiesCount(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		h := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, depth)))
		r := ask(5, 100)
		r.Sampling.Temperature = 0
		r.Sampling.Allowed = []int32{7, 8}
		r.Sampling.Bias = []sampler.TokenBias{{Token: 7, Bias: 50}}
		r.Sampling.Frequency = 2
		tokens := mustCollect(t, h, r).choices[0].tokens
		first := slices.Index(tokens, 8)
		// The bias is worn off after 25 times, give or take what the logits differ.
		if first < 15 || first > 35 {
			t.Errorf("depth %d: token 8 comes first at %d of %v", depth, first, tokens)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDeadRows: at two steps in flight, the row of a sequence that has ended
// meanwhile is marked, so that the device need not draw it.
func TestDeadRows(t *testing.T) {
	dead, rows := 0, 0
	sp := &spy{draw: func(d *backend.Draws) {
		for _, r := range d.Rows {
			rows++
			if r.Dead {
				dead++
			}
		}
	}}
	h := start(t, engine.Config{MaxLive: 10}, spied(simSpec(100, 16, 100, 4, 2), sp))
	r := ask(5, 50)
	r.Sampling.Allowed = []int32{7, 9}
	r.Limits.EOS = 9
	a := mustCollect(t, h, r).choices[0]
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	if a.reason != engine.Stop || rows != len(a.tokens)+1 || dead != 1 {
		t.Errorf("%v after %d tokens: %d rows, %d of them dead", a.reason, len(a.tokens), rows, dead)
	}
}

// TestIdleLoopSleeps: without work the loop waits on its wake channel alone; in
// a bubble of virtual time, everything durably blocked is what proves it.
func TestIdleLoopSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, 2)))
		mustCollect(t, h, ask(5, 10))
		synctest.Wait() // would never return if the loop polled
		if s := h.Stats(); !s.StepBegan.IsZero() || s.Running != 0 {
			t.Errorf("not idle: %+v", s)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestBadBackend: what open returns is checked.
func TestBadBackend(t *testing.T) {
	spec := simSpec(100, 16, 100, 4, 1)
	for name, c := range map[string]struct {
		cfg  engine.Config
		open func() (backend.Backend, error)
	}{
		"does not open":      {open: func() (backend.Backend, error) { return nil, errors.New("none") }},
		"too many tokens":    {cfg: engine.Config{Scheduler: schedulerConfig(101, 4)}, open: oracle(spec)},
		"too many sequences": {cfg: engine.Config{Scheduler: schedulerConfig(100, 5)}, open: oracle(spec)},
		"three in flight":    {open: spied(spec, &spy{spec: func(s backend.Spec) backend.Spec { s.Depth = 3; return s }})},
		"a negative limit":   {cfg: engine.Config{Scheduler: schedulerConfig(-1, 0)}, open: oracle(spec)},
	} {
		e := engine.New(c.cfg, c.open)
		if err := e.Run(t.Context()); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if _, err := e.Submit(ask(1, 1)); err == nil {
			t.Errorf("%s: takes requests", name)
		}
	}
}

// TestStepAllocatesNothing: in the steady state a decoded token costs no
// allocation, from the plan to the reader.
func TestStepAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of this build allocate")
	}
	for depth := 1; depth <= 2; depth++ {
		const seqs, maxLen = 8, 4000
		spec := simSpec(3000, 16, 100, seqs, depth)
		spec.MaxSeqTokens = maxLen
		profile := sim.Instant()
		profile.Tokens = []int32{1, 2, 3}
		var mallocs [2]uint64
		measured := make(chan struct{})
		steps := 0
		var read atomic.Int64
		sp := &spy{end: func() {
			// What a reader has not taken waits in a buffer that grows: on a busy machine
			// the engine would run away from them. Here they are never far behind.
			for patience := time.Now().Add(10 * time.Second); read.Load() < int64(seqs*(steps-16)) && time.Now().Before(patience); {
				runtime.Gosched()
			}
			// In the middle, away from where slices still grow; 2^11 tokens is the next
			// time that they double.
			if steps++; steps == 1100 || steps == 1900 {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				if mallocs[0] == 0 {
					mallocs[0] = m.Mallocs
				} else {
					mallocs[1] = m.Mallocs
					close(measured)
				}
			}
		}}
		h := start(t, engine.Config{Caching: true, MaxLive: seqs}, func() (be backend.Backend, err error) {
			sp.Backend, err = sim.NewPaced(spec, profile)
			return sp, err
		})
		for i := range seqs {
			r := ask(10+i, maxLen-100)
			r.Sampling.Frequency, r.Sampling.TopP = 0.5, 0.9
			r.Sampling.Logprobs, r.Sampling.TopLogprobs = backend.RawLogprobs, 2
			if i%2 == 0 {
				r.Masks = []engine.Mask{&stuck{maxLen}}
			}
			s, err := h.Submit(r)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				var ev engine.Events
				for s.Next(t.Context(), &ev) == nil {
					read.Add(int64(len(ev.Items)))
				}
			}()
		}
		<-measured
		// Blocks are published in a map, which grows, and the runtime allocates on
		// its own; both are far below one per step.
		if n := mallocs[1] - mallocs[0]; n > 100 {
			t.Errorf("depth %d: %d allocations in 800 steps of %d tokens", depth, n, seqs)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
	}
}
