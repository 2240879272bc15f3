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

// twinPercentile goes along the line through the points (100·i/(n-1), sample i).
func twinPercentile(values []float64, p float64) float64 {
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

func TestPercentileTwin(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 500 {
		values := make([]float64, 1+rnd.IntN(30))
		for i := range values {
			values[i] = float64(rnd.IntN(20))
		}
		for _, p := range []float64{0, 100, 50, 99, 100 * rnd.Float64()} {
			if got, want := newSamples(slices.Clone(values)).Percentile(p), twinPercentile(values, p); math.Abs(got-want) > 1e-9 {
				t.Fatalf("p%v of %v: %v, want %v", p, values, got, want)
			}
		}
	}
}

// moment is an event with a choice of a completed answer, in the order of its
// coming.
type moment struct {
	request int
	at      time.Duration
}

// TestServeTwin: random loads on a server whose every moment is known, against
// the definitions, written down as plainly as can be.
func TestServeTwin(t *testing.T) {
	for seed := range uint64(25) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		n := 1 + rnd.IntN(30)
		plans, tokens, fails := make([]plan, n), make([]int, n), make([]bool, n)
		offsets := make([][]time.Duration, n) // of the events with a choice, from the sending
		for i := range plans {
			tokens[i], fails[i] = 1+rnd.IntN(6), rnd.IntN(6) == 0
			at := time.Duration(0)
			var steps []step
			for range 1 + rnd.IntN(8) {
				after := time.Duration(rnd.IntN(400)) * msec
				at += after
				steps = append(steps, step{after, token})
				offsets[i] = append(offsets[i], at)
			}
			if !fails[i] {
				steps = append(steps, step{time.Duration(rnd.IntN(50)) * msec, usageEvent(i, tokens[i]) + api.Done})
			}
			plans[i] = plan{steps: steps}
		}
		limits := Goodput{TTFT: 300, TPOT: 200, E2EL: 1000}
		f, prompts := plansInTurn(plans...)
		r := mustMeasure(t, f, prompts, func(c *ServeConfig) {
			c.Rate, c.Burstiness, c.Seed, c.Goodput = 1+20*rnd.Float64(), 0.3+rnd.Float64(), seed, limits
			c.MaxConcurrency = rnd.IntN(5)
		})
		sent := make([]time.Duration, n)
		for i := range sent {
			sent[i] = r.outcomes[i].sent
		}
		// Without a limit, requests are sent when they are due; with one, a request is
		// sent as soon as it is due and fewer than that are in flight.
		due := arrivals(n, r.Config.Rate, r.Config.Burstiness, rand.New(rand.NewPCG(seed, scheduleStream)))
		if r.Config.MaxConcurrency == 0 && !slices.Equal(sent, due) {
			t.Fatalf("seed %d: sent at %v, due at %v", seed, sent, due)
		}
		var ttft, tpot, itl, e2el []float64
		var moments []moment
		var end time.Duration
		good, out, in, done := 0, 0, 0, 0
		first := time.Duration(math.MaxInt64)
		for i := range plans {
			last := offsets[i][len(offsets[i])-1]
			end = max(end, sent[i]+last)
			if fails[i] {
				continue
			}
			first = min(first, sent[i])
			done, in, out = done+1, in+i, out+tokens[i]
			ttft, e2el = append(ttft, ms(offsets[i][0])), append(e2el, ms(last))
			each := 0.0
			if tokens[i] > 1 {
				each = ms(last-offsets[i][0]) / float64(tokens[i]-1)
				tpot = append(tpot, each)
			}
			for j, at := range offsets[i] {
				if j > 0 {
					itl = append(itl, ms(at-offsets[i][j-1]))
				}
				moments = append(moments, moment{i, sent[i] + at})
			}
			if ms(offsets[i][0]) <= limits.TTFT && each <= limits.TPOT && ms(last) <= limits.E2EL {
				good++
			}
		}
		for name, c := range map[string]struct {
			got  Samples
			want []float64
		}{"TTFT": {r.TTFT, ttft}, "TPOT": {r.TPOT, tpot}, "ITL": {r.ITL, itl}, "E2EL": {r.E2EL, e2el}} {
			if slices.Sort(c.want); !slices.Equal(c.got, c.want) {
				t.Fatalf("seed %d: %s: %v, want %v", seed, name, c.got, c.want)
			}
		}
		buckets, peak := map[int]float64{}, 0.0
		for _, m := range moments {
			s := int((m.at - first).Seconds())
			buckets[s] += float64(tokens[m.request]) / float64(len(offsets[m.request]))
			peak = max(peak, buckets[s])
		}
		together := 0
		for i := range plans { // the most are in flight when one is sent
			count := 0
			for j := range plans {
				if !fails[i] && !fails[j] && sent[j] <= sent[i] && (sent[i] < sent[j]+offsets[j][len(offsets[j])-1] || i == j) {
					count++
				}
			}
			together = max(together, count)
		}
		got := fmt.Sprintf("%d %d %d %d %d %d %v %.6f", r.Completed, r.Failed, r.InputTokens, r.OutputTokens, r.Good, r.PeakConcurrency, r.Duration, r.PeakTokens)
		want := fmt.Sprintf("%d %d %d %d %d %d %v %.6f", done, n-done, in, out, good, together, end-slices.Min(sent), peak)
		if got != want {
			t.Fatalf("seed %d: got %s, want %s", seed, got, want)
		}
		if limit := r.Config.MaxConcurrency; limit > 0 && (f.conns > limit || r.PeakConcurrency > limit) {
			t.Fatalf("seed %d: %d connections, %d at a time, at most %d", seed, f.conns, r.PeakConcurrency, limit)
		}
	}
}
