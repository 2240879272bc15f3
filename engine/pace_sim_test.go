package engine_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/sampler"
)

// longPrompt is what a long prompt does to running streams, in the time of the simulator.
type longPrompt struct {
	first time.Duration // time to its first token
	gaps  time.Duration // 99th percentile of the streams' times between tokens until then
}

// measureLongPrompt runs a prompt of 32,768 tokens beside so many streams, on a simulated device with
// the times of a network of 8 billion parameters.
func measureLongPrompt(t *testing.T, target time.Duration, streams, depth int) (m longPrompt) {
	const tokens = 32768
	synctest.Test(t, func(t *testing.T) {
		spec := backend.Spec{VocabSize: simVocab, BlockTokens: 16, NumBlocks: 8000, MaxTokens: 2048, MaxSeqs: 64, MaxSeqTokens: 40000, Depth: depth}
		e := start(t, engine.Config{Scheduler: schedulerConfig(0, 0), MaxLive: 100, ITLTarget: target}, func() (backend.Backend, error) { return sim.NewPaced(spec, sim.H100Llama8B()) })
		var mu sync.Mutex
		var gaps []engine.Gap
		e.Observe(func(r *engine.Report) {
			mu.Lock()
			defer mu.Unlock()
			gaps = append(gaps, r.Gaps...)
		})
		var running []*engine.Stream
		for i := range streams {
			running = append(running, e.mustSubmit(t, engine.Request{Tokens: prompt(50 + i), Limits: engine.Limits{MaxTokens: 4000, EOS: -1}, Sampling: sampler.DefaultParams()}))
		}
		time.Sleep(time.Second) // the streams run, and their pace is known
		mu.Lock()
		gaps = nil
		mu.Unlock()
		begun := time.Now()
		s := e.mustSubmit(t, engine.Request{Tokens: prompt(tokens), Limits: engine.Limits{MaxTokens: 1, EOS: -1}, Sampling: sampler.DefaultParams()})
		var ev engine.Events
		if err := s.Next(t.Context(), &ev); err != nil {
			t.Fatal(err)
		}
		m.first = time.Since(begun)
		mu.Lock()
		m.gaps = percentile(gaps, 0.99)
		mu.Unlock()
		for _, s := range running {
			s.Cancel()
		}
		e.mustStop(t)
	})
	return m
}

// percentile is the time that so large a part of all waits did not exceed.
func percentile(gaps []engine.Gap, part float64) time.Duration {
	var all []time.Duration
	for _, g := range gaps {
		all = append(all, slices.Repeat([]time.Duration{g.D}, g.N)...)
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(part*float64(len(all))))]
}

// TestLongPromptBesideStreams: a prompt of 32,768 tokens beside 32 streams raises the 99th percentile
// of their times between tokens to at most twice what it is without, and its own time to the first
// token to at most three times what it is alone. That holds for a target that is too short, too,
// and one that is long costs the prompt little.
func TestLongPromptBesideStreams(t *testing.T) {
	const pace = 6300 * time.Microsecond // of 32 streams on this device
	for depth := 1; depth <= 2; depth++ {
		alone := measureLongPrompt(t, 0, 0, depth).first
		for _, target := range []time.Duration{time.Millisecond, 11 * time.Millisecond, 12 * time.Millisecond, 40 * time.Millisecond} {
			m := measureLongPrompt(t, target, 32, depth)
			t.Logf("depth %d, target %v: first token after %v, alone %v, times between tokens %v", depth, target, m.first, alone, m.gaps)
			if m.first > 3*alone || m.gaps == 0 {
				t.Errorf("depth %d, target %v: the first token comes after %v, alone after %v", depth, target, m.first, alone)
			}
			if most := max(target*105/100, 2*pace); m.gaps > most {
				t.Errorf("depth %d, target %v: the streams' times between tokens are %v, want %v at most", depth, target, m.gaps, most)
			}
		}
		if m := measureLongPrompt(t, 40*time.Millisecond, 32, depth); m.first > alone*3/2 {
			t.Errorf("depth %d: the first token comes after %v with a long target, alone after %v", depth, m.first, alone)
		}
	}
}
