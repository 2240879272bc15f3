package cpu

// partial is the attention of some rows over some positions: their greatest score, the
// sum of the softmax weights relative to it, and the weighted values. It is one block of
// memory, so that many can be kept for merging.
type partial struct {
	top    []float32 // [rows]
	weight []float32 // [rows] at least 1; 0: the row sees none of the positions; NaN: a score was NaN
	unit   []float32 // [rows] the factor from value to numbers
	value  []float32 // [rows, dims]
}

// partialFloats is the size of a partial result of n rows of dims numbers.
func partialFloats(n, dims int) int { return n * (3 + dims) }

func newPartial(data []float32, n int) partial {
	return partial{top: data[:n:n], weight: data[n : 2*n : 2*n], unit: data[2*n : 3*n : 3*n], value: data[3*n:]}
}

// from is p without its first n rows.
func (p *partial) from(n, dims int) partial {
	return partial{p.top[n:], p.weight[n:], p.unit[n:], p.value[n*dims:]}
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
