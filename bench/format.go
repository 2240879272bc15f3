package bench

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"weir/internal/jsontext"
)

// metricNames are the metrics that can be reported, with the short and the long name that
// they have in the report.
var metricNames = map[string][2]string{
	"ttft": {"TTFT", "Time to First Token"},
	"tpot": {"TPOT", "Time per Output Token (excl. 1st token)"},
	"itl":  {"ITL", "Inter-token Latency"},
	"e2el": {"E2EL", "End-to-end Latency"},

	"client_queue_time":           {"Client Queue Time", "Client-side Queueing"},
	"e2el_including_client_queue": {"E2EL incl. Client Queue", "Queue-inclusive End-to-end Latency"},
}

// metricOrder is the order in which metrics are reported.
var metricOrder = []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"}

func (r *Report) samples(metric string) Samples {
	switch metric {
	case "ttft":
		return r.TTFT
	case "tpot":
		return r.TPOT
	case "itl":
		return r.ITL
	case "e2el":
		return r.E2EL
	}
	var values []float64
	for i := range r.outcomes {
		if o := &r.outcomes[i]; o.completed() {
			v := ms(o.queued())
			if metric != "client_queue_time" {
				v += ms(o.last - o.sent)
			}
			values = append(values, v)
		}
	}
	return newSamples(values)
}

// each calls f for every metric that the configuration asks for.
func (r *Report) each(f func(name string, s Samples)) {
	for _, name := range metricOrder {
		for _, asked := range r.Config.Metrics {
			if asked == name {
				f(name, r.samples(name))
				break
			}
		}
	}
}

// perSecond divides n by the duration of the run.
func (r *Report) perSecond(n int) float64 {
	if r.Duration <= 0 {
		return 0
	}
	return float64(n) / r.Duration.Seconds()
}

// table writes a report for people, in the layout of vLLM's benchmark. It keeps the first
// error of writing.
type table struct {
	w   io.Writer
	err error
}

const tableWidth = 50

func (t *table) printf(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format, args...)
	}
}

func (t *table) title(text string, line string) {
	left := max(0, tableWidth-len(text)) / 2
	t.printf("%s%s%s\n", strings.Repeat(line, left), text, strings.Repeat(line, max(0, tableWidth-len(text)-left)))
}

func (t *table) count(label string, n int)      { t.printf("%-40s %-10d\n", label, n) }
func (t *table) number(label string, v float64) { t.printf("%-40s %-10.2f\n", label, v) }

// WriteText writes the report as a table for people.
func (r *Report) WriteText(w io.Writer) error {
	t := &table{w: w}
	c, g := &r.Config, &r.Generator
	if len(r.Errors) > 0 {
		t.printf("Failed requests:\n")
		for _, e := range r.Errors {
			t.printf("%8d  %s\n", e.Count, e.Text)
		}
	}
	t.title(" Serving Benchmark Result ", "=")
	t.count("Successful requests:", r.Completed)
	t.count("Failed requests:", r.Failed)
	if r.Interrupted {
		t.count("Requests cut short by the interrupt:", r.Cut)
		t.count("Requests not sent:", r.Unsent)
	}
	if c.Leave.Percent > 0 {
		t.count("Requests whose clients left:", r.Left)
	}
	if c.MaxConcurrency > 0 {
		t.count("Maximum request concurrency:", c.MaxConcurrency)
	}
	if !math.IsInf(c.Rate, 1) {
		t.number("Request rate configured (RPS):", c.Rate)
	}
	t.number("Benchmark duration (s):", r.Duration.Seconds())
	t.count("Total input tokens:", r.InputTokens)
	t.count("Total generated tokens:", r.OutputTokens)
	t.number("Request throughput (req/s):", r.perSecond(r.Completed))
	if c.Goodput != (Goodput{}) {
		t.number("Request goodput (req/s):", r.perSecond(r.Good))
	}
	t.number("Output token throughput (tok/s):", r.perSecond(r.OutputTokens))
	t.number("Peak output token throughput (tok/s):", r.PeakTokens)
	t.number("Peak concurrent requests:", float64(r.PeakConcurrency))
	t.number("Total token throughput (tok/s):", r.perSecond(r.InputTokens+r.OutputTokens))
	r.each(func(name string, s Samples) {
		t.title(metricNames[name][1], "-")
		r.figures(t, metricNames[name][0], s)
	})
	r.writeScheduled(t)
	r.writeSteady(t)
	t.title("Load Generator", "-")
	t.number("Mean schedule lag (ms):", g.Lag.Mean())
	t.number("P99 schedule lag (ms):", g.Lag.Percentile(99))
	t.number("Max schedule lag (ms):", g.Lag.Percentile(100))
	if c.MaxConcurrency > 0 {
		t.number("Mean wait for concurrency (ms):", g.Queue.Mean())
		t.number("P99 wait for concurrency (ms):", g.Queue.Percentile(99))
	}
	t.number("Processors used by the generator:", g.CPU)
	t.count("Processors there are:", g.Processors)
	t.number("P99 lateness of wake-ups (ms):", g.Wakeups.Percentile(99))
	t.number("Events read with the one before (%):", 100*g.joined())
	if n := g.tokensPerEvent(); n > 0 {
		t.number("Tokens per event:", n)
	}
	t.count("Connections opened again:", g.Reopened)
	t.printf("%s\n", strings.Repeat("=", tableWidth))
	for _, warning := range g.Warnings {
		t.printf("WARNING: %s.\n", warning)
	}
	return t.err
}

