package model_test

import (
	"math"
	"slices"

	"weir/model"
)

// What the reference device does with the pieces that only some families have.

func (d *reference) EmbedAdd(dst model.Act, w model.Weight, by model.Index, offset int) {
	for i, row := range d.act(dst) {
		id := offset
		if by == model.ByPosition {
			id += int(d.batch.Pos[i])
		} else if len(d.batch.Types) > 0 {
			id += int(d.batch.Types[i])
		}
		for j, v := range d.weights[w].rows[id] {
			row[j] += v
		}
	}
}

// vector is the weights of a norm, and nil if there are none.
func (d *reference) vector(w model.Weight) []float64 {
	if w == model.NoWeight {
		return nil
	}
	return slices.Concat(d.weights[w].rows...)
}

func (d *reference) Norm(dst, src model.Act, n model.Norm) {
	if n.Kind > model.LayerNorm {
		d.wholeRows(dst, src, n)
		return
	}
	from := d.act(src)
	var gates [][]float64
	if n.Gate.Width > 0 {
		gates = d.act(n.Gate)
	}
	size := n.Size
	if size == 0 {
		size = dst.Width
	}
	w, b := d.vector(n.W), d.vector(n.B)
	for i, to := range d.act(dst) {
		x := slices.Clone(from[i])
		gate := func() {
			for j := range x {
				if gates != nil {
					x[j] *= activation(n.GateBy, gates[i][j])
				}
			}
		}
		if n.GateFirst {
			gate()
		}
		for at := 0; at < len(x); at += size {
			normGroup(x[at:at+size], n.Kind == model.LayerNorm, float64(n.Eps))
		}
		for j := range x {
			if w != nil {
				x[j] *= w[j%len(w)]
			}
			if b != nil {
				x[j] += b[j%len(b)]
			}
		}
		if !n.GateFirst {
			gate()
		}
		copy(to, x)
	}
}

// wholeRows is Norm for the kinds behind LayerNorm.
func (d *reference) wholeRows(dst, src model.Act, n model.Norm) {
	from, w := d.act(src), d.vector(n.W)
	for i, to := range d.act(dst) {
		var like []float64
		if n.Kind == model.Matched {
			like = d.act(n.Gate)[i]
		}
		copy(to, wholeRow(n, slices.Clone(from[i]), w, like))
	}
}

// wholeRow is what such a norm makes of x.
func wholeRow(n model.Norm, x, w, gate []float64) []float64 {
	squares := func(v []float64, about float64) (mean float64) {
		for _, e := range v {
			mean += (e - about) * (e - about) / float64(len(v))
		}
		return mean
	}
	mean := 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	square, variance, like := squares(x, 0), squares(x, mean), squares(gate, 0)
	for j := range x {
		switch n.Kind {
		case model.Weighted:
			x[j] *= w[j]
		case model.Above:
			x[j] = math.Max(x[j]-mean-float64(n.Cut)*math.Sqrt(variance), 0)
		case model.Matched:
			x[j] *= math.Sqrt(like / math.Max(square, float64(n.Eps)))
		}
	}
	return x
}

// normGroup norms x without weights.
func normGroup(x []float64, aboutMean bool, eps float64) {
	mean, square := 0.0, 0.0
	if aboutMean {
		for _, v := range x {
			mean += v / float64(len(x))
		}
	}
	for _, v := range x {
		square += (v - mean) * (v - mean) / float64(len(x))
	}
	for j := range x {
		x[j] = (x[j] - mean) / math.Sqrt(square+eps)
	}
}

