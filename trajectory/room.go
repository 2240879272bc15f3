package trajectory

import (
	"unicode/utf8"

	"weir/internal/jsontext"
)

// What the facts of a trajectory take at most, in bytes: for each member of metrics and of
// metadata, for each byte of these two as they are read, and for each byte of a finish reason
// or a time that is longer than usual. TestReadHoldsWhatItReserved measures them.
const (
	scoreBytes = 112
	labelBytes = 144
	factsByte  = 4
	longText   = 256
)

// room reserves memory for what is made of a text, before it is made. The zero value reserves
// nothing.
type room struct {
	reserve func(n int64) error
	err     error // why there was no memory
	now     int64 // needed by the facts that are being read
	most    int64 // reserved for facts
}

// begin forgets the facts that were read before: the next ones take their place.
func (r *room) begin() { r.now = 0 }

// need reserves n bytes for facts, as far as there was no need of as much before. If it
// returns false there are none, and nothing more is read into memory.
func (r *room) need(n int64) bool {
	if r.reserve == nil {
		return true
	}
	if r.err != nil {
		return false
	}
	r.now += n
	return r.now <= r.most || r.grow(&r.most, r.now)
}

// grow reserves what is missing of n bytes.
func (r *room) grow(held *int64, n int64) bool {
	if r.reserve == nil || n <= *held {
		return true
	}
	if r.err == nil {
		r.err = r.reserve(n - *held)
	}
	if r.err != nil {
		return false
	}
	*held = n
	return true
}

// members counts the members of the object at the cursor, without taking it, and reserves
// memory to list them: each bytes for one.
func (r *room) members(c *jsontext.Cursor, each int64) (n int, ok bool) {
	ahead := *c
	from := ahead.Offset()
	ahead.Object(func(Value) {
		ahead.Take()
		n++
	})
	return n, r.need(int64(n)*each + factsByte*int64(ahead.Offset()-from))
}

// longName is the length of a member's name, as it is written, from which on it is none that
// this package knows, and is cut in the paths of errors. A body may have names of many
// megabytes, and an error a hundred of them.
const longName = 1 << 10

// shortName is the name of a member as paths have it.
func shortName(name Value) string {
	if len(name) <= longName {
		return name.Text()
	}
	end := 1
	for end < longName { // characters and escapes stay whole
		switch {
		case name[end] != '\\':
			_, size := utf8.DecodeRune(name[end:])
			end += size
		case name[end+1] == 'u':
			end += len(`\u0000`)
		default:
			end += 2
		}
	}
	return Value(append(append([]byte(nil), name[:end]...), '"')).Text() + "…"
}
