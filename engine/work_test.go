package engine_test

import (
	"fmt"
	"sync"
	"testing"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/sampler"
	"weir/scheduler"
)

// workCounter counts what each step of a backend has beside its computation, and how often
// each of the requests has drawn, which it knows by their seeds.
type workCounter struct {
	edits, scored, host int // the most of a step
	steps               int
	drawn               map[uint64]int // rows by seed
	last                map[uint64]int // the step of the last one
	longest             map[uint64]int // between two
}

func newWorkCounter() *workCounter {
	return &workCounter{drawn: map[uint64]int{}, last: map[uint64]int{}, longest: map[uint64]int{}}
}

func (c *workCounter) draw(d *backend.Draws) {
	c.steps++
	scored, host := 0, 0
	for i := range d.Rows {
		r := &d.Rows[i]
		switch {
		case r.Dead:
			continue
		case r.Target >= 0:
			scored++
			continue
		case r.Host:
			host++
		}
		if c.drawn[r.Seed]++; c.drawn[r.Seed] > 1 {
			c.longest[r.Seed] = max(c.longest[r.Seed], c.steps-c.last[r.Seed])
		}
		c.last[r.Seed] = c.steps
	}
	c.edits, c.scored, c.host = max(c.edits, len(d.Edits)), max(c.scored, scored), max(c.host, host)
}

// heavyRequests are n requests of a tenant that ask for much work each.
func heavyRequests(n int, tenant string, seed uint64, change func(*engine.Request)) (jobs []job) {
	for i := range n {
		r := request(5+i%7, 30)
		r.Tenant, r.Sampling.Seed = tenant, seed+uint64(i)
		change(&r)
		jobs = append(jobs, job{req: r})
	}
	return jobs
}

// heavy are the ways to ask for much work.
var heavy = []struct {
	name   string
	change func(*engine.Request)
	work   int // of a draw, at least
}{
	{"logit_bias", func(r *engine.Request) {
		for i := range int32(100) {
			r.Sampling.Bias = append(r.Sampling.Bias, sampler.TokenBias{Token: i, Bias: float32(i%5) - 2})
		}
	}, 100},
	{"min_tokens", func(r *engine.Request) {
		for i := range int32(50) {
			r.Limits.StopIDs = append(r.Limits.StopIDs, 2*i)
		}
		r.Limits.MinTokens = 30
		r.Sampling.MinTokens, r.Sampling.StopIDs = 30, r.Limits.StopIDs
	}, 100},
	{"bad_words", func(r *engine.Request) {
		for i := range int32(60) {
			r.Sampling.BadWords = append(r.Sampling.BadWords, []int32{7, i}, []int32{i})
		}
		r.Sampling.Bias = []sampler.TokenBias{{Token: 77, Bias: 2}, {Token: 7, Bias: 3}}
	}, 120},
	{"repetition_penalty", func(r *engine.Request) {
		r.Tokens, r.Sampling.Repetition = prompt(80), 1.2
	}, 80},
}

// TestStepHasBounds: requests that each ask for much work have the same answers, bit for bit,
// whether a step does the work of all or of a few. Then no step has more than its bound, all
// of them get on, and the neighbours of another tenant, with as much work or none, draw in
// nearly all steps.
func TestStepHasBounds(t *testing.T) {
	for _, h := range heavy {
		t.Run(h.name, func(t *testing.T) {
			eachDepth(t, func(t *testing.T, depth int) { testStepHasBounds(t, depth, h.work, h.change) })
		})
	}
}

