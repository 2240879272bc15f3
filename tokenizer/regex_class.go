package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
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

// escape parses what follows a backslash and adds it to the set; for a single
// code point it also returns it, else -1.
func (p *parser) escape(set *charSet) (rune, error) {
	r, err := p.next()
	if err != nil {
		return -1, err
	}
	table := func(neg bool, tables ...*unicode.RangeTable) (rune, error) {
		if neg && len(tables) > 1 {
			set.nested = append(set.nested, charSet{neg: true, tables: tables})
		} else if neg {
			set.except = append(set.except, tables...)
		} else {
			set.tables = append(set.tables, tables...)
		}
		return -1, nil
	}
	switch r {
	case 's', 'S':
		return table(r == 'S', unicode.White_Space)
	case 'd', 'D':
		return table(r == 'D', unicode.Nd)
	case 'w', 'W':
		return table(r == 'W', wordTables...)
	case 'p', 'P':
		t, neg, err := p.property()
		if err != nil {
			return -1, err
		}
		return table(neg != (r == 'P'), t)
	case 'n':
		r = '\n'
	case 'r':
		r = '\r'
	case 't':
		r = '\t'
	case 'f':
		r = '\f'
	case 'v':
		r = '\v'
	case 'x', 'u':
		if r, err = p.codePoint(r); err != nil {
			return -1, err
		}
	default:
		if '0' <= r && r <= '9' || isASCIILetter(byte(min(r, 0x7f))) {
			return -1, fmt.Errorf("\\%c is not supported", r)
		}
	}
	set.ranges = append(set.ranges, [2]rune{r, r})
	return r, nil
}

// property parses {Name}, {^Name} or a one-letter name after \p.
func (p *parser) property() (*unicode.RangeTable, bool, error) {
	name, neg := "", false
	if p.take("{") {
		end := strings.IndexByte(p.src[p.pos:], '}')
		if end < 0 {
			return nil, false, errors.New(`unfinished \p{`)
		}
		name = p.src[p.pos : p.pos+end]
		p.pos += end + 1
		name, neg = strings.CutPrefix(name, "^")
	} else {
		r, err := p.next()
		if err != nil {
			return nil, false, err
		}
		name = string(r)
	}
	if t := unicode.Categories[name]; t != nil {
		return t, neg, nil
	}
	if t := unicode.Scripts[name]; t != nil {
		return t, neg, nil
	}
	return nil, false, fmt.Errorf("unknown property %.200q", name)
}

// codePoint parses the digits of \xHH, \x{H..} or \uHHHH.
func (p *parser) codePoint(kind rune) (rune, error) {
	digits := 2
	if kind == 'u' {
		digits = 4
	}
	var hex string
	if kind == 'x' && p.take("{") {
		end := strings.IndexByte(p.src[p.pos:], '}')
		if end < 0 {
			return -1, errors.New(`unfinished \x{`)
		}
		hex = p.src[p.pos : p.pos+end]
		p.pos += end + 1
	} else {
		hex = p.src[p.pos:min(p.pos+digits, len(p.src))]
		p.pos += len(hex)
		if len(hex) < digits {
			return -1, errors.New("unfinished code point")
		}
	}
	v, err := strconv.ParseUint(hex, 16, 32)
	if err != nil || v > unicode.MaxRune {
		return -1, fmt.Errorf("bad code point %.200q", hex)
	}
	return rune(v), nil
}

// brackets parses what follows [ up to and including its ].
func (p *parser) brackets(depth int) (charSet, error) {
	if depth > maxNesting {
		return charSet{}, fmt.Errorf("classes nest deeper than %d", maxNesting)
	}
	set := charSet{neg: p.take("^")}
	var operands []charSet // of &&
	var cur charSet
	if p.peek("]") {
		return charSet{}, errors.New("an empty class")
	}
	for !p.take("]") {
		if p.take("&&") {
			operands = append(operands, cur)
			cur = charSet{}
			continue
		}
		if p.peek("[:") {
			return charSet{}, errors.New("POSIX classes are not supported")
		}
		if p.take("[") {
			nested, err := p.brackets(depth + 1)
			if err != nil {
				return charSet{}, err
			}
			cur.nested = append(cur.nested, nested)
			continue
		}
		if err := p.member(&cur); err != nil {
			return charSet{}, err
		}
	}
	if operands != nil {
		set.and = append(operands, cur)
	} else {
		cur.neg = set.neg
		set = cur
	}
	set.fold = p.fold
	return set, nil
}

// member parses one code point, range or escape of a class.
func (p *parser) member(set *charSet) error {
	lo, err := p.next()
	if err != nil {
		return errors.New("unfinished class")
	}
	if lo == '\\' {
		if lo, err = p.escape(set); err != nil {
			return err
		}
	} else {
		set.ranges = append(set.ranges, [2]rune{lo, lo})
	}
	if !p.peek("-") || p.peek("-]") {
		return nil
	}
	if lo < 0 {
		return errors.New("a range that begins with a class")
	}
	p.pos++ // the -
	hi, err := p.next()
	if err != nil {
		return errors.New("unfinished class")
	}
	if hi == '\\' {
		var end charSet
		if hi, err = p.escape(&end); err != nil {
			return err
		}
	}
	if hi < lo {
		return errors.New("a range in the wrong order")
	}
	set.ranges[len(set.ranges)-1][1] = hi
	return nil
}
