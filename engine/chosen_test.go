package engine_test

import (
	"errors"
	"math"
	"slices"
	"testing"

	"weir/backend"
	"weir/engine"
	"weir/sampler"
)

// scored is a token with what its event says of others.
type scored struct {
	token   int32
	logprob float32
	top     []engine.TokenLogprob
}

// scores runs a request and returns the tokens of each choice.
func (e runningEngine) scores(t *testing.T, r engine.Request) [][]scored {
	t.Helper()
	s := e.mustSubmit(t, r)
	out := make([][]scored, max(1, r.N))
	var events engine.Events
	for live := len(out); live > 0; {
		if err := s.Next(t.Context(), &events); err != nil {
			t.Fatal(err)
		}
		for i := range events.Items {
			ev := &events.Items[i]
			if ev.Token >= 0 {
				out[ev.Choice] = append(out[ev.Choice], scored{ev.Token, ev.Logprob, slices.Clone(ev.Top)})
			}
			if ev.Reason != engine.NotDone {
				live--
			}
		}
	}
	return out
}

// TestChosenLogprobs: the log-probabilities of chosen tokens are those that the whole list
// has of them, beside another request and under masks, also where one token is forced.
func TestChosenLogprobs(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{Caching: true, MaxLive: 20}, oracle(simSpec(200, 16, 100, 8, depth)))
		ids := []int32{7, 299, 0, 7, 31, 32, 150}
		illegal := 0
		for seed := range uint64(8) {
			ask := func() engine.Request {
				r := request(10+int(seed), 20)
				r.N = 2
				r.Sampling.Seed, r.Sampling.Temperature, r.Sampling.Frequency = seed, 1.5, 0.5
				r.Sampling.Bias = []sampler.TokenBias{{Token: 7, Bias: 5}}
				r.Sampling.Logprobs = backend.RawLogprobs
				if seed%2 == 0 {
					for i := range uint64(2) {
						r.Masks = append(r.Masks, &randomMask{state: 1 + seed + i, end: 3})
					}
				}
				return r
			}
			whole, chosen := ask(), ask()
			whole.Sampling.TopLogprobs, chosen.LogprobIDs = -1, ids
			other := e.mustSubmit(t, request(30, 40))
			want, got := e.scores(t, whole), e.scores(t, chosen)
			other.Cancel()
			for i := range want {
				illegal += checkChosen(t, want[i], got[i], ids)
			}
		}
		if illegal == 0 {
			t.Error("no mask has forbidden a chosen token")
		}
		e.mustStop(t)
	})
}

// checkChosen compares the scores of chosen tokens with those in whole lists, and returns
// how many of the chosen ones were impossible.
func checkChosen(t *testing.T, whole, chosen []scored, ids []int32) (illegal int) {
	t.Helper()
	if len(whole) != len(chosen) {
		t.Fatalf("%d tokens, with the whole list %d", len(chosen), len(whole))
	}
	for n, c := range chosen {
		w := whole[n]
		if c.token != w.token || c.logprob != w.logprob || len(c.top) != len(ids) {
			t.Fatalf("token %d: %+v, want %+v", n, c, w)
		}
		for i, id := range ids {
			want := float32(math.Inf(-1))
			for _, o := range w.top {
				if o.Token == id {
					want = o.Logprob
				}
			}
			got := c.top[i]
			if got.Token != id || got.Logprob != want && math.Abs(float64(got.Logprob-want)) > 1e-5 || id == c.token && got.Logprob != c.logprob || got.Logprob > 0 {
				t.Errorf("token %d: %+v, want %v of %d", n, got, want, id)
			}
			if math.IsInf(float64(want), -1) {
				illegal++
			}
		}
	}
	return illegal
}

// every is a Forcer that forces a token after every few.
type every struct {
	token   int32
	n, seen int
}

func (f *every) Force() int32 {
	if f.seen%f.n == f.n-1 {
		return f.token
	}
	return -1
}

func (f *every) Accept(int32) { f.seen++ }

// TestForcers: a forced token comes whatever its logit, bias and penalties, greedily and at
// random, its raw log-probability is the model's own, and an allowed list rules it out.
func TestForcers(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{Caching: true, MaxLive: 20}, oracle(simSpec(200, 16, 100, 8, depth)))
		for _, temperature := range []float32{0, 0.01, 2} {
			r := request(10, 21)
			r.Sampling.Temperature, r.Sampling.TopP, r.Sampling.Repetition, r.Sampling.Frequency = temperature, 0.5, 2, 2
			r.Sampling.Bias = []sampler.TokenBias{{Token: 9, Bias: -100}}
			r.Sampling.BadWords = [][]int32{{9}}
			r.Sampling.Logprobs = backend.RawLogprobs
			r.N, r.Forcers = 2, []engine.Forcer{&every{9, 3, 0}, &every{9, 4, 0}}
			if temperature == 0 {
				r.N, r.Forcers = 1, r.Forcers[:1]
			}
			for i, tokens := range e.scores(t, r) {
				for n, s := range tokens {
					if forced := n%(3+i) == 2+i; forced != (s.token == 9) || forced && s.logprob > -1 {
						t.Errorf("temperature %v, choice %d: token %d is %d at %v", temperature, i, n, s.token, s.logprob)
					}
				}
			}
		}
		r := request(10, 6)
		r.Sampling.Allowed, r.Forcers = []int32{5}, []engine.Forcer{&every{9, 2, 0}}
		for _, s := range e.scores(t, r)[0] {
			if s.token != 5 {
				t.Errorf("token %d, allowed is 5", s.token)
			}
		}
		e.mustStop(t)
	})
}

// TestChosenInvalid: forcers are as many as choices, and chosen tokens are of the vocabulary
// and stand for the best ones.
func TestChosenInvalid(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{Caching: true, MaxLive: 20}, oracle(simSpec(200, 16, 100, 8, depth)))
		for _, bad := range []func(*engine.Request){
			func(r *engine.Request) { r.Forcers = []engine.Forcer{&every{}, &every{}} },
			func(r *engine.Request) { r.LogprobIDs = []int32{1} },
			func(r *engine.Request) {
				r.LogprobIDs, r.Sampling.Logprobs = []int32{simVocab}, backend.RawLogprobs
			},
			func(r *engine.Request) {
				r.LogprobIDs, r.Sampling.Logprobs, r.Sampling.TopLogprobs = []int32{1}, backend.RawLogprobs, 1
			},
		} {
			r := request(10, 5)
			bad(&r)
			if _, err := e.Submit(r); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%+v: %v", r, err)
			}
		}
		e.mustStop(t)
	})
}
