package cpu

import (
	"fmt"
	"math"

	"weir/model"
)

// activate is a function of one number for which there is no kernel.
func activate(k model.ActivationKind, x float32) float32 {
	switch k {
	case model.Identity:
		return x
	case model.ReLU:
		return max(x, 0)
	case model.Tanh:
		return float32(math.Tanh(float64(x)))
	}
	panic(fmt.Sprintf("cpu: activation %d", k))
}

// gated is what a gated product makes of a gate and its partner.
func gated(f *function, gate, up float32) float32 {
	if f.Limit > 0 {
		gate, up = min(gate, f.Limit), min(max(up, -f.Limit), f.Limit)
	}
	return f.of(gate) * (up + f.UpPlus)
}

// plainSiLU reports whether a is the activation for which tiers have kernels.
func plainSiLU(a model.Activation) bool { return a == model.Activation{Kind: model.SiLU} }

// MatMulGate implements model.Device.
func (d *Device) MatMulGate(dst model.Act, w model.Weight, src, scratch model.Act, a model.Activation) {
	if scratch.Width != 2*dst.Width || scratch.Buf == dst.Buf || scratch.Buf == src.Buf {
		panic(fmt.Sprintf("cpu: MatMulGate of rows of %d into rows of %d", scratch.Width, dst.Width))
	}
	d.MatMul(scratch, w, src)
	y, quantize := d.produced(dst)
	d.eachRow(rowJob{op: gateRow, dst: y, src: d.view(scratch), act: functionOf(a, true), quantize: quantize}, d.rows(dst), 8*dst.Width)
}

func gateRow(j *rowJob, r int) {
	y, x := j.dst.row(r), j.src.row(r)
	j.d.gate(y, x[:len(y)], x[len(y):], &j.act)
	j.finish(r)
}

// gate writes act(gate)*up.
func (d *Device) gate(y, gate, up []float32, f *function) {
	switch {
	case plainSiLU(f.Activation):
		d.impl.gate(y, gate, up)
	case !f.loop:
		d.impl.apply(y, gate, up, f)
	default:
		for i, g := range gate[:len(y)] {
			y[i] = gated(f, g, up[i])
		}
	}
}

// Activate implements model.Device.
func (d *Device) Activate(dst, src model.Act, a model.Activation) {
	if dst.Width != src.Width {
		panic(fmt.Sprintf("cpu: Activate of rows of %d into rows of %d", src.Width, dst.Width))
	}
	x := d.view(src)
	y, quantize := d.produced(dst)
	d.eachRow(rowJob{op: activateRow, dst: y, src: x, act: functionOf(a, false), quantize: quantize}, d.rows(dst), 4*dst.Width)
}

func activateRow(j *rowJob, r int) {
	if j.act.Kind == model.Clip {
		y := j.dst.row(r)
		for i, x := range j.src.row(r) {
			y[i] = min(max(x, -j.act.Limit), j.act.Limit)
		}
		j.finish(r)
		return
	}
	j.d.impl.apply(j.dst.row(r), j.src.row(r), nil, &j.act)
	j.finish(r)
}

// Gate implements model.Device.
func (d *Device) Gate(dst, src, gate model.Act, a model.Activation) {
	if dst.Width != src.Width || gate.Width == 0 || src.Width%gate.Width != 0 {
		panic(fmt.Sprintf("cpu: Gate of rows of %d by %d into rows of %d", src.Width, gate.Width, dst.Width))
	}
	x, g := d.view(src), d.view(gate)
	y, quantize := d.produced(dst)
	d.eachRow(rowJob{op: mulRow, dst: y, src: x, gate: g, act: functionOf(a, false), quantize: quantize}, d.rows(dst), 4*dst.Width)
}

func mulRow(j *rowJob, r int) {
	y, x, g := j.dst.row(r), j.src.row(r), j.gate.row(r)
	if each := len(y) / len(g); each > 1 {
		for i, v := range g {
			j.d.impl.scale(y[i*each:(i+1)*each], x[i*each:(i+1)*each], j.act.of(v))
		}
	} else {
		j.d.impl.apply(y, g, x, &j.act)
	}
	j.finish(r)
}

// Add implements model.Device.
func (d *Device) Add(dst, src model.Act, scale float32) {
	if dst.Width != src.Width {
		panic(fmt.Sprintf("cpu: Add of rows of %d to rows of %d", src.Width, dst.Width))
	}
	op := addRow
	if scale != 1 {
		op = addScaledRow
	}
	d.eachRow(rowJob{op: op, dst: d.written(dst), src: d.view(src), eps: scale}, d.rows(dst), dst.Width)
}

func addScaledRow(j *rowJob, r int) {
	y := j.dst.row(r)
	for i, x := range j.src.row(r) {
		y[i] += float32(x * j.eps)
	}
}

// Scale implements model.Device.
func (d *Device) Scale(dst, src model.Act, scale float32) {
	if dst.Width != src.Width {
		panic(fmt.Sprintf("cpu: Scale of rows of %d into rows of %d", src.Width, dst.Width))
	}
	x := d.view(src)
	y, quantize := d.produced(dst)
	d.eachRow(rowJob{op: scaleRow, dst: y, src: x, eps: scale, quantize: quantize}, d.rows(dst), dst.Width)
}

func scaleRow(j *rowJob, r int) {
	if j.eps == 1 {
		copy(j.dst.row(r), j.src.row(r))
	} else {
		j.d.impl.scale(j.dst.row(r), j.src.row(r), j.eps)
	}
	j.finish(r)
}

// EmbedAdd implements model.Device.
func (d *Device) EmbedAdd(dst model.Act, w model.Weight, by model.Index, offset int) {
	e := &d.params[w].embed
	if dst.Width != e.width {
		panic(fmt.Sprintf("cpu: EmbedAdd of rows of %d to rows of %d", e.width, dst.Width))
	}
	if n := d.shape.Spec.MaxTokens * addPart; len(e.add) < n {
		e.add = make([]float32, n) // once
	}
	d.eachRow(rowJob{op: embedAddRow, dst: d.written(dst), embed: e, by: by, offset: offset}, len(d.batch.Tokens), dst.Width)
}

// addPart is how many columns of an embedding are read at a time.
const addPart = 256

func embedAddRow(j *rowJob, r int) {
	id := j.offset
	switch b := j.d.batch; {
	case j.by == model.ByPosition:
		id += int(b.Pos[r])
	case len(b.Types) > 0:
		id += int(b.Types[r])
	}
	y := j.dst.row(r)
	part := j.embed.add[r*addPart:][:addPart]
	for at := 0; at < len(y); at += len(part) {
		n := min(len(part), len(y)-at)
		if err := j.embed.readPart(part[:n], id, at); err != nil {
			j.d.failed.set(err)
			return
		}
		for i, v := range part[:n] {
			y[at+i] += v
		}
	}
}
