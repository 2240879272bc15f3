package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// Of the seed come two independent streams of random numbers, so that another
// schedule leaves the prompts as they are.
const (
	scheduleStream = 1
	promptStream   = 2
)

// RunServe puts a load on a server and measures the answers. When ctx ends the
// run ends with it: the report then has what had been measured by then.
// The error is about the configuration, or about a server that does not answer
// at all; requests that fail are part of the report.
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
	rep.judge()
	return rep, nil
}

// prompts are those of the run and then those of the warm-up, which are others
// so that nothing measured is found in the server's prefix cache.
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

// warm sends requests that are not measured, all at once. If none is answered
// the run would not be worth its time.
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

// run is the load generator: dispatch announces arrivals, and a goroutine for
// each request in flight sends it and takes what came next when it has ended.
type run struct {
	client   *client
	bodies   [][]byte
	outcomes []outcome // each is written by the goroutine of its request alone
	start    time.Time
	limit    int // most requests in flight
	flights  sync.WaitGroup

	// Requests are taken in the order of their arrival: [0, taken) are in flight
	// or have ended, [taken, arrived) wait.
	mu struct {
		sync.Mutex
		taken, arrived, inFlight int
	}
}

func (r *run) now() time.Duration { return time.Since(r.start) }

// dispatch announces each request when it is due, whatever became of those
// before.
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
	r.flights.Go(func() { r.fly(ctx, i) })
}

// fly sends request i, and then those that have waited for it to end.
func (r *run) fly(ctx context.Context, i int) {
	for i >= 0 {
		r.client.stream(ctx, r.bodies[i], &r.outcomes[i], r.now)
		i = r.landed(ctx)
	}
}

// landed is the request to send in place of one that has ended; -1: none.
func (r *run) landed(ctx context.Context) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.taken == r.mu.arrived || ctx.Err() != nil {
		r.mu.inFlight--
		return -1
	}
	r.mu.taken++
	return r.mu.taken - 1
}
