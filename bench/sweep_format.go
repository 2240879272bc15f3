package bench

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// WriteText writes a table in Markdown with a row for each load and server, and what a search found.
func (w *Sweep) WriteText(out io.Writer) error {
	t := &table{w: out}
	rivals := w.Config.rivals()
	for _, warning := range w.warnings() {
		t.printf("WARNING: %s.\n", warning)
	}
	if len(w.Points) > 0 {
		t.printf("Means of %d rounds, in parentheses the standard deviation over them.\n\n", w.Config.Rounds)
		t.printf("| load | server | %s | failed |\n|--|--|%s--:|\n", strings.Join(w.labels(), " | "), strings.Repeat("--:|", len(w.labels())))
		for _, p := range w.sorted() {
			for i, rival := range rivals {
				if len(p.Reports[i]) > 0 {
					t.printf("| %s | %s | %s | %d |\n", loadName(p.Rate, p.Concurrency), rival.Name, strings.Join(p.cellTexts(i), " | "), p.failed(i))
				}
			}
		}
		w.writeRatios(t)
	}
	for i, f := range w.Found {
		t.printf("\n%s: %s\n", rivals[i].Name, f.text(&w.Config))
	}
	return t.err
}

// labels are those of the figures of all cells.
func (w *Sweep) labels() (list []string) {
	figures := (&Report{Config: w.Config.ServeConfig}).headline()
	for _, f := range figures {
		list = append(list, f.label)
	}
	return list
}

// cellTexts are the figures of a server at a point.
func (p *Point) cellTexts(i int) (list []string) {
	figures, v := p.figures(i)
	for j := range figures {
		text := short(v[j].Mean)
		if len(p.Reports[i]) > 1 {
			text += " (" + short(v[j].Std) + ")"
		}
		list = append(list, text)
	}
	return list
}

func (p *Point) failed(i int) (n int) {
	for _, r := range p.Reports[i] {
		n += r.Failed
	}
	return n
}

// writeRatios writes how the first server compares with each other one.
func (w *Sweep) writeRatios(t *table) {
	rivals := w.Config.rivals()
	for i := 1; i < len(rivals); i++ {
		t.printf("\n%s divided by %s:\n\n| load | %s |\n|--|%s\n", rivals[0].Name, rivals[i].Name, strings.Join(w.labels(), " | "), strings.Repeat("--:|", len(w.labels())))
		for _, p := range w.sorted() {
			a, va := p.figures(0)
			_, vb := p.figures(i)
			if len(vb) == 0 || len(va) == 0 {
				continue
			}
			row := make([]string, len(a))
			for j := range a {
				if row[j] = "–"; vb[j].Mean != 0 {
					row[j] = short(va[j].Mean / vb[j].Mean)
				}
			}
			t.printf("| %s | %s |\n", loadName(p.Rate, p.Concurrency), strings.Join(row, " | "))
		}
	}
}

// text says what a search found.
func (f *Found) text(c *SweepConfig) string {
	goal := fmt.Sprintf("%s for %s %% of the requests", c.Goodput, decimal(math.Round(1e6*c.Share)/1e4))
	switch {
	case f.Rate == 0 && f.Failed == 0:
		return "no rate was tried for " + goal
	case f.Rate == 0:
		return fmt.Sprintf("not even %.4g requests/s meet %s", f.Failed, goal)
	case f.Failed == 0:
		return fmt.Sprintf("%.4g requests/s meet %s, and no higher rate was tried", f.Rate, goal)
	}
	return fmt.Sprintf("%.4g requests/s meet %s; %.4g do not (%d probes)", f.Rate, goal, f.Failed, len(f.Probes))
}

// warnings are those of all cells, with the server and the load that they are about.
func (w *Sweep) warnings() (list []string) {
	for _, p := range w.sorted() {
		for i, rival := range w.Config.rivals() {
			for round, r := range p.Reports[i] {
				for _, warning := range r.Generator.Warnings {
					list = append(list, fmt.Sprintf("%s, %s, round %d: %s", rival.Name, loadName(p.Rate, p.Concurrency), round+1, warning))
				}
			}
		}
	}
	return list
}

// WriteBenchmark writes a line for each cell, as a Go benchmark that benchstat reads.
func (w *Sweep) WriteBenchmark(out io.Writer) error {
	t := &table{w: out}
	t.printf("\n")
	for _, p := range w.sorted() {
		for i, rival := range w.Config.rivals() {
			for _, r := range p.Reports[i] {
				if r.Completed == 0 {
					continue
				}
				load := "rate=" + rate(p.Rate)
				if p.Concurrency > 0 {
					load = fmt.Sprintf("concurrency=%d", p.Concurrency)
				}
				t.printf("BenchmarkSweep/server=%s/%s %d %d ns/op", strings.ReplaceAll(rival.Name, " ", "_"), load, r.Completed, r.Duration.Nanoseconds()/int64(r.Completed))
				for _, f := range r.headline() {
					t.printf(" %.4f %s", f.value, f.key)
				}
				t.printf("\n")
			}
		}
	}
	return t.err
}

