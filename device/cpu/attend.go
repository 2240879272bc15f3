package cpu

import (
	"fmt"
	"math"

	"weir/backend"
	"weir/model"
)

const (
	// partTokens is the span of one partial result. It is part of the numbers:
	// another span is another order of additions.
	partTokens = 256
	partUnits  = partTokens / rowsPerTile
	// attendRows is how many rows (queries by heads of a group) share one pass
	// over keys and values.
	attendRows = 12
	// splitFloats bounds the memory for partial results that several threads
	// compute for one row.
	splitFloats = 4 << 20
)

// span is a run of consecutive queries of one sequence that share their passes
// over the cache.
type span struct {
	first, last int     // rows [first, last)
	table       []int32 // the sequence's blocks
}

// parts is the range [p0, p1) of partial results that the span's rows see.
func (j *attendJob) parts(s *span) (p0, p1 int) {
	lo, _ := j.sees(s.first)
	_, hi := j.sees(s.last - 1)
	return lo / partTokens, (hi + partTokens - 1) / partTokens
}

// sees is the range [lo, hi) of positions that row t attends to.
func (j *attendJob) sees(t int) (lo, hi int) {
	hi = int(j.d.batch.Pos[t]) + 1
	if j.window > 0 {
		lo = max(0, hi-j.window)
	}
	return lo, hi
}

// attendScratch is one worker's memory; rows is max(attendRows, heads per KV
// head).
type attendScratch struct {
	q      []float32 // [rows, headDim]
	scores []float32 // [rows, partTokens], each row padded
	part   partial
	sum    partial
}

// scoreStride is the distance of rows of scores.
const scoreStride = partTokens + rowPad

// partial is the attention of some rows over some positions: softmax weights
// relative to their greatest score, their sum, and the weighted values. It is
// one block of memory, so that many can be kept for merging.
type partial struct {
	top    []float32 // [rows]
	weight []float32 // [rows] at least 1; 0: the row sees none of the positions; NaN: it cannot be said
	value  []float32 // [rows, dims]
}

// Sizes of a partial result of n rows of dims numbers.
func partialFloats(n, dims int) int { return n * (2 + dims) }

func newPartial(data []float32, n int) partial {
	return partial{top: data[:n:n], weight: data[n : 2*n : 2*n], value: data[2*n:]}
}

// groupRows is the number of rows of a span and a KV head at most.
func groupRows(s model.Shape) int { return max(attendRows, s.Heads/s.KVHeads) }

// paddedDim is HeadDim rounded up to whole tiles.
func paddedDim(s model.Shape) int {
	return (s.HeadDim + rowsPerTile - 1) / rowsPerTile * rowsPerTile
}

func newAttendScratch(mem *arena, s model.Shape) (attendScratch, error) {
	n, dims := groupRows(s), paddedDim(s)
	size := partialFloats(n, dims)
	data, err := mem.floats(n*(s.HeadDim+scoreStride) + 2*size)
	if err != nil {
		return attendScratch{}, err
	}
	cut := func(n int) []float32 {
		part := data[:n:n]
		data = data[n:]
		return part
	}
	return attendScratch{
		scores: cut(n * scoreStride),
		part:   newPartial(cut(size), n),
		sum:    newPartial(cut(size), n),
		q:      cut(n * s.HeadDim),
	}, nil
}

// attendJob is one layer's attention. A task is a span and a KV head; when
// there are too few of those for the threads, a task is one of their partial
// results, kept until all are there and merged in order afterwards.
type attendJob struct {
	d       *Device
	spans   []span
	queries int // rows of a span at most
	group   int // heads per KV head
	dims    int // padded head size

	dst, q view
	layer  int
	scale  float32
	window int

	phase   attendPhase
	tasks   int
	perTask int         // tasks per chunk
	kept    []float32   // partial results, when split
	split   []splitTask // by task of the split phase
	keptAt  []int       // by span and KV head: first of its results in kept
}

