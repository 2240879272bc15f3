package engine_test

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"weir/backend"
	"weir/engine"
	"weir/sampler"
)

// eachDepth runs a test with one and with two steps in flight.
func eachDepth(t *testing.T, f func(t *testing.T, depth int)) {
	t.Run("depth=1", func(t *testing.T) { f(t, 1) })
	t.Run("depth=2", func(t *testing.T) { f(t, 2) })
}

// TestDeliversBeforeItComputes: with one step in flight, the event of step k can be read
// before the computation of step k+1 starts.
func TestDeliversBeforeItComputes(t *testing.T) {
	const tokens = 20
	var s *engine.Stream
	submitted := make(chan struct{})
	got, steps := 0, 0
	var events engine.Events
	e := start(t, engine.Config{MaxLive: 1}, hooked(oracle(simSpec(100, 16, 100, 4, 1)), hooks{end: func() { // the device computes in End
		<-submitted
		select {
		case <-s.Ready():
		default:
			if steps > 0 {
				t.Errorf("step %d starts before the reader is signalled", steps)
			}
		}
		s.Take(&events)
		if got += len(events.Items); got != steps {
			t.Errorf("step %d starts when %d events can be read", steps, got)
		}
		steps++
	}}))
	s = e.mustSubmit(t, request(5, tokens))
	close(submitted)
	for e.Stats().Finished[engine.Length] == 0 {
		runtime.Gosched()
	}
	e.mustStop(t)
	if steps != tokens {
		t.Errorf("%d steps for %d tokens", steps, tokens)
	}
}

// TestWindowsReturn: layers that look back to a window keep the blocks of their window and of the steps in flight,
// however long the sequence gets, and layers that see everything keep all.
func TestWindowsReturn(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		spec := withGroups(simSpec(100, 4, 12, 16, depth), backend.KVGroup{}, backend.KVGroup{Window: 8}, backend.KVGroup{Chunk: 16})
		most := [3]int{}
		e := start(t, engine.Config{MaxLive: 100}, hooked(oracle(spec), hooks{begin: func(b *backend.Batch) {
			for g := range most {
				held := slices.DeleteFunc(slices.Clone(b.Table(g, 0)), func(block int32) bool { return block == 0 })
				most[g] = max(most[g], len(held))
			}
		}}))
		e.mustRun(t, request(70, 50))
		e.mustStop(t)
		// With 119 tokens computed in steps of 12, a run sees at most 7 positions before it in a window, and 15 before
		// it in a chunk. With two steps in flight the blocks of the step before are still held.
		in := func(tokens int) int { return (tokens+3)/4 + 1 }
		if most[0] != 30 || most[1] > in(7+12*depth) || most[2] > in(15+12*depth) || most[1] < 3 {
			t.Errorf("at most %v blocks are held in the groups", most)
		}
	})
}

// TestChoicesShareThePrompt: the prompt of a request with n > 1 is computed once, without
// any prefix cache. Each further choice computes only what does not fill a block.
func TestChoicesShareThePrompt(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		spec := simSpec(100, 16, 1000, 16, depth)
		var computed, mostBlocks atomic.Int64
		e := start(t, engine.Config{MaxLive: 100}, hooked(oracle(spec), hooks{begin: func(b *backend.Batch) {
			computed.Add(int64(len(b.Tokens)))
			blocks := slices.Compact(slices.Sorted(slices.Values(b.Tables)))
			mostBlocks.Store(max(mostBlocks.Load(), int64(len(blocks))))
		}}))
		r := request(70, 5)
		r.N = 4
		res := e.mustRun(t, r)
		e.mustStop(t)
		// The prompt is 4 full blocks and 6 tokens; then come 4 tokens for each choice.
		if n := computed.Load(); n != 70+3*6+4*4 {
			t.Errorf("%d tokens computed", n)
		}
		if n := mostBlocks.Load(); n != 4+4 {
			t.Errorf("%d blocks in use", n)
		}
		for i, c := range res.choices[1:] {
			if slices.Equal(c.tokens, res.choices[0].tokens) {
				t.Errorf("choice %d is the same as choice 0", i+1)
			}
			// Choice i is the answer of a request with one choice and seed + i (C111).
			single := request(70, 5)
			single.Sampling.Seed += uint64(i + 1)
			e := start(t, engine.Config{MaxLive: 1}, oracle(spec))
			if alone := e.mustRun(t, single).choices[0]; !alone.equal(c) {
				t.Errorf("choice %d is %v, alone it is %v", i+1, c, alone)
			}
			e.mustStop(t)
		}
	})
}

