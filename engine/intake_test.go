package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/scheduler"
)

// crowd is an engine whose steps end one by one, when next is called, and all after open.
type crowd struct {
	runningEngine
	t     *testing.T
	gate  chan struct{}
	open  func()
	steps atomic.Int64 // that have ended
}

func newCrowd(t *testing.T, cfg engine.Config, spec backend.Spec) *crowd {
	t.Helper()
	gate := make(chan struct{})
	c := &crowd{t: t, gate: gate, open: sync.OnceFunc(func() { close(gate) })}
	c.runningEngine = start(t, cfg, configuredOracle(spec, sim.OracleConfig{Hook: func(call sim.Call, _ int) error {
		if call == sim.End {
			<-gate
			c.steps.Add(1)
		}
		return nil
	}}))
	return c
}

// next waits until a step is computed, and lets it end.
func (c *crowd) next() { c.gate <- struct{}{} }

// accounted is a request of a tenant's project.
func accounted(r engine.Request, tenant, project string) engine.Request {
	r.Tenant, r.Project = tenant, project
	return r
}

func (c *crowd) submit(tenant, project string, r engine.Request) *engine.Stream {
	c.t.Helper()
	return c.mustSubmit(c.t, accounted(r, tenant, project))
}

// refuse submits requests that must be refused.
func (c *crowd) refuse(rs ...engine.Request) {
	c.t.Helper()
	if _, err := c.SubmitAll(rs); !errors.Is(err, engine.ErrFull) {
		c.t.Errorf("%d requests of %s in a full engine: %v", len(rs), rs[0].Tenant, err)
	}
}

// lost returns the indices of the streams whose requests have lost their places, as far as
// the loop has ended them. Those must have had no output.
func (c *crowd) lost(streams []*engine.Stream) (lost []int) {
	c.t.Helper()
	var ev engine.Events
	for i, s := range streams {
		if !s.Take(&ev) || ev.Items[0].Reason != engine.Failed {
			continue
		}
		if lost = append(lost, i); !errors.Is(ev.Items[0].Err, engine.ErrFull) || s.Drawn() > 0 {
			c.t.Errorf("stream %d has ended with %v after %d tokens", i, ev.Items[0].Err, s.Drawn())
		}
	}
	return lost
}

// end stops the engine, which must have nothing left.
func (c *crowd) end(streams []*engine.Stream) {
	c.t.Helper()
	c.open()
	for _, s := range streams {
		s.Cancel()
	}
	c.mustStop(c.t)
	if s := c.Stats(); s.BlocksUsed != 0 || s.Running+s.Waiting != 0 || s.Finished[engine.Failed] != 0 {
		c.t.Errorf("in the end: %+v", s)
	}
}

// outcomes counts what the reports say of choices that have ended.
type outcomes struct {
	failed   int
	answered int64 // the step in which the last answer was complete
}

func (c *crowd) observe() *outcomes {
	o := &outcomes{}
	c.Observe(func(r *engine.Report) {
		for _, e := range r.Ended {
			switch e.Reason {
			case engine.Length:
				o.answered = c.steps.Load()
			case engine.Failed:
				o.failed++
			}
		}
	})
	return o
}

// patient is the number of a request in TestCrowdedIntake that is less urgent than others.
const patient = 2502

// TestCrowdedIntake: thousands of long prompts of a tenant fill the engine. Requests of
// another tenant, and of another project of the same, are accepted nevertheless, and answered
// within a few steps. What goes for them are the newest requests of the project that holds
// most, and where priorities count the least urgent ones. They end as if they had been refused.
func TestCrowdedIntake(t *testing.T) {
	t.Run("fcfs", func(t *testing.T) { crowdIntake(t, false, []int{2995, 2996, 2997}) })
	t.Run("priority", func(t *testing.T) { crowdIntake(t, true, []int{patient, 2996, 2997}) })
}

func crowdIntake(t *testing.T, priority bool, want []int) {
	const crowded = 3000
	spec := backend.Spec{VocabSize: simVocab, BlockTokens: 16, NumBlocks: 2500, MaxTokens: 512, MaxSeqs: 8, MaxSeqTokens: 5000, Depth: 1}
	c := newCrowd(t, engine.Config{Scheduler: scheduler.Config{Priority: priority}, MaxLive: crowded}, spec)
	seen := c.observe()
	long, few := request(4096, 100), request(5, 5)
	var streams []*engine.Stream
	for i := range crowded { // 2,000 in a large project, 500 in each of two others
		project := "large"
		if i%6 >= 4 {
			project = fmt.Sprint("small ", i%6)
		}
		if long.Priority = 0; i == patient {
			long.Priority = 1
		}
		streams = append(streams, c.submit("A", project, long))
	}
	c.refuse(accounted(long, "A", "large"))
	short := []*engine.Stream{c.submit("B", "", few), c.submit("B", "other", few), c.submit("A", "new", few)}
	c.open()
	for i, s := range short {
		if r := collect(t.Context(), s, job{req: few}); r.err != nil || len(r.choices[0].tokens) != 5 {
			t.Errorf("the short request %d: %v, %d tokens", i, r.err, len(r.choices[0].tokens))
		}
	}
	if lost := c.lost(streams); !slices.Equal(lost, want) {
		t.Errorf("lost have %v, want %v", lost, want)
	}
	c.end(streams)
	if seen.failed != 0 || seen.answered > 20 {
		t.Errorf("%d that were given up count as failed; the short requests were answered after %d steps", seen.failed, seen.answered)
	}
}

