package grammar

import (
	"slices"
	"strings"
)

// A text that is given (Spec.Prefix) has its properties in any order and its values in any
// spelling, and what is generated after it goes on in the order of the schema. The ordinary
// rules know one order only. So the schema is lowered a second time, along the text: the
// objects and arrays that the text leaves open get rules of their own, and everything else
// has the ordinary ones.
//
// A rule of an open object reads the object with what is given of it in front: the property
// that is open, if there is one, has a rule along the rest of the text, and the whole ones
// before it are checked here, against their schemas, and then read as the one word null,
// however many they are. Such a text, in which null stands for what was checked, and all
// else has the spelling that rules read, is the lead. The matcher begins behind it. So what
// rules do is the only thing that decides what may follow, and the cost of the second
// lowering does not depend on the length of the text.

// prefixed lowers a schema along a text.
type prefixed struct {
	s     *schemas
	top   *given
	blank string // the shortest white space that s.ws reads
	tail  string // the white space at the end of the text
	rules map[prefixedKey]int32
	null  []any // a set of schemas that only null satisfies
	any   *schemaNode
	exact bool   // in constants: numbers have to be integers as draft 4 has them, perhaps
	size  int    // of the text
	wrong *Error // the reason, furthest in the text, why it is no beginning
	where int
}

// prefixedKey names a rule: that of the part of the text that begins at an offset, for a set
// of schemas.
type prefixedKey struct {
	at  int
	set string
}

// schemaAfter is schemaRule for values that begin with text, in any order and spelling.
func (b *builder) schemaAfter(schema any, text string, o Options) (*prefixed, int32) {
	p := &prefixed{s: newSchemas(b, schema, "", o), rules: make(map[prefixedKey]int32), size: len(text), where: -1}
	p.top, p.tail = parseGiven(text, b.meter)
	if o.WhitespacePattern != "" {
		p.blank = b.shortestBlank(o.WhitespacePattern)
	}
	p.null = []any{&object{keys: []string{"const"}, m: map[string]any{"const": nil}}}
	p.any = p.s.d.node(&object{m: map[string]any{}})
	if p.top.kind != givenWhole {
		return p, p.value(p.top, []any{schema})
	}
	if !p.s.holds(p.top.value, schema) {
		failPrefix(p.top.at, "", "the value does not satisfy the schema")
	}
	r := b.rule()
	b.accept(b.start(r))
	return p, r
}

// shortestBlank is the shortest text that the pattern of white space matches.
func (b *builder) shortestBlank(pattern string) string {
	d, ok := regexDFA(parseRegex(pattern, b.meter), false, b)
	if !ok {
		fail(ErrTooComplex, "", "whitespace_pattern is too complex")
	}
	text, _ := d.shortestFrom(0)
	return text
}

// note remembers why a part of the text does not fit. Of several reasons, the one furthest
// in the text counts, because other alternatives fail earlier.
func (p *prefixed) note(at int, path, msg string) {
	if at >= p.where {
		p.where, p.wrong = at, prefixError(at, path, "%s", msg)
	}
}

// refusal is the error for a text that is no beginning.
func (p *prefixed) refusal() *Error {
	if p.wrong == nil {
		return prefixError(p.top.at, "", "no value that satisfies the schema begins so")
	}
	return p.wrong
}

// reached notes that all of the text before the end of g fits some alternative. If there is
// no other reason, it is what comes last in g that does not go on.
func (p *prefixed) reached(g *given) {
	at := p.size
	switch {
	case g.open() != nil && g.open().kind != givenNothing:
		return // it is reached itself
	case g.kind == givenToken:
		at = g.at
	case g.stop == stopName:
		at = g.name.at
	}
	if at > p.where {
		p.note(at, "", "nothing that satisfies the schema goes on so")
	}
}

// value returns the rule for values of set that begin with g.
func (p *prefixed) value(g *given, set []any) int32 {
	if g.kind == givenNothing {
		return p.s.value(set)
	}
	b, key := p.s.b, prefixedKey{g.at, p.s.key(set)}
	if r, ok := p.rules[key]; ok {
		return r
	}
	r := b.rule()
	p.rules[key] = r
	end := b.state()
	b.accept(end)
	from := b.start(r)
	if g.kind == givenToken {
		p.reached(g)
		b.eps(b.call(from, p.s.value(set)), end)
	}
	for _, a := range p.s.expand(set, true) {
		switch i := slices.IndexFunc(a, func(n *schemaNode) bool { return n.enum != nil }); {
		case i >= 0:
			p.constants(from, end, a, a[i].enum, g)
		case g.kind == givenToken:
			p.token(from, end, a, g)
		case g.kind == givenArray:
			p.array(from, end, a, g)
		default:
			p.object(from, end, a, g)
		}
	}
	return r
}

// lead is the text that the rules along g read for g.
func (p *prefixed) lead(g *given) string {
	var b strings.Builder
	p.writeLead(&b, g)
	return b.String()
}

