package grammar

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// rxKind is a kind of node of a parsed regular expression.
type rxKind uint8

const (
	rxSet    rxKind = iota // one character of set
	rxCat                  // subs in order; no subs: the empty text
	rxAlt                  // one of subs
	rxRepeat               // subs[0], lo to hi times (hi -1: no bound)
	rxBegin                // ^
	rxEnd                  // $
	rxLook                 // subs[0] matches from here on or, with back, up to here; with not, it does not
)

// rx is a node of a parsed regular expression.
type rx struct {
	kind   rxKind
	set    runeSet
	subs   []*rx
	lo, hi int32
	back   bool
	not    bool
}

// maxRepeat bounds the counts of a repetition.
const maxRepeat = 100_000

// parseRegex reads an ECMAScript regular expression. What is not regular (back-references)
// or depends on flags is refused. As with ECMAScript's u flag, \d and
// \w are ASCII and \s is Unicode. Python's (?P<name>) is a group as well. Non-greedy
// quantifiers match the same texts as greedy ones. Its work is spent from m.
func parseRegex(s string, m *meter) *rx {
	if !utf8.ValidString(s) {
		fail(ErrInvalid, "", "a regular expression must be UTF-8")
	}
	return (&rxParser{s: []rune(s), meter: m}).parse()
}

type rxParser struct {
	s      []rune
	i      int
	depth  int
	dotAll bool // . matches line ends
	rust   bool // as in Rust: . matches \r, and \d, \w and \s are Unicode's

	meter      *meter
	properties map[string]runeSet // those that were read, by name; negated ones with ^ before it
}

func (p *rxParser) parse() *rx {
	n := p.alt()
	if p.i < len(p.s) {
		p.bad("unmatched )")
	}
	return n
}

func (p *rxParser) bad(msg string) {
	fail(ErrInvalid, "", "regular expression: %s at character %d", msg, p.i)
}

// refuse refuses what cannot be enforced.
func (p *rxParser) refuse(what string) {
	fail(ErrUnsupported, "", "regular expression: %s is not supported (character %d)", what, p.i)
}

func (p *rxParser) peek() rune {
	if p.i < len(p.s) {
		return p.s[p.i]
	}
	return -1
}

func (p *rxParser) eat(text string) bool {
	t := []rune(text)
	if len(p.s)-p.i < len(t) || !slices.Equal(p.s[p.i:p.i+len(t)], t) {
		return false
	}
	p.i += len(t)
	return true
}

func (p *rxParser) alt() *rx {
	if p.depth++; p.depth > 200 {
		fail(ErrTooComplex, "", "regular expression: nested too deeply")
	}
	defer func() { p.depth-- }()
	n := p.cat()
	if p.peek() != '|' {
		return n
	}
	res := &rx{kind: rxAlt, subs: []*rx{n}}
	for p.eat("|") {
		res.subs = append(res.subs, p.cat())
	}
	return res
}

func (p *rxParser) cat() *rx {
	res := &rx{kind: rxCat}
	for p.i < len(p.s) && p.peek() != '|' && p.peek() != ')' {
		n := p.atom()
		for again := true; again; {
			var lo, hi int32
			if lo, hi, again = p.quantifier(); again {
				if n.kind == rxBegin || n.kind == rxEnd || n.kind == rxLook {
					p.bad("nothing to repeat")
				}
				n = &rx{kind: rxRepeat, subs: []*rx{n}, lo: lo, hi: hi}
			}
		}
		res.subs = append(res.subs, n)
	}
	if len(res.subs) == 1 {
		return res.subs[0]
	}
	return res
}

// quantifier reads one quantifier, with the ? that makes it non-greedy. A brace that
// does not begin a quantifier is a character.
func (p *rxParser) quantifier() (lo, hi int32, ok bool) {
	switch {
	case p.eat("*"):
		lo, hi = 0, -1
	case p.eat("+"):
		lo, hi = 1, -1
	case p.eat("?"):
		lo, hi = 0, 1
	case p.peek() == '{':
		if lo, hi, ok = p.braces(); !ok {
			return 0, 0, false
		}
	default:
		return 0, 0, false
	}
	p.eat("?")
	if p.peek() == '+' {
		p.refuse("a possessive quantifier")
	}
	return lo, hi, true
}

