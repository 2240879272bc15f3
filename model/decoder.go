package model

import (
	"fmt"
	"math"

	"weir/backend"
)

// decoder is a network whose weights are on a device. Llama, Mistral, Qwen2 and Qwen3
// are one network with parts that a Config turns on.
type decoder struct {
	config *Config
	embed  Weight // [V, D]
	layers []layer
	norm   Weight // [D]
	head   Weight // [V, D]
	all    acts   // a row per token
	drawn  acts   // a row per drawn token; qkv is not used
}

type layer struct {
	inputNorm Weight // [D]
	qkv       Weight // [(H+2G)K, D], bias where QKVBias
	heads     Heads  // QNorm and KNorm are [K], where QKNorm
	out       Weight // [D, HK], bias where OutBias
	mlpNorm   Weight // [D]
	gateUp    Weight // [2F, D], bias where MLPBias
	down      Weight // [D, F], bias where MLPBias
	attention Attention
}

// acts are the activations of a layer.
type acts struct {
	x      Act // [., D] the residual stream
	h      Act // [., D] normed input of a part; scratch of the part's last product
	qkv    Act // [., (H+2G)K]
	attn   Act // [., HK]
	gateUp Act // [., 2F] scratch
	mid    Act // [., F]
}

// forward queues a step up to the input of the head, which lies in n.drawn.h.
func (n *decoder) forward(d Device, b *backend.Batch) {
	c, a := n.config, &n.all
	q, k, v := n.qkv()

	d.Begin(b)
	d.Embed(a.x, n.embed)
	for i := range n.layers {
		l := &n.layers[i]
		d.Norm(a.h, a.x, l.inputNorm, c.NormEps)
		d.MatMul(a.qkv, l.qkv, a.h)
		d.StoreKV(i, q, k, v, l.heads)
		if i == len(n.layers)-1 && len(b.At) == 0 {
			d.EndForward() // no row is drawn: the cache is all that the step was for
			return
		}
		d.Attend(a.attn, q, i, l.attention)
		if i == len(n.layers)-1 {
			// From here on no token sees another, so only the drawn rows are
			// computed.
			d.Gather(n.drawn.x, a.x)
			d.Gather(n.drawn.attn, a.attn)
			a = &n.drawn
		}
		d.MatMulAdd(a.x, l.out, a.attn, a.h)

		d.Norm(a.h, a.x, l.mlpNorm, c.NormEps)
		d.MatMulGate(a.mid, l.gateUp, a.h, a.gateUp)
		d.MatMulAdd(a.x, l.down, a.mid, a.h)
	}
	d.Norm(a.h, a.x, n.norm, c.NormEps)
	d.EndForward()
}

// fill queues a step that writes the first layer's keys and values to all layers.
func (n *decoder) fill(d Device, b *backend.Batch) {
	a, l := &n.all, &n.layers[0]
	q, k, v := n.qkv()
	d.Begin(b)
	d.Embed(a.x, n.embed)
	d.Norm(a.h, a.x, l.inputNorm, n.config.NormEps)
	d.MatMul(a.qkv, l.qkv, a.h)
	for i := range n.layers {
		d.StoreKV(i, q, k, v, l.heads)
	}
	d.EndForward()
}

// qkv are the queries, keys and values of a layer.
func (n *decoder) qkv() (q, k, v Act) {
	width, kvWidth := n.config.Heads*n.config.HeadDim, n.config.KVHeads*n.config.HeadDim
	all := n.all.qkv
	return all.Cols(0, width), all.Cols(width, kvWidth), all.Cols(width+kvWidth, kvWidth)
}

