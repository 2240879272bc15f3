package engine

import "time"

// Report is what a step gave, for counting: there is at most one for each step. It comes
// before the readers are signalled, so a token that a reader has seen is counted. The
// slices belong to the engine.
//
// All times of a step are those of one reading of the clock, when it ended. Each choice
// counts like a request of its own, as in vLLM.
type Report struct {
	Tokens   int             // output tokens
	Prompt   int             // prompt tokens of choices that got their first token, including Cached
	Cached   int             // of Prompt, those found in the prefix cache or shared with the first choice
	Disk     int             // of Cached, those that were brought back from copies on a disk
	Memory   int             // of Cached, those that were brought back from copies in memory
	External int             // of Cached, those that have come from other machines
	First    []time.Duration // of each choice that got its first token, the time since its arrival
	Gaps     []Gap           // times between two steps that gave the same choice tokens
	Ended    []Ended         // choices that ended
}

// Gap is a time D that N choices have waited since their last output.
type Gap struct {
	D time.Duration
	N int
}

// Ended is a choice that has ended.
type Ended struct {
	Reason    Reason
	Prompt    int // tokens, including Cached
	Cached    int
	Output    int // tokens
	MaxTokens int // Limits.MaxTokens

	Preempted int // times that its KV blocks were taken back

	// If all choices of the request have now ended, N is their number and Longest the
	// longest output among them; else both are 0.
	N, Longest int

	// Total is the time from the arrival to the end, Queue from Submit to the first step,
	// Prefill from there to the first token, and Decode from there to the last token. A
	// time that the choice did not live to see is -1. Waits after a preemption belong to
	// Prefill or Decode.
	Total, Queue, Prefill, Decode time.Duration
}

// never is a time that has not come.
const never = time.Duration(-1)

// choiceTimes are the times of a choice, since Engine.epoch.
type choiceTimes struct {
	scheduled, first, last time.Duration // first step, first token, newest token; or never
	step                   uint64        // that gave its newest token
}

// Observe lets the loop call f with every Report. f has to be fast and must not keep what
// it is given. It replaces the previous function; nil ends the calls.
func (e *Engine) Observe(f func(*Report)) {
	if f == nil {
		e.observer.Store(nil)
		return
	}
	e.observer.Store(&f)
}

// reportToken counts the newest token of c.
func (e *Engine) reportToken(c *choice) {
	r, t := &e.report, &c.times
	r.Tokens++
	switch {
	case t.first == never:
		t.first = e.now
		r.Prompt += c.seq.Prompt
		r.Cached += c.seq.Cached
		left := c.seq.Cached
		for _, from := range []struct {
			n   int
			sum *int
		}{{c.recalled.disk, &r.Disk}, {c.recalled.memory, &r.Memory}, {c.recalled.external, &r.External}} {
			n := min(from.n, left)
			*from.sum, left = *from.sum+n, left-n
		}
		r.First = append(r.First, max(0, e.now-c.req.arrived))
		c.req.stream.began(max(0, t.scheduled-c.req.submitted), max(0, e.now-c.req.arrived), max(0, e.now-max(t.scheduled, c.req.submitted)))
	case t.step == e.counts.Steps: // not the first token of this step
	default:
		d := e.now - t.last
		if n := len(r.Gaps); n > 0 && r.Gaps[n-1].D == d { // most choices had their last token in the step before
			r.Gaps[n-1].N++
		} else {
			r.Gaps = append(r.Gaps, Gap{d, 1})
		}
	}
	t.last, t.step = e.now, e.counts.Steps
}

// reportEnd counts the end of c.
func (e *Engine) reportEnd(c *choice, r Reason) {
	q, t := c.req, &c.times
	d := Ended{
		Reason: r, Prompt: c.seq.Prompt, Cached: c.seq.Cached, Output: c.output(), MaxTokens: q.Limits.MaxTokens, Preempted: c.seq.Preempted,
		Total: max(0, e.now-q.arrived), Queue: never, Prefill: never, Decode: never,
	}
	if t.scheduled != never {
		d.Queue = max(0, t.scheduled-q.submitted) // a step is planned at the time at which the step before ended
	}
	if t.first != never {
		d.Prefill, d.Decode = max(0, t.first-max(t.scheduled, q.submitted)), t.last-t.first
	}
	if q.live == 0 {
		d.N = len(q.choices)
		for i := range q.choices {
			d.Longest = max(d.Longest, q.choices[i].output())
		}
	}
	e.report.Ended = append(e.report.Ended, d)
	q.stream.ended(r, t.last-q.arrived)
}

// streamTimes is what a stream knows of its own course, for logs and traces.
type streamTimes struct {
	begun                 bool
	queue, first, prefill time.Duration
	last                  time.Duration // from the arrival to the last token of the choices that have ended
	reason                Reason        // of the choice that ended last
}

// began notes the times of the first choice that got a token.
func (s *Stream) began(queue, first, prefill time.Duration) {
	s.mu.Lock()
	if t := &s.mu.times; !t.begun {
		t.begun, t.queue, t.first, t.prefill = true, queue, first, prefill
	}
	s.mu.Unlock()
}

func (s *Stream) ended(r Reason, last time.Duration) {
	s.mu.Lock()
	s.mu.times.reason, s.mu.times.last = r, max(s.mu.times.last, last)
	s.mu.Unlock()
}

// Waits are the times of the first choice that got a token: from Submit to its first step, and
// from the arrival of the request to the token. ok is false as long as none has.
func (s *Stream) Waits() (queue, first time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.times.queue, s.mu.times.first, s.mu.times.begun
}

// Course are the times in which the first choice that got a token came to it from its first step,
// and from there to the last token of all choices that have ended.
func (s *Stream) Course() (prefill, decode time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.mu.times
	return t.prefill, max(0, t.last-t.first)
}

// Finish is why the choice ended that ended last, in vLLM's words; "" as long as none has.
func (s *Stream) Finish() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.mu.times.reason {
	case Stop:
		return "stop"
	case Length:
		return "length"
	case Repeated:
		return "repetition"
	case Failed:
		return "error"
	case Aborted:
		return "abort"
	}
	return ""
}

// output is the number of output tokens.
func (c *choice) output() int { return len(c.seq.Tokens) - c.seq.Prompt }

// publish makes the statistics available and gives the observer its report.
func (e *Engine) publish() {
	e.publishStats()
	e.handChanges()
	r := &e.report
	if r.Tokens == 0 && len(r.Ended) == 0 {
		return
	}
	if f := e.observer.Load(); f != nil {
		(*f)(r)
	}
	*r = Report{First: r.First[:0], Gaps: r.Gaps[:0], Ended: r.Ended[:0]}
}