// braces reads {m}, {m,} or {m,n}. Otherwise it reads nothing and reports false.
func (p *rxParser) braces() (lo, hi int32, ok bool) {
	start := p.i
	p.i++
	lo, ok = p.number()
	hi = lo
	if ok && p.eat(",") {
		if p.peek() == '}' {
			hi = -1
		} else {
			hi, ok = p.number()
		}
	}
	if !ok || !p.eat("}") {
		p.i = start
		return 0, 0, false
	}
	if hi >= 0 && lo > hi {
		p.bad("numbers out of order in {}")
	}
	if max(lo, hi) > maxRepeat {
		fail(ErrTooComplex, "", "regular expression: more than %d repetitions", maxRepeat)
	}
	return lo, hi, true
}

func (p *rxParser) number() (int32, bool) {
	n, ok := int32(0), false
	for ; p.peek() >= '0' && p.peek() <= '9'; p.i++ {
		n, ok = min(n*10+p.peek()-'0', maxRepeat+1), true
	}
	return n, ok
}

func (p *rxParser) atom() *rx {
	p.meter.spend(1)
	c := p.s[p.i]
	p.i++
	switch c {
	case '(':
		return p.group()
	case '[':
		return &rx{kind: rxSet, set: p.class()}
	case '.':
		switch {
		case p.dotAll:
			return &rx{kind: rxSet, set: anyChar}
		case p.rust:
			return &rx{kind: rxSet, set: runeSet{{'\n', '\n'}}.invert()}
		}
		return &rx{kind: rxSet, set: runeSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.invert()}
	case '^':
		return &rx{kind: rxBegin}
	case '$':
		return &rx{kind: rxEnd}
	case '\\':
		return p.escape()
	case '*', '+', '?':
		p.i--
		p.bad("nothing to repeat")
	case '{':
		p.i--
		if _, _, ok := p.braces(); ok {
			p.bad("nothing to repeat")
		}
		p.i++
	}
	return &rx{kind: rxSet, set: runeSet{{c, c}}}
}

func (p *rxParser) group() *rx {
	var look *rx
	if p.eat("?") {
		switch {
		case p.eat(":"):
		case p.eat("="):
			look = &rx{kind: rxLook}
		case p.eat("!"):
			look = &rx{kind: rxLook, not: true}
		case p.eat("<="):
			look = &rx{kind: rxLook, back: true}
		case p.eat("<!"):
			look = &rx{kind: rxLook, back: true, not: true}
		case p.eat("P<"), p.eat("<"):
			start := p.i
			for p.peek() == '_' || unicode.IsLetter(p.peek()) || unicode.IsDigit(p.peek()) {
				p.i++
			}
			if p.i == start || !p.eat(">") {
				p.bad("malformed group name")
			}
		default:
			return p.modified()
		}
	}
	n := p.alt()
	if !p.eat(")") {
		p.bad("missing )")
	}
	if look != nil {
		look.subs = []*rx{n}
		switch {
		case look.back && n.contains(func(n *rx) bool { return n.kind == rxEnd || n.kind == rxLook }):
			p.refuse("an assertion in a lookbehind")
		case n.contains(func(n *rx) bool { return n.kind == rxLook && n.back }):
			p.refuse("a lookbehind or a word boundary in a lookahead")
		}
		return look
	}
	if n.kind == rxBegin || n.kind == rxEnd || n.kind == rxLook { // unlike these, a group can be repeated
		return &rx{kind: rxCat, subs: []*rx{n}}
	}
	return n
}

// modified reads the rest of a group with modifiers, (?is-is:...), which hold in it
// (ECMAScript 2025). Of them, m is about anchors and is refused.
func (p *rxParser) modified() *rx {
	dotAll, fold, off := p.dotAll, false, false
	for ; p.peek() != ':'; p.i++ {
		switch {
		case p.peek() == '-' && !off:
			off = true
		case p.peek() == 's':
			dotAll = !off
		case p.peek() == 'i' && !off:
			fold = true
		case p.peek() == 'u' && p.rust && !off:
		default:
			p.refuse("this kind of group")
		}
	}
	p.i++
	outer := p.dotAll
	p.dotAll = dotAll
	n := p.alt()
	p.dotAll = outer
	if !p.eat(")") {
		p.bad("missing )")
	}
	if fold {
		n.fold()
	}
	return n
}

