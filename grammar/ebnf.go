package grammar

import (
	"strconv"
	"strings"
)

// parseEBNF reads EBNF in the manner of llama.cpp's GBNF (grammars/README.md and
// src/llama-grammar.cpp there): name ::= expression, with "literals", [classes], ., groups,
// ? * + and {m,n}, and <tokens>. A rule ends where the next one begins. What xgrammar 0.2.8
// adds is read as well, where it says which texts there are: macros (ebnf_macro.go), dots in
// names, and lookahead, which it does not enforce either.
func parseEBNF(text string, b *builder) *definitions {
	p := &ebnf{scanner{s: text, b: b}}
	d := &definitions{text: text, start: "root"}
	for p.space(); p.i < len(p.s); p.space() {
		at := p.i
		name := p.ruleName()
		p.space()
		p.options()
		if name == "" || !p.eat("::=") {
			p.bad("expected a rule (name ::= ...)")
		}
		d.define(name, p.alt(), at)
	}
	return d
}

type ebnf struct{ scanner }

func (p *ebnf) space() {
	for p.i < len(p.s) {
		switch p.s[p.i] {
		case ' ', '\t', '\r', '\n':
			p.i++
		case '#':
			end := strings.IndexByte(p.s[p.i:], '\n')
			if end < 0 {
				end = len(p.s) - p.i
			}
			p.i += end
		default:
			return
		}
	}
}

// ruleName reads a name, which may have dots in it but not at its beginning.
func (p *ebnf) ruleName() string {
	start := p.i
	for nameByte(p.peek()) || p.peek() == '.' && p.i > start && nameByte(p.next()) {
		p.i++
	}
	return p.s[start:p.i]
}

// next is the byte after the next one, or 0.
func (p *ebnf) next() byte {
	if p.i+1 < len(p.s) {
		return p.s[p.i+1]
	}
	return 0
}

// options reads [name, name=value] before ::=. Those that do not change the texts have no
// effect.
func (p *ebnf) options() {
	if !p.eat("[") {
		return
	}
	for again := true; again; again = p.eat(",") {
		p.space()
		at := p.i
		switch key := p.name(); key {
		case "capture", "stop_capture", "temperature":
			end := p.i
			p.i = at
			p.warn(key)
			p.i = end
		case "lazy", "max_tokens", "max_chars":
			p.i = at
			p.refuse("the option " + key)
		default:
			p.i = at
			p.bad("an unknown option")
		}
		if p.space(); p.eat("=") {
			p.space()
			if p.eat(`"`) {
				p.quoted()
			}
			for strings.IndexByte("+-.0123456789eE", p.peek()) >= 0 && p.i < len(p.s) {
				p.i++
			}
		}
		p.space()
	}
	if !p.eat("]") {
		p.bad("missing ]")
	}
	p.space()
}

// ruleAhead reports whether a new rule begins here.
func (p *ebnf) ruleAhead() bool {
	i := p.i
	defer func() { p.i = i }()
	if p.ruleName() == "" {
		return false
	}
	if p.space(); p.peek() == '[' { // a class or the options of a rule
		if end := strings.IndexAny(p.s[p.i:], "]\n"); end > 0 && p.s[p.i+end] == ']' {
			rest := &ebnf{scanner{s: p.s, i: p.i + end + 1}}
			rest.space()
			return rest.eat("::=")
		}
	}
	return p.eat("::=")
}

func (p *ebnf) alt() *expr {
	p.enter()
	defer func() { p.depth-- }()
	subs := []*expr{p.seq()}
	for p.eat("|") {
		subs = append(subs, p.seq())
	}
	return alternatives(subs)
}

func (p *ebnf) seq() *expr {
	res := &expr{kind: exprSeq}
	for {
		p.space()
		if p.i >= len(p.s) || p.peek() == '|' || p.peek() == ')' || p.ruleAhead() {
			return res
		}
		if strings.HasPrefix(p.s[p.i:], "(=") {
			p.lookahead()
			continue
		}
		n := p.atom()
		for p.space(); ; p.space() {
			lo, hi := int32(0), int32(-1)
			switch {
			case p.eat("*"):
			case p.eat("+"):
				lo = 1
			case p.eat("?"):
				hi = 1
			case p.eat("{"):
				lo, hi = p.braces(p.space)
			default:
				lo = -1
			}
			if lo < 0 {
				break
			}
			n = &expr{kind: exprRepeat, subs: []*expr{n}, lo: lo, hi: hi}
		}
		res.subs = append(res.subs, n)
	}
}

// lookahead reads (= ...). xgrammar writes it into its own grammars as a hint: it must be
// true anyway.
func (p *ebnf) lookahead() {
	p.warn("a lookahead")
	p.eat("(=")
	p.alt()
	if p.space(); !p.eat(")") {
		p.bad("missing )")
	}
}

func (p *ebnf) atom() *expr {
	p.b.spend(1)
	switch {
	case p.eat("("):
		n := p.alt()
		p.space()
		if !p.eat(")") {
			p.bad("missing )")
		}
		return n
	case p.eat(`"`):
		return &expr{kind: exprText, text: p.quoted()}
	case p.eat("["):
		return &expr{kind: exprSet, set: p.class()}
	case p.eat("."):
		return &expr{kind: exprSet, set: anyChar}
	case p.peek() == '<' || p.peek() == '!':
		return p.token()
	}
	at := p.i
	name := p.ruleName()
	if name == "" {
		p.bad("unexpected " + quoteJSON(string(p.rune())))
	}
	if macro := ebnfMacros[name]; macro != nil {
		if p.space(); p.peek() == '(' {
			return macro(p, at)
		}
	}
	return &expr{kind: exprRule, text: name, at: at}
}

// token reads <[id]> or <text>, and ! before it for all other tokens.
func (p *ebnf) token() *expr {
	n := &expr{kind: exprToken, at: p.i}
	not := p.eat("!")
	text := p.s[p.i:]
	end := strings.IndexByte(text, '>')
	if !strings.HasPrefix(text, "<") || end < 2 {
		p.bad("a malformed token")
	}
	text = text[:end+1]
	p.i += len(text)
	if list, ok := strings.CutPrefix(text, "<["); ok {
		id, err := strconv.ParseInt(strings.TrimSuffix(list, "]>"), 10, 32)
		if err != nil || id < 0 || !strings.HasSuffix(list, "]>") {
			p.bad("a malformed token id")
		}
		n.tokens.ranges = []idRange{{int32(id), int32(id)}}
	} else {
		n.tokens = p.tokenNamed(text)
	}
	n.tokens.not = not
	return n
}

func (p *ebnf) class() runeSet {
	not := p.eat("^")
	var set runeSet
	char := func() rune {
		r := p.rune()
		switch r {
		case '\n':
			p.bad("a class that does not end")
		case '\\':
			return p.escape()
		}
		return r
	}
	for !p.eat("]") {
		p.b.spend(1)
		lo := char()
		hi := lo
		if p.peek() == '-' && p.i+1 < len(p.s) && p.s[p.i+1] != ']' {
			p.i++
			if hi = char(); lo > hi {
				p.bad("a range out of order")
			}
		}
		set = append(set, [2]rune{lo, hi})
	}
	if not {
		return set.invert()
	}
	return set.normal()
}