type attendPhase uint8

const (
	phaseWhole attendPhase = iota // a task computes and merges all its partial results
	phaseSplit                    // a task computes one partial result
	phaseMerge                    // a task merges those of one span and KV head
)

// splitTask is partial result p of a span and KV head.
type splitTask struct{ task, p int }

func (j *attendJob) allocate(mem *arena, s model.Shape, threads int) error {
	j.group = s.Heads / s.KVHeads
	j.queries = max(1, attendRows/j.group)
	j.dims = paddedDim(s)
	j.spans = make([]span, 0, s.Spec.MaxTokens)
	if threads == 1 {
		return nil
	}
	// Splitting pays for a few long rows; many rows keep all threads busy.
	tasks := threads * chunksPerWorker
	parts := (s.Spec.MaxSeqTokens + partTokens - 1) / partTokens
	results := min(tasks*parts, splitFloats/partialFloats(groupRows(s), j.dims))
	var err error
	if j.kept, err = mem.floats(results * partialFloats(groupRows(s), j.dims)); err != nil {
		return err
	}
	j.split = make([]splitTask, 0, results)
	j.keptAt = make([]int, tasks)
	return nil
}

// plan cuts the batch into spans.
func (j *attendJob) plan(b *backend.Batch) {
	j.spans = j.spans[:0]
	row, entry := 0, 0
	for i, end := range b.QueryEnd {
		table := b.Tables[entry:b.TableEnd[i]]
		for ; row < int(end); row += j.queries {
			j.spans = append(j.spans, span{row, min(row+j.queries, int(end)), table})
		}
		row, entry = int(end), int(b.TableEnd[i])
	}
}

// Attend implements model.Device.
func (d *Device) Attend(dst, q model.Act, layer int, a model.Attention) {
	width := d.shape.Heads * d.shape.HeadDim
	if dst.Width != width || q.Width != width || layer < 0 || layer >= d.cache.layers {
		panic(fmt.Sprintf("cpu: Attend from rows of %d to rows of %d in layer %d", q.Width, dst.Width, layer))
	}
	j := &d.attendJob
	j.dst, j.q, j.layer, j.scale, j.window = d.written(dst), d.view(q), layer, a.Scale, a.Window
	j.tasks = len(j.spans) * d.cache.heads
	if j.mustSplit() {
		j.phase, j.perTask = phaseSplit, 1
		d.team.run(len(j.split), j)
		j.phase = phaseMerge
		d.team.run(j.tasks, j)
		return
	}
	j.phase = phaseWhole
	j.perTask = max(1, j.tasks/(d.team.threads*chunksPerWorker))
	chunks := (j.tasks + j.perTask - 1) / j.perTask
	if j.work() < serialWork {
		for c := range chunks {
			j.do(0, c)
		}
		return
	}
	d.team.run(chunks, j)
}

// work is the number of multiplications, roughly.
func (j *attendJob) work() int {
	n := 0
	for i := range j.spans {
		s := &j.spans[i]
		lo, _ := j.sees(s.first)
		_, hi := j.sees(s.last - 1)
		n += (hi - lo) * (s.last - s.first)
	}
	return n * 2 * j.q.width
}

// mustSplit reports whether there are fewer tasks than would keep the threads
// busy and enough partial results to do better; then it lists these.
func (j *attendJob) mustSplit() bool {
	if j.tasks >= 2*j.d.team.threads || j.tasks > len(j.keptAt) {
		return false
	}
	n := 0
	for i := range j.spans {
		p0, p1 := j.parts(&j.spans[i])
		n += (p1 - p0) * j.d.cache.heads
	}
	if n <= j.tasks || n > cap(j.split) {
		return false
	}
	j.split = j.split[:0]
	for task := range j.tasks {
		p0, p1 := j.parts(&j.spans[task/j.d.cache.heads])
		j.keptAt[task] = len(j.split) - p0
		for p := p0; p < p1; p++ {
			j.split = append(j.split, splitTask{task, p})
		}
	}
	return true
}

