package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/scheduler"
)

// variant is a configuration of scheduler, cache and backend. What a request gets does not
// depend on it.
type variant struct {
	spec    backend.Spec
	sched   scheduler.Config
	caching bool
	oracle  sim.OracleConfig

	maskWait time.Duration
	target   time.Duration
}

func (v variant) String() string {
	return fmt.Sprintf("blocks=%dx%d states=%d tokens=%d seqs=%d depth=%d %+v cache=%v reading=%d", v.spec.NumBlocks, v.spec.BlockTokens, v.spec.StateSlots, v.spec.MaxTokens,
		v.spec.MaxSeqs, v.spec.Depth, v.sched, v.caching, v.oracle.Reading)
}

func (v variant) start(t testing.TB) runningEngine {
	t.Helper()
	return start(t, engine.Config{Scheduler: v.sched, Caching: v.caching, MaxLive: 1000, MaskWait: v.maskWait, ITLTarget: v.target}, configuredOracle(v.spec, v.oracle))
}

// roomy has enough of everything, so that requests do not get in each other's way.
var roomy = variant{spec: simSpec(4000, 16, 10000, 1000, 1)}

// windowed is the same for a network whose layers all look back to no more than 9 positions.
var windowed = variant{spec: withGroups(simSpec(4000, 16, 10000, 1000, 1), backend.KVGroup{Window: 9}, backend.KVGroup{Window: 4})}

// variantsOfWindows are variants of windowed.
func variantsOfWindows() []variant {
	lazy := sim.OracleConfig{Reading: sim.Lazy}
	of := func(s backend.Spec) backend.Spec { return withGroups(s, windowed.spec.Groups...) }
	return []variant{
		{spec: of(simSpec(20, 8, 7, 4, 1)), caching: true, oracle: lazy},
		{spec: of(simSpec(30, 1, 3, 40, 2)), sched: scheduler.Config{Priority: true}, caching: true},
		{spec: of(simSpec(12, 4, 9, 16, 2)), sched: scheduler.Config{MaxPrefill: 3}, caching: true, oracle: lazy},
		{spec: of(simSpec(40, 4, simLen, 8, 2)), sched: scheduler.Config{WholePrompts: true}, caching: false, oracle: lazy},
	}
}

func variants() []variant {
	two, four := []backend.KVGroup{{}, {Window: 5}}, []backend.KVGroup{{Window: 7}, {}, {Chunk: 12}, {Window: 1}}
	priority := scheduler.Config{Priority: true}
	lazy := sim.OracleConfig{Reading: sim.Lazy}
	return []variant{
		{spec: simSpec(20, 8, 7, 4, 1), sched: scheduler.Config{}, caching: true, oracle: lazy},
		{spec: simSpec(20, 8, 7, 4, 2), sched: scheduler.Config{MaxPrefill: 3}, caching: true, oracle: lazy},
		{spec: simSpec(40, 4, 60, 6, 2), sched: scheduler.Config{MaxPrefill: 3}, caching: true, oracle: lazy, target: 100 * time.Microsecond},
		{spec: simSpec(130, 1, 3, 40, 1), sched: priority, caching: true, oracle: sim.OracleConfig{}},
		{spec: simSpec(130, 1, 3, 40, 2), sched: priority, caching: true, oracle: sim.OracleConfig{}},
		{spec: simSpec(40, 4, 64, 16, 2), sched: priority, caching: false, oracle: lazy},
		{spec: simSpec(14, 16, 5, 8, 2), sched: scheduler.Config{Priority: true, MaxPrefill: 2}, caching: true, oracle: lazy},
		{spec: simSpec(70, 2, 200, 40, 1), sched: scheduler.Config{}, caching: true, oracle: lazy},
		{spec: simSpec(70, 2, 200, 40, 2), sched: scheduler.Config{}, caching: true, oracle: sim.OracleConfig{}},
		{spec: simSpec(9, 16, 33, 3, 2), sched: scheduler.Config{}, caching: false, oracle: sim.OracleConfig{}},
		{spec: simSpec(70, 2, 200, 40, 1), sched: scheduler.Config{MaxWork: 1, MaxScored: 1}, caching: true, oracle: lazy},
		{spec: simSpec(70, 2, 200, 40, 2), sched: scheduler.Config{MaxWork: 40, MaxScored: 5}, caching: true, oracle: lazy},
		{spec: simSpec(20, 8, 7, 9, 2), sched: scheduler.Config{MaxWork: 25, MaxScored: 2, Priority: true, MaxPrefill: 3}, caching: false, oracle: sim.OracleConfig{}},
		{spec: simSpec(40, 4, simLen, 20, 2), sched: scheduler.Config{MaxWork: 30, MaxScored: 9, WholePrompts: true}, caching: true, oracle: lazy},
		{spec: simSpec(40, 4, simLen, 8, 2), sched: scheduler.Config{WholePrompts: true}, caching: true, oracle: lazy},
		{spec: simSpec(20, 8, simLen+9, 30, 1), sched: scheduler.Config{WholePrompts: true, Priority: true, MaxPrefill: 3}, caching: false, oracle: lazy},
		{spec: withStates(2, simSpec(20, 8, 7, 4, 1)), sched: scheduler.Config{}, caching: true, oracle: lazy},
		{spec: withStates(9, simSpec(20, 8, 7, 4, 1)), sched: scheduler.Config{StateEvery: 16}, caching: true, oracle: lazy},
		{spec: withStates(4, simSpec(20, 8, 7, 4, 2)), sched: scheduler.Config{MaxPrefill: 3}, caching: true, oracle: lazy},
		{spec: withStates(60, simSpec(130, 1, 3, 40, 2)), sched: priority, caching: true, oracle: sim.OracleConfig{}},
		{spec: withStates(9, simSpec(40, 4, 64, 16, 2)), sched: priority, caching: false, oracle: lazy},
		{spec: withStates(99, simSpec(70, 2, 200, 40, 2)), sched: scheduler.Config{StateEvery: 5}, caching: true, oracle: sim.OracleConfig{}},
		{spec: withStates(12, simSpec(70, 2, 200, 40, 2)), sched: scheduler.Config{MaxWork: 40, MaxScored: 5}, caching: true, oracle: lazy},
		{spec: withStates(12, simSpec(40, 4, simLen, 8, 2)), sched: scheduler.Config{WholePrompts: true}, caching: true, oracle: lazy},
		{spec: withGroups(simSpec(18, 8, 7, 4, 1), two...), caching: true, oracle: lazy},
		{spec: withGroups(simSpec(90, 1, 3, 40, 2), two...), sched: priority, caching: true, oracle: sim.OracleConfig{}},
		{spec: withGroups(simSpec(22, 4, 6, 9, 2), four...), sched: scheduler.Config{MaxPrefill: 3}, caching: true, oracle: lazy},
		{spec: withGroups(simSpec(40, 4, 64, 16, 1), four...), caching: false, oracle: lazy},
		{spec: withStates(9, withGroups(simSpec(20, 8, 7, 4, 2), two...)), caching: true, oracle: lazy},
		{spec: withGroups(simSpec(40, 4, simLen, 8, 2), two...), sched: scheduler.Config{WholePrompts: true}, caching: true, oracle: lazy},
	}
}

