package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/api"
	"weir/internal/testkit"
)

// evenly sends rate requests per second at equal intervals.
func evenly(rate float64) func(*ServeConfig) {
	return func(c *ServeConfig) { c.Rate, c.Burstiness = rate, math.Inf(1) }
}

// steadyFour is four requests at 10 per second, which are sent at 100, 200, 300 and 400 ms
// and answered with 3 tokens each: the first at 150, 250, 350 and 450 ms, the last 40 ms
// later. So the run goes from 100 to 490 ms.
func steadyFour(t *testing.T, change func(*ServeConfig)) *Report {
	p := steady(7, 3, 50*msec, 20*msec)
	f, prompts := plansInTurn(p, p, p, p)
	return mustMeasure(t, f, prompts, func(c *ServeConfig) {
		evenly(10)(c)
		c.Metrics = []string{"e2el", "itl", "tpot", "ttft"}
		if change != nil {
			change(c)
		}
	})
}

// TestServeByHand: every metric against numbers that were calculated by hand.
func TestServeByHand(t *testing.T) {
	r := steadyFour(t, func(c *ServeConfig) { c.Goodput = Goodput{TTFT: 50, TPOT: 30, E2EL: 90} })
	if r.Duration != 390*msec {
		t.Errorf("duration %v", r.Duration)
	}
	// Each answer has the role and a token in one read, after 20 ms a token, and after 20
	// ms a token and the finish in one read. So the gaps are 0, 20, 20 and 0 ms, and TPOT
	// is 40/2 ms.
	for name, c := range map[string]struct {
		got  Samples
		want []float64
	}{
		"TTFT": {r.TTFT, []float64{50, 50, 50, 50}},
		"E2EL": {r.E2EL, []float64{90, 90, 90, 90}},
		"TPOT": {r.TPOT, []float64{20, 20, 20, 20}},
		"ITL":  {r.ITL, []float64{0, 0, 0, 0, 0, 0, 0, 0, 20, 20, 20, 20, 20, 20, 20, 20}},
		"lag":  {r.Generator.Lag, []float64{0, 0, 0, 0}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	got := fmt.Sprint(r.Completed, r.Failed, r.Cut, r.InputTokens, r.OutputTokens, r.Uncounted, r.Good, r.PeakTokens, r.PeakConcurrency, r.Generator.Events, r.Generator.Joined, r.Errors, r.Interrupted)
	// Each answer has four events after the first: the token that came with the role, which
	// is not counted as joined, two tokens, and the finish that came with the last.
	if want := "4 0 0 28 12 0 4 12 1 16 4 [] false"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if r.Config.Model != "fake-1" {
		t.Errorf("model %q", r.Config.Model)
	}
	for _, g := range []Goodput{{TTFT: 49.9}, {TPOT: 19.9}, {E2EL: 89.9}} {
		if r := steadyFour(t, func(c *ServeConfig) { c.Goodput = g }); r.Good != 0 {
			t.Errorf("%+v: %d are good", g, r.Good)
		}
	}
}

// TestServeConcurrency: with at most 2 requests in flight the others wait, in order, and
// their latencies begin when they are sent. The server sees no more than 2 connections.
func TestServeConcurrency(t *testing.T) {
	p := steady(1, 2, 100*msec, 100*msec)
	f, prompts := plansInTurn(p, p, p, p, p)
	r := mustMeasure(t, f, prompts, func(c *ServeConfig) { c.MaxConcurrency = 2 })
	if want := (Samples{0, 0, 200, 200, 400}); !slices.Equal(r.Generator.Queue, want) {
		t.Errorf("waits %v, want %v", r.Generator.Queue, want)
	}
	if r.PeakConcurrency != 2 || f.conns != 2 || r.Duration != 600*msec || r.E2EL.Percentile(100) != 200 || r.Generator.Lag.Percentile(100) != 0 {
		t.Errorf("%d at a time, %d connections, %v, %v, %v", r.PeakConcurrency, f.conns, r.Duration, r.E2EL, r.Generator.Lag)
	}
	for i := range r.outcomes {
		if want := time.Duration(i/2) * 200 * msec; r.outcomes[i].sent != want {
			t.Errorf("request %d was sent at %v, not %v", i, r.outcomes[i].sent, want)
		}
	}
}

// TestServeIsOpenLoop: a server that does not answer delays no request that is due.
func TestServeIsOpenLoop(t *testing.T) {
	slow, fast := steady(1, 1, time.Hour, 0), steady(1, 1, msec, 0)
	f, prompts := plansInTurn(slow, fast, fast, fast)
	r := mustMeasure(t, f, prompts, evenly(1))
	for i := range r.outcomes {
		if want := time.Duration(i+1) * time.Second; r.outcomes[i].sent != want {
			t.Errorf("request %d was sent at %v, not %v", i, r.outcomes[i].sent, want)
		}
	}
	if r.Completed != 4 || r.TTFT.Percentile(100) != ms(time.Hour) || r.PeakConcurrency != 2 {
		t.Errorf("%d completed, %v, %d at a time", r.Completed, r.TTFT, r.PeakConcurrency)
	}
}

// TestServeFailures: an answer that is not complete is a failed request, with a reason, and
// is part of no latency.
func TestServeFailures(t *testing.T) {
	good := steady(5, 4, 10*msec, 10*msec)
	begun := []step{{10 * msec, role + token}}
	with := func(text string) []step { return append(slices.Clone(begun), step{10 * msec, text}) }
	f, prompts := plansInTurn(
		good,
		plan{status: 400, refusal: `{"error":{"message":"no\nsuch thing","code":400}}`},
		plan{status: 429, refusal: "<html>slow down"},
		plan{status: 500},
		plan{steps: begun, cut: true},
		plan{steps: begun},
		plan{steps: with("data: {\"error\":{\"message\":\"it broke\"}}\n\n" + api.Done)},
		plan{steps: with("data: {\"error\":\"it broke\"}\n\n" + api.Done)},
		plan{steps: with("data: {\"choices\":[{\"de\n\n" + api.Done)},
		plan{steps: []step{{0, usageEvent(5, 0) + api.Done}}},
		good,
	)
	r := mustMeasure(t, f, prompts, nil)
	if r.Completed != 2 || r.Failed != 9 || r.Cut != 0 || r.InputTokens != 10 || r.OutputTokens != 8 || len(r.TTFT) != 2 || len(r.ITL) != 10 {
		t.Errorf("%d completed, %d failed, %d cut, %d in, %d out, %v", r.Completed, r.Failed, r.Cut, r.InputTokens, r.OutputTokens, r.TTFT)
	}
	var got []string
	for _, e := range r.Errors {
		got = append(got, fmt.Sprint(e.Count, " ", e.Text))
	}
	want := []string{
		"2 error event: it broke",
		"1 400 Bad Request: no such thing",
		"1 429 Too Many Requests: <html>slow down",
		"1 500 Internal Server Error",
		"1 an event of the stream is not JSON",
		"1 no event of the stream had a choice",
		"1 the stream ended before [DONE]",
		"1 unexpected EOF",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if d := r.Duration; d != 40*msec {
		t.Errorf("duration %v", d)
	}
}

// TestServeManyErrors: the number of different errors in a report is bounded.
func TestServeManyErrors(t *testing.T) {
	var plans []plan
	for i := range 300 {
		plans = append(plans, plan{status: 400, refusal: fmt.Sprintf(`{"error":"%d"}`, i)})
	}
	f, prompts := plansInTurn(plans...)
	r := mustMeasure(t, f, prompts, nil)
	if len(r.Errors) != maxErrors+1 || r.Errors[0] != (ErrorCount{"other errors", 300 - maxErrors}) || r.Failed != 300 || r.Completed != 0 {
		t.Errorf("%d errors, the first %v", len(r.Errors), r.Errors[0])
	}
}

// TestServeWithoutUsage: without usage, events are counted as tokens.
func TestServeWithoutUsage(t *testing.T) {
	p := plan{steps: []step{{10 * msec, token}, {10 * msec, token}, {10 * msec, token + api.Done}}}
	f, prompts := plansInTurn(p)
	r := mustMeasure(t, f, prompts, nil)
	if r.Uncounted != 1 || r.OutputTokens != 3 || r.InputTokens != 0 || !slices.Equal(r.TPOT, Samples{10}) || len(r.Generator.Warnings) != 1 {
		t.Errorf("%d uncounted, %d tokens, %v, %q", r.Uncounted, r.OutputTokens, r.TPOT, r.Generator.Warnings)
	}
}

// TestServeKeepAlive: a blank line or a comment is not an event.
func TestServeKeepAlive(t *testing.T) {
	p := plan{steps: []step{{15 * time.Second, "\n\n"}, {15 * time.Second, ": ping\n\n"}, {time.Second, token}, {15 * time.Second, "\n"}, {time.Second, token + usageEvent(1, 2) + api.Done}}}
	f, prompts := plansInTurn(p)
	r := mustMeasure(t, f, prompts, nil)
	if !slices.Equal(r.TTFT, Samples{31000}) || !slices.Equal(r.ITL, Samples{16000}) {
		t.Errorf("%v %v", r.TTFT, r.ITL)
	}
}

// TestServeInterrupted: what was measured until an interrupt is reported. Requests that were
// in flight are neither completed nor failed, and requests that waited are not sent.
func TestServeInterrupted(t *testing.T) {
	fast, stuck := steady(1, 1, 100*msec, 0), plan{steps: []step{{10 * msec, token}}, hang: true}
	f, prompts := plansInTurn(fast, stuck, stuck, plan{status: 500}, fast, fast)
	limited := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), 4500*msec)
	}
	for _, concurrency := range []int{0, 2} {
		r, err := measure(t, f, prompts, limited, func(c *ServeConfig) { evenly(1)(c); c.MaxConcurrency = concurrency })
		if err != nil {
			t.Fatal(err)
		}
		want := map[int]string{0: "1 1 2 4 true", 2: "1 0 2 3 true"}[concurrency]
		if got := fmt.Sprint(r.Completed, r.Failed, r.Cut, len(r.outcomes), r.Interrupted); got != want {
			t.Errorf("concurrency %d: %s, want %s", concurrency, got, want)
		}
	}
	// An interrupt before anything was sent.
	f.early = 1 << 30
	if r, err := measure(t, f, prompts, limited, func(c *ServeConfig) { c.ReadyTimeout = time.Hour }); err == nil {
		t.Errorf("%+v", r)
	}
}

