package cpu

import (
	"fmt"

	"weir/model"
)

const (
	// serialWork is the number of multiplications below which waking others
	// costs more than they save.
	serialWork = 1 << 16
	// chunksPerWorker balances claims against the wait for the last chunk.
	chunksPerWorker = 8
	// cachedInput bounds the rows of x, in bytes, that are taken through all
	// tiles of a chunk: they stay in the second-level cache.
	cachedInput = 576 << 10
	// maxTilesPerCall and maxBytesPerCall keep one kernel call, which cannot be
	// preempted, far below the collector's patience.
	maxTilesPerCall = 64
	maxBytesPerCall = 512 << 10
	// nearAhead and farAhead are how far in front a tile that is read once is
	// prefetched. With few rows the processor sees the stream by itself, and much
	// farther ahead costs a quarter of the memory's speed on Zen 4. With more
	// rows it finds too few loads among the multiplications, and without a far
	// prefetch half of the time is spent waiting.
	nearAhead, farAhead = 1 << 10, 8 << 10
)

// fewRows is up to how many rows nearAhead is better, measured on Zen 4: about
// where a line's multiplications take as long as its way from memory.
func (f Format) fewRows() int {
	switch f {
	case Q4: // twice the numbers of a line of Q8
		return 2
	case F16, BF16:
		return 5
	}
	return 4
}

// MatMul implements model.Device.
func (d *Device) MatMul(dst model.Act, w model.Weight, src model.Act) {
	m := &d.params[w].mat
	if src.Width != m.k || dst.Width != m.n {
		panic(fmt.Sprintf("cpu: MatMul of [%d, %d] with rows of %d into rows of %d", m.n, m.k, src.Width, dst.Width))
	}
	if d.impl.dot[m.format] != nil {
		d.quantize(src)
	}
	y := d.written(dst)
	d.mul(y, m, d.view(src), 0, d.rows(src))
}

// mul writes x·mᵀ + bias to n rows of y: row r of y from row from+r of x, which
// lie in d.input if the kernel is impl.dot.
func (d *Device) mul(y view, m *matrix, x view, from, n int) {
	d.mulJob.drafts = false
	d.product(y, m, x, from, n, maxTilesPerCall)
}

// product is mul with so many tiles per chunk at most.
func (d *Device) product(y view, m *matrix, x view, from, n, most int) {
	if n == 0 {
		return
	}
	j := &d.mulJob
	j.y, j.m, j.x, j.n = y, m, x, n
	j.x.data = x.data[from*x.stride:]
	j.quantized = d.impl.dot[m.format] != nil
	rowSize := 4 * m.k
	j.limit = len(d.impl.mul[F32]) - 1
	if j.quantized {
		rowSize = d.input.stride
		j.q, j.ldq = d.input.data[from*rowSize:], rowSize
		j.limit = len(d.impl.dot[m.format]) - 1
	}
	// Whole passes: kernels of fewer rows load as many weights.
	cached := max(1, cachedInput/rowSize/j.limit)
	passes := (n + j.limit - 1) / j.limit
	j.blocks = (passes + cached - 1) / cached
	j.block = (passes + j.blocks - 1) / j.blocks * j.limit

	tiles := m.tiles()
	j.tiles = max(1, min(tiles/(d.team.threads*chunksPerWorker), most, maxBytesPerCall/m.tile))
	j.parts = (tiles + j.tiles - 1) / j.tiles
	if n*m.n*m.k < serialWork {
		for c := range j.blocks * j.parts {
			j.do(0, c)
		}
		return
	}
	d.team.grid(j.blocks, j.parts, j)
}

// mulJob is a matrix product cut into chunks of some rows by some tiles. A
// chunk takes a range of tiles, and each of them through its rows: a tile is
// read from memory once, and the rows stay in the cache.
type mulJob struct {
	d         *Device
	y, x      view
	drafts    bool // of draws take the results, not y
	quantized bool
	q         []byte // the rows of x for impl.dot, ldq bytes apart
	ldq       int
	m         *matrix
	limit     int // rows that a kernel takes at most
	n         int // rows of x
	block     int // rows per chunk
	blocks    int
	tiles     int // tiles per chunk
	parts     int // chunks per block of rows
}

