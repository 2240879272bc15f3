package cpu

import (
	"fmt"
	"iter"
	"math"
	"slices"

	"weir/backend"
	"weir/model"
)

const (
	// partTokens is how many positions one partial result covers. Another number
	// would mean another order of additions, and so other bits.
	partTokens = 256
	partUnits  = partTokens / rowsPerTile
	// spanRows is how many rows (queries by heads of a group) are multiplied with
	// the same 256 keys and values while these are in the second-level cache. With
	// more rows the KV cache would be read less often, but the rows' own partial
	// results would no longer fit.
	spanRows = 96
	// minSpanRows is the number of rows that the largest kernels take at once.
	minSpanRows = 12
	// splitFloats bounds the memory for partial results that several threads
	// compute for one row.
	splitFloats = 4 << 20
	// queryMax is what the greatest number of a query becomes if keys are 8-bit
	// integers: the query is rounded as they are. With 16 bits Q·K would have half
	// the speed, and the error of a score would be less by a factor of 1.4.
	queryMax = math.MaxInt8
	// weightMax is what the greatest weight of a row becomes in integers.
	weightMax = math.MaxInt16
	// scaleMin is the least scale; numbers below it become zero. Its inverse times
	// weightMax is finite.
	scaleMin = 1e-30
)

// span is a run of consecutive queries of one sequence that share their passes
// over the cache.
type span struct {
	first, last int     // rows [first, last)
	end         int     // positions of the sequence that are in the cache
	table       []int32 // the sequence's blocks
}

// parts is the range [p0, p1) of partial results that the span's rows see.
func (j *attendJob) parts(s *span) (p0, p1 int) {
	lo, _ := j.sees(s, s.first)
	_, hi := j.sees(s, s.last-1)
	return lo / partTokens, (hi + partTokens - 1) / partTokens
}

// sees is the range [lo, hi) of positions that row t attends to.
func (j *attendJob) sees(s *span, t int) (lo, hi int) {
	pos := int(j.d.batch.Pos[t])
	hi = pos + 1
	if w := j.a.Window; w > 0 {
		lo = max(0, hi-w)
	}
	if c := j.a.Chunk; c > 0 {
		lo = max(lo, pos/c*c)
	}
	if j.a.Bidirectional {
		hi = s.end
		if w := j.a.Window; w > 0 {
			hi = min(hi, pos+w)
		}
	}
	return lo, hi
}

// attendScratch is one worker's memory.
type attendScratch struct {
	q      []float32    // [rows of a span, keys] as the kernels take them
	scale  []rowScale   // [rows of a span]
	capped []float32    // [rows of a span] the factor on scores before they are bounded or fall with distance
	tanh   []float32    // [partTokens] of impl.bound
	scores []float32    // [rows of a pass, partTokens], each row padded
	more   []float32    // Int8: the same, of what is behind the first part of keys
	units  [][2]float32 // Int8: [rows of a span] the factors from scores of the parts of keys to numbers
	part   partial      // of a pass
	sum    partial      // of a span
	offs   []int        // [partUnits + a call's tiles] units of a partial result
	ahead  []int        // the same of what comes next
	turned turned       // values of a partial result that are parts of keys
}

// rowScale is the factor from a row's scores to the exponents of its weights: e for
// powers of e, and hi+lo for powers of two. A single float32 would lose the bits that
// decide the weights of scores far below the maximum.
type rowScale struct{ e, hi, lo float32 }

func newRowScale(s float32) rowScale {
	c := float64(s) * math.Log2E
	hi := float32(c)
	return rowScale{s, hi, float32(c - float64(hi))}
}

// scoreStride is the distance of rows of scores.
const scoreStride = partTokens + rowPad

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

// attendSizes are the greatest sizes of any cache: rows of a span and a KV head, and padded
// columns of keys and of values.
func attendSizes(s model.Shape) (rows, keys, values int) {
	rows = spanRows
	for _, kv := range s.KV {
		rows, keys, values = max(rows, kv.Heads/kv.KVHeads), max(keys, padded(kv.KeyDim)), max(values, padded(kv.ValueDim))
		if kv.ValueInKey {
			keys = max(keys, padded(kv.ValueDim)+padded(kv.KeyDim-kv.ValueDim)) // in two parts
		}
	}
	return rows, keys, values
}

