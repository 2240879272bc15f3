package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/sampler"
	"weir/scheduler"
)

// job is one request of a workload. leave cancels it after so many events; 0
// never does.
type job struct {
	req   engine.Request
	leave int
	rule  uint64 // of its masks; 0: none
}

// request is the job's, with masks of its own.
func (j job) request() engine.Request {
	r := j.req
	if j.rule != 0 {
		for i := range max(1, r.N) {
			r.Masks = append(r.Masks, &riddle{state: j.rule + uint64(i), end: r.Limits.EOS})
		}
	}
	return r
}

// answer is all that a client can see of one choice. Two answers are the same
// only if every bit is.
type answer struct {
	tokens []int32
	scores []float32 // logprob of each token, then those of its alternatives
	others []int32   // rank of each token, then the ids of its alternatives
	text   string
	reason engine.Reason
	stop   string // stop id or string
}

// prefix cuts an answer after n tokens, as a client sees it who left.
func (a answer) prefix(n int) answer {
	n = min(n, len(a.tokens))
	return answer{tokens: a.tokens[:n]}
}

func (a answer) equal(b answer) bool {
	return slices.Equal(a.tokens, b.tokens) && slices.EqualFunc(a.scores, b.scores, sameBits) && slices.Equal(a.others, b.others) &&
		a.text == b.text && a.reason == b.reason && a.stop == b.stop
}

func sameBits(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }

// result is what one request got.
type result struct {
	choices []answer
	prompt  []engine.PromptLogprob
	err     error
	left    bool
}

// collect reads a stream to its end, or leaves it.
func collect(ctx context.Context, s *engine.Stream, j job) (r result) {
	r.choices = make([]answer, max(1, j.req.N))
	var ev engine.Events
	events, live := 0, len(r.choices)
	for live > 0 {
		if r.err = s.Next(ctx, &ev); r.err != nil {
			return r
		}
		for _, e := range ev.Items {
			events++
			c := &r.choices[e.Choice]
			if c.reason != engine.NotDone {
				r.err = fmt.Errorf("choice %d: an event after its last", e.Choice)
				return r
			}
			if e.Token >= 0 {
				c.tokens = append(c.tokens, e.Token)
				c.scores = append(c.scores, e.Logprob)
				c.others = append(c.others, e.Rank)
				for _, t := range e.Top {
					c.scores = append(c.scores, t.Logprob)
					c.others = append(c.others, t.Token)
				}
			}
			c.text += string(e.Text)
			if c.reason = e.Reason; e.Reason != engine.NotDone {
				live--
				c.stop = e.StopStr
				if e.StopID >= 0 {
					c.stop = strconv.Itoa(int(e.StopID))
				}
			}
			if e.Err != nil {
				r.err = e.Err
			}
			if e.Reason == engine.Aborted {
				r.left = true
			}
		}
		if j.leave > 0 && events >= j.leave && live > 0 {
			s.Cancel()
			r.left = true
			return r
		}
	}
	r.prompt = s.PromptLogprobs(0)
	return r
}

// house is one engine with its loop.
type house struct {
	*engine.Engine
	cancel func()       // asks the loop to end
	stop   func() error // the same, and waits
}

