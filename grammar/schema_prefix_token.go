package grammar

import (
	"fmt"
	"slices"
	"strings"
)

// Tokens in which a given text ends. The ordinary rules read them as far as they are
// spelled as these rules would; this file has what they do not read.

// token adds the scalars of a that begin with g in a spelling that the ordinary rules do
// not have.
func (p *prefixed) token(from, end int32, a alternative, g *given) {
	b := p.s.b
	switch {
	case g.text[0] != '"':
		if n := a.numbers(); a.kinds()&kindNumber != 0 && (n.integer || !n.free()) {
			for _, v := range p.numbers(g, func(v numeral) bool { return p.s.holdsAll(v, a) }) {
				b.eps(b.lit(from, v), end)
			}
		}
	case a.kinds()&kindString != 0 && strings.HasPrefix(g.tail, `\`):
		r := p.s.stringRules(a)
		if len(r.langs) == 0 || r.impossible() {
			return
		}
		d, ok := p.s.stringDFA(&r)
		if !ok || d.empty() {
			p.note(g.at, r.path, "a string can be continued within an escape only if its pattern needs fewer states")
			return
		}
		at := d.walk(0, g.decoded)
		if at < 0 {
			return
		}
		for _, c := range g.endings(d, at) {
			b.eps(b.jsonString(b.lit(from, g.text+g.tail+c.rest), d.from(c.to)), end)
		}
	}
}

// constants adds those values of enum that satisfy a and begin with g.
func (p *prefixed) constants(from, end int32, a alternative, enum []any, g *given) {
	p.exact = p.s.d.plainIntegers() && slices.ContainsFunc(a, func(n *schemaNode) bool {
		r := &n.props
		return n.kinds&kindFraction == 0 || r.declared != nil || r.patterns != nil || r.additional != nil || n.array.items != nil || n.array.prefix != nil
	})
	fits := false
	for _, v := range enum {
		if !p.s.holdsAll(v, a) || !p.begins(v, g) {
			continue
		}
		fits = true
		if to, ok := p.constant(from, v, g); ok {
			p.s.b.eps(to, end)
		}
	}
	if !fits {
		p.note(g.at, "", "no value that the schema lists begins so")
	}
}

// begins reports whether v may begin with g.
func (p *prefixed) begins(v any, g *given) bool {
	p.s.b.spend(1)
	switch g.kind {
	case givenNothing:
		return true
	case givenWhole:
		if g.canonical == "" {
			g.canonical = canonicalJSON(g.value)
		}
		return p.equal(v, g.value, g.canonical)
	case givenArray:
		return p.listBegins(v, g)
	case givenObject:
		return p.objectBegins(v, g)
	}
	switch v := v.(type) {
	case string:
		_, ok := g.respell(v)
		return ok
	case numeral:
		return g.text[0] != '"' && len(p.numberSpellings(v, g)) > 0
	}
	return strings.HasPrefix(dumpJSON(v), g.text)
}

// listBegins is begins for an array.
func (p *prefixed) listBegins(v any, g *given) bool {
	list, ok := v.([]any)
	if !ok || len(list) < len(g.of) || g.stop == stopComma && len(list) == len(g.of) {
		return false
	}
	for i, e := range g.of {
		if !p.begins(list[i], e) {
			return false
		}
	}
	return true
}

// objectBegins is begins for an object.
func (p *prefixed) objectBegins(v any, g *given) bool {
	o, ok := v.(*object)
	if !ok || g.stop == stopComma && len(o.keys) == len(g.names) {
		return false
	}
	for i, name := range g.names {
		if e, ok := o.m[name]; !ok || !p.begins(e, g.of[i]) {
			return false
		}
	}
	return g.stop != stopName || p.openKey(o, g) != ""
}

// equal reports whether the schema's value v is the given value, whose canonical text is text. Where 1.0 is no integer, a
// fraction that the schema does not have could break a type beside the constant.
func (p *prefixed) equal(v, given any, text string) bool {
	own := canonicalJSON(v)
	if p.s.b.spend(1 + len(own)/16); own != text {
		return false
	}
	return !p.exact || !fractions(given) || dumpJSON(v) == dumpJSON(given)
}

// fractions reports whether a number in v is written with a fraction or an exponent.
func fractions(v any) bool {
	switch v := v.(type) {
	case numeral:
		return fractional(v)
	case []any:
		return slices.ContainsFunc(v, fractions)
	case *object:
		return slices.ContainsFunc(v.keys, func(k string) bool { return fractions(v.m[k]) })
	}
	return false
}

// openKey is the first name in o, quoted, that can be the one in which g ends; "" if there
// is none.
func (p *prefixed) openKey(o *object, g *given) string {
	for _, k := range o.keys {
		if _, ok := g.name.respell(k); ok && !g.has[k] {
			return quoteJSON(k)
		}
	}
	return ""
}

// constant reads v, which begins with g.
func (p *prefixed) constant(from int32, v any, g *given) (to int32, ok bool) {
	b, ws := p.s.b, p.s.ws
	switch g.kind {
	case givenNothing:
		return b.literal(from, v, ws, ws), true
	case givenToken:
		return p.constantToken(from, v, g), true
	}
	var rest []any
	at, n, shut := b.lit(from, "["), g.whole(), "]"
	separate := func(first bool) {
		if at = ws(at); !first {
			at = ws(b.lit(at, ","))
		}
	}
	o, named := v.(*object)
	var keys []string
	if named {
		at, shut = b.lit(from, "{"), "}"
		keys = slices.DeleteFunc(slices.Clone(o.keys), func(k string) bool { return g.has[k] })
	} else {
		rest = v.([]any)[len(g.of):]
	}
	key := func(text string) { at = ws(b.lit(ws(b.lit(at, text)), ":")) }
	if n > 0 {
		separate(true)
		if named {
			key(quoteJSON(g.names[0]))
		}
		at = b.lit(at, "null")
	}
	first := n == 0
	if e := g.open(); e != nil {
		separate(first)
		first = false
		of := any(nil)
		if named {
			name := g.names[len(g.names)-1]
			key(quoteJSON(name))
			of = o.m[name]
		} else {
			of = v.([]any)[n]
		}
		if at, ok = p.constant(at, of, e); !ok {
			return at, false
		}
	}
	if g.stop == stopName {
		i := slices.IndexFunc(keys, func(k string) bool { return quoteJSON(k) == p.openKey(o, g) })
		keys[0], keys[i] = keys[i], keys[0]
	}
	for i, k := range keys {
		separate(first)
		first = false
		text := quoteJSON(k)
		if i == 0 && g.stop == stopName {
			text, _ = g.name.respell(k)
		}
		key(text)
		at = b.literal(at, o.m[k], ws, ws)
	}
	for _, e := range rest {
		separate(first)
		first = false
		at = b.literal(at, e, ws, ws)
	}
	return b.lit(ws(at), shut), true
}

// constantToken reads the scalar v, which begins with the token g.
func (p *prefixed) constantToken(from int32, v any, g *given) int32 {
	b := p.s.b
	if n, ok := v.(numeral); ok {
		to := b.state()
		for _, s := range p.numberSpellings(n, g) {
			b.eps(b.lit(from, s), to)
		}
		return to
	}
	if s, ok := v.(string); ok {
		text, _ := g.respell(s)
		return b.lit(from, text)
	}
	return b.literal(from, v, p.s.ws, p.s.sep)
}

// numberSpellings are spellings of n that begin with the token g: those that literalNumber
// reads, or else some that equal n.
func (p *prefixed) numberSpellings(n numeral, g *given) []string {
	var res []string
	plain, ok := plainNumber(n)
	for _, s := range [...]string{string(n), plain} {
		if strings.HasPrefix(s, g.text) && !slices.Contains(res, s) {
			res = append(res, s)
		}
	}
	if len(res) > 0 || !ok {
		return res
	}
	return p.numbers(g, func(v numeral) bool { return p.equal(n, v, canonicalJSON(v)) })
}

// exponentsTried bounds the exponents that are tried for a number in which the text ends.
const exponentsTried = 40

// numbers returns numbers that begin with g and satisfy ok: g itself if it is whole, and a
// few that it can become. Rules read most beginnings of numbers, but few with a point or an
// exponent, and not 50 if it has to become 50e-1.
func (p *prefixed) numbers(g *given, ok func(numeral) bool) []string {
	var res []string
	try := func(end string) bool {
		text := g.text + end
		whole, n := numberForm(text)
		if !whole || n < len(text) {
			return false
		}
		p.s.b.spend(2 + len(text)/8)
		if _, known := parseNumber(text); !known || !ok(numeral(text)) {
			return false
		}
		res = append(res, text)
		return true
	}
	if try("") && !fractional(numeral(g.text)) {
		return res
	}
	for _, end := range [...]string{"0", "5"} {
		try(end)
	}
	if len(res) > 0 {
		return res
	}
	for _, form := range [...]string{"%d", "-%d", "e%d", "e-%d", "0e%d"} {
		for exp := range exponentsTried {
			if try(fmt.Sprintf(form, exp)) {
				return res
			}
		}
	}
	return res
}
