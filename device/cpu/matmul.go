package cpu

import (
	"fmt"

	"weir/model"
)

const (
	// serialWork is the number of multiplications below which waking the other
	// threads costs more than they save.
	serialWork = 1 << 16
	// chunksPerWorker is how many chunks of a job each thread gets on average. More
	// of them shorten the wait for the last one and cost more claims.
	chunksPerWorker = 8
	// cachedInput bounds the rows of x, in bytes, that a chunk multiplies with all of
	// its tiles: they stay in the second-level cache.
	cachedInput = 576 << 10
	// maxTilesPerPass and maxBytesPerPass bound the time of one kernel, which the
	// runtime cannot preempt: a garbage collection has to wait for it.
	maxTilesPerPass = 64
	maxBytesPerPass = 512 << 10
	// nearAhead and farAhead are how many bytes ahead of its use a tile is
	// prefetched that is read only once. With few rows the processor recognizes the
	// stream by itself, and prefetching much farther ahead costs a quarter of the
	// memory's speed on Zen 4. With more rows it finds too few loads among the
	// multiplications: without a far prefetch half of the time is spent waiting. Kernels of
	// AVX2 have more instructions for a cache line, and are always better off with it: on
	// Zen 5 one row and one thread read 40 GB/s instead of 34.
	nearAhead, farAhead = 1 << 10, 8 << 10
)

// fewRows is the number of rows up to which nearAhead is better, measured on Zen 4.
// It is about where multiplying a cache line takes as long as fetching it from
// memory.
func (im *impl) fewRows(f Format) int {
	if im.far {
		return 0
	}
	switch f {
	case Q4: // twice the numbers of a line of Q8
		return 2
	case F16, BF16:
		return 5
	}
	if f.blocks() != nil { // taking them apart is work enough
		return 0
	}
	return 4
}

// MatMul implements model.Device.
func (d *Device) MatMul(dst model.Act, w model.Weight, src model.Act) {
	l := &d.params[w].linear
	if src.Width != l.k || dst.Width != l.n {
		panic(fmt.Sprintf("cpu: MatMul of [%d, %d] with rows of %d into rows of %d", l.n, l.k, src.Width, dst.Width))
	}
	d.multiplyAll(d.written(dst), l, src, 0, d.rows(src))
}

// multiplyAll computes the product src·lᵀ + bias of n rows, part by part: row r of y comes
// from row from+r of src. If y is empty, the results are not stored, but each worker adds
// them to its drafts.
func (d *Device) multiplyAll(y view, l *linear, src model.Act, from, n int) {
	for i := range l.parts {
		m := &l.parts[i]
		if how := d.impl.rounding(m.format); how != unrounded && !m.exact {
			d.quantize(src, how, m.order)
		}
		part := y
		if y.data != nil {
			part = y.from(0, m.first)
		}
		d.multiply(part, m, d.view(src), from, n)
	}
}

// multiply is multiplyAll for a part, whose rows of x are in d.input if the kernel is
// impl.dot.
func (d *Device) multiply(y view, m *matrix, x view, from, n int) {
	if n == 0 {
		return
	}
	j := &d.productJob
	j.product++
	j.y, j.m, j.x, j.n = y, m, x, n
	j.drafts = y.data == nil
	j.x.data = x.data[from*x.stride:]
	j.way = d.impl.way(m, n)
	if j.way != byMul && j.way != byWidened {
		j.q, j.ldq = d.input.data[from*d.input.stride:], d.input.stride
	} else {
		j.q = nil
	}
	j.base = 0
	j.cut()
	if n*m.n*m.k < serialWork {
		for c := range j.blocks * j.parts {
			j.do(0, c)
		}
		return
	}
	d.team.run(j.blocks, j.parts, j)
}

// productJob is the job of one matrix product. Its chunks are blocks of rows by parts
// of the tiles. A chunk multiplies a tile with all of its rows before it goes on to
// the next, so a tile is read from memory once, and the rows stay in the cache.
type productJob struct {
	d      *Device
	y, x   view
	drafts bool // the results go to the workers' drafts, not to y
	logits bool // the results are logits, which the head scales and bounds
	way    way
	q      []byte // the rows of x as the kernels want them, ldq bytes apart
	ldq    int
	m      *matrix
	n      int // rows of x
	first  int // of the rows of a job of several products

	product int // its number, of all products

	limit  int // rows that a kernel can take
	block  int // rows of a chunk
	blocks int
	tiles  int // tiles of a chunk
	parts  int // chunks of a block
	base   int // the number of its first chunk in a job of several products
}

// cut chooses the size of the chunks. It changes no bit of the result.
func (j *productJob) cut() {
	j.cutRows()
	tiles := j.m.tiles()
	j.tiles = max(1, min(tiles/(j.d.team.threads*chunksPerWorker), j.mostTiles()))
	j.parts = (tiles + j.tiles - 1) / j.tiles
}

// cutRows cuts the rows into blocks.
func (j *productJob) cutRows() {
	rowSize := 4 * j.m.k
	if j.q != nil {
		rowSize = j.m.format.rowSteps(j.m.format.steps(j.m.k))
	}
	if j.way == byPairs {
		rowSize = 2 * groups(j.m.k) * pairRow
	}
	j.limit = j.d.impl.most(j.way, j.m.format)
	// A block has as many rows as a whole number of passes: a kernel of fewer rows
	// loads as many weights.
	cached := max(1, cachedInput/rowSize/j.limit)
	passes := (j.n + j.limit - 1) / j.limit
	j.blocks = (passes + cached - 1) / cached
	j.block = (passes + j.blocks - 1) / j.blocks * j.limit
}

