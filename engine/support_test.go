package engine_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
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

// This file has what the tests share: engines over the simulator, requests, and the
// collection of all that a client sees of them.

// simVocab and simLen are the vocabulary and the longest sequence of the simulator.
const simVocab, simLen = 300, 120

func simSpec(blocks, blockTokens, tokens, seqs, depth int) backend.Spec {
	return backend.Spec{VocabSize: simVocab, BlockTokens: blockTokens, NumBlocks: blocks, MaxTokens: tokens, MaxSeqs: seqs, MaxSeqTokens: simLen, Depth: depth}
}

// withStates is a spec of a network with a recurrent state and so many slots for it.
func withStates(slots int, s backend.Spec) backend.Spec {
	s.StateSlots = slots
	return s
}

// withGroups is a spec of a network with these groups of layers. The pool has room for one sequence at least.
func withGroups(s backend.Spec, groups ...backend.KVGroup) backend.Spec {
	s.Groups = groups
	s.NumBlocks = max(s.NumBlocks, 1+s.SequenceBlocks(s.MaxSeqTokens))
	return s
}

// opener opens a backend.
type opener func() (backend.Backend, error)

// oracle opens a simulator whose tokens depend on every slot of their history.
func oracle(spec backend.Spec) opener { return configuredOracle(spec, sim.OracleConfig{}) }

func configuredOracle(spec backend.Spec, cfg sim.OracleConfig) opener {
	return func() (backend.Backend, error) { return sim.NewOracle(spec, cfg) }
}

// hooks are called before the calls of a backend.
type hooks struct {
	begin func(*backend.Batch)
	draw  func(*backend.Draws)
	end   func()
}

// hookedBackend calls its hooks.
type hookedBackend struct {
	backend.Backend
	hooks
}

func (b *hookedBackend) Begin(batch *backend.Batch) error {
	if b.begin != nil {
		b.begin(batch)
	}
	return b.Backend.Begin(batch)
}

func (b *hookedBackend) Draw(d *backend.Draws) error {
	if b.draw != nil {
		b.draw(d)
	}
	return b.Backend.Draw(d)
}

func (b *hookedBackend) End(o *backend.Out) error {
	if b.end != nil {
		b.end()
	}
	return b.Backend.End(o)
}

// hooked adds hooks to a backend.
func hooked(open opener, h hooks) opener {
	return func() (backend.Backend, error) {
		be, err := open()
		return &hookedBackend{be, h}, err
	}
}

func schedulerConfig(tokens, seqs int) scheduler.Config {
	return scheduler.Config{MaxTokens: tokens, MaxSeqs: seqs}
}

// runningEngine is an engine with its loop.
type runningEngine struct {
	*engine.Engine
	cancel func()       // ends the loop's context
	stop   func() error // the same; waits for Run and returns its error
}

// start returns an engine whose backend is open.
func start(t testing.TB, cfg engine.Config, open opener) runningEngine {
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
	return runningEngine{e, cancel, sync.OnceValue(func() error { cancel(); return <-done })}
}

// mustStop stops the engine, which must have had no error.
func (e runningEngine) mustStop(t testing.TB) {
	t.Helper()
	if err := e.stop(); err != nil {
		t.Fatal(err)
	}
}