func decimal(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func rate(v float64) string {
	if math.IsInf(v, 1) {
		return "inf"
	}
	return decimal(v)
}

// WriteBenchmark writes the report as a line of a Go benchmark, which benchstat reads. An
// operation is a completed request.
func (r *Report) WriteBenchmark(w io.Writer) error {
	if r.Completed == 0 {
		return nil
	}
	c := &r.Config
	var b strings.Builder
	fmt.Fprintf(&b, "BenchmarkServe/endpoint=%s/rate=%s", c.Endpoint, rate(c.Rate))
	if c.MaxConcurrency > 0 {
		fmt.Fprintf(&b, "/concurrency=%d", c.MaxConcurrency)
	}
	fmt.Fprintf(&b, " %d %d ns/op %.2f req/s %.2f output-tok/s", r.Completed, r.Duration.Nanoseconds()/int64(r.Completed),
		r.perSecond(r.Completed), r.perSecond(r.OutputTokens))
	r.each(func(name string, s Samples) {
		fmt.Fprintf(&b, " %.4f mean-%s-ms", s.Mean(), name)
		for _, p := range c.Percentiles {
			fmt.Fprintf(&b, " %.4f p%s-%s-ms", s.Percentile(p), decimal(p), name)
		}
	})
	_, err := fmt.Fprintln(w, b.String())
	return err
}

// WriteJSON writes the report with the keys of vLLM's benchmark. detailed adds lists with
// an element for each request, in the order in which requests were sent. Times in them are
// in seconds since the start of the run.
func (r *Report) WriteJSON(w io.Writer, detailed bool) error {
	text, err := r.json(detailed)
	if err != nil {
		return err
	}
	_, err = w.Write(append(text, '\n'))
	return err
}

// jsonObject is the text of a JSON object.
type jsonObject = jsontext.RawMessage

func (r *Report) json(detailed bool) (jsonObject, error) {
	c, g := &r.Config, &r.Generator
	var o object
	o.add("date", r.Date.Format("20060102-150405"))
	o.add("endpoint_type", c.Endpoint)
	o.add("backend", c.Endpoint)
	o.add("label", given(c.Label, c.Label != ""))
	o.add("model_id", c.Model)
	o.add("tokenizer_id", nil)
	o.add("num_prompts", c.NumPrompts)
	for _, m := range c.Metadata {
		o.add(m[0], m[1])
	}
	o.add("request_rate", finite(c.Rate))
	o.add("burstiness", finite(c.Burstiness))
	o.add("max_concurrency", given(c.MaxConcurrency, c.MaxConcurrency > 0))
	if c.Ramp.Strategy != "" {
		o.add("ramp_up_strategy", c.Ramp.Strategy)
		o.add("ramp_up_start_rps", c.Ramp.Start)
		o.add("ramp_up_end_rps", c.Ramp.End)
	}
	o.add("seed", c.Seed)
	o.add("duration", r.Duration.Seconds())
	o.add("completed", r.Completed)
	o.add("failed", r.Failed)
	o.add("total_input_tokens", r.InputTokens)
	o.add("total_output_tokens", r.OutputTokens)
	o.add("request_throughput", r.perSecond(r.Completed))
	o.add("request_goodput", given(r.perSecond(r.Good), c.Goodput != Goodput{}))
	o.add("output_throughput", r.perSecond(r.OutputTokens))
	o.add("total_token_throughput", r.perSecond(r.InputTokens+r.OutputTokens))
	o.add("max_output_tokens_per_s", r.PeakTokens)
	o.add("max_concurrent_requests", r.PeakConcurrency)
	r.each(func(name string, s Samples) {
		r.addFigures(&o, name, s)
	})
	if detailed {
		r.addDetails(&o)
	}
	r.addScheduled(&o)
	r.addSteady(&o)
	o.add("interrupted", r.Interrupted)
	o.add("cut", r.Cut)
	o.add("cancelled", r.Left)
	o.add("unsent", r.Unsent)
	o.add("repeated_prompts", r.Repeats)
	o.add("error_counts", r.Errors)
	var own object
	own.add("mean_lag_ms", g.Lag.Mean())
	own.add("p99_lag_ms", g.Lag.Percentile(99))
	own.add("max_lag_ms", g.Lag.Percentile(100))
	own.add("mean_queue_ms", g.Queue.Mean())
	own.add("p99_queue_ms", g.Queue.Percentile(99))
	own.add("cpu", g.CPU)
	own.add("processors", g.Processors)
	own.add("events", g.Events)
	own.add("joined_events", g.Joined)
	own.add("p99_wakeup_ms", g.Wakeups.Percentile(99))
	own.add("tokens_per_event", g.tokensPerEvent())
	own.add("reopened_connections", g.Reopened)
	own.add("clock_slip_ms", ms(g.ClockSlip))
	own.add("warnings", g.Warnings)
	o.nest("generator", &own)
	if o.err != nil {
		return nil, fmt.Errorf("bench: %w", o.err)
	}
	return o.end(), nil
}

func (r *Report) addDetails(o *object) {
	n := len(r.outcomes)
	inputs, outputs := make([]int, n), make([]int, n)
	ttfts, latencies, starts, queued := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	itls, texts, errs := make([][]float64, n), make([]string, n), make([]string, n)
	for i := range r.outcomes {
		q := &r.outcomes[i]
		itls[i] = make([]float64, len(q.gaps))
		for j, gap := range q.gaps {
			itls[i][j] = gap.Seconds()
		}
		inputs[i], texts[i], errs[i] = q.prompt, string(q.text), q.failure
		latencies[i], starts[i] = (q.last - q.sent).Seconds(), q.sent.Seconds()
		if q.first >= 0 {
			ttfts[i] = (q.first - q.sent).Seconds()
		}
		if q.completed() {
			outputs[i] = q.tokens()
		}
		if q.waited {
			queued[i] = (q.sent - q.arrived).Seconds()
		}
	}
	o.add("input_lens", inputs)
	o.add("output_lens", outputs)
	o.add("ttfts", ttfts)
	o.add("itls", itls)
	o.add("latencies", latencies)
	o.add("start_times", starts)
	o.add("queue_times", queued)
	o.add("generated_texts", texts)
	o.add("errors", errs)
}

// object is a JSON object whose keys keep their order.
type object struct {
	b   []byte
	err error
}

func (o *object) add(key string, value any) {
	v, err := jsontext.Encode(value)
	if err != nil {
		o.err = err
		return
	}
	sep := byte(',')
	if len(o.b) == 0 {
		sep = '{'
	}
	o.b = append(append(append(append(o.b, sep), strconv.Quote(key)...), ':'), v...)
}

// nest adds an object as a member.
func (o *object) nest(key string, inner *object) {
	if inner.err != nil {
		o.err = inner.err
		return
	}
	o.add(key, jsontext.RawMessage(inner.end()))
}

// write writes the object and a line feed.
func (o *object) write(w io.Writer) error {
	if o.err != nil {
		return fmt.Errorf("bench: %w", o.err)
	}
	_, err := w.Write(append(o.end(), '\n'))
	return err
}

func (o *object) end() []byte { return append(o.b, '}') }

// finite is v, or "inf" for infinity, which is not a number in JSON.
func finite(v float64) any {
	if math.IsInf(v, 1) {
		return "inf"
	}
	return v
}

// given is v, or null if is is false.
func given[T any](v T, is bool) any {
	if is {
		return v
	}
	return nil
}
