package bench

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
)

// WriteHTML writes a report with plots that a browser shows.
func (s *Series) WriteHTML(w io.Writer) error {
	p := s.page()
	return p.write(w)
}

// maxPoints bounds the points of a curve in a page.
const maxPoints = 2000

func (s *Series) page() *page {
	first := s.Reports[0]
	c := &first.Config
	p := &page{Title: "weir bench serve: " + cmp.Or(c.Label, c.Model, c.BaseURL)}
	p.Notes = append(p.Notes, fmt.Sprintf("%s, model %s, %s, %s", first.Date.UTC().Format("2006-01-02 15:04 UTC"), c.Model, c.BaseURL, c.loadText()))
	for i, r := range s.Reports {
		for _, warning := range r.Generator.Warnings {
			if len(s.Reports) > 1 {
				warning = fmt.Sprintf("run %d: %s", i+1, warning)
			}
			p.Warns = append(p.Warns, warning)
		}
	}
	p.Tables = []pageTable{s.figureTable(), s.countTable()}
	if t, ok := first.errorTable(); ok {
		p.Tables = append(p.Tables, t)
	}
	p.Plots = s.plots()
	return p
}

// loadText says in a few words which load it is.
func (c *ServeConfig) loadText() string {
	text := fmt.Sprintf("%d requests at %s requests/s", c.NumPrompts, rate(c.Rate))
	switch {
	case c.SelfTimed:
		text = fmt.Sprintf("%d requests at the times of a trace", c.NumPrompts)
	case c.Ramp.Strategy != "":
		text = fmt.Sprintf("%d requests at %s to %s requests/s (%s)", c.NumPrompts, decimal(c.Ramp.Start), decimal(c.Ramp.End), c.Ramp.Strategy)
	case c.MaxConcurrency > 0 && math.IsInf(c.Rate, 1):
		text = fmt.Sprintf("%d requests", c.NumPrompts)
	}
	if c.MaxConcurrency > 0 {
		text += fmt.Sprintf(", at most %d at a time", c.MaxConcurrency)
	}
	return text + fmt.Sprintf(", seed %d", c.Seed)
}