func start(t testing.TB, cfg engine.Config, open func() (backend.Backend, error)) house {
	t.Helper()
	e := engine.New(cfg, open)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	select {
	case <-e.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	return house{e, cancel, sync.OnceValue(func() error { cancel(); return <-done })}
}

// runAll submits all jobs at once and returns what each got. Afterwards every
// block must be back.
func runAll(t *testing.T, h house, jobs []job) []result {
	t.Helper()
	out := make([]result, len(jobs))
	var wg sync.WaitGroup
	for i, j := range jobs {
		wg.Go(func() {
			s, err := h.Submit(j.request())
			if err != nil {
				out[i].err = err
				return
			}
			out[i] = collect(context.Background(), s, j)
		})
	}
	wg.Wait()
	if err := h.stop(); err != nil {
		t.Fatal(err)
	}
	if s := h.Stats(); s.BlocksUsed != 0 || s.Running+s.Waiting != 0 {
		t.Fatalf("left behind: %+v", s)
	}
	return out
}

// compare says where two runs of the same jobs differ in what clients see.
func compare(jobs []job, got, want []result) error {
	for i := range jobs {
		g, w := got[i], want[i]
		if g.err != nil || w.err != nil {
			return fmt.Errorf("job %d: %v, plainly %v", i, g.err, w.err)
		}
		for c := range w.choices {
			a, b := g.choices[c], w.choices[c]
			if g.left || w.left { // how far it came depends on time; what it got does not
				n := min(len(a.tokens), len(b.tokens))
				a, b = a.prefix(n), b.prefix(n)
			}
			if !a.equal(b) {
				return fmt.Errorf("job %d choice %d:\n got %+v\nwant %+v", i, c, a, b)
			}
		}
		if !g.left && !w.left && !slices.EqualFunc(g.prompt, w.prompt, samePrompt) {
			return fmt.Errorf("job %d: prompt scores %v, want %v", i, g.prompt, w.prompt)
		}
	}
	return nil
}

func samePrompt(a, b engine.PromptLogprob) bool {
	return a.Token == b.Token && a.Rank == b.Rank && sameBits(a.Logprob, b.Logprob) &&
		slices.EqualFunc(a.Top, b.Top, func(x, y engine.TokenLogprob) bool {
			return x.Token == y.Token && sameBits(x.Logprob, y.Logprob)
		})
}

// workload makes n jobs that use everything the core offers, over few prefixes.
func workload(g *rand.Rand, n, vocab, maxLen int) []job {
	token := func() int32 { return int32(g.IntN(vocab)) }
	tokens := func(n int) (ids []int32) {
		for range n {
			ids = append(ids, token())
		}
		return ids
	}
	prefixes := make([][]int32, 4)
	for i := range prefixes {
		prefixes[i] = tokens(5 + g.IntN(maxLen/3))
	}
	jobs := make([]job, n)
	for i := range jobs {
		p := prefixes[g.IntN(len(prefixes))]
		p = append(slices.Clone(p[:1+g.IntN(len(p))]), tokens(g.IntN(maxLen/6))...)
		s := sampler.DefaultParams()
		s.Seed = g.Uint64()
		lim := engine.Limits{MaxTokens: 1 + g.IntN(maxLen/3), EOS: token()}
		r := engine.Request{Tokens: p, Priority: int64(g.IntN(3)), Salt: [16]byte{byte(g.IntN(2))}}
		switch g.IntN(4) {
		case 0:
			s.Temperature = 0
		case 1:
			s.TopK, s.TopP = 1+g.IntN(20), float32(1+g.IntN(10))/10
		case 2:
			s.Temperature, s.MinP = 1.5, 0.05
		}
		if s.Temperature > 0 && g.IntN(4) == 0 {
			r.N = 2 + g.IntN(3)
		}
		if g.IntN(3) == 0 {
			s.Frequency, s.Presence, s.Repetition = 0.7, -0.3, 1.3
		}
		if g.IntN(5) == 0 {
			s.Bias = []sampler.TokenBias{{Token: token(), Bias: 5}, {Token: token(), Bias: -50}}
		}
		if g.IntN(6) == 0 {
			s.Allowed = tokens(12)
		}
		if g.IntN(6) == 0 {
			s.BadWords = [][]int32{{token()}, {token(), token()}}
		}
		if g.IntN(4) == 0 {
			lim.StopIDs = tokens(vocab / 20)
		}
		if g.IntN(4) == 0 {
			lim.MinTokens = g.IntN(lim.MaxTokens + 1)
		}
		s.MinTokens, s.StopIDs = lim.MinTokens, append([]int32{lim.EOS}, lim.StopIDs...)
		if s.Allowed != nil {
			s.StopIDs = nil // an allow list and a ban together may leave nothing
		}
		if g.IntN(6) == 0 {
			lim.Repetition = engine.Repetition{MaxPattern: 3, MinCount: 2}
		}
		if g.IntN(3) == 0 {
			s.Logprobs, s.TopLogprobs = backend.LogprobMode(1+g.IntN(2)), g.IntN(4)
		}
		if g.IntN(8) == 0 {
			r.Prompt = &engine.PromptScores{Top: g.IntN(3), Mode: backend.RawLogprobs}
		}
		if g.IntN(3) == 0 {
			jobs[i].rule = g.Uint64() | 1
			s.Allowed, s.BadWords = nil, nil // together they may leave nothing
			s.MinTokens, lim.MinTokens = 0, 0
		}
		r.Limits, r.Sampling = lim, s
		jobs[i].req = r
		if g.IntN(6) == 0 {
			jobs[i].leave = 1 + g.IntN(10)
		}
	}
	return jobs
}

// seeded returns a generator and logs how to run the same again.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	if s := os.Getenv("WEIR_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("WEIR_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// rounds is n, or less where a round takes ten times as long.
func rounds(n int) int {
	if raceEnabled {
		return n / 4
	}
	return n
}

const simVocab, simLen = 300, 120

func simSpec(blocks, blockTokens, tokens, seqs, depth int) backend.Spec {
	return backend.Spec{VocabSize: simVocab, BlockTokens: blockTokens, NumBlocks: blocks, MaxTokens: tokens, MaxSeqs: seqs, MaxSeqTokens: simLen, Depth: depth}
}

// variant is a configuration that must not matter.
type variant struct {
	spec    backend.Spec
	sched   scheduler.Config
	caching bool
	oracle  sim.OracleConfig
}

func (v variant) String() string {
	return fmt.Sprintf("blocks=%dx%d tokens=%d seqs=%d depth=%d %+v cache=%v reading=%d", v.spec.NumBlocks, v.spec.BlockTokens, v.spec.MaxTokens,
		v.spec.MaxSeqs, v.spec.Depth, v.sched, v.caching, v.oracle.Reading)
}

func (v variant) config(jobs int) engine.Config {
	return engine.Config{Scheduler: v.sched, Caching: v.caching, MaxLive: 10 * jobs}
}

func variants() []variant {
	prio := scheduler.Config{Priority: true}
	lazy := sim.OracleConfig{Reading: sim.Lazy}
	return []variant{
		{simSpec(20, 8, 7, 4, 1), scheduler.Config{}, true, lazy},
		{simSpec(20, 8, 7, 4, 2), scheduler.Config{MaxPrefill: 3}, true, lazy},
		{simSpec(130, 1, 3, 40, 1), prio, true, sim.OracleConfig{}},
		{simSpec(130, 1, 3, 40, 2), prio, true, sim.OracleConfig{}},
		{simSpec(40, 4, 64, 16, 2), prio, false, lazy},
		{simSpec(14, 16, 5, 8, 2), scheduler.Config{Priority: true, MaxPrefill: 2}, true, lazy},
		{simSpec(70, 2, 200, 40, 1), scheduler.Config{}, true, lazy},
		{simSpec(70, 2, 200, 40, 2), scheduler.Config{}, true, sim.OracleConfig{}},
		{simSpec(9, 16, 33, 3, 2), scheduler.Config{}, false, sim.OracleConfig{}},
	}
}

// TestMetamorphic runs one workload under many configurations over the
// simulator, whose tokens depend on every slot that the books name. What a
// request gets must not depend on block size, pool size, budget, caching,
// policy, preemption, arrival order, neighbours, steps in flight or goroutine
// timing, whoever leaves at whatever moment.
func TestMetamorphic(t *testing.T) {
	g := seeded(t)
	var preempted, hits uint64
	for round := range rounds(12) {
		jobs := workload(g, 30, simVocab, simLen)
		plain := variant{spec: simSpec(4000, 16, 10000, 1000, 1)}
		open := func(v variant) func() (backend.Backend, error) {
			return func() (backend.Backend, error) { return sim.NewOracle(v.spec, v.oracle) }
		}
		want := runAll(t, start(t, plain.config(len(jobs)), open(plain)), jobs)
		for _, v := range variants() {
			shuffled := slices.Clone(jobs)
			order := g.Perm(len(jobs))
			for to, from := range order {
				shuffled[to] = jobs[from]
			}
			h := start(t, v.config(len(jobs)), open(v))
			got := runAll(t, h, shuffled)
			back := make([]result, len(jobs))
			for to, from := range order {
				back[from] = got[to]
			}
			if err := compare(jobs, back, want); err != nil {
				t.Fatalf("round %d, %v: %v", round, v, err)
			}
			preempted += h.Stats().Preemptions
			hits += h.Stats().PrefixHits
		}
	}
	t.Logf("%d preemptions, %d tokens from the prefix cache", preempted, hits)
	if preempted < 10 || hits < 200 {
		t.Error("the test did not reach what it is for")
	}
}

// TestAbortsInFlight cancels requests from inside the backend, between Begin
// and End, at every step: nothing is lost, and nobody else notices.
func TestAbortsInFlight(t *testing.T) {
	g := seeded(t)
	for round := range rounds(20) {
		jobs := workload(g, 20, simVocab, simLen)
		for i := range jobs {
			jobs[i].leave = 0
		}
		plain := variant{spec: simSpec(4000, 16, 10000, 1000, 1)}
		want := runAll(t, start(t, plain.config(len(jobs)), func() (backend.Backend, error) { return sim.NewOracle(plain.spec, plain.oracle) }), jobs)
		for depth := 1; depth <= 2; depth++ {
			spec := simSpec(60, 4, 40, 10, depth)
			streams := make([]*engine.Stream, len(jobs))
			cancelled := make([]bool, len(jobs))
			armed := false
			pick := rand.New(rand.NewPCG(uint64(round), uint64(depth)))
			hook := func(c sim.Call, step int) error {
				if armed && pick.IntN(4) == 0 {
					i := pick.IntN(len(jobs))
					streams[i].Cancel()
					cancelled[i] = true
				}
				return nil
			}
			gate := make(chan struct{})
			h := start(t, engine.Config{Caching: true, MaxLive: 1000}, func() (backend.Backend, error) {
				return sim.NewOracle(spec, sim.OracleConfig{Reading: sim.Lazy, Hook: func(c sim.Call, step int) error {
					<-gate // until all streams are known
					return hook(c, step)
				}})
			})
			for i, j := range jobs {
				var err error
				if streams[i], err = h.Submit(j.request()); err != nil {
					t.Fatal(err)
				}
			}
			armed = true
			close(gate)
			got := make([]result, len(jobs))
			var wg sync.WaitGroup
			ctx, stop := context.WithCancel(context.Background())
			for i, j := range jobs {
				wg.Go(func() { got[i] = collect(ctx, streams[i], j) })
			}
			for h.Stats().Running+h.Stats().Waiting > 0 || h.Stats().Steps == 0 {
				runtime.Gosched()
			}
			stop() // those who were cancelled get no last event
			wg.Wait()
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			if s := h.Stats(); s.BlocksUsed != 0 {
				t.Fatalf("%d blocks lost", s.BlocksUsed)
			}
			for i := range jobs {
				if cancelled[i] {
					got[i].left, got[i].err = true, nil
				}
			}
			if err := compare(jobs, got, want); err != nil {
				t.Fatalf("round %d depth %d: %v", round, depth, err)
			}
		}
	}
}

// TestFailedStep: the requests of a failed step end with its error; the
// backend is opened anew and everybody else goes on as if nothing had
// happened.
func TestFailedStep(t *testing.T) {
	g := seeded(t)
	broken := errors.New("the device is gone")
	failures := 0
	for round := range rounds(20) {
		jobs := workload(g, 20, simVocab, simLen)
		for i := range jobs {
			jobs[i].leave = 0
		}
		plain := variant{spec: simSpec(4000, 16, 10000, 1000, 1)}
		want := runAll(t, start(t, plain.config(len(jobs)), func() (backend.Backend, error) { return sim.NewOracle(plain.spec, plain.oracle) }), jobs)
		depth := 1 + round%2
		call, at := sim.Call(g.IntN(3)), 3+g.IntN(10)
		opened := 0
		h := start(t, engine.Config{Caching: true, MaxLive: 1000}, func() (backend.Backend, error) {
			opened++
			first := opened == 1
			return sim.NewOracle(simSpec(60, 4, 30, 5, depth), sim.OracleConfig{Hook: func(c sim.Call, step int) error {
				if first && c == call && step == at {
					return broken
				}
				return nil
			}})
		})
		got := runAll(t, h, jobs)
		failed := 0
		for i := range jobs {
			if errors.Is(got[i].err, broken) {
				failed++
				got[i], want[i] = result{}, result{} // their answers were cut off
			}
		}
		if err := compare(jobs, got, want); err != nil {
			t.Fatalf("round %d: %v failed at step %d: %v", round, call, at, err)
		}
		// With two in flight the last steps may hold none but ended sequences.
		if opened != 2 || failed == 0 && depth == 1 || failed > 12 {
			t.Fatalf("round %d: opened %d times, %d failed", round, opened, failed)
		}
		failures += failed
	}
	if failures == 0 {
		t.Error("no request ever failed")
	}
}