func newAttendScratch(mem *arena, s model.Shape, d *Device) (attendScratch, error) {
	k := &d.impl.dots[d.cfg.KVType]
	n, keys, dims := attendSizes(s)
	size, pass := partialFloats(n, dims), partialFloats(k.rows(), dims)
	turned, parts, err := newTurned(mem, d.caches)
	if err != nil {
		return attendScratch{}, err
	}
	more := 0
	if parts {
		more = k.rows() * scoreStride
	}
	data, err := mem.floats(k.rows()*scoreStride + more + n*keys + n + partTokens + size + pass)
	if err != nil {
		return attendScratch{}, err
	}
	cut := func(n int) []float32 {
		part := data[:n:n]
		data = data[n:]
		return part
	}
	return attendScratch{
		scores: cut(k.rows() * scoreStride),
		more:   cut(more),
		units:  make([][2]float32, n),
		turned: turned,
		q:      cut(n * keys),
		capped: cut(n),
		tanh:   cut(partTokens),
		sum:    newPartial(cut(size), n),
		part:   newPartial(cut(pass), k.rows()),
		scale:  make([]rowScale, n),
		offs:   make([]int, partUnits+slices.Max(k.tiles)),
		ahead:  make([]int, partUnits+slices.Max(k.tiles)),
	}, nil
}

// attendJob is one layer's attention. A task is a span and a KV head. If there are too
// few of those for the threads, a task is one of their partial results, which are kept and
// merged in order afterwards, in rounds of as many as there is memory for.
type attendJob struct {
	d     *Device
	dots  *dotKernels
	spans []span
	rows  int // of a span and a KV head at most
	size  int // numbers of a kept partial result

	// Of the operation that is computed.
	c      *cache
	group  int // heads per KV head
	keys   int // padded columns of keys
	dims   int // padded columns of values
	dst, q view
	a      model.Attention
	sinks  []float32 // [heads], or nil
	bias   []float32 // [buckets, heads], or nil

	planned [3]int // the group, the KV heads and the block tables for which the spans are

	phase   attendPhase
	tasks   int
	perTask int         // tasks per chunk
	kept    []float32   // partial results, when split
	split   []splitTask // by task of the split phase
	keptAt  []keptRun   // by span and KV head, of a round
	begun   int         // the first span and KV head of a round
	next    splitTask   // the first partial result of the next round
	round   int
	carried [2]partial // what a round leaves of its last span and KV head, in turn
}

type attendPhase uint8

const (
	phaseWhole attendPhase = iota // a task computes and merges all its partial results
	phaseSplit                    // a task computes one partial result
	phaseMerge                    // a task merges those of one span and KV head
)

// splitTask is partial result p of a span and KV head.
type splitTask struct{ task, p int }

// keptRun are partial results [from, to) of a span and KV head, the first of which is number at
// of those that are kept.
type keptRun struct{ at, from, to int }

func (j *attendJob) allocate(mem *arena, s model.Shape) error {
	j.dots = &j.d.impl.dots[j.d.cfg.KVType]
	rows, _, values := attendSizes(s)
	j.rows, j.size = rows, partialFloats(rows, values)
	j.spans = make([]span, 0, s.Spec.MaxTokens)
	threads := j.d.team.threads
	if threads == 1 {
		return nil
	}
	// Splitting pays if there are few rows; many rows keep all threads busy anyway.
	tasks := threads * chunksPerWorker
	parts := (s.Spec.MaxSeqTokens + partTokens - 1) / partTokens
	results := min(tasks*parts, splitFloats/j.size)
	var err error
	if j.kept, err = mem.floats((results + len(j.carried)) * j.size); err != nil {
		return err
	}
	for i := range j.carried {
		j.carried[i] = j.result(results + i)
	}
	j.split = make([]splitTask, 0, results)
	j.keptAt = make([]keptRun, tasks)
	return nil
}

