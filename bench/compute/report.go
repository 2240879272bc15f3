package compute

import (
	"math"
	"slices"
	"time"

	"weir/device/cpu/limits"
)

// Report is what Run measured. What stands before Limits is not Run's to know.
type Report struct {
	Date      time.Time
	Version   string // of weir
	Model     string
	Weights   string // their type in the device
	KV        string // type of keys and values
	Device    string
	Processor string

	Limits          Limits
	Threads         int
	Quantized       bool
	WeightBytes     float64
	KVBytesPerToken float64
	Config          Config
	Rows            []Row
	Skipped         []Skipped
}

// quantile is the q-th quantile, q in [0, 1], of values in any order, interpolated
// linearly between the two nearest; 0 of none.
func quantile[T ~int64 | ~float64](values []T, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return float64(sorted[len(sorted)-1])
	}
	a, b := float64(sorted[low]), float64(sorted[low+1])
	return a + (at-float64(low))*(b-a)
}

// TokensPerSecond is the median of the repetitions, and the least and largest.
func (r *Row) TokensPerSecond() (median, least, largest float64) {
	return quantile(r.Rates, 0.5), quantile(r.Rates, 0), quantile(r.Rates, 1)
}

// Step is a quantile of the steps' times.
func (r *Row) Step(q float64) time.Duration { return time.Duration(quantile(r.Steps, q)) }

func (r *Row) seconds() float64 {
	total := time.Duration(0)
	for _, s := range r.Steps {
		total += s
	}
	return total.Seconds()
}

// PerStep is the cost of one step, as a mean.
func (r *Row) PerStep() Cost {
	n := float64(len(r.Steps))
	return Cost{r.Cost.WeightBytes / n, r.Cost.KVBytes / n, r.Cost.Products / n, r.Cost.Attention / n}
}

// Shares are what part of the machine's limits a row reached. A limit that was
// not measured has a share of 0.
type Shares struct {
	Read     float64 // bytes per second of the memory's speed
	Products float64 // operations per second in matrix products, the head's included, of the peak
	Floor    float64 // least time of its floor
}

// Shares are those of the limits with as many threads as computed.
func (r *Report) Shares(row *Row) Shares {
	read, fma, peak := r.limit(r.Limits.Read), r.limit(r.Limits.FMA), r.limit(r.Limits.FMA)
	if r.Quantized {
		peak = r.limit(r.Limits.Int8)
	}
	share := func(part, whole float64) float64 {
		if whole <= 0 {
			return 0
		}
		return part / whole
	}
	total := row.seconds()
	s := Shares{
		Read:     share(row.Cost.Bytes(), total*read),
		Products: share(row.Cost.Products, (row.Spent.Products+row.Spent.Draw).Seconds()*peak),
	}
	if read > 0 {
		s.Floor = share(math.Max(row.Cost.Bytes()/read, row.Cost.Products/peak+row.Cost.Attention/fma), total)
	}
	return s
}

func (r *Report) limit(rates [2]limits.Rates) float64 { return rates[1].Best() }
