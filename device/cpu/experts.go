package cpu

import (
	"fmt"
	"math"
	"slices"

	"weir/model"
)

// experts computes mixtures of experts. A row has an entry for each expert that it chose. Entries are
// sorted by expert, and the first products of all experts are one job, as are the second ones
// (grouped.go), so that each expert's weights are read once and all threads have work even if
// there is one row. Then every row adds up its own entries, in ascending number of their
// experts, whatever else is in the step.
type experts struct {
	x, both, mid, out model.Act // activations of entries, behind those of the model
	room              int       // rows that they have
	n                 int       // and those that are used now
	total             int       // rows of the mixture
	wave              wave

	chosen  []int32   // [MaxTokens, TopK] experts of each row, ascending
	weight  []float32 // [MaxTokens, TopK] and their weights
	entry   []int32   // [MaxTokens, TopK] and the entries
	starts  []int32   // [E+1] where the entries of each expert start
	rows    []int32   // [MaxTokens*TopK] rows, by expert
	weights []float32 // [MaxTokens*TopK] and the weights there

	router      *model.Router
	bias, scale []float32 // [E], or nil
	topK        int
}

// waveRows is for how many entries there is memory, if one expert cannot have more. With 512 rows of
// eight experts each of them is half of the experts.
const waveRows = 2048

// allocate makes room for the mixtures of a network.
func (e *experts) allocate(d *Device, s model.Shape) error {
	x := s.Experts
	if x.Experts == 0 {
		return nil
	}
	n, err := sizeOf(s.Spec.MaxTokens, x.TopK)
	if err != nil {
		return err
	}
	// All rows may choose the same expert, which computes them at once.
	e.room = max(s.Spec.MaxTokens, min(n, waveRows))
	for _, a := range []struct {
		into   *model.Act
		width  int
		factor bool
	}{{&e.x, x.Width, true}, {&e.both, 2 * x.Inner, false}, {&e.mid, x.Inner, true}, {&e.out, x.Width, false}} {
		*a.into = model.Act{Buf: len(d.acts), Width: a.width}
		if err := d.addActivation(model.ActShape{Width: a.width, Factor: a.factor}, e.room); err != nil {
			return err
		}
	}
	e.chosen, e.rows, e.entry = make([]int32, n), make([]int32, n), make([]int32, n)
	e.weight, e.weights = make([]float32, n), make([]float32, n)
	e.starts = make([]int32, x.Experts+1)
	d.groupJob.reserve(x.Experts, e.room)
	return nil
}

// Experts implements model.Device.
func (d *Device) Experts(dst, src, logits model.Act, m *model.Experts) {
	e := &d.experts
	if dst.Width != src.Width || logits.Width != len(m.GateUp) || len(m.Down) != len(m.GateUp) || len(m.GateUp) >= len(e.starts) || m.TopK*d.shape.Spec.MaxTokens > len(e.chosen) {
		panic(fmt.Sprintf("cpu: %d experts of %d for rows of %d into rows of %d", len(m.GateUp), logits.Width, src.Width, dst.Width))
	}
	n := d.rows(dst)
	e.router, e.topK, e.total = &m.Router, m.TopK, n
	e.bias, e.scale = nil, nil
	if m.Bias != model.NoWeight {
		e.bias = d.params[m.Bias].vec
	}
	if m.PerExpert != model.NoWeight {
		e.scale = d.params[m.PerExpert].vec
	}
	d.eachRow(rowJob{op: routeRow, src: d.written(logits)}, n, 16*logits.Width)
	e.sort(n, len(m.GateUp))

	y, x := d.written(dst), d.view(src)
	for w := e.next(0, len(m.GateUp)); w.first < len(m.GateUp); w = e.next(w.end, len(m.GateUp)) {
		e.wave, e.n = w, int(w.to-w.from)
		d.compute(m, y, x)
	}
	e.n = 0
}

// ExpertRows is how many rows of the last Experts chose an expert: what a benchmark asks, and what
// the operation has listed anyway.
func (d *Device) ExpertRows(expert int) int {
	return int(d.experts.starts[expert+1] - d.experts.starts[expert])
}

