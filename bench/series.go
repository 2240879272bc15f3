package bench

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// Series is the same load several times.
type Series struct{ Reports []*Report }

// maxRuns bounds the number of runs.
const maxRuns = 1000

// RunSeries puts the same load on a server several times, one after the other. Each run has a seed of its
// own, the one after that of the run before, so that a prefix cache does not answer. begin is called
// before each, with its number from 0.
func RunSeries(ctx context.Context, cfg ServeConfig, runs int, begin func(i int)) (*Series, error) {
	if runs < 1 || runs > maxRuns {
		return nil, fmt.Errorf("bench: %d runs, not 1 to %d", runs, maxRuns)
	}
	s := &Series{}
	for i := range runs {
		begin(i)
		r, err := RunServe(ctx, cfg)
		switch {
		case err != nil && ctx.Err() != nil && i > 0:
			return s, nil // the run before is worth reporting
		case err != nil:
			return nil, err
		}
		s.Reports = append(s.Reports, r)
		if r.Interrupted {
			break
		}
		cfg.Seed++
	}
	return s, nil
}

// Completed is the number of requests that completed in all runs.
func (s *Series) Completed() (n int) {
	for _, r := range s.Reports {
		n += r.Completed
	}
	return n
}

// figure is a number of a report that is compared between runs.
type figure struct {
	key, label string
	value      float64
}

// figures are the numbers of a report that are compared between runs.
func (r *Report) headline() []figure {
	list := []figure{{"request_throughput", "Request throughput (req/s)", r.perSecond(r.Completed)}}
	if r.Config.Goodput != (Goodput{}) {
		list = append(list, figure{"request_goodput", "Request goodput (req/s)", r.perSecond(r.Good)})
	}
	list = append(list, figure{"output_throughput", "Output token throughput (tok/s)", r.perSecond(r.OutputTokens)},
		figure{"total_token_throughput", "Total token throughput (tok/s)", r.perSecond(r.InputTokens + r.OutputTokens)})
	r.each(func(name string, s Samples) {
		short := metricNames[name][0]
		list = append(list, figure{"mean_" + name + "_ms", "Mean " + short + " (ms)", s.Mean()}, figure{"median_" + name + "_ms", "Median " + short + " (ms)", s.Percentile(50)})
		for _, p := range r.Config.Percentiles {
			list = append(list, figure{"p" + decimal(p) + "_" + name + "_ms", "P" + decimal(p) + " " + short + " (ms)", s.Percentile(p)})
		}
	})
	return list
}

// Variation is how a figure varied over runs.
type Variation struct {
	Mean   float64
	Std    float64 // of the runs as a sample of all runs that there could be
	Within float64 // the mean of all of these is within so much of Mean with 95 % confidence (Student's t); 0: one run tells nothing
}

// CV is the coefficient of variation.
func (v Variation) CV() float64 {
	if v.Mean == 0 {
		return 0
	}
	return v.Std / v.Mean
}

func newVariation(values []float64) Variation {
	s, n := Samples(values), float64(len(values))
	v := Variation{Mean: s.Mean()}
	if len(values) > 1 {
		v.Std = s.Std() * math.Sqrt(n/(n-1))
		v.Within = student95(len(values)-1) * v.Std / math.Sqrt(n)
	}
	return v
}

// student95 is the 97.5th percentile of Student's t distribution.
func student95(freedom int) float64 {
	table := []float64{12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
		2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042}
	if freedom <= len(table) {
		return table[freedom-1]
	}
	// The first terms of the expansion in 1/freedom around the normal distribution (Abramowitz and Stegun, 26.7.5).
	z, f := 1.959964, float64(freedom)
	return z + (z*z*z+z)/(4*f) + (5*math.Pow(z, 5)+16*z*z*z+3*z)/(96*f*f)
}

// variations are those of all figures, in their order.
func (s *Series) variations() (figures []figure, v []Variation) {
	figures = s.Reports[0].headline()
	for i := range figures {
		var values []float64
		for _, r := range s.Reports {
			values = append(values, r.headline()[i].value)
		}
		v = append(v, newVariation(values))
	}
	return figures, v
}

