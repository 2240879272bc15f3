package bench

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"
)

// Generator describes the load generator itself, so that a reader can judge whether it
// kept up.
type Generator struct {
	Lag            Samples // how late requests were sent for reasons other than the server, in ms
	Queue          Samples // how long requests waited because of the largest concurrency, in ms
	Wakeups        Samples // how late a timer woke the generator up, several times per second, in ms
	CPU            float64 // processors used, as a mean over the run; 0: unknown
	Processors     int     // processors that the generator may use
	Events, Joined int     // events with a choice, not counting the first of each answer; and how many of them were read together with the one before
	Outputs        int     // events that carried something of an answer whose tokens the server counted
	Counted        int     // tokens of those answers
	Reopened       int     // requests whose connection ended before the first byte of an answer and was opened again
	ClockSlip      time.Duration
	Warnings       []string
}

// Limits beyond which a report has a warning.
const (
	busyShare    = 0.8                    // of the processors, used by the generator
	lateMS       = 10                     // p99 of the lag and of wake-ups, in milliseconds
	joinedShare  = 0.1                    // of the events, read together with the one before
	manyTokens   = 1.25                   // tokens per event
	slipLimit    = 100 * time.Millisecond // between the wall clock and the monotonic clock
	pulse        = 20 * time.Millisecond  // between two wake-ups
	coarseClock  = 100 * time.Microsecond
	repeatShare  = 0.01 // of the prompts, the same as one before
	clockSamples = 1000
)

// joined is the share of events that were read together with the one before.
func (g *Generator) joined() float64 { return float64(g.Joined) / float64(max(1, g.Events)) }

// tokensPerEvent is how many tokens an event carried as a mean, or 0 if no server counted them.
func (g *Generator) tokensPerEvent() float64 {
	if g.Counted == 0 {
		return 0
	}
	return float64(g.Counted) / float64(max(1, g.Outputs))
}

// watch observes the generator during a run.
type watch struct {
	cpu    time.Duration
	known  bool
	begin  time.Time
	ended  chan struct{}
	beats  sync.WaitGroup
	lates  []float64
	coarse bool
}

func watchGenerator() *watch {
	w := &watch{begin: time.Now(), ended: make(chan struct{})}
	w.cpu, w.known = cpuTime()
	w.coarse = clockStep() > coarseClock
	w.beats.Go(w.beat)
	return w
}

// beat wakes up again and again, and notes how late.
func (w *watch) beat() {
	timer := time.NewTimer(pulse)
	defer timer.Stop()
	for {
		due := time.Now().Add(pulse)
		timer.Reset(pulse)
		select {
		case <-timer.C:
			w.lates = append(w.lates, ms(max(0, time.Since(due))))
		case <-w.ended:
			return
		}
	}
}

// clockStep is the smallest step of the clock that is seen.
func clockStep() time.Duration {
	step, last := time.Duration(math.MaxInt64), time.Now()
	for range clockSamples {
		if d := time.Since(last); d > 0 {
			step, last = min(step, d), time.Now()
		}
	}
	if step == math.MaxInt64 {
		return 0 // the clock stood still, as in a test
	}
	return step
}

// end completes the description of the generator.
func (w *watch) end(g *Generator) {
	close(w.ended)
	w.beats.Wait()
	g.Wakeups = newSamples(w.lates)
	g.Processors = runtime.GOMAXPROCS(0)
	now := time.Now()
	monotonic := now.Sub(w.begin)
	if after, _ := cpuTime(); w.known && monotonic > 0 {
		g.CPU = (after - w.cpu).Seconds() / monotonic.Seconds()
	}
	g.ClockSlip = now.Round(0).Sub(w.begin.Round(0)) - monotonic // Round(0) leaves the wall clock's reading
	if w.coarse {
		g.Warnings = append(g.Warnings, fmt.Sprintf("the clock of this machine moves in steps of more than %v: short times are not exact", coarseClock))
	}
}

// addWarnings adds the warnings about what the generator, rather than the server, may have
// decided.
func (r *Report) addWarnings() {
	g := &r.Generator
	warn := func(is bool, format string, args ...any) {
		if is {
			g.Warnings = append(g.Warnings, fmt.Sprintf(format, args...))
		}
	}
	warn(g.CPU >= busyShare*float64(g.Processors), "the generator used %.1f of %d processors: it, not the server, may be the bottleneck", g.CPU, g.Processors)
	late := g.Lag.Percentile(99)
	warn(late > lateMS && r.Config.Open(), "the generator fell behind its schedule, p99 %.0f ms: the load was less than asked for", late)
	wake := g.Wakeups.Percentile(99)
	warn(wake > lateMS, "the generator was woken up late, p99 %.0f ms: its machine is too busy to measure shorter times", wake)
	warn(g.ClockSlip.Abs() > slipLimit, "the clock was set or stood still during the run: it moved %v against the time that passed", g.ClockSlip.Round(time.Millisecond))
	warn(float64(g.Joined) > joinedShare*float64(g.Events), "%.0f%% of the events came in one read with the one before: inter-token latencies are those of reads, not of tokens", 100*g.joined())
	warn(g.tokensPerEvent() > manyTokens, "an event carried %.1f tokens as a mean: inter-token latencies are those of events, not of tokens", g.tokensPerEvent())
	warn(r.Uncounted > 0, "%d answers came without usage: their input tokens are unknown, their output tokens are counted by events", r.Uncounted)
	warn(float64(r.Repeats) > repeatShare*float64(r.Config.NumPrompts), "%d prompts were the same as one before them: a prefix cache may have answered them", r.Repeats)
}
