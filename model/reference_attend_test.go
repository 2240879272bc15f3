package model_test

import (
	"math"
	"slices"

	"weir/model"
)

// sees reports whether a token at position pos attends to position other.
func sees(a model.Attention, pos, other int) bool {
	switch {
	case other > pos && !a.Bidirectional:
		return false
	case a.Window > 0 && (pos-other >= a.Window || other-pos >= a.Window):
		return false
	}
	return a.Chunk == 0 || other/a.Chunk >= pos/a.Chunk
}

func (d *reference) Attend(dst, q model.Act, kv int, a model.Attention) {
	b, shape, size := d.batch, d.shape.KV[kv], d.shape.Spec.BlockTokens
	to, from := d.act(dst), d.act(q)
	heads := q.Width / shape.KeyDim
	seq := 0
	for i := range b.Tokens {
		for int(b.QueryEnd[seq]) <= i {
			seq++
		}
		table := b.Tables[:b.TableEnd[seq]]
		if seq > 0 {
			table = table[b.TableEnd[seq-1]:]
		}
		var slots, far []int // of the positions that the token sees, and how far away they are
		for pos := range int(b.KVLen[seq]) {
			if sees(a, int(b.Pos[i]), pos) && (!a.Chosen || d.selected[i][pos]) {
				slots = append(slots, int(table[pos/size])*size+pos%size)
				far = append(far, pos-int(b.Pos[i]))
			}
		}
		for h := range heads {
			query := from[i][h*shape.KeyDim:][:shape.KeyDim]
			d.attendHead(to[i][h*shape.ValueDim:][:shape.ValueDim], query, kv, h, h/(heads/shape.KVHeads), slots, far, a)
		}
	}
}

// attendHead writes the attention of query head h to head g of what is in slots.
func (d *reference) attendHead(out, query []float64, kv, h, g int, slots, far []int, a model.Attention) {
	for j := range out {
		out[j] = 0
	}
	sum := 0.0
	if sinks := d.vector(a.Sinks); sinks != nil {
		sum = math.Exp(sinks[h])
	}
	for i, slot := range slots {
		score := 0.0
		for j, x := range query {
			score += x * d.k[kv][slot][g*len(query)+j]
		}
		score *= float64(a.Scale)
		if a.Slopes != nil {
			score -= float64(a.Slopes[h]) * math.Abs(float64(far[i]))
		}
		if a.Buckets != nil {
			most := len(a.Buckets) / 2
			bias := d.vector(a.Bias)
			heads := len(bias) / (1 + int(slices.Max(a.Buckets)))
			score += bias[int(a.Buckets[most+min(max(far[i], -most), most)])*heads+h]
		}
		if c := float64(a.Softcap); c > 0 {
			score = c * math.Tanh(score/c)
		}
		p := math.Exp(score)
		sum += p
		for j := range out {
			out[j] += p * d.v[kv][slot][g*len(out)+j]
		}
	}
	for j := range out {
		out[j] /= sum
	}
}

// Select sorts the positions that each token sees by their sums.
func (d *reference) Select(q, weights model.Act, kv int, s model.Selection) {
	b, dim, size := d.batch, d.shape.KV[kv].KeyDim, d.shape.Spec.BlockTokens
	queries, each := d.act(q), d.act(weights)
	d.selected = make([]map[int]bool, len(b.Tokens))
	seq := 0
	for i := range b.Tokens {
		for int(b.QueryEnd[seq]) <= i {
			seq++
		}
		table := b.Tables[:b.TableEnd[seq]]
		if seq > 0 {
			table = table[b.TableEnd[seq-1]:]
		}
		var order []int
		sums := make([]float64, b.Pos[i]+1)
		for pos := range sums {
			order = append(order, pos)
			key := d.k[kv][int(table[pos/size])*size+pos%size]
			for h, w := range each[i] {
				score := 0.0
				for j, x := range queries[i][h*dim:][:dim] {
					score += x * key[j]
				}
				sums[pos] += w * math.Max(score*float64(s.Scale), 0)
			}
		}
		slices.SortStableFunc(order, func(x, y int) int {
			switch {
			case sums[x] > sums[y]:
				return -1
			case sums[x] < sums[y]:
				return 1
			}
			return 0
		})
		d.selected[i] = map[int]bool{}
		for _, pos := range order[:min(s.TopK, len(order))] {
			d.selected[i][pos] = true
		}
	}
}