func (j *mulJob) do(worker, chunk int) {
	row := chunk / j.parts * j.block
	n := min(j.block, j.n-row)
	tile := chunk % j.parts * j.tiles
	end := min(tile+j.tiles, j.m.tiles())
	sc := &j.d.scratch[worker]
	if !j.drafts {
		j.compute(worker, chunk, j.y.from(row, tile*rowsPerTile), row, n, tile, end)
		return
	}
	first := tile * rowsPerTile
	y := view{data: sc.chunk, width: min(end*rowsPerTile, j.m.n) - first, stride: stride(j.tiles * rowsPerTile)}
	j.compute(worker, chunk, y, row, n, tile, end)
	for r := range n {
		sc.drafts[row+r].Add(int32(first), y.row(r))
	}
}

// compute writes the products of rows [row, row+n) and tiles [tile, end) to y,
// for a chunk.
func (j *mulJob) compute(worker, chunk int, y view, row, n, tile, end int) {
	sc := &j.d.scratch[worker]
	full := min(end, j.m.n/rowsPerTile)
	first := tile
	// at is where the result of a row and a tile belongs.
	at := func(r, t int) view { return y.from(r-row, (t-first)*rowsPerTile) }

	passes := (n + j.limit - 1) / j.limit
	if passes == 1 && full > tile {
		ahead := nearAhead
		if n > j.m.format.fewRows() {
			ahead = farAhead
		}
		j.call(sc, tile, full, ahead, row, row+n, at(row, tile))
		tile = full
	}
	for ; tile < end; tile++ {
		// Equal passes: eight and eight rather than twelve and four.
		for p := range passes {
			r0, r1 := row+p*n/passes, row+(p+1)*n/passes
			ahead := 0 // the tile itself, which is in the cache already
			if p == 0 {
				ahead = (j.after(worker, chunk, tile) - tile) * j.m.tile
			}
			if tile < full {
				j.call(sc, tile, tile+1, ahead, r0, r1, at(r0, tile))
			} else {
				j.edge(sc, tile, r0, r1, at(r0, tile))
			}
		}
	}
}

// after is the tile that the worker will take after this one, as far as that is
// known. A tile that nobody has prefetched takes several passes' time.
func (j *mulJob) after(worker, chunk, tile int) int {
	if last := min((chunk%j.parts+1)*j.tiles, j.m.tiles()) - 1; tile < last {
		return tile + 1
	}
	next, ok := chunk+1, true
	if j.d.team.threads > 1 {
		next, ok = j.d.team.follow(worker)
	}
	if !ok || next == j.blocks*j.parts {
		return tile
	}
	return next % j.parts * j.tiles
}

// call computes rows [r0, r1) with tiles [t0, t1), and meanwhile has the memory
// prefetched that lies so many bytes ahead.
func (j *mulJob) call(sc *scratch, t0, t1, distance, r0, r1 int, y view) {
	m := j.m
	offs, ahead := sc.offs[:t1-t0], sc.ahead[:t1-t0]
	for u := range offs {
		offs[u] = (t0 + u) * m.tile
		ahead[u] = min(offs[u]+distance, len(m.data)-m.tile)
	}
	// y ends where the last row's result ends, so that an index that is wrong
	// panics in Go before a kernel writes.
	out := y.data[:(r1-r0-1)*y.stride+(t1-t0)*rowsPerTile]
	j.kernel(offs, ahead, t0, t1, r0, r1, out, y.stride)
}

// edge computes the last tile when the matrix ends inside it: behind the
// result's columns lie somebody else's.
func (j *mulJob) edge(sc *scratch, tile, r0, r1 int, y view) {
	m := j.m
	sc.offs[0], sc.ahead[0] = tile*m.tile, tile*m.tile
	j.kernel(sc.offs[:1], sc.ahead[:1], tile, tile+1, r0, r1, sc.edge, rowsPerTile)
	for r := range r1 - r0 {
		copy(y.data[r*y.stride:][:m.n-tile*rowsPerTile], sc.edge[r*rowsPerTile:])
	}
}

// kernel multiplies rows [r0, r1) by tiles [t0, t1), which start at offs.
func (j *mulJob) kernel(offs, ahead []int, t0, t1, r0, r1 int, y []float32, ldy int) {
	m := j.m
	var bias []float32
	if m.bias != nil {
		bias = m.bias[t0*rowsPerTile : t1*rowsPerTile]
	}
	if j.quantized {
		n := m.format.steps(m.k)
		x := j.q[r0*j.ldq : (r1-1)*j.ldq+m.format.rowSteps(n)]
		j.d.impl.dot[m.format][r1-r0](m.data, offs, ahead, n, x, j.ldq, y, ldy, bias)
		return
	}
	x := j.x.data[r0*j.x.stride : (r1-1)*j.x.stride+m.k]
	j.d.impl.mul[m.format][r1-r0](m.data, offs, ahead, m.k, x, j.x.stride, y, ldy, bias)
}
