package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Ramp is a rate that grows during the run. The rate of a request depends on its place among the
// requests, as in vLLM's benchmark.
type Ramp struct {
	Strategy   string  // "": none; linear; exponential
	Start, End float64 // requests per second
}

func (r *Ramp) validate(n int) error {
	switch {
	case r.Strategy == "":
		return nil
	case r.Strategy != "linear" && r.Strategy != "exponential":
		return fmt.Errorf("bench: a ramp is linear or exponential, not %q", r.Strategy)
	case !(r.Start > 0 && r.Start <= r.End) || math.IsInf(r.End, 1):
		return fmt.Errorf("bench: a ramp from %v to %v requests per second", r.Start, r.End)
	case float64(n)/r.Start > maxSchedule.Seconds():
		return fmt.Errorf("bench: %d requests at %v a second take longer than a year", n, r.Start)
	}
	return nil
}

// rate is that of request i of n.
func (r *Ramp) rate(i, n int) float64 {
	progress := float64(i) / float64(max(n-1, 1))
	if r.Strategy == "linear" {
		return r.Start + (r.End-r.Start)*progress
	}
	return r.Start * math.Pow(r.End/r.Start, progress)
}

// schedule returns when each of n requests is due, measured from the start of the run.
func (l *Load) schedule(n int, rnd *rand.Rand) []time.Duration {
	if l.Ramp.Strategy != "" {
		return l.Ramp.arrivals(n, l.Burstiness, rnd)
	}
	return arrivals(n, l.Rate, l.Burstiness, rnd)
}

// arrivals returns when each of n requests is due, measured from the start of the run. The
// intervals follow a gamma distribution with mean 1/rate and shape burstiness, so their
// coefficient of variation is 1/√burstiness: a burstiness of 1 is a Poisson process, less
// comes in bursts, more is regular, and with infinity all intervals are equal. At an
// infinite rate all requests are due at once.
//
// The schedule is stretched to end at n/rate, as in vLLM. Otherwise the rate itself would
// differ by some percent from seed to seed.
func arrivals(n int, rate, burstiness float64, rnd *rand.Rand) []time.Duration {
	due := make([]time.Duration, n)
	if math.IsInf(rate, 1) {
		return due
	}
	at, sum := make([]float64, n), 0.0
	for i := range at {
		sum += interval(rnd, burstiness)
		at[i] = sum
	}
	if sum == 0 {
		return due
	}
	scale := float64(n) / rate / sum * float64(time.Second)
	for i := range due {
		due[i] = time.Duration(at[i] * scale)
	}
	return due
}

// arrivals is the schedule of a ramp. It is not stretched, as in vLLM.
func (r *Ramp) arrivals(n int, burstiness float64, rnd *rand.Rand) []time.Duration {
	due, at := make([]time.Duration, n), 0.0
	for i := range due {
		mean := burstiness // of what interval draws
		if math.IsInf(burstiness, 1) {
			mean = 1
		}
		at += interval(rnd, burstiness) / mean / r.rate(i, n)
		due[i] = time.Duration(at * float64(time.Second))
	}
	return due
}

// interval draws a time between two requests, of mean burstiness, or 1 if that is infinite.
func interval(rnd *rand.Rand, burstiness float64) float64 {
	if math.IsInf(burstiness, 1) {
		return 1
	}
	return gamma(rnd, burstiness)
}

// gamma draws a number from the gamma distribution of this shape and of scale 1: G.
// Marsaglia and W. W. Tsang, "A Simple Method for Generating Gamma Variables", ACM TOMS 26
// (2000), with their section 6 for a shape below 1.
func gamma(rnd *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(rnd, shape+1) * math.Pow(1-rnd.Float64(), 1/shape)
	}
	d := shape - 1./3
	c := 1 / math.Sqrt(9*d)
	for {
		x := rnd.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		if math.Log(1-rnd.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// departure says when the client of a request leaves.
type departure struct {
	leaves bool
	events int           // after so many events with a choice; 0: as soon as the request has been written
	after  time.Duration // or after this time; 0: by events
}

// departures draws which of the requests are left, and when. lengths are the largest lengths of the
// answers.
func (l *Leave) departures(lengths []int, rnd *rand.Rand) []departure {
	list := make([]departure, len(lengths))
	for i := range list {
		if leaves, at := rnd.Float64()*100 < l.Percent, rnd.Float64(); leaves {
			list[i].leaves = true
			if l.Within > 0 {
				list[i].after = max(1, time.Duration(at*float64(l.Within)))
			} else {
				list[i].events = int(at * float64(lengths[i]+1))
			}
		}
	}
	return list
}
