package bench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func meanAndCV(values []float64) (mean, cv float64) {
	s := newSamples(slices.Clone(values))
	return s.Mean(), s.Std() / s.Mean()
}

// TestGamma: for shape k the mean is k and the coefficient of variation 1/√k, and the median
// is right where it is known.
func TestGamma(t *testing.T) {
	const n = 200000
	for _, shape := range []float64{0.1, 0.5, 1, 2.5, 20} {
		rnd := rand.New(rand.NewPCG(7, 7))
		values := make([]float64, n)
		for i := range values {
			values[i] = gamma(rnd, shape)
		}
		mean, cv := meanAndCV(values)
		sigma := 1 / math.Sqrt(shape*n) // relative, of the mean
		if math.Abs(mean/shape-1) > 5*sigma {
			t.Errorf("shape %v: mean %v", shape, mean)
		}
		if want := 1 / math.Sqrt(shape); math.Abs(cv/want-1) > 0.03 {
			t.Errorf("shape %v: coefficient of variation %v, want %v", shape, cv, want)
		}
		below := 0
		median := map[float64]float64{0.5: 0.2274682, 1: math.Ln2}[shape] // χ²(1)/2 and the exponential distribution
		for _, v := range values {
			if v < median {
				below++
			}
		}
		if median > 0 && math.Abs(float64(below)/n-0.5) > 0.006 {
			t.Errorf("shape %v: %d of %d below the median", shape, below, n)
		}
	}
}

// TestArrivals: the schedule has the rate and the burstiness that were asked for, and
// depends on the seed alone.
func TestArrivals(t *testing.T) {
	const n, rate = 20000, 50.0
	for _, burstiness := range []float64{0.2, 1, 4, math.Inf(1)} {
		due := arrivals(n, rate, burstiness, rand.New(rand.NewPCG(3, 1)))
		if !slices.IsSorted(due) || due[0] < 0 {
			t.Errorf("burstiness %v: not in order", burstiness)
		}
		if end := due[n-1].Seconds(); math.Abs(end-n/rate) > 1e-6 {
			t.Errorf("burstiness %v: the last is due after %v s", burstiness, end)
		}
		gaps := make([]float64, n-1)
		for i := range gaps {
			gaps[i] = (due[i+1] - due[i]).Seconds()
		}
		want := 1 / math.Sqrt(burstiness)
		if _, cv := meanAndCV(gaps); math.Abs(cv-want) > 0.06*want+1e-6 {
			t.Errorf("burstiness %v: coefficient of variation %v, want %v", burstiness, cv, want)
		}
		if !slices.Equal(due, arrivals(n, rate, burstiness, rand.New(rand.NewPCG(3, 1)))) {
			t.Errorf("burstiness %v: another schedule for the same seed", burstiness)
		}
		if !math.IsInf(burstiness, 1) && slices.Equal(due, arrivals(n, rate, burstiness, rand.New(rand.NewPCG(4, 1)))) {
			t.Errorf("burstiness %v: the same schedule for another seed", burstiness)
		}
	}
	if due := arrivals(5, math.Inf(1), 1, nil); !slices.Equal(due, make([]time.Duration, 5)) {
		t.Errorf("all at once: %v", due)
	}
	if due := arrivals(4, 2, math.Inf(1), nil); fmt.Sprint(due) != "[500ms 1s 1.5s 2s]" {
		t.Errorf("equal intervals: %v", due)
	}
}

// TestSamples compares with numpy.percentile, mean and std of [4, 1, 3, 2, 10].
func TestSamples(t *testing.T) {
	s := newSamples([]float64{4, 1, 3, 2, 10})
	for p, want := range map[float64]float64{0: 1, 10: 1.4, 25: 2, 50: 3, 90: 7.6, 99: 9.76, 99.9: 9.976, 100: 10} {
		if got := s.Percentile(p); math.Abs(got-want) > 1e-9 {
			t.Errorf("p%v: %v, want %v", p, got, want)
		}
	}
	if s.Mean() != 4 || math.Abs(s.Std()-3.1622776601683795) > 1e-12 {
		t.Errorf("mean %v, std %v", s.Mean(), s.Std())
	}
	var none Samples
	if none.Mean() != 0 || none.Std() != 0 || none.Percentile(99) != 0 {
		t.Error("no samples are not 0")
	}
	if one := newSamples([]float64{7}); one.Percentile(0) != 7 || one.Percentile(99) != 7 || one.Std() != 0 {
		t.Error("one sample is not itself")
	}
}
