package engine_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/internal/invariants"
)

// mallocCounter counts allocations from one step to another.
type mallocCounter struct {
	seqs, from, to int // sequences, and the steps
	steps          int
	leftOut        int          // tokens that steps have not given
	read           atomic.Int64 // events that readers have taken
	mallocs        uint64
	done           chan struct{} // closed when step to is reached
}

// step is called before each step is computed.
func (c *mallocCounter) step() {
	// What a reader has not taken waits in a buffer that grows. On a busy machine the engine
	// could run far ahead of the readers, so it waits for them here.
	// A step may have left a sequence out, because its mask was late.
	for patience := time.Now().Add(time.Second); c.read.Load() < int64(c.seqs*(c.steps-16)-c.leftOut); {
		if runtime.Gosched(); time.Now().After(patience) {
			c.leftOut = c.seqs*(c.steps-16) - int(c.read.Load())
		}
	}
	c.steps++
	if c.steps != c.from && c.steps != c.to {
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	c.mallocs = m.Mallocs - c.mallocs // at from all of them, at to those since from
	if c.steps == c.to {
		close(c.done)
	}
}

// readAll takes all events of a stream.
func (c *mallocCounter) readAll(t *testing.T, s *engine.Stream) {
	var events engine.Events
	for s.Next(t.Context(), &events) == nil {
		c.read.Add(int64(len(events.Items)))
	}
}

// TestStepAllocatesNothing: once slices have grown, a decoded token costs no allocation,
// from the plan to the reader.
func TestStepAllocatesNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of this build allocate")
	}
	for _, states := range []int{0, 50} {
		t.Run(fmt.Sprintf("states=%d", states), func(t *testing.T) {
			eachDepth(t, func(t *testing.T, depth int) { testStepAllocatesNothing(t, depth, states) })
		})
	}
}

func testStepAllocatesNothing(t *testing.T, depth, states int) {
	const seqs, maxLen = 8, 4000
	spec := withStates(states, simSpec(3000, 16, 100, seqs, depth))
	spec.MaxSeqTokens = maxLen
	profile := sim.Instant()
	profile.Tokens = []int32{1, 2, 3}
	// Slices double at 2^10 and 2^11 tokens, so the steps between are counted.
	const from, to = 1100, 1900
	count := &mallocCounter{seqs: seqs, from: from, to: to, done: make(chan struct{})}
	e := start(t, engine.Config{Caching: true, MaxLive: seqs}, hooked(func() (backend.Backend, error) { return sim.NewPaced(spec, profile) }, hooks{end: count.step}))
	for i := range seqs {
		r := request(10+i, maxLen-100)
		r.Sampling.Frequency, r.Sampling.TopP = 0.5, 0.9
		r.Sampling.Logprobs, r.Sampling.TopLogprobs = backend.RawLogprobs, 2
		if i%2 == 0 {
			r.Masks = []engine.Mask{&openMask{maxLen}}
		}
		if i%4 == 1 {
			r.Sampling.TopLogprobs, r.LogprobIDs = 0, []int32{1, 2, 299}
			r.Forcers = []engine.Forcer{&every{2, 5, 0}}
		}
		go count.readAll(t, e.mustSubmit(t, r))
	}
	<-count.done
	// Published blocks are kept in a map, which grows, and the runtime allocates now and
	// then, the more the busier the machine is: up to 122 times were seen. Something that
	// allocates in every step does so 800 times, and with every token 6,400 times.
	if count.mallocs > (to-from)/2 {
		t.Errorf("%d allocations in %d steps of %d tokens", count.mallocs, to-from, seqs)
	}
	e.mustStop(t)
}
