package sampler

import (
	"math/bits"

	"weir/backend"
)

// With a device's kernels a threshold is found in the values within a distance
// of the greatest, which are halved until few are left that Go has to look at.
// The result is that of the histogram in filter.go. It is Hoare's FIND with a
// first guess: distributions of language models have short heads.

const (
	fewValues  = 128 // that Go may look at
	mostSteps  = 20  // down from the greatest value, each four times as far
	mostHalves = 64
)

// fast reports whether there are kernels for whole rows.
func (p *Picker) fast() bool { return p.Kernels.Mass != nil }

// count returns how many values of z are at least floor, and leaves them in
// p.hits.
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

// between puts the values of z in [lo, end) into p.near, with -Inf behind them up
// to a multiple of 32. It returns these and the number of values.
func (p *Picker) between(z []float32, lo, end float32) ([]float32, int) {
	n := p.Kernels.Between(p.near[:len(z)], z, lo, end)
	near := p.near[:(n+31)&^31]
	for i := n; i < len(near); i++ {
		near[i] = ninf
	}
	return near, n
}

// reaches is the measure of the values in z from floor on.
func (p *Picker) reaches(s selection, z []float32, floor float32) uint64 {
	if s.weighted {
		return p.Kernels.Mass(z, floor, s.top)
	}
	return uint64(p.count(z, floor))
}

// narrow is threshold by kernels, without a histogram. limit may exceed what
// there is; then all is kept.
func (p *Picker) narrow(s selection, limit uint64) float32 {
	// The threshold is in [lo, end): from lo on there is enough, from end on,
	// where above lies, there is not. Steps go far down at once, because it costs
	// little to halve what was found.
	var lo float32
	end, above := -ninf, uint64(0)
	var near []float32 // the values in [lo, end)
	n := 0
	for i, c := 0, 256/s.scale; ; i, c = i+1, 4*c {
		if lo = s.top - c; i == mostSteps || !(lo > s.floor) {
			lo = s.floor
		}
		near, n = p.between(p.z, lo, end)
		more := above + p.reaches(s, near, lo)
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
		if !(mid > lo) { // ties
			if mid = nextUp(lo); mid >= end {
				return lo
			}
		}
		if more := above + p.reaches(s, near, mid); more >= limit {
			lo = mid
		} else {
			end, above = mid, more
		}
		near, n = p.between(near, lo, end)
	}
	return p.nearest(s, near[:n], above, limit)
}

// middle is the median of some values of many.
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

// nextUp is the least float greater than z.
func nextUp(z float32) float32 { return unorder(order(z) + 1) }

// drawFast is draw by kernels. hi is the greatest value.
func (p *Picker) drawFast(r *backend.Draw, floor, hi float32) int32 {
	p.draft.Start(&p.Kernels, r)
	p.draft.score = least(hi)
	p.draft.addKept(0, p.z, floor)
	return p.draft.Token()
}

// bestFast is best by kernels: first what the n-th best is worth, then the heap
// of what is worth as much.
func (p *Picker) bestFast(n int, floor, hi float32) {
	if hi == ninf {
		return
	}
	p.count(p.z, p.narrow(selection{floor: floor, top: hi, scale: 32}, uint64(n)))
	for w, set := range p.hits {
		for ; set != 0; set &= set - 1 {
			i := w*32 + bits.TrailingZeros32(set)
			switch e := (entry{p.z[i], int32(i)}); {
			case len(p.top) < n:
				p.top = append(p.top, e)
				p.swim(len(p.top) - 1)
			case e.z > p.top[0].z: // an equal value has a higher id
				p.top[0] = e
				p.sink(0)
			}
		}
	}
}