// plan cuts the batch into spans, which are as long as possible while there are enough
// of them for all threads. Their length changes no bit of a result.
func (j *attendJob) plan(b *backend.Batch) {
	if shape := [3]int{j.group, j.c.heads, j.c.table}; j.planned == shape {
		return // as for the layer before
	} else {
		j.planned = shape
	}
	chunks := j.d.team.threads * chunksPerWorker
	queries := len(b.Tokens) * j.c.heads / chunks
	queries = max(1, minSpanRows/j.group, min(queries, j.rows/j.group))
	j.spans = j.spans[:0]
	row := 0
	for i, end := range b.QueryEnd {
		table := b.Table(j.c.table, i)
		for ; row < int(end); row += queries {
			j.spans = append(j.spans, span{row, min(row+queries, int(end)), int(b.KVLen[i]), table})
		}
		row = int(end)
	}
}

// Attend implements model.Device.
func (d *Device) Attend(dst, q model.Act, kv int, a model.Attention) {
	if kv < 0 || kv >= len(d.caches) {
		panic(fmt.Sprintf("cpu: Attend to cache %d of %d", kv, len(d.caches)))
	}
	j, c := &d.attendJob, &d.caches[kv]
	heads := q.Width / c.keyDim
	if heads == 0 || q.Width != heads*c.keyDim || dst.Width != heads*c.valueDim || heads%c.heads != 0 || heads/c.heads > c.group {
		panic(fmt.Sprintf("cpu: Attend from rows of %d to rows of %d in cache %d", q.Width, dst.Width, kv))
	}
	j.c, j.group, j.keys, j.dims = c, heads/c.heads, c.queryColumns(), c.valueColumns()
	j.dst, j.q, j.a, j.sinks = d.written(dst), d.view(q), a, nil
	if a.Sinks != model.NoWeight {
		if j.sinks = d.params[a.Sinks].vec; len(j.sinks) != heads {
			panic(fmt.Sprintf("cpu: Attend of %d heads with %d sinks", heads, len(j.sinks)))
		}
	}
	if a.Slopes != nil && len(a.Slopes) != heads {
		panic(fmt.Sprintf("cpu: Attend of %d heads with %d slopes", heads, len(a.Slopes)))
	}
	if j.bias = nil; a.Buckets != nil {
		if j.bias = d.params[a.Bias].vec; len(j.bias) < heads*(1+int(slices.Max(a.Buckets))) {
			panic(fmt.Sprintf("cpu: Attend of %d heads with %d numbers for distances", heads, len(j.bias)))
		}
	}
	j.plan(d.batch)
	j.tasks = len(j.spans) * c.heads
	if j.mustSplit() {
		j.perTask, j.next, j.round = 1, splitTask{}, 0
		for j.next.task < j.tasks {
			tasks := j.plannedRound()
			j.phase = phaseSplit
			d.team.run(1, len(j.split), j)
			j.phase = phaseMerge
			d.team.run(1, tasks, j)
		}
		return
	}
	j.phase = phaseWhole
	j.perTask = max(1, j.tasks/(d.team.threads*chunksPerWorker))
	chunks := (j.tasks + j.perTask - 1) / j.perTask
	if j.multiplications() < serialWork {
		for c := range chunks {
			j.do(0, c)
		}
		return
	}
	d.team.run(1, chunks, j)
}

// multiplications is their approximate number.
func (j *attendJob) multiplications() int {
	n := 0
	for i := range j.spans {
		s := &j.spans[i]
		lo, _ := j.sees(s, s.first)
		_, hi := j.sees(s, s.last-1)
		n += (hi - lo) * (s.last - s.first)
	}
	return n * 2 * j.q.width
}

// mustSplit reports whether there are fewer tasks than would keep the threads
// busy and enough partial results to do better.
func (j *attendJob) mustSplit() bool {
	if j.tasks >= 2*j.d.team.threads || j.tasks > len(j.keptAt) {
		return false
	}
	n := 0
	for i := range j.spans {
		p0, p1 := j.parts(&j.spans[i])
		n += (p1 - p0) * j.c.heads
	}
	return n > j.tasks && cap(j.split) > 0
}