// activation is a function of one number, as package model says it.
func activation(a model.Activation, x float64) float64 {
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	switch a.Kind {
	case model.SiLU:
		if a.Alpha != 0 {
			return x * sigmoid(float64(a.Alpha)*x)
		}
		return x * sigmoid(x)
	case model.GELU:
		return x * (1 + math.Erf(x/math.Sqrt2)) / 2
	case model.GELUTanh:
		return x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*math.Pow(x, 3)))) / 2
	case model.ReLU:
		return math.Max(x, 0)
	case model.ReLUSquared:
		return math.Pow(math.Max(x, 0), 2)
	case model.Sigmoid:
		return sigmoid(x)
	case model.Tanh:
		return math.Tanh(x)
	case model.Clip:
		return math.Min(math.Max(x, -float64(a.Limit)), float64(a.Limit))
	case model.XIELU:
		if x > 0 {
			return float64(a.Alpha)*x*x + float64(a.Limit)*x
		}
		return (math.Exp(math.Min(x, float64(a.UpPlus)))-1-x)*float64(a.Beta) + float64(a.Limit)*x
	}
	return x
}

func (d *reference) Activate(dst, src model.Act, a model.Activation) {
	from := d.act(src)
	for i, to := range d.act(dst) {
		for j, v := range from[i] {
			to[j] = activation(a, v)
		}
	}
}

func (d *reference) Gate(dst, src, gate model.Act, a model.Activation) {
	from, gates := d.act(src), d.act(gate)
	each := src.Width / gate.Width
	for i, to := range d.act(dst) {
		by := slices.Clone(gates[i])
		for j, v := range from[i] {
			to[j] = v * activation(a, by[j/each])
		}
	}
}

func (d *reference) Add(dst, src model.Act, scale float32) {
	from := d.act(src)
	for i, to := range d.act(dst) {
		for j, v := range from[i] {
			to[j] += float64(scale) * v
		}
	}
}

func (d *reference) Scale(dst, src model.Act, scale float32) {
	from := d.act(src)
	for i, to := range d.act(dst) {
		for j, v := range from[i] {
			to[j] = float64(scale) * v
		}
	}
}

func (d *reference) MatMulGate(dst model.Act, w model.Weight, src, scratch model.Act, a model.Activation) {
	d.MatMul(scratch, w, src)
	from := d.act(scratch)
	for i, to := range d.act(dst) {
		gateHalves(to, from[i], a)
	}
}

// gateHalves is a gated product's first half by its second.
func gateHalves(to, both []float64, a model.Activation) {
	for j := range to {
		gate, up := both[j], both[len(to)+j]
		if limit := float64(a.Limit); limit > 0 {
			gate, up = math.Min(gate, limit), math.Max(-limit, math.Min(up, limit))
		}
		to[j] = activation(a, gate) * (up + float64(a.UpPlus))
	}
}

// times is the product of a row with a matrix.
func (w *referenceMatrix) times(x []float64) []float64 {
	rounded, whole := roundActivations(x), roundWhole(x)
	y := make([]float64, len(w.rows))
	for n := range w.rows {
		by := rounded
		if w.whole[n] {
			by = whole
		}
		y[n] = w.bias[n] + w.dot(n, x, by)
	}
	return y
}

func (d *reference) Experts(dst, src, logits model.Act, e *model.Experts) {
	from, scores := d.act(src), d.act(logits)
	for i, to := range d.act(dst) {
		x := slices.Clone(from[i])
		for j := range to {
			to[j] = 0
		}
		for n, by := range d.route(scores[i], &e.Router) {
			if by != 0 {
				d.expert(to, x, n, by, e)
			}
		}
	}
}

// expert adds what expert n makes of x to a row.
func (d *reference) expert(to, x []float64, n int, by float64, e *model.Experts) {
	in := slices.Clone(x)
	if e.ScoreInput {
		for j := range in {
			in[j] *= by
		}
		by = 1
	}
	both := d.weights[e.GateUp[n]].times(in)
	mid := make([]float64, e.Inner)
	if e.Plain {
		for j := range mid {
			mid[j] = activation(e.Act, both[j])
		}
	} else {
		gateHalves(mid, both, e.Act)
	}
	for j, v := range d.weights[e.Down[n]].times(mid) {
		to[j] += by * v
	}
}

