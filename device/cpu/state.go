package cpu

import (
	"fmt"
	"math"

	"weir/model"
)

// states are the recurrent states of sequences: [slot][state], float32. Slot 0 stays zero. An
// operation reads the state of a sequence in one slot and leaves it in another, or in the same.
type states struct {
	data []float32
	at   []int // where each state starts in a slot
	slot int   // numbers of a slot
}

func newStates(mem *arena, s model.Shape) (x states, err error) {
	for _, n := range s.States {
		x.at = append(x.at, x.slot)
		x.slot += (n + cacheLine/4 - 1) / (cacheLine / 4) * (cacheLine / 4)
	}
	size, err := sizeOf(s.Spec.StateSlots, x.slot)
	if err != nil {
		return x, err
	}
	if x.data, err = mem.floats(size); err != nil {
		return x, fmt.Errorf("%w (%d states of sequences)", err, s.Spec.StateSlots)
	}
	return x, nil
}

// of is state number i in a slot, from its first number on.
func (x *states) of(slot int32, i int) []float32 {
	at := int(slot)*x.slot + x.at[i]
	return x.data[at:min(at+x.slot, len(x.data)):len(x.data)]
}

// run is the rows [first, last) of sequence s, and n numbers from number at on of its state, which
// are copied to where they shall be left first.
func (d *Device) run(s, state, at, n int) (first, last int, x []float32) {
	b := d.batch
	if s > 0 {
		first = int(b.QueryEnd[s-1])
	}
	x = d.states.of(b.StateOut[s], state)[at:][:n]
	if in := b.StateIn[s]; in != b.StateOut[s] {
		copy(x, d.states.of(in, state)[at:][:n])
	}
	return first, int(b.QueryEnd[s]), x
}

// stateJob computes a recurrence: a chunk is a sequence and a head, or some columns. Each is
// computed token by token, so that no bit depends on how the sequence was cut.
type stateJob struct {
	d     *Device
	op    func(j *stateJob, sc *scratch, s, part int)
	parts int // of a sequence

	dst        view
	q, k, v    view // of Delta; x, b and c of Scan; q is src of Conv
	a, b       view // of Delta; a is dt of Scan
	conv       *model.Conv
	delta      *model.Delta
	scan       *model.Scan
	w, bias, t []float32 // weights
	skip       []float32
}

func (j *stateJob) do(worker, chunk int) {
	j.op(j, &j.d.scratch[worker], chunk/j.parts, chunk%j.parts)
}

func (d *Device) recur(j stateJob) {
	j.d = d
	d.stateJob = j
	if n := len(d.batch.QueryEnd) * j.parts; n > 0 {
		d.team.run(1, n, &d.stateJob)
	}
}

// convColumns is how many columns of a convolution are computed together.
const convColumns = 128

// Conv implements model.Device.
func (d *Device) Conv(dst, src model.Act, c *model.Conv) {
	j := stateJob{op: convPart, conv: c, w: d.params[c.W].vec, parts: (src.Width + convColumns - 1) / convColumns}
	if dst.Width != src.Width || len(j.w) != src.Width*c.Width || c.Width < 2 || c.Width > maxConv {
		panic(fmt.Sprintf("cpu: a convolution of %d over rows of %d into rows of %d with %d weights", c.Width, src.Width, dst.Width, len(j.w)))
	}
	if c.B != model.NoWeight {
		j.bias = d.params[c.B].vec
	}
	j.q, j.dst = d.view(src), d.written(dst)
	d.recur(j)
}

// maxConv is the widest convolution.
const maxConv = 16

func convPart(j *stateJob, sc *scratch, s, part int) {
	c, first := j.conv, part*convColumns
	n := min(convColumns, j.q.width-first)
	kept := c.Width - 1
	from, to, state := j.d.run(s, c.State, part*convColumns*kept, n*kept)
	row := sc.conv[:n]
	for r := from; r < to; r++ {
		x, y := j.q.row(r)[first:][:n], j.dst.row(r)[first:][:n]
		for i := range n {
			w := j.w[(first+i)*c.Width:][:c.Width]
			sum := float32(0)
			if j.bias != nil {
				sum = j.bias[first+i]
			}
			for k := range kept {
				sum += float32(w[k] * state[k*n+i])
			}
			row[i] = sum + float32(w[kept]*x[i])
		}
		copy(state, state[n:])
		copy(state[(kept-1)*n:], x)
		switch {
		case plainSiLU(c.Act):
			j.d.impl.gate(y, row, sc.ones[:n])
		case c.Act.Kind == model.Identity:
			copy(y, row)
		default:
			for i, v := range row {
				y[i] = activate(&c.Act, v)
			}
		}
	}
}

