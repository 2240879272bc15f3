//go:build cuda && linux && amd64

package cuda

import (
	"fmt"

	"weir/model"
)

// What the kernel elements does.
const (
	elementsActivate = iota
	elementsGate
	elementsAdd
	elementsScale
	elementsCap
)

// The bits of types: rows that are float32.
const (
	wideDst = 1 << iota
	wideSrc
	wideGate
)

// elementCols are the columns of a block of elements and act_gate.
const elementCols = 1024

// wide is bit if a's numbers are float32.
func (d *Device) wide(a model.Act, bit int) int {
	if d.sum(a) {
		return bit
	}
	return 0
}

// elements queues a function of single numbers.
func (d *Device) elements(op int, dst, src, gate model.Act, scale float32, a model.Activation) {
	if !(dst.Width == src.Width && gate.Width > 0 && src.Width%gate.Width == 0) {
		panic(fmt.Sprintf("cuda: a function of rows of %d and %d into rows of %d", src.Width, gate.Width, dst.Width))
	}
	y, ldy := d.act(dst)
	x, ldx := d.act(src)
	g, ldg := d.act(gate)
	types := d.wide(dst, wideDst) | d.wide(src, wideSrc) | d.wide(gate, wideGate)
	d.launch("elements", d.rows(dst), cdiv(dst.Width, elementCols), 1, y, x, g, i32(op), i32(dst.Width), i32(src.Width/gate.Width),
		i32(ldy), i32(ldx), i32(ldg), i32(types), f32(scale), i32(int(a.Kind)), f32(a.Alpha), f32(a.Beta), f32(a.Limit), f32(a.UpPlus))
}

// Activate implements model.Device.
func (d *Device) Activate(dst, src model.Act, a model.Activation) {
	d.elements(elementsActivate, dst, src, src, 1, a)
}

// Gate implements model.Device.
func (d *Device) Gate(dst, src, gate model.Act, a model.Activation) {
	d.elements(elementsGate, dst, src, gate, 1, a)
}

// Add implements model.Device.
func (d *Device) Add(dst, src model.Act, scale float32) {
	d.elements(elementsAdd, dst, src, src, scale, model.Activation{})
}

// Scale implements model.Device.
func (d *Device) Scale(dst, src model.Act, scale float32) {
	d.elements(elementsScale, dst, src, src, scale, model.Activation{})
}

// headed scales and caps rows of logits where the head asks for it.
func (d *Device) headed(h model.Head, rows int) {
	w, v := &d.work, d.shape.Spec.VocabSize
	op := elementsScale
	switch {
	case h.Softcap != 0:
		op = elementsCap
	case h.Scale == 1:
		return
	}
	d.launch("elements", rows, cdiv(v, elementCols), 1, w.logits, w.logits, w.logits, i32(op), i32(v), i32(1),
		i32(w.ld), i32(w.ld), i32(w.ld), i32(wideDst|wideSrc), f32(h.Scale), i32(0), f32(0), f32(0), f32(h.Softcap), f32(0))
}

// Norm implements model.Device. rmsnorm is for the norm that every decoder has, norm_rows for all others.
func (d *Device) Norm(dst, src model.Act, n model.Norm) {
	x, ldx := d.act(src)
	y, ldy := d.act(dst)
	size := n.Size
	if size == 0 {
		size = dst.Width
	}
	w, each := d.normWeights(n.W, size, dst.Width)
	b, eachBias := d.normWeights(n.B, size, dst.Width)
	if !(dst.Width == src.Width && dst.Width%size == 0 && (n.W == model.NoWeight || n.B == model.NoWeight || each == eachBias)) {
		panic(fmt.Sprintf("cuda: Norm of rows of %d into rows of %d, in groups of %d", src.Width, dst.Width, size))
	}
	if n.Kind == model.RMSNorm && n.W != model.NoWeight && size == dst.Width && n.Gate.Width == 0 && d.sum(src) && !d.sum(dst) && src.Off%4 == 0 && dst.Off%4 == 0 {
		d.launch("rmsnorm", d.rows(dst), 1, 1, y, x, w, i32(size), i32(ldx), i32(ldy), f32(n.Eps))
		return
	}
	var g uint64
	ldg, types := 0, d.wide(dst, wideDst)|d.wide(src, wideSrc)
	if n.Gate.Width > 0 {
		if n.Gate.Width != dst.Width {
			panic(fmt.Sprintf("cuda: Norm of rows of %d with a gate of %d", dst.Width, n.Gate.Width))
		}
		g, ldg = d.act(n.Gate)
		types |= d.wide(n.Gate, wideGate)
	}
	d.launch("norm_rows", d.rows(dst), dst.Width/size, 1, y, x, g, w, b, i32(size), i32(max(each, eachBias)), i32(ldy), i32(ldx), i32(ldg), i32(types),
		i32(flag(n.Kind == model.LayerNorm)), i32(flag(n.GateFirst)), f32(n.Eps), i32(int(n.GateBy.Kind)), f32(n.GateBy.Alpha), f32(n.GateBy.Beta), f32(n.GateBy.Limit), f32(n.GateBy.UpPlus))
}

// normWeights are the weights of a norm, and 1 if each column has its own though groups are normed.
func (d *Device) normWeights(w model.Weight, size, width int) (at uint64, each int) {
	if w == model.NoWeight {
		return 0, 0
	}
	p := &d.params[w]
	if p.n != size && p.n != width {
		panic(fmt.Sprintf("cuda: Norm of rows of %d in groups of %d with %d weights", width, size, p.n))
	}
	return p.data, flag(p.n != size)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}

// factor is what a product reads of a view: the view itself, or its rows rounded to bfloat16 in
// scratch memory if they are float32, begin where no vector of 16 bytes does, or end where a row's last
// vectors would reach into the next row.
func (d *Device) factor(a model.Act) (x uint64, ld int) {
	x, ld = d.act(a)
	if to := int(roundUp(int64(a.Width), actAlign)); !d.sum(a) && a.Off%8 == 0 && a.Off+to <= ld {
		return x, ld
	}
	w := &d.work
	to := int(roundUp(int64(a.Width), actAlign))
	if to > w.roundedLD {
		panic(fmt.Sprintf("cuda: a product of float32 rows of %d in a network without pieces", a.Width))
	}
	d.launch("elements", d.rows(a), cdiv(a.Width, elementCols), 1, w.rounded, x, x, i32(elementsScale), i32(a.Width), i32(1),
		i32(to), i32(ld), i32(ld), i32(d.wide(a, wideSrc)), f32(1), i32(0), f32(0), f32(0), f32(0), f32(0))
	return w.rounded, to
}
