package grammar

// Only is the token that comes next where no other may, else -1. It is cheap: it
// looks for one only where the next byte is settled or the text may end. scratch
// is as for Fill.
func (m *Matcher) Only(scratch []uint32) int32 {
	if m.ended > 0 {
		return -1
	}
	if _, settled := m.m.only(m.at); !settled && !m.at.accept {
		return -1
	}
	if m.Fill(scratch) != nil {
		return -1
	}
	if t, ok := Single(scratch); ok {
		return t
	}
	return -1
}
