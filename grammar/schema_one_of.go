package grammar

import (
	"maps"
	"slices"
	"strings"
)

// disjoint returns those schemas of a oneOf that a value can satisfy together with
// have. The oneOf is refused unless no value can satisfy two of them.
func (s *schemas) disjoint(have alternative, c choice) []any {
	var with []any
	for _, n := range have {
		if n != c.of {
			with = append(with, s.local(n))
		}
	}
	with = append(with, s.local(c.of))
	o := &oneOf{s: s, with: slices.Clip(with)}
	var at []int
	for i, v := range c.from {
		if !s.empty(append(o.with, v)) {
			o.of, at = append(o.of, v), append(at, i)
		}
	}
	if i, j, ok := o.overlap(); ok {
		fail(ErrUnsupported, stepPath(c.of.path, "oneOf"), "oneOf cannot be enforced: its alternatives %d and %d may match the same value", at[j], at[i])
	}
	return o.of
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

// overlap returns two alternatives, j before i, that may match the same value.
func (o *oneOf) overlap() (i, j int, ok bool) {
	labels := o.labels()
	var unlabelled []int
	seen := make(map[string][]int) // the alternatives before the i-th, by label
	for i := range o.of {
		before := unlabelled
		if labels[i] == nil {
			before = nil
			for j := range i {
				before = append(before, j)
			}
			unlabelled = append(unlabelled, i)
		} else {
			for _, l := range labels[i] {
				before = append(slices.Clip(before), seen[l]...)
				seen[l] = append(seen[l], i)
			}
		}
		for _, j := range before {
			if !o.s.empty(append(o.with, o.of[i], o.of[j])) {
				return i, j, true
			}
		}
	}
	return 0, 0, false
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