// TestServeReady: the run waits for a server that is still loading, for a limited time.
func TestServeReady(t *testing.T) {
	f, prompts := plansInTurn(steady(1, 1, msec, 0))
	f.early = 20
	if _, err := measure(t, f, prompts, nil, func(c *ServeConfig) { c.ReadyTimeout = time.Second }); err == nil || !strings.Contains(err.Error(), "503 Service Unavailable") {
		t.Error(err)
	}
	f.early = 20
	if r := mustMeasure(t, f, prompts, func(c *ServeConfig) { c.ReadyTimeout = 3 * time.Second }); r.Completed != 1 || !slices.Equal(r.TTFT, Samples{1}) {
		t.Errorf("%d completed, %v", r.Completed, r.TTFT)
	}
}

// TestServeWarmups: warm-up requests are sent before the run, all at once, with prompts of
// their own, and are not measured. If all of them fail, there is no run.
func TestServeWarmups(t *testing.T) {
	f, prompts := plansInTurn(steady(1, 2, msec, msec), steady(1, 2, msec, msec), plan{status: 500}, steady(1, 100, msec, msec))
	r := mustMeasure(t, f, prompts, func(c *ServeConfig) { c.NumPrompts, c.Warmups = 2, 2 })
	if r.Completed != 2 || r.Failed != 0 || r.OutputTokens != 4 || len(f.bodies) != 4 {
		t.Errorf("%d completed, %d tokens, %d requests", r.Completed, r.OutputTokens, len(f.bodies))
	}
	if _, err := measure(t, f, prompts, nil, func(c *ServeConfig) { c.NumPrompts, c.Warmups = 2, 1 }); err == nil || !strings.Contains(err.Error(), "warm-up") || !strings.Contains(err.Error(), "500") {
		t.Error(err)
	}
}

