package sampler

import (
	"math"
	"math/bits"

	"weir/backend"
	"weir/internal/invariants"
)

// Picker draws tokens from rows of logits: the reference for every device, and
// what the CPU device and the simulator call. The zero value is ready; a Picker
// serves one goroutine. It keeps scratch for one row and allocates only when a
// row is longer, or asks for more top tokens, than any before.
type Picker struct {
	z    []float32 // [V rounded up to 4] the row being worked on, -Inf behind V
	near []float32 // values in the bucket that holds a threshold
	top  []entry   // heap of the best tokens
	sums [buckets]uint64
}

// Pick does row of d with its logits, [V], which it only reads, and writes the
// row's entries of out; its top tokens go to out.TopTokens and out.TopLogprobs
// from topAt on. The caller has called d.Ready and copies Host rows itself.
// Nothing is written for a dead row but token -1.
func (p *Picker) Pick(logits []float32, d *backend.Draws, row int, out *backend.Out, topAt int) {
	r := &d.Rows[row]
	if r.Dead {
		out.Tokens[row] = -1
		return
	}
	start := int32(0)
	if row > 0 {
		start = d.Rows[row-1].EditEnd
	}
	edits := d.Edits[start:r.EditEnd]
	words := (len(logits) + 31) / 32
	mask, allow := maskRow(d.Masks, r.Mask, words), maskRow(d.Masks, r.Allow, words)
	greedy := !(r.Temperature > 0)

	if greedy && r.Target < 0 && r.Logprobs == backend.NoLogprobs && len(edits) == 0 && mask == nil && allow == nil {
		// Most rows of a busy server. +Inf is left to the general path, where
		// it ties with the largest finite logit.
		if best, hi := argmax(logits); hi <= maxFloat {
			out.Tokens[row] = best
			pad(r, out, topAt)
			return
		}
	}

	token := r.Target
	floor := float32(-maxFloat)
	if token < 0 || r.Logprobs == backend.ProcessedLogprobs {
		inv := float32(1)
		if !greedy {
			inv = min(1/r.Temperature, maxFloat)
		}
		best, hi := p.load(logits, inv, mask, allow)
		if len(edits) > 0 {
			p.edit(logits, inv, edits)
			best, hi = argmax(p.z)
		}
		if best >= 0 && !greedy {
			floor = p.filter(r, hi)
		}
		switch {
		case token >= 0:
		case best < 0 || greedy:
			token = best
		default:
			token = draw(p.z, floor, best, r.Seed, r.Index)
		}
		if r.Logprobs == backend.ProcessedLogprobs {
			p.report(r, floor, hi, token, row, out, topAt)
		}
	}
	out.Tokens[row] = token
	switch r.Logprobs {
	case backend.NoLogprobs:
		pad(r, out, topAt)
	case backend.RawLogprobs:
		_, hi := p.load(logits, 1, mask, nil)
		p.report(r, -maxFloat, hi, token, row, out, topAt)
	}
}

// maskRow is row i of masks, or nil for -1.
func maskRow(masks []uint32, i int32, words int) []uint32 {
	if i < 0 {
		return nil
	}
	return masks[int(i)*words : (int(i)+1)*words]
}

// pad fills the top entries of a row that has none.
func pad(r *backend.Draw, out *backend.Out, topAt int) {
	for i := topAt; i < topAt+int(r.Top); i++ {
		out.TopTokens[i], out.TopLogprobs[i] = -1, ninf
	}
}

// argmax is the lowest index of the largest value, or -1 where nothing is
// greater than -Inf. NaN is never greater.
func argmax(v []float32) (best int32, hi float32) {
	best, hi = -1, ninf
	for i, x := range v {
		if x > hi {
			best, hi = int32(i), x
		}
	}
	return best, hi
}

// scaled is l/T, with inv = 1/T, clamped to the finite range unless l is not
// legal. A finite value stays legal whatever the temperature.
func scaled(l, inv float32) float32 {
	if !(l >= -maxFloat) { // -Inf and NaN
		return ninf
	}
	return max(-maxFloat, min(maxFloat, min(l, maxFloat)*inv))
}

