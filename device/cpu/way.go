package cpu

import (
	"math"
	"unsafe"
)

// way is how a matrix is multiplied.
type way uint8

const (
	byMul      way = iota // impl.mul: both operands as they are
	byDot                 // impl.dot: rounded rows
	byPairs               // impl.pairs: the same, for many rows
	byBlocks              // blocks.dot: the same for tiles of blocks
	byExpanded            // the same in two steps: blocks.expand, then blocks.dotExpanded
	byWidened             // tiles of blocks as float32, then impl.mul
)

// way is how m is multiplied with n rows. It changes no bit of the result, but for byWidened,
// which the configuration asks for.
func (im *impl) way(m *matrix, n int) way {
	switch {
	case m.exact:
		return byWidened
	case im.byPairs(m.format, n):
		return byPairs
	case m.format.blocks() != nil && (n <= im.most(byBlocks, m.format) || im.most(byExpanded, m.format) < 0):
		return byBlocks
	case m.format.blocks() != nil:
		return byExpanded
	case m.format != FP8 && im.dot[m.format] != nil:
		return byDot
	}
	return byMul
}

// most is how many rows a kernel takes.
func (im *impl) most(w way, f Format) int {
	switch w {
	case byDot:
		return len(im.dot[f]) - 1
	case byPairs:
		return len(im.pairs.dot) - 1
	case byBlocks:
		return len(im.blocks.dot[f-firstBlocks]) - 1
	case byExpanded:
		return len(im.blocks.dotExpanded[f-firstBlocks]) - 1
	case byMul:
		return len(im.products(f)) - 1
	}
	return len(im.mul[F32]) - 1
}

// twoTiles reports whether kernels of impl.dot multiply two tiles at once, even if there are
// more rows than they take.
func (im *impl) twoTiles(f Format) bool { return len(im.dot[f])-1 > 16 }

// expandable is how blocks of f are expanded. Tiles of Q8 and Q4 can be read like the others.
func (f Format) expandable() *blockSpec {
	switch f {
	case Q8:
		return &q8Blocks
	case Q4:
		return &q4Blocks
	}
	return f.blocks()
}

// expectBlocks takes memory for tiles of w that are expanded or widened.
func (d *Device) expectBlocks(w *matrix) error {
	s := w.format.expandable()
	if w.format == W8A8 {
		s = &q8Blocks // which are as wide
	}
	if s == nil || !d.planned {
		return nil
	}
	blocks := s.units(w.k) * s.unit
	for i := range d.scratch {
		sc := &d.scratch[i]
		var err error
		switch way := d.impl.way(w, math.MaxInt); {
		case way == byExpanded, way == byPairs && w.format != Q8:
			err = d.grow(&sc.blocks, blocks*s.kind.size())
		case way == byWidened:
			err = d.grow(&sc.wide, blocks*blockColumns*codeLine)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// grow makes b at least n bytes. What it was is not used any more, and there are only a few
// widths of matrices.
func (d *Device) grow(b *[]byte, n int) (err error) {
	if len(*b) < n {
		*b, err = d.mem.bytes(n)
		d.memory.Scratch += int64(n)
	}
	return err
}

// passesBy is how passes are computed: by pairs, which take all rows, is none.
func (j *productJob) passesBy() way {
	switch {
	case j.way != byPairs:
		return j.way
	case j.m.format == Q8:
		return byDot
	}
	return byExpanded
}

// unpack prepares a tile for passes over it.
func (j *productJob) unpack(sc *scratch, tile int) {
	if way := j.passesBy(); way != byExpanded && way != byWidened {
		return
	}
	m := j.m
	s, data := m.format.expandable(), m.data[tile*m.tile:][:m.tile]
	if m.format == W8A8 {
		widenWhole(sc.wide, data, groups(m.k))
		return
	}
	units := s.units(m.k)
	k := &j.d.impl.blocks
	if j.passesBy() == byExpanded {
		k.expand[m.format-firstBlocks](sc.blocks, data, units)
		return
	}
	k.widen[m.format](sc.wide, data, units)
}

// call has the kernel of a pass compute rows [r0, r1). Where a tile is unpacked, it is the
// only one.
func (j *productJob) call(sc *scratch, offs, ahead []int, r0, r1 int, out []float32, ldy int, bias []float32) {
	m, im := j.m, j.d.impl
	f := m.format
	if j.q == nil {
		x := j.x.data[r0*j.x.stride : (r1-1)*j.x.stride+m.k]
		if j.way == byWidened {
			offs[0], ahead[0] = 0, distance(sc.wide, m.data, ahead[0])
			im.mul[F32][r1-r0](sc.wide, offs, ahead, m.k, x, j.x.stride, out, ldy, bias)
			return
		}
		im.products(f)[r1-r0](m.data, offs, ahead, m.k, x, j.x.stride, out, ldy, bias)
		return
	}
	n := f.steps(m.k)
	x := j.q[r0*j.ldq : (r1-1)*j.ldq+f.rowSteps(n)]
	switch j.passesBy() {
	case byDot:
		im.dot[f][r1-r0](m.data, offs, ahead, n, x, j.ldq, out, ldy, bias)
	case byBlocks:
		im.blocks.dot[f-firstBlocks][r1-r0](m.data, offs, ahead, f.blocks().units(m.k), x, j.ldq, out, ldy, bias)
	case byExpanded:
		n = f.blocks().units(m.k) * f.blocks().unit
		step := m.tile / (n * codeLines)
		im.blocks.dotExpanded[f-firstBlocks][r1-r0](sc.blocks, distance(sc.blocks, m.data, ahead[0]), step, n, x, j.ldq, out, ldy, bias)
	}
}

// distance is the offset, from the beginning of from, of byte at of to, which is in other
// memory that the garbage collector does not move either.
func distance(from, to []byte, at int) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(to))) - uintptr(unsafe.Pointer(unsafe.SliceData(from))) + uintptr(at)) //nolint:gosec
}
