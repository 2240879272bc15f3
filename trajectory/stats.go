package trajectory

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Stats gathers the metrics of docs/interface/trajectories.md, section 10, over groups of one split: for each
// group its trajectories, then the group.
type Stats struct {
	counts  Counts
	rewards []float64 // of the trajectories that have one
	open    int       // rewards[open:] are the group's that is not complete
	members int       // trajectories of that group

	spread, spreads float64 // sum and number of the groups' standard deviations
	flat            int     // groups of those without any spread

	metrics, ofGroup means
	tokens           int64
	silent           bool // a trajectory does not say how many tokens it has
	truncated        int
}

// means are sums over the trajectories, or groups, that have a metric.
type means struct {
	by    map[string]*mean
	bytes int
}

type mean struct {
	sum float64
	n   int
}

// maxNames and maxNameBytes bound the metrics that are counted, by their number and by the
// bytes of their names. More than that are not metrics but metadata.
const (
	maxNames     = 10_000
	maxNameBytes = 1 << 20
)

func (m *means) add(list []Score) {
	for _, s := range list {
		a := m.by[s.Name]
		if a == nil {
			if len(m.by) == maxNames || m.bytes+len(s.Name) > maxNameBytes {
				continue
			}
			if m.by == nil {
				m.by = make(map[string]*mean)
			}
			a = new(mean)
			m.by[s.Name] = a
			m.bytes += len(s.Name)
		}
		a.sum += s.Value
		a.n++
	}
}

// Size is about how many bytes of memory the metrics take, together with the answer that is made
// of them.
func (s *Stats) Size() int64 {
	const reward, name, char = 32, 256, 4
	return reward*int64(len(s.rewards)) + name*int64(len(s.metrics.by)+len(s.ofGroup.by)) + char*int64(s.metrics.bytes+s.ofGroup.bytes)
}

// Trajectory counts one trajectory of the group that the next Group ends.
func (s *Stats) Trajectory(f *Facts) {
	s.counts.Trajectories++
	s.members++
	if f.Scored {
		s.rewards = append(s.rewards, f.Reward)
	}
	s.metrics.add(f.Metrics)
	s.tokens += f.Tokens.N
	s.silent = s.silent || !f.Tokens.Given
	if f.Truncated() {
		s.truncated++
	}
}

// Group ends a group.
func (s *Stats) Group(exceptions int, metrics []Score) {
	s.counts.Groups++
	s.counts.Exceptions += exceptions
	if s.members > 0 {
		s.ofGroup.add(metrics)
	}
	if own := s.rewards[s.open:]; len(own) >= 2 {
		_, dev := Spread(own)
		s.spread += dev
		s.spreads++
		if slices.Min(own) == slices.Max(own) {
			s.flat++
		}
	}
	s.open, s.members = len(s.rewards), 0
}

// Spread is the mean and the population standard deviation of x, which must not
// be empty.
func Spread(x []float64) (mean, deviation float64) {
	n := float64(len(x))
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		deviation += (v - mean) * (v - mean) / n
	}
	return mean, math.Sqrt(deviation)
}

// Summary is what Stats come to. What has no value is nil or absent.
type Summary struct {
	Counts
	Reward    *Distribution
	Flat      *float64 // share of the groups of two and more whose rewards are all the same
	Tokens    *int64   // completion tokens
	Truncated *float64 // share of the trajectories that ended at a length limit
	Metrics   []Score  // in the reference's names, without the split in front; sorted
}

// Distribution describes the rewards. Percentiles are interpolated, as numpy's.
type Distribution struct{ Min, P10, P50, P90, Max float64 }

// Summary closes the books. Values that are not finite are left out, as in the
// reference.
func (s *Stats) Summary() Summary {
	out := Summary{Counts: s.counts}
	metrics := make(map[string]float64)
	for name, m := range s.ofGroup.by {
		metrics["group/"+name] = m.sum / float64(m.n)
	}
	for name, m := range s.metrics.by {
		metrics[name] = m.sum / float64(m.n)
	}
	// The reference's own names win over metrics that are called the same.
	if n := len(s.rewards); n > 0 {
		sum := 0.0
		for _, r := range s.rewards {
			sum += r
		}
		metrics["reward"] = sum / float64(n)
		metrics["reward_std_dev"] = 0
		if s.spreads > 0 {
			metrics["reward_std_dev"] = s.spread / s.spreads
			flat := float64(s.flat) / s.spreads
			out.Flat = &flat
		}
		sorted := slices.Sorted(slices.Values(s.rewards))
		out.Reward = &Distribution{sorted[0], quantile(sorted, 0.1), quantile(sorted, 0.5), quantile(sorted, 0.9), sorted[n-1]}
	}
	if all := s.counts.Exceptions + s.counts.Trajectories; all > 0 {
		metrics["exception_rate"] = float64(s.counts.Exceptions) / float64(all)
	}
	if n := s.counts.Trajectories; n > 0 {
		share := float64(s.truncated) / float64(n)
		out.Truncated = &share
		if !s.silent {
			out.Tokens = &s.tokens
		}
	}
	for name, x := range maps.All(metrics) {
		if !math.IsNaN(x) && !math.IsInf(x, 0) {
			out.Metrics = append(out.Metrics, Score{name, x})
		}
	}
	slices.SortFunc(out.Metrics, func(a, b Score) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	part := at - float64(i)
	return sorted[i]*(1-part) + sorted[i+1]*part
}
