package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/internal/invariants"
	"weir/scheduler"
)

const simHidden = 5

var poolings = []engine.Pooling{engine.PoolLast, engine.PoolFirst, engine.PoolMean, engine.PoolMax, engine.PoolAll}

// withVectors is the spec of a network that reports vectors.
func withVectors(s backend.Spec) backend.Spec {
	s.Hidden = simHidden
	return s
}

// encoder is the spec of an encoder, whose steps have room for the longest sequence.
func encoder(s backend.Spec) backend.Spec {
	s.Hidden, s.Whole, s.MaxTokens = simHidden, true, max(s.MaxTokens, s.MaxSeqTokens)
	return s
}

// pooledRequest asks for vectors of a prompt.
func pooledRequest(tokens []int32, kind engine.Pooling) engine.Request {
	return engine.Request{Tokens: tokens, Pool: kind}
}

// TestPooling: what each kind makes of the vectors of a prompt, and that a vector depends on all tokens up
// to its own, or with an encoder on all tokens and their types.
func TestPooling(t *testing.T) {
	const n = 23
	for _, spec := range []backend.Spec{withVectors(simSpec(40, 4, 7, 3, 2)), encoder(simSpec(40, 4, 7, 3, 1))} {
		t.Run(fmt.Sprintf("whole=%v", spec.Whole), func(t *testing.T) {
			e := start(t, engine.Config{Caching: true, MaxLive: 10}, oracle(spec))
			all := e.mustRun(t, pooledRequest(prompt(n), engine.PoolAll)).pooled
			if len(all) != n*simHidden {
				t.Fatalf("%d components for %d tokens", len(all), n)
			}
			row := func(i int) []float32 { return all[i*simHidden : (i+1)*simHidden] }
			mean, most := slices.Clone(row(0)), slices.Clone(row(0))
			for i := 1; i < n; i++ {
				for c, v := range row(i) {
					mean[c] += v
					most[c] = max(most[c], v)
				}
			}
			for c := range mean {
				mean[c] /= n
			}
			compareKinds(t, e, n, map[engine.Pooling][]float32{engine.PoolLast: row(n - 1), engine.PoolFirst: row(0), engine.PoolMean: mean, engine.PoolMax: most})
			for i := range n - 1 { // a prefix ends with the same vector only if nothing sees what comes after it
				got := e.mustRun(t, pooledRequest(prompt(i+1), engine.PoolLast)).pooled
				if slices.EqualFunc(got, row(i), sameBits) == spec.Whole {
					t.Errorf("the vector of token %d with and without the tokens after it: %v, %v", i, row(i), got)
				}
			}
			if spec.Whole {
				typesMatter(t, e, n, row(0))
			}
			e.mustStop(t)
		})
	}
}

// compareKinds compares what each kind makes of the vectors of a prompt.
func compareKinds(t *testing.T, e runningEngine, n int, want map[engine.Pooling][]float32) {
	t.Helper()
	for kind, want := range want {
		if got := e.mustRun(t, pooledRequest(prompt(n), kind)); !slices.EqualFunc(got.pooled, want, sameBits) {
			t.Errorf("pooling %d: got %v, want %v", kind, got.pooled, want)
		} else if a := got.choices[0]; a.reason != engine.Stop || len(a.tokens) != 0 || a.text != "" {
			t.Errorf("pooling %d: the choice is %+v", kind, a)
		}
	}
}

// typesMatter checks that the types of tokens change the first vector of a prompt.
func typesMatter(t *testing.T, e runningEngine, n int, first []float32) {
	t.Helper()
	r := pooledRequest(prompt(n), engine.PoolFirst)
	r.Types = make([]int32, n)
	if got := e.mustRun(t, r).pooled; !slices.Equal(got, first) {
		t.Errorf("types of 0 are %v, and none %v", got, first)
	}
	r.Types[n-1] = 1
	if got := e.mustRun(t, r).pooled; slices.Equal(got, first) {
		t.Error("the type of the last token makes no difference")
	}
}

