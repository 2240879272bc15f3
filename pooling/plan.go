package pooling

import (
	"fmt"
	"math"
	"slices"
)

// Kind says what is made of the vectors of a prompt, which the engine computes.
type Kind uint8

const (
	Last     Kind = iota // the vector of the last token
	First                // that of the first one, which BERT calls CLS
	Mean                 // the mean of all
	Max                  // the greatest of each component
	numKinds = iota
)

// Activation is a function of each component; Softmax is one of all of them.
type Activation uint8

const (
	Identity Activation = iota
	Tanh
	Sigmoid
	Softmax
	ReLU
	GELU // with the error function
)

// Dense is a layer y = f(W x + b), perhaps with a norm behind it.
type Dense struct {
	In, Out    int
	W          []float32 // [Out, In]
	B          []float32 // [Out]; nil: there is no bias
	Activation Activation
	Norm       *LayerNorm // nil: there is none
}

// LayerNorm is (x - mean(x)) / sqrt(variance(x) + Eps) * W + B.
type LayerNorm struct {
	W, B []float32 // [Out]; B nil: 0
	Eps  float32
}

// apply changes x in place. Mean and variance are float64.
func (n *LayerNorm) apply(x []float32) {
	sum, squares := 0.0, 0.0
	for _, v := range x {
		sum += float64(v)
	}
	mean := sum / float64(len(x))
	for _, v := range x {
		d := float64(v) - mean
		squares += float64(d * d)
	}
	scale := 1 / math.Sqrt(squares/float64(len(x))+float64(n.Eps))
	for i, v := range x {
		y := float64((float64(v)-mean)*scale) * float64(n.W[i])
		if n.B != nil {
			y = float64(y) + float64(n.B[i])
		}
		x[i] = float32(y)
	}
}

// apply appends the layer's answer to x [In] to dst.
func (d *Dense) apply(dst, x []float32) []float32 {
	first := len(dst)
	for o := range d.Out {
		row, sum := d.W[o*d.In:(o+1)*d.In], float32(0)
		for i, w := range row {
			sum += float32(w * x[i]) // the conversion forbids a fused multiplication, which not every processor has
		}
		if d.B != nil {
			sum += d.B[o]
		}
		dst = append(dst, sum)
	}
	d.Activation.apply(dst[first:])
	if d.Norm != nil {
		d.Norm.apply(dst[first:])
	}
	return dst
}

// apply changes x in place. The functions of float64 are rounded once.
func (a Activation) apply(x []float32) {
	switch a {
	case Tanh:
		for i, v := range x {
			x[i] = float32(math.Tanh(float64(v)))
		}
	case Sigmoid:
		for i, v := range x {
			x[i] = float32(1 / (1 + math.Exp(-float64(v))))
		}
	case Softmax:
		softmax(x)
	case ReLU:
		for i, v := range x {
			x[i] = max(v, 0)
		}
	case GELU:
		for i, v := range x {
			x[i] = float32(float64(v) / 2 * (1 + math.Erf(float64(v)/math.Sqrt2)))
		}
	}
}

func softmax(x []float32) {
	most, sum := float64(slices.Max(x)), 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - most)
	}
	for i, v := range x {
		x[i] = float32(math.Exp(float64(v)-most) / sum)
	}
}

// Plan is what follows a network. It must not change once it is used.
type Plan struct {
	Kind      Kind
	Hidden    int     // components of the network's vectors
	Layers    []Dense // what follows pooling, in order; for a classifier its head
	Pooler    int     // how many of the first Layers belong to the pooled vector, and do not follow that of a single token
	Normalize bool    // the length becomes 1, after the layers

	// Dimensions are the sizes to which a vector may be cut (Matryoshka representation learning,
	// Kusupati et al., 2022); nil: any.
	Dimensions []int
	// Labels is the number of classes; 0: the model embeds. The last layer has one row for each.
	Labels int
}

