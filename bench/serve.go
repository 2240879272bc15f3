package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// The seed gives two independent streams of random numbers, so that a change of the
// schedule does not change the prompts.
const (
	scheduleStream = 1
	promptStream   = 2
)

// RunServe puts a load on a server and measures the answers. When ctx ends, the run ends
// too, and the report has what was measured by then. An error is about the configuration, or
// about a server that does not answer at all; requests that fail are part of the report.
func RunServe(ctx context.Context, cfg ServeConfig) (*Report, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := newClient(&cfg)
	defer c.close()
	first, err := c.ready(ctx, cfg.ReadyTimeout)
	if err != nil {
		return nil, err
	}
	if cfg.Model == "" {
		cfg.Model = first
	}
	bodies, err := cfg.bodies(cfg.prompts())
	if err != nil {
		return nil, err
	}
	if err := c.warm(ctx, bodies[cfg.NumPrompts:]); err != nil {
		return nil, err
	}
	r := &run{client: c, bodies: bodies[:cfg.NumPrompts], outcomes: make([]outcome, cfg.NumPrompts)}
	r.limit = cfg.MaxConcurrency
	if r.limit == 0 {
		r.limit = cfg.NumPrompts
	}
	due := arrivals(cfg.NumPrompts, cfg.Rate, cfg.Burstiness, rand.New(rand.NewPCG(cfg.Seed, scheduleStream)))
	r.start = time.Now()
	before, known := cpuTime()
	r.dispatch(ctx, due)
	r.flights.Wait()
	after, _ := cpuTime()
	rep := newReport(&cfg, r.outcomes[:r.mu.taken])
	rep.Date = r.start
	rep.Interrupted = ctx.Err() != nil
	rep.Generator.Processors = runtime.GOMAXPROCS(0)
	if wall := time.Since(r.start); known && wall > 0 {
		rep.Generator.CPU = (after - before).Seconds() / wall.Seconds()
	}
	rep.addWarnings()
	return rep, nil
}

// prompts returns the prompts of the run and then those of the warm-up. They differ, so that
// no measured prompt is in the server's prefix cache.
func (c *ServeConfig) prompts() []Prompt {
	n := c.NumPrompts + c.Warmups
	if len(c.Prompts) == 0 {
		return c.Random.draw(n, rand.New(rand.NewPCG(c.Seed, promptStream)))
	}
	list := make([]Prompt, n)
	for i := range list {
		list[i] = c.Prompts[i%len(c.Prompts)]
	}
	return list
}

// warm sends requests that are not measured, all at once. It is an error if none of them is
// answered, because then the run would measure nothing.
func (c *client) warm(ctx context.Context, bodies [][]byte) error {
	outcomes := make([]outcome, len(bodies))
	var flights sync.WaitGroup
	begin := time.Now()
	for i := range bodies {
		flights.Go(func() { c.stream(ctx, bodies[i], &outcomes[i], func() time.Duration { return time.Since(begin) }) })
	}
	flights.Wait()
	for i := range outcomes {
		if outcomes[i].failure == "" {
			return nil
		}
	}
	if len(outcomes) > 0 {
		return fmt.Errorf("bench: every warm-up request failed, the first with: %s", outcomes[0].failure)
	}
	return nil
}

// run is the load generator. dispatch announces requests when they are due. Each request in
// flight has a goroutine, which sends it and, when it has ended, the next one that waits.
type run struct {
	client   *client
	bodies   [][]byte
	outcomes []outcome // each is written only by the goroutine of its request
	start    time.Time
	limit    int // largest number of requests in flight
	flights  sync.WaitGroup

	// Requests are sent in the order in which they are due: [0, taken) are in flight or
	// have ended, [taken, arrived) wait.
	mu struct {
		sync.Mutex
		taken, arrived, inFlight int
	}
}

func (r *run) now() time.Duration { return time.Since(r.start) }

// dispatch announces each request when it is due, whatever became of those before it.
func (r *run) dispatch(ctx context.Context, due []time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i, at := range due {
		if wait := at - r.now(); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
		r.outcomes[i].due, r.outcomes[i].arrived = at, r.now()
		r.arrive(ctx)
	}
}

// arrive starts a goroutine for the request that is due, unless the largest number of
// requests is in flight; then the request waits.
func (r *run) arrive(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.arrived++
	if r.mu.inFlight == r.limit {
		r.outcomes[r.mu.arrived-1].waited = true
		return
	}
	r.mu.inFlight++
	i := r.mu.taken
	r.mu.taken++
	r.flights.Go(func() { r.send(ctx, i) })
}

// send sends request i, and after its end the requests that wait.
func (r *run) send(ctx context.Context, i int) {
	for i >= 0 {
		r.client.stream(ctx, r.bodies[i], &r.outcomes[i], r.now)
		i = r.next(ctx)
	}
}

// next returns the request to send in place of one that has ended, or -1 if none waits.
func (r *run) next(ctx context.Context) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.taken == r.mu.arrived || ctx.Err() != nil {
		r.mu.inFlight--
		return -1
	}
	r.mu.taken++
	return r.mu.taken - 1
}
