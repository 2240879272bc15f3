package cpu

import "math"

// load gathers the queries of a span for one KV head: for each query the heads of the
// group, in the form that the kernels take.
func (j *attendJob) load(sc *attendScratch, s *span, head int) {
	n := j.c.keyDim
	for r := range (s.last - s.first) * j.group {
		i, g := s.first+r/j.group, r%j.group
		q := sc.q[r*j.keys:][:j.keys]
		from := j.q.row(i)[(head*j.group+g)*n:][:n]
		clear(q[copy(q, from):])
		scale := j.a.Scale
		if j.dots.pairs {
			j.d.impl.toPairs(q, q)
		}
		if j.c.format == Int8 {
			if j.c.more == 0 {
				scale *= j.toIntegers(q, j.c.columns)
			} else { // each part of a key has scales of its own, and so has a query's
				v := j.c.valueDim
				second := q[padded(v):]
				clear(q[v:])
				copy(second, from[v:])
				sc.units[r] = [2]float32{j.toIntegers(q[:padded(v)], j.c.columns), j.toIntegers(second, j.c.more)}
			}
		}
		if j.a.Softcap > 0 || j.a.Slopes != nil || j.a.Buckets != nil {
			sc.capped[r], scale = scale, 1
		}
		if j.a.Softcap > 0 {
			sc.capped[r] /= j.a.Softcap
		}
		sc.scale[r] = newRowScale(scale)
	}
}

// toIntegers rounds a query, or a part of it that is multiplied with so many columns, to integers as the kernels
// take them, and returns their unit.
func (j *attendJob) toIntegers(q []float32, columns int) float32 {
	inv, unit := inverse(j.d.impl.absMax(q), queryMax)
	if j.dots.bytes {
		sum := j.d.impl.toInt8(q, q, inv)
		q[columns/4] = math.Float32frombits(uint32(-keyBias * sum))
	} else {
		j.d.impl.toInt16(q, q, inv)
	}
	return unit
}

// inverse returns the factor from numbers of magnitude most to limit, and the unit,
// which is the factor back. If most is NaN or infinite, so is the unit.
func inverse(most, limit float32) (inv, unit float32) {
	if most >= scaleMin && most <= math.MaxFloat32 {
		return limit / most, most / limit
	}
	if most < scaleMin {
		return 0, 0
	}
	return 0, most
}

// scores multiplies rows [r0, r0+m) of a span with the keys of units.
func (j *attendJob) scores(sc *attendScratch, data []byte, offs []int, r0, m int) {
	c, f := j.c, j.dots.scores[m]
	q := sc.q[r0*j.keys:]
	f(data, offs, c.keys, c.columns, q, j.keys, sc.scores, scoreStride)
	if c.more == 0 {
		return
	}
	f(data[c.moreAt:], offs, c.keys, c.more, q[padded(c.valueDim):], j.keys, sc.more, scoreStride)
	for r := range m {
		unit, n := &sc.units[r0+r], len(offs)*rowsPerTile
		j.d.impl.blend(sc.scores[r*scoreStride:][:n], sc.more[r*scoreStride:][:n], unit[0], unit[1])
	}
}
