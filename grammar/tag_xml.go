package grammar

import (
	"slices"
	"strings"
)

// xmlStyle is a way in which models write the arguments of a tool: as a list of
// parameters. The value of a parameter is a string as it is, without quotes and escapes,
// or another value in JSON. The styles are those of xgrammar 0.2.8 (json_schema with
// style, and qwen_xml_parameter), and two of our own: longcat_xml is glm_xml with other tags, and in
// qwen_names_xml the value of a parameter may be True, False or None as well, as Qwen's templates write
// them.
type xmlStyle struct {
	before string // what stands before the name
	after  string // what follows the name; a % stands for the type of the value
	value  string // what stands before the value, with whitespace before it
	end    string // the end of a parameter, which no string contains
	types  []xmlType
	names  bool     // true, false and null may also be written as Python does
	barred []string // what no string contains; nil: only end
}

// bars reports whether a string cannot be written.
func (s *xmlStyle) bars(text string) bool {
	return slices.ContainsFunc(s.without(), func(w string) bool { return strings.Contains(text, w) })
}

// without are the texts that no string contains.
func (s *xmlStyle) without() []string {
	if s.barred != nil {
		return s.barred
	}
	return []string{s.end}
}

// xmlType is what some types of values are called in the text before them. Strings are
// always apart from all others.
type xmlType struct {
	kinds kinds
	name  string
}

var (
	xmlStringOrNot = []xmlType{{kindString, ""}, {kindAll &^ kindString, ""}}
	xmlDSML        = []xmlType{{kindString, "true"}, {kindAll &^ kindString, "false"}}
	xmlKimi        = []xmlType{{kindString, "string"}, {kindNumber, "number"}, {kindBool, "boolean"}, {kindNull, "null"}, {kindArray, "array"}, {kindObject, "object"}}
)

var xmlStyles = map[string]*xmlStyle{
	"qwen_xml":          {before: "<parameter=", after: ">", end: "</parameter>", types: xmlStringOrNot},
	"qwen_names_xml":    {before: "<parameter=", after: ">", end: "</parameter>", types: xmlStringOrNot, names: true},
	"minimax_xml":       {before: `<parameter name="`, after: `">`, end: "</parameter>", types: xmlStringOrNot},
	"glm_xml":           {before: "<arg_key>", after: "</arg_key>", value: "<arg_value>", end: "</arg_value>", types: xmlStringOrNot},
	"longcat_xml":       {before: "<longcat_arg_key>", after: "</longcat_arg_key>", value: "<longcat_arg_value>", end: "</longcat_arg_value>", types: xmlStringOrNot},
	"deepseek_xml":      {before: `<｜DSML｜parameter name="`, after: `" string="%">`, end: "</｜DSML｜parameter>", types: xmlDSML},
	"deepseek_v4_1_xml": {before: `<｜DSML｜ parameter name="`, after: `" string="%">`, end: "</｜DSML｜ parameter>", types: xmlDSML},
	"kimi_k3_xml":       {before: `<|open|>argument key="`, after: `" type="%"<|sep|>`, end: "<|close|>argument<|sep|>", types: xmlKimi},
}

// xml reads the object of a schema in a style.
func (t *tags) xml(from int32, n tagNode, style string) int32 {
	st := xmlStyles[style]
	if st == nil {
		kind := ErrInvalid
		if style == "cohere_xml" || style == "minimax_m3_xml" {
			kind = ErrUnsupported
		}
		fail(kind, stepPath(n.path, "style"), "the style %q is not supported", style)
	}
	path := stepPath(n.path, "json_schema")
	schema := n.schema()
	x := &xmlParameters{b: t.b, style: st, path: path, s: newSchemas(t.b, schema, path, t.schemaOptions(n))}
	if x.ws = x.s.ws; x.s.spaced {
		x.ws = t.b.flexible
	}
	to := t.b.state()
	objects := false
	for _, a := range x.s.expand([]any{schema}, true) {
		if a.kinds()&kindObject != 0 && !slices.ContainsFunc(a, func(n *schemaNode) bool { return n.enum != nil }) {
			t.b.eps(x.object(from, a), to)
			objects = true
		}
	}
	if !objects {
		fail(ErrUnsupported, path, "in the style %s, the schema must be one of objects", style)
	}
	return to
}

