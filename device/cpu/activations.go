package cpu

import (
	"fmt"
	"math"

	"weir/model"
)

// activate is a function of one number. All tiers compute it in the same way, in float64 where
// float32 has no function, and round once.
func activate(a *model.Activation, x float32) float32 {
	v := float64(x)
	switch a.Kind {
	case model.Identity:
		return x
	case model.SiLU:
		alpha := 1.0
		if a.Alpha != 0 {
			alpha = float64(a.Alpha)
		}
		return float32(v / (1 + math.Exp(-alpha*v)))
	case model.GELU:
		return float32(v * 0.5 * math.Erfc(-v/math.Sqrt2))
	case model.GELUTanh:
		return float32(0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
	case model.ReLU:
		return max(x, 0)
	case model.ReLUSquared:
		return max(x, 0) * max(x, 0)
	case model.Sigmoid:
		return float32(1 / (1 + math.Exp(-v)))
	case model.Tanh:
		return float32(math.Tanh(v))
	case model.XIELU:
		p, n, beta, eps := float64(a.Alpha), float64(a.Beta), float64(a.Limit), float64(a.UpPlus)
		if x > 0 {
			return float32(p*v*v + beta*v)
		}
		return float32((math.Expm1(min(v, eps))-v)*n + beta*v)
	}
	panic(fmt.Sprintf("cpu: activation %d", a.Kind))
}

// gated is what a gated product makes of a gate and its partner.
func gated(a *model.Activation, gate, up float32) float32 {
	if a.Kind == model.XIELU {
		return activate(a, gate) * up
	}
	if a.Limit > 0 {
		gate, up = min(gate, a.Limit), min(max(up, -a.Limit), a.Limit)
	}
	return activate(a, gate) * (up + a.UpPlus)
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
	d.eachRow(rowJob{op: gateRow, dst: y, src: d.view(scratch), act: a, quantize: quantize}, d.rows(dst), 8*dst.Width)
}

func gateRow(j *rowJob, r int) {
	y, x := j.dst.row(r), j.src.row(r)
	j.d.gate(y, x[:len(y)], x[len(y):], &j.act)
	j.finish(r)
}

// gate writes act(gate)*up.
func (d *Device) gate(y, gate, up []float32, a *model.Activation) {
	if plainSiLU(*a) {
		d.impl.gate(y, gate, up)
		return
	}
	for i, g := range gate[:len(y)] {
		y[i] = gated(a, g, up[i])
	}
}

// Activate implements model.Device.
func (d *Device) Activate(dst, src model.Act, a model.Activation) {
	if dst.Width != src.Width {
		panic(fmt.Sprintf("cpu: Activate of rows of %d into rows of %d", src.Width, dst.Width))
	}
	x := d.view(src)
	y, quantize := d.produced(dst)
	d.eachRow(rowJob{op: activateRow, dst: y, src: x, act: a, quantize: quantize}, d.rows(dst), 16*dst.Width)
}

func activateRow(j *rowJob, r int) {
	y := j.dst.row(r)
	for i, x := range j.src.row(r) {
		y[i] = activate(&j.act, x)
	}
	j.finish(r)
}

// Gate implements model.Device.
func (d *Device) Gate(dst, src, gate model.Act, a model.Activation) {
	if dst.Width != src.Width || gate.Width == 0 || src.Width%gate.Width != 0 {
		panic(fmt.Sprintf("cpu: Gate of rows of %d by %d into rows of %d", src.Width, gate.Width, dst.Width))
	}
	x, g := d.view(src), d.view(gate)
	y, quantize := d.produced(dst)
	d.eachRow(rowJob{op: mulRow, dst: y, src: x, gate: g, act: a, quantize: quantize}, d.rows(dst), 16*dst.Width)
}

func mulRow(j *rowJob, r int) {
	y, x, g := j.dst.row(r), j.src.row(r), j.gate.row(r)
	each := len(y) / len(g)
	for i, v := range g {
		by := activate(&j.act, v)
		for k := i * each; k < (i+1)*each; k++ {
			y[k] = x[k] * by
		}
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
	d.eachRow(rowJob{op: embedAddRow, dst: d.written(dst), embed: e, by: by, offset: offset}, len(d.batch.Tokens), dst.Width)
}

func embedAddRow(j *rowJob, r int) {
	id := j.offset
	switch b := j.d.batch; {
	case j.by == model.ByPosition:
		id += int(b.Pos[r])
	case len(b.Types) > 0:
		id += int(b.Types[r])
	}
	y := j.dst.row(r)
	var part [256]float32
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