// plannedRound lists the next partial results, as many as can be kept, and returns how many spans
// and KV heads they belong to.
func (j *attendJob) plannedRound() int {
	j.split = j.split[:0]
	j.begun = j.next.task
	j.round++
	for ; j.next.task < j.tasks && len(j.split) < cap(j.split); j.next.task, j.next.p = j.next.task+1, 0 {
		task := j.next.task
		p0, p1 := j.parts(&j.spans[task/j.c.heads])
		from := max(p0, j.next.p)
		to := min(p1, from+cap(j.split)-len(j.split))
		j.keptAt[task] = keptRun{len(j.split), from, to}
		for p := from; p < to; p++ {
			j.split = append(j.split, splitTask{task, p})
		}
		if to < p1 {
			j.next.p = to
			return task - j.begun + 1
		}
	}
	return j.next.task - j.begun
}

// result is the memory of the split phase's i-th partial result.
func (j *attendJob) result(i int) partial {
	return newPartial(j.kept[i*j.size:][:j.size], j.rows)
}

func (j *attendJob) do(worker, chunk int) {
	sc := &j.d.scratch[worker].attn
	heads := j.c.heads
	if j.phase == phaseSplit {
		t := j.split[chunk]
		s, head := &j.spans[t.task/heads], t.task%heads
		j.load(sc, s, head)
		out := j.result(chunk)
		j.locate(sc, s, head, t.p)
		for r0, m := range j.passes(s) {
			part := out.from(r0, j.dims)
			j.pass(sc, s, head, t.p, r0, m, &part)
		}
		return
	}
	if j.phase == phaseMerge {
		j.mergeKept(sc, j.begun+chunk)
		return
	}
	for task := chunk * j.perTask; task < min(j.tasks, (chunk+1)*j.perTask); task++ {
		s, head := &j.spans[task/heads], task%heads
		p0, p1 := j.parts(s)
		j.load(sc, s, head)
		clear(sc.sum.weight[:(s.last-s.first)*j.group])
		for p := p0; p < p1; p++ {
			j.locate(sc, s, head, p)
			for r0, m := range j.passes(s) {
				j.pass(sc, s, head, p, r0, m, &sc.part)
				j.merge(sc, &sc.part, r0, m)
			}
		}
		j.store(sc, s, head)
	}
}

// passes cuts a span's rows into equal parts [r0, r0+m) that the kernels can
// take.
func (j *attendJob) passes(s *span) iter.Seq2[int, int] {
	rows, limit := (s.last-s.first)*j.group, j.dots.rows()
	passes := (rows + limit - 1) / limit
	return func(yield func(r0, m int) bool) {
		for p := range passes {
			r0, r1 := p*rows/passes, (p+1)*rows/passes
			if !yield(r0, r1-r0) {
				return
			}
		}
	}
}

// reach is what rows [first, last) of the batch see of partial result p: units
// [u0, u1) from its first position on, and n positions from unit u0 on.
func (j *attendJob) reach(s *span, first, last, p int) (u0, u1, n int) {
	start := p * partTokens
	lo, _ := j.sees(s, first)
	_, hi := j.sees(s, last-1)
	lo, hi = max(lo, start), min(hi, start+partTokens)
	if lo >= hi {
		return 0, 0, 0
	}
	u0, u1 = (lo-start)/rowsPerTile, (hi-start+rowsPerTile-1)/rowsPerTile
	return u0, u1, hi - start - u0*rowsPerTile
}

// units writes where the units of partial result p start. Entries for units
// that the span does not see name one that it sees, because kernels take several tiles
// at once.
func (j *attendJob) units(offs []int, s *span, p int) {
	c := j.c
	u0, u1, _ := j.reach(s, s.first, s.last, p)
	// One division for all: this runs for every head and partial result.
	perBlock := c.blockTokens / rowsPerTile
	first := p*partUnits + u0
	b, in := first/perBlock, first%perBlock
	for u := u0; u < u1; u++ {
		offs[u] = int(s.table[b])*c.block + in*c.unit
		if in++; in == perBlock {
			b, in = b+1, 0
		}
	}
	for u := range u0 {
		offs[u] = offs[u0]
	}
	for u := u1; u < len(offs); u++ {
		offs[u] = offs[u1-1]
	}
}

