//go:build cuda && linux && amd64

package cuda_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"weir/backend"
	"weir/device/cuda"
	"weir/engine"
	"weir/model"
	"weir/sampler"
	"weir/scheduler"
)

// running is an engine whose loop runs over a device.
type running struct {
	*engine.Engine
	stop func() error
}

func start(t *testing.T, m *model.Model, cfg cuda.Config, o model.Options, ec engine.Config) running {
	t.Helper()
	o.ThreadBound = true
	e := engine.New(ec, func() (backend.Backend, error) {
		dev, err := cuda.Open(cfg)
		if err != nil {
			return nil, err
		}
		return model.NewRunner(context.Background(), dev, m, o)
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	select {
	case <-e.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	stop := sync.OnceValue(func() error { cancel(); return <-done })
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return running{e, stop}
}

// answer is what a request got: its tokens, and their log-probabilities with
// those of their alternatives.
type answer struct {
	tokens []int32
	scores []float32
	err    error
}

func ask(h running, r engine.Request) (a answer) {
	s, err := h.Submit(r)
	if err != nil {
		return answer{err: err}
	}
	var ev engine.Events
	for {
		if a.err = s.Next(context.Background(), &ev); a.err != nil {
			return a
		}
		for _, e := range ev.Items {
			if e.Token >= 0 {
				a.tokens, a.scores = append(a.tokens, e.Token), append(a.scores, e.Logprob)
				for _, top := range e.Top {
					a.scores = append(a.scores, top.Logprob)
				}
			}
			if e.Reason != engine.NotDone {
				a.err = e.Err
				return a
			}
		}
	}
}

func requests(g *rand.Rand, n, vocab int) []engine.Request {
	prefix := randomTokens(g, 40, vocab)
	list := make([]engine.Request, n)
	for i := range list {
		p := sampler.DefaultParams()
		p.Seed, p.Logprobs, p.TopLogprobs = uint64(i), backend.RawLogprobs, 5
		switch i % 3 {
		case 0:
			p.Temperature = 0
		case 1:
			p.TopP, p.Repetition = 0.9, 1.2
		}
		list[i] = engine.Request{Tokens: append(slices.Clone(prefix[:8+g.IntN(32)]), randomTokens(g, 1+g.IntN(6), vocab)...), Sampling: p,
			Limits: engine.Limits{MaxTokens: 6 + g.IntN(10), EOS: -1}}
	}
	return list
}

// TestMetamorphic: in the engine with two steps in flight, no bit of a log-probability
// depends on the pool, the budget, the prefix cache, preemption, other requests or the way
// kernels are launched. One of the networks has recurrent states and experts.
func TestMetamorphic(t *testing.T) {
	for _, name := range []string{"qwen3", "families/qwen3_5_moe"} {
		t.Run(name, func(t *testing.T) { metamorphic(t, openModel(t, name)) })
	}
}

func metamorphic(t *testing.T, m *model.Model) {
	t.Helper()
	g := rand.New(rand.NewPCG(21, 21))
	jobs := requests(g, 5, m.Config.VocabSize)
	var preempted, hits uint64
	run := func(plain, caching bool, o model.Options, s scheduler.Config, order []int) []answer {
		cfg := config()
		cfg.PlainLaunch = plain
		h := start(t, m, cfg, o, engine.Config{Scheduler: s, Caching: caching, MaxLive: 100})
		out := make([]answer, len(jobs))
		var wg sync.WaitGroup
		for _, i := range order {
			wg.Go(func() { out[i] = ask(h, jobs[i]) })
		}
		wg.Wait()
		stats := h.Stats()
		preempted += stats.Preemptions
		hits += stats.PrefixHits
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		return out
	}
	want := run(true, false, model.Options{NumBlocks: 100, MaxTokens: 400, MaxSeqs: 16, MaxSeqTokens: 128}, scheduler.Config{}, g.Perm(len(jobs)))
	for i, got := range [][]answer{
		run(false, true, model.Options{NumBlocks: 100, MaxTokens: 64, MaxSeqs: 16, MaxSeqTokens: 128, Depth: 2}, scheduler.Config{MaxPrefill: 20}, g.Perm(len(jobs))),
		run(false, true, model.Options{NumBlocks: 6, MaxTokens: 33, MaxSeqs: 5, MaxSeqTokens: 64, Depth: 2}, scheduler.Config{}, g.Perm(len(jobs))),
	} {
		for j := range jobs {
			if got[j].err != nil || want[j].err != nil || !slices.Equal(got[j].tokens, want[j].tokens) || !sameBits(got[j].scores, want[j].scores) {
				t.Errorf("variant %d, job %d:\n got %+v\nwant %+v", i, j, got[j], want[j])
			}
		}
	}
	t.Logf("%d preemptions, %d tokens from the prefix cache", preempted, hits)
	if preempted == 0 || hits == 0 {
		t.Error("the test did not reach what it is for")
	}
}

// TestReopened: when a kernel fails, the requests of the steps in flight end
// with the driver's words, the device is opened again, and those after them get
// what they would have got.
func TestReopened(t *testing.T) {
	emulated(t)
	m := openModel(t, "qwen3")
	jobs := requests(rand.New(rand.NewPCG(5, 5)), 2, m.Config.VocabSize)
	o := model.Options{NumBlocks: 40, MaxTokens: 64, MaxSeqs: 8, MaxSeqTokens: 128, Depth: 2}
	h := start(t, m, config(), o, engine.Config{MaxLive: 10})
	want := ask(h, jobs[1])
	if want.err != nil {
		t.Fatal(want.err)
	}
	for _, code := range []int{illegalAccess, launchFailed} {
		fail(t, "run", 60, code)
		if a := ask(h, jobs[0]); !errors.Is(a.err, cuda.ErrDevice) || !strings.Contains(a.err.Error(), "CUDA error") {
			t.Errorf("got %+v", a)
		}
		if got := ask(h, jobs[1]); got.err != nil || !slices.Equal(got.tokens, want.tokens) || !sameBits(got.scores, want.scores) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	if n := h.Stats().Reopened; n != 2 {
		t.Errorf("opened anew %d times", n)
	}
}