// TestMetamorphicPooling: a pooled request has the same bits under every configuration, beside requests
// that generate, and its neighbours' bits do not depend on it.
func TestMetamorphicPooling(t *testing.T) {
	g := seeded(t)
	var preempted, hits uint64
	for round := range rounds(8) {
		jobs := newWorkload(g, 30, simVocab, simLen)
		for i := range jobs {
			if i%2 == 0 {
				r := pooledRequest(jobs[i].req.Tokens, poolings[g.IntN(len(poolings))])
				r.Priority, r.Salt = jobs[i].req.Priority, jobs[i].req.Salt
				jobs[i] = job{req: r}
			}
		}
		base := roomy
		base.spec = withVectors(base.spec)
		want := runAll(t, base.start(t), jobs)
		for _, v := range variants() {
			v.spec = withVectors(v.spec)
			e := v.start(t)
			got := shuffled(g, jobs, func(jobs []job) []result { return runAll(t, e, jobs) })
			if err := compare(jobs, got, want); err != nil {
				t.Fatalf("round %d, %v: %v", round, v, err)
			}
			preempted += e.Stats().Preemptions
			hits += e.Stats().PrefixHits
		}
	}
	if preempted < 10 || hits < 200 {
		t.Errorf("%d preemptions and %d tokens from the prefix cache are too few for the test to mean anything", preempted, hits)
	}
}

// TestMetamorphicEncoder is the same for an encoder, whose requests are all pooled.
func TestMetamorphicEncoder(t *testing.T) {
	g := seeded(t)
	for round := range rounds(8) {
		jobs := make([]job, 40)
		for i := range jobs {
			r := pooledRequest(make([]int32, 1+g.IntN(simLen)), poolings[g.IntN(len(poolings))])
			if g.IntN(2) == 0 {
				r.Types = make([]int32, len(r.Tokens))
			}
			for j := range r.Tokens {
				r.Tokens[j] = int32(g.IntN(simVocab))
				if r.Types != nil {
					r.Types[j] = int32(g.IntN(2))
				}
			}
			jobs[i] = job{req: r}
		}
		base := roomy
		base.spec = encoder(base.spec)
		want := runAll(t, base.start(t), jobs)
		for _, v := range variants() {
			if v.spec.StateSlots > 0 || len(v.spec.Groups) > 0 {
				continue // an encoder has no recurrent state, and keeps nothing after its step
			}
			v.spec = encoder(v.spec)
			e := v.start(t)
			got := shuffled(g, jobs, func(jobs []job) []result { return runAll(t, e, jobs) })
			if err := compare(jobs, got, want); err != nil {
				t.Fatalf("round %d, %v: %v", round, v, err)
			}
			if h := e.Stats().PrefixHits; h > 0 {
				t.Fatalf("an encoder found %d tokens in the prefix cache", h)
			}
		}
	}
}

// TestPoolingAndPrefixes: the last token's vector needs no more than the last block of a known prompt, and
// pooling of all tokens computes them all.
func TestPoolingAndPrefixes(t *testing.T) {
	e := start(t, engine.Config{Caching: true, MaxLive: 10}, oracle(withVectors(simSpec(60, 4, 64, 4, 2))))
	for _, kind := range poolings {
		e.mustRun(t, pooledRequest(prompt(41), kind)) // fills the cache, whatever it reads
		s := e.mustSubmit(t, pooledRequest(prompt(41), kind))
		collect(t.Context(), s, job{})
		if want := map[bool]int{true: 40}[kind == engine.PoolLast]; s.Cached() != want {
			t.Errorf("pooling %d: %d tokens are cached, want %d", kind, s.Cached(), want)
		}
	}
	e.mustStop(t)
}

// TestPoolingUsesTheWholeContext: a pooled prompt may be as long as a sequence, because nothing follows it.
func TestPoolingUsesTheWholeContext(t *testing.T) {
	e := start(t, engine.Config{MaxLive: 10}, oracle(withVectors(simSpec(1+simLen/4, 4, 64, 4, 2))))
	if got := e.mustRun(t, pooledRequest(prompt(simLen), engine.PoolMean)); len(got.pooled) != simHidden {
		t.Errorf("got %+v", got)
	}
	e.mustStop(t)
}

// TestPooledCounts: prompt tokens are counted, and no output.
func TestPooledCounts(t *testing.T) {
	e := start(t, engine.Config{MaxLive: 10}, oracle(withVectors(simSpec(60, 4, 64, 4, 2))))
	var ended []engine.Ended
	tokens, prompts := 0, 0
	e.Observe(func(r *engine.Report) {
		ended = append(ended, r.Ended...)
		tokens += r.Tokens
		prompts += r.Prompt
	})
	e.mustRun(t, pooledRequest(prompt(30), engine.PoolMean))
	e.mustStop(t)
	if len(ended) != 1 || ended[0].Reason != engine.Stop || ended[0].Prompt != 30 || ended[0].Output != 0 || ended[0].Prefill < 0 || ended[0].Decode != 0 {
		t.Errorf("ended: %+v", ended)
	}
	if s := e.Stats(); tokens != 0 || prompts != 30 || s.PromptTokens != 30 || s.GenerationTokens != 0 || s.Finished[engine.Stop] != 1 {
		t.Errorf("%d tokens and %d prompt tokens are reported, %+v", tokens, prompts, s)
	}
}

