package hostside

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"weir/backend"
	"weir/engine"
	"weir/sampler"
	"weir/tokenizer"
)

// Steps is how long the steps of an engine took in which every sequence got a token.
type Steps struct {
	Sequences   int
	Count       int
	Median, P99 float64 // microseconds from the beginning of one to that of the next
	Inside      float64 // of Median, in the simulated device
}

const (
	stepPrompt  = 16 // tokens
	stepWarm    = 50 // steps that are not measured
	stepOutput  = 600
	stepBlock   = 16
	drainPause  = 2 * time.Millisecond
	stepsBudget = 512
)

// stopwatch notes when steps begin that have all sequences.
type stopwatch struct {
	backend.Backend
	full   int
	last   time.Time
	inside time.Duration
	gaps   []float64
	device []float64
}

func (s *stopwatch) timed(f func() error) error {
	begin := time.Now()
	err := f()
	s.inside += time.Since(begin)
	return err
}

func (s *stopwatch) Begin(b *backend.Batch) error {
	now := time.Now()
	if len(b.QueryEnd) == s.full && len(b.Tokens) == s.full && !s.last.IsZero() {
		s.gaps = append(s.gaps, micros(now.Sub(s.last)))
		s.device = append(s.device, micros(s.inside))
	}
	s.last, s.inside = now, 0
	return s.timed(func() error { return s.Backend.Begin(b) })
}

func (s *stopwatch) Draw(d *backend.Draws) error {
	return s.timed(func() error { return s.Backend.Draw(d) })
}

func (s *stopwatch) End(o *backend.Out) error {
	return s.timed(func() error { return s.Backend.End(o) })
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// measureSteps runs n sequences in an engine over a backend that open makes. One goroutine takes the events of
// all streams now and then, so that readers disturb the engine little.
func measureSteps(ctx context.Context, n int, tok *tokenizer.Tokenizer, open func(backend.Spec) (backend.Backend, error)) (Steps, error) {
	const length = stepPrompt + stepOutput
	spec := backend.Spec{VocabSize: tok.VocabSize(), BlockTokens: stepBlock, NumBlocks: 1 + n*(length/stepBlock+1), MaxTokens: max(stepsBudget, n), MaxSeqs: n, MaxSeqTokens: length, Depth: 2}
	watch := &stopwatch{full: n}
	e := engine.New(engine.Config{Caching: true, MaxLive: n, Tokenizer: tok}, func() (b backend.Backend, err error) {
		watch.Backend, err = open(spec)
		return watch, err
	})
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(running) }()
	finish := func() error {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	}
	select {
	case <-e.Ready():
	case err := <-ended:
		stop()
		return Steps{}, err
	}
	streams := make([]*engine.Stream, n)
	for i := range streams {
		prompt := make([]int32, stepPrompt)
		for j := range prompt {
			prompt[j] = int32((i*7 + j*13) % (spec.VocabSize - 1))
		}
		p := sampler.DefaultParams()
		p.Seed = uint64(i)
		var err error
		if streams[i], err = e.Submit(engine.Request{Tokens: prompt, Limits: engine.Limits{MaxTokens: stepOutput, EOS: -1}, Sampling: p}); err != nil {
			return Steps{}, errors.Join(err, finish())
		}
	}
	drain(ctx, streams)
	if err := errors.Join(ctx.Err(), finish()); err != nil {
		return Steps{}, err
	}
	return watch.result(n)
}

// drain takes the events of all streams until all have ended.
func drain(ctx context.Context, streams []*engine.Stream) {
	var taking sync.WaitGroup
	taking.Go(func() {
		var events engine.Events
		open := slices.Clone(streams)
		for len(open) > 0 && ctx.Err() == nil {
			open = slices.DeleteFunc(open, func(s *engine.Stream) bool {
				select {
				case <-s.Ready():
				default:
					return false
				}
				s.Take(&events)
				return len(events.Items) > 0 && events.Items[len(events.Items)-1].Reason != engine.NotDone
			})
			time.Sleep(drainPause)
		}
	})
	taking.Wait()
}

func (s *stopwatch) result(n int) (Steps, error) {
	if len(s.gaps) <= 2*stepWarm {
		return Steps{}, fmt.Errorf("hostside: only %d steps had all %d sequences", len(s.gaps), n)
	}
	gaps, device := slices.Clone(s.gaps[stepWarm:]), slices.Clone(s.device[stepWarm:])
	slices.Sort(gaps)
	slices.Sort(device)
	return Steps{Sequences: n, Count: len(gaps), Median: gaps[len(gaps)/2], P99: gaps[len(gaps)*99/100], Inside: device[len(device)/2]}, nil
}
