package bench

import (
	"context"
	"fmt"
	"sync"
	"time"
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
	r, err := newRun(ctx, &cfg, c)
	if err != nil {
		return nil, err
	}
	watch := watchGenerator()
	r.start = time.Now()
	stop := r.reportProgress(cfg.Progress)
	r.dispatch(ctx)
	r.flights.Wait()
	stop()
	rep := newReport(&cfg, r.outcomes)
	rep.Date, rep.Repeats = r.start, r.repeats
	rep.Interrupted = ctx.Err() != nil
	watch.end(&rep.Generator)
	rep.addWarnings()
	return rep, nil
}

// newRun draws the prompts, warms the server up, and prepares the requests that are measured.
func newRun(ctx context.Context, cfg *ServeConfig, c *client) (*run, error) {
	// The prompts of the warm-up differ from those of the run, so that no measured prompt is in the
	// server's prefix cache.
	n := cfg.NumPrompts
	prompts, err := cfg.Data.draw(n+cfg.Warmups, &drawing{cfg.Seed, cfg.Variant, c.counter(ctx, cfg.Model)})
	if err != nil {
		return nil, err
	}
	e, err := cfg.encoder()
	if err != nil {
		return nil, err
	}
	requests, err := cfg.requests(prompts, n)
	if err != nil {
		return nil, err
	}
	if err := c.warm(ctx, requests[n:]); err != nil {
		return nil, err
	}
	r := &run{client: c, encoder: e, requests: requests[:n], outcomes: make([]outcome, n), limit: cfg.MaxConcurrency, repeats: repeats(prompts[:n])}
	if r.limit == 0 {
		r.limit = n
	}
	return r, nil
}

// repeats counts the prompts that are the same as one before them, which a prefix cache answers.
func repeats(prompts []Prompt) (count int) {
	seen := map[string]bool{}
	for i := range prompts {
		p := &prompts[i]
		text := p.Text
		for _, m := range p.Messages {
			text += string(m)
		}
		if !p.Follows && seen[text] {
			count++
		}
		seen[text] = true
	}
	return count
}

// warm sends requests that are not measured, all at once. It is an error if none of them is
// answered, because then the run would measure nothing.
func (c *client) warm(ctx context.Context, requests []request) error {
	outcomes := make([]outcome, len(requests))
	var flights sync.WaitGroup
	begin := time.Now()
	for i := range requests {
		flights.Go(func() { c.stream(ctx, &requests[i], &outcomes[i], func() time.Duration { return time.Since(begin) }) })
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
	encoder  *encoder
	requests []request
	outcomes []outcome // each is written only by the goroutine of its request
	start    time.Time
	limit    int // largest number of requests in flight
	repeats  int
	flights  sync.WaitGroup

	mu struct {
		sync.Mutex
		waiting  []int // requests that are due, in the order in which they became due
		inFlight int
	}
}

func (r *run) now() time.Duration { return time.Since(r.start) }

// dispatch announces each request when it is due, whatever became of those before it. Those that
// follow another are announced by that.
func (r *run) dispatch(ctx context.Context) {
	for i := range r.requests {
		if r.requests[i].follows {
			continue
		}
		if !r.await(ctx, r.requests[i].due) {
			return
		}
		r.arrive(ctx, i, r.requests[i].due)
	}
}

// await waits until a time of the run. It returns false if ctx ended before.
func (r *run) await(ctx context.Context, at time.Duration) bool {
	if wait := at - r.now(); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// arrive starts a goroutine for a request that is due, unless the largest number of
// requests is in flight; then the request waits.
func (r *run) arrive(ctx context.Context, i int, due time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := &r.outcomes[i]
	o.due, o.arrived = due, r.now()
	if r.mu.inFlight == r.limit {
		o.waited = true
		r.mu.waiting = append(r.mu.waiting, i)
		return
	}
	r.mu.inFlight++
	r.flights.Go(func() { r.send(ctx, i) })
}

// send sends request i, and after its end the requests that wait.
func (r *run) send(ctx context.Context, i int) {
	for i >= 0 {
		o := &r.outcomes[i]
		r.client.stream(ctx, &r.requests[i], o, r.now)
		r.client.live.ended(o)
		if next := i + 1; o.completed() && next < len(r.requests) && r.requests[next].follows {
			r.flights.Go(func() { r.follow(ctx, next) })
		}
		i = r.next(ctx)
	}
}

// follow announces a request that follows another, after the time that its user thinks.
func (r *run) follow(ctx context.Context, i int) {
	q, before := &r.requests[i], &r.outcomes[i-1]
	due := before.last + q.prompt.Think
	answer := string(before.text)
	if answer == "" { // it was all thought, and thoughts are not sent back
		answer = noAnswer
	}
	if err := r.encoder.follow(q, &r.requests[i-1], answer); err != nil {
		r.outcomes[i] = outcome{begun: true, due: due, arrived: due, sent: due, first: -1, last: due, failure: reason(err)}
		return
	}
	if r.await(ctx, due) {
		r.arrive(ctx, i, due)
	}
}

// noAnswer stands in a history for an answer without text.
const noAnswer = "(no answer)"

// next returns the request to send in place of one that has ended, or -1 if none waits.
func (r *run) next(ctx context.Context) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.mu.waiting) == 0 || ctx.Err() != nil {
		r.mu.inFlight--
		return -1
	}
	i := r.mu.waiting[0]
	r.mu.waiting = r.mu.waiting[1:]
	return i
}
