package sim

import (
	"fmt"
	"math"
	"math/bits"
	"time"

	"weir/backend"
	"weir/internal/invariants"
)

// Paced is a backend that takes the time of a profile and draws plausible tokens without
// logits. A token is a function of the seed, the index and the tokens that are legal. Masks
// and edits that forbid a token are honoured; other edits, temperature and filters are not.
// The probabilities that it reports are invented: they decrease, and their sum is at most 1.
// Host rows are all zero.
type Paced struct {
	spec    backend.Spec
	profile Profile
	turns   turns
	script  *script // nil: all tokens are made up

	busy  time.Time    // when the device has computed all steps that are begun
	ends  [2]time.Time // when it has computed step n, at n%2
	rows  [2]int       // number of rows of step n, at n%2
	draws *backend.Draws

	avoid  []uint32 // bit set of Profile.Avoid
	banned []uint32 // bit set of the tokens that the current row's edits forbid; empty between rows
}

// NewPaced opens a paced backend. The error is that of a spec or a profile that is not valid.
func NewPaced(spec backend.Spec, profile Profile) (*Paced, error) {
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	if err := profile.Validate(spec.VocabSize); err != nil {
		return nil, err
	}
	p := &Paced{
		spec:    spec,
		profile: profile,
		turns:   turns{depth: spec.Depth},
		avoid:   make([]uint32, spec.MaskWords()),
		banned:  make([]uint32, spec.MaskWords()),
	}
	for _, id := range profile.Avoid {
		p.avoid[id/32] |= 1 << (id % 32)
	}
	return p, nil
}

// Spec implements backend.Backend.
func (p *Paced) Spec() backend.Spec { return p.spec }

// Close implements backend.Backend.
func (p *Paced) Close() error {
	p.turns.err = ErrClosed
	return nil
}

// Begin implements backend.Backend. The device begins the step when it is free.
func (p *Paced) Begin(b *backend.Batch) error {
	if err := p.turns.begin(); err != nil {
		return err
	}
	err := b.CheckSizes(p.spec)
	if invariants.Enabled {
		err = b.Check(p.spec, p.rows[(p.turns.begun+1)%2])
	}
	if err != nil {
		return p.turns.fail(err)
	}
	if now := time.Now(); now.After(p.busy) {
		p.busy = now
	}
	p.busy = p.busy.Add(p.profile.Step(b))
	i := p.turns.begun % 2
	p.ends[i], p.rows[i] = p.busy, len(b.At)
	if p.script != nil {
		p.script.begin(p.turns.begun, b)
	}
	p.turns.begun++
	return nil
}

// Draw implements backend.Backend. It takes no time of the device.
func (p *Paced) Draw(d *backend.Draws) error {
	if err := p.turns.draw(); err != nil {
		return err
	}
	if err := d.Check(p.spec, p.rows[p.turns.drawn%2]); err != nil {
		return p.turns.fail(err)
	}
	p.draws = d
	p.turns.drawn++
	return nil
}

// End implements backend.Backend. It sleeps until the device has computed the step.
func (p *Paced) End(out *backend.Out) error {
	if err := p.turns.end(); err != nil {
		return err
	}
	d := p.draws
	if err := out.Check(p.spec, d); err != nil {
		return p.turns.fail(err)
	}
	if d.Ready != nil {
		d.Ready()
	}
	if err := d.CheckEdits(p.spec); err != nil {
		return p.turns.fail(err)
	}
	clear(out.Logits)
	first, top := int32(0), 0
	for i := range d.Rows {
		r := &d.Rows[i]
		if !r.Dead {
			p.row(d, i, d.Edits[first:r.EditEnd], out, top)
		}
		first = r.EditEnd
		top += int(r.Top)
	}
	time.Sleep(time.Until(p.ends[p.turns.ended%2]))
	p.turns.ended++
	return nil
}

