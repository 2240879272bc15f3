package grammar

import (
	"maps"
	"slices"
	"strings"
)

// exclusive returns the sets of schemas of which a value satisfies one, if it satisfies have
// and exactly one schema of a oneOf: the schema, and the negations of those others that the
// same value may satisfy. narrowed is true if there are any.
func (s *schemas) exclusive(have alternative, c choice) (branches [][]any, narrowed bool) {
	var with []any
	for _, n := range have {
		if n != c.of {
			with = append(with, s.local(n))
		}
	}
	with = append(with, s.local(c.of))
	o := &oneOf{s: s, with: slices.Clip(with)}
	for _, v := range c.from {
		if !s.empty(append(o.with, v)) {
			o.of = append(o.of, v)
		}
	}
	for _, v := range o.of {
		branches = append(branches, []any{v})
	}
	o.overlaps(func(i, j int) bool {
		narrowed = true
		branches[i] = append(branches[i], s.d.negate(o.of[j]))
		branches[j] = append(branches[j], s.d.negate(o.of[i]))
		return true
	})
	if narrowed && s.relax(c.of) {
		for i, v := range o.of {
			branches[i] = []any{v}
		}
	}
	return branches, narrowed
}

// relax reports whether the oneOf of n, whose alternatives overlap, is read as anyOf, and
// warns of it. It notes whether it might be: if the schema is refused while that is read
// exactly, it is read again.
func (s *schemas) relax(n *schemaNode) bool {
	if !s.oneOfAny && !n.anyForOne {
		return false
	}
	s.relaxable = true
	if s.relaxed {
		s.b.warn(stepPath(n.path, "oneOf"), "oneOf is read as anyOf: its alternatives may match the same value, and that cannot be excluded")
	}
	return s.relaxed
}

// oneOf looks for two alternatives of a oneOf that the same value may satisfy. To compare
// each with each takes time with the square of their number, and most unions say by a value
// which alternative is meant: each is a list of constants, or an object that requires a
// property with a constant, the discriminator. Such alternatives are only compared if they
// have a constant in common.
type oneOf struct {
	s    *schemas
	with []any // schemas that hold for every alternative
	of   []any
}

// overlap reports whether two alternatives may match the same value, and which, j before i.
func (o *oneOf) overlap() (i, j int, ok bool) {
	o.overlaps(func(a, b int) bool {
		i, j, ok = a, b, true
		return false
	})
	return i, j, ok
}

// pairWork is the work of telling two alternatives apart, beside what is spent for it in
// other places.
const pairWork = 20

// overlaps calls f for the pairs of alternatives, j before i, that may match the same value,
// until it returns false.
func (o *oneOf) overlaps(f func(i, j int) bool) {
	labels := o.labels()
	var unlabelled []int
	seen := make(map[string][]int) // the alternatives before the i-th, by label
	for i := range o.of {
		before := slices.Clone(unlabelled)
		if labels[i] == nil {
			before = nil
			for j := range i {
				before = append(before, j)
			}
			unlabelled = append(unlabelled, i)
		} else {
			for _, l := range labels[i] {
				before = append(before, seen[l]...)
				seen[l] = append(seen[l], i)
			}
			slices.Sort(before)
			before = slices.Compact(before)
		}
		for _, j := range before {
			o.s.b.spend(pairWork)
			if !o.s.empty(append(o.with, o.of[i], o.of[j])) && !f(i, j) {
				return
			}
		}
	}
}

// labels returns for each alternative a list of constants of which every value that it
// matches has one, or nil for an alternative that cannot be told from others in this way.
// The lists are of values themselves or, if more alternatives have these, of the values of
// one property.
func (o *oneOf) labels() [][]string {
	values := make([][]string, len(o.of))
	properties := make([]map[string][]string, len(o.of))
	count := make(map[string]int)
	constants := 0
	for i, v := range o.of {
		alternatives := o.s.expand(append(o.with, v), false)
		if values[i] = o.s.constants(alternatives); values[i] != nil {
			constants++
			continue
		}
		properties[i] = o.s.discriminators(alternatives)
		for name := range properties[i] {
			count[name]++
		}
	}
	best, most := "", constants
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if count[name] > most {
			best, most = name, count[name]
		}
	}
	if most == constants {
		return values
	}
	for i := range values {
		values[i] = properties[i][best]
	}
	return values
}

// constants returns the canonical texts of values such that every value that one of the
// alternatives matches is among them, or nil if that is not known.
func (s *schemas) constants(alternatives []alternative) []string {
	var res []string
	for _, a := range alternatives {
		k := slices.IndexFunc(a, func(n *schemaNode) bool { return n.enum != nil })
		if k < 0 {
			return nil
		}
		s.b.spend(len(a[k].enum))
		for _, v := range a[k].enum {
			text := canonicalJSON(v)
			if _, isText := v.(string); !isText && strings.Contains(text, "=") {
				return nil // a number in it is too long to compare with those that are written otherwise
			}
			res = append(res, text)
		}
	}
	slices.Sort(res)
	return slices.Compact(res)
}

// discriminators returns, by name, the properties that every value that one of the
// alternatives matches has, with the constants that they can be.
func (s *schemas) discriminators(alternatives []alternative) map[string][]string {
	var res map[string][]string
	for _, a := range alternatives {
		if a.kinds() != kindObject {
			return nil
		}
		of := s.requiredConstants(a)
		if res == nil {
			res = of
			continue
		}
		for name, values := range res {
			if of[name] == nil {
				delete(res, name)
			} else {
				res[name] = append(values, of[name]...)
			}
		}
	}
	return res
}

func (s *schemas) requiredConstants(a alternative) map[string][]string {
	res := make(map[string][]string)
	for _, n := range a {
		for _, name := range n.props.required {
			if set := s.under(a, name); res[name] == nil && len(set) > 0 {
				if values := s.constants(s.expand(set, false)); values != nil {
					res[name] = values
				}
			}
		}
	}
	return res
}