func (p *prefixed) writeLead(b *strings.Builder, g *given) {
	switch g.kind {
	case givenNothing, givenWhole:
		return
	case givenToken:
		b.WriteString(g.text + g.tail)
		return
	}
	named := g.kind == givenObject
	open := "["
	if named {
		open = "{"
	}
	b.WriteString(open)
	if n := g.whole(); n > 0 {
		b.WriteString(p.blank)
		if named {
			b.WriteString(quoteJSON(g.names[0]) + p.blank + ":" + p.blank)
		}
		b.WriteString("null")
		if g.stop != stopAfter {
			b.WriteString(p.blank + ",")
		}
	}
	last := g.open()
	switch {
	case g.stop == stopName:
		b.WriteString(p.blank)
		p.writeLead(b, g.name)
	case last != nil:
		b.WriteString(p.blank)
		if named {
			b.WriteString(quoteJSON(g.names[len(g.names)-1]))
			if g.stop == stopColon {
				return
			}
			b.WriteString(p.blank + ":")
			if last.kind != givenNothing {
				b.WriteString(p.blank)
			}
		}
		p.writeLead(b, last)
	}
}

// begin moves a machine for the rules behind the lead. It reports false if they do not read
// it.
func (p *prefixed) begin(m *machine) bool {
	at := m.run(m.root, []byte(p.lead(p.top)))
	if at == dead {
		return false
	}
	m.root = m.behindBlanks(at, p.tail)
	return true
}

// behindBlanks is the position behind the white space at the end of a given text. It may be
// the beginning of what the rules read: an indentation goes on. What they do not read of it
// is passed over.
func (m *machine) behindBlanks(at *position, blank string) *position {
	blank = blank[max(0, len(blank)-tailBlanks):]
	for i := range blank {
		if next := m.run(at, []byte(blank[i:])); next != dead {
			return next
		}
	}
	return at
}

// tailBlanks is how much of the white space at the end of a given text is looked at.
const tailBlanks = 2 * maxIndent

// array adds the arrays of a that begin with g, from from to end.
func (p *prefixed) array(from, end int32, a alternative, g *given) {
	s := p.s
	if a.kinds()&kindArray == 0 {
		p.note(g.at, "", "an array is not allowed here")
		return
	}
	prefix, rest, least, most := a.items()
	if path := unfollowed(a); path != "" {
		p.note(g.at, path, "an array can be continued only in the spelling in which it would be generated")
		return
	}
	set := func(i int) []any {
		if i < len(prefix) {
			return prefix[i]
		}
		return rest
	}
	n := g.whole()
	for i, e := range g.of[:n] {
		if !p.holds(e.value, set(i)) {
			p.note(e.at, "", "this element does not satisfy the schema")
			return
		}
	}
	if most >= 0 && int64(len(g.of)) > most {
		p.note(g.of[most].at, "", "there are too many elements")
		return
	}
	p.reached(g)
	var front [][]any
	if n > 0 { // the whole ones together are read as one
		front = append(front, p.null)
		least = max(0, least-int64(n)+1)
		if most >= 0 {
			most -= int64(n) - 1
		}
	}
	if e := g.open(); e != nil {
		front = append(front, p.along(e, set(n)))
		n++
	}
	prefix = append(front, prefix[min(n, len(prefix)):]...)
	s.b.eps(s.list(from, prefix, rest, least, most), end)
}

// along is a set of schemas whose rule is that of set along g.
func (p *prefixed) along(g *given, set []any) []any {
	if g.kind == givenNothing {
		return set
	}
	rule := p.value(g, set)
	stub := []any{&object{m: map[string]any{}}}
	p.s.rules[p.s.key(stub)] = rule
	return stub
}

// holds reports whether v satisfies all schemas of set.
func (p *prefixed) holds(v any, set []any) bool {
	return !slices.ContainsFunc(set, func(c any) bool { return !p.s.holds(v, c) })
}

// unfollowed returns the path of a keyword for arrays that what is given could break together
// with what follows, because more than the number of elements would have to be remembered. It
// is "" if there is none.
func unfollowed(a alternative) string {
	for _, n := range a {
		r := &n.array
		switch {
		case r.unique && (r.most < 0 || r.most > 1):
			return stepPath(n.path, "uniqueItems")
		case r.contains != nil:
			return r.contains.path
		case r.some != nil:
			return n.path
		}
	}
	return ""
}

// plainIntegers reports whether 1.0 is no integer: until draft 4, an integer had neither
// fraction nor exponent (section 3.5 of https://json-schema.org/draft-04/draft-zyp-json-schema-04). Such a spelling is never
// generated for an integer, but a given text may have it.
func (d *document) plainIntegers() bool {
	o, ok := d.root.(*object)
	return ok && draftOf(o, draft2020) == draft4
}

// fractional reports whether n is written with a fraction or an exponent.
func fractional(n numeral) bool { return strings.ContainsAny(string(n), ".eE") }