// TestServeRequests: the fields of the requests that are sent.
func TestServeRequests(t *testing.T) {
	f, prompts := plansInTurn(steady(1, 1, 0, 0))
	half := 0.5
	for _, c := range []struct {
		change func(*ServeConfig)
		want   string
	}{
		{nil, `{"max_completion_tokens":10,"messages":[{"content":[{"text":"0","type":"text"}],"role":"user"}],"model":"fake-1","stream":true,"stream_options":{"include_usage":true}}`},
		{func(c *ServeConfig) {
			c.Endpoint, c.Model, c.APIKey, c.IgnoreEOS, c.Temperature = Completions, "m", "k", true, &half
			c.BaseURL = "http://h/v1/"
			c.ExtraBody = json.RawMessage(`{"top_p":0.9,"max_tokens":3}`)
		}, `{"ignore_eos":true,"max_tokens":3,"model":"m","prompt":"0","stream":true,"stream_options":{"include_usage":true},"temperature":0.5,"top_p":0.9}`},
	} {
		f.bodies, f.keys = nil, nil
		r := mustMeasure(t, f, prompts, c.change)
		if got, _ := json.Marshal(f.bodies[0]); string(got) != c.want || r.Completed != 1 {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		want := ""
		if r.Config.APIKey != "" {
			want = "Bearer k"
		}
		if f.keys[0] != want || f.keys[1] != want {
			t.Errorf("keys %q", f.keys)
		}
	}
}

// TestServeGolden: the table, the benchmark line and the JSON, with and without details.
// Labels and keys are those of vLLM's benchmark.
func TestServeGolden(t *testing.T) {
	write := func(name string, r *Report, detailed bool) {
		var text, line, object bytes.Buffer
		for _, err := range []error{r.WriteText(&text), r.WriteBenchmark(&line), r.WriteJSON(&object, detailed)} {
			if err != nil {
				t.Error(err)
			}
		}
		var keys map[string]any
		if err := json.Unmarshal(object.Bytes(), &keys); err != nil {
			t.Fatal(err)
		}
		var pretty bytes.Buffer
		if err := json.Indent(&pretty, object.Bytes(), "", "  "); err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, "testdata/"+name+".txt", text.Bytes())
		testkit.Golden(t, "testdata/"+name+".bench", line.Bytes())
		testkit.Golden(t, "testdata/"+name+".json", pretty.Bytes())
	}
	write("steady", steadyFour(t, func(c *ServeConfig) { c.Percentiles = []float64{50, 99, 99.9} }), false)

	f, prompts := plansInTurn(steady(3, 2, 10*msec, 5*msec), plan{status: 404, refusal: `{"error":{"message":"no such model"}}`},
		plan{steps: []step{{msec, token}}, hang: true}, steady(3, 2, 10*msec, 5*msec))
	limited := func() (context.Context, context.CancelFunc) {
		return context.WithTimeout(context.Background(), time.Second)
	}
	r, err := measure(t, f, prompts, limited, func(c *ServeConfig) {
		c.MaxConcurrency, c.KeepText, c.Goodput = 1, true, Goodput{E2EL: 100}
	})
	if err != nil {
		t.Fatal(err)
	}
	write("interrupted", r, true)
}