// WriteText writes the report of each run, and how they vary.
func (s *Series) WriteText(w io.Writer) error {
	for _, r := range s.Reports {
		if err := r.WriteText(w); err != nil {
			return err
		}
	}
	if len(s.Reports) == 1 {
		return nil
	}
	t := &table{w: w}
	t.title(fmt.Sprintf(" Variation over %d Runs ", len(s.Reports)), "=")
	t.printf("%-36s %12s %12s %8s %12s\n", "", "mean", "std. dev.", "CV (%)", "95% within ±")
	figures, v := s.variations()
	for i, f := range figures {
		t.printf("%-36s %12.2f %12.2f %8.2f %12.2f\n", f.label+":", v[i].Mean, v[i].Std, 100*v[i].CV(), v[i].Within)
	}
	t.printf("========================================\n")
	return t.err
}

// WriteBenchmark writes a line for each run, as a Go benchmark that benchstat reads.
func (s *Series) WriteBenchmark(w io.Writer) error {
	for _, r := range s.Reports {
		if err := r.WriteBenchmark(w); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes the results with the keys of vLLM's benchmark. Those of several runs are the list runs,
// beside a summary with the variation of each figure.
func (s *Series) WriteJSON(w io.Writer, detailed bool) error {
	if len(s.Reports) == 1 {
		return s.Reports[0].WriteJSON(w, detailed)
	}
	var o, summary object
	var runs []jsonObject
	for _, r := range s.Reports {
		one, err := r.json(detailed)
		if err != nil {
			return err
		}
		runs = append(runs, one)
	}
	figures, v := s.variations()
	for i, f := range figures {
		var own object
		own.add("mean", v[i].Mean)
		own.add("std", v[i].Std)
		own.add("cv", v[i].CV())
		own.add("confidence_95", v[i].Within)
		summary.nest(f.key, &own)
	}
	o.add("num_runs", len(runs))
	o.nest("summary", &summary)
	o.add("runs", runs)
	return o.write(w)
}

// csvColumns are the columns of WriteCSV. Times that end in _s count from the start of the run.
var csvColumns = []string{"run", "request", "status", "due_s", "sent_s", "first_s", "last_s", "prompt_tokens", "cached_tokens", "output_tokens", "events",
	"ttft_ms", "tpot_ms", "e2el_ms", "scheduled_ttft_ms", "scheduled_e2el_ms", "queue_ms", "reopened", "error"}

// WriteCSV writes a table with a row for each request that was sent.
func (s *Series) WriteCSV(w io.Writer) error {
	c := csv.NewWriter(w)
	err := c.Write(csvColumns)
	for run, r := range s.Reports {
		for i := range r.outcomes {
			if err == nil {
				err = c.Write(r.outcomes[i].row(run+1, i))
			}
		}
	}
	c.Flush()
	return errors.Join(err, c.Error())
}

// row is a request in a table. What it does not have is empty.
func (o *outcome) row(run, i int) []string {
	seconds := func(d time.Duration, is bool) string {
		if !is {
			return ""
		}
		return strconv.FormatFloat(d.Seconds(), 'f', 6, 64)
	}
	millis := func(d time.Duration, is bool) string {
		if !is {
			return ""
		}
		return strconv.FormatFloat(ms(d), 'f', 3, 64)
	}
	answered, ended := o.first >= 0, o.completed()
	tokens, tpot := "", ""
	if ended {
		tokens = strconv.Itoa(o.tokens())
		if o.tokens() > 1 {
			tpot = strconv.FormatFloat(o.tpot(), 'f', 3, 64)
		}
	}
	return []string{strconv.Itoa(run), strconv.Itoa(i), o.status(), seconds(o.due, true), seconds(o.sent, true), seconds(o.first, answered), seconds(o.last, true),
		strconv.Itoa(o.prompt), strconv.Itoa(o.cached), tokens, strconv.Itoa(o.outputs),
		millis(o.first-o.sent, answered), tpot, millis(o.last-o.sent, ended), millis(o.first-o.due, answered), millis(o.last-o.due, ended), millis(o.queued(), true),
		strconv.FormatBool(o.reopened), o.failure}
}

// status says in a word what became of a request.
func (o *outcome) status() string {
	switch {
	case o.cut:
		return "cut"
	case o.left:
		return "cancelled"
	case o.failure != "":
		return "failed"
	}
	return "completed"
}
