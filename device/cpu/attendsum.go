package cpu

import "math"

// mask sets the scores outside [lo, hi) to -Inf. Their weights are then zero and add
// nothing to any sum, so it does not matter which rows share a pass. If no score is left,
// mask returns false and sets all of them to zero, as weights.
func mask(scores []float32, lo, hi int) bool {
	lo, hi = max(lo, 0), min(hi, len(scores))
	if lo >= hi {
		clear(scores)
		return false
	}
	for i := range scores[:lo] {
		scores[i] = float32(math.Inf(-1))
	}
	rest := scores[hi:]
	for i := range rest {
		rest[i] = float32(math.Inf(-1))
	}
	return true
}

// merge adds a partial result of rows [r0, r0+m) to the sum of those before it.
func (j *attendJob) merge(sc *attendScratch, part *partial, r0, m int) {
	whole := j.c.format != Int8
	sum := &sc.sum
	for r := range m {
		i := r0 + r
		v, w := sum.value[i*j.dims:][:j.dims], part.value[r*j.dims:][:j.dims]
		switch {
		case part.weight[r] == 0:
		case sum.weight[i] == 0:
			sum.top[i], sum.weight[i] = part.top[r], part.weight[r]
			if whole {
				copy(v, w)
			} else {
				j.d.impl.scale(v, w, part.unit[r])
			}
		default:
			// exp(0) is 1; of NaN both differences are NaN.
			a, b := float32(1), float32(1)
			switch diff := part.top[r] - sum.top[i]; {
			case diff <= 0:
				b = exp(diff * sc.scale[i].e)
			default:
				a = exp(-diff * sc.scale[i].e)
				sum.top[i] = part.top[r]
			}
			sum.weight[i] = float32(sum.weight[i]*a) + float32(part.weight[r]*b)
			if !whole {
				b *= part.unit[r]
			}
			j.d.impl.blend(v, w, a, b)
		}
	}
}

// mergeKept merges a round's partial results of a span and KV head. If there are others before or
// after them, the sum comes from the round before or goes to the next.
func (j *attendJob) mergeKept(sc *attendScratch, task int) {
	s, head, run := &j.spans[task/j.c.heads], task%j.c.heads, j.keptAt[task]
	p0, p1 := j.parts(s)
	rows := (s.last - s.first) * j.group
	j.load(sc, s, head) // for the rows' scales
	clear(sc.sum.weight[:rows])
	if run.from > p0 {
		sc.sum.copy(&j.carried[(j.round-1)%2], rows, j.dims)
	}
	for p := run.from; p < run.to; p++ {
		part := j.result(run.at + p - run.from)
		j.merge(sc, &part, 0, rows)
	}
	if run.to < p1 {
		j.carried[j.round%2].copy(&sc.sum, rows, j.dims)
		return
	}
	j.store(sc, s, head)
}

// copy takes n rows of another sum.
func (p *partial) copy(from *partial, n, dims int) {
	copy(p.top[:n], from.top)
	copy(p.weight[:n], from.weight)
	copy(p.value[:n*dims], from.value)
}

// store divides by the sum of the weights and writes the span's rows.
func (j *attendJob) store(sc *attendScratch, s *span, head int) {
	sum, n := &sc.sum, j.c.valueDim
	for r := range (s.last - s.first) * j.group {
		i, g := s.first+r/j.group, r%j.group
		y := j.dst.row(i)[(head*j.group+g)*n:][:n]
		by := 1 / sum.weight[r]
		if j.sinks != nil {
			by = withSink(j.sinks[head*j.group+g], float32(sum.top[r]*sc.scale[r].e), sum.weight[r])
		}
		j.d.impl.scale(y, sum.value[r*j.dims:], by)
	}
}

// withSink is the factor on the weighted values of a row whose softmax has a sink beside its
// positions. Weights are relative to the greatest score, top. A sink far above it makes the sum as
// great as exp allows, and so the result nearly zero.
func withSink(sink, top, weight float32) float32 { return 1 / (weight + exp(sink-top)) }
