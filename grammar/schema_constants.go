package grammar

import (
	"slices"
	"unicode/utf8"
)

// Values that are written in a schema (enum, const, property names) are validated
// against its other parts when it is compiled.

// holds reports whether v satisfies schema.
func (s *schemas) holds(v any, schema any) bool { return s.holdsNode(v, s.d.node(schema), 0) }

// holdsAll reports whether v satisfies all schemas of a. Their anyOf and oneOf do not
// count: what was chosen of them is in a.
func (s *schemas) holdsAll(v any, a alternative) bool {
	return !slices.ContainsFunc(a, func(n *schemaNode) bool { return !s.holdsLocal(v, n, 0) })
}

// holdsNode reports whether v satisfies n. depth is the number of schemas on the way
// to n.
func (s *schemas) holdsNode(v any, n *schemaNode, depth int) bool {
	s.b.spend(1)
	if depth > 4*maxDepth {
		fail(ErrTooComplex, n.path, "a schema refers to itself without end")
	}
	return s.holdsHere(v, n, depth) &&
		!slices.ContainsFunc(n.also, func(c any) bool { return !s.holdsNode(v, s.d.node(c), depth+1) })
}

// holdsHere reports whether v satisfies n without its allOf and $ref, which the negation of
// a schema does not have.
func (s *schemas) holdsHere(v any, n *schemaNode, depth int) bool {
	if n.never {
		return false
	}
	if n.negates != nil {
		s.negative++
		defer func() { s.negative-- }()
		return !s.holdsNode(v, s.d.node(n.negates), depth+1)
	}
	in := func(c any) bool { return s.holdsNode(v, s.d.node(c), depth+1) }
	count := 0
	for _, c := range n.oneOf {
		if in(c) {
			count++
		}
	}
	if count == 1 && s.proving == 0 {
		count = s.perhaps(n.oneOf, in)
	}
	return s.holdsLocal(v, n, depth) &&
		(n.anyOf == nil || slices.ContainsFunc(n.anyOf, in)) &&
		(n.oneOf == nil || count == 1 || count > 1 && s.relax(n))
}

// perhaps is how many of the schemas a value satisfies, if their formats are read as widely as
// any validator may read them.
func (s *schemas) perhaps(list []any, in func(c any) bool) (count int) {
	s.proving++
	defer func() { s.proving-- }()
	for _, c := range list {
		if in(c) {
			count++
		}
	}
	return count
}

// holdsLocal reports whether v satisfies n without its allOf, $ref, anyOf and oneOf.
func (s *schemas) holdsLocal(v any, n *schemaNode, depth int) bool {
	if n.enum != nil && !s.listed(v, n) || n.excluded != nil && n.excluded.has(v) {
		return false
	}
	k := n.kinds
	if u := n.undeniable; u != nil && kindOf(v)&u.kinds != 0 {
		alternative{n}.refuse()
	}
	switch v := v.(type) {
	case nil:
		return k&kindNull != 0
	case bool:
		return k&kindBool != 0
	case numeral:
		r, ok := parseNumber(string(v))
		if !ok {
			fail(ErrTooComplex, n.path, "a number with too many digits")
		}
		kind := kindOf(v)
		if kind == kindInteger && s.d.plainIntegers() && fractional(v) {
			kind = kindFraction
		}
		return k&kind != 0 && n.numbers.contains(r)
	case string:
		return k&kindString != 0 && s.holdsText(v, n)
	case []any:
		return k&kindArray != 0 && s.holdsArray(v, n, depth)
	case *object:
		return k&kindObject != 0 && s.holdsObject(v, n, depth)
	}
	return false
}

// disputed reports whether some validators take v for a text of the format, and others not.
func (s *schemas) disputed(v, format string) bool {
	l := s.format(format)
	return l != nil && !l.dfa.match(v) && s.wide(l).match(v)
}

// holdsText reports whether the string v satisfies the keywords for strings of n.
func (s *schemas) holdsText(v string, n *schemaNode) bool {
	r := s.stringRules(alternative{n})
	length := int64(utf8.RuneCountInString(v))
	if s.negative > 0 && s.disputed(v, n.text.format) {
		alternative{{kinds: kindString, undeniable: &undeniable{kindString, stepPath(n.path, "format"), "format"}}}.refuse()
	}
	return length >= r.least && (r.most < 0 || length <= r.most) &&
		!slices.ContainsFunc(r.langs, func(l *language) bool {
			d := s.automaton(l)
			if d == nil {
				fail(ErrUnsupported, r.path, "the pattern needs too many states here")
			}
			return !d.match(v)
		})
}

// listed reports whether v is one of the values of n.enum.
func (s *schemas) listed(v any, n *schemaNode) bool {
	s.b.spend(1)
	if n.listed == nil {
		s.b.spend(len(n.enum))
		n.listed = make(map[string]bool, len(n.enum))
		for _, e := range n.enum {
			n.listed[canonicalJSON(e)] = true
		}
	}
	text := canonicalJSON(v)
	s.b.spend(len(text) / 16)
	return n.listed[text]
}

func (s *schemas) holdsArray(v []any, n *schemaNode, depth int) bool {
	if n.array.unique && !distinct(v) || n.array.contains != nil && !s.holdsContains(v, n.array.contains, depth) {
		return false
	}
	prefix, rest, least, most := alternative{n}.items()
	if int64(len(v)) < least || most >= 0 && int64(len(v)) > most {
		return false
	}
	for i, e := range v {
		set := rest
		if i < len(prefix) {
			set = prefix[i]
		}
		for _, c := range set {
			if !s.holdsNode(e, s.d.node(c), depth+1) {
				return false
			}
		}
	}
	return n.array.some == nil || s.hasItem(v, n.array.some, depth)
}

func (s *schemas) holdsObject(v *object, n *schemaNode, depth int) bool {
	r := &n.props
	size := int64(len(v.keys))
	if size < r.least || r.most >= 0 && size > r.most {
		return false
	}
	for _, k := range r.required {
		if _, ok := v.m[k]; !ok {
			return false
		}
	}
	for _, k := range v.keys {
		if r.keys != nil && !s.holdsNode(k, s.d.node(r.keys), depth+1) {
			return false
		}
		for _, c := range s.underNode(n, k) {
			if !s.holdsNode(v.m[k], s.d.node(c), depth+1) {
				return false
			}
		}
	}
	return r.some == nil || s.hasProperty(v, r.some, depth)
}

// kindOf is the type of v. It is 0 for a number with too many digits.
func kindOf(v any) kinds {
	switch v := v.(type) {
	case nil:
		return kindNull
	case bool:
		return kindBool
	case numeral:
		r, ok := parseNumber(string(v))
		switch {
		case !ok:
			return 0
		case r.IsInt():
			return kindInteger
		}
		return kindFraction
	case string:
		return kindString
	case []any:
		return kindArray
	}
	return kindObject
}
