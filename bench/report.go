package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Report is what RunServe measured. All latencies are in milliseconds, and of completed
// requests.
type Report struct {
	Date        time.Time
	Config      ServeConfig // with the name of the model that was used
	Interrupted bool        // the run ended before all requests were sent and answered

	Completed, Failed, Cut    int           // requests; Cut counts those that were in flight at an interrupt
	Duration                  time.Duration // from sending the first request to the end of the last
	InputTokens, OutputTokens int           // of completed requests
	Uncounted                 int           // completed requests without usage; their events count as output tokens
	Good                      int           // completed requests that meet Config.Goodput
	PeakTokens                float64       // output tokens in the busiest second
	PeakConcurrency           int

	TTFT, TPOT, ITL, E2EL Samples
	Errors                []ErrorCount // of failed requests, most frequent first
	Generator             Generator

	outcomes []outcome
}

// ErrorCount is how many requests failed with the same error.
type ErrorCount struct {
	Text  string `json:"error"`
	Count int    `json:"count"`
}

// Generator describes the load generator itself, so that a reader can judge whether it
// kept up.
type Generator struct {
	Lag            Samples // how late requests were sent for reasons other than the server, in ms
	Queue          Samples // how long requests waited because of the largest concurrency, in ms
	CPU            float64 // processors used, as a mean over the run; 0: unknown
	Processors     int     // processors that the generator may use
	Events, Joined int     // events with a choice, not counting the first of each answer; and how many of them were read together with the one before
	Warnings       []string
}

// maxErrors bounds the number of different errors in a report.
const maxErrors = 100