// TestPrefixCache: what later requests find in the prefix cache
// (docs/interface/chat-completions.md, C143 to C145).
func TestPrefixCache(t *testing.T) {
	e := start(t, engine.Config{Caching: true, MaxLive: 10}, oracle(simSpec(100, 16, 1000, 16, 2)))
	defer e.stop()
	for _, c := range []struct {
		prompt int
		salt   byte
		scores bool // asks for scores of the prompt
		want   int  // tokens found
	}{
		{16, 0, false, 0}, {16, 0, false, 0}, {32, 0, false, 16}, {32, 0, false, 16}, {33, 0, false, 32},
		{33, 0, true, 0}, {33, 1, false, 0}, {33, 2, true, 0}, {33, 2, false, 32}, {33, 1, false, 32},
	} {
		r := request(c.prompt, 3)
		r.Salt[0] = c.salt
		if c.scores {
			r.Prompt = &engine.PromptScores{Mode: backend.RawLogprobs}
		}
		s := e.mustSubmit(t, r)
		res := collect(t.Context(), s, job{req: r})
		if res.err != nil {
			t.Fatal(res.err)
		}
		if c.scores && len(res.prompt) != c.prompt-1 {
			t.Errorf("%+v: %d scores", c, len(res.prompt))
		}
		if got := s.Cached(); got != c.want {
			t.Errorf("%+v: %d tokens found", c, got)
		}
	}
}

// TestSlowReader: a reader that takes nothing holds up no other request, and finds all
// events when it comes.
func TestSlowReader(t *testing.T) {
	e := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, 2)))
	defer e.stop()
	slow := e.mustSubmit(t, request(5, 100))
	want := e.mustRun(t, request(5, 100))
	for e.Stats().Finished[engine.Length] < 2 {
		runtime.Gosched()
	}
	got := collect(t.Context(), slow, job{req: request(5, 100)})
	if got.err != nil || !got.choices[0].equal(want.choices[0]) {
		t.Errorf("the slow reader got %+v", got)
	}
}

// TestPenaltiesCount: every committed token reaches the sampling state, so a frequency
// penalty grows until another token wins.
func TestPenaltiesCount(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, depth)))
		r := request(5, 100)
		r.Sampling.Temperature = 0
		r.Sampling.Allowed = []int32{7, 8}
		r.Sampling.Bias = []sampler.TokenBias{{Token: 7, Bias: 50}}
		r.Sampling.Frequency = 2
		tokens := e.mustRun(t, r).choices[0].tokens
		// The penalty outweighs the bias after 25 tokens, give or take what the logits differ.
		if first := slices.Index(tokens, 8); first < 15 || first > 35 {
			t.Errorf("token 8 comes first at %d of %v", first, tokens)
		}
		e.mustStop(t)
	})
}

// TestDeadRows: with two steps in flight, the row of a sequence that turns out to have ended
// is marked, so that the device need not draw it.
func TestDeadRows(t *testing.T) {
	dead, rows := 0, 0
	e := start(t, engine.Config{MaxLive: 10}, hooked(oracle(simSpec(100, 16, 100, 4, 2)), hooks{draw: func(d *backend.Draws) {
		for _, r := range d.Rows {
			rows++
			if r.Dead {
				dead++
			}
		}
	}}))
	r := request(5, 50)
	r.Sampling.Allowed = []int32{7, 9}
	r.Limits.EOS = 9
	a := e.mustRun(t, r).choices[0]
	e.mustStop(t)
	if a.reason != engine.Stop || rows != len(a.tokens)+1 || dead != 1 {
		t.Errorf("reason %v after %d tokens: %d rows, %d of them dead", a.reason, len(a.tokens), rows, dead)
	}
}

// TestIdleLoopSleeps: without work the loop waits for its wake channel and nothing else.
// synctest.Wait returns only if all goroutines are blocked for good, so it would not return
// if the loop polled.
func TestIdleLoopSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(100, 16, 100, 4, 2)))
		e.mustRun(t, request(5, 10))
		synctest.Wait()
		if s := e.Stats(); !s.StepBegan.IsZero() || s.Running != 0 {
			t.Errorf("the engine is not idle: %+v", s)
		}
		e.mustStop(t)
	})
}

// TestBadBackend: what open returns is checked against the configuration.
func TestBadBackend(t *testing.T) {
	spec := simSpec(100, 16, 100, 4, 1)
	for name, c := range map[string]struct {
		cfg  engine.Config
		open opener
	}{
		"does not open":      {open: func() (backend.Backend, error) { return nil, errors.New("none") }},
		"too many tokens":    {cfg: engine.Config{Scheduler: schedulerConfig(101, 4)}, open: oracle(spec)},
		"too many sequences": {cfg: engine.Config{Scheduler: schedulerConfig(100, 5)}, open: oracle(spec)},
		"three in flight":    {open: func() (backend.Backend, error) { return tripleDepth{}, nil }},
		"a negative limit":   {cfg: engine.Config{Scheduler: schedulerConfig(-1, 0)}, open: oracle(spec)},
	} {
		e := engine.New(c.cfg, c.open)
		if err := e.Run(t.Context()); err == nil {
			t.Errorf("%s: Run accepts it", name)
		}
		if _, err := e.Submit(request(1, 1)); err == nil {
			t.Errorf("%s: Submit accepts requests", name)
		}
	}
}

// tripleDepth is a backend that wants three steps in flight.
type tripleDepth struct{ backend.Backend }

func (tripleDepth) Spec() backend.Spec { return simSpec(100, 16, 100, 4, 3) }
func (tripleDepth) Close() error       { return nil }
