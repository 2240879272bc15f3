package sampler

import (
	"math"

	"weir/backend"
)

// Every filter is a threshold on z: a token is kept if less than some limit lies
// strictly above it, counted in tokens (top_k) or in weight (top_p). So one search
// serves both. A histogram over the distance to the maximum finds the bucket that
// holds the threshold, and a radix search among the few values of that bucket finds
// the value. Nothing is sorted, and the sums are integers, so the order in which
// values are visited does not matter.
//
//	z        top                 threshold              floor
//	         |...........|.......[.....|.....]..........|
//	bucket     0          1        2                     ...
//	         '-- above: less than limit --'

const (
	buckets   = 2048
	digitBits = 11 // bits of one digit of the radix search: buckets is 1<<digitBits
)

// selection says what a threshold is searched among: the values in [floor, top], each
// counted as 1 or by its weight. The bucket of a value is (top-value)*scale.
type selection struct {
	floor, top, scale float32
	weighted          bool
}

func (s selection) bucket(v float32) int {
	if x := (s.top - v) * s.scale; x < buckets-1 {
		return int(x)
	}
	return buckets - 1 // far away; or 0 * Inf is NaN, which puts every value here
}

// amount is what a value counts.
func (s selection) amount(v float32) uint64 {
	if s.weighted {
		return weight(v - s.top)
	}
	return 1
}

// filter returns the smallest z that min_p, top_k and top_p keep, in this order. hi
// is the largest z, and finite.
func (p *Picker) filter(r *backend.Draw, hi float32) float32 {
	floor := float32(-maxFloat)
	if r.MinP > 0 {
		floor = minPFloor(hi, r.MinP)
	}
	if k := int(r.TopK); k > 0 && k < len(p.z) {
		// A bucket is 1/32 wide in units of logits, so the scale follows the temperature.
		s := selection{floor: floor, top: hi, scale: 32 * r.Temperature}
		switch {
		case p.hasKernels():
			floor = p.fastThreshold(s, uint64(k))
		case p.histogram(s) > uint64(k):
			floor = p.threshold(s, uint64(k))
		}
	}
	if r.TopP > 0 && r.TopP < 1 {
		// Weights are 0 below hi-28, and tokens without weight are never kept.
		s := selection{floor: max(floor, hi-28.01), top: hi, scale: buckets / 28.1, weighted: true}
		share := func(total uint64) uint64 { return uint64(math.Ceil(float64(r.TopP) * float64(total))) }
		if p.hasKernels() {
			floor = p.fastThreshold(s, share(p.amountFrom(s, p.z, s.floor)))
		} else {
			floor = p.threshold(s, share(p.histogram(s)))
		}
	}
	return floor
}

// minPFloor is the smallest z whose weight is at least minP of the largest. Weights
// never fall as z grows, so bisection over the floats finds it without computing an
// exponential for each token.
func minPFloor(hi, minP float32) float32 {
	need := uint64(int64(min(minP, 1) * fullWeight))
	lo, end := sortKey(-maxFloat), sortKey(hi)
	for lo < end {
		mid := lo + (end-lo)/2
		if weight(fromSortKey(mid)-hi) >= need {
			end = mid
		} else {
			lo = mid + 1
		}
	}
	return fromSortKey(lo)
}

// histogram adds up the amounts of each bucket in p.sums and returns the total.
func (p *Picker) histogram(s selection) (total uint64) {
	sums := &p.sums
	clear(sums[:])
	if s.weighted {
		for _, v := range p.z {
			if v >= s.floor {
				w := weight(v - s.top)
				sums[s.bucket(v)&(buckets-1)] += w
				total += w
			}
		}
		return total
	}
	for _, v := range p.z {
		if v >= s.floor {
			sums[s.bucket(v)&(buckets-1)]++
			total++
		}
	}
	return total
}

// threshold returns the smallest value that has less than limit above it. p.sums is
// the histogram of s, and limit is in [1, total].
func (p *Picker) threshold(s selection, limit uint64) float32 {
	b, above := boundary(&p.sums, 0, limit)
	near := p.near[:0]
	for _, v := range p.z {
		if v >= s.floor && s.bucket(v) == b {
			near = append(near, v)
		}
	}
	p.near = near
	return p.thresholdAmong(s, near, above, limit)
}

// thresholdAmong is threshold if the result is known to be one of the values near,
// which it reorders. above is the amount of all greater values. Each round looks at
// one digit of the sort keys, from the top, and keeps the values with the digit of the
// threshold.
func (p *Picker) thresholdAmong(s selection, near []float32, above, limit uint64) float32 {
	b := 0
	for shift := 32 - digitBits; len(near) > 1; shift = max(0, shift-digitBits) {
		clear(p.sums[:])
		for _, v := range near {
			p.sums[^sortKey(v)>>shift&(buckets-1)] += s.amount(v)
		}
		b, above = boundary(&p.sums, above, limit)
		n := 0
		for _, v := range near {
			if int(^sortKey(v)>>shift&(buckets-1)) == b {
				near[n] = v
				n++
			}
		}
		near = near[:n]
		if shift == 0 {
			break
		}
	}
	return near[0]
}

// boundary returns the last bucket that is not empty and has less than limit before
// it, and what lies before it. above lies before the first bucket.
func boundary(sums *[buckets]uint64, above, limit uint64) (bucket int, before uint64) {
	for b, n := range sums {
		if n == 0 {
			continue
		}
		if above >= limit {
			break
		}
		bucket, before = b, above
		above += n
	}
	return bucket, before
}
