package sampler

import (
	"math/bits"

	"weir/backend"
)

// CanDrawInParts reports whether the token of a row can be drawn from pieces of its
// logits, in any order and without keeping them. That holds for a row that asks for
// the most likely token, or for a draw among all of them, and for nothing else. It
// also holds for a dead row, which asks for nothing.
func CanDrawInParts(d *backend.Draws, row int) bool {
	r := &d.Rows[row]
	return !r.Host && r.Top == 0 && (r.Dead || r.Target < 0 && r.Logprobs == backend.NoLogprobs && r.EditEnd == firstEdit(d, row) && r.Mask < 0 && r.Allow < 0 && unfiltered(r))
}

// unfiltered reports whether every legal token of the row can be drawn, or only the
// most likely one.
func unfiltered(r *backend.Draw) bool {
	return !(r.Temperature > 0) || r.TopK <= 0 && !(r.TopP > 0 && r.TopP < 1) && !(r.MinP > 0)
}

// PartialDraw is a draw from some of the tokens of a row. The partial draws of the parts
// of a row, however it was divided, merge to the token that Pick draws from the whole
// row: an argmax with ties to the lowest id does not depend on an order.
type PartialDraw struct {
	kernels *Kernels
	score   float32 // z + gumbel of token, or its logit in a greedy draw
	token   int32
	inv     float32 // 1/T
	dead    bool
	greedy  bool
	index   uint32
	seed    uint64
	keys    [20]uint32 // keys of the ten rounds of Philox, for Kernels.Near
	hits    [piece / 32]uint32
}

// piece is the number of tokens that are compared with the same limit.
const piece = 256

// Start begins a new draw, for a row of which CanDrawInParts holds.
func (p *PartialDraw) Start(k *Kernels, r *backend.Draw) {
	p.kernels, p.score, p.token, p.inv = k, negInf, -1, 1
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

// Add draws from further tokens: logits are those of tokens first, first+1, and so on.
// first is a multiple of 4.
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
	score := p.score // a local variable, so that the loop has it in a register
	for i, l := range logits {
		if l >= score {
			p.offer(first+int32(i), scaled(l, 1))
			score = p.score
		}
	}
}

// addPiece draws from at most piece tokens.
func (p *PartialDraw) addPiece(first int32, logits []float32) {
	if f := p.kernels.Near; f != nil {
		n := len(logits) / 32
		hits := p.hits[:n]
		f(hits, logits[:n*32], &p.keys, uint32(first/4), p.index, p.inv, nearLimit(p.score))
		for w, set := range hits {
			for ; set != 0; set &= set - 1 {
				i := w*32 + bits.TrailingZeros32(set)
				id := uint32(first) + uint32(i)
				p.try(int32(id), scaled(logits[i], p.inv), randomWords(id/4, p.seed, p.index)[id%4])
			}
		}
		first, logits = first+int32(n*32), logits[n*32:]
	}
	for i := 0; i < len(logits); i += 4 {
		x := randomWords(uint32(first)/4+uint32(i/4), p.seed, p.index)
		for lane, l := range logits[i:min(i+4, len(logits))] {
			p.try(first+int32(i+lane), scaled(l, p.inv), x[lane])
		}
	}
}

// addKept draws from values that are scaled already, of which only those of at least
// floor count. z[0] belongs to token first. first is a multiple of 4 and len(z) one of
// 32. The caller may have set a score that is below that of any winner.
func (p *PartialDraw) addKept(first int32, z []float32, floor float32) {
	for ; len(z) > 0; first, z = first+int32(min(len(z), piece)), z[min(len(z), piece):] {
		part := z[:min(len(z), piece)]
		hits := p.hits[:len(part)/32]
		p.kernels.Above(hits, part, max(floor, lowestContender(p.score)))
		kept := ones(hits)
		if kept > piece/16 { // cheaper than a random number for each
			p.kernels.Near(hits, part, &p.keys, uint32(first/4), p.index, 1, nearLimit(p.score))
		}
		for w, set := range hits {
			if kept == 0 {
				break
			}
			for ; set != 0; set &= set - 1 {
				i := w*32 + bits.TrailingZeros32(set)
				if z := part[i]; z >= floor {
					id := uint32(first) + uint32(i)
					p.try(int32(id), z, randomWords(id/4, p.seed, p.index)[id%4])
				}
			}
		}
	}
}

// try offers a token with its random word x, if it can win.
func (p *PartialDraw) try(id int32, z float32, x uint32) {
	if z > negInf && z+gumbelMost[bits.LeadingZeros32(x)] >= p.score {
		p.offer(id, z+gumbel(x))
	}
}

// offer takes a token with the score s if it wins against the token so far.
func (p *PartialDraw) offer(id int32, s float32) {
	if s > p.score || s == p.score && s > negInf && id < p.token {
		p.token, p.score = id, s
	}
}

// nearLimit is a limit for Kernels.Near that every token with a greater score reaches.
// The margin is several times the rounding errors of the kernel.
func nearLimit(score float32) float32 {
	return score - 1e-3 - float32((max(score, -score)+128)*0x1p-18)
}

// Merge takes over what q, another part of the same row, has found.
func (p *PartialDraw) Merge(q *PartialDraw) {
	if q.token >= 0 {
		p.offer(q.token, q.score)
	}
}

// Token is the token drawn, or -1 if none is legal or the row is dead.
func (p *PartialDraw) Token() int32 { return p.token }