// Validate says what is wrong with p, for a network with vectors of the given size.
func (p *Plan) Validate(hidden int) error {
	if p.Hidden != hidden {
		return fmt.Errorf("pooling: a plan for vectors of %d components, but the network has %d", p.Hidden, hidden)
	}
	if p.Kind > Max {
		return fmt.Errorf("pooling: kind %d is unknown", p.Kind)
	}
	n := hidden
	for i := range p.Layers {
		d := &p.Layers[i]
		if d.In != n || d.Out < 1 || len(d.W) != d.In*d.Out || d.B != nil && len(d.B) != d.Out {
			return fmt.Errorf("pooling: layer %d of %d by %d, with %d weights and %d biases, follows a vector of %d", i, d.Out, d.In, len(d.W), len(d.B), n)
		}
		if m := d.Norm; m != nil && (len(m.W) != d.Out || m.B != nil && len(m.B) != d.Out || !(m.Eps >= 0)) {
			return fmt.Errorf("pooling: the norm of layer %d has %d weights and %d biases for %d rows", i, len(m.W), len(m.B), d.Out)
		}
		n = d.Out
	}
	for _, d := range p.Dimensions {
		if d < 1 || d > n {
			return fmt.Errorf("pooling: a vector of %d components cannot be cut to %d", n, d)
		}
	}
	if k := p.Pooler; k < 0 || k > 0 && (k >= len(p.Layers) || p.Layers[k].In != hidden) {
		return fmt.Errorf("pooling: layer %d of %d does not follow the vector of a token", k, len(p.Layers))
	}
	if p.Labels > 0 && p.Labels != n {
		return fmt.Errorf("pooling: %d labels, but the last layer has %d rows", p.Labels, n)
	}
	return nil
}

// Size is the number of components of an answer.
func (p *Plan) Size() int {
	if n := len(p.Layers); n > 0 {
		return p.Layers[n-1].Out
	}
	return p.Hidden
}

// MayCut reports whether an answer may be cut to n components.
func (p *Plan) MayCut(n int) bool {
	if p.Dimensions != nil {
		return slices.Contains(p.Dimensions, n)
	}
	return n >= 1 && n <= p.Size()
}

// Options are those of one request.
type Options struct {
	Dimensions int  // the answer is cut to so many components, which are then normalized again; 0: it is not cut
	Raw        bool // no normalization, and of a classifier no activation after the last layer
	Token      bool // the vector is that of a single token
}

// Apply appends what the plan makes of a vector [Hidden] to dst: [Size] or [Options.Dimensions] components.
func (p *Plan) Apply(dst, vector []float32, o Options) []float32 {
	x := vector
	for i := range p.Layers {
		if o.Token && i < p.Pooler {
			continue
		}
		d := p.Layers[i]
		if o.Raw && p.Labels > 0 && i == len(p.Layers)-1 {
			d.Activation = Identity
		}
		x = d.apply(make([]float32, 0, d.Out), x)
	}
	if o.Dimensions > 0 {
		x = x[:o.Dimensions]
	}
	first := len(dst)
	dst = append(dst, x...)
	if p.Normalize && !o.Raw {
		Normalize(dst[first:])
	}
	return dst
}

// Normalize divides x by its length. A length below 1e-12 counts as that, as in torch.nn.functional.normalize.
func Normalize(x []float32) {
	sum := float32(0)
	for _, v := range x {
		sum += float32(v * v)
	}
	n := max(float32(math.Sqrt(float64(sum))), 1e-12)
	for i := range x {
		x[i] /= n
	}
}

// Cosine is the cosine of the angle between two vectors of the same number of components, which says how much they
// point in the same direction: -1 to 1. Lengths below 1e-8 count as that, as in torch.nn.functional.cosine_similarity.
func Cosine(a, b []float32) float32 {
	var dot, aa, bb float64
	for i, x := range a {
		y := b[i]
		dot += float64(float64(x) * float64(y))
		aa += float64(float64(x) * float64(x))
		bb += float64(float64(y) * float64(y))
	}
	return float32(dot / (max(math.Sqrt(aa), 1e-8) * max(math.Sqrt(bb), 1e-8)))
}