// route returns the weight of each expert for a row; 0: it is not chosen.
func (d *reference) route(logits []float64, r *model.Router) []float64 {
	var weights []float64
	if r.Score == model.SparseMixer {
		weights = mixed(logits, r)
	} else {
		weights = d.chosen(logits, r)
	}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	for i := range weights {
		if r.Renorm {
			weights[i] /= math.Max(sum+float64(r.RenormAdd), float64(r.Floor))
		}
		weights[i] *= float64(r.Scale)
		if s := d.vector(r.PerExpert); s != nil {
			weights[i] *= s[i]
		}
	}
	return weights
}

// mixed are the weights of two experts that are chosen one after the other.
func mixed(logits []float64, r *model.Router) []float64 {
	weights, left := make([]float64, len(logits)), slices.Clone(logits)
	for range r.TopK {
		at := greatest(left, 1)[0]
		top, sum := left[at], 0.0
		for _, v := range left {
			if !math.IsInf(v, -1) && (top-v)/math.Max(math.Abs(v), top) <= 2*float64(r.Jitter) {
				sum += math.Exp(v - top)
			}
		}
		weights[at], left[at] = 1/sum, math.Inf(-1)
	}
	return weights
}

// chosen are the scores of the experts that are chosen.
func (d *reference) chosen(logits []float64, r *model.Router) []float64 {
	score := slices.Clone(logits)
	switch r.Score {
	case model.Softmax:
		softmax(score)
	case model.SigmoidScore:
		for i, v := range score {
			score[i] = 1 / (1 + math.Exp(-v))
		}
	case model.SqrtSoftplus:
		for i, v := range score {
			score[i] = math.Sqrt(math.Log1p(math.Exp(v)))
		}
	}
	by := slices.Clone(score)
	for i, b := range d.vector(r.Bias) {
		by[i] += b
	}
	if r.Groups > 0 {
		onlyGroups(by, r)
	}
	list := greatest(by, r.TopK)
	slices.Sort(list)
	var own []float64
	for _, i := range list {
		own = append(own, score[i])
	}
	if r.Score == model.SoftmaxTop {
		softmax(own)
	}
	weights := make([]float64, len(score))
	for k, i := range list {
		weights[i] = own[k]
	}
	return weights
}

// onlyGroups leaves the best groups of experts.
func onlyGroups(by []float64, r *model.Router) {
	size := len(by) / r.Groups
	groups := make([]float64, r.Groups)
	for g := range groups {
		best := slices.Clone(by[g*size : (g+1)*size])
		slices.Sort(best)
		slices.Reverse(best)
		if groups[g] = best[0]; r.GroupBest2 && size > 1 {
			groups[g] += best[1]
		}
	}
	list := greatest(groups, r.TopGroups)
	for g := range groups {
		if !slices.Contains(list, g) {
			for i := g * size; i < (g+1)*size; i++ {
				by[i] = math.Inf(-1)
			}
		}
	}
}

// greatest lists the indices of the n greatest numbers, of equal ones the first.
func greatest(x []float64, n int) []int {
	var list []int
	for i := range x {
		list = append(list, i)
	}
	slices.SortStableFunc(list, func(a, b int) int {
		switch {
		case x[a] > x[b]:
			return -1
		case x[a] < x[b]:
			return 1
		}
		return 0
	})
	return list[:n]
}

func softmax(x []float64) {
	top, sum := slices.Max(x), 0.0
	for i, v := range x {
		x[i] = math.Exp(v - top)
		sum += x[i]
	}
	for i := range x {
		x[i] /= sum
	}
}

// state is a state of sequence s: what it goes on from, copied to where it shall be left.
func (d *reference) state(s, i int) []float64 {
	in, out := d.batch.StateIn[s], d.batch.StateOut[s]
	if in != out {
		copy(d.states[out][i], d.states[in][i])
	}
	return d.states[out][i]
}

// sequences calls f for each sequence with its rows.
func (d *reference) sequences(f func(s, first, last int)) {
	first := 0
	for s, end := range d.batch.QueryEnd {
		f(s, first, int(end))
		first = int(end)
	}
}