// locate finds the units of partial result p and of what comes next.
//
// The KV cache is larger than any cache of the processor, and its pages are anywhere in
// memory, so the processor cannot guess what comes next. While the keys are multiplied,
// the values are prefetched, and with the values the keys of the next partial result, or
// of the next head. A processor drops a prefetch when too many are under way, so the
// values are prefetched again between the rows of the softmax, when memory would be
// idle.
func (j *attendJob) locate(sc *attendScratch, s *span, head, p int) {
	c := j.c
	j.units(sc.offs, s, p)
	if c.inKey {
		u0, u1, _ := j.reach(s, s.first, s.last, p)
		sc.turned.fill(j.d.impl, c, head, sc.offs, u0, u1)
	}
	shift := -c.keys
	p0, p1 := j.parts(s)
	if p++; p == p1 {
		if head+1 == c.heads {
			copy(sc.ahead, sc.offs) // in the cache already
			return
		}
		p, shift = p0, shift+c.head
	}
	j.units(sc.ahead, s, p)
	for u := range sc.ahead {
		sc.ahead[u] += shift
	}
}

// pass computes partial result p of rows [r0, r0+m) of a span for one KV head, with
// a kernel for the scores and some for the values.
func (j *attendJob) pass(sc *attendScratch, s *span, head, p, r0, m int, out *partial) {
	c, im, k := j.c, j.d.impl, j.dots
	u0, u1, n := j.reach(s, s.first+r0/j.group, s.first+(r0+m-1)/j.group+1, p)
	if n == 0 {
		clear(out.weight[:m])
		return
	}
	data := c.data[c.at(head):]
	tiles := k.tiles[m]
	offs := sc.offs[u0 : u0+(u1-u0+tiles-1)/tiles*tiles]
	j.scores(sc, data, offs, r0, m)

	offs = offs[:u1-u0]
	// The first pass prefetches what comes next; later ones need not.
	ahead := offs
	if r0 == 0 {
		ahead = sc.ahead[u0:u1]
	}
	values := data[c.keys:]
	share := (c.keys/m + cacheLine - 1) &^ (cacheLine - 1)
	start := p*partTokens + u0*rowsPerTile
	scales := data[c.valueScale:]
	for r := range m {
		lo, hi := j.sees(s, s.first+(r0+r)/j.group)
		x := sc.scores[r*scoreStride:][:len(offs)*rowsPerTile]
		by := sc.capped[r0+r]
		if j.a.Slopes != nil || j.a.Buckets != nil {
			t := s.first + (r0+r)/j.group
			j.byDistance(x, by, head*j.group+(r0+r)%j.group, start-int(j.d.batch.Pos[t]))
			by = 1
		}
		if j.a.Softcap > 0 {
			im.bound(x, sc.tanh, by, j.a.Softcap)
		}
		if !mask(x, lo-start, hi-start) || j.a.Chosen && !j.d.selectJob.keep(s.first+(r0+r)/j.group, x, start) {
			out.weight[r] = 0
			continue
		}
		if r0 == 0 && !c.inKey {
			im.prefetch(values[r*share:], offs, share)
		} else if r0 == 0 {
			im.prefetch(values[r*share:], ahead, share)
		}
		scale := &sc.scale[r0+r]
		top := im.max(x)
		out.top[r] = top
		if c.format != Int8 {
			out.weight[r] = im.expSum(x, top, scale.hi, scale.lo)
			if k.pairs {
				im.toPairs(x, x)
			}
			continue
		}
		sum, most := im.expSumScaled(x, top, scale.hi, scale.lo, scales, offs)
		inv, unit := inverse(most, weightMax)
		im.toInt16(x, x, inv)
		out.weight[r], out.unit[r] = sum, unit
	}

	if c.inKey {
		values, offs = sc.turned.data, sc.turned.at[u0:u1]
		ahead = offs
	}
	t, f := 0, k.values[m]
	for t*rowsPerTile < j.dims {
		if j.dims-t*rowsPerTile < tiles*rowsPerTile {
			f, tiles = k.value[m], 1
		}
		f(values[t*c.valueT:], offs, ahead, n, sc.scores, scoreStride, out.value[t*rowsPerTile:], j.dims)
		t += tiles
	}
}