// TestServeKeys: every label and key that vLLM's benchmark has for these
// metrics (vllm/benchmarks/serve.py) is there.
func TestServeKeys(t *testing.T) {
	r := steadyFour(t, func(c *ServeConfig) { c.MaxConcurrency, c.Goodput, c.KeepText = 4, Goodput{TTFT: 1}, true })
	var text, object bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := r.WriteJSON(&object, true); err != nil {
		t.Fatal(err)
	}
	for _, label := range []string{"Successful requests:", "Failed requests:", "Maximum request concurrency:", "Request rate configured (RPS):", "Benchmark duration (s):",
		"Total input tokens:", "Total generated tokens:", "Request throughput (req/s):", "Request goodput (req/s):", "Output token throughput (tok/s):",
		"Peak output token throughput (tok/s):", "Peak concurrent requests:", "Total token throughput (tok/s):",
		"Mean TTFT (ms):", "Median TPOT (ms):", "P99 ITL (ms):", "Mean E2EL (ms):",
		"Time to First Token", "Time per Output Token (excl. 1st token)", "Inter-token Latency", "End-to-end Latency"} {
		if !strings.Contains(text.String(), label) {
			t.Errorf("no label %s", label)
		}
	}
	var have map[string]any
	if err := json.Unmarshal(object.Bytes(), &have); err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(`date endpoint_type backend label model_id tokenizer_id num_prompts request_rate burstiness max_concurrency duration completed failed
		total_input_tokens total_output_tokens request_throughput request_goodput output_throughput total_token_throughput max_output_tokens_per_s
		max_concurrent_requests input_lens output_lens ttfts itls start_times generated_texts errors`)
	for _, m := range []string{"ttft", "tpot", "itl", "e2el"} {
		for _, s := range []string{"mean_", "median_", "std_", "p99_"} {
			want = append(want, s+m+"_ms")
		}
	}
	for _, key := range want {
		if _, ok := have[key]; !ok {
			t.Errorf("no key %s", key)
		}
	}
}

