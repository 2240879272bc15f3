package cpu

import (
	"fmt"
	"math"

	"weir/model"
)

// Norm implements model.Device.
func (d *Device) Norm(dst, src model.Act, n model.Norm) {
	size := n.Size
	if size == 0 {
		size = dst.Width
	}
	j := rowJob{op: normRow, norm: normOf{Norm: n, size: size}, src: d.view(src)}
	if dst.Width != src.Width || dst.Width%size != 0 || n.Gate.Width != 0 && n.Gate.Width != dst.Width {
		panic(fmt.Sprintf("cpu: Norm of rows of %d, by %d, into rows of %d", src.Width, size, dst.Width))
	}
	j.norm.w, j.norm.b = d.vector(n.W, size, dst.Width), d.vector(n.B, size, dst.Width)
	if n.Gate.Width != 0 {
		j.gate, j.act = d.view(n.Gate), functionOf(n.GateBy, false)
	}
	if n.Kind == model.RMSNorm && size == dst.Width && n.Gate.Width == 0 && j.norm.w != nil && j.norm.b == nil {
		j.op, j.vec, j.eps = plainNormRow, j.norm.w, n.Eps
	}
	j.dst, j.quantize = d.produced(dst)
	d.eachRow(j, d.rows(dst), 2*dst.Width)
}

// vector finds the weights of a norm, as many as it norms together or as the row has; nil: there
// are none.
func (d *Device) vector(w model.Weight, size, width int) []float32 {
	if w == model.NoWeight {
		return nil
	}
	v := d.params[w].vec
	if len(v) != size && len(v) != width {
		panic(fmt.Sprintf("cpu: Norm of rows of %d, by %d, with %d weights", width, size, len(v)))
	}
	return v
}

// normOf is a norm with its weights.
type normOf struct {
	model.Norm
	size int
	w, b []float32
}

// plainNormRow is the norm that nearly every network has.
func plainNormRow(j *rowJob, r int) {
	j.d.impl.norm(j.dst.row(r), j.src.row(r), j.vec, j.eps)
	j.finish(r)
}

func normRow(j *rowJob, r int) {
	n, y, x := &j.norm, j.dst.row(r), j.src.row(r)
	var gate []float32
	if n.Gate.Width != 0 {
		gate = j.gate.row(r)
	}
	if n.Kind > model.LayerNorm {
		n.wholeRow(j.d.impl, y, x, gate)
		j.finish(r)
		return
	}
	for at := 0; at < len(y); at += n.size {
		group := y[at:][:n.size]
		part := x[at:][:n.size]
		if gate != nil && n.GateFirst {
			j.d.impl.apply(group, gate[at:][:n.size], part, &j.act)
			part = group
		}
		w, b := n.w, n.b
		if len(w) > n.size {
			w = w[at:][:n.size]
		}
		if len(b) > n.size {
			b = b[at:][:n.size]
		}
		switch {
		case n.Kind == model.LayerNorm:
			layerNorm(group, part, w, b, n.Eps)
		case w == nil:
			j.d.impl.normPlain(group, part, n.Eps)
		default:
			j.d.impl.norm(group, part, w, n.Eps)
		}
		if gate != nil && !n.GateFirst {
			j.d.impl.apply(group, gate[at:][:n.size], group, &j.act)
		}
	}
	j.finish(r)
}

// wholeRow writes what the kinds of norms behind LayerNorm make of x to y, which may be x.
func (n *normOf) wholeRow(im *impl, y, x, gate []float32) {
	switch n.Kind {
	case model.Weighted:
		for i, w := range n.w {
			y[i] = x[i] * w
		}
	case model.Above:
		mean, deviation := spread(x)
		cut := float32(mean + float64(n.Cut)*deviation)
		for i, v := range x {
			y[i] = max(v-cut, 0)
		}
	case model.Matched:
		size := float32(len(x))
		im.scale(y, x, float32(math.Sqrt(float64(im.sumSquares(gate)/size)/float64(max(im.sumSquares(x)/size, n.Eps)))))
	}
}

// spread is the mean and the standard deviation. Sums are float64, as those of layerNorm.
func spread(x []float32) (mean, deviation float64) {
	for _, v := range x {
		mean += float64(v)
	}
	mean /= float64(len(x))
	for _, v := range x {
		deviation += (float64(v) - mean) * (float64(v) - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(x)))
}

// norm writes the RMSNorm of x to y, which may be x.
func (im *impl) norm(y, x, w []float32, eps float32) {
	mean := im.sumSquares(x) / float32(len(x))
	im.scaleMul(y, x, w, float32(1/math.Sqrt(float64(mean+eps))))
}

// normPlain is norm without weights.
func (im *impl) normPlain(y, x []float32, eps float32) {
	mean := im.sumSquares(x) / float32(len(x))
	im.scale(y, x, float32(1/math.Sqrt(float64(mean+eps))))
}

// layerNorm writes the norm of x about its mean to y, which may be x. Sums are float64, so that
// neither the mean of large numbers nor the order of additions matters.
func layerNorm(y, x, w, b []float32, eps float32) {
	sum := 0.0
	for _, v := range x {
		sum += float64(v)
	}
	mean := sum / float64(len(x))
	sum = 0
	for _, v := range x {
		sum += (float64(v) - mean) * (float64(v) - mean)
	}
	by := 1 / math.Sqrt(sum/float64(len(x))+float64(eps))
	for i, v := range x {
		z := float32((float64(v) - mean) * by)
		if w != nil {
			z *= w[i]
		}
		if b != nil {
			z += b[i]
		}
		y[i] = z
	}
}