// newDecoder lays out the activations of c's network.
func newDecoder(c *Config) (*decoder, []ActShape) {
	n := &decoder{config: c, layers: make([]layer, c.Layers)}
	for i := range n.layers {
		n.layers[i].attention = Attention{Scale: float32(1 / math.Sqrt(float64(c.HeadDim))), Window: c.Windows[i]}
		n.layers[i].heads = Heads{Norm: c.QKNorm, Eps: c.NormEps}
	}
	var shapes []ActShape
	act := func(width int, drawn bool) Act {
		shapes = append(shapes, ActShape{Width: width, Drawn: drawn})
		return Act{Buf: len(shapes) - 1, Width: width}
	}
	for _, a := range []*acts{&n.all, &n.drawn} {
		drawn := a == &n.drawn
		a.x = act(c.Hidden, drawn)
		shapes[a.x.Buf].Sum = true
		a.h = act(c.Hidden, drawn)
		if !drawn {
			a.qkv = act((c.Heads+2*c.KVHeads)*c.HeadDim, false)
		}
		a.attn = act(c.Heads*c.HeadDim, drawn)
		a.gateUp = act(2*c.Intermediate, drawn)
		a.mid = act(c.Intermediate, drawn)
		for _, factor := range []Act{a.h, a.attn, a.mid} {
			shapes[factor.Buf].Factor = true
		}
	}
	return n, shapes
}

// parameter is one weight of a decoder: the stored tensors that it is made of, and
// where its handle goes.
type parameter struct {
	use  Use
	rows []stored
	bias []stored
	into *Weight
}

// stored is a tensor that a checkpoint must hold.
type stored struct {
	name  string
	shape []int
}

// parameters lists n's weights in the order in which they are used. The names
// are those of transformers, which all four families share.
func (n *decoder) parameters() []parameter {
	c := n.config
	vector := func(into *Weight, name string, size int) parameter {
		return parameter{use: Vector, rows: []stored{{name + ".weight", []int{size}}}, into: into}
	}
	type part struct {
		name string
		rows int
	}
	linear := func(into *Weight, prefix string, columns int, bias bool, parts ...part) parameter {
		p := parameter{use: Linear, into: into}
		for _, x := range parts {
			p.rows = append(p.rows, stored{prefix + x.name + ".weight", []int{x.rows, columns}})
			if bias {
				p.bias = append(p.bias, stored{prefix + x.name + ".bias", []int{x.rows}})
			}
		}
		return p
	}
	width, kvWidth := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim

	list := []parameter{{use: Embedding, rows: []stored{{embedName, []int{c.VocabSize, c.Hidden}}}, into: &n.embed}}
	for i := range n.layers {
		l, at := &n.layers[i], fmt.Sprintf("model.layers.%d.", i)
		list = append(list,
			vector(&l.inputNorm, at+"input_layernorm", c.Hidden),
			linear(&l.qkv, at+"self_attn.", c.Hidden, c.QKVBias, part{"q_proj", width}, part{"k_proj", kvWidth}, part{"v_proj", kvWidth}))
		if c.QKNorm {
			list = append(list,
				vector(&l.heads.QNorm, at+"self_attn.q_norm", c.HeadDim),
				vector(&l.heads.KNorm, at+"self_attn.k_norm", c.HeadDim))
		}
		gateUp := linear(&l.gateUp, at+"mlp.", c.Hidden, c.MLPBias, part{"gate_proj", c.Intermediate}, part{"up_proj", c.Intermediate})
		gateUp.use = Gated
		list = append(list,
			linear(&l.out, at+"self_attn.", width, c.OutBias, part{"o_proj", c.Hidden}),
			vector(&l.mlpNorm, at+"post_attention_layernorm", c.Hidden),
			gateUp,
			linear(&l.down, at+"mlp.", c.Intermediate, c.MLPBias, part{"down_proj", c.Hidden}))
	}
	return append(list,
		vector(&n.norm, "model.norm", c.Hidden),
		parameter{use: Linear, rows: []stored{{headName, []int{c.VocabSize, c.Hidden}}}, into: &n.head})
}

const (
	embedName = "model.embed_tokens.weight"
	headName  = "lm_head.weight" // may be absent where Config.TiedHead
)