// xmlParameters lowers the schema of one object.
type xmlParameters struct {
	b     *builder
	s     *schemas
	style *xmlStyle
	path  string
	ws    frag  // what may be between tags
	free  int32 // 1 + the rule for strings with any text
	short int32 // 1 + the rule for strings of a number of characters
}

// object reads the properties of a, in the order of the schema. Undeclared ones come last.
func (x *xmlParameters) object(from int32, a alternative) int32 {
	m := x.s.members(a)
	m.undeclared = x.s.undeclared(a, m)
	if m.least > int64(m.required) || m.most >= 0 && (len(m.undeclared) > 0 || m.most < int64(len(m.declared))) {
		fail(ErrUnsupported, x.path, "a number of properties cannot be enforced in this style")
	}
	if a.demands() {
		fail(ErrUnsupported, x.path, "a property that violates a schema cannot be demanded in this style")
	}
	b := x.b
	// As in objectBody, what may come next is a trie of names, which is that of one property
	// less with one more name.
	last := b.state()
	place, names, canEnd := last, int32(-1), true
	for i := len(m.declared) - 1; i >= 0; i-- {
		p := &m.declared[i]
		if !p.required && (p.barred || slices.Contains(p.set, any(false))) {
			continue
		}
		if p.barred {
			return b.state()
		}
		if p.required {
			names, canEnd = -1, false
		}
		read := b.state()
		b.eps(x.ws(x.parameter(read, p.set)), place)
		names = b.withWord(names, x.style.before+x.name(p.name)+x.style.after[:1], read)
		place = b.state()
		b.eps(place, names)
		if canEnd {
			b.eps(place, last)
		}
	}
	b.eps(x.ws(from), place)
	for _, u := range m.undeclared {
		allowed := x.undeclaredNames(u.names)
		last = b.star(last, func(at int32) int32 {
			return x.ws(x.parameter(b.lit(b.embed(b.lit(at, x.style.before), allowed), x.style.after[:1]), u.set))
		})
	}
	return last
}

// name is how the name of a declared property is written.
func (x *xmlParameters) name(name string) string {
	if x.style == xmlStyles["kimi_k3_xml"] {
		return strings.NewReplacer("&", "&amp;", `"`, "&quot;").Replace(name)
	}
	if head, _, _ := strings.Cut(x.style.after, "%"); strings.Contains(name, head[:1]) {
		fail(ErrUnsupported, stepPath(x.path, "properties"), "the name %s cannot be written in this style", quoteJSON(name))
	}
	return name
}

// undeclaredNames are the names of names (nil: all) that are identifiers, as xgrammar has
// them.
func (x *xmlParameters) undeclaredNames(names *dfa) *dfa {
	d, ok := regexDFA(parseRegex("[a-zA-Z_][a-zA-Z0-9_]*", x.b.meter), false, x.b)
	if ok && names != nil {
		d, ok = d.intersect(names)
	}
	if !ok {
		fail(ErrTooComplex, x.path, "the names of the properties need too many states")
	}
	return d
}

// parameter reads the rest of a parameter, after the name and one more byte. set is what its value must satisfy.
func (x *xmlParameters) parameter(from int32, set []any) int32 {
	to := x.b.state()
	alternatives := x.s.expand(set, true)
	if len(set) == 0 {
		alternatives = []alternative{nil}
	}
	for _, t := range x.style.types {
		at := x.b.lit(from, strings.Replace(x.style.after, "%", t.name, 1)[1:])
		if x.style.value != "" {
			at = x.b.lit(x.ws(at), x.style.value)
		}
		for _, a := range alternatives {
			switch {
			case t.kinds == kindString:
				x.b.eps(x.b.lit(x.text(at, a), x.style.end), to)
			case t.name != "" || !x.anything(a):
				x.b.eps(x.b.lit(x.json(at, a, t.kinds), x.style.end), to)
			}
		}
	}
	return to
}

// anything reports whether a allows every string. Where strings are not told apart from
// other values, these are strings as well then.
func (x *xmlParameters) anything(a alternative) bool {
	if a.kinds()&kindString == 0 || slices.ContainsFunc(a, func(n *schemaNode) bool { return n.enum != nil }) {
		return false
	}
	r := x.s.stringRules(a)
	return len(r.langs) == 0 && r.least == 0 && r.most < 0 && r.grammar == ""
}

