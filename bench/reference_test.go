package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/api"
)

// referencePercentile goes along the line through the points (100·i/(n-1), sample i).
func referencePercentile(values []float64, p float64) float64 {
	s := slices.Sorted(slices.Values(values))
	if len(s) == 1 {
		return s[0]
	}
	step := 100 / float64(len(s)-1)
	for i := 1; i < len(s); i++ {
		if x := float64(i) * step; p <= x {
			return s[i] - (x-p)/step*(s[i]-s[i-1])
		}
	}
	return s[len(s)-1]
}

func TestPercentileReference(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		values := make([]float64, 1+rnd.IntN(30))
		for i := range values {
			values[i] = float64(rnd.IntN(20))
		}
		for _, p := range []float64{0, 100, 50, 99, 100 * rnd.Float64()} {
			if got, want := newSamples(slices.Clone(values)).Percentile(p), referencePercentile(values, p); math.Abs(got-want) > 1e-9 {
				t.Fatalf("p%v of %v: %v, want %v", p, values, got, want)
			}
		}
	}
}

// plannedAnswer is what the fake server does with one request, every moment of it known.
type plannedAnswer struct {
	prompt  int // tokens that usage reports
	tokens  int
	fails   bool
	offsets []time.Duration // of the events with a choice, from the sending of the request

	sent time.Duration // from the start of the run
}

func (a *plannedAnswer) ttft() time.Duration { return a.offsets[0] }
func (a *plannedAnswer) e2el() time.Duration { return a.offsets[len(a.offsets)-1] }
func (a *plannedAnswer) end() time.Duration  { return a.sent + a.e2el() }

// tpot is in milliseconds, and 0 for an answer of one token.
func (a *plannedAnswer) tpot() float64 {
	if a.tokens < 2 {
		return 0
	}
	return ms(a.e2el()-a.ttft()) / float64(a.tokens-1)
}

// randomAnswers makes a random load.
func randomAnswers(rnd *rand.Rand) (answers []plannedAnswer, plans []plan) {
	answers = make([]plannedAnswer, 1+rnd.IntN(30))
	for i := range answers {
		a := &answers[i]
		a.prompt, a.tokens, a.fails = i, 1+rnd.IntN(6), rnd.IntN(6) == 0
		at := time.Duration(0)
		var steps []step
		for range 1 + rnd.IntN(8) {
			after := time.Duration(rnd.IntN(400)) * msec
			at += after
			steps = append(steps, step{after, token})
			a.offsets = append(a.offsets, at)
		}
		if !a.fails {
			steps = append(steps, step{time.Duration(rnd.IntN(50)) * msec, usageEvent(a.prompt, a.tokens) + api.Done})
		}
		plans = append(plans, plan{steps: steps})
	}
	return answers, plans
}

// completed are the answers that did not fail.
func completed(answers []plannedAnswer) (list []plannedAnswer) {
	for _, a := range answers {
		if !a.fails {
			list = append(list, a)
		}
	}
	return list
}

// TestServeReference: random loads on a server whose every moment is known, against the
// definitions of the metrics, written down as plainly as possible.
func TestServeReference(t *testing.T) {
	for seed := range uint64(25) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { testServeReference(t, seed) })
	}
}

func testServeReference(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 9))
	answers, plans := randomAnswers(rnd)
	limits := Goodput{TTFT: 300, TPOT: 200, E2EL: 1000}
	f, prompts := plansInTurn(plans...)
	r := mustMeasure(t, f, prompts, func(c *ServeConfig) {
		c.Rate, c.Burstiness, c.Seed, c.Goodput = 1+20*rnd.Float64(), 0.3+rnd.Float64(), seed, limits
		c.MaxConcurrency = rnd.IntN(5)
	})
	for i := range answers {
		answers[i].sent = r.outcomes[i].sent
	}
	limit := r.Config.MaxConcurrency
	if limit == 0 { // then requests are sent when they are due
		due := arrivals(len(answers), r.Config.Rate, r.Config.Burstiness, rand.New(rand.NewPCG(seed, scheduleStream)))
		for i := range answers {
			if answers[i].sent != due[i] {
				t.Fatalf("request %d was sent at %v, due at %v", i, answers[i].sent, due[i])
			}
		}
	} else if f.conns > limit || r.PeakConcurrency > limit {
		t.Fatalf("%d connections, %d requests at a time, at most %d", f.conns, r.PeakConcurrency, limit)
	}
	checkLatencies(t, r, completed(answers))
	checkCounts(t, r, answers, limits)
}

// checkLatencies compares the samples of every metric.
func checkLatencies(t *testing.T, r *Report, answers []plannedAnswer) {
	t.Helper()
	var ttft, tpot, itl, e2el []float64
	for _, a := range answers {
		ttft, e2el = append(ttft, ms(a.ttft())), append(e2el, ms(a.e2el()))
		if a.tokens > 1 {
			tpot = append(tpot, a.tpot())
		}
		for j := 1; j < len(a.offsets); j++ {
			itl = append(itl, ms(a.offsets[j]-a.offsets[j-1]))
		}
	}
	for name, c := range map[string]struct {
		got  Samples
		want []float64
	}{"TTFT": {r.TTFT, ttft}, "TPOT": {r.TPOT, tpot}, "ITL": {r.ITL, itl}, "E2EL": {r.E2EL, e2el}} {
		if slices.Sort(c.want); !slices.Equal(c.got, c.want) {
			t.Fatalf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

// checkCounts compares what is counted, and the peaks.
func checkCounts(t *testing.T, r *Report, answers []plannedAnswer, limits Goodput) {
	t.Helper()
	done := completed(answers)
	good, in, out := 0, 0, 0
	for _, a := range done {
		in, out = in+a.prompt, out+a.tokens
		if ms(a.ttft()) <= limits.TTFT && a.tpot() <= limits.TPOT && ms(a.e2el()) <= limits.E2EL {
			good++
		}
	}
	begin, end := answers[0].sent, time.Duration(0)
	for _, a := range answers {
		begin, end = min(begin, a.sent), max(end, a.end())
	}
	got := fmt.Sprintf("%d %d %d %d %d %d %v %.6f", r.Completed, r.Failed, r.InputTokens, r.OutputTokens, r.Good, r.PeakConcurrency, r.Duration, r.PeakTokens)
	want := fmt.Sprintf("%d %d %d %d %d %d %v %.6f", len(done), len(answers)-len(done), in, out, good, mostInFlight(done), end-begin, busiestSecond(done))
	if got != want {
		t.Fatalf("got %s, want %s", got, want)
	}
}

// mostInFlight is the largest number of answers in flight. It is reached when a request
// is sent.
func mostInFlight(answers []plannedAnswer) (most int) {
	for i, a := range answers {
		count := 0
		for j, b := range answers {
			if i == j || b.sent <= a.sent && a.sent < b.end() {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

// busiestSecond is the largest number of tokens in a second, the tokens of an answer
// spread evenly over its events.
func busiestSecond(answers []plannedAnswer) (most float64) {
	first := time.Duration(math.MaxInt64)
	for _, a := range answers {
		first = min(first, a.sent)
	}
	seconds := map[int]float64{}
	for _, a := range answers {
		for _, at := range a.offsets {
			s := int((a.sent + at - first).Seconds())
			seconds[s] += float64(a.tokens) / float64(len(a.offsets))
			most = max(most, seconds[s])
		}
	}
	return most
}