// row computes the result of row i.
func (p *Paced) row(d *backend.Draws, i int, edits []backend.Edit, out *backend.Out, top int) {
	r := &d.Rows[i]
	for _, e := range edits {
		if e.Bias == backend.Forbid {
			p.banned[e.Token/32] |= 1 << (e.Token % 32)
		}
	}
	h := mix(r.Seed ^ mix(uint64(r.Index)))
	token := r.Target
	if token < 0 && !r.Hidden {
		token = p.written(d, r, i)
	}
	if token < 0 {
		token = p.draw(d, r, h)
	}
	out.Tokens[i] = token
	if r.Logprobs != backend.NoLogprobs {
		p.report(d, r, h, token, i, out, top)
	} else {
		for j := top; j < top+int(r.Top); j++ {
			out.TopTokens[j], out.TopLogprobs[j] = -1, backend.Forbid
		}
	}
	for _, e := range edits {
		p.banned[e.Token/32] &^= 1 << (e.Token % 32)
	}
}

// legal is word w of the bit set of the row's legal tokens.
func (p *Paced) legal(d *backend.Draws, r *backend.Draw, w int) uint32 {
	words := len(p.banned)
	legal := ^p.banned[w]
	if r.Mask >= 0 {
		legal &= d.Masks[int(r.Mask)*words+w]
	}
	if r.Allow >= 0 {
		legal &= d.Masks[int(r.Allow)*words+w]
	}
	if rest := p.spec.VocabSize - 32*w; rest < 32 {
		legal &= 1<<rest - 1
	}
	return legal
}

// written is the token that the script has for row i, if there is a script and the token is legal, or -1.
func (p *Paced) written(d *backend.Draws, r *backend.Draw, i int) int32 {
	if p.script == nil {
		return -1
	}
	id := p.script.next(p.turns.ended, i, r.Index)
	if id < 0 || int(id) >= p.spec.VocabSize || p.legal(d, r, int(id/32))>>(id%32)&1 == 0 {
		return -1
	}
	return id
}

// maxTries is the number of tokens of the list that draw tries before it searches the masks
// word by word.
const maxTries = 32

// draw draws a legal token, by the hash h of the row. It prefers the profile's list, and takes
// a token that should be avoided only if no other is legal.
func (p *Paced) draw(d *backend.Draws, r *backend.Draw, h uint64) int32 {
	list := p.profile.Tokens
	n := uint64(len(list))
	if n == 0 {
		n = uint64(p.spec.VocabSize)
	}
	for j := range uint64(maxTries) {
		id := int32((h + j) % n)
		if len(list) > 0 {
			id = list[id]
		}
		if (p.legal(d, r, int(id/32))&^p.avoid[id/32])>>(id%32)&1 != 0 {
			return id
		}
	}
	words := len(p.banned)
	start := int(h % uint64(words))
	avoided := int32(-1) // the first legal token that should be avoided
	for j := range words {
		w := (start + j) % words
		legal := p.legal(d, r, w)
		if good := legal &^ p.avoid[w]; good != 0 {
			return int32(32*w + bits.TrailingZeros32(good))
		}
		if legal != 0 && avoided < 0 {
			avoided = int32(32*w + bits.TrailingZeros32(legal))
		}
	}
	return avoided
}

// report invents log-probabilities: the token has a probability of 0.4 to 0.95, and each of
// the legal ids after it half of what is left.
func (p *Paced) report(d *backend.Draws, r *backend.Draw, h uint64, token int32, i int, out *backend.Out, top int) {
	share := 0.4 + 0.55*float64(h>>40)/(1<<24)
	out.Logprobs[i], out.Ranks[i] = float32(math.Log(share)), 1
	if token < 0 {
		out.Logprobs[i] = backend.Forbid
	}
	n, end := top, top+int(r.Top)
	if token >= 0 && n < end {
		out.TopTokens[n], out.TopLogprobs[n] = token, out.Logprobs[i]
		n++
	}
	rest := math.Log(1 - share)
	for j := 1; j < p.spec.VocabSize && n < end && token >= 0; j++ {
		id := (int(token) + j) % p.spec.VocabSize
		if p.legal(d, r, id/32)>>(id%32)&1 != 0 {
			rest -= math.Ln2
			out.TopTokens[n], out.TopLogprobs[n] = int32(id), float32(rest)
			n++
		}
	}
	for ; n < end; n++ {
		out.TopTokens[n], out.TopLogprobs[n] = -1, backend.Forbid
	}
}
