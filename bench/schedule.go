package bench

import (
	"math"
	"math/rand/v2"
	"time"
)

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
		if math.IsInf(burstiness, 1) {
			sum++
		} else {
			sum += gamma(rnd, burstiness)
		}
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
