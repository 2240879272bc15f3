package grammar

import (
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
)

// expr is a node of a parsed grammar.
type expr struct {
	kind   exprKind
	text   string
	set    runeSet
	re     *rx
	subs   []*expr
	lo, hi int32
}

// definitions are the rules of a grammar in the order of its text.
type definitions struct {
	names []string
	body  map[string]*expr
}

func (d *definitions) define(name string, body *expr) {
	if d.body == nil {
		d.body = make(map[string]*expr)
	}
	if _, ok := d.body[name]; ok {
		fail(ErrInvalid, "", "the rule %s is defined twice", name)
	}
	d.names = append(d.names, name)
	d.body[name] = body
}

// notationRule lowers the text of a grammar. Without ::= it is Lark, as vLLM decides
// it.
func (b *builder) notationRule(text string) int32 {
	if !utf8.ValidString(text) {
		fail(ErrInvalid, "", "a grammar must be UTF-8")
	}
	if strings.Contains(text, "::=") {
		return b.definitions(parseEBNF(text), "root")
	}
	d, start := parseLark(text)
	return b.definitions(d, start)
}

// definitions lowers d and returns the rule with the name start.
func (b *builder) definitions(d *definitions, start string) int32 {
	if d.body[start] == nil {
		fail(ErrInvalid, "", "the grammar has no rule %s", start)
	}
	rules := make(map[string]int32, len(d.names))
	for _, name := range d.names {
		rules[name] = b.rule()
	}
	l := exprLowering{b: b, rules: rules}
	for _, name := range d.names {
		r := rules[name]
		b.accept(l.at(b.start(r), d.body[name]))
	}
	return rules[start]
}

// exprLowering lowers expressions.
type exprLowering struct {
	b     *builder
	rules map[string]int32
}

func (l exprLowering) at(from int32, n *expr) int32 {
	b := l.b
	b.spend(1)
	switch n.kind {
	case exprText:
		return b.lit(from, n.text)
	case exprSet:
		return b.utf8Leaf(from, n.set)
	case exprRule:
		r, ok := l.rules[n.text]
		if !ok {
			fail(ErrInvalid, "", "the rule %s is used but not defined", n.text)
		}
		return b.call(from, r)
	case exprRegex:
		core, _, _, ok := anchored(n.re)
		if !ok {
			fail(ErrUnsupported, "", "anchors inside a regular expression of a grammar")
		}
		return b.rx(from, core, lowering{leaf: b.utf8Leaf, counted: true})
	case exprSeq:
		for _, s := range n.subs {
			from = l.at(from, s)
		}
		return from
	case exprAlt:
		fs := make([]frag, len(n.subs))
		for i, s := range n.subs {
			fs[i] = func(at int32) int32 { return l.at(at, s) }
		}
		return b.alt(from, fs...)
	}
	return b.repeat(from, n.lo, n.hi, n.subs[0].cost(), func(at int32) int32 { return l.at(at, n.subs[0]) })
}

// cost is about the number of states that n needs.
func (n *expr) cost() int {
	c := 1 + len(n.text)
	if n.kind == exprRule {
		c = 1
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
}

func (p *scanner) bad(msg string) {
	line := 1 + strings.Count(p.s[:min(p.i, len(p.s))], "\n")
	fail(ErrInvalid, "", "grammar: %s in line %d", msg, line)
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