// load writes the scaled row to p.z, -Inf where a mask forbids, and returns its
// argmax.
func (p *Picker) load(logits []float32, inv float32, mask, allow []uint32) (best int32, hi float32) {
	n := (len(logits) + 3) &^ 3
	if cap(p.z) < n {
		p.z = make([]float32, n)
	}
	p.z = p.z[:n]
	for i := len(logits); i < n; i++ {
		p.z[i] = ninf
	}
	if mask == nil {
		mask, allow = allow, nil
	}
	if mask == nil {
		return loadRun(p.z, logits, inv, 0, -1, ninf)
	}
	best, hi = -1, ninf
	for w, legal := range mask {
		if allow != nil {
			legal &= allow[w]
		}
		lo, end := w*32, min(w*32+32, len(logits))
		switch {
		case legal == math.MaxUint32:
			best, hi = loadRun(p.z[lo:end], logits[lo:end], inv, int32(lo), best, hi)
			continue
		case legal != 0:
			for i := lo; i < end; i++ {
				p.z[i] = ninf
			}
			for ; legal != 0; legal &= legal - 1 {
				i := lo + bits.TrailingZeros32(legal)
				if i >= end {
					break
				}
				best, hi = loadRun(p.z[i:i+1], logits[i:i+1], inv, int32(i), best, hi)
			}
		default:
			for i := lo; i < end; i++ {
				p.z[i] = ninf
			}
		}
	}
	return best, hi
}

// loadRun scales a run of tokens that starts at id and carries the argmax on.
func loadRun(dst, logits []float32, inv float32, id, best int32, hi float32) (int32, float32) {
	dst = dst[:len(logits)]
	for i, l := range logits {
		z := l * inv
		if math.Float32bits(z)&infinity == infinity { // not finite
			z = scaled(l, inv)
		}
		dst[i] = z
		if z > hi {
			best, hi = id+int32(i), z
		}
	}
	return best, hi
}

// edit rewrites the tokens that edits name and that the masks left legal.
func (p *Picker) edit(logits []float32, inv float32, edits []backend.Edit) {
	for _, e := range edits {
		invariants.Check(e.Token >= 0 && int(e.Token) < len(logits), "sampler: edit of token %d of %d", e.Token, len(logits))
		if p.z[e.Token] > ninf {
			p.z[e.Token] = scaled(edited(min(logits[e.Token], maxFloat), e), inv)
		}
	}
}

// edited is the arithmetic of backend.Edit, every operation rounded.
func edited(l float32, e backend.Edit) float32 {
	v := l + e.Bias
	if v > 0 {
		v = v / e.Repeat
	} else {
		v = float32(v * e.Repeat)
	}
	return v - e.Minus
}

// draw is the argmax of z + Gumbel over the tokens with z >= floor. best is
// the argmax of z: its group goes first, so that most others cannot win and
// cost no random number. The order does not show in the result.
func draw(z []float32, floor float32, best int32, seed uint64, index uint32) int32 {
	win, score, low := int32(-1), ninf, floor
	for g := -4; g < len(z); g += 4 {
		i := g
		if g < 0 {
			i = int(best) &^ 3
		}
		q := z[i : i+4 : i+4]
		if q[0] < low && q[1] < low && q[2] < low && q[3] < low {
			continue
		}
		x := lanes(uint32(i/4), seed, index)
		for lane, v := range q {
			if v < low || v+gumbelMost[bits.LeadingZeros32(x[lane])] < score {
				continue
			}
			id := int32(i + lane)
			if s := v + gumbel(x[lane]); s > score || s == score && id < win {
				win, score = id, s
				low = max(floor, reach(score))
			}
		}
	}
	return win
}

// reach is a value below which z + Gumbel, rounded, is less than score. The
// slack is several times the rounding errors of either sum.
func reach(score float32) float32 {
	most := gumbelMost[32]
	return score - most - float32((max(score, -score)+most)*0x1p-20)
}
