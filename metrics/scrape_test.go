package metrics

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
)

// TestScrapesUnderLoad: scrapes run beside requests, and each shows one moment, in which
// everything that is counted together agrees.
func TestScrapesUnderLoad(t *testing.T) {
	spec := simple
	spec.Depth = 2
	h := start(t, spec, func(sim.Call, int) error { return nil })
	defer h.stop()
	var load sync.WaitGroup
	for i := range 4 {
		load.Go(func() {
			for range 30 {
				h.run(t, ask(byte(i), 40, 10))
				h.m.Used("a/b", 1, 1)
				h.m.Answered(Request{Method: "POST", Handler: "/x", Status: 200})
			}
		})
	}
	done := make(chan struct{})
	go func() { load.Wait(); close(done) }()
	scrapes := 0
	for over := false; !over; scrapes++ {
		select {
		case <-done:
			over = true
		default:
		}
		p := scrape(t, h.m, true)
		first := p.find(t, "vllm:time_to_first_token_seconds").Histogram.GetSampleCount()
		gaps := p.find(t, "vllm:inter_token_latency_seconds").Histogram.GetSampleCount()
		ended := p.find(t, "vllm:e2e_request_latency_seconds").Histogram.GetSampleCount()
		if prompt, tokens := p.value(t, "vllm:prompt_tokens_total"), p.value(t, "vllm:generation_tokens_total"); prompt != float64(40*first) || tokens != float64(first+gaps) ||
			p.value(t, "vllm:request_success_total", "finished_reason=length") != float64(ended) {
			t.Fatalf("%d first tokens, %d gaps, but %v and %v tokens", first, gaps, prompt, tokens)
		}
	}
	if n := h.m.engine.Load(); scrapes < 2 || n.mu.ended[engine.Length] != 120 {
		t.Errorf("%d scrapes, %v ended", scrapes, n.mu.ended)
	}
}

// TestObserveAllocatesNothing: counting a report does not allocate in the engine's loop.
func TestObserveAllocatesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, simple, nil)
		defer h.stop()
		s := h.m.engine.Load()
		r := &engine.Report{Tokens: 9, Prompt: 40, First: []time.Duration{1, 2}, Gaps: []engine.Gap{{D: time.Second, N: 7}}, Ended: []engine.Ended{{Reason: engine.Stop, Output: 5, N: 1}}}
		if n := testing.AllocsPerRun(100, func() { s.observe(r) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// The series of the process and of Go are as old as a second, and no older.
func TestRuntimePage(t *testing.T) {
	t.Parallel()
	r := &New().runtime
	start := time.Now()
	page := func(after time.Duration) *byte {
		t.Helper()
		text, err := r.page(start.Add(after))
		if err != nil || !bytes.Contains(text, []byte("\ngo_goroutines ")) || !bytes.Contains(text, []byte("\nprocess_start_time_seconds ")) {
			t.Fatalf("%s: %v", text, err)
		}
		return &text[0]
	}
	first := page(0)
	if page(999*time.Millisecond) != first {
		t.Error("a young page was made anew")
	}
	if page(time.Second) == first {
		t.Error("an old page was not made anew")
	}
}

// BenchmarkScrape writes a page beside 1,000 requests that run, without and with the series
// of projects. Gateways ask for a page every 50 ms and expect it within a millisecond.
func BenchmarkScrape(b *testing.B) {
	const running = 1000
	spec := simple
	spec.MaxSeqs, spec.MaxTokens, spec.NumBlocks, spec.MaxSeqTokens = running, 4*running, 40*running, 512
	// A step ends every 10 ms, as on a device that has this many sequences to compute.
	e := engine.New(engine.Config{MaxLive: 2 * running, Caching: true}, func() (backend.Backend, error) {
		return sim.NewOracle(spec, sim.OracleConfig{Hook: func(c sim.Call, _ int) error {
			if c == sim.End {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}})
	})
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() { _ = e.Run(ctx) }() // its error is that of the context
	<-e.Ready()
	m := New()
	m.SetEngine(e, Model{Name: "tiny", MaxLen: spec.MaxSeqTokens, CacheType: "bfloat16"})
	for i := range 2 * maxProjects {
		m.Used(fmt.Sprintf("team/%d", i), 10, 3)
	}
	var load sync.WaitGroup
	for i := range running {
		load.Go(func() { keepAsking(ctx, e, ask(byte(i), 20, 450)) })
	}
	for e.Stats().Running < running/2 {
		time.Sleep(time.Millisecond)
	}
	for name, shows := range map[string]func(string) bool{"public": nil, "projects": all} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := m.WriteText(io.Discard, shows); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(e.Stats().Running), "running")
		})
	}
	cancel()
	load.Wait()
}

// keepAsking submits a request again and again, and reads the answers.
func keepAsking(ctx context.Context, e *engine.Engine, r engine.Request) {
	for ctx.Err() == nil {
		s, err := e.Submit(r)
		if err != nil {
			return
		}
		var ev engine.Events
		for over := false; !over; {
			if s.Next(ctx, &ev) != nil {
				s.Cancel()
				return
			}
			over = slices.ContainsFunc(ev.Items, func(item engine.Event) bool { return item.Reason != engine.NotDone })
		}
	}
}