// WriteCSV writes a table with a row for each cell.
func (w *Sweep) WriteCSV(out io.Writer) error {
	c := csv.NewWriter(out)
	head := []string{"server", "request_rate", "max_concurrency", "round", "seed", "num_prompts", "completed", "failed", "duration_s"}
	for _, f := range (&Report{Config: w.Config.ServeConfig}).headline() {
		head = append(head, f.key)
	}
	err := c.Write(head)
	w.eachCell(func(p *Point, rival string, round int, r *Report) {
		row := []string{rival, rate(p.Rate), strconv.Itoa(p.Concurrency), strconv.Itoa(round + 1), strconv.FormatUint(r.Config.Seed, 10), strconv.Itoa(r.Config.NumPrompts), strconv.Itoa(r.Completed), strconv.Itoa(r.Failed), decimal(r.Duration.Seconds())}
		for _, f := range r.headline() {
			row = append(row, decimal(f.value))
		}
		if err == nil {
			err = c.Write(row)
		}
	})
	c.Flush()
	return errors.Join(err, c.Error())
}

// eachCell calls f for the report of every cell.
func (w *Sweep) eachCell(f func(p *Point, rival string, round int, r *Report)) {
	for _, p := range w.sorted() {
		for i, rival := range w.Config.rivals() {
			for round, r := range p.Reports[i] {
				f(p, rival.Name, round, r)
			}
		}
	}
}

// WriteJSON writes the results of every cell with the keys of vLLM's benchmark, and what a search found.
func (w *Sweep) WriteJSON(out io.Writer) error {
	var o object
	var cells []jsonObject
	var failure error
	w.eachCell(func(p *Point, rival string, round int, r *Report) {
		var one object
		text, err := r.json(false)
		failure = errors.Join(failure, err)
		one.add("server", rival)
		one.add("base_url", r.Config.BaseURL)
		one.add("round", round+1)
		one.add("result", text)
		failure = errors.Join(failure, one.err)
		cells = append(cells, one.end())
	})
	var found []jsonObject
	for i, f := range w.Found {
		var one object
		one.add("server", w.Config.rivals()[i].Name)
		one.add("rate", f.Rate)
		one.add("failed_rate", given(f.Failed, f.Failed > 0))
		one.add("goodput", w.Config.Goodput.String())
		one.add("share", w.Config.Share)
		one.add("probes", f.Probes)
		failure = errors.Join(failure, one.err)
		found = append(found, one.end())
	}
	o.add("date", w.Date.Format("20060102-150405"))
	o.add("interrupted", w.Interrupted)
	o.add("cells", cells)
	o.add("search", found)
	if failure != nil {
		return fmt.Errorf("bench: %w", failure)
	}
	return o.write(out)
}

// WriteHTML writes a report with the curves that a browser shows.
func (w *Sweep) WriteHTML(out io.Writer) error { return w.page().write(out) }

func (w *Sweep) page() *page {
	rivals := w.Config.rivals()
	names := make([]string, len(rivals))
	for i, r := range rivals {
		names[i] = r.Name
	}
	p := &page{Title: "weir bench sweep: " + strings.Join(names, ", "), Warns: w.warnings()}
	p.Notes = append(p.Notes, fmt.Sprintf("%s, %d rounds in alternation, never two servers at once", w.Date.UTC().Format("2006-01-02 15:04 UTC"), w.Config.Rounds))
	for i, f := range w.Found {
		p.Notes = append(p.Notes, names[i]+": "+f.text(&w.Config))
	}
	t := pageTable{Title: "Means over rounds", Head: append([]string{"load", "server"}, w.labels()...)}
	for _, point := range w.sorted() {
		for i := range rivals {
			if len(point.Reports[i]) > 0 {
				t.Rows = append(t.Rows, append([]string{loadName(point.Rate, point.Concurrency), names[i]}, point.cellTexts(i)...))
			}
		}
	}
	p.Tables = append(p.Tables, t)
	for _, c := range []struct{ title, x, xKey, y, yKey string }{
		{"Latency and throughput: time to first token", "output tokens/s", "output_throughput", "mean TTFT, ms", "mean_ttft_ms"},
		{"Latency and throughput: time per output token", "output tokens/s", "output_throughput", "mean TPOT, ms", "mean_tpot_ms"},
		{"Output tokens per second", "", "", "tokens/s", "output_throughput"},
		{"Good requests per second", "", "", "requests/s", "request_goodput"},
	} {
		p.Plots = append(p.Plots, w.plots(c.title, c.x, c.xKey, c.y, c.yKey)...)
	}
	return p
}

// plots are one plot of a figure over another, or, where xKey is empty, two: over rates and over
// concurrencies.
func (w *Sweep) plots(title, x, xKey, y, yKey string) []pagePlot {
	if xKey != "" {
		return []pagePlot{w.plot(pagePlot{Title: title, X: x, Y: y}, yKey, func(p *Point, i int) float64 { return p.value(i, xKey) })}
	}
	return []pagePlot{
		w.plot(pagePlot{Title: title, X: "requests/s", Y: y}, yKey, func(p *Point, _ int) float64 {
			if p.Concurrency > 0 {
				return math.NaN()
			}
			return p.Rate
		}),
		w.plot(pagePlot{Title: title, X: "requests in flight", Y: y}, yKey, func(p *Point, _ int) float64 {
			if p.Concurrency == 0 {
				return math.NaN()
			}
			return float64(p.Concurrency)
		}),
	}
}

func (w *Sweep) plot(plot pagePlot, yKey string, x func(p *Point, i int) float64) pagePlot {
	for i, rival := range w.Config.rivals() {
		c := pageCurve{Name: rival.Name}
		for _, p := range w.sorted() {
			if at, v := x(p, i), p.value(i, yKey); !math.IsNaN(at) && !math.IsNaN(v) {
				c.X, c.Y = append(c.X, at), append(c.Y, v)
			}
		}
		plot.Curves = append(plot.Curves, c.ascending())
	}
	return plot
}