func short(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// figureTable has the figures of each run, and how they vary.
func (s *Series) figureTable() pageTable {
	t := pageTable{Title: "Result", Head: []string{""}}
	figures, v := s.variations()
	for i := range s.Reports {
		t.Head = append(t.Head, fmt.Sprintf("run %d", i+1))
	}
	if len(s.Reports) == 1 {
		t.Head[1] = "value"
	} else {
		t.Head = append(t.Head, "mean", "std. dev.", "CV (%)", "95 % within ±")
	}
	for i, f := range figures {
		row := []string{f.label}
		for _, r := range s.Reports {
			row = append(row, short(r.headline()[i].value))
		}
		if len(s.Reports) > 1 {
			row = append(row, short(v[i].Mean), short(v[i].Std), short(100*v[i].CV()), short(v[i].Within))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// countTable has what was counted in each run.
func (s *Series) countTable() pageTable {
	t := pageTable{Title: "Requests", Head: []string{"run", "completed", "failed", "cancelled", "duration (s)", "input tokens", "output tokens", "peak concurrency", "generator's processors", "opened again"}}
	for i, r := range s.Reports {
		t.Rows = append(t.Rows, []string{strconv.Itoa(i + 1), strconv.Itoa(r.Completed), strconv.Itoa(r.Failed), strconv.Itoa(r.Left), short(r.Duration.Seconds()),
			strconv.Itoa(r.InputTokens), strconv.Itoa(r.OutputTokens), strconv.Itoa(r.PeakConcurrency), short(r.Generator.CPU), strconv.Itoa(r.Generator.Reopened)})
	}
	return t
}

// errorTable lists the errors of a run.
func (r *Report) errorTable() (t pageTable, ok bool) {
	t = pageTable{Title: "Errors", Head: []string{"error", "requests"}}
	for _, e := range r.Errors {
		t.Rows = append(t.Rows, []string{e.Text, strconv.Itoa(e.Count)})
	}
	return t, len(r.Errors) > 0
}

func (s *Series) plots() []pagePlot {
	share := pagePlot{Title: "Latencies", X: "ms", Y: "% of requests within", LogX: true}
	tokens := pagePlot{Title: "Output tokens per second", X: "s since the start", Y: "tokens/s"}
	flying := pagePlot{Title: "Requests in flight", X: "s since the start", Y: "requests"}
	first := pagePlot{Title: "Time to first token", X: "s since the start", Y: "ms", Points: true}
	for i, r := range s.Reports {
		name := func(what string) string {
			if len(s.Reports) == 1 {
				return what
			}
			return fmt.Sprintf("%s, run %d", what, i+1)
		}
		for _, m := range []struct {
			name    string
			samples Samples
		}{{"TTFT", r.TTFT}, {"TPOT", r.TPOT}, {"ITL", r.ITL}, {"E2EL", r.E2EL}, {"TTFT from the schedule", r.Scheduled.TTFT}} {
			if len(m.samples) > 0 {
				share.Curves = append(share.Curves, m.samples.shares(name(m.name)))
			}
		}
		tokens.Curves = append(tokens.Curves, r.tokenCurve(name("output")))
		flying.Curves = append(flying.Curves, r.flightCurve(name("in flight")))
		first.Curves = append(first.Curves, r.firstCurve(name("TTFT")))
	}
	return []pagePlot{share, first, tokens, flying}
}

// shares is the share of samples that are at most x, in percent. Times of 0 cannot be shown on a
// logarithmic axis and stand at a microsecond.
func (s Samples) shares(name string) pageCurve {
	const steps = 200
	c := pageCurve{Name: name}
	for i := range steps + 1 {
		p := 100 * float64(i) / steps
		x := max(s.Percentile(p), 0.001)
		if n := len(c.X); n > 0 && c.X[n-1] == x {
			c.Y[n-1] = p
			continue
		}
		c.X, c.Y = append(c.X, x), append(c.Y, p)
	}
	return c
}

// tokenCurve is the output in each of some equal parts of the run.
func (r *Report) tokenCurve(name string) pageCurve {
	const parts = 120
	c := pageCurve{Name: name}
	width := r.Duration / parts
	if width <= 0 {
		return c
	}
	counts := make([]float64, parts)
	for i := range r.outcomes {
		o := &r.outcomes[i]
		if !o.completed() {
			continue
		}
		share, at := float64(o.tokens())/float64(len(o.gaps)+1), o.first
		put := func() { counts[max(0, min(parts-1, int((at-r.outcomes[0].sent)/width)))] += share }
		put()
		for _, gap := range o.gaps {
			at += gap
			put()
		}
	}
	for i, n := range counts {
		c.X, c.Y = append(c.X, (time.Duration(i)*width+width/2).Seconds()), append(c.Y, n/width.Seconds())
	}
	return c
}

// flightCurve is the number of requests in flight.
func (r *Report) flightCurve(name string) pageCurve {
	const parts = 240
	c := pageCurve{Name: name}
	var begins, ends []time.Duration
	var last time.Duration
	for i := range r.outcomes {
		o := &r.outcomes[i]
		begins, ends, last = append(begins, o.sent), append(ends, o.last), max(last, o.last)
	}
	slices.Sort(begins)
	slices.Sort(ends)
	begun, ended := 0, 0
	for i := range parts + 1 {
		at := time.Duration(float64(last) * float64(i) / parts)
		for begun < len(begins) && begins[begun] <= at {
			begun++
		}
		for ended < len(ends) && ends[ended] <= at {
			ended++
		}
		c.X, c.Y = append(c.X, at.Seconds()), append(c.Y, float64(begun-ended))
	}
	return c
}

// firstCurve is the time to the first token of each request, by when it was sent.
func (r *Report) firstCurve(name string) pageCurve {
	c := pageCurve{Name: name}
	type point struct{ at, ttft time.Duration }
	var points []point
	for i := range r.outcomes {
		if o := &r.outcomes[i]; o.completed() {
			points = append(points, point{o.sent, o.first - o.sent})
		}
	}
	slices.SortStableFunc(points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	step := max(1, (len(points)+maxPoints-1)/maxPoints)
	for i := 0; i < len(points); i += step {
		x := points[i].at.Seconds()
		if n := len(c.X); n > 0 && x <= c.X[n-1] { // x must grow from point to point
			x = math.Nextafter(c.X[n-1], math.Inf(1))
		}
		c.X, c.Y = append(c.X, x), append(c.Y, ms(points[i].ttft))
	}
	return c
}

// ascending brings the points of a curve into the order of x, of which there is one each.
func (c pageCurve) ascending() pageCurve {
	order := make([]int, len(c.X))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(c.X[a], c.X[b]) })
	out := pageCurve{Name: c.Name}
	for _, i := range order {
		if n := len(out.X); n > 0 && out.X[n-1] == c.X[i] {
			continue
		}
		out.X, out.Y = append(out.X, c.X[i]), append(out.Y, c.Y[i])
	}
	return out
}
