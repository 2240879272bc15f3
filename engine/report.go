package engine

import "time"

// Report is what has happened since the last one, for whoever counts: at most a
// report for each step, and before its readers are woken, so that whoever has
// seen a token finds it counted. Its slices are the engine's.
//
// All times of a step are those of one reading of the clock, when it ended. A
// choice counts like a request of its own, as in the reference engine.
type Report struct {
	Tokens int             // output tokens
	Prompt int             // prompt tokens of choices that got their first token, cached ones among them
	Cached int             // of those, found in the prefix cache or shared with the first choice
	First  []time.Duration // of each of these choices: from arrival to first token
	Gaps   []Gap           // between the steps that gave a choice tokens
	Ended  []Ended         // choices
}

// Gap is N times the time D between two outputs of a choice.
type Gap struct {
	D time.Duration
	N int
}

// Ended is a choice that has ended.
type Ended struct {
	Reason    Reason
	Prompt    int // tokens; those of Cached are among them
	Cached    int
	Output    int // tokens
	MaxTokens int // Limits.MaxTokens

	// N is the number of choices of its request if it was the last of them to
	// end, and Longest the output of the longest; else 0.
	N, Longest int

	// Total is the time from arrival to the end, Queue from Submit to the first
	// step (waits after a preemption are not in it), Prefill from there to the
	// first token and Decode from there to the last. -1: it did not get so far.
	Total, Queue, Prefill, Decode time.Duration
}

// never is a time that has not come.
const never = time.Duration(-1)

// stamps are the times of a choice, since Engine.epoch.
type stamps struct {
	scheduled, first, last time.Duration // never, or when
	step                   uint64        // that gave its newest token
}

// Observe has f called with every Report, by the engine's loop: f has to be
// quick and must not keep what it is given. It replaces the f before; nil ends
// that.
func (e *Engine) Observe(f func(*Report)) {
	if f == nil {
		e.observer.Store(nil)
		return
	}
	e.observer.Store(&f)
}

// clock is the time since the engine was made.
func (e *Engine) clock() time.Duration { return time.Since(e.epoch) }

// stamp books the time of a token of w, the newest.
func (e *Engine) stamp(w *work) {
	r, t := &e.report, &w.stamps
	r.Tokens++
	switch {
	case t.first == never:
		t.first = e.now
		r.Prompt += w.seq.Prompt
		r.Cached += w.seq.Cached
		r.First = append(r.First, max(0, e.now-w.req.arrived))
	case t.step == e.count.Steps: // one of several in a step
	default:
		d := e.now - t.last
		if n := len(r.Gaps); n > 0 && r.Gaps[n-1].D == d { // most choices had a token a step ago
			r.Gaps[n-1].N++
		} else {
			r.Gaps = append(r.Gaps, Gap{d, 1})
		}
	}
	t.last, t.step = e.now, e.count.Steps
}

// ended books the end of w.
func (e *Engine) ended(w *work, r Reason) {
	q, t := w.req, &w.stamps
	d := Ended{
		Reason: r, Prompt: w.seq.Prompt, Cached: w.seq.Cached, Output: w.output(), MaxTokens: q.Limits.MaxTokens,
		Total: max(0, e.now-q.arrived), Queue: never, Prefill: never, Decode: never,
	}
	if t.scheduled != never {
		d.Queue = max(0, t.scheduled-q.queued) // a step is planned by the clock of the one before it
	}
	if t.first != never {
		d.Prefill, d.Decode = max(0, t.first-max(t.scheduled, q.queued)), t.last-t.first
	}
	if q.live == 0 {
		d.N = len(q.works)
		for i := range q.works {
			d.Longest = max(d.Longest, q.works[i].output())
		}
	}
	e.report.Ended = append(e.report.Ended, d)
}

func (w *work) output() int { return len(w.seq.Tokens) - w.seq.Prompt }

// publish makes statistics and report known.
func (e *Engine) publish() {
	e.publishStats()
	r := &e.report
	if r.Tokens == 0 && len(r.Ended) == 0 {
		return
	}
	if f := e.observer.Load(); f != nil {
		(*f)(r)
	}
	*r = Report{First: r.First[:0], Gaps: r.Gaps[:0], Ended: r.Ended[:0]}
}
