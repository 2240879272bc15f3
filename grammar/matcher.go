package grammar

import "math/bits"

// Matcher follows one text through a grammar. It belongs to one sequence: its
// methods must not be called at the same time. Different matchers of one grammar
// may be used from different goroutines.
type Matcher struct {
	m     *machine
	at    *position
	past  []*position // where the text stood before each accepted token
	ended int         // how many of those were end tokens
}

// NewMatcher starts at the beginning of a text.
func (g *Grammar) NewMatcher() *Matcher { return &Matcher{m: g.m, at: g.m.root} }

// Fork is a second matcher at the same place.
func (m *Matcher) Fork() *Matcher {
	f := *m
	f.past = append([]*position(nil), m.past...)
	return &f
}

// Fill writes the legal tokens to mask as backend.Draws.Masks has them: bit v%32
// of word v/32 is 1 if token v is legal. mask is the caller's, has at least
// (Size()+31)/32 words, and is overwritten; words beyond the vocabulary become 0.
// After an end token only end tokens are legal. The error is ErrStuck if nothing
// is: that can only happen with a vocabulary that lacks single bytes, or
// ErrTooComplex if the text has too many parses at once.
//
// It takes about a microsecond, or, where a text enters a part of a grammar for
// the first time, up to a few milliseconds.
func (m *Matcher) Fill(mask []uint32) error {
	v := m.m.voc
	words := v.words()
	clear(mask[words:])
	mask = mask[:words]
	if m.ended > 0 {
		clear(mask)
	} else {
		m.m.fill(m.at, mask)
	}
	if m.at.accept {
		for _, t := range v.eos {
			mask[t>>5] |= 1 << (t & 31)
		}
	}
	for _, w := range mask {
		if w != 0 {
			return nil
		}
	}
	if m.m.tooAmbiguous.Load() {
		return ErrTooComplex
	}
	return ErrStuck
}

// Accept moves on over a token. It reports false, and does not move, if the token
// is not legal here.
func (m *Matcher) Accept(token int32) bool {
	v := m.m.voc
	if token < 0 || int(token) >= v.size {
		return false
	}
	if v.ends(token) {
		if !m.at.accept {
			return false
		}
		m.past = append(m.past, m.at)
		m.ended++
		return true
	}
	t := v.tokens[token]
	if m.ended > 0 || len(t) == 0 || len(t) > maxTokenLen {
		return false
	}
	next := m.m.run(m.at, t)
	if next == dead {
		return false
	}
	m.past = append(m.past, m.at)
	m.at = next
	return true
}

// Rollback takes the last n accepted tokens back, in constant time per token.
func (m *Matcher) Rollback(n int) {
	for range min(n, len(m.past)) {
		m.at = m.past[len(m.past)-1]
		m.past = m.past[:len(m.past)-1]
		m.ended = max(0, m.ended-1)
	}
}

// Len is the number of accepted tokens.
func (m *Matcher) Len() int { return len(m.past) }

// Done reports whether the text is complete as it stands, so that an end token is
// legal.
func (m *Matcher) Done() bool { return m.at.accept }

// Ended reports whether an end token was accepted.
func (m *Matcher) Ended() bool { return m.ended > 0 }

// maxForced bounds what Forced returns.
const maxForced = 4096

// Forced appends to dst the bytes that every continuation of the text begins
// with, nothing where there is a choice or the text may end.
func (m *Matcher) Forced(dst []byte) []byte {
	if m.ended > 0 {
		return dst
	}
	at := m.at
	for range maxForced {
		b, ok := m.m.onlyByte(at)
		if !ok {
			break
		}
		dst = append(dst, b)
		at = m.m.step(at, b)
	}
	return dst
}

// Settled reports that the next token may be the only legal one: the next byte is
// settled, or the text may end. It is cheap; only then is looking at a mask for a
// single token worth its while.
func (m *Matcher) Settled() bool {
	if m.ended > 0 || m.at.accept {
		return true
	}
	_, settled := m.m.onlyByte(m.at)
	return settled
}

// Single returns the only token that mask allows; false if there are none or more.
func Single(mask []uint32) (token int32, ok bool) {
	for i, w := range mask {
		if w == 0 {
			continue
		}
		if ok || w&(w-1) != 0 {
			return 0, false
		}
		token, ok = int32(i*32+bits.TrailingZeros32(w)), true
	}
	return token, ok
}

// ends reports whether token is an end token; there are only a few.
func (v *Vocabulary) ends(token int32) bool {
	for _, t := range v.eos {
		if t == token {
			return true
		}
	}
	return false
}
