package sampler

import (
	"math/bits"

	"weir/backend"
	"weir/internal/invariants"
)

// Picker draws tokens from rows of logits: the reference for every device, and
// what the CPU device and the simulator call. The zero value is ready; a Picker
// serves one goroutine. It keeps scratch for one row and allocates only when a
// row is longer, or asks for more top tokens, than any before.
type Picker struct {
	// Kernels are the device's loops. They do not show in the results.
	Kernels Kernels

	z     []float32 // [V rounded up to 32] the row being worked on, -Inf behind V
	hits  []uint32  // [len(z)/32] of Kernels.Above
	near  []float32 // values near a threshold; with kernels as long as z
	top   []entry   // heap of the best tokens
	draft PartialDraw
	sums  [buckets]uint64
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

	token := r.Target
	floor := float32(-maxFloat)
	switch {
	case r.Logprobs == backend.ProcessedLogprobs || token < 0 && (len(edits) > 0 || mask != nil || allow != nil || !unfiltered(r)):
		inv := float32(1)
		if !greedy {
			inv = min(1/r.Temperature, maxFloat)
		}
		hi := p.load(logits, inv, mask, allow)
		if len(edits) > 0 {
			hi = p.edit(logits, inv, edits)
		}
		if hi > ninf && !greedy {
			floor = p.filter(r, hi)
		}
		switch {
		case token >= 0:
		case hi == ninf:
			token = -1
		case greedy:
			token = p.first(hi)
		case p.fast():
			token = p.drawFast(r, floor, hi)
		default:
			token = draw(p.z, floor, hi, r.Seed, r.Index)
		}
		if r.Logprobs == backend.ProcessedLogprobs {
			p.report(r, floor, hi, token, row, out, topAt)
		}
	case token < 0: // Most rows of a busy server ask for nothing else.
		token = p.plain(r, logits)
	}
	out.Tokens[row] = token
	switch r.Logprobs {
	case backend.NoLogprobs:
		pad(r, out, topAt)
	case backend.RawLogprobs:
		hi := p.load(logits, 1, mask, nil)
		p.report(r, -maxFloat, hi, token, row, out, topAt)
	}
}

// noneLegal are the values of 32 tokens that a mask forbids.
var noneLegal = func() (z [32]float32) {
	for i := range z {
		z[i] = ninf
	}
	return z
}()

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

// plain draws from the logits as they are.
func (p *Picker) plain(r *backend.Draw, logits []float32) int32 {
	const part = 512
	p.draft.Start(&p.Kernels, r)
	for i := 0; i < len(logits); i += part {
		p.draft.Add(int32(i), logits[i:min(i+part, len(logits))])
	}
	return p.draft.Token()
}

// first is the lowest token of value hi, which is the greatest.
func (p *Picker) first(hi float32) int32 {
	if p.fast() {
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

// scaled is l/T, with inv = 1/T, clamped to the finite range unless l is not
// legal. A finite value stays legal whatever the temperature.
func scaled(l, inv float32) float32 {
	if !(l >= -maxFloat) { // -Inf and NaN
		return ninf
	}
	return max(-maxFloat, min(maxFloat, min(l, maxFloat)*inv))
}

// load writes the scaled row to p.z, -Inf where a mask forbids, and returns the
// greatest value.
func (p *Picker) load(logits []float32, inv float32, mask, allow []uint32) (hi float32) {
	n := (len(logits) + 31) &^ 31
	if cap(p.z) < n {
		p.z, p.hits = make([]float32, n), make([]uint32, n/32)
		if p.fast() {
			p.near = make([]float32, n)
		}
	}
	p.z, p.hits = p.z[:n], p.hits[:n/32]
	for i := len(logits); i < n; i++ {
		p.z[i] = ninf
	}
	if mask == nil {
		mask, allow = allow, nil
	}
	if mask == nil {
		return p.loadRun(p.z, logits, inv)
	}
	hi = ninf
	for w, legal := range mask {
		if allow != nil {
			legal &= allow[w]
		}
		lo, end := w*32, min(w*32+32, len(logits))
		switch n := bits.OnesCount32(legal); {
		case n == 32:
			hi = max(hi, p.loadRun(p.z[lo:end], logits[lo:end], inv))
			continue
		case n > 8 && p.fast():
			p.loadRun(p.z[lo:end], logits[lo:end], inv)
			for not := ^legal; not != 0; not &= not - 1 {
				p.z[lo+bits.TrailingZeros32(not)] = ninf // within z, which is longer
			}
			hi = max(hi, p.Kernels.Max(p.z[lo:lo+32]))
			continue
		}
		copy(p.z[lo:end], noneLegal[:]) // grammars leave little else
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

// loadRun scales a run of tokens and returns the greatest value.
func (p *Picker) loadRun(dst, logits []float32, inv float32) float32 {
	n := 0
	hi := ninf
	if p.fast() {
		n = len(logits) &^ 15
		hi = p.Kernels.Load(dst[:n], logits[:n], inv)
	}
	return max(hi, LoadGo(dst[n:], logits[n:], inv))
}

// edit rewrites the tokens that edits name and that the masks left legal, and
// returns the greatest value.
func (p *Picker) edit(logits []float32, inv float32, edits []backend.Edit) float32 {
	for _, e := range edits {
		invariants.Check(e.Token >= 0 && int(e.Token) < len(logits), "sampler: edit of token %d of %d", e.Token, len(logits))
		if p.z[e.Token] > ninf {
			p.z[e.Token] = scaled(edited(min(logits[e.Token], maxFloat), e), inv)
		}
	}
	if p.fast() {
		return p.Kernels.Max(p.z)
	}
	hi := ninf
	for _, v := range p.z {
		if v > hi {
			hi = v
		}
	}
	return hi
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

// draw is the argmax of z + Gumbel over the tokens with z >= floor. hi is the
// greatest z: most others cannot win over it and cost no random number.
func draw(z []float32, floor, hi float32, seed uint64, index uint32) int32 {
	win, score := int32(-1), least(hi)
	low := max(floor, reach(score))
	for i := 0; i < len(z); i += 4 {
		q := z[i : i+4 : i+4]
		if q[0] < low && q[1] < low && q[2] < low && q[3] < low {
			continue
		}
		x := lanes(uint32(i/4), seed, index)
		for lane, v := range q {
			if v < low || v+gumbelMost[bits.LeadingZeros32(x[lane])] < score {
				continue
			}
			if s := v + gumbel(x[lane]); s > score {
				win, score = int32(i+lane), s
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

// least is less than every z + Gumbel, rounded, with the finite z.
func least(z float32) float32 {
	return z - 3 - float32(max(z, -z)*0x1p-20)
}