// Delta implements model.Device.
func (d *Device) Delta(dst, q, k, v, a, b model.Act, x *model.Delta) {
	decays := x.ValueHeads
	if x.PerChannel {
		decays *= x.KeyDim
	}
	j := stateJob{op: deltaHead, delta: x, parts: x.ValueHeads, w: d.params[x.A].vec, t: d.params[x.DtBias].vec}
	if q.Width != x.KeyHeads*x.KeyDim || k.Width != q.Width || v.Width != x.ValueHeads*x.ValueDim || dst.Width != v.Width || a.Width != decays || b.Width != x.ValueHeads ||
		x.ValueHeads%x.KeyHeads != 0 || len(j.w) != x.ValueHeads || len(j.t) != decays {
		panic(fmt.Sprintf("cpu: the delta rule for rows of %d, %d, %d, %d and %d into rows of %d", q.Width, k.Width, v.Width, a.Width, b.Width, dst.Width))
	}
	j.q, j.k, j.v, j.a, j.b, j.dst = d.view(q), d.view(k), d.view(v), d.view(a), d.view(b), d.written(dst)
	d.recur(j)
}

func deltaHead(j *stateJob, sc *scratch, s, h int) {
	x, im := j.delta, j.d.impl
	kd, vd := x.KeyDim, x.ValueDim
	from, to, state := j.d.run(s, x.State, h*kd*vd, kd*vd)
	key := h / (x.ValueHeads / x.KeyHeads)
	q, k, sum := sc.head[:kd], sc.head[kd:2*kd], sc.head[2*kd:][:vd]
	for r := from; r < to; r++ {
		unit(q, j.q.row(r)[key*kd:][:kd], x.L2Eps)
		unit(k, j.k.row(r)[key*kd:][:kd], x.L2Eps)
		beta := x.BetaScale * float32(1/(1+math.Exp(-float64(j.b.row(r)[h]))))
		decays := j.a.row(r)
		decay := float32(0)
		if !x.PerChannel {
			decay = decayOf(x, j.w[h], decays[h]+j.t[h])
		}
		clear(sum)
		for i := range kd {
			if x.PerChannel {
				decay = decayOf(x, j.w[h], decays[h*kd+i]+j.t[h*kd+i])
			}
			row := state[i*vd:][:vd]
			im.scale(row, row, decay)
			im.blend(sum, row, 1, k[i])
		}
		for i, v := range j.v.row(r)[h*vd:][:vd] {
			sum[i] = (v - sum[i]) * beta
		}
		y := j.dst.row(r)[h*vd:][:vd]
		clear(y)
		for i := range kd {
			row := state[i*vd:][:vd]
			im.blend(row, sum, 1, k[i])
			im.blend(y, row, 1, float32(q[i]*x.Scale))
		}
	}
}

// decayOf is the decay of d for an input of x and an A of a.
func decayOf(d *model.Delta, a, x float32) float32 {
	if d.Lower != 0 {
		return float32(math.Exp(float64(d.Lower) / (1 + math.Exp(float64(a)*float64(x)))))
	}
	return float32(math.Exp(float64(a) * softplus(float64(x))))
}

// unit divides x by the root of the sum of its squares.
func unit(y, x []float32, eps float32) {
	sum := 0.0
	for _, v := range x {
		sum += float64(v) * float64(v)
	}
	by := float32(1 / math.Sqrt(sum+float64(eps)))
	for i, v := range x {
		y[i] = v * by
	}
}

// Scan implements model.Device. The state of a head is kept as [StateDim, HeadDim].
func (d *Device) Scan(dst, x, b, c, dt model.Act, s *model.Scan) {
	j := stateJob{op: scanHead, scan: s, parts: s.Heads, w: d.params[s.A].vec, t: d.params[s.DtBias].vec, skip: d.params[s.D].vec}
	if x.Width != s.Heads*s.HeadDim || dst.Width != x.Width || b.Width != s.Groups*s.StateDim || c.Width != b.Width || dt.Width != s.Heads || s.Heads%s.Groups != 0 ||
		len(j.w) != s.Heads || len(j.t) != s.Heads || len(j.skip) != s.Heads {
		panic(fmt.Sprintf("cpu: a scan of rows of %d, %d, %d and %d into rows of %d", x.Width, b.Width, c.Width, dt.Width, dst.Width))
	}
	j.q, j.k, j.v, j.a, j.dst = d.view(x), d.view(b), d.view(c), d.view(dt), d.written(dst)
	d.recur(j)
}

func scanHead(j *stateJob, _ *scratch, s, h int) {
	x, im := j.scan, j.d.impl
	n, p := x.StateDim, x.HeadDim
	from, to, state := j.d.run(s, x.State, h*n*p, n*p)
	group := h / (x.Heads / x.Groups) * n
	for r := from; r < to; r++ {
		in, y := j.q.row(r)[h*p:][:p], j.dst.row(r)[h*p:][:p]
		b, c := j.k.row(r)[group:][:n], j.v.row(r)[group:][:n]
		dt := min(max(float32(softplus(float64(j.a.row(r)[h]+j.t[h]))), x.DtMin), x.DtMax)
		decay := float32(math.Exp(float64(float32(dt * j.w[h]))))
		im.scale(y, in, j.skip[h])
		for i := range n {
			row := state[i*p:][:p]
			im.blend(row, in, decay, float32(dt*b[i]))
			im.blend(y, row, 1, c[i])
		}
	}
}
