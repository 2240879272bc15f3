package grammar

import "time"

// A meter bounds what one compilation may cost. It counts units of work: a state,
// an edge, a schema, a name or a comparison is about one unit. The number of units
// that a specification needs is the same on every machine, so the budget decides
// which specifications are accepted; the deadline only guards against a machine
// that is much slower than expected. Once a meter has refused, it refuses for good.
type meter struct {
	left     int64
	deadline time.Time   // zero: none
	gone     func() bool // whether nobody waits for the result any more; nil: never
	since    int         // units since the clock and gone were last asked
}

// pause is the number of units between two looks at the clock. A unit takes less
// than a microsecond, so that is well below a millisecond; looking at the clock for
// every unit would cost more than most of them.
const pause = 512

// unmetered is for what weir itself compiles at its start.
func unmetered() *meter { return &meter{left: 1 << 62} }

// work accounts for n units. It ends the compilation with a panic that catch turns
// into an error when the budget is spent, the deadline has passed, or nobody waits
// for the result.
func (m *meter) work(n int) {
	if m.left -= int64(n); m.left < 0 {
		fail(ErrTooComplex, "", "the constraint takes too much work to compile")
	}
	if m.since += n; m.since < pause {
		return
	}
	m.since = 0
	if m.gone != nil && m.gone() {
		m.left = -1
		fail(ErrAbandoned, "", "nobody waits for the constraint any more")
	}
	if !m.deadline.IsZero() && time.Now().After(m.deadline) {
		m.left = -1
		fail(ErrTooComplex, "", "compiling takes too long")
	}
}
