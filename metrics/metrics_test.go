package metrics

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
)

// page is a scrape, read back by the library's parser.
type page map[string]*dto.MetricFamily

func scrape(t testing.TB, m *Metrics, projects bool) page {
	t.Helper()
	shows := all
	if !projects {
		shows = nil
	}
	return scrapeAs(t, m, shows)
}

func all(string) bool { return true }

func scrapeAs(t testing.TB, m *Metrics, shows func(string) bool) page {
	t.Helper()
	text := textOf(t, m, shows)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	p, err := parser.TextToMetricFamilies(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// find returns the metric of this name that has these labels, each as "k=v", and possibly
// others.
func (p page) find(t testing.TB, name string, labels ...string) *dto.Metric {
	t.Helper()
	f := p[name]
	if f == nil {
		t.Errorf("there is no %s", name)
		return &dto.Metric{Counter: &dto.Counter{}, Gauge: &dto.Gauge{}, Histogram: &dto.Histogram{}, Summary: &dto.Summary{}}
	}
	var found []*dto.Metric
	for _, m := range f.Metric {
		have := pairs(m)
		if !slices.ContainsFunc(labels, func(l string) bool { return !slices.Contains(have, l) }) {
			found = append(found, m)
		}
	}
	if len(found) != 1 {
		t.Errorf("%s %v: %d series", name, labels, len(found))
		return &dto.Metric{}
	}
	return found[0]
}

func pairs(m *dto.Metric) []string {
	var l []string
	for _, p := range m.Label {
		l = append(l, p.GetName()+"="+p.GetValue())
	}
	slices.Sort(l)
	return l
}

func (p page) value(t testing.TB, name string, labels ...string) float64 {
	t.Helper()
	m := p.find(t, name, labels...)
	if m.Counter != nil {
		return m.Counter.GetValue()
	}
	return m.Gauge.GetValue()
}

// fixture is an engine on the simulator, whose steps take 10 ms of a bubble's time, and its
// series.
type fixture struct {
	*engine.Engine
	m    *Metrics
	stop func()
}

var simple = backend.Spec{VocabSize: 300, BlockTokens: 16, NumBlocks: 101, MaxTokens: 100, MaxSeqs: 8, MaxSeqTokens: 512, Depth: 1}

// startKeeping starts an engine with copies of the prefix cache.
func startKeeping(t testing.TB, spec backend.Spec, hook func(sim.Call, int) error, to engine.Offload) fixture {
	t.Helper()
	if hook == nil {
		hook = func(c sim.Call, _ int) error {
			if c == sim.End {
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		}
	}
	e := engine.New(engine.Config{MaxLive: 100, Caching: true, Offload: to}, func() (backend.Backend, error) {
		return sim.NewOracle(spec, sim.OracleConfig{Hook: hook})
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	<-e.Ready()
	m := New()
	m.SetEngine(e, Model{Name: "tiny", MaxLen: spec.MaxSeqTokens, CacheType: "bfloat16"})
	return fixture{e, m, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}}
}

// run submits requests together and reads them to their ends.
func (h fixture) run(t testing.TB, rs ...engine.Request) {
	t.Helper()
	var all []*engine.Stream
	for _, r := range rs {
		s, err := h.Submit(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	for i, s := range all {
		var ev engine.Events
		for live := max(1, rs[i].N); live > 0; {
			if err := s.Next(t.Context(), &ev); err != nil {
				t.Fatal(err)
			}
			for _, e := range ev.Items {
				if e.Reason != engine.NotDone {
					live--
				}
			}
		}
	}
}

// TestTenRequests: ten requests of ten tokens each, one after the other, with the values that
// vLLM's own test expects (docs/interface/chat-completions.md, section 16).
func TestTenRequests(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		synctest.Test(t, func(t *testing.T) {
			spec := simple
			spec.Depth = depth
			h := start(t, spec, nil)
			defer h.stop()
			const prompt, step = 40, .01
			for i := range 10 {
				h.run(t, ask(byte(i), prompt, 10))
			}
			p := scrape(t, h.m, false)
			for name, want := range map[string]struct {
				count uint64
				sum   float64
			}{
				"vllm:time_to_first_token_seconds":           {10, 10 * step},
				"vllm:inter_token_latency_seconds":           {90, 90 * step},
				"vllm:request_time_per_output_token_seconds": {10, 10 * step},
				"vllm:e2e_request_latency_seconds":           {10, 100 * step},
				"vllm:request_queue_time_seconds":            {10, 0},
				"vllm:request_inference_time_seconds":        {10, 100 * step},
				"vllm:request_prefill_time_seconds":          {10, 10 * step},
				"vllm:request_decode_time_seconds":           {10, 90 * step},
				"vllm:request_prompt_tokens":                 {10, 10 * prompt},
				"vllm:request_generation_tokens":             {10, 100},
				"vllm:request_max_num_generation_tokens":     {10, 100},
				"vllm:request_params_max_tokens":             {10, 100},
				"vllm:request_prefill_kv_computed_tokens":    {10, 10 * prompt},
				"vllm:request_params_n":                      {10, 10},
				"vllm:iteration_tokens_total":                {100, 10*prompt + 100},
				"weir:time_to_first_token_seconds":           {10, 10 * step},
				"weir:inter_token_latency_seconds":           {90, 90 * step},
				"weir:request_time_per_output_token_seconds": {10, 10 * step},
				"weir:e2e_request_latency_seconds":           {10, 100 * step},
				"weir:request_queue_time_seconds":            {10, 0},
				"weir:request_prefill_time_seconds":          {10, 10 * step},
			} {
				m := p.find(t, name).Histogram
				if d := m.GetSampleSum() - want.sum; m.GetSampleCount() != want.count || d < -1e-9 || d > 1e-9 {
					t.Errorf("depth %d: %s: %d of sum %v, want %+v", depth, name, m.GetSampleCount(), m.GetSampleSum(), want)
				}
				if got := pairs(p.find(t, name)); !slices.Equal(got, []string{"engine=0", "model_name=tiny"}) {
					t.Errorf("%s has %v", name, got)
				}
			}
			for _, c := range []struct {
				name   string
				want   float64
				labels []string
			}{
				{"vllm:prompt_tokens_total", 10 * prompt, nil},
				{"vllm:prompt_tokens_by_source_total", 10 * prompt, []string{"source=local_compute"}},
				{"vllm:prompt_tokens_by_source_total", 0, []string{"source=local_cache_hit"}},
				{"vllm:prompt_tokens_by_source_total", 0, []string{"source=external_kv_transfer"}},
				{"vllm:prompt_tokens_cached_by_source_total", 0, []string{"source=device"}},
				{"vllm:num_requests_waiting_by_reason", 0, []string{"reason=capacity"}},
				{"vllm:num_requests_waiting_by_reason", 0, []string{"reason=deferred"}},
				{"vllm:admission_rejections_total", 0, []string{"reason=max_num_queued_reqs"}},
				{"vllm:prompt_tokens_cached_total", 0, nil},
				{"vllm:prefix_cache_queries_total", 10 * prompt, nil},
				{"vllm:prefix_cache_hits_total", 0, nil},
				{"vllm:generation_tokens_total", 100, nil},
				{"vllm:num_preemptions_total", 0, nil},
				{"vllm:request_success_total", 10, []string{"finished_reason=length"}},
				{"vllm:request_success_total", 0, []string{"finished_reason=stop"}},
				{"vllm:request_success_total", 0, []string{"finished_reason=abort"}},
				{"vllm:request_success_total", 0, []string{"finished_reason=error"}},
				{"vllm:request_success_total", 0, []string{"finished_reason=repetition"}},
				{"vllm:num_requests_running", 0, nil}, {"vllm:num_requests_waiting", 0, nil}, {"vllm:kv_cache_usage_perc", 0, nil},
				{"vllm:cache_config_info", 1, []string{"block_size=16", "num_gpu_blocks=100", "enable_prefix_caching=True", "cache_dtype=bfloat16", "engine=0"}},
				{"vllm:engine_sleep_state", 1, []string{"sleep_state=awake"}}, {"vllm:engine_sleep_state", 0, []string{"sleep_state=weights_offloaded"}},
				{"vllm:engine_sleep_state", 0, []string{"sleep_state=discard_all"}},
				{"vllm:external_prefix_cache_queries_total", 0, nil}, {"vllm:external_prefix_cache_hits_total", 0, nil},
				{"vllm:mm_cache_queries_total", 0, nil}, {"vllm:mm_cache_hits_total", 0, nil},
				{"weir:engine_reopened_total", 0, nil}, {"weir:forced_tokens_total", 0, nil},
				{"weir:sequences_sitting_out", 0, nil}, {"weir:postponed_tokens_total", 0, nil}, {"weir:slow_masks_total", 0, nil}, {"weir:mask_wait_seconds_total", 0, nil}, {"weir:aborted_requests_total", 0, nil},
			} {
				if got := p.value(t, c.name, c.labels...); got != c.want {
					t.Errorf("depth %d: %s %v is %v, want %v", depth, c.name, c.labels, got, c.want)
				}
			}
		})
	}
}

// TestBucketsAndNames: the buckets are vLLM's, and there are no series about what this server
// does not have.
func TestBucketsAndNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, simple, nil)
		defer h.stop()
		p := scrape(t, h.m, true)
		for name, want := range map[string]string{
			"vllm:request_prompt_tokens":                 "1 2 5 10 20 50 100 200 500 +Inf",
			"vllm:request_generation_tokens":             "1 2 5 10 20 50 100 200 500 +Inf",
			"vllm:request_params_max_tokens":             "1 2 5 10 20 50 100 200 500 +Inf",
			"vllm:request_params_n":                      "1 2 5 10 20 +Inf",
			"vllm:request_num_preemptions":               "1 2 3 4 5 10 20 +Inf",
			"vllm:iteration_tokens_total":                "1 8 16 32 64 128 256 512 1024 2048 4096 8192 16384 +Inf",
			"vllm:time_to_first_token_seconds":           "0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1 2.5 5 7.5 10 20 40 80 160 640 2560 +Inf",
			"vllm:inter_token_latency_seconds":           "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80 +Inf",
			"vllm:request_time_per_output_token_seconds": "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1 2.5 5 7.5 10 20 40 80 +Inf",
			"vllm:e2e_request_latency_seconds":           "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680 +Inf",
			"vllm:request_queue_time_seconds":            "0.3 0.5 0.8 1 1.5 2 2.5 5 10 15 20 30 40 50 60 120 240 480 960 1920 7680 +Inf",
		} {
			var got []string
			for _, b := range p.find(t, name).Histogram.GetBucket() {
				got = append(got, fmt.Sprint(b.GetUpperBound()))
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("%s: %s, want %s", name, s, want)
			}
		}
		for name := range p {
			for _, lacking := range []string{"spec_decode", "lora", "nixl", "kv_offload", "kv_block_", "estimated_"} {
				if strings.Contains(name, lacking) {
					t.Errorf("%s is about something that this server does not have", name)
				}
			}
		}
		if n := p.value(t, "go_goroutines"); n < 1 {
			t.Errorf("%v goroutines", n)
		}
	})
}

// TestOneTwoFive: the bounds go up to the longest context and not beyond it, and there are
// never more of them than cells.
func TestOneTwoFive(t *testing.T) {
	for most, want := range map[int]string{1: "[1]", 4: "[1 2]", 5: "[1 2 5]", 10: "[1 2 5 10]", 32768: "[1 2 5 10 20 50 100 200 500 1000 2000 5000 10000 20000]"} {
		if got := fmt.Sprint(oneTwoFive(most)); got != want {
			t.Errorf("up to %d: %s, want %s", most, got, want)
		}
	}
	if n := len(oneTwoFive(1 << 62)); n > maxBounds {
		t.Errorf("%d bounds", n)
	}
}

// TestHistogramReference: cumulative counts equal those from comparing every value with every
// bound. A value that equals a bound is counted for it (le).
func TestHistogramReference(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, simple, nil)
		defer h.stop()
		g := rand.New(rand.NewPCG(1, 2))
		s := h.m.engine.Load()
		var values []time.Duration
		for range 2000 {
			var d time.Duration
			if g.IntN(3) == 0 {
				d = time.Duration(firstBounds[g.IntN(len(firstBounds))] * float64(time.Second))
			} else {
				d = time.Duration(g.ExpFloat64() * float64(time.Second) * 10)
			}
			n := 1 + g.IntN(3)
			s.mu.Lock()
			s.time(firstToken, d, n)
			s.mu.Unlock()
			values = append(values, slices.Repeat([]time.Duration{d}, n)...)
		}
		m := scrape(t, h.m, false).find(t, "vllm:time_to_first_token_seconds").Histogram
		for _, b := range m.Bucket {
			want := uint64(0)
			for _, v := range values {
				if v.Seconds() <= b.GetUpperBound() {
					want++
				}
			}
			if b.GetCumulativeCount() != want {
				t.Errorf("le %v: %d, want %d", b.GetUpperBound(), b.GetCumulativeCount(), want)
			}
		}
		if m.GetSampleCount() != uint64(len(values)) {
			t.Errorf("%d of %d", m.GetSampleCount(), len(values))
		}
	})
}