// mostTiles is how many tiles a chunk has at most.
func (j *productJob) mostTiles() int {
	most, bytes := maxTilesPerPass, maxBytesPerPass
	if j.way == byPairs {
		bytes = len(j.m.data) // kernels take a part of a tile
	}
	if j.drafts {
		most = draftTiles
	}
	return min(most, bytes/j.m.tile)
}

// do computes a chunk, with passes, each of which is one kernel, or by pairs.
func (j *productJob) do(worker, chunk int) {
	sc := &j.d.scratch[worker]
	row, first := chunk/j.parts*j.block, chunk%j.parts*j.tiles
	n, end := min(j.block, j.n-row), min(first+j.tiles, j.m.tiles())
	var y view // of the chunk's first row and tile
	if j.drafts {
		y = view{data: sc.chunk, width: min(end*rowsPerTile, j.m.n) - first*rowsPerTile, stride: stride(j.tiles * rowsPerTile)}
	} else {
		y = j.y.from(row, first*rowsPerTile)
	}

	if j.way == byPairs && j.preparePairs(&sc.pairs, row, n) {
		for tile := first; tile < end; tile++ {
			j.multiplyPairs(sc, tile, j.after(worker, chunk, tile), n, y.from(0, (tile-first)*rowsPerTile))
		}
	} else {
		j.passes(sc, worker, chunk, row, n, y)
	}

	if j.logits {
		y.width = min(end*rowsPerTile, j.m.n) - first*rowsPerTile
		for r := range n {
			j.d.draw.bound(j.d.impl, sc, y.row(r))
			if j.drafts {
				sc.drafts[row+r].Add(int32(j.m.first+first*rowsPerTile), y.row(r))
			}
		}
	}
}

// passes computes n rows of a chunk, from row on. y is of the first row and tile.
func (j *productJob) passes(sc *scratch, worker, chunk, row, n int, y view) {
	first := chunk % j.parts * j.tiles
	tile, end, limit := first, min(first+j.tiles, j.m.tiles()), j.limit
	if j.way == byPairs {
		limit = j.d.impl.most(j.passesBy(), j.m.format)
	}
	passes := (n + limit - 1) / limit
	if full := min(end, j.m.n/rowsPerTile); passes == 1 && full > tile && j.way != byExpanded && j.way != byWidened {
		ahead := nearAhead
		if n > j.d.impl.fewRows(j.m.format) {
			ahead = farAhead
		}
		j.pass(sc, tile, full, ahead, row, row+n, y)
		tile = full
	}
	for tile < end {
		j.unpack(sc, tile)
		next := tile + 1
		if j.way == byDot && j.d.impl.twoTiles(j.m.format) && next < min(end, j.m.n/rowsPerTile) {
			next++
		}
		// Passes of equal size: eight and eight rows rather than twelve and four.
		for p := range passes {
			r0, r1 := p*n/passes, (p+1)*n/passes
			ahead := 0 // the tile itself, which is in the cache already
			if p == 0 {
				if to := j.after(worker, chunk, next-1); to != next-1 {
					ahead = (to - tile) * j.m.tile
				}
			}
			j.pass(sc, tile, next, ahead, row+r0, row+r1, y.from(r0, (tile-first)*rowsPerTile))
		}
		tile = next
	}
}

// after is the tile that the worker will multiply after this one, as far as that is
// known. A tile that nobody has prefetched takes the time of several passes.
func (j *productJob) after(worker, chunk, tile int) int {
	if last := min((chunk%j.parts+1)*j.tiles, j.m.tiles()) - 1; tile < last {
		return tile + 1
	}
	next, ok := chunk+1, true
	if j.d.team.threads > 1 {
		next, ok = j.d.team.follow(worker)
		next -= j.base
	}
	// The next chunk may be of another product of the same job.
	if !ok || next < 0 || next >= j.blocks*j.parts || next%j.parts*j.tiles >= j.m.tiles() {
		return tile
	}
	return next % j.parts * j.tiles
}

// pass calls the kernel for rows [r0, r1) and tiles [t0, t1), whose results start at
// y, and has it prefetch the memory that is so many bytes ahead. Where the matrix
// ends within the last tile, that tile has a pass of its own.
func (j *productJob) pass(sc *scratch, t0, t1, distance, r0, r1 int, y view) {
	m := j.m
	offs, ahead := sc.offs[:t1-t0], sc.ahead[:t1-t0]
	for u := range offs {
		offs[u] = (t0 + u) * m.tile
		ahead[u] = min(offs[u]+distance, len(m.data)-m.tile)
	}
	// The results end where the last row's do, so that an index that is wrong
	// panics in Go before a kernel writes.
	out, ldy := y.data, y.stride
	columns := m.n - t0*rowsPerTile
	cut := columns < (t1-t0)*rowsPerTile
	if cut { // beside the matrix's columns are somebody else's
		out, ldy = sc.edge, rowsPerTile
	}
	out = out[:(r1-r0-1)*ldy+(t1-t0)*rowsPerTile]
	var bias []float32
	if m.bias != nil {
		bias = m.bias[t0*rowsPerTile : t1*rowsPerTile]
	}
	j.call(sc, offs, ahead, r0, r1, out, ldy, bias)
	if cut {
		for r := range r1 - r0 {
			copy(y.data[r*y.stride:][:columns], out[r*rowsPerTile:])
		}
	}
}
