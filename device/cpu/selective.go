package cpu

import (
	"fmt"

	"weir/model"
)

// scanPart is how many columns a part of Mamba 1's recurrence has at most.
const scanPart = 32

// scanColumns is Scan where a head is one column. The state of a column is kept as [StateDim].
func (d *Device) scanColumns(dst, x, b, c, dt model.Act, s *model.Scan) {
	size := min(scanPart, (headFloats-scanPart)/max(s.StateDim, 1))
	j := stateJob{op: scanSome, scan: s, groups: size, w: d.params[s.A].vec, t: d.params[s.DtBias].vec, skip: d.params[s.D].vec}
	if s.HeadDim != 1 || s.Groups != 1 || x.Width != s.Heads || dst.Width != x.Width || b.Width != s.StateDim || c.Width != s.StateDim || dt.Width != s.Heads || size < 1 ||
		len(j.w) != s.Heads*s.StateDim || len(j.t) != s.Heads || len(j.skip) != s.Heads {
		panic(fmt.Sprintf("cpu: a scan of columns of rows of %d, %d, %d and %d into rows of %d", x.Width, b.Width, c.Width, dt.Width, dst.Width))
	}
	j.parts = (s.Heads + size - 1) / size
	j.q, j.k, j.v, j.a, j.dst = d.view(x), d.view(b), d.view(c), d.view(dt), d.written(dst)
	d.recur(j)
}

// scanSome computes some columns, position by position. Each number of the state is computed on its own, and a result is the sum over
// the numbers of its column in ascending order, so that no bit depends on which columns are computed together.
func scanSome(j *stateJob, sc *scratch, s, part int) {
	x, im := j.scan, j.d.impl
	sd, at := x.StateDim, part*j.groups
	n := min(j.groups, x.Heads-at)
	in, out := j.d.state(s, x.State, at*sd, n*sd)
	copy(out, in)
	steps, decays := sc.head[:n], sc.head[scanPart:][:n*sd]
	for r, to := j.d.run(s); r < to; r++ {
		for i := range steps {
			steps[i] = j.a.row(r)[at+i] + j.t[at+i]
		}
		im.pointwise[softplusOf](steps, steps, nil, nil)
		for i, dt := range steps {
			dt = min(max(dt, x.DtMin), x.DtMax)
			steps[i] = dt
			im.scale(decays[i*sd:][:sd], j.w[(at+i)*sd:][:sd], dt)
		}
		im.pointwise[expOf](decays, decays, nil, nil)
		b, c := j.k.row(r)[:sd], j.v.row(r)[:sd]
		inputs, results := j.q.row(r)[at:][:n], j.dst.row(r)[at:][:n]
		for i, v := range inputs {
			y, input := float32(v*j.skip[at+i]), float32(v*steps[i])
			state, decay := out[i*sd:][:sd], decays[i*sd:][:sd]
			for k := range state {
				cell := float32(state[k]*decay[k]) + float32(input*b[k])
				state[k] = cell
				y += float32(cell * c[k])
			}
			results[i] = y
		}
	}
}
