package sampler

import (
	"math/bits"

	"weir/backend"
)

// With a device's kernels a threshold is found by looking at the row some times
// from above, which costs microseconds, until few values are left that Go has
// to look at. The result is that of the histogram in filter.go.

const (
	fewValues  = 1024 // that Go may look at
	mostSteps  = 20   // down from the greatest value, each four times as far
	mostHalves = 24
)

// fast reports whether there are kernels for whole rows.
func (p *Picker) fast() bool { return p.Kernels.Mass != nil }

// count returns how many values are at least floor, and leaves them in p.hits.
func (p *Picker) count(floor float32) (n int) {
	p.Kernels.Above(p.hits, p.z, floor)
	for _, set := range p.hits {
		n += bits.OnesCount32(set)
	}
	return n
}

// reaches is the measure of the values from floor on.
func (p *Picker) reaches(s selection, floor float32) uint64 {
	if s.weighted {
		return p.Kernels.Mass(p.z, floor, s.top)
	}
	return uint64(p.count(floor))
}

// narrow is threshold by kernels, without a histogram.
func (p *Picker) narrow(s selection, limit uint64) float32 {
	// The threshold is in [lo, end): from lo on there is enough, from end on,
	// where above lies, there is not.
	lo, end, above := s.floor, -ninf, uint64(0)
	for i, c := 0, 128/s.scale; i < mostSteps; i, c = i+1, 4*c {
		t := s.top - c
		if !(t > lo) {
			break
		}
		n := p.reaches(s, t)
		if n >= limit {
			lo = t
			break
		}
		end, above = t, n
	}
	over := 0 // values from end on
	if above > 0 {
		over = p.count(end)
	}
	for range mostHalves {
		n := p.count(lo) - over
		// Halves are added because the difference may be infinite.
		mid := float32(lo/2) + float32(min(end, s.top)/2)
		if n <= fewValues || !(mid > lo && mid < end) {
			break
		}
		if n := p.reaches(s, mid); n >= limit {
			lo = mid
		} else {
			end, above, over = mid, n, p.count(mid)
		}
	}
	p.count(lo)
	near := p.near[:0]
	for w, set := range p.hits {
		for ; set != 0; set &= set - 1 {
			if v := p.z[w*32+bits.TrailingZeros32(set)]; v < end {
				near = append(near, v)
			}
		}
	}
	p.near = near
	return p.nearest(s, near, above, limit)
}

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
	if p.count(floor) > n {
		p.count(p.narrow(selection{floor: floor, top: hi, scale: 32}, uint64(n)))
	}
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
