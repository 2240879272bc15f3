package cpu

import (
	"fmt"
	"slices"
	"unsafe"

	"weir/model"
)

// groupJob multiplies the rows of several experts with the same matrix of each of them. It is one
// job, so that the threads share all tiles of all experts: a step of one row, which chooses eight
// experts, keeps them as busy as one whose rows choose all. A row of chunks is a block of the rows of
// one expert, and every matrix is cut into as many columns of chunks, so that a memory node has
// the same share of each.
type groupJob struct {
	d     *Device
	items []productJob // one for each expert that was chosen
	of    []int32      // [rows of chunks] which of items each belongs to
}

// do computes a chunk of an expert's product.
func (g *groupJob) do(worker, chunk int) {
	it := &g.items[g.of[chunk/g.items[0].parts]]
	if (chunk-it.base)%it.parts*it.tiles < it.m.tiles() { // others have more tiles
		it.do(worker, chunk-it.base)
	}
}

// wave is a run of experts whose entries fit the buffers at the same time.
type wave struct {
	first, end int   // experts
	from, to   int32 // their entries
}

// next is the wave that begins with this expert, of so many.
func (e *experts) next(first, count int) wave {
	w := wave{first: first, end: first, from: e.starts[first], to: e.starts[first]}
	for w.end < count && int(e.starts[w.end+1]-w.from) <= e.room {
		w.end++
		w.to = e.starts[w.end]
	}
	return w
}

// multiplyGroup computes one product of each expert of a wave.
func (d *Device) multiplyGroup(w wave, dst, src model.Act, layers []model.Weight, k, n int) {
	e, g := &d.experts, &d.groupJob
	y, x := d.written(dst), d.view(src)
	most := 0
	for i := w.first; i < w.end; i++ {
		l := &d.params[layers[i]].linear
		if l.k != k || l.n != n {
			panic(fmt.Sprintf("cpu: expert %d has [%d, %d] in place of [%d, %d]", i, l.n, l.k, n, k))
		}
		if e.starts[i] < e.starts[i+1] {
			most = max(most, len(l.parts))
		}
	}
	for p := range most {
		// Nearly always all matrices want their rows rounded in the same way, and this is one
		// job. Otherwise it is one for each run of experts that do.
		for i := w.first; i < w.end; {
			var how rounding
			var order []int32
			if i, how, order = d.collect(w, i, p, y, x, layers); len(g.items) > 0 {
				d.runGroup(src, how, order)
			}
		}
	}
}

// collect lists the products of part p of experts from number i on whose rows are rounded in one way, which
// it returns, with the number of the first expert that it leaves out.
func (d *Device) collect(w wave, i, p int, y, x view, layers []model.Weight) (end int, how rounding, order []int32) {
	e, g := &d.experts, &d.groupJob
	g.items, g.of = g.items[:0], g.of[:0]
	for ; i < w.end; i++ {
		first, rows := int(e.starts[i]-w.from), int(e.starts[i+1]-e.starts[i])
		l := &d.params[layers[i]].linear
		if rows == 0 || p >= len(l.parts) {
			continue
		}
		m := &l.parts[p]
		h := d.impl.rounding(m.format)
		if m.exact {
			h = unrounded
		}
		if len(g.items) > 0 && (h != how || unsafe.SliceData(m.order) != unsafe.SliceData(order)) {
			break
		}
		how, order = h, m.order
		g.items = append(g.items, productJob{d: d, m: m, n: rows, first: first, y: y.from(first, m.first), x: x.from(first, 0)})
	}
	return i, how, order
}

// runGroup runs the products of d.groupJob, whose rows are those of src rounded in this way.
func (d *Device) runGroup(src model.Act, how rounding, order []int32) {
	g := &d.groupJob
	if how != unrounded {
		d.quantize(src, how, order)
	}
	work := 0
	for i := range g.items {
		j := &g.items[i]
		d.productJob.product++
		j.product = d.productJob.product
		j.way = d.impl.way(j.m, j.n)
		if j.way != byMul && j.way != byWidened {
			j.q, j.ldq = d.input.data[j.first*d.input.stride:], d.input.stride
		}
		j.cutRows()
		for range j.blocks {
			g.of = append(g.of, int32(i))
		}
		work += j.n * j.m.n * j.m.k
	}
	parts := 1
	for i := range g.items {
		j := &g.items[i]
		tiles := j.m.tiles()
		j.tiles = max(1, min(tiles*len(g.of)/(d.team.threads*chunksPerWorker), tiles, j.mostTiles()))
		parts = max(parts, (tiles+j.tiles-1)/j.tiles)
	}
	base := 0
	for i := range g.items {
		j := &g.items[i]
		j.parts, j.base = parts, base
		j.tiles = (j.m.tiles() + parts - 1) / parts
		base += j.blocks * parts
	}
	if work < serialWork {
		// follow is for chunks that the threads share.
		for c := range base {
			g.do(0, c)
		}
		return
	}
	d.team.run(len(g.of), parts, g)
}

// reserve makes room for the products of a wave.
func (g *groupJob) reserve(experts, rows int) {
	g.items = slices.Grow(g.items, experts)
	g.of = slices.Grow(g.of, experts+rows)
}
