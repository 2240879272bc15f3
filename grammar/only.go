package grammar

// Settled reports that the next token may be the only legal one: the next byte is
// settled, or the text may end. It is cheap; only then is looking at a mask for a
// single token worth its while.
func (m *Matcher) Settled() bool {
	if m.ended > 0 || m.at.accept {
		return true
	}
	_, settled := m.m.only(m.at)
	return settled
}
