package bench

import (
	"cmp"
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
	Left                      int           // requests whose clients left, as was planned
	Unsent                    int           // requests that were never sent: the run was interrupted, or the conversation before them broke off
	Repeats                   int           // prompts that are the same as one before them
	Duration                  time.Duration // from sending the first request to the end of the last
	InputTokens, OutputTokens int           // of completed requests
	Uncounted                 int           // completed requests without usage; their events count as output tokens
	Good                      int           // completed requests that meet Config.Goodput
	PeakTokens                float64       // output tokens in the busiest second
	PeakConcurrency           int

	TTFT, TPOT, ITL, E2EL Samples
	// Scheduled are latencies from when a request was due, not from when it was sent, of an open loop. They
	// have what requests waited before they were sent, whoever was to blame.
	Scheduled Scheduled
	Steady    *Window // of a closed loop that reached its concurrency

	Errors    []ErrorCount // of failed requests, most frequent first
	Generator Generator

	outcomes []outcome // of requests that were sent
}

// Scheduled are latencies from the times of a schedule, in milliseconds.
type Scheduled struct{ TTFT, E2EL Samples }

// ErrorCount is how many requests failed with the same error.
type ErrorCount struct {
	Text  string `json:"error"`
	Count int    `json:"count"`
}

// maxErrors bounds the number of different errors in a report.
const maxErrors = 100

// failures counts errors by their texts.
type failures map[string]int

func (f failures) add(text string) {
	if _, known := f[text]; !known && len(f) >= maxErrors {
		text = "other errors"
	}
	f[text]++
}

// list is the most frequent first.
func (f failures) list() (errs []ErrorCount) {
	for text, n := range f {
		errs = append(errs, ErrorCount{text, n})
	}
	slices.SortFunc(errs, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	return errs
}

func newReport(cfg *ServeConfig, all []outcome) *Report {
	r := &Report{Config: *cfg}
	for i := range all {
		if all[i].begun {
			r.outcomes = append(r.outcomes, all[i])
		}
	}
	r.Unsent = len(all) - len(r.outcomes)
	failed := failures{}
	var s latencies
	var dueTTFT, dueE2EL, lag, queue []float64
	var begin, end time.Duration
	for i := range r.outcomes {
		o := &r.outcomes[i]
		if i == 0 {
			begin = o.sent
		}
		begin, end = min(begin, o.sent), max(end, o.last)
		lag, queue = append(lag, ms(o.lag())), append(queue, ms(o.queued()))
		r.Generator.add(o)
		if !r.count(o, failed) {
			continue
		}
		s.add(o)
		if cfg.Open() {
			dueTTFT, dueE2EL = append(dueTTFT, ms(o.first-o.due)), append(dueE2EL, ms(o.last-o.due))
		}
	}
	r.Duration = end - begin
	r.PeakTokens, r.PeakConcurrency = peakTokens(r.outcomes), peakConcurrency(r.outcomes)
	r.TTFT, r.TPOT, r.ITL, r.E2EL = s.sorted()
	r.Scheduled = Scheduled{newSamples(dueTTFT), newSamples(dueE2EL)}
	r.Steady = steadyWindow(r.outcomes, cfg.MaxConcurrency)
	r.Generator.Lag, r.Generator.Queue = newSamples(lag), newSamples(queue)
	r.Errors = failed.list()
	return r
}

// count counts a request, and reports whether it completed.
func (r *Report) count(o *outcome, failed failures) bool {
	switch {
	case o.cut:
		r.Cut++
		return false
	case o.left:
		r.Left++
		return false
	case o.failure != "":
		r.Failed++
		failed.add(o.failure)
		return false
	}
	r.Completed++
	if !o.usage {
		r.Uncounted++
	}
	r.InputTokens += o.prompt
	r.OutputTokens += o.tokens()
	if r.Config.Goodput.met(o) {
		r.Good++
	}
	return true
}

// add counts the events of a request.
func (g *Generator) add(o *outcome) {
	g.Events += len(o.gaps)
	g.Joined += o.joined
	if o.reopened {
		g.Reopened++
	}
	if o.usage && o.completed() {
		g.Outputs, g.Counted = g.Outputs+o.outputs, g.Counted+o.completion
	}
}

// lag is how late a request was, for reasons other than the server.
func (o *outcome) lag() time.Duration {
	if o.waited {
		return o.arrived - o.due
	}
	return o.sent - o.due
}

// queued is how long a request waited because of the largest concurrency.
func (o *outcome) queued() time.Duration {
	if o.waited {
		return o.sent - o.arrived
	}
	return 0
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// completed reports whether the whole answer arrived.
func (o *outcome) completed() bool { return o.failure == "" && !o.left }

// tokens is the length of the answer: what the server counted, or else the number of
// events that carried something of it.
func (o *outcome) tokens() int {
	if o.usage {
		return o.completion
	}
	return max(1, o.outputs)
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
