package grammar

// Vocabularies made by byte-pair encoding write a space together with what follows it: a string
// in JSON begins with the token ` "`, and a token of a space alone comes only before what the
// vocabulary has no such token for, a digit for instance. If a model is about to write a number
// where the schema asks for a string, it would take that lone space, which is legal, and then be
// forced to go on with a quotation mark that never follows a lone space in any text that it has
// seen. What it writes after that is worth little. Without the lone space the model takes ` "`
// and goes on as usual.

// loneSpace finds the token of one space and, for each byte, the token of a space and that byte.
func (v *Vocabulary) loneSpace() {
	v.space = -1
	for i := range v.spaced {
		v.spaced[i] = -1
	}
	for _, id := range v.sorted {
		switch t := v.tokens[id]; {
		case t[0] != ' ' || len(t) > 2:
		case len(t) == 1:
			v.space = id
		default:
			v.spaced[t[1]] = id
		}
	}
}

// WithoutLoneSpace takes the token of one space out of a mask that [Matcher.Fill] has just
// written, if whatever can follow the space is legal here as one token together with it. Every
// text that the grammar allows can still be written, also where the mask lacks tokens because the
// grammar is too ambiguous. [Matcher.Accept] goes on to accept the
// lone space, in drafts for instance.
func (m *Matcher) WithoutLoneSpace(mask []uint32) {
	v := m.m.voc
	if v.space < 0 || m.ended > 0 || !has(mask, v.space) {
		return
	}
	behind := m.m.step(m.at, ' ')
	if behind.accept || len(behind.tops) == 0 {
		return
	}
	for _, f := range behind.tops {
		for _, e := range m.m.net.at(f.st).edges {
			for b := int(e.lo); b <= int(e.hi); b++ {
				if joined := v.spaced[b]; joined < 0 || !has(mask, joined) {
					return
				}
			}
		}
	}
	v.unset(mask, v.space)
}

// has reports whether a mask allows a token.
func has(mask []uint32, tok int32) bool { return mask[tok>>5]>>(tok&31)&1 == 1 }
