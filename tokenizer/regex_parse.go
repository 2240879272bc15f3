package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// syntax is a parsed pattern.
type syntax struct {
	kind     syntaxKind
	sub      []syntax // alternatives, sequence, or the one operand
	set      charSet
	min, max int32
	atomic   bool // repeat of a set: possessive
	neg      bool
	anchor   anchor
}

type syntaxKind uint8

const (
	synSet syntaxKind = iota
	synSequence
	synAlternatives
	synRepeat
	synLook
	synAnchor
)

// minLen returns how many code points a match has at least; beyond maxPattern it does
// not count.
func (s *syntax) minLen() int {
	switch s.kind {
	case synSet:
		return 1
	case synSequence:
		n := 0
		for i := range s.sub {
			n += s.sub[i].minLen()
		}
		return min(n, maxPattern)
	case synAlternatives:
		n := maxPattern
		for i := range s.sub {
			n = min(n, s.sub[i].minLen())
		}
		return n
	case synRepeat:
		return min(int(s.min)*s.sub[0].minLen(), maxPattern)
	}
	return 0
}

// parser parses a pattern to a syntax.
type parser struct {
	src   string
	pos   int
	depth int
	fold  bool
}

func (p *parser) more() bool { return p.pos < len(p.src) }

func (p *parser) peek(prefix string) bool { return strings.HasPrefix(p.src[p.pos:], prefix) }

func (p *parser) take(prefix string) bool {
	if !p.peek(prefix) {
		return false
	}
	p.pos += len(prefix)
	return true
}

func (p *parser) next() (rune, error) {
	if !p.more() {
		return 0, errors.New("ends too early")
	}
	r, w := utf8.DecodeRuneInString(p.src[p.pos:])
	p.pos += w
	return r, nil
}

// alternatives parses up to ) or the end.
func (p *parser) alternatives() (syntax, error) {
	if p.depth++; p.depth > maxNesting {
		return syntax{}, fmt.Errorf("groups nest deeper than %d", maxNesting)
	}
	defer func() { p.depth-- }()
	alt := syntax{kind: synAlternatives}
	for {
		seq := syntax{kind: synSequence}
		for p.more() && !p.peek("|") && !p.peek(")") {
			item, err := p.item()
			if err != nil {
				return syntax{}, err
			}
			seq.sub = append(seq.sub, item)
		}
		alt.sub = append(alt.sub, seq)
		if !p.take("|") {
			return alt, nil
		}
	}
}

func (p *parser) item() (syntax, error) {
	atom, err := p.atom()
	if err != nil {
		return syntax{}, err
	}
	rep := syntax{kind: synRepeat, sub: []syntax{atom}}
	counted := false
	switch {
	case p.take("?"):
		rep.max = 1
	case p.take("*"):
		rep.max = unlimited
	case p.take("+"):
		rep.min, rep.max = 1, unlimited
	case p.take("{"):
		counted = true
		if rep.min, rep.max, err = p.bounds(); err != nil {
			return syntax{}, err
		}
	default:
		return atom, nil
	}
	if atom.kind == synLook || atom.kind == synAnchor {
		return syntax{}, errors.New("repeats a look-ahead or an anchor")
	}
	switch {
	case p.peek("?"):
		return syntax{}, errors.New("lazy quantifiers are not supported")
	case p.peek("*"), p.peek("{"), p.peek("+") && counted:
		return syntax{}, errors.New("two quantifiers in a row")
	case p.take("+"):
		if atom.kind != synSet {
			return syntax{}, errors.New("possessive groups are not supported")
		}
		rep.atomic = true
	}
	return rep, nil
}

// bounds parses what follows { of {n}, {n,}, {,m} or {n,m}.
func (p *parser) bounds() (lo, hi int32, err error) {
	end := strings.IndexByte(p.src[p.pos:], '}')
	if end < 0 {
		return 0, 0, errors.New("unfinished {")
	}
	body := p.src[p.pos : p.pos+end]
	p.pos += end + 1
	from, to, comma := strings.Cut(body, ",")
	number := func(s string, empty int32) int32 {
		if s == "" && comma {
			return empty
		}
		n, e := strconv.ParseUint(s, 10, 31)
		if e != nil || n > maxRepeat {
			err = fmt.Errorf("bad repeat count {%.60s}", body)
		}
		return int32(n)
	}
	lo = number(from, 0)
	hi = lo
	if comma {
		hi = number(to, unlimited)
	}
	if err == nil && hi < lo || from == "" && to == "" {
		err = fmt.Errorf("bad repeat count {%.60s}", body)
	}
	return lo, hi, err
}

func (p *parser) atom() (syntax, error) {
	start := p.pos
	r, err := p.next()
	if err != nil {
		return syntax{}, err
	}
	switch r {
	case '(':
		return p.group()
	case '[':
		set, err := p.brackets(0)
		return syntax{kind: synSet, set: set}, err
	case '.':
		return p.one(charSet{neg: true, ranges: [][2]rune{{'\n', '\n'}}}), nil
	case '\\':
		for _, a := range []anchor{textStart, textEnd, wordBoundary, noBoundary} {
			if p.take(string(a)) {
				return syntax{kind: synAnchor, anchor: a}, nil
			}
		}
		var set charSet
		_, err := p.escape(&set)
		return p.one(set), err
	case '^', '$':
		return syntax{kind: synAnchor, anchor: anchor(r)}, nil
	case '*', '+', '?', '{':
		p.pos = start
		return syntax{}, errors.New("a quantifier with nothing to repeat")
	}
	return p.one(charSet{ranges: [][2]rune{{r, r}}}), nil
}

func (p *parser) one(set charSet) syntax {
	set.fold = p.fold
	return syntax{kind: synSet, set: set}
}

// group parses what follows (.
func (p *parser) group() (syntax, error) {
	look, neg, fold := false, false, p.fold
	switch {
	case p.take("?:"):
	case p.take("?i:"):
		fold = true
	case p.take("?="):
		look = true
	case p.take("?!"):
		look, neg = true, true
	case p.peek("?"):
		return syntax{}, errors.New("this kind of group is not supported")
	}
	outer := p.fold
	p.fold = fold
	syn, err := p.alternatives()
	p.fold = outer
	if err == nil && !p.take(")") {
		err = errors.New("unfinished group")
	}
	if look {
		syn = syntax{kind: synLook, neg: neg, sub: []syntax{syn}}
	}
	return syn, err
}
