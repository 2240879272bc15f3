package sampler

import (
	"math"

	"weir/backend"
)

// Every filter is a threshold on z: a token is kept while less than a limit
// lies strictly above it, counted in tokens (top-k) or in weight (top-p). So
// one selection serves both: a histogram over the distance to the maximum finds
// the bucket with the threshold, and a radix search over the few values of that
// bucket finds the value. Nothing is sorted, and as the sums are integers their
// order does not matter.

const (
	buckets = 2048
	digit   = 11 // bits of one radix digit
)

// a selection says what is counted: values in [floor, top], one each or by
// weight. The bucket of a value is (top-value)*scale.
type selection struct {
	floor, top, scale float32
	weighted          bool
}

func (s selection) bucket(v float32) int {
	if x := (s.top - v) * s.scale; x < buckets-1 {
		return int(x)
	}
	return buckets - 1 // far away, or NaN from 0 * Inf: then every value is here
}

func (s selection) measure(v float32) uint64 {
	if s.weighted {
		return weight(v - s.top)
	}
	return 1
}

// filter returns the smallest z that min-p, top-k and top-p keep, in this
// order. hi is the largest z, and finite.
func (p *Picker) filter(r *backend.Draw, hi float32) float32 {
	floor := float32(-maxFloat)
	if r.MinP > 0 {
		floor = minPFloor(hi, r.MinP)
	}
	if k := int(r.TopK); k > 0 && k < len(p.z) {
		// Buckets of 1/32 in units of logits: the scale follows the temperature.
		s := selection{floor: floor, top: hi, scale: 32 * r.Temperature}
		switch {
		case p.fast():
			floor = p.narrow(s, uint64(k))
		case p.histogram(s) > uint64(k):
			floor = p.threshold(s, uint64(k))
		}
	}
	if r.TopP > 0 && r.TopP < 1 {
		// Below top-28 weights are 0, and tokens without weight are never kept.
		s := selection{floor: max(floor, hi-28.01), top: hi, scale: buckets / 28.1, weighted: true}
		share := func(total uint64) uint64 { return uint64(math.Ceil(float64(r.TopP) * float64(total))) }
		if p.fast() {
			floor = p.narrow(s, share(p.reaches(s, p.z, s.floor)))
		} else {
			floor = p.threshold(s, share(p.histogram(s)))
		}
	}
	return floor
}

// minPFloor is the smallest z whose weight is at least minP of the largest. The
// weight never falls as z grows, so bisection over the floats finds it without
// an exponential per token.
func minPFloor(hi, minP float32) float32 {
	need := uint64(int64(min(minP, 1) * one))
	lo, end := order(-maxFloat), order(hi)
	for lo < end {
		mid := lo + (end-lo)/2
		if weight(unorder(mid)-hi) >= need {
			end = mid
		} else {
			lo = mid + 1
		}
	}
	return unorder(lo)
}

// histogram fills p.sums by bucket and returns the total.
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

// threshold returns the smallest value above which the measure is less than
// limit, from the histogram of the same selection. limit is in [1, total].
func (p *Picker) threshold(s selection, limit uint64) float32 {
	b, above := boundary(&p.sums, 0, limit)
	near := p.near[:0]
	for _, v := range p.z {
		if v >= s.floor && s.bucket(v) == b {
			near = append(near, v)
		}
	}
	p.near = near
	return p.nearest(s, near, above, limit)
}

// nearest is threshold where it is one of the values near, and above is the
// measure of what exceeds them all. It changes near.
func (p *Picker) nearest(s selection, near []float32, above, limit uint64) float32 {
	b := 0
	for shift := 32 - digit; len(near) > 1; shift = max(0, shift-digit) {
		clear(p.sums[:])
		for _, v := range near {
			p.sums[^order(v)>>shift&(buckets-1)] += s.measure(v)
		}
		b, above = boundary(&p.sums, above, limit)
		n := 0
		for _, v := range near {
			if int(^order(v)>>shift&(buckets-1)) == b {
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

// boundary returns the last bucket with a sum before which less than limit
// lies, and what lies before it.
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