// TestPreemption: preemptions are counted. A prompt that is computed again after one is not
// counted again, and the time in the queue is that of the first wait only.
func TestPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := simple
		spec.NumBlocks, spec.MaxSeqTokens = 9, 128
		h := start(t, spec, nil)
		defer h.stop()
		h.run(t, ask(1, 17, 60), ask(2, 17, 60), ask(3, 17, 60))
		p := scrape(t, h.m, false)
		if n := p.value(t, "vllm:num_preemptions_total"); n == 0 {
			t.Error("no sequence was preempted")
		}
		if n := p.value(t, "vllm:prompt_tokens_total"); n != 51 {
			t.Errorf("%v prompt tokens", n)
		}
		if q := p.find(t, "vllm:request_queue_time_seconds").Histogram; q.GetSampleSum() > .03 {
			t.Errorf("queued for %v s", q.GetSampleSum())
		}
		if n := p.find(t, "vllm:inter_token_latency_seconds").Histogram.GetSampleCount(); n != 3*59 {
			t.Errorf("%d gaps", n)
		}
	})
}

// TestChoices: each choice counts as a request in latencies and tokens, and the request once in
// params_n. What the choices share counts as cached.
func TestChoices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, simple, nil)
		defer h.stop()
		r := ask(1, 40, 7)
		r.N = 3
		h.run(t, r)
		p := scrape(t, h.m, false)
		n, e2e := p.find(t, "vllm:request_params_n").Histogram, p.find(t, "vllm:e2e_request_latency_seconds").Histogram
		longest := p.find(t, "vllm:request_max_num_generation_tokens").Histogram
		if n.GetSampleCount() != 1 || n.GetSampleSum() != 3 || e2e.GetSampleCount() != 3 || longest.GetSampleCount() != 1 || longest.GetSampleSum() != 7 {
			t.Errorf("n %v, e2e %v, longest %v", n, e2e, longest)
		}
		if got := p.value(t, "vllm:request_success_total", "finished_reason=length"); got != 3 {
			t.Errorf("%v finished", got)
		}
		if a, b := p.value(t, "vllm:prompt_tokens_total"), p.value(t, "vllm:prompt_tokens_by_source_total", "source=local_cache_hit"); a != 120 || b != 64 {
			t.Errorf("%v prompt tokens, %v of them cached", a, b)
		}
	})
}

