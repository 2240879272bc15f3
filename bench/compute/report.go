package compute

import (
	"math"
	"slices"
	"time"
)

// Report is what Run measured. The fields before Limits are set by the caller, because Run
// does not know them.
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

// quantile is the q-th quantile, q in [0, 1], of values in any order, interpolated linearly
// between the two nearest. Without values it is 0.
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

// TokensPerSecond returns the median, the least and the largest rate of the repetitions.
func (r *Row) TokensPerSecond() (median, least, largest float64) {
	return quantile(r.Rates, 0.5), quantile(r.Rates, 0), quantile(r.Rates, 1)
}

// Step is the q-th quantile of the times of the steps.
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
	return r.Cost.over(float64(len(r.Steps)))
}

// Shares are the parts of the machine's limits that a row reached. They are 0 if the limits
// were not measured.
type Shares struct {
	Read     float64 // bytes read per second, as a part of the memory's speed just before and after: the median over repetitions
	Products float64 // operations per second in matrix products, including the head's, as a part of the peak
	Floor    float64 // time of the floor, at the memory's speed during this row, as a part of the measured time
}

// Shares compares a row with the limits for as many threads as computed.
func (r *Report) Shares(row *Row) Shares {
	var s Shares
	if len(row.Reads) != len(row.Bytes)+1 {
		return s
	}
	fma, peak := r.Limits.FMA[1].Best(), r.Limits.FMA[1].Best()
	if r.Quantized {
		peak = r.Limits.Int8[1].Best()
	}
	shares := make([]float64, len(row.Bytes))
	for i, b := range row.Bytes {
		shares[i] = b / ((row.Reads[i] + row.Reads[i+1]) / 2)
	}
	s.Read = quantile(shares, 0.5)
	s.Products = row.Cost.Products / (row.Spent.Products + row.Spent.Draw).Seconds() / peak
	floor := math.Max(row.Cost.Bytes()/quantile(row.Reads, 0.5), row.Cost.Products/peak+(row.Cost.Attention+row.Cost.Recurrence)/fma)
	s.Floor = floor / row.seconds()
	return s
}
