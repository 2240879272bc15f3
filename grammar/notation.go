package grammar

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// exprKind is a kind of expression in a grammar, EBNF or Lark.
type exprKind uint8

const (
	exprText   exprKind = iota // text
	exprSet                    // one character of set
	exprRule                   // the rule called text
	exprRegex                  // what re matches
	exprSeq                    // subs in order
	exprAlt                    // one of subs
	exprRepeat                 // subs[0], lo to hi times (hi -1: no bound)
	exprAnd                    // all of subs at once; in terminals
	exprNot                    // any text but subs[0]; in terminals
	exprLazy                   // the texts of subs[0] that do not begin with a shorter one of them; in terminals
	exprToken                  // one token of tokens
	exprChunks                 // some neighbours of the texts in chunks, in their order
	exprSchema                 // the JSON of schema
	exprNested                 // the grammar nested
	exprFree                   // what free describes
)

// expr is a node of a parsed grammar.
type expr struct {
	kind   exprKind
	text   string
	set    runeSet
	re     *rx
	subs   []*expr
	lo, hi int32
	at     int // where an exprRule, exprToken or exprSchema is in the text
	tokens tokenSet
	chunks []string
	schema any
	nested *definitions
	free   *freeExpr
}

// freeExpr is free text, or free tokens, in which rules follow triggers.
type freeExpr struct {
	texts    []string // the triggers, or tokens
	tokens   []idRange
	rules    []*expr // by trigger
	once     bool    // the rule ends it
	excludes []string
	byToken  bool      // free tokens, not text
	without  []idRange // tokens that are not free
}

// definitions are the rules of a grammar in the order of its text.
type definitions struct {
	names []string
	body  map[string]*expr
	start string
	text  string // the whole grammar, for the places in refusals
	part  bool   // something may follow a text of the grammar
}

// place is where the byte at of the grammar is, for a person.
func (d *definitions) place(at int) string { return placeIn(d.text, at) }

func placeIn(text string, at int) string {
	before := text[:min(at, len(text))]
	line := 1 + strings.Count(before, "\n")
	column := 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("line %d, column %d", line, column)
}

// define adds a rule that begins at the byte at.
func (d *definitions) define(name string, body *expr, at int) {
	if d.body == nil {
		d.body = make(map[string]*expr)
	}
	if _, ok := d.body[name]; ok {
		fail(ErrInvalid, "", "grammar: %s: the rule %s is defined twice", d.place(at), name)
	}
	d.names = append(d.names, name)
	d.body[name] = body
}

// notationRule lowers the text of a grammar. Without ::= outside of comments it is Lark, as
// vLLM decides it. part says that something may follow its texts.
func (b *builder) notationRule(text string, part bool, o Options) int32 {
	if !utf8.ValidString(text) {
		fail(ErrInvalid, "", "a grammar must be UTF-8")
	}
	d := (*definitions)(nil)
	if isEBNF(text) {
		d = parseEBNF(text, b)
	} else {
		d = parseLark(text, b)
	}
	d.part = part
	return b.definitions(d, o, false, nil)
}

func isEBNF(text string) bool {
	for line := range strings.SplitSeq(text, "\n") {
		for _, comment := range []string{"#", "//"} {
			line, _, _ = strings.Cut(line, comment)
		}
		if strings.Contains(line, "::=") {
			return true
		}
	}
	return false
}

// definitions lowers d and returns the rule with which it starts. With inJSON its texts are read as
// they are written inside a JSON string. avoid, if it is not nil, are texts that no text and no
// regular expression of it is.
func (b *builder) definitions(d *definitions, o Options, inJSON bool, avoid *dfa) int32 {
	if d.body[d.start] == nil {
		fail(ErrInvalid, "", "the grammar has no rule %s", d.start)
	}
	rules := make(map[string]int32, len(d.names))
	for _, name := range d.names {
		rules[name] = b.rule()
	}
	d.dropEnds(b)
	l := &exprLowering{b: b, d: d, o: o, rules: rules, inJSON: inJSON, avoid: avoid}
	for _, name := range d.names {
		r := rules[name]
		b.accept(l.at(b.start(r), d.body[name]))
	}
	return rules[d.start]
}

// cost is about the number of states that n needs.
func (n *expr) cost() int {
	c := 1 + len(n.text)
	switch n.kind {
	case exprRule, exprSchema, exprNested, exprFree:
		c = 1
	case exprToken:
		c = 8
	case exprChunks:
		for _, s := range n.chunks {
			c += 1 + len(s)
		}
	}
	if n.re != nil {
		c += n.re.cost()
	}
	for _, s := range n.subs {
		c += s.cost()
	}
	if n.kind == exprRepeat {
		c *= int(max(1, n.lo, n.hi))
	}
	return min(c, 1<<30)
}