// TestPooledAbort: a client that leaves while its request is computed gets no vector, and the blocks come back.
func TestPooledAbort(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		begun, left := make(chan struct{}), make(chan struct{})
		n := 0
		e := start(t, engine.Config{MaxLive: 10}, hooked(oracle(withVectors(simSpec(60, 4, 8, 4, depth))), hooks{begin: func(*backend.Batch) {
			if n++; n == 3 {
				close(begun)
				<-left
			}
		}}))
		s := e.mustSubmit(t, pooledRequest(prompt(100), engine.PoolAll))
		<-begun
		s.Cancel()
		close(left)
		e.mustRun(t, pooledRequest(prompt(9), engine.PoolMean))
		e.mustStop(t)
		if st := e.Stats(); s.Pooled(0) != nil || st.BlocksUsed != 0 || st.Finished[engine.Aborted] != 1 {
			t.Errorf("after the abort: %v, %+v", s.Pooled(0), st)
		}
	})
}

// TestPoolingIsChecked: what cannot be pooled is refused when it is submitted.
func TestPoolingIsChecked(t *testing.T) {
	plain, vectors := simSpec(60, 4, 64, 4, 1), withVectors(simSpec(60, 4, 64, 4, 1))
	short := encoder(plain)
	with := func(edit func(*engine.Request)) engine.Request {
		r := pooledRequest(prompt(10), engine.PoolMean)
		edit(&r)
		return r
	}
	for _, c := range []struct {
		spec backend.Spec
		r    engine.Request
		text string
	}{
		{plain, pooledRequest(prompt(3), engine.PoolLast), "the backend reports no vectors"},
		{encoder(plain), request(3, 4), "the model is an encoder, which generates no tokens"},
		{vectors, pooledRequest(prompt(3), 99), "pooling 99 is unknown"},
		{vectors, pooledRequest(nil, engine.PoolMean), "the prompt is empty"},
		{vectors, pooledRequest(prompt(simLen+1), engine.PoolMean), "121 prompt tokens and 0 output tokens are more than 120"},
		{short, pooledRequest(prompt(101), engine.PoolMean), "101 prompt tokens and 0 output tokens are more than 100"},
		{vectors, with(func(r *engine.Request) { r.N = 2 }), "has one choice"},
		{vectors, with(func(r *engine.Request) { r.Stop = []string{"a"} }), "has one choice"},
		{vectors, with(func(r *engine.Request) { r.Prompt = &engine.PromptScores{} }), "has one choice"},
		{vectors, with(func(r *engine.Request) { r.Types = make([]int32, 10) }), "the token types"},
		{short, with(func(r *engine.Request) { r.Types = make([]int32, 9) }), "the token types"},
		{short, with(func(r *engine.Request) { r.Types = slices.Repeat([]int32{-1}, 10) }), "the token types"},
	} {
		cfg := engine.Config{MaxLive: 10}
		if c.spec.Whole {
			cfg.Scheduler = scheduler.Config{MaxTokens: 100}
		}
		e := start(t, cfg, oracle(c.spec))
		if _, err := e.Submit(c.r); err == nil || !strings.HasPrefix(err.Error(), engine.ErrInvalid.Error()) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("got %v, want %s", err, c.text)
		}
		e.mustStop(t)
	}
}

// TestPooledStepsAllocateNothing: steps that take vectors in allocate nothing.
func TestPooledStepsAllocateNothing(t *testing.T) {
	if invariants.Enabled {
		t.Skip("the checks of this build allocate")
	}
	eachDepth(t, func(t *testing.T, depth int) {
		const from, to = 100, 400
		spec := withVectors(simSpec(1000, 16, 8, 4, depth))
		spec.MaxSeqTokens = 8 * 500
		count := &mallocCounter{from: from, to: to, done: make(chan struct{})}
		e := start(t, engine.Config{MaxLive: 10}, hooked(configuredOracle(spec, sim.OracleConfig{}), hooks{end: count.step}))
		tokens := make([]int32, spec.MaxSeqTokens)
		for i := range tokens {
			tokens[i] = int32(i % simVocab)
		}
		s := e.mustSubmit(t, pooledRequest(tokens, engine.PoolMean))
		<-count.done
		if got := collect(context.Background(), s, job{}); got.err != nil || len(got.pooled) != simHidden {
			t.Errorf("got %+v", got)
		}
		if count.mallocs > (to-from)/2 {
			t.Errorf("%d allocations in %d steps", count.mallocs, to-from)
		}
		e.mustStop(t)
	})
}
