package grammar

import (
	"runtime"
	"time"
)

// A meter bounds what one compilation may cost, with the shape of the first mask. It counts units of work: a state,
// an edge, a schema, a name or a comparison is about one unit. A specification needs
// the same number of units on every machine, so the budget decides which
// specifications are accepted, and the deadline only guards against a machine that is
// much slower than expected, or too busy. Once a meter has refused, it refuses for good.
type meter struct {
	left       int64       // units that may still be spent
	deadline   time.Time   // zero: none
	abandoned  func() bool // reports that nobody waits for the result any more; nil: never
	sinceCheck int         // units since the last look at deadline and abandoned
	small      bool        // beyond left units it is not small, and begins anew with more of them

	reserve func(n int64) error // reserves memory, and may wait for it; nil: it is not counted
	held    int64               // bytes that the compilation takes
	granted int64               // bytes that were reserved
}

// holdStep is how many bytes a compilation reserves beyond what it needs.
const holdStep = 1 << 20

// hold accounts for n bytes of memory, which are about to be taken. If there is no room, it
// ends the compilation. The time that it waits for room does not count for the deadline.
func (m *meter) hold(n int64) {
	m.held += n
	if m.reserve != nil && m.held > m.granted {
		m.grow(m.held - m.granted + holdStep)
	}
}

// grow reserves n bytes.
func (m *meter) grow(n int64) {
	began := time.Now()
	if err := m.reserve(n); err != nil {
		m.left, m.small = -1, false
		panic(endError{err})
	}
	m.deadline = m.deadline.Add(time.Since(began))
	m.granted += n
}

// free gives back n bytes of hold, for what is taken next.
func (m *meter) free(n int64) { m.held -= n }

// settle leaves n bytes to h, for the grammar that was compiled.
func (m *meter) settle(h *holding, n int64) {
	if held := h.r.Held(); held >= n {
		h.r.Shrink(held - n)
	} else if m.reserve != nil {
		m.grow(n - held)
	}
	h.granted.Store(n)
}

// endError ends a compilation for a reason that lies outside the constraint: it gets no
// memory, or no time.
type endError struct{ error }

// checkInterval is the number of units between two looks at the clock. A unit takes
// less than a microsecond, so that is well below a millisecond. To look at the clock
// for every unit would cost more than most units.
const checkInterval = 512

// unmetered is the meter of what weir itself compiles.
func unmetered() *meter { return &meter{left: 1 << 62} }

// spend accounts for n units. If the budget is spent, the deadline has passed or
// nobody waits for the result, it ends the compilation with a panic that catch turns
// into an error.
func (m *meter) spend(n int) {
	if m.left -= int64(n); m.left < 0 {
		if m.small {
			panic(endError{errLarge})
		}
		fail(ErrTooComplex, "", "the constraint takes too much work to compile")
	}
	if m.sinceCheck += n; m.sinceCheck < checkInterval {
		return
	}
	m.sinceCheck = 0
	// Without this, a goroutine that waits for a processor, such as one that has a token for
	// a client, would wait for up to 10 ms, which is how long Go lets another one compute.
	// (Two compilations on two processors: a timer is late by 0.1 to 1 ms instead of 1.5 to 5.)
	runtime.Gosched()
	if m.abandoned != nil && m.abandoned() {
		m.left, m.small = -1, false
		fail(ErrAbandoned, "", "nobody waits for the constraint any more")
	}
	if !m.deadline.IsZero() && time.Now().After(m.deadline) {
		m.left, m.small = -1, false
		panic(endError{ErrDeadline})
	}
}