// compute adds what the experts of a wave make of their rows of x.
func (d *Device) compute(m *model.Experts, y, x view) {
	e := &d.experts
	width := 2 * m.Inner
	if m.Plain {
		width = m.Inner
	}
	in, both, mid, out := e.x.Cols(0, x.width), e.both.Cols(0, width), e.mid.Cols(0, m.Inner), e.out.Cols(0, y.width)
	to, quantize := d.produced(in)
	d.eachRow(rowJob{op: takeRow, dst: to, src: x, quantize: quantize, weighted: m.ScoreInput}, e.n, 2*x.width)
	d.multiplyGroup(e.wave, both, in, m.GateUp, x.width, width)
	op := gateRow
	if m.Plain {
		op = activateRow
	}
	to, quantize = d.produced(mid)
	d.eachRow(rowJob{op: op, dst: to, src: d.view(both), act: functionOf(m.Act, !m.Plain), quantize: quantize}, e.n, 8*m.Inner)
	d.multiplyGroup(e.wave, out, mid, m.Down, m.Inner, y.width)
	d.eachRow(rowJob{op: sumRow, dst: y, src: d.view(out), weighted: !m.ScoreInput}, e.total, e.topK*y.width)
}

// takeRow copies the row of an entry.
func takeRow(j *rowJob, r int) {
	e := &j.d.experts
	at := int(e.wave.from) + r
	y, x := j.dst.row(r), j.src.row(int(e.rows[at]))
	if j.weighted {
		j.d.impl.scale(y, x, e.weights[at])
	} else {
		copy(y, x)
	}
	j.finish(r)
}

// sumRow adds the results of a row's entries. Its experts, and so its entries, are ascending.
func sumRow(j *rowJob, r int) {
	e := &j.d.experts
	y := j.dst.row(r)
	if e.wave.first == 0 {
		clear(y)
	}
	for i := r * e.topK; i < (r+1)*e.topK; i++ {
		at := e.entry[i]
		if at < e.wave.from || at >= e.wave.to {
			continue // of another wave
		}
		by := float32(1)
		if j.weighted {
			by = e.weight[i]
		}
		j.d.impl.blend(y, j.src.row(int(at-e.wave.from)), 1, by)
	}
}

// sort lists the rows of each expert, in ascending order.
func (e *experts) sort(n, count int) {
	clear(e.starts[:count+1])
	for _, x := range e.chosen[:n*e.topK] {
		e.starts[x+1]++
	}
	for x := range count {
		e.starts[x+1] += e.starts[x]
	}
	for i, x := range e.chosen[:n*e.topK] {
		at := e.starts[x]
		e.rows[at], e.weights[at] = int32(i/e.topK), e.weight[i]
		e.entry[i] = at
		e.starts[x]++
	}
	copy(e.starts[1:count+1], e.starts[:count]) // each start has become the next one's
	e.starts[0] = 0
}

// routeRow chooses the experts of a row. Its logits become scores.
func routeRow(j *rowJob, r int) {
	e := &j.d.experts
	x := j.src.row(r)
	chosen, weight := e.chosen[r*e.topK:][:e.topK], e.weight[r*e.topK:][:e.topK]
	if e.router.Score == model.SparseMixer {
		sparseMixer(x, chosen, weight, e.router.Jitter)
	} else {
		score(x, e.router.Score)
		e.choose(x, chosen)
		for i, c := range chosen {
			weight[i] = x[c]
		}
	}
	if e.router.Score == model.SoftmaxTop {
		score(weight, model.Softmax)
	}
	if e.router.Renorm {
		sum := float32(0)
		for _, w := range weight {
			sum += w
		}
		sum = max(sum+e.router.RenormAdd, e.router.Floor)
		for i := range weight {
			weight[i] /= sum
		}
	}
	for i, c := range chosen {
		weight[i] *= e.router.Scale
		if e.scale != nil {
			weight[i] *= e.scale[c]
		}
	}
}

// score turns logits into scores.
func score(x []float32, kind model.ScoreKind) {
	switch kind {
	case model.Softmax:
		top, sum := x[0], 0.0
		for _, v := range x {
			top = max(top, v)
		}
		for i, v := range x {
			w := math.Exp(float64(v - top))
			x[i] = float32(w)
			sum += w
		}
		for i := range x {
			x[i] = float32(float64(x[i]) / sum)
		}
	case model.SigmoidScore:
		for i, v := range x {
			x[i] = float32(1 / (1 + math.Exp(-float64(v))))
		}
	case model.SqrtSoftplus:
		for i, v := range x {
			x[i] = float32(math.Sqrt(softplus(float64(v))))
		}
	}
}

