package sampler

import (
	"math/bits"

	"weir/backend"
	"weir/internal/invariants"
)

// Picker draws tokens from rows of logits. It is the definition of a draw for every
// device, and what the CPU device and the simulator run. The zero value is ready to
// use; a Picker serves one goroutine. It keeps memory for one row and allocates only
// when a row is longer, or asks for more top tokens, than any before.
type Picker struct {
	// Kernels are loops that the device provides. They change no result.
	Kernels Kernels

	z       []float32 // [V rounded up to 32] z of the current row, -Inf from V on
	hits    []uint32  // [len(z)/32] result of Kernels.Above
	near    []float32 // values near a threshold; with kernels as long as z
	top     []entry   // heap of the best tokens
	partial PartialDraw
	sums    [buckets]uint64 // histogram
}

// Pick draws the token of a row of d from its logits, [V], which it only reads, and
// writes the row's entries of out. The row's top tokens start at out.TopTokens[topAt]
// and out.TopLogprobs[topAt]. The caller has called d.Ready, and copies the logits of
// Host rows itself. For a dead row only the token -1 is written.
func (p *Picker) Pick(logits []float32, d *backend.Draws, row int, out *backend.Out, topAt int) {
	r := &d.Rows[row]
	if r.Dead {
		out.Tokens[row] = -1
		return
	}
	edits := d.Edits[firstEdit(d, row):r.EditEnd]
	words := (len(logits) + 31) / 32
	mask, allow := maskRow(d.Masks, r.Mask, words), maskRow(d.Masks, r.Allow, words)

	token := r.Target
	switch {
	case r.Logprobs == backend.ProcessedLogprobs || token < 0 && (len(edits) > 0 || mask != nil || allow != nil || !unfiltered(r)):
		floor, hi := p.process(logits, r, edits, mask, allow)
		if token < 0 {
			token = p.choose(r, floor, hi)
		}
		if r.Logprobs == backend.ProcessedLogprobs {
			p.report(r, floor, hi, token, row, out, topAt)
		}
	case token < 0: // most rows ask for nothing but a token
		token = p.drawPlain(r, logits)
	}
	out.Tokens[row] = token
	switch r.Logprobs {
	case backend.NoLogprobs:
		padTop(r, out, topAt)
	case backend.RawLogprobs:
		hi := p.load(logits, 1, mask, nil)
		p.report(r, -maxFloat, hi, token, row, out, topAt)
	}
}

// firstEdit is the start of a row's edits in d.Edits.
func firstEdit(d *backend.Draws, row int) int32 {
	if row == 0 {
		return 0
	}
	return d.Rows[row-1].EditEnd
}

// maskRow is row i of masks, or nil if i is -1.
func maskRow(masks []uint32, i int32, words int) []uint32 {
	if i < 0 {
		return nil
	}
	return masks[int(i)*words : (int(i)+1)*words]
}

// process sets p.z to the row after masks, edits and temperature. It returns the
// smallest value that the filters keep and the greatest value, which is -Inf if no
// token is legal.
func (p *Picker) process(logits []float32, r *backend.Draw, edits []backend.Edit, mask, allow []uint32) (floor, hi float32) {
	greedy := !(r.Temperature > 0)
	inv := float32(1)
	if !greedy {
		inv = min(1/r.Temperature, maxFloat)
	}
	hi = p.load(logits, inv, mask, allow)
	if len(edits) > 0 {
		hi = p.edit(logits, inv, edits)
	}
	if hi == negInf || greedy {
		return -maxFloat, hi
	}
	return p.filter(r, hi), hi
}

// choose draws a token of p.z from those of at least floor. hi is the greatest value.
func (p *Picker) choose(r *backend.Draw, floor, hi float32) int32 {
	switch {
	case hi == negInf:
		return -1
	case !(r.Temperature > 0):
		return p.firstWith(hi)
	case p.hasKernels():
		return p.fastDraw(r, floor, hi)
	}
	return draw(p.z, floor, hi, r.Seed, r.Index)
}

// drawPlain draws from the logits as they are, for a row without filters, edits and
// masks.
func (p *Picker) drawPlain(r *backend.Draw, logits []float32) int32 {
	const part = 512
	p.partial.Start(&p.Kernels, r)
	for i := 0; i < len(logits); i += part {
		p.partial.Add(int32(i), logits[i:min(i+part, len(logits))])
	}
	return p.partial.Token()
}

// firstWith is the lowest token whose z is hi, the greatest value.
func (p *Picker) firstWith(hi float32) int32 {
	if p.hasKernels() {
		p.count(p.z, hi)
		for w, set := range p.hits {
			if set != 0 {
				return int32(w*32 + bits.TrailingZeros32(set))
			}
		}
	}
	for i, v := range p.z {
		if v == hi {
			return int32(i)
		}
	}
	return -1
}

// padTop fills the top entries of a row that has none.
func padTop(r *backend.Draw, out *backend.Out, topAt int) {
	for i := topAt; i < topAt+int(r.Top); i++ {
		out.TopTokens[i], out.TopLogprobs[i] = -1, negInf
	}
}

// scaled is the logit l times inv = 1/T. The product is clamped to the finite range, so
// that a legal token stays legal at any temperature. -Inf and NaN give -Inf.
func scaled(l, inv float32) float32 {
	if !(l >= -maxFloat) {
		return negInf
	}
	return max(-maxFloat, min(maxFloat, min(l, maxFloat)*inv))
}