func (d *reference) Conv(dst, src model.Act, c *model.Conv) {
	x, y := d.act(src), d.act(dst)
	w, bias := d.vector(c.W), d.vector(c.B)
	n := src.Width
	d.sequences(func(s, first, last int) {
		state := d.state(s, c.State)
		for r := first; r < last; r++ {
			rows := append(slices.Clone(state), x[r]...)
			for i := range n {
				sum := 0.0
				if bias != nil {
					sum = bias[i]
				}
				for k := range c.Width {
					sum += w[i*c.Width+k] * rows[k*n+i]
				}
				y[r][i] = activation(c.Act, sum)
			}
			copy(state, rows[n:])
		}
	})
}

func (d *reference) Delta(dst, q, k, v, a, b model.Act, x *model.Delta) {
	qs, ks, vs, as, bs, y := d.act(q), d.act(k), d.act(v), d.act(a), d.act(b), d.act(dst)
	rate, bias := d.vector(x.A), d.vector(x.DtBias)
	unit := func(v []float64) []float64 {
		sum := 0.0
		for _, e := range v {
			sum += e * e
		}
		u := make([]float64, len(v))
		for i, e := range v {
			u[i] = e / math.Sqrt(sum+float64(x.L2Eps))
		}
		return u
	}
	d.sequences(func(s, first, last int) {
		state := d.state(s, x.State)
		for r := first; r < last; r++ {
			for h := range x.ValueHeads {
				at := h / (x.ValueHeads / x.KeyHeads) * x.KeyDim
				cells := state[h*x.KeyDim*x.ValueDim:][:x.KeyDim*x.ValueDim]
				decay := make([]float64, x.KeyDim)
				for i := range decay {
					c := h
					if x.PerChannel {
						c = h*x.KeyDim + i
					}
					decay[i] = math.Exp(rate[h] * math.Log1p(math.Exp(as[r][c]+bias[c])))
					if x.Lower != 0 {
						decay[i] = math.Exp(float64(x.Lower) / (1 + math.Exp(rate[h]*(as[r][c]+bias[c]))))
					}
				}
				beta := float64(x.BetaScale) / (1 + math.Exp(-bs[r][h]))
				value := h * x.ValueDim
				deltaRule(y[r][value:][:x.ValueDim], cells, decay, unit(qs[r][at:at+x.KeyDim]), unit(ks[r][at:at+x.KeyDim]), vs[r][value:][:x.ValueDim], beta, float64(x.Scale))
			}
		}
	})
}

// deltaRule is one step of a head.
func deltaRule(out, cells, decay, query, key, value []float64, beta, scale float64) {
	for j := range out {
		sum := 0.0
		for i := range key {
			cells[i*len(out)+j] *= decay[i]
			sum += cells[i*len(out)+j] * key[i]
		}
		delta := beta * (value[j] - sum)
		out[j] = 0
		for i := range key {
			cells[i*len(out)+j] += key[i] * delta
			out[j] += cells[i*len(out)+j] * query[i] * scale
		}
	}
}

func (d *reference) Scan(dst, x, b, c, dt model.Act, m *model.Scan) {
	xs, bs, cs, dts, y := d.act(x), d.act(b), d.act(c), d.act(dt), d.act(dst)
	rate, bias, skip := d.vector(m.A), d.vector(m.DtBias), d.vector(m.D)
	d.sequences(func(s, first, last int) {
		state := d.state(s, m.State)
		for r := first; r < last; r++ {
			for h := range m.Heads {
				group := h / (m.Heads / m.Groups) * m.StateDim
				step := math.Min(math.Max(math.Log1p(math.Exp(dts[r][h]+bias[h])), float64(m.DtMin)), float64(m.DtMax))
				for p := range m.HeadDim {
					in, out := xs[r][h*m.HeadDim+p], 0.0
					for n := range m.StateDim {
						cell := &state[(h*m.HeadDim+p)*m.StateDim+n]
						decay := rate[h]
						if m.PerState {
							decay = rate[h*m.StateDim+n]
						}
						*cell = *cell*math.Exp(step*decay) + step*in*bs[r][group+n]
						out += *cell * cs[r][group+n]
					}
					y[r][h*m.HeadDim+p] = out + skip[h]*in
				}
			}
		}
	})
}