// shuffled runs f on the jobs in a random order, and returns its results in the order of
// the jobs.
func shuffled(g *rand.Rand, jobs []job, f func([]job) []result) []result {
	order := g.Perm(len(jobs))
	permuted, results := make([]job, len(jobs)), make([]result, len(jobs))
	for to, from := range order {
		permuted[to] = jobs[from]
	}
	for to, r := range f(permuted) {
		results[order[to]] = r
	}
	return results
}

// TestMetamorphic runs one workload under many configurations, over a simulator whose tokens
// depend on every slot of the KV cache that the books name. What a request gets must not
// depend on the size of blocks and pool, the token budget, caching, scheduling policy,
// preemption, order of arrival, other requests, steps in flight or the timing of goroutines,
// nor on who cancels when.
func TestMetamorphic(t *testing.T) {
	g := seeded(t)
	var preempted, hits, stateful, inWindows, leftOut uint64
	for round := range rounds(24) {
		jobs := newWorkload(g, 30, simVocab, simLen)
		all, list := roomy, variants()
		if round%6 == 5 {
			all, list = windowed, variantsOfWindows()
		}
		want := runAll(t, all.start(t), jobs)
		for _, v := range list {
			e := v.start(t)
			got := shuffled(g, jobs, func(jobs []job) []result { return runAll(t, e, jobs) })
			if err := compare(jobs, got, want); err != nil {
				t.Fatalf("round %d, %v: %v", round, v, err)
			}
			preempted += e.Stats().Preemptions
			hits += e.Stats().PrefixHits
			if v.spec.StateSlots > 0 {
				stateful += e.Stats().PrefixHits
			}
			if len(v.spec.Groups) > 0 {
				inWindows += e.Stats().PrefixHits
			}
			leftOut += e.Stats().LeftOut
		}
	}
	t.Logf("%d preemptions, %d tokens from the prefix cache, %d of them with a state, %d with windows, %d times no work was left for a sequence", preempted, hits, stateful, inWindows, leftOut)
	if preempted < 10 || hits < 200 || stateful < 100 || inWindows < 100 || leftOut < 200 {
		t.Error("there were too few of these for the test to mean anything")
	}
}