// scanner reads the texts of grammars.
type scanner struct {
	s     string
	i     int
	depth int
	b     *builder // for warnings and the names of tokens
}

func (p *scanner) bad(msg string) {
	fail(ErrInvalid, "", "grammar: %s: %s", placeIn(p.s, p.i), msg)
}

// refuse refuses what may be valid, and is not supported.
func (p *scanner) refuse(what string) {
	fail(ErrUnsupported, "", "grammar: %s: %s is not supported", placeIn(p.s, p.i), what)
}

// warn says that something has no effect.
func (p *scanner) warn(what string) {
	p.b.warn("", "grammar: %s: %s has no effect", placeIn(p.s, p.i), what)
}

// enter is called for each level of nesting.
func (p *scanner) enter() {
	if p.depth++; p.depth > maxDepth {
		fail(ErrTooComplex, "", "the grammar is nested too deeply")
	}
}

func (p *scanner) peek() byte {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return 0
}

func (p *scanner) eat(text string) bool {
	if strings.HasPrefix(p.s[p.i:], text) {
		p.i += len(text)
		return true
	}
	return false
}

func (p *scanner) rune() rune {
	if p.i >= len(p.s) {
		p.bad("unexpected end")
	}
	r, n := utf8.DecodeRuneInString(p.s[p.i:])
	p.i += n
	return r
}

func (p *scanner) number() (int32, bool) {
	n, ok := int32(0), false
	for ; p.peek() >= '0' && p.peek() <= '9'; p.i++ {
		n, ok = min(n*10+int32(p.peek()-'0'), maxRepeat+1), true
	}
	if n > maxRepeat {
		fail(ErrTooComplex, "", "grammar: more than %d repetitions", maxRepeat)
	}
	return n, ok
}

func nameByte(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

func (p *scanner) name() string {
	start := p.i
	for nameByte(p.peek()) {
		p.i++
	}
	return p.s[start:p.i]
}

// hex reads n hexadecimal digits.
func (p *scanner) hex(n int) rune {
	v := rune(0)
	for range n {
		d := strings.IndexByte("0123456789abcdef", p.peek()|0x20)
		if p.i >= len(p.s) || d < 0 {
			p.bad("a malformed hexadecimal escape")
		}
		v = v<<4 | rune(d)
		p.i++
	}
	if v > utf8.MaxRune || v >= 0xD800 && v < 0xE000 {
		p.bad("an escape that is no character")
	}
	return v
}

// escape reads what follows a backslash in a literal or class.
func (p *scanner) escape() rune {
	r := p.rune()
	switch r {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'v':
		return '\v'
	case 'a':
		return '\a'
	case 'e':
		return 0x1B
	case '0':
		return 0
	case 'x':
		return p.hex(2)
	case 'u':
		return p.hex(4)
	case 'U':
		return p.hex(8)
	}
	if r < 0x80 && nameByte(byte(r)) && r != '-' && r != '_' {
		p.bad("an unknown escape \\" + string(r))
	}
	return r
}

// quoted reads the rest of a string after its opening quotation mark.
func (p *scanner) quoted() string {
	var b strings.Builder
	for !p.eat(`"`) {
		r := p.rune()
		switch r {
		case '\n':
			p.bad("a string that does not end")
		case '\\':
			r = p.escape()
		}
		b.WriteRune(r)
	}
	return b.String()
}

// braces reads {m}, {m,n}, {m,} or {,n} after the opening brace.
func (p *scanner) braces(space func()) (lo, hi int32) {
	space()
	lo, ok := p.number()
	hi = lo
	space()
	if p.eat(",") {
		space()
		var bounded bool
		if hi, bounded = p.number(); !bounded {
			hi = -1
		}
		ok = ok || bounded
		space()
	}
	if !ok || !p.eat("}") || hi >= 0 && lo > hi {
		p.bad("a malformed repetition")
	}
	return lo, hi
}

// alternatives is a node for one of subs.
func alternatives(subs []*expr) *expr {
	if len(subs) == 1 {
		return subs[0]
	}
	return &expr{kind: exprAlt, subs: subs}
}

// tokenNamed is the token called name.
func (p *scanner) tokenNamed(name string) tokenSet {
	id, ok := p.b.tokenCalled(name)
	if !ok {
		p.i -= len(name)
		p.bad("the vocabulary has no token " + quoteJSON(name))
	}
	return tokenSet{ranges: []idRange{{id, id}}}
}
