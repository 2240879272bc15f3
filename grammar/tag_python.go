package grammar

import "slices"

// The style python is how models write the arguments of a tool as those of a call in Python:
// keyword arguments, with a comma and a space between them, as in
//
//	city="Paris", days=2, deep={"a": [None, True]}
//
// Strings, numbers, lists and dicts are spelled as in JSON, which is Python as well; null, true
// and false are None, True and False, on every level. Names are identifiers.

// keywords reads the object of a schema in the style python, without the parentheses.
func (t *tags) keywords(from int32, n tagNode) int32 {
	path := stepPath(n.path, "json_schema")
	schema := n.schema()
	s := newSchemas(t.b, schema, path, t.schemaOptions(n))
	s.ws, s.sep = tight, t.b.space
	s.loose, s.tight, s.spaced = false, false, false // the common rules have the names of JSON
	s.names = &pythonNames
	to := t.b.state()
	objects := false
	for _, a := range s.expand([]any{schema}, true) {
		if a.kinds()&kindObject != 0 && !slices.ContainsFunc(a, func(n *schemaNode) bool { return n.enum != nil }) {
			t.b.eps(s.keywordArguments(from, a, path), to)
			objects = true
		}
	}
	if !objects {
		fail(ErrUnsupported, path, "in the style python, the schema must be one of objects")
	}
	return to
}

// keywordArguments reads the properties of a, in the order of the schema. Undeclared ones come
// last.
func (s *schemas) keywordArguments(from int32, a alternative, path string) int32 {
	m := s.members(a)
	m.undeclared = s.undeclared(a, m) // before those that may not appear are dropped
	m.declared = slices.DeleteFunc(m.declared, func(p member) bool {
		return !p.required && (p.barred || slices.Contains(p.set, any(false)))
	})
	if slices.ContainsFunc(m.declared, func(p member) bool { return p.barred }) || !s.enough(m) {
		return s.b.state()
	}
	if m.differ > 0 {
		fail(ErrUnsupported, path, "a number of undeclared properties cannot be enforced in the style python")
	}
	if a.demands() {
		fail(ErrUnsupported, path, "a property that violates a schema cannot be demanded in the style python")
	}
	names := s.keywordNames(nil)
	for _, p := range m.declared {
		if !names.match(p.name) {
			fail(ErrUnsupported, stepPath(path, "properties"), "the name %s is no identifier, so it cannot be written in the style python", quoteJSON(p.name))
		}
	}
	o := &objectBody{s: s, m: m, keywords: true}
	return o.properties(from)
}

// keywordNames are those of names (nil: all) that are identifiers.
func (s *schemas) keywordNames(names *dfa) *dfa {
	d, ok := regexDFA(parseRegex("[a-zA-Z_][a-zA-Z0-9_]*", s.b.meter), false, s.b)
	if ok && names != nil {
		d, ok = d.intersect(names)
	}
	if !ok {
		fail(ErrTooComplex, "", "the names of the properties need too many states")
	}
	return d
}

// undeclaredKeyword is the rule for one undeclared property.
func (s *schemas) undeclaredKeyword(m *members) int32 {
	b := s.b
	r := b.rule()
	to := b.state()
	b.accept(to)
	for _, o := range m.undeclared {
		at := b.lit(b.embed(b.start(r), s.keywordNames(o.names)), "=")
		b.eps(b.call(at, s.value(o.set)), to)
	}
	return r
}
