package bench

import (
	"math"
	"slices"
)

// Samples are sorted measurements of one kind. Without samples every statistic is 0, as in
// vLLM's results.
type Samples []float64

func newSamples(values []float64) Samples {
	slices.Sort(values)
	return values
}

// Mean is the arithmetic mean.
func (s Samples) Mean() float64 {
	if len(s) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range s {
		sum += v
	}
	return sum / float64(len(s))
}

// Std is the standard deviation of the samples as a whole population, as in NumPy.
func (s Samples) Std() float64 {
	if len(s) == 0 {
		return 0
	}
	mean, sum := s.Mean(), 0.0
	for _, v := range s {
		sum += (v - mean) * (v - mean)
	}
	return math.Sqrt(sum / float64(len(s)))
}

// Percentile is the p-th percentile, p in [0, 100], interpolated linearly between the two
// nearest samples.
func (s Samples) Percentile(p float64) float64 {
	if len(s) == 0 {
		return 0
	}
	at := p / 100 * float64(len(s)-1)
	low := int(at)
	if low+1 >= len(s) {
		return s[len(s)-1]
	}
	return s[low] + (at-float64(low))*(s[low+1]-s[low])
}
