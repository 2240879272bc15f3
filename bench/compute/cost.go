package compute

import (
	"weir/backend"
	"weir/model"
)

// Cost is what one step or several have to do.
type Cost struct {
	WeightBytes float64 // weights read
	KVBytes     float64 // keys and values read
	Products    float64 // operations of matrix products
	Attention   float64 // operations of attention
}

// Bytes is the number of bytes that are read.
func (c Cost) Bytes() float64 { return c.WeightBytes + c.KVBytes }

func (c *Cost) add(d Cost) {
	c.WeightBytes += d.WeightBytes
	c.KVBytes += d.KVBytes
	c.Products += d.Products
	c.Attention += d.Attention
}

// network counts a network's weights by the rows that they are applied to.
type network struct {
	config  *model.Config
	qkv     float64 // weights of one layer that are applied to every row
	rest    float64 // weights of one layer that are applied to every row, in the last layer to drawn rows only
	head    float64 // weights that are applied to drawn rows
	perByte float64 // bytes that a weight takes in the device
	kv      float64 // bytes that a position takes in one layer
}

// newNetwork counts the weights of a network. weightBytes is the size of all matrices in the
// device, kvBytesPerToken that of a position's keys and values.
func newNetwork(c *model.Config, weightBytes, kvBytesPerToken float64) *network {
	d, q, kv := float64(c.Hidden), float64(c.Heads*c.HeadDim), float64(c.KVHeads*c.HeadDim)
	n := &network{
		config: c,
		qkv:    d * (q + 2*kv),
		rest:   q*d + 3*d*float64(c.Intermediate),
		head:   d * float64(c.VocabSize),
		kv:     kvBytesPerToken / float64(c.Layers),
	}
	n.perByte = weightBytes / n.weights()
	return n
}

// weights is the number of weights in matrix products. Norms and biases are about a
// thousandth of it; their bytes are spread over the others.
func (n *network) weights() float64 { return float64(n.config.Layers)*(n.qkv+n.rest) + n.head }

// cost counts a step. It leaves out what model.Runner leaves out: in the last layer,
// everything after writing the cache is done for drawn rows only, except for attention,
// which is left out only if no row is drawn.
func (n *network) cost(b *backend.Batch) Cost {
	layers, rows, drawn := float64(n.config.Layers), float64(len(b.Tokens)), float64(len(b.At))
	perRow, perDrawn := layers*n.qkv+(layers-1)*n.rest, n.rest+n.head
	c := Cost{Products: 2 * (rows*perRow + drawn*perDrawn)}
	read := perRow
	if drawn > 0 {
		read += perDrawn
	}
	c.WeightBytes = read * n.perByte
	for l, window := range n.config.Windows {
		if l == len(n.config.Windows)-1 && drawn == 0 {
			continue
		}
		first := 0
		for s, end := range b.QueryEnd {
			seen, pairs := visible(int(b.KVLen[s]), int(end)-first, window)
			first = int(end)
			c.KVBytes += float64(seen) * n.kv
			c.Attention += 4 * float64(pairs) * float64(n.config.Heads*n.config.HeadDim)
		}
	}
	return c
}

// visible returns how many positions the last rows of a sequence of length kv see together,
// each counted once, and how many pairs of a row and a position that it sees there are. A
// window of 0 is none.
func visible(kv, rows, window int) (positions, pairs int) {
	if window <= 0 {
		return kv, rows*kv - rows*(rows-1)/2
	}
	for r := range rows {
		pairs += min(kv-r, window)
	}
	return min(kv, rows-1+window), pairs
}
