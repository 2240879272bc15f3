package sampler

import (
	"math/bits"

	"weir/backend"
)

// CanDrawInParts reports whether a row's token can be found from pieces of its
// logits, in any order and with nothing kept of them: nothing but the likeliest
// token or a draw over all of them is asked for. A dead row asks for nothing.
func CanDrawInParts(d *backend.Draws, row int) bool {
	r := &d.Rows[row]
	start := int32(0)
	if row > 0 {
		start = d.Rows[row-1].EditEnd
	}
	return !r.Host && r.Top == 0 && (r.Dead || r.Target < 0 && r.Logprobs == backend.NoLogprobs && r.EditEnd == start && r.Mask < 0 && r.Allow < 0 && unfiltered(r))
}

// unfiltered reports whether every legal token of the row can be drawn, or only
// the likeliest.
func unfiltered(r *backend.Draw) bool {
	return !(r.Temperature > 0) || r.TopK <= 0 && !(r.TopP > 0 && r.TopP < 1) && !(r.MinP > 0)
}

// PartialDraw is a draw from some of a row's tokens. Drafts of parts of a row, however
// it was cut, merge to the token that Pick draws from the whole row, because an
// argmax with ties to the lowest id does not depend on an order.
type PartialDraw struct {
	kernels *Kernels
	score   float32
	token   int32
	inv     float32
	dead    bool
	greedy  bool
	index   uint32
	seed    uint64
	keys    [20]uint32
	hits    [piece / 32]uint32
}

// piece is how many tokens are looked at with one limit.
const piece = 256

// Start empties the draft for a row for which CanDrawInParts holds.
func (p *PartialDraw) Start(k *Kernels, r *backend.Draw) {
	p.kernels, p.score, p.token, p.inv = k, ninf, -1, 1
	p.dead, p.greedy = r.Dead, !(r.Temperature > 0)
	if p.greedy || p.dead {
		return
	}
	p.inv, p.seed, p.index = min(1/r.Temperature, maxFloat), r.Seed, r.Index
	k0, k1 := uint32(r.Seed), uint32(r.Seed>>32)
	for i := 0; i < len(p.keys); i += 2 {
		p.keys[i], p.keys[i+1] = k0, k1
		k0 += weyl0
		k1 += weyl1
	}
}

// Add draws from more tokens, logits of first, first+1, ...; first is a multiple
// of 4.
func (p *PartialDraw) Add(first int32, logits []float32) {
	switch {
	case p.dead:
	case p.greedy:
		p.addGreedy(first, logits)
	default:
		for len(logits) > 0 {
			n := min(len(logits), piece)
			p.addPiece(first, logits[:n])
			first, logits = first+int32(n), logits[n:]
		}
	}
}

func (p *PartialDraw) addGreedy(first int32, logits []float32) {
	if f := p.kernels.Max; f != nil {
		if n := len(logits) &^ 15; n > 0 && p.token >= 0 {
			if top := f(logits[:n]); top < p.score || top == p.score && first > p.token {
				first, logits = first+int32(n), logits[n:]
			}
		}
	}
	score := p.score // in a register
	for i, l := range logits {
		if l >= score {
			p.offer(first+int32(i), scaled(l, 1))
			score = p.score
		}
	}
}

func (p *PartialDraw) addPiece(first int32, logits []float32) {
	if f := p.kernels.Near; f != nil {
		n := len(logits) / 32
		hits := p.hits[:n]
		f(hits, logits[:n*32], &p.keys, uint32(first/4), p.index, p.inv, near(p.score))
		for w, set := range hits {
			for ; set != 0; set &= set - 1 {
				i := w*32 + bits.TrailingZeros32(set)
				id := uint32(first) + uint32(i)
				p.try(int32(id), scaled(logits[i], p.inv), lanes(id/4, p.seed, p.index)[id%4])
			}
		}
		first, logits = first+int32(n*32), logits[n*32:]
	}
	for i := 0; i < len(logits); i += 4 {
		x := lanes(uint32(first)/4+uint32(i/4), p.seed, p.index)
		for lane, l := range logits[i:min(i+4, len(logits))] {
			p.try(first+int32(i+lane), scaled(l, p.inv), x[lane])
		}
	}
}

// addKept draws from values that are scaled already, those of at least floor.
// The values of z[0] on are tokens first, first+1, ...; first is a multiple of 4
// and len(z) one of 32. A score below every winner's may have been set before.
func (p *PartialDraw) addKept(first int32, z []float32, floor float32) {
	for ; len(z) > 0; first, z = first+int32(min(len(z), piece)), z[min(len(z), piece):] {
		part := z[:min(len(z), piece)]
		hits := p.hits[:len(part)/32]
		p.kernels.Above(hits, part, max(floor, reach(p.score)))
		kept := ones(hits)
		if kept > piece/16 { // then random numbers for all are cheaper
			p.kernels.Near(hits, part, &p.keys, uint32(first/4), p.index, 1, near(p.score))
		}
		for w, set := range hits {
			if kept == 0 {
				break
			}
			for ; set != 0; set &= set - 1 {
				i := w*32 + bits.TrailingZeros32(set)
				if z := part[i]; z >= floor {
					id := uint32(first) + uint32(i)
					p.try(int32(id), z, lanes(id/4, p.seed, p.index)[id%4])
				}
			}
		}
	}
}

// try offers a token with its random word, if it can win.
func (p *PartialDraw) try(id int32, z float32, x uint32) {
	if z > ninf && z+gumbelMost[bits.LeadingZeros32(x)] >= p.score {
		p.offer(id, z+gumbel(x))
	}
}

func (p *PartialDraw) offer(id int32, s float32) {
	if s > p.score || s == p.score && s > ninf && id < p.token {
		p.token, p.score = id, s
	}
}

// near is a limit for Kernels.Near that no winner over score fails: the slack is
// several times what rounding takes.
func near(score float32) float32 {
	return score - 1e-3 - float32((max(score, -score)+128)*0x1p-18)
}

// Merge adds what q found, a draft of the same row.
func (p *PartialDraw) Merge(q *PartialDraw) {
	if q.token >= 0 {
		p.offer(q.token, q.score)
	}
}

// Token is the token drawn, or -1 where none is legal or the row is dead.
func (p *PartialDraw) Token() int32 { return p.token }