// result is the memory of the split phase's i-th partial result.
func (j *attendJob) result(i int) partial {
	n := max(attendRows, j.group)
	size := partialFloats(n, j.dims)
	return newPartial(j.kept[i*size:][:size], n)
}

func (j *attendJob) do(worker, chunk int) {
	sc := &j.d.scratch[worker]
	heads := j.d.cache.heads
	if j.phase == phaseSplit {
		t := j.split[chunk]
		s, head := &j.spans[t.task/heads], t.task%heads
		j.load(sc, s, head)
		j.compute(sc, s, head, t.p, j.result(chunk))
		return
	}
	for task := chunk * j.perTask; task < min(j.tasks, (chunk+1)*j.perTask); task++ {
		s, head := &j.spans[task/heads], task%heads
		p0, p1 := j.parts(s)
		rows := (s.last - s.first) * j.group
		if j.phase == phaseWhole {
			j.load(sc, s, head)
		}
		for r := range rows {
			sc.attn.sum.weight[r] = 0
		}
		for p := p0; p < p1; p++ {
			part := sc.attn.part
			if j.phase == phaseWhole {
				j.compute(sc, s, head, p, part)
			} else {
				part = j.result(j.keptAt[task] + p)
			}
			j.merge(&sc.attn.sum, &part, rows)
		}
		j.store(&sc.attn.sum, s, head)
	}
}

// load gathers the queries of a span for one KV head: query by query, and of
// each the heads of the group.
func (j *attendJob) load(sc *scratch, s *span, head int) {
	n := j.group * j.d.cache.headDim
	for i := s.first; i < s.last; i++ {
		copy(sc.attn.q[(i-s.first)*n:][:n], j.q.row(i)[head*n:])
	}
}

// reach is what a span's rows see of partial result p: units [u0, u1) from its
// first position on, and n positions from unit u0 on.
func (j *attendJob) reach(s *span, p int) (u0, u1, n int) {
	first := p * partTokens
	lo, _ := j.sees(s.first)
	_, hi := j.sees(s.last - 1)
	lo, hi = max(lo, first), min(hi, first+partTokens)
	u0, u1 = (lo-first)/rowsPerTile, (hi-first+rowsPerTile-1)/rowsPerTile
	return u0, u1, hi - first - u0*rowsPerTile
}

// units writes where the units of partial result p start, from unit u0 on.
func (j *attendJob) units(offs []int, s *span, p, u0 int) {
	c := &j.d.cache
	for u := range offs {
		pos := p*partTokens + (u0+u)*rowsPerTile
		offs[u] = c.offset(s.table[pos/c.blockTokens], pos)
	}
}

// compute is partial result p of a span's rows for one KV head.
//
// The cache is too large for any other cache, and its pages lie anywhere, so
// the processor cannot guess what comes next: while the keys are multiplied the
// values are prefetched, and then the keys of the next partial result, or of
// the next head.
func (j *attendJob) compute(sc *scratch, s *span, head, p int, out partial) {
	c := &j.d.cache
	u0, u1, n := j.reach(s, p)
	offs, ahead := sc.offs[:u1-u0], sc.ahead[:u1-u0]
	j.units(offs, s, p, u0)
	for u := range ahead {
		ahead[u] = offs[u] + c.keys
	}
	data := c.data[c.at(j.layer, head):]
	rows := (s.last - s.first) * j.group
	scores := sc.attn.scores[u0*rowsPerTile:]
	j.eachPass(rows, func(r0, m int) {
		j.d.impl.mul[c.format][m](data, offs, ahead, c.headDim, sc.attn.q[r0*c.headDim:], c.headDim, scores[r0*scoreStride:], scoreStride, nil)
	})

	first := p * partTokens
	for r := range rows {
		lo, hi := j.sees(s.first + r/j.group)
		j.weigh(&out, r, sc.attn.scores[r*scoreStride:][:u1*rowsPerTile], u0*rowsPerTile, lo-first, hi-first)
	}

	j.next(ahead, offs, s, head, p)
	values := data[c.keys:]
	for t := 0; t*rowsPerTile < c.headDim; t++ {
		j.eachPass(rows, func(r0, m int) {
			j.d.impl.pv[c.format][m](values[t*c.valueT:], offs, ahead, n, scores[r0*scoreStride:], scoreStride, out.value[r0*j.dims+t*rowsPerTile:], j.dims)
		})
	}
}

