package bench

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Window is what was measured in the steady state of a closed loop: from when its concurrency was
// reached for the first time to when it was left for the last time. Before, the server fills up, and
// after, it runs dry. Latencies are of requests that were sent and answered within it.
type Window struct {
	Begin, End            time.Duration // since the start of the run
	Completed             int           // requests that completed within it, whenever they were sent
	OutputTokens          float64       // that arrived within it
	TTFT, TPOT, ITL, E2EL Samples
}

// fullShare is how much of the largest concurrency counts as full, as in vLLM's benchmark in Rust.
const fullShare = 0.95

// steadyWindow returns the steady state of a run with this largest concurrency, or nil if there was none.
func steadyWindow(outcomes []outcome, limit int) *Window {
	if limit == 0 {
		return nil
	}
	w, ok := fullTime(outcomes, int(math.Ceil(fullShare*float64(limit))))
	if !ok {
		return nil
	}
	var s latencies
	for i := range outcomes {
		o := &outcomes[i]
		if !o.completed() {
			continue
		}
		w.OutputTokens += o.tokensWithin(w.Begin, w.End)
		if o.last <= w.Begin || o.last > w.End {
			continue
		}
		w.Completed++
		if o.sent >= w.Begin {
			s.add(o)
		}
	}
	w.TTFT, w.TPOT, w.ITL, w.E2EL = s.sorted()
	return w
}

// fullTime finds the first time at which so many requests were in flight, and the last.
func fullTime(outcomes []outcome, full int) (w *Window, ok bool) {
	type change struct {
		at time.Duration
		by int
	}
	var changes []change
	for i := range outcomes {
		if o := &outcomes[i]; o.begun {
			changes = append(changes, change{o.sent, 1}, change{o.last, -1})
		}
	}
	// Where one ends when the next is sent, the next comes first, so that the concurrency stays full.
	slices.SortFunc(changes, func(a, b change) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.by, a.by)) })
	w = &Window{}
	for flying, i := 0, 0; i < len(changes); i++ {
		before := flying
		flying += changes[i].by
		switch {
		case before < full && flying >= full && !ok:
			w.Begin, ok = changes[i].at, true
		case before >= full && flying < full:
			w.End = changes[i].at
		}
	}
	return w, ok && w.End > w.Begin
}

// tokensWithin is how many tokens of an answer arrived after begin and until end. They are spread evenly
// over its events.
func (o *outcome) tokensWithin(begin, end time.Duration) float64 {
	share, at, n := float64(o.tokens())/float64(len(o.gaps)+1), o.first, 0
	within := func() {
		if at > begin && at <= end {
			n++
		}
	}
	within()
	for _, gap := range o.gaps {
		at += gap
		within()
	}
	return share * float64(n)
}

// perSecond divides n by the length of the window.
func (w *Window) perSecond(n float64) float64 { return n / (w.End - w.Begin).Seconds() }

// latencies collects the times of completed requests, in milliseconds.
type latencies struct{ ttft, tpot, itl, e2el []float64 }

func (l *latencies) add(o *outcome) {
	l.ttft, l.e2el = append(l.ttft, ms(o.first-o.sent)), append(l.e2el, ms(o.last-o.sent))
	if o.tokens() > 1 {
		l.tpot = append(l.tpot, o.tpot())
	}
	for _, gap := range o.gaps {
		l.itl = append(l.itl, ms(gap))
	}
}

func (l *latencies) sorted() (ttft, tpot, itl, e2el Samples) {
	return newSamples(l.ttft), newSamples(l.tpot), newSamples(l.itl), newSamples(l.e2el)
}
