package grammar

import "strings"

// parseEBNF reads EBNF in the manner of llama.cpp's GBNF (grammars/README.md in
// llama.cpp): name ::= expression, with "literals", [classes], ., groups, ? * + and
// {m,n}. A rule ends where the next one begins.
func parseEBNF(text string) *definitions {
	p := &ebnf{scanner{s: text}}
	d := &definitions{}
	for p.space(); p.i < len(p.s); p.space() {
		name := p.name()
		p.space()
		if name == "" || !p.eat("::=") {
			p.bad("expected a rule (name ::= ...)")
		}
		d.define(name, p.alt())
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

// ruleAhead reports whether a new rule begins here.
func (p *ebnf) ruleAhead() bool {
	i := p.i
	defer func() { p.i = i }()
	if p.name() == "" {
		return false
	}
	p.space()
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

func (p *ebnf) atom() *expr {
	switch {
	case p.eat("("):
		if p.peek() == '=' {
			fail(ErrUnsupported, "", "grammar: lookahead is not supported")
		}
		n := p.alt()
		p.space()
		if !p.eat(")") {
			p.bad("missing )")
		}
		return n
	case p.eat(`"`):
		var b strings.Builder
		for !p.eat(`"`) {
			r := p.rune()
			switch r {
			case '\n':
				p.bad("a literal that does not end")
			case '\\':
				r = p.escape()
			}
			b.WriteRune(r)
		}
		return &expr{kind: exprText, text: b.String()}
	case p.eat("["):
		return &expr{kind: exprSet, set: p.class()}
	case p.eat("."):
		return &expr{kind: exprSet, set: anyChar}
	}
	if name := p.name(); name != "" {
		return &expr{kind: exprRule, text: name}
	}
	p.bad("unexpected " + quoteJSON(string(p.rune())))
	return nil
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