// unicodeClass is the set of Rust's \d, \w or \s (Unicode Technical Standard 18, annex C).
func unicodeClass(c rune) runeSet {
	var set runeSet
	tables := []*unicode.RangeTable{unicode.White_Space}
	switch c {
	case 'd':
		tables = []*unicode.RangeTable{unicode.Nd}
	case 'w':
		tables = []*unicode.RangeTable{unicode.L, unicode.Nl, unicode.Other_Alphabetic, unicode.M, unicode.Nd, unicode.Pc, unicode.Join_Control}
	}
	for _, t := range tables {
		set = append(set, tableSet(t)...)
	}
	return set.normal()
}

// escape reads what follows a backslash outside a class.
func (p *rxParser) escape() *rx {
	switch p.peek() {
	case 'b', 'B':
		p.i++
		return wordBoundary(p.s[p.i-1] == 'B')
	case 'k', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		p.refuse("a back-reference")
	case 'A', 'Z', 'z', 'G':
		p.refuse("this escape")
	}
	return &rx{kind: rxSet, set: p.escaped()}
}

// escaped reads what follows a backslash, and returns the characters that it means.
func (p *rxParser) escaped() runeSet {
	c := p.peek()
	if c < 0 {
		p.bad("trailing backslash")
	}
	p.i++
	if p.rust && c < 0x80 {
		switch lower := c | 0x20; lower {
		case 'd', 'w', 's':
			if c == lower {
				return unicodeClass(lower)
			}
			return unicodeClass(lower).invert()
		}
	}
	switch c {
	case 'd':
		return digits
	case 'D':
		return digits.invert()
	case 'w':
		return wordChars
	case 'W':
		return wordChars.invert()
	case 's':
		return spaces
	case 'S':
		return spaces.invert()
	case 'p', 'P':
		return p.property(c == 'P')
	}
	r := c
	switch c {
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
	case '0':
		if d := p.peek(); d >= '0' && d <= '9' {
			p.refuse("an octal escape")
		}
		r = 0
	case 'c':
		l := p.peek()
		if l|0x20 < 'a' || l|0x20 > 'z' {
			p.bad("malformed \\c")
		}
		p.i++
		r = l & 31
	case 'x':
		r = p.hex(2)
	case 'u':
		r = p.codePoint()
	default:
		if c < 0x80 && (unicode.IsLetter(c) || unicode.IsDigit(c)) {
			p.bad("unknown escape \\" + string(c))
		}
	}
	return runeSet{{r, r}}
}

func (p *rxParser) hex(n int) rune {
	v := rune(0)
	for range n {
		d := strings.IndexRune("0123456789abcdef", unicode.ToLower(p.peek()))
		if p.peek() < 0 || d < 0 {
			p.bad("malformed hexadecimal escape")
		}
		v = v<<4 | rune(d)
		p.i++
	}
	return v
}

// codePoint reads what follows \u: four digits, a pair of surrogates, or {..}.
func (p *rxParser) codePoint() rune {
	if p.eat("{") {
		v, n := rune(0), 0
		for ; p.peek() != '}'; n++ {
			if v = v<<4 | p.hex(1); v > unicode.MaxRune {
				p.bad("code point out of range")
			}
		}
		p.i++
		if n == 0 {
			p.bad("malformed hexadecimal escape")
		}
		return v
	}
	hi := p.hex(4)
	if hi >= 0xD800 && hi < 0xDC00 && p.eat(`\u`) {
		if lo := p.hex(4); lo >= 0xDC00 && lo < 0xE000 {
			return 0x10000 + (hi-0xD800)<<10 + lo - 0xDC00
		}
		p.bad("a lone surrogate")
	}
	if hi >= 0xD800 && hi < 0xE000 {
		p.bad("a lone surrogate")
	}
	return hi
}

