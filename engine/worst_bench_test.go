package engine

import (
	"testing"

	"weir/backend"
	"weir/sampler"
)

// worst are requests of 128 choices that make a step as long as a request may.
var worst = []struct {
	name   string
	change func(*Request)
}{
	{"plain", func(*Request) {}},
	{"256 stop strings", func(r *Request) { r.Stop, _ = hostileStops(16 << 10) }},
	{"repetition of 2048", func(r *Request) { r.Limits.Repetition = Repetition{MaxPattern: 2048, MinCount: 2048} }},
	{"4096 stop ids", func(r *Request) {
		for i := range int32(4096) {
			r.Limits.StopIDs = append(r.Limits.StopIDs, -1-i) // none of them ends it
		}
	}},
	{"3000 biases", func(r *Request) { r.Sampling.Bias = everyBias(3000) }},
	{"3000 biases and penalties", func(r *Request) {
		r.Sampling.Bias, r.Sampling.Repetition, r.Sampling.Frequency = everyBias(3000), 1.1, 0.1
	}},
	{"half of the vocabulary allowed", func(r *Request) {
		for i := range int32(1500) {
			r.Sampling.Allowed = append(r.Sampling.Allowed, 2*i)
		}
	}},
	{"4096 bad words", func(r *Request) {
		for i := range int32(4096) {
			r.Sampling.BadWords = append(r.Sampling.BadWords, []int32{i % 40, i/40 + 7, i % 3000})
		}
	}},
	{"20 alternatives", func(r *Request) { r.Sampling.Logprobs, r.Sampling.TopLogprobs = backend.RawLogprobs, 20 }},
	{"128 chosen tokens", func(r *Request) {
		r.Sampling.Logprobs = backend.RawLogprobs
		for i := range int32(128) {
			r.LogprobIDs = append(r.LogprobIDs, i*20)
		}
	}},
}

func everyBias(n int) (biases []sampler.TokenBias) {
	for i := range n {
		biases = append(biases, sampler.TokenBias{Token: int32(i), Bias: 1})
	}
	return biases
}

// submitWorst submits a request of 128 choices, and a neighbour of one.
func (s *stepBench) submitWorst(tb testing.TB, tokens int, change func(*Request)) {
	for i := range s.streams {
		p := sampler.DefaultParams()
		p.Seed = uint64(i) * 1000
		r := Request{Tokens: append([]int32{int32(i)}, s.prompt[1:]...), Limits: Limits{MaxTokens: tokens + 50*i, EOS: -1}, Sampling: p}
		if i == 0 {
			r.N = 128
			change(&r)
		}
		var err error
		if s.streams[i], err = s.e.Submit(r); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkWorstStep is a step of a request of 128 choices and a neighbour, on a backend that
// computes nothing.
func BenchmarkWorstStep(b *testing.B) {
	for _, c := range worst {
		b.Run(c.name, func(b *testing.B) {
			s := newStepBench(b, 129, 1)
			s.streams = s.streams[:2]
			b.ReportAllocs()
			for left := 0; b.Loop(); left-- {
				if left <= 0 {
					b.StopTimer()
					for !s.idle() {
						s.step(b)
					}
					s.submitWorst(b, benchOutput-100, c.change)
					for range 8 {
						s.step(b)
					}
					left = benchOutput - 120
					b.StartTimer()
				}
				s.step(b)
			}
		})
	}
}

// BenchmarkEndOf128 is the step in which the 128 choices of a request with 20 alternatives for
// each token end at once, after 1,600 tokens each.
func BenchmarkEndOf128(b *testing.B) {
	const tokens = 1600
	s := newStepBench(b, 129, 1)
	s.streams = s.streams[:2]
	for b.Loop() {
		b.StopTimer()
		for !s.idle() {
			s.step(b)
		}
		s.submitWorst(b, tokens, func(r *Request) { r.Sampling.Logprobs, r.Sampling.TopLogprobs = backend.RawLogprobs, 20 })
		q := s.e.mu.in[0]
		for s.e.intake(); q.choices[127].output() < tokens-100; {
			s.step(b)
		}
		for i := range q.choices { // not all have begun in the same step
			q.choices[i].seq.Limits.MaxTokens = q.choices[i].output() + 1
		}
		b.StartTimer()
		if err := s.e.step(); err != nil {
			b.Fatal(err)
		}
		s.e.signal()
		b.StopTimer()
		if n := s.e.sched.Live(); len(n) != 1 {
			b.Fatalf("%d sequences go on", len(n))
		}
		b.StartTimer()
	}
}