func testStepHasBounds(t *testing.T, depth, work int, change func(*engine.Request)) {
	const many, most = 40, 500
	jobs := heavyRequests(many, "many", 1000, change)
	jobs = append(jobs, heavyRequests(1, "one", 1, change)...)
	jobs = append(jobs, heavyRequests(1, "plain", 2, func(*engine.Request) {})...)
	want := runAll(t, roomy.start(t), jobs)
	c := newWorkCounter()
	e := start(t, engine.Config{Scheduler: scheduler.Config{MaxWork: most}, MaxLive: 100}, hooked(oracle(simSpec(2000, 16, 1000, 100, depth)), hooks{draw: c.draw}))
	if err := compare(jobs, runAll(t, e, jobs), want); err != nil {
		t.Fatal(err)
	}
	if c.edits > most || c.edits < most/5 {
		t.Errorf("a step has %d edits, of at most %d", c.edits, most)
	}
	if least := many * 30 * work / most / 2; c.steps < least {
		t.Errorf("%d steps, which is less than %d: the bound does not bind", c.steps, least)
	}
	for seed, limit := range map[uint64]int{1: 2, 2: 1} {
		if c.longest[seed] > limit || c.drawn[seed] != 30 {
			t.Errorf("the neighbour with seed %d has drawn %d tokens, with up to %d steps from one to the next", seed, c.drawn[seed], c.longest[seed])
		}
	}
	for seed, longest := range c.longest {
		if longest > 40 {
			t.Errorf("the request with seed %d has waited for %d steps", seed, longest)
		}
	}
	if e.Stats().LeftOut == 0 || e.Stats().SittingOut != 0 {
		t.Errorf("statistics %+v", e.Stats())
	}
}

// TestScoresHaveBounds: a step scores no more prompt tokens, and copies no more logits to the
// host, than its bounds allow, with the same results.
func TestScoresHaveBounds(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		jobs := heavyRequests(20, "many", 1000, func(r *engine.Request) {
			r.Tokens = append(prompt(50), r.Tokens...)
			r.Prompt = &engine.PromptScores{Top: 20, Mode: backend.RawLogprobs}
		})
		jobs = append(jobs, heavyRequests(20, "others", 1, func(r *engine.Request) {
			r.Sampling.Logprobs, r.LogprobIDs = backend.RawLogprobs, []int32{1, 2, 3}
		})...)
		want := runAll(t, roomy.start(t), jobs)
		c := newWorkCounter()
		cfg := scheduler.Config{MaxScored: 11, MaxWork: 4 * (simVocab / 16)}
		e := start(t, engine.Config{Scheduler: cfg, MaxLive: 100}, hooked(oracle(simSpec(2000, 16, 1000, 100, depth)), hooks{draw: c.draw}))
		if err := compare(jobs, runAll(t, e, jobs), want); err != nil {
			t.Fatal(err)
		}
		if c.scored != cfg.MaxScored || c.host != 4 {
			t.Errorf("a step scores %d prompt tokens and copies %d rows, want %d and 4", c.scored, c.host, cfg.MaxScored)
		}
	})
}

// TestMostLegalWork: the bounds hold without any configuration, with as much work for each
// request as the server lets it ask for.
func TestMostLegalWork(t *testing.T) {
	spec := simSpec(2000, 16, 2000, 256, 2)
	spec.VocabSize, spec.MaxSeqTokens = 1<<15, 400
	c, submitted := newWorkCounter(), make(chan struct{})
	e := start(t, engine.Config{MaxLive: 300}, hooked(func() (backend.Backend, error) { return sim.NewPaced(spec, sim.Instant()) },
		hooks{draw: c.draw, begin: func(*backend.Batch) { <-submitted }}))
	var wg sync.WaitGroup
	for i := range 100 {
		r := request(5, 3)
		r.Tenant, r.Sampling.Seed = fmt.Sprint(i%3), uint64(i)
		for t := range int32(1 << 14) {
			r.Sampling.Bias = append(r.Sampling.Bias, sampler.TokenBias{Token: t, Bias: 1})
		}
		s := e.mustSubmit(t, r)
		wg.Go(func() {
			if got := collect(t.Context(), s, job{req: r}); got.err != nil || len(got.choices[0].tokens) != 3 {
				t.Errorf("%d tokens, error %v", len(got.choices[0].tokens), got.err)
			}
		})
	}
	close(submitted)
	wg.Wait()
	e.mustStop(t)
	if want := 1 << 20; c.edits > want || c.edits < want/2 {
		t.Errorf("a step has %d edits, of at most %d", c.edits, want)
	}
}
