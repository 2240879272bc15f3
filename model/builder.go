package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weir/backend"
)

// builder lays out a decoder: its weights, its activation buffers and all else that a device has
// to allocate. Buffers have names, and pieces of all layers that use a name share the buffer, which
// is as wide as the widest of them.
type builder struct {
	c      *Config
	shape  Shape
	params []parameter
	bufs   map[bufName]int // index into shape.Acts
	caches map[int]int     // of layers that have keys and values: index into shape.KV
	after  []func()        // what is to be done when all values are loaded
	layer  int             // the number of the layer that is built
}

type bufName struct {
	name  string
	drawn bool
}

// rows are a part of a network's activations: with a row per token, and with one per drawn row.
type rows struct{ all, drawn Act }

// cols is the view of columns [off, off+width).
func (r rows) cols(off, width int) rows {
	return rows{r.all.Cols(off, width), r.drawn.Cols(off, width)}
}

// bufKind says what a buffer is for: see ActShape.
type bufKind uint8

const (
	plainBuf  bufKind = iota
	factorBuf         // products read it
	sumBuf            // it stays in float32
)

// act reserves width columns of the buffer with that name, per token and per drawn row.
func (b *builder) act(name string, width int, kind bufKind) rows {
	return rows{b.whole(name, width, kind), b.buf(bufName{name, true}, width, kind)}
}

// whole reserves width columns per token only.
func (b *builder) whole(name string, width int, kind bufKind) Act {
	return b.buf(bufName{name, false}, width, kind)
}

func (b *builder) buf(name bufName, width int, kind bufKind) Act {
	i, ok := b.bufs[name]
	if !ok {
		i = len(b.shape.Acts)
		b.bufs[name] = i
		b.shape.Acts = append(b.shape.Acts, ActShape{Drawn: name.drawn})
	}
	a := &b.shape.Acts[i]
	a.Width = max(a.Width, width)
	a.Factor = a.Factor || kind == factorBuf
	a.Sum = a.Sum || kind == sumBuf
	return Act{Buf: i, Width: width}
}

// cache reserves a cache of keys and values for the layer that is built, which sees so much of it.
func (b *builder) cache(kv KVShape, sees backend.KVGroup) int {
	b.shape.Sees = append(b.shape.Sees, sees)
	b.caches[b.layer] = len(b.shape.KV)
	b.shape.KV = append(b.shape.KV, kv)
	return len(b.shape.KV) - 1
}

// state reserves n numbers of recurrent state.
func (b *builder) state(n int) int {
	b.shape.States = append(b.shape.States, n)
	return len(b.shape.States) - 1
}

// rope is the index of a rotary table.
func (b *builder) rope(r Rope) int {
	i := slices.IndexFunc(b.shape.Ropes, func(x Rope) bool {
		return slices.Equal(x.InvFreq, r.InvFreq) && x.Scale == r.Scale && x.Interleaved == r.Interleaved && x.Offset == r.Offset && slices.Equal(x.Long, r.Long) && x.LongScale == r.LongScale
	})
	if i < 0 {
		i = len(b.shape.Ropes)
		b.shape.Ropes = append(b.shape.Ropes, r)
	}
	return i
}

func (b *builder) needs(p Pieces, when bool) {
	if when {
		b.shape.Pieces |= p
	}
}

func (b *builder) window(n int) {
	if !slices.Contains(b.shape.Windows, n) {
		b.shape.Windows = append(b.shape.Windows, n)
		slices.Sort(b.shape.Windows)
	}
}

// vector declares a vector of n numbers. name is the whole name of the tensor.
func (b *builder) vector(into *Weight, name string, n int, v view) {
	b.params = append(b.params, parameter{use: Vector, rows: []stored{{name, []int{n}, v}}, into: into})
}

// part is a tensor of a product: its name without suffix, and its rows.
type part struct {
	name string
	rows int
}

// linear declares a product of stacked tensors, [rows, columns] each.
func (b *builder) linear(into *Weight, use Use, prefix string, columns int, bias bool, parts ...part) {
	b.linearAs(into, false, use, prefix, columns, bias, parts...)
}

// linearAs is linear of tensors that may be turned over, [columns, rows].
func (b *builder) linearAs(into *Weight, turned bool, use Use, prefix string, columns int, bias bool, parts ...part) {
	p := parameter{use: use, into: into}
	for _, x := range parts {
		s := stored{prefix + x.name + ".weight", []int{x.rows, columns}, view{}}
		if turned {
			s.shape, s.view = []int{columns, x.rows}, view{turned: true}
		}
		p.rows = append(p.rows, s)
		if bias {
			p.bias = append(p.bias, stored{prefix + x.name + ".bias", []int{x.rows}, view{}})
		}
	}
	b.params = append(b.params, p)
}

// norm declares the weights of a norm of n columns, and returns it.
func (b *builder) norm(into *Norm, prefix string, s NormSpec, n int) {
	*into = Norm{Kind: s.Kind, Eps: s.Eps, W: NoWeight, B: NoWeight}
	b.needs(PieceLayerNorm, s.Kind == LayerNorm)
	if s.Name == Unweighted {
		b.needs(PieceGroupNorm, true)
		return
	}
	v := view{}
	if s.PlusOne {
		v.each = plusOne
	}
	b.vector(&into.W, prefix+s.tensor(), n, v)
	if s.Bias {
		b.vector(&into.B, prefix+s.biasTensor(), n, view{})
	}
}

// headNorm declares the weights of a norm of heads.
func (b *builder) headNorm(into *HeadNorm, prefix string, s NormSpec, dim, heads int, perHead bool) {
	if !s.Is() {
		return
	}
	*into = HeadNorm{On: true, W: NoWeight, Eps: s.Eps, LayerNorm: s.Kind == LayerNorm, PerHead: perHead}
	b.needs(PieceHeadNorms, perHead || s.Name == Unweighted || s.Kind == LayerNorm)
	if s.Name == Unweighted {
		return
	}
	v := view{}
	if s.PlusOne {
		v.each = plusOne
	}
	if perHead && !strings.Contains(s.Name, "%d") { // one tensor for all heads
		b.params = append(b.params, parameter{use: Vector, rows: []stored{{prefix + s.tensor(), []int{heads, dim}, view{vector: true}}}, into: &into.W})
		return
	}
	if perHead {
		p := parameter{use: Vector, into: &into.W}
		for h := range heads {
			p.rows = append(p.rows, stored{prefix + fmt.Sprintf(s.Name, h) + ".weight", []int{dim}, v})
		}
		b.params = append(b.params, p)
		return
	}
	b.vector(&into.W, prefix+s.tensor(), dim, v)
}

// tensor is the name of the tensor of a norm.
func (n NormSpec) tensor() string {
	switch {
	case n.Raw:
		return n.Name
	case n.Gamma:
		return n.Name + ".gamma"
	}
	return n.Name + ".weight"
}

func (n NormSpec) biasTensor() string {
	if n.Gamma {
		return n.Name + ".beta"
	}
	return n.Name + ".bias"
}

// or1 is f, where 0 stands for 1.
func or1(f float32) float32 {
	if f == 0 {
		return 1
	}
	return f
}

func inverseRoot(n int) float32 { return float32(1 / math.Sqrt(float64(n))) }
