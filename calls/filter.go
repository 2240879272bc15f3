package calls

import (
	"strings"

	"weir/internal/jsontext"
	"weir/internal/pace"
)

// filter is Weave's filter of calls: each list that is not empty names the values that a call
// may have, and all of them hold together (docs/interface/weave.md, W-181).
type filter struct {
	ops        patterns // exact names, and those that end in ":*"
	inputRefs  patterns
	outputRefs patterns
	in         map[Column]map[string]bool
	ids        []string // nil: any
	rootsOnly  bool
}

// patterns are texts, some of which stand for all that begin with them.
type patterns struct {
	exact map[string]bool
	begin []string
}

func (p *patterns) empty() bool { return len(p.exact) == 0 && len(p.begin) == 0 }

// anyVersion ends the name of an op, or a reference, that stands for all its versions.
const anyVersion = ":*"

func newPatterns(list []string) (p patterns) {
	p.exact = map[string]bool{}
	for _, s := range list {
		if name, ok := strings.CutSuffix(s, anyVersion); ok {
			p.begin = append(p.begin, name+":")
			continue
		}
		p.exact[s] = true
	}
	return p
}

func (p *patterns) match(text string) bool {
	if p.exact[text] {
		return true
	}
	for _, b := range p.begin {
		if strings.HasPrefix(text, b) {
			return true
		}
	}
	return false
}

// match reports whether a call passes the filter.
func (f *filter) match(r *Record, m *pace.Meter) bool {
	if f.rootsOnly && r.Has(ParentID) {
		return false
	}
	if !f.ops.empty() && !f.ops.match(r.Text(OpName)) {
		return false
	}
	for c, values := range f.in {
		if !r.Has(c) || !values[r.Text(c)] {
			return false
		}
	}
	return (f.inputRefs.empty() || f.inputRefs.within(r.Value(Inputs), m)) && (f.outputRefs.empty() || f.outputRefs.within(r.Value(Output), m))
}

// within reports whether a text in a JSON value, at any depth, matches.
func (p *patterns) within(v jsontext.Value, m *pace.Meter) bool {
	if len(v) == 0 || m.Spend(len(v)) != nil {
		return false
	}
	switch v.Kind() {
	case jsontext.String:
		return p.match(v.SharedText())
	case jsontext.Array:
		for _, e := range v.Elements() {
			if p.within(e, m) {
				return true
			}
		}
	case jsontext.Object:
		for _, e := range v.RawMembers() {
			if p.within(e, m) {
				return true
			}
		}
	}
	return false
}
