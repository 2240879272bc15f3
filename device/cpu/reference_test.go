package cpu

import (
	"math"

	"weir/weights"
)

// The decoder of net_test.go in double precision: the reference implementation that
// devices are compared with.

// widened keeps what values computed, by the tensor's memory.
var widened = map[*byte][]float64{}

// values are a tensor's numbers.
func values(t weights.Tensor) []float64 {
	v, ok := widened[&t.Data[0]]
	if !ok {
		v = make([]float64, t.Len())
		for i := range v {
			v[i] = float64(number(t.DType, t.Data, i))
		}
		widened[&t.Data[0]] = v
	}
	return v
}

// reference computes the logits of every position, [len(tokens)][vocab], in double
// precision, all positions anew and without a cache.
func (n *net) reference(tokens []int32) [][]float64 {
	x := make([][]float64, len(tokens))
	embed := values(n.embed)
	for t, id := range tokens {
		x[t] = append([]float64(nil), embed[int(id)*n.dim:][:n.dim]...)
	}
	q, kv := n.heads*n.headDim, n.kvHeads*n.headDim
	for l := range n.layers {
		norm := values(n.norms[l])
		var qkv [][]float64
		for t := range x {
			h := norm64(x[t], norm)
			row := append(append(mul64(n.qkv[l][0], h, n.bias[l][0]), mul64(n.qkv[l][1], h, n.bias[l][1])...), mul64(n.qkv[l][2], h, n.bias[l][2])...)
			for i := 0; i < q+kv; i += n.headDim {
				head := norm64(row[i:i+n.headDim], values(n.headNorm))
				copy(row[i:], n.rope64(head, t))
			}
			qkv = append(qkv, row)
		}
		window := len(tokens)
		if l%2 == 1 {
			window = n.window
		}
		for t := range x {
			att := make([]float64, q)
			for h := range n.heads {
				k := q + h/(n.heads/n.kvHeads)*n.headDim
				copy(att[h*n.headDim:], attend64(qkv, t, max(0, t-window+1), h*n.headDim, k, k+kv, n.headDim))
			}
			add64(x[t], mul64(n.out[l], att))
			h := norm64(x[t], norm)
			gate, up := mul64(n.gateUp[l][0], h), mul64(n.gateUp[l][1], h)
			for i, g := range gate {
				gate[i] = g / (1 + math.Exp(-g)) * up[i]
			}
			add64(x[t], mul64(n.down[l], gate))
		}
	}
	for t := range x {
		x[t] = mul64(n.head, norm64(x[t], values(n.norms[n.layers])))
	}
	return x
}

func add64(y, x []float64) {
	for i := range y {
		y[i] += x[i]
	}
}

func mul64(w weights.Tensor, x []float64, bias ...weights.Tensor) []float64 {
	m, k := values(w), len(x)
	y := make([]float64, w.Shape[0])
	for i := range y {
		for j, v := range x {
			y[i] += v * m[i*k+j]
		}
	}
	for _, b := range bias {
		add64(y, values(b))
	}
	return y
}

func norm64(x, w []float64) []float64 {
	mean := 0.0
	for _, v := range x {
		mean += v * v / float64(len(x))
	}
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = v / math.Sqrt(mean+netEps) * w[i]
	}
	return y
}

func (n *net) rope64(x []float64, pos int) []float64 {
	y := append([]float64(nil), x...)
	half := len(n.rope.InvFreq)
	for i, f := range n.rope.InvFreq {
		sin, cos := math.Sincos(float64(pos) * float64(f))
		y[i], y[i+half] = x[i]*cos-x[i+half]*sin, x[i+half]*cos+x[i]*sin
	}
	return y
}

// attend64 is one head's attention of row t over rows [lo, t].
func attend64(rows [][]float64, t, lo, q, k, v, dim int) []float64 {
	scores := make([]float64, t+1-lo)
	sum := 0.0
	for i := range scores {
		for d := range dim {
			scores[i] += rows[t][q+d] * rows[lo+i][k+d]
		}
		scores[i] = math.Exp(scores[i] / math.Sqrt(float64(dim)))
		sum += scores[i]
	}
	y := make([]float64, dim)
	for i, s := range scores {
		for d := range y {
			y[d] += s / sum * rows[lo+i][v+d]
		}
	}
	return y
}