// TestAborts: gauges follow the engine, and are 0 again after aborts. A request whose client
// has left is not a finished request.
func TestAborts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		spec := simple
		spec.MaxSeqs = 2
		h := start(t, spec, nil)
		defer h.stop()
		var streams []*engine.Stream
		for i := range 5 {
			s, err := h.Submit(ask(byte(i), 40, 100))
			if err != nil {
				t.Fatal(err)
			}
			streams = append(streams, s)
		}
		time.Sleep(25 * time.Millisecond)
		p := scrape(t, h.m, false)
		if r, w, kv := p.value(t, "vllm:num_requests_running"), p.value(t, "vllm:num_requests_waiting"), p.value(t, "vllm:kv_cache_usage_perc"); r != 2 || w != 3 || kv != .06 {
			t.Errorf("%v running, %v waiting, %v of the blocks", r, w, kv)
		}
		for _, s := range streams {
			s.Cancel()
		}
		time.Sleep(time.Second)
		p = scrape(t, h.m, false)
		if r, w, kv := p.value(t, "vllm:num_requests_running"), p.value(t, "vllm:num_requests_waiting"), p.value(t, "vllm:kv_cache_usage_perc"); r != 0 || w != 0 || kv != 0 {
			t.Errorf("%v running, %v waiting, %v of the blocks", r, w, kv)
		}
		if a, b := p.value(t, "weir:aborted_requests_total"), p.value(t, "vllm:request_success_total", "finished_reason=abort"); a != 5 || b != 0 {
			t.Errorf("%v and %v aborted", a, b)
		}
		if n := p.find(t, "vllm:e2e_request_latency_seconds").Histogram.GetSampleCount(); n != 0 {
			t.Errorf("%d finished", n)
		}
		if n := p.find(t, "vllm:time_to_first_token_seconds").Histogram.GetSampleCount(); n != 2 {
			t.Errorf("%d first tokens", n)
		}
	})
}

