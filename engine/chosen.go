package engine

import (
	"fmt"
	"math"

	"weir/backend"
)

// checkChosen checks LogprobIDs and Forcers.
func (r *Request) checkChosen(vocab int) error {
	if len(r.LogprobIDs) > 0 && (r.Sampling.Logprobs != backend.RawLogprobs || r.Sampling.TopLogprobs != 0) {
		return fmt.Errorf("%w: the log-probabilities of chosen tokens are raw ones, and take the place of the best ones", ErrInvalid)
	}
	for _, t := range r.LogprobIDs {
		if t < 0 || int(t) >= vocab {
			return fmt.Errorf("%w: token %d is not in the vocabulary of %d", ErrInvalid, t, vocab)
		}
	}
	if r.Forcers != nil && len(r.Forcers) != r.N {
		return fmt.Errorf("%w: %d choices need as many forcers, not %d", ErrInvalid, r.N, len(r.Forcers))
	}
	return nil
}

// hostRow is what a step gave for a row whose logits were copied to the host.
type hostRow struct {
	logits []float32 // before the mask
	mask   []uint32  // nil: all tokens are legal
}

// hostRow returns the logits of a row, of which host rows with logits come before it.
func (s *stepData) hostRow(row, host, vocab, words int) (h hostRow) {
	h.logits = s.out.Logits[host*vocab : (host+1)*vocab]
	if m := int(s.draws.Rows[row].Mask); m >= 0 {
		h.mask = s.draws.Masks[m*words : (m+1)*words]
	}
	return h
}

// chosen appends the log-probabilities of ids to dst. No pass over the vocabulary is needed
// for that: the log-probability of the token tok, which the device has computed, says what
// divides all of them.
func (h hostRow) chosen(dst []TokenLogprob, ids []int32, tok int32, logprob float32) []TokenLogprob {
	total := float64(h.logits[tok]) - float64(logprob)
	for _, id := range ids {
		t := TokenLogprob{Token: id, Logprob: logprob}
		switch {
		case id == tok:
		case h.mask != nil && h.mask[id/32]>>(id%32)&1 == 0:
			t.Logprob = float32(math.Inf(-1))
		default:
			t.Logprob = float32(min(float64(h.logits[id])-total, 0))
		}
		dst = append(dst, t)
	}
	return dst
}

// forced appends the log-probabilities of ids to dst where a mask leaves only the token tok.
func forced(dst []TokenLogprob, ids []int32, tok int32) []TokenLogprob {
	for _, id := range ids {
		t := TokenLogprob{Token: id}
		if id != tok {
			t.Logprob = float32(math.Inf(-1))
		}
		dst = append(dst, t)
	}
	return dst
}

// forceBias is far beyond any logit, and small enough to be divided by any temperature.
const forceBias = 1e9

// force makes the newest row of d draw token t, unless that is impossible. The row's edits
// begin at first.
func force(d *backend.Draws, first int, t int32) {
	e := backend.Edit{Token: t, Bias: forceBias, Repeat: 1}
	for i := first; i < len(d.Edits); i++ {
		if d.Edits[i].Token == t {
			d.Edits[i] = e
			return
		}
	}
	d.Edits = append(d.Edits, e)
	d.Rows[len(d.Rows)-1].EditEnd++
}
