package grammar

import "math/bits"

// Matcher follows one text through a grammar. Its methods must not be called at the
// same time. Different matchers of one grammar may be used at the same time.
type Matcher struct {
	m     *machine
	at    *position
	past  []*position // the positions before each accepted token
	ended int         // how many of the accepted tokens were end tokens
}

// NewMatcher returns a matcher at the beginning of a text, or behind Spec.Prefix.
func (g *Grammar) NewMatcher() *Matcher {
	if g.start != nil {
		return &Matcher{m: g.m, at: g.start}
	}
	return &Matcher{m: g.m, at: g.m.root}
}

// Fork returns a second matcher at the same position.
func (m *Matcher) Fork() *Matcher {
	f := *m
	f.past = append([]*position(nil), m.past...)
	return &f
}

// Fill writes the legal tokens to mask as backend.Draws.Masks has them: bit v%32
// of word v/32 is 1 if token v is legal. mask is the caller's, has at least
// (Size()+31)/32 words, and is overwritten; words beyond the vocabulary become 0.
// After an end token only end tokens are legal. If no token is legal, the error is
// ErrTooComplex if something was given up because the grammar is too ambiguous, and
// otherwise ErrStuck, which can happen only with a vocabulary that lacks single bytes.
//
// Fill takes about a microsecond, and up to a few milliseconds when a text is the first
// to reach a part of a grammar. A very ambiguous grammar can make that a second or two.
func (m *Matcher) Fill(mask []uint32) error { return m.FillPaced(mask, nil) }

// A Pace lets a fill that takes long be done in pieces. The fill calls it
// every few microseconds of work, and every millisecond or so if the grammar is very
// ambiguous, holding nothing that [Matcher.Accept],
// [Matcher.QuickFill] or [Matcher.QuickAccept] need. It may take any time to return.
// With waiting, the fill cannot go on, because another one builds what both need of the
// same grammar. If it returns false, the fill ends with ErrAbandoned.
type Pace func(waiting bool) (goOn bool)

// FillPaced is Fill in pieces. pace may be nil.
func (m *Matcher) FillPaced(mask []uint32, pace Pace) (err error) {
	defer catch(&err)
	v := m.m.voc
	words := v.words()
	undecided := false
	clear(mask[words:])
	mask = mask[:words]
	if m.ended > 0 {
		clear(mask)
	} else {
		undecided = m.m.fill(m.at, mask, pace)
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
	if undecided {
		return ErrTooComplex
	}
	return ErrStuck
}

// QuickFill reports whether Fill takes no more than some microseconds here, because a
// text was in the same place before.
func (m *Matcher) QuickFill() bool {
	return m.ended > 0 || len(m.at.tops) == 0 || m.at.filled.Load()
}

// QuickAccept reports whether Accept takes less than a microsecond for token, because a
// text went the same way before.
func (m *Matcher) QuickAccept(token int32) bool {
	v := m.m.voc
	if token < 0 || int(token) >= v.size || m.ended > 0 || v.ends(token) || len(v.tokens[token]) > maxTokenLen {
		return true
	}
	return m.m.quick(m.at, token)
}

// Accept goes on over a token. If the token is not legal here, it changes nothing and
// reports false.
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
	if m.ended > 0 {
		return false
	}
	next := m.m.accept(m.at, token)
	if next == dead {
		return false
	}
	m.past = append(m.past, m.at)
	m.at = m.m.thinned(next)
	return true
}

// Rollback takes back the last n accepted tokens, or all of them if there are fewer.
// It takes constant time per token.
func (m *Matcher) Rollback(n int) {
	for range min(n, len(m.past)) {
		m.at = m.past[len(m.past)-1]
		m.past = m.past[:len(m.past)-1]
		m.ended = max(0, m.ended-1)
	}
}

// Len is the number of accepted tokens.
func (m *Matcher) Len() int { return len(m.past) }

// Done reports whether the text is complete, so that an end token is legal.
func (m *Matcher) Done() bool { return m.at.accept }

// Ended reports whether an end token was accepted.
func (m *Matcher) Ended() bool { return m.ended > 0 }

// maxForced bounds the bytes that Forced returns.
const maxForced = 4096

// Forced appends to dst the bytes with which every continuation of the text begins.
// There are none if there is a choice or the text may end.
func (m *Matcher) Forced(dst []byte) []byte {
	if m.ended > 0 {
		return dst
	}
	at := m.at
	for range maxForced {
		b, ok := m.m.onlyByte(at)
		if !ok || b == marker { // a named token has no bytes
			break
		}
		dst = append(dst, b)
		at = m.m.step(at, b)
	}
	return dst
}

// Settled reports whether the next token may be the only legal one: either only one
// byte can follow, or the text may end. It is cheap, and tells whether it is worth
// while to fill a mask and look for a Single token.
func (m *Matcher) Settled() bool {
	if m.ended > 0 || m.at.accept {
		return true
	}
	_, ok := m.m.onlyByte(m.at)
	return ok
}

// Single returns the only token that mask allows. It reports false if mask allows no
// token or more than one.
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

// ends reports whether token is an end token. There are only a few of them.
func (v *Vocabulary) ends(token int32) bool {
	for _, t := range v.eos {
		if t == token {
			return true
		}
	}
	return false
}
