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

// run is the rows [first, last) of sequence s.
func (d *Device) run(s int) (first, last int) {
	if s > 0 {
		first = int(d.batch.QueryEnd[s-1])
	}
	return first, int(d.batch.QueryEnd[s])
}

// state is n numbers from number at on of a state of sequence s: where its run goes on from, and where
// it is left.
func (d *Device) state(s, state, at, n int) (in, out []float32) {
	b := d.batch
	return d.states.of(b.StateIn[s], state)[at:][:n], d.states.of(b.StateOut[s], state)[at:][:n]
}

// stateJob computes a recurrence: a chunk is a sequence and a head, some columns of a head, or some
// columns of a convolution. Each is computed token by token, so that no bit depends on how the
// sequence was cut.
type stateJob struct {
	d      *Device
	op     func(j *stateJob, sc *scratch, s, part int)
	parts  int // of a sequence
	groups int // of the blocks of a head, each of which is a part of its own

	dst     view
	q, k, v view // of Delta; x, b and c of Scan; q is src of Conv
	a, b    view // of Delta; a is dt of Scan
	conv    *model.Conv
	act     function // of Conv
	delta   *model.Delta
	scan    *model.Scan
	w, t    []float32 // weights
	skip    []float32
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

// stateRows is how many positions are prepared at a time: the state of a block and what they need
// stay in the first-level cache.
const stateRows = 8

// cut is into how many groups the blocks of a head's columns are cut, so that there is a chunk for
// every thread. What is computed once for a head and a position is computed in each group.
func (d *Device) cut(heads, columns int) int {
	chunks, blocks := len(d.batch.QueryEnd)*heads, stateBlocks(columns)
	return min(max((chunksPerWorker*d.team.threads+chunks-1)/max(chunks, 1), 1), blocks)
}

func stateBlocks(columns int) int { return (columns + stateColumns - 1) / stateColumns }

// convColumns is how many columns of a convolution are computed together, maxConv the widest one.
const (
	convColumns = 128
	maxConv     = 16
)

// Conv implements model.Device.
func (d *Device) Conv(dst, src model.Act, c *model.Conv) {
	if w := d.params[c.W].vec; dst.Width != src.Width || len(w) != src.Width*c.Width || c.Width < 2 || c.Width > maxConv {
		panic(fmt.Sprintf("cpu: a convolution of %d over rows of %d into rows of %d with %d weights", c.Width, src.Width, dst.Width, len(w)))
	}
	d.recur(stateJob{op: convPart, conv: c, act: functionOf(c.Act, false), w: d.turn(c), parts: (src.Width + convColumns - 1) / convColumns,
		q: d.view(src), dst: d.written(dst)})
}

// turn is the weights of a convolution as its kernel has them: for every part of the columns their
// biases, then the weights of the oldest row and so on. That is made once for each convolution.
func (d *Device) turn(c *model.Conv) []float32 {
	p := &d.params[c.W]
	if p.turned != nil {
		return p.turned
	}
	width := len(p.vec) / c.Width
	p.turned = make([]float32, width*(c.Width+1))
	for first := 0; first < width; first += convColumns {
		n := min(convColumns, width-first)
		part := p.turned[first*(c.Width+1):]
		if c.B != model.NoWeight {
			copy(part[:n], d.params[c.B].vec[first:])
		}
		for i := range n {
			for k := range c.Width {
				part[(k+1)*n+i] = p.vec[(first+i)*c.Width+k]
			}
		}
	}
	return p.turned
}

// convPart keeps the rows of a part as [row][column], those of the state first. So dst may be src.
func convPart(j *stateJob, sc *scratch, s, part int) {
	c, first := j.conv, part*convColumns
	n := min(convColumns, j.q.width-first)
	kept, w := c.Width-1, j.w[first*(c.Width+1):]
	rows, conv := sc.conv, j.d.impl.convOf(n)
	in, out := j.d.state(s, c.State, first*kept, n*kept)
	copy(rows, in)
	strip := 0
	for r, to := j.d.run(s); r < to; r += strip {
		copy(rows[:kept*n], rows[strip*n:])
		strip = min(stateRows, to-r)
		for i := range strip {
			copy(rows[(kept+i)*n:][:n], j.q.row(r + i)[first:])
		}
		for i := range strip {
			y := j.dst.row(r + i)[first:][:n]
			conv(y, rows[i*n:], w, c.Width)
			if c.Act.Kind != model.Identity {
				j.d.impl.apply(y, y, nil, &j.act)
			}
		}
	}
	copy(out, rows[strip*n:])
}

// Delta implements model.Device.
func (d *Device) Delta(dst, q, k, v, a, b model.Act, x *model.Delta) {
	decays := x.ValueHeads
	if x.PerChannel {
		decays *= x.KeyDim
	}
	groups := d.cut(x.ValueHeads, x.ValueDim)
	j := stateJob{op: deltaHead, delta: x, groups: groups, parts: x.ValueHeads * groups, w: d.params[x.A].vec, t: d.params[x.DtBias].vec}
	if q.Width != x.KeyHeads*x.KeyDim || k.Width != q.Width || v.Width != x.ValueHeads*x.ValueDim || dst.Width != v.Width || a.Width != decays || b.Width != x.ValueHeads ||
		x.ValueHeads%x.KeyHeads != 0 || len(j.w) != x.ValueHeads || len(j.t) != decays || deltaNumbers*x.KeyDim > headFloats-2*rowsPerTile {
		panic(fmt.Sprintf("cpu: the delta rule for rows of %d, %d, %d, %d and %d into rows of %d", q.Width, k.Width, v.Width, a.Width, b.Width, dst.Width))
	}
	j.q, j.k, j.v, j.a, j.b, j.dst = d.view(q), d.view(k), d.view(v), d.view(a), d.view(b), d.written(dst)
	d.recur(j)
}

// deltaHead computes a group of a head's blocks, each for some positions before the next one. The
// first position of the run reads the state where it is, and leaves it where it shall be.
func deltaHead(j *stateJob, sc *scratch, s, part int) {
	x, h, g := j.delta, part/j.groups, part%j.groups
	kd, vd := x.KeyDim, x.ValueDim
	in, out := j.d.state(s, x.State, h*kd*vd, kd*vd)
	blocks := stateBlocks(vd)
	first, to := j.d.run(s)
	most := min(stateRows, (headFloats-2*rowsPerTile)/(deltaNumbers*kd))
	for r := first; r < to; r += most {
		n := min(most, to-r)
		keys := j.prepare(sc, r, n, h)
		for at := g * blocks / j.groups * stateColumns; at < min((g+1)*blocks/j.groups*stateColumns, vd); at += stateColumns {
			w := min(stateColumns, vd-at)
			state, step := out[at*kd:][:w*kd], j.d.impl.deltaOf(w)
			from := state
			if r == first {
				from = in[at*kd:][:w*kd]
			}
			for i := range n {
				p, column := keys.of(i), h*vd+at
				step(j.dst.row(r + i)[column:][:w], j.v.row(r + i)[column:][:w], state, from, p[:kd], p[kd:2*kd], p[2*kd:3*kd], p[3*kd:4*kd], keys.betas[i])
				from = state
			}
		}
	}
}

// deltaKeys are what some positions of a head need: of each the decays, these times the key, the key and
// the query, [positions, deltaNumbers, KeyDim], and a beta.
type deltaKeys struct {
	numbers, betas []float32
	size           int
}

const deltaNumbers = 4

func (k *deltaKeys) of(i int) []float32 { return k.numbers[i*k.size:][:k.size] }

// prepare computes them for rows [r, r+n) of head h.
func (j *stateJob) prepare(sc *scratch, r, n, h int) deltaKeys {
	x, im := j.delta, j.d.impl
	kd := x.KeyDim
	at := h / (x.ValueHeads / x.KeyHeads) * kd
	// Kernels take sixteen numbers at a time, so what is after the n-th is computed and not used.
	keys := deltaKeys{numbers: sc.head[2*rowsPerTile:], betas: sc.head[:rowsPerTile], size: deltaNumbers * kd}
	decays := sc.head[rowsPerTile : 2*rowsPerTile]
	for i := range n {
		keys.betas[i], decays[i] = j.b.row(r + i)[h], 0
		if !x.PerChannel {
			decays[i] = j.a.row(r + i)[h] + j.t[h]
		}
	}
	im.pointwise[sigmoidOf](keys.betas, keys.betas, nil, nil)
	if !x.PerChannel {
		im.decays(decays, j.w[h], x.Lower)
	}
	for i := range n {
		p := keys.of(i)
		decay, forget, k, q := p[:kd], p[kd:2*kd], p[2*kd:3*kd], p[3*kd:]
		if x.PerChannel {
			for c, v := range j.a.row(r + i)[h*kd:][:kd] {
				decay[c] = v + j.t[h*kd+c]
			}
			im.decays(decay, j.w[h], x.Lower)
		} else {
			for c := range decay {
				decay[c] = decays[i]
			}
		}
		im.unit(k, j.k.row(r + i)[at:][:kd], x.L2Eps, 1)
		im.unit(q, j.q.row(r + i)[at:][:kd], x.L2Eps, x.Scale)
		im.scaleMul(forget, decay, k, 1)
		keys.betas[i] *= x.BetaScale
	}
	return keys
}

// decays replaces each x by exp(a * softplus(x)), or by exp(lower * sigmoid(-a*x)) if there is a lower bound.
func (im *impl) decays(x []float32, a, lower float32) {
	if lower != 0 {
		im.scale(x, x, -a)
		im.pointwise[sigmoidOf](x, x, nil, nil)
		im.scale(x, x, lower)
	} else {
		im.pointwise[softplusOf](x, x, nil, nil)
		im.scale(x, x, a)
	}
	im.pointwise[expOf](x, x, nil, nil)
}

// unit divides x by the root of the sum of its squares, and multiplies with scale.
func (im *impl) unit(y, x []float32, eps, scale float32) {
	im.scale(y, x, float32(float64(scale)/math.Sqrt(float64(im.sum(x))+float64(eps))))
}

// Scan implements model.Device. The state of a head is kept as [StateDim, HeadDim], in blocks of columns.
func (d *Device) Scan(dst, x, b, c, dt model.Act, s *model.Scan) {
	if s.PerState {
		d.scanColumns(dst, x, b, c, dt, s)
		return
	}
	groups := d.cut(s.Heads, s.HeadDim)
	j := stateJob{op: scanHead, scan: s, groups: groups, parts: s.Heads * groups, w: d.params[s.A].vec, t: d.params[s.DtBias].vec, skip: d.params[s.D].vec}
	if x.Width != s.Heads*s.HeadDim || dst.Width != x.Width || b.Width != s.Groups*s.StateDim || c.Width != b.Width || dt.Width != s.Heads || s.Heads%s.Groups != 0 ||
		len(j.w) != s.Heads || len(j.t) != s.Heads || len(j.skip) != s.Heads || s.StateDim > headFloats-2*rowsPerTile {
		panic(fmt.Sprintf("cpu: a scan of rows of %d, %d, %d and %d into rows of %d", x.Width, b.Width, c.Width, dt.Width, dst.Width))
	}
	j.q, j.k, j.v, j.a, j.dst = d.view(x), d.view(b), d.view(c), d.view(dt), d.written(dst)
	d.recur(j)
}

// scanHead is to Scan what deltaHead is to Delta.
func scanHead(j *stateJob, sc *scratch, s, part int) {
	x, im, h, g := j.scan, j.d.impl, part/j.groups, part%j.groups
	sd, hd := x.StateDim, x.HeadDim
	in, out := j.d.state(s, x.State, h*sd*hd, sd*hd)
	blocks, group := stateBlocks(hd), h/(x.Heads/x.Groups)*sd
	first, to := j.d.run(s)
	most := min(stateRows, (headFloats-2*rowsPerTile)/sd)
	for r := first; r < to; r += most {
		n := min(most, to-r)
		decays, steps, inputs := sc.head[:rowsPerTile], sc.head[rowsPerTile:2*rowsPerTile], sc.head[2*rowsPerTile:]
		for i := range n {
			steps[i] = j.a.row(r + i)[h] + j.t[h]
		}
		im.pointwise[softplusOf](steps, steps, nil, nil)
		for i, dt := range steps[:n] {
			dt = min(max(dt, x.DtMin), x.DtMax)
			decays[i] = float32(dt * j.w[h])
			im.scale(inputs[i*sd:][:sd], j.k.row(r + i)[group:][:sd], dt)
		}
		im.pointwise[expOf](decays, decays, nil, nil)
		for at := g * blocks / j.groups * stateColumns; at < min((g+1)*blocks/j.groups*stateColumns, hd); at += stateColumns {
			w := min(stateColumns, hd-at)
			state, step := out[at*sd:][:w*sd], im.scanOf(w)
			from := state
			if r == first {
				from = in[at*sd:][:w*sd]
			}
			for i := range n {
				column := h*hd + at
				step(j.dst.row(r + i)[column:][:w], j.q.row(r + i)[column:][:w], state, from, inputs[i*sd:][:sd], j.v.row(r + i)[group:][:sd], decays[i], j.skip[h])
				from = state
			}
		}
	}
}