// TestAbortsInFlight cancels requests between Begin and End of any step, from within the
// backend. No block is lost, and the other requests get what they get otherwise.
func TestAbortsInFlight(t *testing.T) {
	g := seeded(t)
	for round := range rounds(20) {
		jobs := withoutCancels(newWorkload(g, 20, simVocab, simLen))
		want := runAll(t, roomy.start(t), jobs)
		for depth := 1; depth <= 2; depth++ {
			a := &aborts{Rand: rand.New(rand.NewPCG(uint64(round), uint64(depth))), jobs: jobs, submitted: make(chan struct{})}
			got := a.run(t, withStates(round%2*15, simSpec(60, 4, 40, 10, depth)))
			if err := compare(jobs, got, want); err != nil {
				t.Fatalf("round %d, depth %d: %v", round, depth, err)
			}
		}
	}
}

// aborts runs jobs on a backend that cancels some of them.
type aborts struct {
	*rand.Rand
	jobs      []job
	streams   []*engine.Stream
	cancelled []bool
	submitted chan struct{} // closed when all jobs are submitted
}

// hook is called by the backend in every Begin, Draw and End.
func (a *aborts) hook(sim.Call, int) error {
	<-a.submitted
	if a.IntN(4) == 0 {
		i := a.IntN(len(a.jobs))
		a.streams[i].Cancel()
		a.cancelled[i] = true
	}
	return nil
}

// ended is the number of choices that have ended.
func ended(e runningEngine) (n uint64) {
	for _, of := range e.Stats().Finished {
		n += of
	}
	return n
}

func (a *aborts) run(t *testing.T, spec backend.Spec) []result {
	t.Helper()
	a.cancelled = make([]bool, len(a.jobs))
	e := start(t, engine.Config{Caching: true, MaxLive: 1000}, configuredOracle(spec, sim.OracleConfig{Reading: sim.Lazy, Hook: a.hook}))
	for _, j := range a.jobs {
		a.streams = append(a.streams, e.mustSubmit(t, j.request()))
	}
	close(a.submitted)
	results := make([]result, len(a.jobs))
	var wg sync.WaitGroup
	ctx, stopReading := context.WithCancel(context.Background())
	read := make([]chan struct{}, len(a.jobs))
	choices := uint64(0)
	for i, j := range a.jobs {
		choices += uint64(max(1, j.req.N))
		read[i] = make(chan struct{})
		wg.Go(func() {
			results[i] = collect(ctx, a.streams[i], j)
			close(read[i])
		})
	}
	// In a step that is in flight when the last choice ends, streams may still be cancelled.
	for ended(e) < choices || !e.Stats().StepBegan.IsZero() {
		runtime.Gosched()
	}
	for i, cancelled := range a.cancelled {
		if !cancelled {
			<-read[i]
		}
	}
	stopReading() // a cancelled stream has no last event
	wg.Wait()
	e.mustStop(t)
	if s := e.Stats(); s.BlocksUsed != 0 || s.StatesUsed != 0 {
		t.Fatalf("%d blocks and %d state slots are lost", s.BlocksUsed, s.StatesUsed)
	}
	for i, cancelled := range a.cancelled {
		if cancelled {
			results[i].partial, results[i].err = true, nil
		}
	}
	return results
}

// TestFailedStep: the requests of a failed step end with its error. The backend is opened
// again, and all other requests get what they get without the failure.
func TestFailedStep(t *testing.T) {
	g := seeded(t)
	broken := errors.New("the device is gone")
	failures := 0
	for round := range rounds(20) {
		jobs := withoutCancels(newWorkload(g, 20, simVocab, simLen))
		want := runAll(t, roomy.start(t), jobs)
		depth := 1 + round%2
		call, step := sim.Call(g.IntN(3)), 3+g.IntN(10)
		opened := 0
		got := runAll(t, start(t, engine.Config{Caching: true, MaxLive: 1000}, func() (backend.Backend, error) {
			opened++
			first := opened == 1
			return sim.NewOracle(withStates(round/2%2*12, simSpec(60, 4, 30, 5, depth)), sim.OracleConfig{Hook: func(c sim.Call, n int) error {
				if first && c == call && n == step {
					return broken
				}
				return nil
			}})
		}), jobs)
		failed := 0
		for i := range jobs {
			if errors.Is(got[i].err, broken) {
				failed++
				got[i], want[i] = result{}, result{}
			}
		}
		if err := compare(jobs, got, want); err != nil {
			t.Fatalf("round %d, failure in %v of step %d: %v", round, call, step, err)
		}
		// At depth 2 the steps in flight may have nothing but sequences that have ended.
		if opened != 2 || failed == 0 && depth == 1 || failed > 12 {
			t.Fatalf("round %d: the backend was opened %d times, %d requests failed", round, opened, failed)
		}
		failures += failed
	}
	if failures == 0 {
		t.Error("no request ever failed")
	}
}