// next writes what to prefetch while values are multiplied, relative to them:
// the keys that come next. A value tile has as many bytes as its share of a
// unit's keys, so all tiles together cover them.
func (j *attendJob) next(ahead, offs []int, s *span, head, p int) {
	c := &j.d.cache
	shift := -c.keys
	p0, p1 := j.parts(s)
	if p++; p == p1 {
		if head+1 == c.heads {
			copy(ahead, offs) // in the cache already
			return
		}
		p, shift = p0, shift+c.head
	}
	u0, u1, _ := j.reach(s, p)
	n := min(u1-u0, len(ahead))
	j.units(ahead[:n], s, p, u0)
	for u := range ahead[:n] {
		ahead[u] += shift
	}
	copy(ahead[n:], offs[n:])
}

// eachPass cuts rows into equal parts that the kernels can take.
func (j *attendJob) eachPass(rows int, f func(r0, m int)) {
	limit := j.d.impl.rows()
	passes := (rows + limit - 1) / limit
	for p := range passes {
		r0, r1 := p*rows/passes, (p+1)*rows/passes
		f(r0, r1-r0)
	}
}

// weigh turns scores[start:] into softmax weights relative to the greatest of
// them. The row sees scores[lo:hi]; the rest gets weight zero, which adds
// nothing to any sum, so that it does not matter with whom a row shares its
// pass.
func (j *attendJob) weigh(out *partial, r int, scores []float32, start, lo, hi int) {
	lo, hi = min(max(lo, start), len(scores)), max(min(hi, len(scores)), start)
	if lo >= hi {
		clear(scores[start:])
		out.weight[r] = 0
		return
	}
	for i := start; i < lo; i++ {
		scores[i] = float32(math.Inf(-1))
	}
	for i := hi; i < len(scores); i++ {
		scores[i] = float32(math.Inf(-1))
	}
	out.top[r] = j.d.impl.max(scores[start:])
	out.weight[r] = j.d.impl.expSum(scores[start:], out.top[r], j.scale)
}

// merge adds a partial result to the sum of those before it.
func (j *attendJob) merge(sum, part *partial, rows int) {
	for r := range rows {
		v, w := sum.value[r*j.dims:][:j.dims], part.value[r*j.dims:][:j.dims]
		switch {
		case part.weight[r] == 0:
		case sum.weight[r] == 0:
			sum.top[r], sum.weight[r] = part.top[r], part.weight[r]
			copy(v, w)
		default:
			top := max(sum.top[r], part.top[r])
			a, b := exp((sum.top[r]-top)*j.scale), exp((part.top[r]-top)*j.scale)
			sum.top[r] = top
			sum.weight[r] = float32(sum.weight[r]*a) + float32(part.weight[r]*b)
			j.d.impl.blend(v, w, a, b)
		}
	}
}

// store divides by the sum of the weights and writes the span's rows.
func (j *attendJob) store(sum *partial, s *span, head int) {
	n := j.d.cache.headDim
	for r := range (s.last - s.first) * j.group {
		i, g := s.first+r/j.group, r%j.group
		y := j.dst.row(i)[(head*j.group+g)*n:][:n]
		j.d.impl.scale(y, sum.value[r*j.dims:], 1/sum.weight[r])
	}
}
