package sampler

import (
	"math/bits"

	"weir/backend"
)

// This file has the parts of Picker that use a device's kernels. Their results are
// those of filter.go, pick.go and logprobs.go, bit for bit.
//
// A threshold is searched among the values within a distance of the greatest. Their
// number is halved until few are left, which Go looks at. That is Hoare's algorithm
// FIND with a good first guess: the distributions of language models have short heads.

const (
	fewValues  = 128 // values that are left to Go
	mostSteps  = 20  // widenings of the distance, to four times as far each
	mostHalves = 64
)

// hasKernels reports whether there are kernels for whole rows.
func (p *Picker) hasKernels() bool { return p.Kernels.Mass != nil }

// count returns how many values of z are at least floor, and marks them in p.hits.
func (p *Picker) count(z []float32, floor float32) int {
	hits := p.hits[:len(z)/32]
	p.Kernels.Above(hits, z, floor)
	return ones(hits)
}

// ones is the number of bits that are set.
func ones(hits []uint32) (n int) {
	for _, set := range hits {
		n += bits.OnesCount32(set)
	}
	return n
}

// copyBetween copies the values of z in [lo, end) to p.near and pads them with -Inf to
// a multiple of 32. It returns the padded copy and the number of values.
func (p *Picker) copyBetween(z []float32, lo, end float32) ([]float32, int) {
	n := p.Kernels.Between(p.near[:len(z)], z, lo, end)
	near := p.near[:(n+31)&^31]
	for i := n; i < len(near); i++ {
		near[i] = negInf
	}
	return near, n
}

// amountFrom is what the values of z that are at least floor count together.
func (p *Picker) amountFrom(s selection, z []float32, floor float32) uint64 {
	if s.weighted {
		return p.Kernels.Mass(z, floor, s.top)
	}
	return uint64(p.count(z, floor))
}

// fastThreshold is threshold without a histogram. If all values together count less
// than limit, it returns s.floor.
func (p *Picker) fastThreshold(s selection, limit uint64) float32 {
	// The threshold is in [lo, end): the values from lo on count at least limit, those
	// from end on, which count above, do not. The first loop moves lo down in large
	// steps, because halving what they find costs little.
	var lo float32
	end, above := -negInf, uint64(0)
	var near []float32 // the values in [lo, end)
	n := 0
	for i, c := 0, 256/s.scale; ; i, c = i+1, 4*c {
		if lo = s.top - c; i == mostSteps || !(lo > s.floor) {
			lo = s.floor
		}
		near, n = p.copyBetween(p.z, lo, end)
		more := above + p.amountFrom(s, near, lo)
		if more >= limit {
			break
		}
		if lo == s.floor {
			return s.floor
		}
		end, above = lo, more
	}
	for i := 0; n > fewValues && i < mostHalves; i++ {
		mid := middle(near[:n])
		if !(mid > lo) { // many values equal lo
			if mid = nextUp(lo); mid >= end {
				return lo
			}
		}
		if more := above + p.amountFrom(s, near, mid); more >= limit {
			lo = mid
		} else {
			end, above = mid, more
		}
		near, n = p.copyBetween(near, lo, end)
	}
	return p.thresholdAmong(s, near[:n], above, limit)
}

// middle is the median of nine of the values.
func middle(v []float32) float32 {
	var some [9]float32
	for i := range some {
		x := v[(2*i+1)*len(v)/(2*len(some))]
		j := i
		for ; j > 0 && some[j-1] > x; j-- {
			some[j] = some[j-1]
		}
		some[j] = x
	}
	return some[len(some)/2]
}

// nextUp is the smallest float greater than z.
func nextUp(z float32) float32 { return fromSortKey(sortKey(z) + 1) }

// fastDraw is draw with kernels. hi is the greatest value.
func (p *Picker) fastDraw(r *backend.Draw, floor, hi float32) int32 {
	p.partial.Start(&p.Kernels, r)
	p.partial.score = belowAnyScore(hi)
	p.partial.addKept(0, p.z, floor)
	return p.partial.Token()
}

// fastBest is best with kernels: it finds the value of the n-th best token, then puts
// the tokens that reach it on the heap.
func (p *Picker) fastBest(n int, floor, hi float32) {
	if hi == negInf {
		return
	}
	p.count(p.z, p.fastThreshold(selection{floor: floor, top: hi, scale: 32}, uint64(n)))
	for w, set := range p.hits {
		for ; set != 0; set &= set - 1 {
			i := w*32 + bits.TrailingZeros32(set)
			switch e := (entry{p.z[i], int32(i)}); {
			case len(p.top) < n:
				p.top = append(p.top, e)
				p.swim(len(p.top) - 1)
			case e.z > p.top[0].z: // an equal value has a higher id and does not displace
				p.top[0] = e
				p.sink(0)
			}
		}
	}
}