// TestServeText: what was answered is kept when asked for.
func TestServeText(t *testing.T) {
	p := plan{steps: []step{{0, role + `data: {"choices":[{"delta":{"content":"a\n\u00e9"}}]}` + "\n\n" + `data: {"choices":[{"text":"\"b"}]}` + "\n\n" + api.Done}}}
	f, prompts := plansInTurn(p)
	if r := mustMeasure(t, f, prompts, func(c *ServeConfig) { c.KeepText = true }); string(r.outcomes[0].text) != "a\né\"b" {
		t.Errorf("%q", r.outcomes[0].text)
	}
	if r := mustMeasure(t, f, prompts, nil); r.outcomes[0].text != nil {
		t.Errorf("%q", r.outcomes[0].text)
	}
}

// TestServeWarnings: a report warns if the generator may have decided the result.
func TestServeWarnings(t *testing.T) {
	for _, c := range []struct {
		r    Report
		want string
	}{
		{Report{Config: ServeConfig{Load: Load{Rate: 1, NumPrompts: 100}}, Generator: Generator{CPU: 1.5, Processors: 2, Lag: Samples{9}, Events: 10, Joined: 1}}, ""},
		{Report{Config: ServeConfig{Load: Load{Rate: 1, NumPrompts: 100}}, Generator: Generator{CPU: 1.7, Processors: 2}}, "bottleneck"},
		{Report{Config: ServeConfig{Load: Load{Rate: 1, NumPrompts: 100}}, Generator: Generator{Processors: 2, Lag: Samples{12}}}, "fell behind"},
		{Report{Config: ServeConfig{Load: Load{Rate: math.Inf(1)}}, Generator: Generator{Processors: 2, Lag: Samples{12}}}, ""},
		{Report{Generator: Generator{Processors: 2, Events: 10, Joined: 2}}, "20% of the events"},
		{Report{Uncounted: 2, Generator: Generator{Processors: 2}}, "2 answers came without usage"},
	} {
		c.r.addWarnings()
		got := strings.Join(c.r.Generator.Warnings, "\n")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.r.Generator, got, c.want)
		}
	}
}

func TestServeConfig(t *testing.T) {
	for want, change := range map[string]func(*ServeConfig){
		"":              func(c *ServeConfig) {},
		"no http":       func(c *ServeConfig) { c.BaseURL = "localhost:8000" },
		"endpoint":      func(c *ServeConfig) { c.Endpoint = "x" },
		"0 prompts":     func(c *ServeConfig) { c.NumPrompts = 0 },
		"rate of 0":     func(c *ServeConfig) { c.Rate = 0 },
		"rate of NaN":   func(c *ServeConfig) { c.Rate = math.NaN() },
		"a year":        func(c *ServeConfig) { c.Rate = 1e-9 },
		"burstiness":    func(c *ServeConfig) { c.Burstiness = 0 },
		"concurrency":   func(c *ServeConfig) { c.MaxConcurrency = -1 },
		"warm-up":       func(c *ServeConfig) { c.Warmups = -1 },
		"metric":        func(c *ServeConfig) { c.Metrics = []string{"tft"} },
		"percentile":    func(c *ServeConfig) { c.Percentiles = []float64{101} },
		"random length": func(c *ServeConfig) { c.Data = Random{InputLen: -1} },
		"range ratio":   func(c *ServeConfig) { c.Data = Random{RangeRatio: 1} },
		"extra body":    func(c *ServeConfig) { c.ExtraBody = json.RawMessage("[1]") },
	} {
		c := DefaultServeConfig()
		change(&c)
		if err := c.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
		if want != "" {
			if _, err := RunServe(t.Context(), c); err == nil {
				t.Errorf("%q: it runs", want)
			}
		}
	}
	g, err := ParseGoodput([]string{"ttft:500", "e2el:1.5"})
	if err != nil || g != (Goodput{TTFT: 500, E2EL: 1.5}) {
		t.Error(g, err)
	}
	for _, bad := range []string{"", "ttft", "ttft:", "ttft:0", "ttft:x", "itl:5", "ttft:NaN"} {
		if g, err := ParseGoodput([]string{bad}); err == nil {
			t.Errorf("%q: %+v", bad, g)
		}
	}
}

// TestServeRefusal: if nothing listens at the address, there is an error and no report.
func TestServeRefusal(t *testing.T) {
	c := DefaultServeConfig()
	c.BaseURL = "http://127.0.0.1:1"
	if r, err := RunServe(t.Context(), c); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("%v %v", r, err)
	}
}