// softplus is log(1 + exp(x)).
func softplus(x float64) float64 {
	if x > 20 { // where float32 has no other result
		return x
	}
	return math.Log1p(math.Exp(x))
}

// choose finds the experts with the greatest scores, of equal ones those with lower numbers, and
// lists them in ascending order.
func (e *experts) choose(scores []float32, chosen []int32) {
	group, groups := len(scores), uint64(math.MaxUint64)
	if e.router.Groups > 0 {
		group = len(scores) / e.router.Groups
		groups = e.chooseGroups(scores, group)
	}
	last, lastAt := float32(math.Inf(1)), -1
	for k := range chosen {
		at, best := -1, float32(math.Inf(-1))
		for i := range scores {
			if groups&(1<<(i/group%64)) == 0 {
				continue
			}
			if v := e.biased(scores, i); after(v, i, last, lastAt) && (at < 0 || v > best) {
				at, best = i, v
			}
		}
		if at < 0 {
			at = firstLeft(chosen[:k])
		}
		chosen[k] = int32(at)
		last, lastAt = best, at
	}
	ascending(chosen)
}

// chooseGroups returns a bit for each of the groups of so many experts that are considered.
func (e *experts) chooseGroups(scores []float32, group int) (groups uint64) {
	last, lastAt := float32(math.Inf(1)), -1
	for range e.router.TopGroups {
		at, best := -1, float32(math.Inf(-1))
		for g := range e.router.Groups {
			v := e.groupScore(scores[g*group:][:group], g*group)
			if after(v, g, last, lastAt) && (at < 0 || v > best) {
				at, best = g, v
			}
		}
		if at < 0 {
			break
		}
		groups |= 1 << at
		last, lastAt = best, at
	}
	return groups
}

// firstLeft is the first expert that has not been chosen, for scores that are not numbers.
func firstLeft(chosen []int32) int {
	at := 0
	for slices.Contains(chosen, int32(at)) {
		at++
	}
	return at
}

// ascending sorts a few numbers.
func ascending(x []int32) {
	for i := 1; i < len(x); i++ {
		for k := i; k > 0 && x[k] < x[k-1]; k-- {
			x[k], x[k-1] = x[k-1], x[k]
		}
	}
}

// after reports whether number i, with value v, comes after the last one in descending order of
// values and ascending order of numbers.
func after(v float32, i int, last float32, lastAt int) bool {
	return v < last || v == last && i > lastAt
}

func (e *experts) biased(scores []float32, i int) float32 {
	if e.bias == nil {
		return scores[i]
	}
	return scores[i] + e.bias[i]
}

// groupScore is by what a group of experts, of which the first one has that number, is chosen.
func (e *experts) groupScore(scores []float32, first int) float32 {
	best, second := float32(math.Inf(-1)), float32(math.Inf(-1))
	for i := range scores {
		v := scores[i]
		if e.bias != nil {
			v += e.bias[first+i]
		}
		if v > best {
			best, second = v, best
		} else if v > second {
			second = v
		}
	}
	if e.router.GroupBest2 && len(scores) > 1 {
		return best + second
	}
	return best
}

// sparseMixer chooses two experts one after the other, each with its part in a softmax over those
// that are near it: see model.SparseMixer.
func sparseMixer(x []float32, chosen []int32, weight []float32, jitter float32) {
	taken := -1
	for k := range chosen {
		at := -1
		for i, v := range x {
			if i != taken && (at < 0 || v > x[at]) {
				at = i
			}
		}
		top, sum := x[at], 0.0
		for i, v := range x {
			factor := max(float32(math.Abs(float64(v))), top)
			if i != taken && (top-v)/factor <= 2*jitter {
				sum += math.Exp(float64(v - top))
			}
		}
		chosen[k], weight[k] = int32(at), float32(1/sum)
		taken = at
	}
	if len(chosen) == 2 && chosen[0] > chosen[1] {
		chosen[0], chosen[1], weight[0], weight[1] = chosen[1], chosen[0], weight[1], weight[0]
	}
}