// json reads a value of a of the given kinds, in JSON.
func (x *xmlParameters) json(from int32, a alternative, k kinds) int32 {
	var types []any
	for _, name := range []string{"null", "boolean", "number", "string", "array", "object"} {
		if k&kindNames[name] != 0 {
			types = append(types, name)
		}
	}
	only := x.s.d.node(&object{m: map[string]any{"type": types}, keys: []string{"type"}})
	value := func(at int32) int32 { return x.s.alternative(at, append(slices.Clip(a), only)) }
	if !x.style.names {
		return x.ws(value(x.ws(from)))
	}
	return x.ws(x.b.alt(x.ws(from), value, func(at int32) int32 { return x.pythonName(at, a) }))
}

// pythonName reads those of True, False and None that a allows.
func (x *xmlParameters) pythonName(from int32, a alternative) int32 {
	to := x.b.state()
	for _, v := range []any{true, false, nil} {
		if x.s.holdsAll(v, a) {
			x.b.eps(x.b.constant(from, v, x.s.ws, x.s.sep, &pythonSpelling), to)
		}
	}
	return to
}

// text reads a string of a as it is. It does not contain the end of a parameter.
func (x *xmlParameters) text(from int32, a alternative) int32 {
	if a.kinds()&kindString == 0 {
		return x.b.state()
	}
	for _, n := range a {
		if n.enum != nil {
			return x.words(from, a, n.enum)
		}
	}
	r := x.s.stringRules(a)
	switch {
	case r.impossible():
		return x.b.state()
	case r.grammar != "" && x.style.barred != nil:
		return x.b.state() // it is written in the other way
	case r.grammar != "":
		return x.written(from, &r)
	case len(r.langs) == 0 && r.least == 0 && r.most < 0:
		return x.b.call(from, x.anyText())
	case len(r.langs) == 0:
		if x.short == 0 {
			x.short = x.b.shortText(x.style.without()) + 1
		}
		return x.framed(from, func(at int32) int32 { return x.b.callN(at, x.short-1, int32(r.least), int32(r.most)) })
	}
	d, ok := x.s.stringDFA(&r)
	for _, text := range x.style.without() {
		var with *dfa
		if ok {
			with, ok = regexDFA(&rx{kind: rxCat, subs: rxText(text)}, true, x.b)
		}
		if ok {
			d, ok = d.minus(with)
		}
	}
	if !ok {
		fail(ErrUnsupported, r.path, "the pattern needs too many states together with the other demands on this string")
	}
	return x.framed(from, func(at int32) int32 { return x.b.embed(at, d) })
}

// anyText is the rule for strings about which the schema says nothing.
func (x *xmlParameters) anyText() int32 {
	if x.free == 0 {
		r := x.b.rule()
		x.free = r + 1
		x.b.accept((&tags{b: x.b}).freeText(x.b.start(r), x.style.without(), triggers{}))
	}
	return x.free - 1
}

// words reads those of values that are strings and satisfy a.
func (x *xmlParameters) words(from int32, a alternative, values []any) int32 {
	return x.framed(from, func(at int32) int32 {
		to := x.b.state()
		for _, v := range values {
			if w, ok := v.(string); ok && x.s.holdsAll(v, a) && !x.style.bars(w) {
				x.b.eps(x.b.lit(at, w), to)
			}
		}
		return to
	})
}

// framed lets a line break stand before and after a string that is not free. Models write
// it, and those who read the parameters take it off again.
func (x *xmlParameters) framed(from int32, f frag) int32 {
	if x.style.types[0].name == "true" { // DeepSeek's has nothing but the string
		return f(from)
	}
	line := func(at int32) int32 { return x.b.opt(at, func(at int32) int32 { return x.b.lit(at, "\n") }) }
	return line(f(line(from)))
}

// rxText are nodes that match text.
func rxText(text string) []*rx {
	var res []*rx
	for _, r := range text {
		res = append(res, &rx{kind: rxSet, set: runeSet{{r, r}}})
	}
	return res
}
