package cpu

import (
	"weir/model"
)

// input holds the rows of one activation as impl.dot wants them, for the product
// that comes next. The operation that writes a buffer which the model.Shape calls a
// Factor quantizes each row while it is in the first-level cache. Rows of other
// buffers, and those that other operations write, are quantized by the product.
type input struct {
	data     []byte // [MaxTokens, stride]
	stride   int
	quantize func(dst []byte, x []float32)
	of       model.Act // what it holds; width 0: nothing
	used     bool      // a loaded matrix is multiplied by impl.dot
}

// allocate takes memory for rows of every width there is, if products may need
// it.
func (in *input) allocate(mem *arena, im *impl, f Format, s model.Shape) error {
	if f == Auto {
		f = BF16 // what is not is multiplied as it is
	}
	if im.dot[f] == nil {
		return nil
	}
	switch f {
	case BF16:
		in.quantize = im.narrow
	case W8A8:
		in.quantize = im.quantizeAll
	default:
		in.quantize = im.quantize
	}
	for _, a := range s.Acts {
		in.stride = max(in.stride, f.rowBytes(a.Width))
	}
	size, err := sizeOf(s.Spec.MaxTokens, in.stride)
	if err != nil {
		return err
	}
	in.data, err = mem.bytes(size)
	return err
}

// row is the quantized form of row r.
func (in *input) row(r int) []byte { return in.data[r*in.stride:][:in.stride:in.stride] }

// written is the view of an activation that is about to be written by an
// operation that does not quantize.
func (d *Device) written(a model.Act) view {
	if a.Buf == d.input.of.Buf {
		d.input.of.Width = 0
	}
	return d.view(a)
}

// produced is the view of an activation that is about to be written, and
// whether its rows are to be quantized as they are.
func (d *Device) produced(a model.Act) (view, bool) {
	v := d.written(a)
	if !d.input.used || !d.acts[a.Buf].factor {
		return v, false
	}
	d.input.of = a
	return v, true
}

// quantize has the rows of a in d.input.
func (d *Device) quantize(a model.Act) {
	if d.input.of == a {
		return
	}
	j := &d.inputJob
	j.x, j.n = d.view(a), d.rows(a)
	d.input.of = a
	j.per = max(serialRows/(2*a.Width), j.n/(d.team.threads*chunksPerWorker), 1)
	if chunks := (j.n + j.per - 1) / j.per; chunks > 0 {
		d.team.run(1, chunks, j)
	}
}

// inputJob quantizes some rows per chunk.
type inputJob struct {
	d      *Device
	x      view
	n, per int
}

func (j *inputJob) do(_, chunk int) {
	for r := chunk * j.per; r < min(j.n, (chunk+1)*j.per); r++ {
		j.d.input.quantize(j.d.input.row(r), j.x.row(r))
	}
}
