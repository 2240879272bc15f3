package sampler

import "weir/backend"

// entry is a candidate for the best tokens of a row.
type entry struct {
	z  float32
	id int32
}

// better orders entries: larger first, ties to the lower id.
func (a entry) better(b entry) bool { return a.z > b.z || a.z == b.z && a.id < b.id }

// report writes the log-probability and the rank of token, and the row's top tokens.
// The distribution is that over the z >= floor of p.z, whose greatest value is hi
// (-Inf if no token is legal).
func (p *Picker) report(r *backend.Draw, floor, hi float32, token int32, row int, out *backend.Out, topAt int) {
	var total uint64
	if hi > negInf {
		lowest := max(floor, hi-28.01) // below this weights are 0
		if p.hasKernels() {
			total = p.Kernels.Mass(p.z, lowest, hi)
		} else {
			total = MassGo(p.z, lowest, hi)
		}
	}
	logprob := NewDistribution(hi, total).Logprob

	out.Logprobs[row] = negInf
	own := negInf
	if token >= 0 && p.z[token] >= floor {
		own = p.z[token]
		out.Logprobs[row] = logprob(own)
	}
	out.Ranks[row] = p.rank(floor, own)

	if r.Top <= 0 {
		return
	}
	p.best(int(r.Top), floor, hi)
	padTop(r, out, topAt)
	tokens, logprobs := out.TopTokens[topAt:topAt+int(r.Top)], out.TopLogprobs[topAt:topAt+int(r.Top)]
	for i := len(p.top) - 1; i >= 0; i-- {
		tokens[i], logprobs[i] = p.top[0].id, logprob(p.top[0].z)
		p.top[0] = p.top[i]
		p.top = p.top[:i]
		p.sink(0)
	}
}

// rank is 1 + the number of values from floor on that exceed own.
func (p *Picker) rank(floor, own float32) int32 {
	if p.hasKernels() {
		return 1 + int32(p.count(p.z, max(floor, nextUp(own))))
	}
	rank := int32(1)
	for _, v := range p.z {
		if v >= floor && v > own {
			rank++
		}
	}
	return rank
}

// Distribution has the two numbers that turn z into a log-probability: zmax and the
// logarithm of the sum of the weights. A device without a float64 logarithm reports
// zmax and the sum, and the host does the rest.
type Distribution struct{ hi, mass float64 }

// NewDistribution takes zmax and the sum of the weights, in units of 2^-40.
func NewDistribution(hi float32, total uint64) Distribution {
	d := Distribution{hi: float64(hi)}
	if total > 0 {
		d.mass = logMass(total)
	}
	return d
}

// Logprob is the log-probability of a token of the distribution with value z.
func (d Distribution) Logprob(z float32) float32 { return float32(float64(z) - d.hi - d.mass) }

// best sets p.top to the n best tokens, or all if fewer are kept, as a heap whose root
// is the worst of them. n is either small or the whole vocabulary, and a heap suits
// both. hi is the greatest value.
func (p *Picker) best(n int, floor, hi float32) {
	p.top = p.top[:0]
	if p.hasKernels() {
		p.fastBest(n, floor, hi)
		return
	}
	i := 0
	for ; i < len(p.z) && len(p.top) < n; i++ {
		if p.z[i] >= floor {
			p.top = append(p.top, entry{p.z[i], int32(i)})
			p.swim(len(p.top) - 1)
		}
	}
	if len(p.top) == 0 {
		return
	}
	// A token with the same value as the worst has a higher id, and does not displace it.
	worst := p.top[0].z
	for ; i < len(p.z); i++ {
		if p.z[i] > worst {
			p.top[0] = entry{p.z[i], int32(i)}
			p.sink(0)
			worst = p.top[0].z
		}
	}
}

// swim moves entry i of the heap towards the root, to its place.
func (p *Picker) swim(i int) {
	for i > 0 {
		up := (i - 1) / 2
		if !p.top[up].better(p.top[i]) {
			return
		}
		p.top[up], p.top[i] = p.top[i], p.top[up]
		i = up
	}
}

// sink moves entry i of the heap away from the root, to its place.
func (p *Picker) sink(i int) {
	for {
		worst := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(p.top); c++ {
			if p.top[worst].better(p.top[c]) {
				worst = c
			}
		}
		if worst == i {
			return
		}
		p.top[worst], p.top[i] = p.top[i], p.top[worst]
		i = worst
	}
}