// TestBegunKeepTheirPlaces: requests that have begun are not given up, and those that wait are.
// If there are none there are a few more places, for tenants that hold few: nobody gets
// more of them by inventing projects.
func TestBegunKeepTheirPlaces(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		c := newCrowd(t, engine.Config{MaxLive: 16}, simSpec(200, 16, 1000, 32, depth))
		var streams []*engine.Stream
		for range 16 {
			streams = append(streams, c.submit("A", "", request(5, 60)))
		}
		c.next()
		c.next() // a step before this one was planned with all of them
		streams = append(streams, c.submit("B", "", request(5, 60)))
		c.refuse(accounted(request(5, 5), "A", "other"))
		c.refuse(accounted(request(5, 5), "B", "other"))
		streams = append(streams, c.submit("C", "", request(5, 60)))
		c.refuse(accounted(request(5, 5), "D", ""))
		for range 30 {
			c.next()
		}
		if lost := c.lost(streams); len(lost) > 0 {
			t.Errorf("lost have %v, which had begun", lost)
		}
		c.end(streams)
	})
}

// TestCrowdOfTenants: many tenants with one request each fill the engine as one tenant did.
// They do not take the places of a tenant that has a few.
func TestCrowdOfTenants(t *testing.T) {
	c := newCrowd(t, engine.Config{MaxLive: 640}, simSpec(200, 16, 1000, 1, 1))
	var streams []*engine.Stream
	c.submit("first", "", request(5, 20)) // takes the one place to run
	c.next()
	for i := range 10 {
		streams = append(streams, c.submit("B", fmt.Sprint(i), request(5, 20)))
	}
	for i := range 640 + 80 - 11 {
		streams = append(streams, c.submit(fmt.Sprint("attacker ", i), "", request(5, 20)))
	}
	for i := range 20 {
		c.refuse(accounted(request(5, 5), fmt.Sprint("late ", i), ""))
	}
	c.next()
	c.next()
	if lost := c.lost(streams); len(lost) > 0 {
		t.Errorf("lost have %v", lost)
	}
	c.end(streams)
}

// TestPlacesTogether: requests that were submitted together get places together, and lose
// them together.
func TestPlacesTogether(t *testing.T) {
	c := newCrowd(t, engine.Config{MaxLive: 20}, simSpec(200, 16, 1000, 1, 1))
	r, pair := request(5, 20), accounted(request(5, 20), "A", "")
	pair.N = 2
	streams := []*engine.Stream{c.submit("A", "", r)}
	c.next()
	for range 15 {
		streams = append(streams, c.submit("A", "", r))
	}
	four, err := c.SubmitAll([]engine.Request{pair, pair})
	if err != nil {
		t.Fatal(err)
	}
	b := accounted(r, "B", "")
	c.refuse(slices.Repeat([]engine.Request{b}, 11)...) // would hold more than A then
	three, err := c.SubmitAll([]engine.Request{b, b, b})
	if err != nil {
		t.Fatal(err)
	}
	c.refuse(pair) // one place is left of the four
	streams = append(streams, c.submit("A", "", r))
	c.next()
	c.next()
	if lost := c.lost(streams); len(lost) > 0 {
		t.Errorf("lost have %v", lost)
	}
	var ev engine.Events
	if four.Take(&ev); len(ev.Items) != 4 {
		t.Errorf("the four choices have lost their places with %d events", len(ev.Items))
	}
	for _, e := range ev.Items {
		if e.Reason != engine.Failed || !errors.Is(e.Err, engine.ErrFull) {
			t.Errorf("a choice of the four has ended with %v: %v", e.Reason, e.Err)
		}
	}
	c.end(append(streams, three))
}

// hurry counts how the requests of many clients end.
type hurry struct{ done, lost, refused atomic.Int64 }

// send submits a request, and reads or cancels its answer, which is whole, or ends as refused
// before its first token.
func (h *hurry) send(t *testing.T, e runningEngine, j job) {
	s, err := e.Submit(j.req)
	if err != nil {
		h.refused.Add(1)
		return
	}
	got := collect(t.Context(), s, j)
	switch {
	case got.err == nil:
		h.done.Add(1)
	case !errors.Is(got.err, engine.ErrFull) || s.Drawn() > 0:
		t.Errorf("%v after %d tokens", got.err, s.Drawn())
	default:
		h.lost.Add(1)
	}
}

// TestIntakeUnderWay: tenants submit and cancel as they like while steps are computed. In
// the end all places are free.
func TestIntakeUnderWay(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		seed := seeded(t).Uint64()
		const places = 24
		e := start(t, engine.Config{MaxLive: places}, oracle(simSpec(60, 16, 64, 4, depth)))
		var h hurry
		var clients sync.WaitGroup
		for n := range 24 {
			clients.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(n)))
				for range rounds(80) {
					j := job{req: accounted(request(1+rng.IntN(60), 1+rng.IntN(10)), fmt.Sprint(n%5%3), fmt.Sprint(n%4))}
					j.req.N = 1 + rng.IntN(3)
					j.cancelAfter = max(0, rng.IntN(4)-2)
					h.send(t, e, j)
				}
			})
		}
		clients.Wait()
		if h.lost.Load() == 0 || h.done.Load() == 0 {
			t.Errorf("%d have lost their places, %d were refused, %d are done", h.lost.Load(), h.refused.Load(), h.done.Load())
		}
		all := request(1, 1)
		all.N = places
		s, err := e.Submit(all)
		for errors.Is(err, engine.ErrFull) { // those that were cancelled last may still hold some
			s, err = e.Submit(all)
		}
		if err != nil {
			t.Fatal(err)
		}
		if r := collect(t.Context(), s, job{req: all}); r.err != nil {
			t.Error(r.err)
		}
		e.mustStop(t)
	})
}