// noneLegal is z of 32 tokens that a mask forbids.
var noneLegal = func() (z [32]float32) {
	for i := range z {
		z[i] = negInf
	}
	return z
}()

// load sets p.z to the scaled row, with -Inf where a mask forbids the token, and
// returns the greatest value.
func (p *Picker) load(logits []float32, inv float32, mask, allow []uint32) (hi float32) {
	p.resize(len(logits))
	if mask == nil {
		mask, allow = allow, nil
	}
	if mask == nil {
		return p.loadRun(p.z, logits, inv)
	}
	hi = negInf
	for w, legal := range mask {
		if allow != nil {
			legal &= allow[w]
		}
		lo, end := w*32, min(w*32+32, len(logits))
		switch n := bits.OnesCount32(legal); {
		case n == 32:
			hi = max(hi, p.loadRun(p.z[lo:end], logits[lo:end], inv))
			continue
		case n > 8 && p.hasKernels():
			p.loadRun(p.z[lo:end], logits[lo:end], inv)
			for not := ^legal; not != 0; not &= not - 1 {
				p.z[lo+bits.TrailingZeros32(not)] = negInf // len(p.z) is a multiple of 32
			}
			hi = max(hi, p.Kernels.Max(p.z[lo:lo+32]))
			continue
		}
		copy(p.z[lo:end], noneLegal[:]) // a grammar leaves few tokens legal
		for ; legal != 0; legal &= legal - 1 {
			i := lo + bits.TrailingZeros32(legal)
			if i >= end {
				break
			}
			p.z[i] = scaled(logits[i], inv)
			hi = max(hi, p.z[i])
		}
	}
	return hi
}

// resize makes p.z and p.hits as long as a row of v logits needs, and sets the values
// from v on.
func (p *Picker) resize(v int) {
	n := (v + 31) &^ 31
	if cap(p.z) < n {
		p.z, p.hits = make([]float32, n), make([]uint32, n/32)
		if p.hasKernels() {
			p.near = make([]float32, n)
		}
	}
	p.z, p.hits = p.z[:n], p.hits[:n/32]
	for i := v; i < n; i++ {
		p.z[i] = negInf
	}
}

// loadRun scales consecutive logits and returns the greatest value.
func (p *Picker) loadRun(dst, logits []float32, inv float32) float32 {
	n := 0
	hi := negInf
	if p.hasKernels() {
		n = len(logits) &^ 15
		hi = p.Kernels.Load(dst[:n], logits[:n], inv)
	}
	return max(hi, LoadGo(dst[n:], logits[n:], inv))
}

// edit applies the edits to p.z, except those of tokens that a mask forbids, and
// returns the greatest value.
func (p *Picker) edit(logits []float32, inv float32, edits []backend.Edit) float32 {
	for _, e := range edits {
		invariants.Check(e.Token >= 0 && int(e.Token) < len(logits), "sampler: edit of token %d of %d", e.Token, len(logits))
		if p.z[e.Token] > negInf {
			v := edited(min(logits[e.Token], maxFloat), e)
			z := v * inv
			if !(v <= maxFloat && z >= -maxFloat && z <= maxFloat) { // else scaled changes nothing more
				z = scaled(v, inv)
			}
			p.z[e.Token] = z
		}
	}
	if p.hasKernels() {
		return p.Kernels.Max(p.z)
	}
	hi := negInf
	for _, v := range p.z {
		if v > hi {
			hi = v
		}
	}
	return hi
}

// edited is the arithmetic of backend.Edit, with every operation rounded.
func edited(l float32, e backend.Edit) float32 {
	v := l + e.Bias
	if e.Repeat != 1 { // it is for most biases, and a division takes long
		if v > 0 {
			v = v / e.Repeat
		} else {
			v = float32(v * e.Repeat)
		}
	}
	return v - e.Minus
}

// draw is the argmax of z + gumbel over the tokens with z >= floor. hi is the greatest
// z. Most other tokens cannot win against it, and need no random number.
func draw(z []float32, floor, hi float32, seed uint64, index uint32) int32 {
	win, score := int32(-1), belowAnyScore(hi)
	low := max(floor, lowestContender(score))
	for i := 0; i < len(z); i += 4 {
		q := z[i : i+4 : i+4]
		if q[0] < low && q[1] < low && q[2] < low && q[3] < low {
			continue
		}
		x := randomWords(uint32(i/4), seed, index)
		for lane, v := range q {
			if v < low || v+gumbelMost[bits.LeadingZeros32(x[lane])] < score {
				continue
			}
			if s := v + gumbel(x[lane]); s > score {
				win, score = int32(i+lane), s
				low = max(floor, lowestContender(score))
			}
		}
	}
	return win
}

// lowestContender is a value such that no smaller z can reach score, whatever its
// random number. The margin is several times the rounding errors of the sums.
func lowestContender(score float32) float32 {
	most := gumbelMost[32]
	return score - most - float32((max(score, -score)+most)*0x1p-20)
}

// belowAnyScore is less than z + gumbel, rounded, for every random number.
func belowAnyScore(z float32) float32 {
	return z - 3 - float32(max(z, -z)*0x1p-20)
}
