package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"weir/backend/sim"
	"weir/engine"
)

// TestLateMasks runs a workload in which steps do not wait for masks, and many masks take
// longer than a step. Their sequences sit out, and everybody gets what he gets otherwise.
func TestLateMasks(t *testing.T) {
	g := seeded(t)
	var late, preempted uint64
	for round := range max(1, rounds(2)) {
		jobs := newWorkload(g, 30, simVocab, simLen)
		want := runAll(t, roomy.start(t), jobs)
		for i := range jobs {
			jobs[i].slowMasks = true
		}
		for _, v := range variants() {
			v.maskWait = -1
			e := v.start(t)
			got := shuffled(g, jobs, func(jobs []job) []result { return runAll(t, e, jobs) })
			if err := compare(jobs, got, want); err != nil {
				t.Fatalf("round %d, %v: %v", round, v, err)
			}
			late += e.Stats().Postponed
			preempted += e.Stats().Preemptions
		}
	}
	t.Logf("%d tokens were late, %d preemptions", late, preempted)
	if late < 100 || preempted < 10 {
		t.Error("there were too few of these for the test to mean anything")
	}
}

// heldMask is a mask whose third fill does not return before it is released. With polite, it
// asks meanwhile whether it shall go on.
type heldMask struct {
	singleMask
	fills   int
	polite  bool
	held    chan struct{} // closed when the fill is being held
	release chan struct{}
	once    sync.Once
}

func newHeldMask(polite bool) *heldMask {
	return &heldMask{singleMask: singleMask{7}, polite: polite, held: make(chan struct{}), release: make(chan struct{})}
}

func (m *heldMask) Quick(int32) bool { return false }
func (m *heldMask) Only() int32      { return -1 }
func (m *heldMask) Fill(row []uint32, pace func(bool) bool) error {
	if m.fills++; m.fills == 3 {
		close(m.held)
		for waiting := true; waiting; {
			select {
			case <-m.release:
				waiting = false
			default:
				if m.polite && !pace(false) {
					return errAbandoned
				}
			}
		}
	}
	return m.singleMask.Fill(row, pace)
}

// slowMask is a mask that only a worker may fill.
type slowMask struct{ openMask }

func (m *slowMask) Quick(int32) bool { return false }

// TestNeighboursOfAHeldMask: while masks of other requests do not get ready, a request goes
// on token by token, whether it has a mask of its own or not. The others get the same tokens
// when their masks are there.
func TestNeighboursOfAHeldMask(t *testing.T) {
	for _, polite := range []bool{false, true} {
		eachDepth(t, func(t *testing.T, depth int) {
			e := start(t, engine.Config{MaxLive: 100}, configuredOracle(simSpec(200, 4, 40, 10, depth), sim.OracleConfig{Reading: sim.Lazy}))
			const hostile = 4
			release := e.submitHeld(t, hostile, polite)
			for _, masks := range [][]engine.Mask{nil, {&slowMask{openMask{1000}}}} {
				r := request(9, 100)
				r.Masks = masks
				if got := e.mustRun(t, r); len(got.choices[0].tokens) != 100 {
					t.Errorf("the neighbour got %+v", got)
				}
			}
			if s := e.Stats(); s.SittingOut != hostile || s.Postponed < hostile {
				t.Errorf("%d sequences sit out, %d tokens were late", s.SittingOut, s.Postponed)
			}
			for _, got := range release() {
				if want := slices.Repeat([]int32{7}, 20); got.err != nil || !slices.Equal(got.choices[0].tokens, want) {
					t.Errorf("after its mask was filled: %+v", got)
				}
			}
			e.mustStop(t)
			if s := e.Stats(); s.BlocksUsed != 0 || s.SittingOut != 0 {
				t.Errorf("at the end: %+v", s)
			}
		})
	}
}

// submitHeld submits n requests and returns when their masks are being held. release lets
// them go on, and returns what each request got.
func (e runningEngine) submitHeld(t *testing.T, n int, polite bool) (release func() []result) {
	t.Helper()
	held, results := make([]*heldMask, n), make([]result, n)
	var wg sync.WaitGroup
	for i := range held {
		held[i] = newHeldMask(polite)
		r := request(5, 20)
		r.Masks = []engine.Mask{held[i]}
		s := e.mustSubmit(t, r)
		wg.Go(func() { results[i] = collect(context.Background(), s, job{req: r}) })
	}
	for _, m := range held {
		<-m.held
	}
	return func() []result {
		for _, m := range held {
			close(m.release)
		}
		wg.Wait()
		return results
	}
}

// TestAbortDuringFill: a request that is cancelled while a worker fills its mask is gone at
// once. The worker writes to memory that nobody else gets, and ends when it asks whether it
// shall go on.
func TestAbortDuringFill(t *testing.T) {
	for _, polite := range []bool{false, true} {
		eachDepth(t, func(t *testing.T, depth int) {
			e := start(t, engine.Config{MaxLive: 100}, oracle(simSpec(60, 4, 40, 10, depth)))
			m := newHeldMask(polite)
			r := request(5, 20)
			r.Masks = []engine.Mask{m}
			s := e.mustSubmit(t, r)
			<-m.held
			s.Cancel()
			for range 2 {
				r := request(5, 30)
				r.Masks = []engine.Mask{&slowMask{openMask{1000}}}
				e.mustRun(t, r)
				if !polite {
					m.once.Do(func() { close(m.release) })
				}
			}
			e.mustStop(t)
			if s := e.Stats(); s.BlocksUsed != 0 || s.SittingOut != 0 {
				t.Errorf("at the end: %+v", s)
			}
		})
	}
}

// badMask is a mask whose second row cannot be filled.
type badMask struct {
	slowMask
	fills int
	err   error
}

func (m *badMask) Fill(row []uint32, pace func(bool) bool) error {
	if m.fills++; m.fills == 2 {
		return m.err
	}
	return m.slowMask.Fill(row, pace)
}

// TestMaskThatCannotBeFilled: the error of Fill is that of the request, and of no other.
func TestMaskThatCannotBeFilled(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{MaxLive: 100}, oracle(simSpec(60, 4, 40, 10, depth)))
		bad := request(5, 20)
		bad.N = 2
		bad.Masks = []engine.Mask{&slowMask{openMask{1000}}, &badMask{slowMask{openMask{1000}}, 0, engine.ErrTooComplex}}
		s := e.mustSubmit(t, bad)
		if got := e.mustRun(t, request(5, 20)); len(got.choices[0].tokens) != 20 {
			t.Errorf("the neighbour got %+v", got)
		}
		if got := collect(t.Context(), s, job{req: bad}); !errors.Is(got.err, engine.ErrTooComplex) || len(got.choices[1].tokens) != 1 {
			t.Errorf("%+v", got)
		}
		e.mustStop(t)
	})
}