func newReport(cfg *ServeConfig, outcomes []outcome) *Report {
	r := &Report{Config: *cfg, outcomes: outcomes}
	failures := map[string]int{}
	var ttft, tpot, itl, e2el, lag, queue []float64
	var begin, end time.Duration
	for i := range outcomes {
		o := &outcomes[i]
		if i == 0 {
			begin = o.sent
		}
		begin, end = min(begin, o.sent), max(end, o.last)
		if o.waited {
			lag, queue = append(lag, ms(o.arrived-o.due)), append(queue, ms(o.sent-o.arrived))
		} else {
			lag, queue = append(lag, ms(o.sent-o.due)), append(queue, 0)
		}
		r.Generator.Events += len(o.gaps)
		r.Generator.Joined += o.joined
		if o.cut {
			r.Cut++
			continue
		}
		if o.failure != "" {
			r.Failed++
			text := o.failure
			if _, known := failures[text]; !known && len(failures) >= maxErrors {
				text = "other errors"
			}
			failures[text]++
			continue
		}
		r.Completed++
		if !o.usage {
			r.Uncounted++
		}
		r.InputTokens += o.prompt
		r.OutputTokens += o.tokens()
		ttft, e2el = append(ttft, ms(o.first-o.sent)), append(e2el, ms(o.last-o.sent))
		if o.tokens() > 1 {
			tpot = append(tpot, o.tpot())
		}
		for _, gap := range o.gaps {
			itl = append(itl, ms(gap))
		}
		if cfg.Goodput.met(o) {
			r.Good++
		}
	}
	r.Duration = end - begin
	r.PeakTokens, r.PeakConcurrency = peakTokens(outcomes), peakConcurrency(outcomes)
	r.TTFT, r.TPOT, r.ITL, r.E2EL = newSamples(ttft), newSamples(tpot), newSamples(itl), newSamples(e2el)
	r.Generator.Lag, r.Generator.Queue = newSamples(lag), newSamples(queue)
	for text, n := range failures {
		r.Errors = append(r.Errors, ErrorCount{text, n})
	}
	slices.SortFunc(r.Errors, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return r
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// completed reports whether the whole answer arrived.
func (o *outcome) completed() bool { return o.failure == "" }

// tokens is the length of the answer: what the server counted, or else the number of
// events.
func (o *outcome) tokens() int {
	if o.usage {
		return o.completion
	}
	return len(o.gaps) + 1
}

// tpot is the time per output token after the first, in milliseconds; 0 for an answer of
// one token.
func (o *outcome) tpot() float64 {
	if n := o.tokens(); n > 1 {
		return ms(o.last-o.first) / float64(n-1)
	}
	return 0
}

// met reports whether a completed request is a good one.
func (g Goodput) met(o *outcome) bool {
	within := func(v, most float64) bool { return most == 0 || v <= most }
	return within(ms(o.first-o.sent), g.TTFT) && within(o.tpot(), g.TPOT) && within(ms(o.last-o.sent), g.E2EL)
}

// peakTokens is the largest number of output tokens in one second, where seconds are
// counted from the first completed request. The tokens of an answer are spread evenly over
// its events, because usage does not say how many each event carried.
func peakTokens(outcomes []outcome) float64 {
	begin := time.Duration(math.MaxInt64)
	for i := range outcomes {
		if outcomes[i].completed() {
			begin = min(begin, outcomes[i].sent)
		}
	}
	var seconds []float64
	for i := range outcomes {
		o := &outcomes[i]
		if !o.completed() {
			continue
		}
		if n := int((o.last - begin) / time.Second); n >= len(seconds) {
			seconds = append(seconds, make([]float64, n+1-len(seconds))...)
		}
		share, at := float64(o.tokens())/float64(len(o.gaps)+1), o.first
		second, events := (at-begin)/time.Second, 1
		for _, gap := range o.gaps {
			at += gap
			if s := (at - begin) / time.Second; s != second {
				seconds[second] += share * float64(events)
				second, events = s, 0
			}
			events++
		}
		seconds[second] += share * float64(events)
	}
	if len(seconds) == 0 {
		return 0
	}
	return slices.Max(seconds)
}

// peakConcurrency is the largest number of completed requests that were in flight at the
// same time, each from sent up to but not including last.
func peakConcurrency(outcomes []outcome) int {
	var begins, ends []time.Duration
	for i := range outcomes {
		if o := &outcomes[i]; o.completed() {
			begins, ends = append(begins, o.sent), append(ends, o.last)
		}
	}
	slices.Sort(begins)
	slices.Sort(ends)
	peak, ended := 0, 0
	for i, at := range begins {
		for ended < i && ends[ended] <= at {
			ended++
		}
		peak = max(peak, i+1-ended)
	}
	return peak
}

// Limits beyond which a report has a warning.
const (
	busyShare   = 0.8 // of the processors, used by the generator
	lateMS      = 10  // p99 of the lag, in milliseconds
	joinedShare = 0.1 // of the events, read together with the one before
)

// joined is the share of events that were read together with the one before.
func (g *Generator) joined() float64 { return float64(g.Joined) / float64(max(1, g.Events)) }

// addWarnings adds the warnings about what the generator, rather than the server, may have
// decided.
func (r *Report) addWarnings() {
	g := &r.Generator
	warn := func(format string, args ...any) { g.Warnings = append(g.Warnings, fmt.Sprintf(format, args...)) }
	if g.CPU >= busyShare*float64(g.Processors) {
		warn("the generator used %.1f of %d processors: it, not the server, may be the bottleneck", g.CPU, g.Processors)
	}
	if late := g.Lag.Percentile(99); late > lateMS && !math.IsInf(r.Config.Rate, 1) {
		warn("the generator fell behind its schedule, p99 %.0f ms: the load was less than asked for", late)
	}
	if float64(g.Joined) > joinedShare*float64(g.Events) {
		warn("%.0f%% of the events came in one read with the one before: inter-token latencies are those of reads, not of tokens", 100*g.joined())
	}
	if r.Uncounted > 0 {
		warn("%d answers came without usage: their input tokens are unknown, their output tokens are counted by events", r.Uncounted)
	}
}
