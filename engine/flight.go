package engine

import (
	"sync"
	"time"

	"weir/internal/retry"
)

// StepRecord is what the flight recorder keeps of a step.
type StepRecord struct {
	Step    uint64        // number of the step, from 1 on
	Planned time.Time     // when planning it began
	Kind    string        // "prefill", "decode" or "mixed"
	State   StepState     // whether it has ended, and how
	Plan    time.Duration // its first half on the host: planning it, and Begin
	Draw    time.Duration // its second half: saying how its tokens are to be drawn
	Wait    time.Duration // for the device, in End
	Book    time.Duration // booking what it gave

	Sequences, Rows          int // in the batch, and draws
	Prefill, Decode          int // tokens that were known before, and newest tokens
	Waiting, Running         int // sequences, when it was planned
	BlocksUsed, BlocksTotal  int // KV blocks, with those of this step
	Preemptions, MaskedDraws int // sequences that lost their blocks for it; draws under a constraint
}

// StepState is whether a step has ended.
type StepState string

// States of a step.
const (
	StepInFlight StepState = "in flight"
	StepEnded    StepState = "ended"
	StepFailed   StepState = "failed"
)

// flightSteps is how many steps the recorder keeps.
const flightSteps = 1000

// flight is the flight recorder: the newest steps in a ring of fixed size. The loop writes it, and
// whoever wants to know what the engine did last copies it. The lock is held to copy.
type flight struct {
	mu   sync.Mutex
	ring [flightSteps]StepRecord
	n    uint64 // steps that were begun

	// Only the loop uses these.
	preemptions uint64     // when the newest was planned
	speed       retry.Rate // of computed tokens
	pace        pacer      // how many prompt tokens a step has
}

// begin adds a step and returns its number.
func (f *flight) begin(r *StepRecord) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	r.Step = f.n
	f.ring[f.n%flightSteps] = *r
	return f.n
}

// end completes a step that is not older than the ring.
func (f *flight) end(step uint64, state StepState, draw, wait, book time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := &f.ring[step%flightSteps]; r.Step == step {
		r.State, r.Draw, r.Wait, r.Book = state, draw, wait, book
	}
}

// Steps appends the newest steps, at most 1,000, to dst, the oldest first. Those in flight are the
// last ones. It may be called by any goroutine and does not wait for a step.
func (e *Engine) Steps(dst []StepRecord) []StepRecord { return e.StepsAfter(dst, 0) }

// StepsAfter is Steps without those up to a number, so that whoever asks again and again is not given
// the same steps twice.
func (e *Engine) StepsAfter(dst []StepRecord, step uint64) []StepRecord {
	f := &e.flight
	f.mu.Lock()
	defer f.mu.Unlock()
	first := step + 1
	if f.n > flightSteps {
		first = max(first, f.n-flightSteps+1)
	}
	for i := first; i <= f.n; i++ {
		dst = append(dst, f.ring[i%flightSteps])
	}
	return dst
}

// recordBegin records a step whose batch the backend has been given. Planning it began at a time since epoch.
func (e *Engine) recordBegin(s *stepData, planned time.Duration) {
	r := StepRecord{
		Planned: e.epoch.Add(planned), State: StepInFlight, Plan: e.clock() - planned,
		Sequences: len(s.chunks), Rows: len(s.batch.At), BlocksTotal: e.kv.Total(), BlocksUsed: e.kv.Total() - e.kv.Free(),
	}
	for _, c := range s.chunks {
		if c.Draw && c.N == 1 {
			r.Decode++
		} else {
			r.Prefill += c.N
		}
	}
	switch {
	case r.Decode == 0:
		r.Kind = "prefill"
	case r.Prefill == 0:
		r.Kind = "decode"
	default:
		r.Kind = "mixed"
	}
	r.Waiting, r.Running = e.sched.Len()
	preemptions := e.sched.Counters().Preemptions
	r.Preemptions = int(preemptions - e.flight.preemptions)
	e.flight.preemptions = preemptions
	for i := range s.chunks {
		if c := s.chunks[i].Seq.Owner.(*choice); s.chunks[i].Draw && c.constraint != nil {
			r.MaskedDraws++
		}
	}
	s.times = stepTimes{}
	s.number = e.flight.begin(&r)
}

// recordFailed marks a step that has been recorded and will not end.
func (e *Engine) recordFailed(s *stepData) {
	if len(s.chunks) > 0 && s.number > 0 {
		e.flight.end(s.number, StepFailed, s.times.draw, 0, 0)
	}
}

// stepTimes are what the flight recorder is told of a step later than its beginning.
type stepTimes struct{ draw, wait time.Duration }
