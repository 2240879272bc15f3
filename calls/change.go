package calls

import (
	"weir/internal/jsontext"
)

// kind is what a change does to a call.
type kind byte

const (
	start    kind = iota // what is known when a call begins
	end                  // what is known when it has ended
	complete             // both at once
	rename               // another display name
)

// Change is what a request says of one call. Its values may be parts of the request's body.
type Change struct {
	kind kind
	rec  Record // of what the request says only
}

// Project is the project of the call.
func (c *Change) Project() string { return c.rec.Text(Project) }

// endColumns are the columns that the end of a call sets.
var endColumns = [...]Column{Exception, Output, Summary, RunStepEnd}

// apply returns what a record becomes by a change, and whether it changes at all. old is nil
// if there is none, and is not written to (docs/interface/weave.md, W-110 to W-114).
func (c *Change) apply(old *Record) (*Record, bool) {
	if old == nil {
		r := c.rec
		r.settle()
		return &r, true
	}
	if old.flags&isDeleted != 0 || c.kind == start && old.flags&hasStart != 0 {
		return old, false
	}
	var r Record
	switch c.kind {
	case start:
		r = c.rec
		r.Ended, r.flags = old.Ended, r.flags|old.flags
		for _, col := range endColumns {
			r.fields[col] = old.fields[col]
		}
		r.fields[Extra] = mergeObjects(c.rec.fields[Extra], old.fields[Extra])
	case end:
		r = *old
		r.Ended, r.flags = c.rec.Ended, r.flags|hasEnd
		for _, col := range endColumns {
			r.fields[col] = c.rec.fields[col]
		}
		r.fields[Extra] = mergeObjects(old.fields[Extra], c.rec.fields[Extra])
	case complete:
		r = c.rec
	case rename:
		r = *old
		r.fields[Renamed] = c.rec.fields[Renamed]
	}
	if r.fields[Renamed] == nil {
		r.fields[Renamed] = old.fields[Renamed]
	}
	r.Written = old.Written
	r.settle()
	return &r, true
}

// mergeObjects returns the members of two JSON objects, either of which may be nil. Of
// members with the same name those of b count.
func mergeObjects(a, b jsontext.Value) []byte {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := []byte{'{'}
	member := func(name, v jsontext.Value) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), v...)
	}
	for name, v := range a.RawMembers() {
		if b.Member(name.Text()) == nil {
			member(name, v)
		}
	}
	for name, v := range b.RawMembers() {
		member(name, v)
	}
	return append(out, '}')
}

// Record is the call that a change makes if there is none yet, for programs that keep calls
// in another way.
func (c *Change) Record() *Record {
	r, _ := c.apply(nil)
	return r
}
