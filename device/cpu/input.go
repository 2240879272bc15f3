package cpu

import (
	"unsafe"

	"weir/model"
)

// rounding is how rows are rounded for a product.
type rounding uint8

const (
	unrounded rounding = iota // impl.mul takes them as they are
	toPairs                   // bfloat16: impl.narrow
	toBlocks                  // Q8 and Q4: impl.quantize
	toWhole                   // W8A8: impl.quantizeAll
	toSums                    // types of blocks: impl.blocks.round
	roundings
)

// rounding is how rows are rounded that are multiplied with weights of format f.
func (im *impl) rounding(f Format) rounding {
	switch {
	case f.blocks() != nil:
		return toSums
	case f == FP8 || im.dot[f] == nil:
		return unrounded
	case f == BF16:
		return toPairs
	case f == W8A8:
		return toWhole
	}
	return toBlocks
}

// round rounds row x in the way r.
func (im *impl) round(r rounding, dst []byte, x []float32) {
	switch r {
	case toPairs:
		im.narrow(dst, x)
	case toBlocks:
		im.quantize(dst, x)
	case toWhole:
		im.quantizeAll(dst, x)
	case toSums:
		im.blocks.round(dst, x)
	}
}

// input holds the rows of one activation as impl.dot wants them, for the product
// that comes next. The operation that writes a buffer which the model.Shape calls a
// Factor rounds each row while it is in the first-level cache, in the way that most
// weights want. Rows of other buffers, those that other operations write, and those that
// are wanted in another way are rounded by the product.
type input struct {
	data   []byte // [MaxTokens, stride], or as many rows as experts compute at once
	stride int
	of     model.Act // what it holds; width 0: nothing
	how    rounding  // how it was rounded
	order  []int32   // the order of its columns; nil: as they are

	usual  rounding         // what most weights want
	wanted [roundings]int64 // bytes of weights that want each
}

// expect is told of every matrix that is loaded. The first that wants rounded rows has
// memory taken for them.
func (in *input) expect(d *Device, w *matrix) error {
	how := d.impl.rounding(w.format)
	if how == unrounded || w.exact {
		return nil
	}
	if w.order != nil && d.planned {
		for i := range d.scratch {
			if err := d.scratch[i].expectOrder(d, w.k); err != nil {
				return err
			}
		}
	}
	in.wanted[how] += int64(len(w.data))
	if in.usual == unrounded || in.wanted[how] > in.wanted[in.usual] {
		in.usual = how
	}
	if in.data != nil || !d.planned {
		return nil
	}
	for _, a := range d.acts {
		in.stride = max(in.stride, d.impl.rowBytes(d.cfg.WeightType, a.width))
	}
	size, err := sizeOf(max(d.shape.Spec.MaxTokens, d.experts.room), in.stride)
	if err != nil {
		return err
	}
	in.data, err = d.mem.bytes(size)
	d.memory.Scratch += int64(size)
	return err
}

// expectOrder takes memory for a row of k columns in another order.
func (sc *scratch) expectOrder(d *Device, k int) (err error) {
	if len(sc.ordered) < k {
		sc.ordered, err = d.mem.floats(k)
		d.memory.Scratch += 4 * int64(k)
	}
	return err
}

// row is the rounded form of row r.
func (in *input) row(r int) []byte { return in.data[r*in.stride:][:in.stride:in.stride] }

// written is the view of an activation that is about to be written by an
// operation that does not round.
func (d *Device) written(a model.Act) view {
	if a.Buf == d.input.of.Buf {
		d.input.of.Width = 0
	}
	return d.view(a)
}

// produced is the view of an activation that is about to be written, and
// whether its rows are to be rounded as they are.
func (d *Device) produced(a model.Act) (view, bool) {
	v := d.written(a)
	if d.input.usual == unrounded || !d.acts[a.Buf].factor {
		return v, false
	}
	d.input.of, d.input.how, d.input.order = a, d.input.usual, nil
	return v, true
}

// quantize has the rows of a in d.input, with their columns in this order, and rounded in the
// given way.
func (d *Device) quantize(a model.Act, how rounding, order []int32) {
	if d.input.of == a && d.input.how == how && unsafe.SliceData(d.input.order) == unsafe.SliceData(order) {
		return
	}
	j := &d.inputJob
	j.x, j.n = d.view(a), d.rows(a)
	d.input.of, d.input.how, d.input.order = a, how, order
	j.per = max(serialRows/(2*a.Width), j.n/(d.team.threads*chunksPerWorker), 1)
	if chunks := (j.n + j.per - 1) / j.per; chunks > 0 {
		d.team.run(1, chunks, j)
	}
}

// inputJob rounds some rows per chunk.
type inputJob struct {
	d      *Device
	x      view
	n, per int
}

func (j *inputJob) do(worker, chunk int) {
	in := &j.d.input
	for r := chunk * j.per; r < min(j.n, (chunk+1)*j.per); r++ {
		x := j.x.row(r)
		if in.order != nil {
			ordered := j.d.scratch[worker].ordered[:len(x)]
			for i, k := range in.order {
				ordered[i] = x[k]
			}
			x = ordered
		}
		j.d.impl.round(in.how, in.row(r), x)
	}
}