// property reads {Name} or {Key=Name} of \p and \P.
func (p *rxParser) property(not bool) runeSet {
	if !p.eat("{") {
		p.bad("malformed \\p")
	}
	start := p.i
	for p.peek() != '}' {
		if p.peek() < 0 {
			p.bad("malformed \\p")
		}
		p.i++
	}
	name := string(p.s[start:p.i])
	p.i++
	key := name
	if not {
		key = "^" + name
	}
	set, ok := p.properties[key]
	if !ok {
		set = p.propertySet(name)
		if not {
			set = set.invert()
		}
		p.meter.spend(len(set))
		if p.properties == nil {
			p.properties = make(map[string]runeSet)
		}
		p.properties[key] = set
	}
	return set
}

// propertySet is the set of the characters with a property of Unicode.
func (p *rxParser) propertySet(name string) runeSet {
	key, value, both := strings.Cut(name, "=")
	var t *unicode.RangeTable
	switch {
	case both && (key == "Script" || key == "sc" || key == "Script_Extensions" || key == "scx"):
		t = unicode.Scripts[value]
	case both && (key == "General_Category" || key == "gc"):
		t = category(value)
	case !both:
		if t = category(name); t == nil {
			t = unicode.Properties[name]
		}
	}
	set := emojiProperties[name]
	switch {
	case t != nil:
		set = tableSet(t)
	case set == nil:
		p.refuse(`\p{` + name + `}`)
	}
	return set
}

// categories are the short names of Unicode's general categories, for the long names
// that ECMAScript has for them.
var categories = map[string]string{
	"Letter": "L", "Lowercase_Letter": "Ll", "Uppercase_Letter": "Lu", "Titlecase_Letter": "Lt", "Modifier_Letter": "Lm", "Other_Letter": "Lo",
	"Mark": "M", "Number": "N", "Decimal_Number": "Nd", "digit": "Nd", "Letter_Number": "Nl", "Other_Number": "No",
	"Punctuation": "P", "punct": "P", "Symbol": "S", "Separator": "Z", "Space_Separator": "Zs", "Control": "Cc", "cntrl": "Cc",
}

func category(name string) *unicode.RangeTable {
	if short, ok := categories[name]; ok {
		name = short
	}
	return unicode.Categories[name]
}

// joinRanges is the number of ranges of a class that may repeat others of it.
const joinRanges = 4096

// class reads a class after its opening bracket.
func (p *rxParser) class() runeSet {
	not := p.eat("^")
	var set runeSet
	joinAt := joinRanges
	for !p.eat("]") {
		if len(set) > joinAt { // a property of Unicode has hundreds of ranges, and may be there many times
			set = set.normal()
			joinAt = 2*len(set) + joinRanges
		}
		lo := p.classAtom()
		p.meter.spend(1 + len(lo))
		if p.peek() != '-' || p.i+1 >= len(p.s) || p.s[p.i+1] == ']' {
			set = append(set, lo...)
			continue
		}
		p.i++
		hi := p.classAtom()
		if !lo.single() || !hi.single() { // as in [\w-x], where the hyphen is a character
			set = append(append(append(set, lo...), hi...), [2]rune{'-', '-'})
			continue
		}
		if lo[0][0] > hi[0][0] {
			p.bad("range out of order in class")
		}
		set = append(set, [2]rune{lo[0][0], hi[0][0]})
	}
	if not {
		return set.invert()
	}
	return set.normal()
}

func (p *rxParser) classAtom() runeSet {
	c := p.peek()
	if c < 0 {
		p.bad("missing ]")
	}
	p.i++
	if next := p.peek(); p.rust && (c == '[' || next == c && (c == '&' || c == '-' || c == '~')) {
		p.refuse("a set operation in a class")
	}
	if c != '\\' {
		return runeSet{{c, c}}
	}
	if p.eat("b") {
		return runeSet{{'\b', '\b'}}
	}
	if p.eat("-") {
		return runeSet{{'-', '-'}}
	}
	return p.escaped()
}