// mustSubmit submits a request, which must be accepted.
func (e runningEngine) mustSubmit(t testing.TB, r engine.Request) *engine.Stream {
	t.Helper()
	s, err := e.Submit(r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run submits a request, which must be accepted, and reads its stream.
func (e runningEngine) run(t testing.TB, r engine.Request) result {
	t.Helper()
	return collect(t.Context(), e.mustSubmit(t, r), job{req: r})
}

// mustRun is run for a request that must not fail.
func (e runningEngine) mustRun(t testing.TB, r engine.Request) result {
	t.Helper()
	res := e.run(t, r)
	if res.err != nil {
		t.Fatal(res.err)
	}
	return res
}

func prompt(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(1 + i%(simVocab-1))
	}
	return ids
}

// request is a plain request that runs to its limit.
func request(promptLen, maxTokens int) engine.Request {
	return engine.Request{Tokens: prompt(promptLen), Limits: engine.Limits{MaxTokens: maxTokens, EOS: -1}, Sampling: sampler.DefaultParams()}
}

// job is a request of a workload and how its client behaves.
type job struct {
	req         engine.Request
	cancelAfter int    // events, after which the client cancels; 0: it does not
	maskSeed    uint64 // of random masks for its choices; 0: it has none
	slowMasks   bool   // they take longer than a step now and then
}

// request is the job's request with new masks.
func (j job) request() engine.Request {
	r := j.req
	if j.maskSeed != 0 {
		for i := range max(1, r.N) {
			r.Masks = append(r.Masks, &randomMask{state: j.maskSeed + uint64(i), end: r.Limits.EOS, slow: j.slowMasks})
		}
	}
	return r
}

// answer is all that a client sees of one choice.
type answer struct {
	tokens []int32
	scores []float32 // of each token its log-probability, then those of its alternatives
	ranks  []int32   // of each token its rank, then the ids of its alternatives
	text   string
	reason engine.Reason
	stop   string // the stop id or stop string
}

// add appends an event.
func (a *answer) add(e *engine.Event) {
	if e.Token >= 0 {
		a.tokens = append(a.tokens, e.Token)
		a.scores = append(a.scores, e.Logprob)
		a.ranks = append(a.ranks, e.Rank)
		for _, t := range e.Top {
			a.scores = append(a.scores, t.Logprob)
			a.ranks = append(a.ranks, t.Token)
		}
	}
	a.text += string(e.Text)
	if a.reason = e.Reason; e.Reason != engine.NotDone {
		a.stop = e.StopStr
		if e.StopID >= 0 {
			a.stop = strconv.Itoa(int(e.StopID))
		}
	}
}

// prefix is the first n tokens of an answer, as a client sees it that cancels.
func (a answer) prefix(n int) answer { return answer{tokens: a.tokens[:min(n, len(a.tokens))]} }

func (a answer) equal(b answer) bool {
	return slices.Equal(a.tokens, b.tokens) && slices.EqualFunc(a.scores, b.scores, sameBits) && slices.Equal(a.ranks, b.ranks) &&
		a.text == b.text && a.reason == b.reason && a.stop == b.stop
}

func sameBits(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }

// result is what one request gave.
type result struct {
	choices []answer
	prompt  []engine.PromptLogprob
	pooled  []float32
	err     error
	partial bool // it was cancelled or aborted
}

// collect reads a stream to its end, or cancels it as the job says.
func collect(ctx context.Context, s *engine.Stream, j job) (r result) {
	r.choices = make([]answer, max(1, j.req.N))
	var events engine.Events
	count, live := 0, len(r.choices)
	for live > 0 {
		if r.err = s.Next(ctx, &events); r.err != nil {
			return r
		}
		for i := range events.Items {
			e := &events.Items[i]
			count++
			if r.choices[e.Choice].reason != engine.NotDone {
				r.err = fmt.Errorf("choice %d has an event after its last", e.Choice)
				return r
			}
			r.add(e)
			if e.Reason != engine.NotDone {
				live--
			}
		}
		if j.cancelAfter > 0 && count >= j.cancelAfter && live > 0 {
			s.Cancel()
			r.partial = true
			return r
		}
	}
	r.prompt, r.pooled = s.PromptLogprobs(0), s.Pooled(0)
	return r
}

// add appends an event to its choice.
func (r *result) add(e *engine.Event) {
	r.choices[e.Choice].add(e)
	if e.Err != nil {
		r.err = e.Err
	}
	if e.Reason == engine.Aborted {
		r.partial = true
	}
}

// runAll submits all jobs at once, stops the engine when they have ended, and returns what
// each gave. All blocks must have come back.
func runAll(t *testing.T, e runningEngine, jobs []job) []result {
	t.Helper()
	out := make([]result, len(jobs))
	var wg sync.WaitGroup
	for i, j := range jobs {
		wg.Go(func() {
			s, err := e.Submit(j.request())
			if err != nil {
				out[i].err = err
				return
			}
			out[i] = collect(context.Background(), s, j)
		})
	}
	wg.Wait()
	e.mustStop(t)
	if s := e.Stats(); s.BlocksUsed != 0 || s.StatesUsed != 0 || s.Running+s.Waiting != 0 {
		t.Fatalf("after the last request: %+v", s)
	}
	return out
}

// compare says where two runs of the same jobs differ in what clients see.
func compare(jobs []job, got, want []result) error {
	for i := range jobs {
		g, w := got[i], want[i]
		if g.err != nil || w.err != nil {
			return fmt.Errorf("job %d: error %v, want %v", i, g.err, w.err)
		}
		partial := g.partial || w.partial
		for c := range w.choices {
			a, b := g.choices[c], w.choices[c]
			if partial { // how far it came depends on timing, but not what it drew until then
				n := min(len(a.tokens), len(b.tokens))
				a, b = a.prefix(n), b.prefix(n)
			}
			if !a.equal(b) {
				return fmt.Errorf("job %d, choice %d:\n got %+v\nwant %+v", i, c, a, b)
			}
		}
		if !partial && !slices.EqualFunc(g.pooled, w.pooled, sameBits) {
			return fmt.Errorf("job %d: vectors %v, want %v", i, g.pooled, w.pooled)
		}
		if !partial && !slices.EqualFunc(g.prompt, w.prompt, samePrompt) {
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

// seeded returns a random generator and logs how to run the test with the same seed.
func seeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	if s := os.Getenv("WEIR_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("WEIR_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// rounds is n, or less under the race detector, where a round takes ten times as long.
func rounds(n int) int {
	if raceEnabled {
		return n / 4
	}
	return n
}
