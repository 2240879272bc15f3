package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of a pattern; the published ones have up to 20 classes and 60 instructions.
const (
	maxPattern = 4096 // bytes
	maxNesting = 32
	maxClasses = 64 // bits of a mask
	maxCode    = 4096
	maxRepeat  = 1000
	unlimited  = 1<<31 - 1
)

// charSet is a bracket expression or an escape such as \p{L}.
type charSet struct {
	neg    bool
	fold   bool
	ranges [][2]rune
	tables []*unicode.RangeTable
	except []*unicode.RangeTable // \P{..}, \S: everything outside
	nested []charSet
	and    []charSet // && operands
}

func (c *charSet) has(r rune) bool {
	in := c.contains(r)
	if c.fold {
		for f := unicode.SimpleFold(r); !in && f != r; f = unicode.SimpleFold(f) {
			in = c.contains(f)
		}
	}
	return in != c.neg
}

func (c *charSet) contains(r rune) bool {
	for i := range c.and {
		if !c.and[i].has(r) {
			return false
		}
	}
	if len(c.and) > 0 {
		return true
	}
	for _, x := range c.ranges {
		if x[0] <= r && r <= x[1] {
			return true
		}
	}
	if unicode.In(r, c.tables...) {
		return true
	}
	for _, t := range c.except {
		if !unicode.Is(t, r) {
			return true
		}
	}
	for i := range c.nested {
		if c.nested[i].has(r) {
			return true
		}
	}
	return false
}

// syntax is a parsed pattern.
type syntax struct {
	kind     syntaxKind
	sub      []syntax // alternatives, sequence, or the one operand
	set      charSet
	min, max int32
	atomic   bool // repeat of a set: possessive
	neg      bool
}

type syntaxKind uint8

const (
	synSet syntaxKind = iota
	synSequence
	synAlternatives
	synRepeat
	synLook
)

// compileRegex compiles classes (nested, && and \p{..} included), alternation,
// groups, (?i:..), look-ahead and greedy quantifiers, possessive on one class.
// It refuses what no pre-tokenizer needs: lazy and counted-possessive
// quantifiers, atomic groups, anchors, look-behind, back-references, and
// patterns that may match nothing.
func compileRegex(pattern string) (*regex, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("longer than %d bytes", maxPattern)
	}
	p := &parser{src: pattern}
	syn, err := p.alternatives()
	if err == nil && p.more() {
		err = errors.New("unmatched )")
	}
	if err != nil {
		return nil, fmt.Errorf("at byte %d of %q: %w", p.pos, pattern, err)
	}
	if syn.minLen() == 0 {
		return nil, fmt.Errorf("%q may match nothing", pattern)
	}
	c := &compiler{re: &regex{}, index: map[string]uint8{}}
	if err := c.emit(&syn); err != nil {
		return nil, fmt.Errorf("%q: %w", pattern, err)
	}
	c.add(inst{op: opAccept})
	for r := range c.re.ascii {
		c.re.ascii[r] = c.re.compute(rune(r))
	}
	return c.re, nil
}

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

type compiler struct {
	re    *regex
	index map[string]uint8 // class by its printed form
}

func (c *compiler) add(in inst) int32 {
	c.re.code = append(c.re.code, in)
	return int32(len(c.re.code) - 1)
}

func (c *compiler) class(set charSet) (uint8, error) {
	key := fmt.Sprint(set)
	if i, ok := c.index[key]; ok {
		return i, nil
	}
	if len(c.re.classes) == maxClasses {
		return 0, fmt.Errorf("more than %d character classes", maxClasses)
	}
	i := uint8(len(c.re.classes))
	c.re.classes, c.index[key] = append(c.re.classes, set), i
	return i, nil
}

func (c *compiler) emit(s *syntax) error {
	if len(c.re.code) > maxCode {
		return fmt.Errorf("more than %d instructions", maxCode)
	}
	switch s.kind {
	case synSet:
		return c.emitRun(s.set, 1, 1, false)
	case synSequence:
		for i := range s.sub {
			if err := c.emit(&s.sub[i]); err != nil {
				return err
			}
		}
	case synAlternatives:
		var ends []int32
		for i := range s.sub {
			last := i == len(s.sub)-1
			split := int32(-1)
			if !last {
				split = c.add(inst{op: opSplit})
				c.re.code[split].x = split + 1
			}
			if err := c.emit(&s.sub[i]); err != nil {
				return err
			}
			if !last {
				ends = append(ends, c.add(inst{op: opJump}))
				c.re.code[split].y = int32(len(c.re.code))
			}
		}
		for _, j := range ends {
			c.re.code[j].x = int32(len(c.re.code))
		}
	case synRepeat:
		return c.emitRepeat(s)
	case synLook:
		look := c.add(inst{op: opLook, neg: s.neg})
		if err := c.emit(&s.sub[0]); err != nil {
			return err
		}
		c.add(inst{op: opAccept})
		c.re.code[look].x = int32(len(c.re.code))
	}
	return nil
}

func (c *compiler) emitRun(set charSet, lo, hi int32, atomic bool) error {
	class, err := c.class(set)
	c.add(inst{op: opRun, class: class, min: lo, max: hi, atomic: atomic})
	return err
}

func (c *compiler) emitRepeat(s *syntax) error {
	body := &s.sub[0]
	if body.kind == synSet {
		return c.emitRun(body.set, s.min, s.max, s.atomic)
	}
	if s.max > 1 && body.minLen() == 0 {
		return errors.New("repeats a group that may match nothing")
	}
	for range s.min {
		if err := c.emit(body); err != nil {
			return err
		}
	}
	if s.max == unlimited { // split(body, out); body; jump back
		split := c.add(inst{op: opSplit})
		c.re.code[split].x = split + 1
		if err := c.emit(body); err != nil {
			return err
		}
		c.add(inst{op: opJump, x: split})
		c.re.code[split].y = int32(len(c.re.code))
		return nil
	}
	var splits []int32
	for range s.max - s.min {
		split := c.add(inst{op: opSplit})
		c.re.code[split].x = split + 1
		splits = append(splits, split)
		if err := c.emit(body); err != nil {
			return err
		}
	}
	for _, split := range splits {
		c.re.code[split].y = int32(len(c.re.code))
	}
	return nil
}

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
	if atom.kind == synLook {
		return syntax{}, errors.New("repeats a look-ahead")
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
			err = fmt.Errorf("bad repeat count {%s}", body)
		}
		return int32(n)
	}
	lo = number(from, 0)
	hi = lo
	if comma {
		hi = number(to, unlimited)
	}
	if err == nil && hi < lo || from == "" && to == "" {
		err = fmt.Errorf("bad repeat count {%s}", body)
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
		var set charSet
		_, err := p.escape(&set)
		return p.one(set), err
	case '^', '$':
		return syntax{}, errors.New("anchors are not supported")
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