// TestFailure: a failed step ends its requests as errors. A request that had no token has no
// times of tokens.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, simple, func(c sim.Call, n int) error {
			if c == sim.End {
				time.Sleep(10 * time.Millisecond)
				return errors.New("out of order")
			}
			return nil
		})
		defer h.stop()
		h.run(t, ask(1, 40, 9))
		p := scrape(t, h.m, false)
		if n := p.value(t, "vllm:request_success_total", "finished_reason=error"); n != 1 {
			t.Errorf("%v errors", n)
		}
		if a, b := p.find(t, "vllm:request_queue_time_seconds").Histogram.GetSampleCount(), p.find(t, "vllm:request_decode_time_seconds").Histogram.GetSampleCount(); a != 1 || b != 0 {
			t.Errorf("%d queued, %d decoded", a, b)
		}
		synctest.Wait()
		if n := scrape(t, h.m, false).value(t, "weir:engine_reopened_total"); n != 1 {
			t.Errorf("opened again %v times", n)
		}
	})
}

// TestModelComesAndChanges: without a model there are only the other series, and the series of
// another model begin at 0.
func TestModelComesAndChanges(t *testing.T) {
	for name := range scrape(t, New(), true) {
		if strings.HasPrefix(name, "vllm:") {
			t.Errorf("%s without a model", name)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		h := start(t, simple, nil)
		defer h.stop()
		h.run(t, ask(1, 40, 9))
		h.m.SetEngine(h.Engine, Model{Name: "other", MaxLen: 10})
		h.run(t, ask(2, 40, 3))
		if n := scrape(t, h.m, false).value(t, "vllm:prompt_tokens_total", "model_name=other"); n != 40 {
			t.Errorf("%v prompt tokens", n)
		}
	})
}
