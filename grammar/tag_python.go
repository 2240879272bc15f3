package grammar

import "slices"

// Two styles of arguments of a tool are lists of keys and values, whose keys have no quotes.
//
// The style python is how models write a call in Python: keyword arguments, with a comma and a
// space between them, as in
//
//	city="Paris", days=2, deep={"a": [None, True]}
//
// Strings, numbers, lists and dicts are spelled as in JSON, which is Python as well; null, true
// and false are None, True and False, on every level. A string may also be between single quotes,
// if nothing in it has to be escaped: LFM 2.5's template writes all of them so.
//
// The style gemma is that of Gemma 4, whose strings have a token of their own around them and no
// escapes, and whose keys have no quotes on any level:
//
//	city:<|"|>Paris<|"|>,days:2,deep:{a:[null,true]}
//
// null may be None there, which its template makes of it.
//
// Names are identifiers.

// gemmaText is how strings are in the style gemma. Like DeepSeek's, they have no line breaks
// around them.
var gemmaText = xmlStyle{end: `<|"|>`, types: xmlDSML}

// pythonText is how strings are between the quotes of Python that JSON has not.
var pythonText = xmlStyle{end: "'", types: xmlDSML, barred: []string{"'", `\`, "\n", "\r"}}

// keywords reads the object of a schema in one of these styles, without what is around it.
func (t *tags) keywords(from int32, n tagNode, style string) int32 {
	path := stepPath(n.path, "json_schema")
	schema := n.schema()
	s := newSchemas(t.b, schema, path, t.schemaOptions(n))
	s.loose, s.tight, s.spaced = false, false, false // the common rules are those of JSON
	bare := "="
	texts := &xmlParameters{b: t.b, s: s, style: &pythonText, path: path}
	python := pythonSpelling
	python.quote, python.texts, python.both = func(at int32) int32 { return t.b.lit(at, pythonText.end) }, texts, true
	if s.ws, s.sep, s.spell = tight, t.b.space, &python; style == "gemma" {
		bare, texts.style = ":", &gemmaText
		quote := func(at int32) int32 { return t.lit(at, gemmaText.end) }
		s.sep, s.spell = tight, &spelling{null: "null", other: "None", yes: "true", no: "false", bare: bare, quote: quote, texts: texts}
	}
	to := t.b.state()
	objects := false
	for _, a := range s.expand([]any{schema}, true) {
		if a.kinds()&kindObject != 0 && !slices.ContainsFunc(a, func(n *schemaNode) bool { return n.enum != nil }) {
			t.b.eps(s.keywordArguments(from, a, bare), to)
			objects = true
		}
	}
	if !objects {
		fail(ErrUnsupported, path, "in the style %s, the schema must be one of objects", style)
	}
	return to
}

// keywordArguments reads the properties of a, in the order of the schema. Undeclared ones come
// last.
func (s *schemas) keywordArguments(from int32, a alternative, bare string) int32 {
	m := s.members(a)
	m.undeclared = s.undeclared(a, m) // before those that may not appear are dropped
	m.declared = slices.DeleteFunc(m.declared, func(p member) bool {
		return !p.required && (p.barred || slices.Contains(p.set, any(false)))
	})
	if slices.ContainsFunc(m.declared, func(p member) bool { return p.barred }) || !s.enough(m) {
		return s.b.state()
	}
	if a.demands() {
		fail(ErrUnsupported, a[0].path, "a property that violates a schema cannot be demanded in this style")
	}
	o := &objectBody{s: s, m: m, bare: bare}
	return o.properties(from)
}

// refuseBare refuses what cannot be written with keys without quotes.
func (m *members) refuseBare() {
	if m.differ > 0 {
		fail(ErrUnsupported, m.leastPath, "a number of undeclared properties cannot be enforced in this style")
	}
	for _, p := range m.declared {
		if !isKeyword(p.name) {
			fail(ErrUnsupported, "", "the name %s is no identifier, so it cannot be written in this style", quoteJSON(p.name))
		}
	}
}

// isKeyword reports whether name is an identifier.
func isKeyword(name string) bool {
	for i, r := range name {
		if !(r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || i > 0 && '0' <= r && r <= '9') {
			return false
		}
	}
	return name != ""
}

// undeclaredBare is the rule for one undeclared property, whose name is an identifier with bare
// after it.
func (s *schemas) undeclaredBare(m *members, bare string) int32 {
	b := s.b
	r := b.rule()
	to := b.state()
	b.accept(to)
	for _, o := range m.undeclared {
		d, ok := regexDFA(parseRegex("[a-zA-Z_][a-zA-Z0-9_]*", b.meter), false, b)
		if ok && o.names != nil {
			d, ok = d.intersect(o.names)
		}
		if !ok {
			fail(ErrTooComplex, "", "the names of the properties need too many states")
		}
		at := b.lit(b.embed(b.start(r), d), bare)
		b.eps(b.call(at, s.value(o.set)), to)
	}
	return r
}
