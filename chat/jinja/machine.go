package jinja

import (
	"math"
	"time"
)

const (
	maxInt = math.MaxInt64
	minInt = math.MinInt64

	// maxNesting bounds the depth of nested values for everything that descends into
	// them: printing, comparing, hashing, tojson. Python stops at about 1,000 levels.
	maxNesting = 900
)

// activation holds the variables of one call of a function: the template
// itself, a macro, a block, a recursive loop, a loop's filter.
type activation struct {
	slots  []Value // missing where unset
	parent *activation
}

// machine is the state of one render.
type machine struct {
	t   *Template
	act *activation
	// out is the text written so far. A macro, a set block or the like notes the length
	// where it begins, and cuts its text off again when it ends.
	out []byte
	// globals has the values of the names that no statement defines, by their index in
	// Template.globals. exported has what the top level has set, for blocks.
	globals  []Value
	exported map[string]Value
	stack    []Value // arguments of the calls that have not returned
	keywords []keyword

	lim   Limits
	steps int64 // that are left of the current slice of the budget
	rest  int64 // that are left of Limits.Steps beside the slice
	done  <-chan struct{}
	mem   int64 // bytes counted so far
	// reserve is Options.Reserve, and reserved the bytes that it has allowed.
	reserve  func(int64) bool
	reserved int64
	kept     int // bytes of the buffer of an earlier render, which are used again
	depth    int // macros, recursive loops and blocks that have not returned
	pulls    int // generators that wait for the next item of another generator
	line     int
	now      func() time.Time
}

// spend takes n steps off the budget.
func (m *machine) spend(n int64) {
	m.steps -= n
	if m.steps < 0 {
		m.refill()
	}
}

// slice is the number of steps after which a render looks whether it is still wanted: one
// to three milliseconds.
const slice = 1 << 14

// refill takes the next slice of the budget, or as much as the last operation has cost. It
// ends the render if nobody waits for it any more.
func (m *machine) refill() {
	select {
	case <-m.done:
		throwStopped()
	default:
	}
	n := min(m.rest, max(slice, -m.steps))
	m.steps += n
	m.rest -= n
	if m.steps < 0 {
		throwLimit("steps")
	}
}

// spent returns the steps that were counted so far.
func (m *machine) spent() int64 { return m.lim.Steps - m.steps - m.rest }

// alloc counts n bytes that are about to be allocated, and the time to fill them.
func (m *machine) alloc(n int) {
	m.mem += int64(n)
	if m.mem > m.lim.Memory || n < 0 {
		throwLimit("memory")
	}
	m.hold(0)
	m.spend(int64(n >> 6))
}

// reserveStep is the least number of bytes that a render asks for at a time.
const reserveStep = 32 << 10

// hold asks for the bytes that were counted, if they are not reserved yet, and for so many
// more of a larger buffer for the output.
func (m *machine) hold(more int) {
	n := m.mem + int64(max(0, cap(m.out)+more-m.kept))
	if n <= m.reserved {
		return
	}
	if n += n/8 + reserveStep; !m.reserve(n) {
		throwStopped()
	}
	m.reserved = n
}

func throwStopped() {
	panic(&Error{Class: "ResourceError", Text: "nobody waits for the prompt any more", kind: ErrStopped})
}

// allocTimes counts n times size bytes without overflowing.
func (m *machine) allocTimes(n int64, size int) {
	if n > 0 && size > 0 {
		if n > m.lim.Memory/int64(size) {
			throwLimit("memory")
		}
		m.alloc(int(n) * size)
	}
}

// scan counts the time to read n bytes: to compare, hash, search or copy them, or to count
// their characters.
func (m *machine) scan(n int) { m.spend(int64(n >> 7)) }

// classify counts the time to look up a property of each character in n bytes.
func (m *machine) classify(n int) { m.spend(int64(n >> 3)) }

// mapping counts n bytes of new text whose characters are looked up one by one.
func (m *machine) mapping(n int) {
	m.alloc(n)
	m.spend(int64(n >> 4))
}

const valueSize = 16 // bytes of a Value

func (m *machine) newList(items []Value) *List {
	m.alloc(valueSize * (len(items) + 2))
	return &List{items: items}
}

func (m *machine) newTuple(items []Value) *tuple {
	m.alloc(valueSize * (len(items) + 2))
	return &tuple{items: items}
}

// write appends to the output.
func (m *machine) write(s string) {
	if len(m.out)+len(s) > m.lim.Output {
		throwLimit("output")
	}
	m.scan(len(s))
	if n := len(m.out) + len(s); n > cap(m.out) {
		m.hold(n + n/2)
	}
	m.out = append(m.out, s...)
}

// take cuts the text that was written since start off the output and returns it.
func (m *machine) take(start int) string {
	m.alloc(len(m.out) - start)
	text := string(m.out[start:])
	m.out = m.out[:start]
	return text
}

// enter starts a call of a function of the template. It returns the caller's activation,
// which leave needs.
func (m *machine) enter(f *function, parent *activation) *activation {
	m.depth++
	if m.depth > m.lim.Depth {
		throwRecursion()
	}
	caller := m.act
	m.act = m.newActivation(f, parent)
	return caller
}

func (m *machine) leave(caller *activation) {
	m.act = caller
	m.depth--
}

func (m *machine) newActivation(f *function, parent *activation) *activation {
	m.alloc(valueSize * (f.size + 3))
	a := &activation{slots: make([]Value, f.size), parent: parent}
	for i := range a.slots {
		a.slots[i] = missing
	}
	return a
}

// at returns the activation that is hops functions further out.
func (a *activation) at(hops int) *activation {
	for ; hops > 0; hops-- {
		a = a.parent
	}
	return a
}
