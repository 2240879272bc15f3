package grammar

import (
	"strings"
	"unicode/utf8"
)

// given is what a text has of a JSON value when the text may end anywhere: before, in or
// after the value.
type given struct {
	kind givenKind
	at   int // where the value begins in the text
	// value is that of a whole one.
	value any
	// text is a token in which the text ends. Of a string, it is the opening quote and all
	// whole characters, as quoteJSON spells them; decoded is what they stand for, and tail
	// the beginning of one more character or escape.
	text, decoded, tail string
	// The members or elements of an object or array that the text does not close. Only the
	// last one may be other than whole.
	names []string
	has   map[string]bool // by name
	of    []*given
	stop  stop
	name  *given // in which the text ends

	canonical string // of value, once it is needed
}

type givenKind uint8

const (
	givenNothing givenKind = iota // the text ends where the value is expected
	givenWhole
	givenToken // the text ends in a string or keyword, or with a number, which may go on
	givenArray
	givenObject
)

// stop is where the text ends in an object or array that it does not close.
type stop uint8

const (
	stopStart stop = iota // after the opening bracket
	stopName              // in the name of a member
	stopColon             // between a name and its colon
	stopValue             // where the last of its values is expected, or in it
	stopAfter             // after a value
	stopComma             // after a comma
)

// whole is the number of whole members or elements.
func (g *given) whole() int {
	if g.stop == stopColon || g.stop == stopValue {
		return len(g.of) - 1
	}
	return len(g.of)
}

// open is the last member or element if it is not whole, or nil.
func (g *given) open() *given {
	if n := g.whole(); n < len(g.of) {
		return g.of[n]
	}
	return nil
}

// givenParser reads the beginning of a JSON text.
type givenParser struct {
	*meter
	text  string
	at    int
	depth int
}

// parseGiven reads a text that is the beginning of JSON, or all of it. blank is the white
// space at its end.
func parseGiven(text string, m *meter) (g *given, blank string) {
	p := &givenParser{meter: m, text: text}
	m.spend(len(text) / 4)
	p.blanks()
	g = p.value()
	p.blanks()
	if p.at < len(text) {
		p.bad(p.at, "the JSON value has ended before")
	}
	if p.inToken(g) {
		return g, ""
	}
	return g, text[len(strings.TrimRight(text, " \t\r\n")):]
}

// inToken reports whether the text ends in a token of g.
func (p *givenParser) inToken(g *given) bool {
	for g.open() != nil {
		g = g.open()
	}
	return g.kind == givenToken || g.stop == stopName
}

// bad refuses the text at the offset at.
func (p *givenParser) bad(at int, msg string) { failPrefix(at, "", "%s", msg) }

func (p *givenParser) blanks() {
	for p.at < len(p.text) && strings.IndexByte(" \t\r\n", p.text[p.at]) >= 0 {
		p.at++
	}
}

// next passes over white space and returns the byte after it, 0 if the text ends there.
func (p *givenParser) next() byte {
	if p.blanks(); p.at == len(p.text) {
		return 0
	}
	if c := p.text[p.at]; c != 0 {
		return c
	}
	return 1 // no token of JSON begins with this either
}

// value reads a value, or as much of it as there is.
func (p *givenParser) value() *given {
	p.spend(1)
	if p.depth++; p.depth > maxDepth {
		fail(ErrTooComplex, "", "the text to be continued is nested too deeply")
	}
	defer func() { p.depth-- }()
	c := p.next()
	switch {
	case c == 0:
		return &given{at: p.at}
	case c == '{':
		return p.container(givenObject, '}')
	case c == '[':
		return p.container(givenArray, ']')
	case c == '"':
		return p.str()
	case c == '-' || c >= '0' && c <= '9':
		return p.number()
	}
	for word, v := range map[string]any{"null": nil, "true": true, "false": false} {
		if c == word[0] {
			return p.keyword(word, v)
		}
	}
	p.bad(p.at, "no JSON value begins so")
	return nil
}

func (p *givenParser) keyword(word string, v any) *given {
	g := &given{kind: givenWhole, at: p.at, value: v}
	n := 0
	for n < len(word) && p.at < len(p.text) && p.text[p.at] == word[n] {
		n, p.at = n+1, p.at+1
	}
	switch {
	case n == len(word):
	case p.at == len(p.text):
		g.kind, g.text = givenToken, word[:n]
	default:
		p.bad(p.at, "this is none of true, false and null")
	}
	return g
}

// container reads an object or array.
func (p *givenParser) container(kind givenKind, shut byte) *given {
	g := &given{kind: kind, at: p.at, has: make(map[string]bool)}
	p.at++
	for {
		switch c := p.next(); {
		case c == 0:
			if len(g.of) > 0 {
				g.stop = stopComma
			}
			return g
		case c == shut && len(g.of) == 0:
			p.at++
			return g.close()
		case kind == givenObject && !p.member(g):
			return g
		}
		e := p.value()
		g.of = append(g.of, e)
		if e.kind != givenWhole {
			g.stop = stopValue
			return g
		}
		switch c := p.next(); c {
		case 0:
			g.stop = stopAfter
			return g
		case ',':
			p.at++
		case shut:
			p.at++
			return g.close()
		default:
			p.bad(p.at, "a comma or the end of the list is expected here")
		}
	}
}

