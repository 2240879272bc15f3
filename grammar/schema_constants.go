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
	in := func(c any) bool { return s.holdsNode(v, s.d.node(c), depth+1) }
	count := 0
	for _, c := range n.oneOf {
		if in(c) {
			count++
		}
	}
	return !n.never && s.holdsLocal(v, n, depth) &&
		!slices.ContainsFunc(n.also, func(c any) bool { return !in(c) }) &&
		(n.anyOf == nil || slices.ContainsFunc(n.anyOf, in)) &&
		(n.oneOf == nil || count == 1)
}

// holdsLocal reports whether v satisfies n without its allOf, $ref, anyOf and oneOf.
func (s *schemas) holdsLocal(v any, n *schemaNode, depth int) bool {
	if n.enum != nil && !s.listed(v, n) {
		return false
	}
	switch v := v.(type) {
	case nil:
		return n.kinds&kindNull != 0
	case bool:
		return n.kinds&kindBool != 0
	case numeral:
		r, ok := parseNumber(string(v))
		if !ok {
			fail(ErrTooComplex, n.path, "a number with too many digits")
		}
		kind := kindFraction
		if r.IsInt() && !(s.d.plainIntegers() && fractional(v)) {
			kind = kindInteger
		}
		return n.kinds&kind != 0 && n.numbers.contains(r)
	case string:
		if n.kinds&kindString == 0 {
			return false
		}
		s.b.spend(len(v) / 16)
		r := s.stringRules(alternative{n})
		if r.unknown != "" {
			fail(ErrUnsupported, r.unknown, "this format cannot be enforced")
		}
		length := int64(utf8.RuneCountInString(v))
		return length >= r.least && (r.most < 0 || length <= r.most) &&
			!slices.ContainsFunc(r.langs, func(l *language) bool {
				d := s.automaton(l)
				if d == nil {
					fail(ErrUnsupported, r.path, "the pattern needs too many states here")
				}
				return !d.match(v)
			})
	case []any:
		return n.kinds&kindArray != 0 && s.holdsArray(v, n, depth)
	case *object:
		return n.kinds&kindObject != 0 && s.holdsObject(v, n, depth)
	}
	return false
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
	return true
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
	return true
}
