package engine_test

import (
	"math/rand/v2"
	"slices"

	"weir/backend"
	"weir/engine"
	"weir/sampler"
)

// workload makes random jobs that use everything a request offers.
type workload struct {
	*rand.Rand
	vocab, maxLen int
	prefixes      [][]int32 // of prompts; few, so that requests share blocks
}

// newWorkload makes n jobs.
func newWorkload(g *rand.Rand, n, vocab, maxLen int) []job {
	w := &workload{Rand: g, vocab: vocab, maxLen: maxLen}
	for range 4 {
		w.prefixes = append(w.prefixes, w.tokens(5+g.IntN(maxLen/3)))
	}
	jobs := make([]job, n)
	for i := range jobs {
		jobs[i] = w.job()
	}
	return jobs
}

// withoutCancels is the jobs with clients that read to the end.
func withoutCancels(jobs []job) []job {
	for i := range jobs {
		jobs[i].cancelAfter = 0
	}
	return jobs
}

func (w *workload) token() int32 { return int32(w.IntN(w.vocab)) }

func (w *workload) tokens(n int) (ids []int32) {
	for range n {
		ids = append(ids, w.token())
	}
	return ids
}

// oneIn is true once in n times.
func (w *workload) oneIn(n int) bool { return w.IntN(n) == 0 }

func (w *workload) job() (j job) {
	prefix := w.prefixes[w.IntN(len(w.prefixes))]
	j.req = engine.Request{
		Tokens:   append(slices.Clone(prefix[:1+w.IntN(len(prefix))]), w.tokens(w.IntN(w.maxLen/6))...),
		Priority: int64(w.IntN(3)), Salt: [16]byte{byte(w.IntN(2))},
	}
	w.sampling(&j.req)
	w.limits(&j.req)
	if w.oneIn(8) {
		j.req.Prompt = &engine.PromptScores{Top: w.IntN(3), Mode: backend.RawLogprobs}
	}
	if w.oneIn(2) {
		j.req.Suffix = w.IntN(10)
	}
	s, lim := &j.req.Sampling, &j.req.Limits
	if w.oneIn(3) {
		j.maskSeed = w.Uint64() | 1
		// With other constraints a mask might leave no token.
		s.Allowed, s.BadWords, lim.MinTokens = nil, nil, 0
	}
	s.MinTokens, s.StopIDs = lim.MinTokens, append([]int32{lim.EOS}, lim.StopIDs...)
	if s.Allowed != nil {
		s.StopIDs = nil // the allowed tokens might all be stop ids
	}
	if w.oneIn(6) {
		j.cancelAfter = 1 + w.IntN(10)
	}
	return j
}

func (w *workload) sampling(r *engine.Request) {
	r.Sampling = sampler.DefaultParams()
	s := &r.Sampling
	s.Seed = w.Uint64()
	switch w.IntN(4) {
	case 0:
		s.Temperature = 0
	case 1:
		s.TopK, s.TopP = 1+w.IntN(20), float32(1+w.IntN(10))/10
	case 2:
		s.Temperature, s.MinP = 1.5, 0.05
	}
	if s.Temperature > 0 && w.oneIn(4) {
		r.N = 2 + w.IntN(3)
	}
	if w.oneIn(3) {
		s.Frequency, s.Presence, s.Repetition = 0.7, -0.3, 1.3
	}
	if w.oneIn(5) {
		s.Bias = []sampler.TokenBias{{Token: w.token(), Bias: 5}, {Token: w.token(), Bias: -50}}
	}
	if w.oneIn(6) {
		s.Allowed = w.tokens(12)
	}
	if w.oneIn(6) {
		s.BadWords = [][]int32{{w.token()}, {w.token(), w.token()}}
	}
	if w.oneIn(3) {
		s.Logprobs, s.TopLogprobs = backend.LogprobMode(1+w.IntN(2)), w.IntN(4)
	}
	if w.oneIn(8) {
		s.Logprobs, s.TopLogprobs = backend.RawLogprobs, 0
		r.LogprobIDs = w.tokens(1 + w.IntN(3))
	}
}

func (w *workload) limits(r *engine.Request) {
	lim := &r.Limits
	*lim = engine.Limits{MaxTokens: 1 + w.IntN(w.maxLen/3), EOS: w.token()}
	if w.oneIn(4) {
		lim.StopIDs = w.tokens(w.vocab / 20)
	}
	if w.oneIn(4) {
		lim.MinTokens = w.IntN(lim.MaxTokens + 1)
	}
	if w.oneIn(6) {
		lim.Repetition = engine.Repetition{MaxPattern: 3, MinCount: 2}
	}
}
