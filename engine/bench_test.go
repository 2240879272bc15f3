package engine

import (
	"fmt"
	"io/fs"
	"testing"

	"weir/backend"
	"weir/backend/sim"
	"weir/models"
	"weir/sampler"
	"weir/scheduler"
	"weir/tokenizer"
)

const (
	benchPrompt = 256  // tokens
	benchOutput = 1792 // tokens
)

// stepBench runs an engine step by step, without its goroutine, on a backend that computes
// nothing. What remains is the control plane.
type stepBench struct {
	e       *Engine
	streams []*Stream
	prompt  []int32
	events  Events
}

func newStepBench(tb testing.TB, seqs, depth int) *stepBench {
	src, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err != nil {
		tb.Fatal(err)
	}
	tok, err := tokenizer.Load(src)
	if err != nil {
		tb.Fatal(err)
	}
	const block = 16
	length := benchPrompt + benchOutput
	spec := backend.Spec{VocabSize: tok.VocabSize(), BlockTokens: block, NumBlocks: 1 + seqs*length/block, MaxTokens: max(512, seqs), MaxSeqs: seqs, MaxSeqTokens: length, Depth: depth}
	e := New(Config{Scheduler: scheduler.Config{}, Caching: true, MaxLive: seqs, Tokenizer: tok}, nil)
	if e.be, err = sim.NewPaced(spec, sim.Instant()); err != nil {
		tb.Fatal(err)
	}
	e.spec = e.be.Spec()
	if err := e.configure(); err != nil {
		tb.Fatal(err)
	}
	close(e.ready)
	s := &stepBench{e: e, streams: make([]*Stream, seqs), prompt: make([]int32, benchPrompt)}
	for i := range s.prompt {
		s.prompt[i] = int32(300 + i)
	}
	return s
}

// fill submits as many requests as run at a time and computes their prompts. It returns the
// number of steps until the first of them ends.
func (s *stepBench) fill(tb testing.TB) int {
	for i := range s.streams {
		p := sampler.DefaultParams()
		p.Seed = uint64(i)
		s.prompt[0] = int32(i) // so that prompts share nothing
		r := Request{Tokens: append([]int32(nil), s.prompt...), Limits: Limits{MaxTokens: benchOutput, EOS: -1}, Sampling: p}
		var err error
		if s.streams[i], err = s.e.Submit(r); err != nil {
			tb.Fatal(err)
		}
	}
	left := benchOutput - 2 // one step may be in flight, and one ends the requests
	for want := s.e.counts.PromptTokens + uint64(len(s.streams)*benchPrompt); s.e.counts.PromptTokens < want; left-- {
		s.step(tb)
	}
	return left
}

// step runs an iteration of the loop, and lets the readers take what it gave.
func (s *stepBench) step(tb testing.TB) {
	s.e.intake()
	if err := s.e.step(); err != nil {
		tb.Fatal(err)
	}
	for _, stream := range s.streams {
		select {
		case <-stream.Ready():
		default: // its prompt is still being computed
		}
		stream.Take(&s.events)
	}
}

// idle reports whether all requests have ended.
func (s *stepBench) idle() bool { return s.e.sched.Idle() && s.e.inFlight == nil }

// BenchmarkStep is a step in which each of seqs sequences gets a token: scheduling, KV
// blocks, the batch, the draws, booking, text, events, and the readers that take them.
// Contexts grow to 2048 tokens; then new requests begin.
func BenchmarkStep(b *testing.B) {
	for depth := 1; depth <= 2; depth++ {
		for _, seqs := range []int{1, 64, 256, 1024} {
			b.Run(fmt.Sprintf("seqs=%d/depth=%d", seqs, depth), func(b *testing.B) { benchmarkStep(b, seqs, depth) })
		}
	}
}

func benchmarkStep(b *testing.B, seqs, depth int) {
	s := newStepBench(b, seqs, depth)
	b.ReportAllocs()
	for left := 0; b.Loop(); left-- {
		if left <= 0 {
			b.StopTimer()
			for !s.idle() {
				s.step(b)
			}
			left = s.fill(b)
			b.StartTimer()
		}
		s.step(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(seqs), "ns/token")
}