// member reads a name and its colon. It reports false if the text ends before the value.
func (p *givenParser) member(g *given) bool {
	if p.text[p.at] != '"' {
		p.bad(p.at, "the name of a property is expected here")
	}
	name := p.str()
	if name.kind != givenWhole {
		g.stop, g.name = stopName, name
		return false
	}
	k := name.value.(string)
	if g.has[k] {
		p.bad(name.at, "this property is there already")
	}
	g.has[k] = true
	g.names = append(g.names, k)
	switch p.next() {
	case 0:
		g.of, g.stop = append(g.of, &given{at: p.at}), stopColon
		return false
	case ':':
		p.at++
		return true
	}
	p.bad(p.at, "a colon is expected here")
	return false
}

// close makes g whole.
func (g *given) close() *given {
	w := &given{kind: givenWhole, at: g.at}
	if g.kind == givenArray {
		list := make([]any, len(g.of))
		for i, e := range g.of {
			list[i] = e.value
		}
		w.value = list
		return w
	}
	o := &object{keys: g.names, m: make(map[string]any, len(g.names))}
	for i, k := range g.names {
		o.m[k] = g.of[i].value
	}
	w.value = o
	return w
}

// str reads a string.
func (p *givenParser) str() *given {
	g := &given{kind: givenToken, at: p.at}
	p.at++
	var b strings.Builder
	for p.at < len(p.text) {
		rest := p.text[p.at:]
		switch c := rest[0]; {
		case c == '"':
			p.at++
			return &given{kind: givenWhole, at: g.at, value: b.String()}
		case c < 0x20:
			p.bad(p.at, "a control character in a string has to be escaped")
		case c == '\\':
			r, n := p.escape(rest)
			if n == 0 {
				g.tail = rest
				p.at = len(p.text)
				break
			}
			b.WriteRune(r)
			p.at += n
		default:
			r, n := utf8.DecodeRuneInString(rest)
			switch {
			case !utf8.FullRuneInString(rest):
				g.tail = rest
				p.at = len(p.text)
			case r == utf8.RuneError && n == 1:
				p.bad(p.at, "this is not UTF-8")
			default:
				b.WriteString(rest[:n])
				p.at += n
			}
		}
	}
	g.decoded = b.String()
	g.text = strings.TrimSuffix(quoteJSON(g.decoded), `"`)
	return g
}

var shortEscapes = map[byte]rune{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape decodes the escape that s begins with. n is its length, 0 if s ends before it
// does.
func (p *givenParser) escape(s string) (r rune, n int) {
	if len(s) == 1 {
		return 0, 0
	}
	if r, ok := shortEscapes[s[1]]; ok {
		return r, 2
	}
	r, ok := p.unit(s)
	if !ok {
		return 0, 0
	}
	switch {
	case r < 0xD800 || r > 0xDFFF:
		return r, 6
	case r > 0xDBFF:
		p.bad(p.at, "this is the second half of a pair of surrogates without the first")
	case len(s) == 6:
		return 0, 0
	}
	low, ok := rune(-1), true
	if s[6] == '\\' && (len(s) == 7 || s[7] == 'u') {
		low, ok = p.unit(s[6:])
	}
	switch {
	case !ok:
		return 0, 0
	case low < 0xDC00 || low > 0xDFFF:
		p.bad(p.at, "this is the first half of a pair of surrogates without the second")
	}
	return 0x10000 + (r-0xD800)<<10 + low - 0xDC00, 12
}

// unit reads a backslash, u and four hexadecimal digits. It reports false if s ends
// before they do.
func (p *givenParser) unit(s string) (r rune, ok bool) {
	if len(s) > 1 && s[1] != 'u' {
		p.bad(p.at, "no escape begins so")
	}
	for i := 2; i < min(6, len(s)); i++ {
		k := strings.IndexByte("0123456789abcdef", s[i]|0x20)
		if k < 0 || s[i] < '0' {
			p.bad(p.at, "an escape needs four hexadecimal digits")
		}
		r = r<<4 | rune(k)
	}
	return r, len(s) >= 6
}

// number reads a number.
func (p *givenParser) number() *given {
	g := &given{kind: givenWhole, at: p.at}
	for p.at < len(p.text) && strings.IndexByte("+-.0123456789eE", p.text[p.at]) >= 0 {
		p.at++
	}
	text := p.text[g.at:p.at]
	complete, n := numberForm(text)
	if n < len(text) || !complete && p.at < len(p.text) {
		p.bad(g.at+n, "this number is not one of JSON")
	}
	if p.at < len(p.text) {
		g.value = numeral(text)
		return g
	}
	g.kind, g.text = givenToken, text
	return g
}

// numberForm returns how many bytes of s the beginning of a number of JSON has at most,
// and whether these bytes are a whole number.
func numberForm(s string) (complete bool, n int) {
	digits := func(least int) bool {
		from := n
		for n < len(s) && s[n] >= '0' && s[n] <= '9' {
			n++
		}
		return n-from >= least
	}
	is := func(set string) bool {
		if n < len(s) && strings.IndexByte(set, s[n]) >= 0 {
			n++
			return true
		}
		return false
	}
	is("-")
	if !is("0") && !digits(1) {
		return false, n
	}
	if is(".") && !digits(1) {
		return false, n
	}
	if is("eE") {
		is("+-")
		if !digits(1) {
			return false, n
		}
	}
	return true, n
}
