package grammar

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// larkItem matches the beginning of a line that does not continue the line before: a
// definition or a directive.
var larkItem = regexp.MustCompile(`^\s*(?:[?!]{0,2}[_A-Za-z][A-Za-z0-9_-]*(?:\.-?\d+)?\s*[:{\[]|%)`)

// larkCommon are the terminals of Lark's common library (lark/grammars/common.lark).
var larkCommon = map[string]string{
	"DIGIT": `[0-9]`, "HEXDIGIT": `[0-9A-Fa-f]`, "INT": `[0-9]+`, "SIGNED_INT": `[+-]?[0-9]+`,
	"DECIMAL": `[0-9]+\.[0-9]*|\.[0-9]+`, "FLOAT": larkFloat, "SIGNED_FLOAT": `[+-]?(?:` + larkFloat + `)`,
	"NUMBER": larkFloat + `|[0-9]+`, "SIGNED_NUMBER": `[+-]?(?:` + larkFloat + `|[0-9]+)`,
	"ESCAPED_STRING": `"(?:[^"\\\n]|\\[^\n])*"`, "LCASE_LETTER": `[a-z]`, "UCASE_LETTER": `[A-Z]`, "LETTER": `[A-Za-z]`,
	"WORD": `[A-Za-z]+`, "CNAME": `[_A-Za-z][_A-Za-z0-9]*`, "WS_INLINE": `[ \t]+`, "WS": `[ \t\f\r\n]+`,
	"CR": `\r`, "LF": `\n`, "NEWLINE": `(?:\r?\n)+`,
	"SH_COMMENT": `#[^\n]*`, "CPP_COMMENT": `\/\/[^\n]*`, "SQL_COMMENT": `--[^\n]*`,
}

const larkFloat = `[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`

// ignored is the name of the rule for %ignore; no Lark name has a space.
const ignored = "% ignore"

// parseLark reads a Lark grammar, as far as it describes texts: rules, terminals,
// strings, ranges, regular expressions, repetition, %import common and %ignore. What
// only concerns parse trees has no effect. The grammar begins with the rule start, or
// with its first rule if it has no start.
func parseLark(text string) (d *definitions, start string) {
	l := &lark{defs: &definitions{}}
	for _, item := range larkItems(text) {
		l.scanner = scanner{s: item}
		l.item()
	}
	for _, name := range l.imports {
		if l.defs.body[name[1]] != nil {
			fail(ErrInvalid, "", "%s is both imported and defined", name[1])
		}
		l.defs.define(name[1], &expr{kind: exprRegex, re: parseRegex(larkCommon[name[0]])})
	}
	if len(l.skip) > 0 {
		l.defs.define(ignored, &expr{kind: exprRepeat, subs: []*expr{alternatives(l.skip)}, hi: -1})
	} else {
		l.defs.define(ignored, &expr{kind: exprSeq})
	}
	start = "start"
	if l.defs.body[start] == nil && len(l.rules) > 0 {
		start = l.rules[0]
	}
	return l.defs, start
}

// larkItems joins the lines of each item and drops comments.
func larkItems(text string) []string {
	var items []string
	for line := range strings.SplitSeq(text, "\n") {
		line = larkComment(line)
		switch {
		case strings.TrimSpace(line) == "":
		case len(items) == 0 || larkItem.MatchString(line):
			items = append(items, line)
		default:
			items[len(items)-1] += "\n" + line
		}
	}
	return items
}

// larkComment cuts a comment off a line. A slash begins a regular expression, but //
// never does.
func larkComment(line string) string {
	quote := byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case c == '\\' && quote != 0:
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case strings.HasPrefix(line[i:], "//"):
			return line[:i]
		case c == '#':
			return line[:i]
		case c == '"' || c == '/':
			quote = c
		}
	}
	return line
}

type lark struct {
	scanner
	defs    *definitions
	rules   []string
	imports [][2]string // name in the library, name here
	skip    []*expr
	inRule  bool // in a rule, not in a terminal: what is ignored may follow each lexeme
}

func (l *lark) space() {
	for l.i < len(l.s) && strings.IndexByte(" \t\r\n", l.s[l.i]) >= 0 {
		l.i++
	}
}

func (l *lark) item() {
	l.space()
	switch {
	case l.eat("%import"):
		l.importing()
	case l.eat("%ignore"):
		l.inRule = false
		l.skip = append(l.skip, l.alt())
	case l.peek() == '%':
		fail(ErrUnsupported, "", "grammar: the directive %s is not supported", strings.Fields(l.s[l.i:])[0])
	default:
		l.definition()
	}
	if l.space(); l.i < len(l.s) {
		l.bad("unexpected " + quoteJSON(string(l.rune())))
	}
}

func (l *lark) definition() {
	for l.eat("?") || l.eat("!") {
	}
	name := l.name()
	if l.eat(".") {
		l.eat("-")
		l.number()
	}
	l.space()
	if l.peek() == '{' || l.peek() == '[' {
		fail(ErrUnsupported, "", "grammar: templates and attributes are not supported (rule %s)", name)
	}
	if name == "" || !l.eat(":") {
		l.bad("expected a rule (name: ...)")
	}
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(name, "_"))
	if l.inRule = !unicode.IsUpper(first); l.inRule {
		l.rules = append(l.rules, name)
	}
	l.defs.define(name, l.alt())
}

func (l *lark) importing() {
	l.space()
	if !l.eat("common") {
		fail(ErrUnsupported, "", "grammar: only common can be imported")
	}
	add := func(as bool) {
		l.space()
		name := l.name()
		if _, ok := larkCommon[name]; !ok {
			fail(ErrUnsupported, "", "grammar: common.%s is not known", name)
		}
		here := name
		if l.space(); as && l.eat("->") {
			l.space()
			here = l.name()
		}
		l.imports = append(l.imports, [2]string{name, here})
		l.space()
	}
	if l.eat(".") {
		add(true)
		return
	}
	l.space()
	if !l.eat("(") {
		l.bad("a malformed %import")
	}
	add(false)
	for l.eat(",") {
		add(false)
	}
	if !l.eat(")") {
		l.bad("a malformed %import")
	}
}

func (l *lark) alt() *expr {
	l.enter()
	defer func() { l.depth-- }()
	subs := []*expr{l.seq()}
	for l.eat("|") {
		subs = append(subs, l.seq())
	}
	return alternatives(subs)
}

func (l *lark) seq() *expr {
	res := &expr{kind: exprSeq}
	for {
		l.space()
		switch c := l.peek(); {
		case l.i >= len(l.s) || c == '|' || c == ')' || c == ']':
			return res
		case l.eat("->"): // the name of an alternative, for parse trees
			l.space()
			l.name()
			continue
		}
		n := l.atom()
		for again := true; again; {
			lo, hi := int32(0), int32(-1)
			switch l.space(); {
			case l.eat("*"):
			case l.eat("+"):
				lo = 1
			case l.eat("?"):
				hi = 1
			case l.eat("{"):
				lo, hi = l.braces(l.space)
			case l.eat("~"):
				lo, hi = l.tilde()
			default:
				again = false
			}
			if again {
				n = &expr{kind: exprRepeat, subs: []*expr{n}, lo: lo, hi: hi}
			}
		}
		res.subs = append(res.subs, n)
	}
}

// tilde reads ~n or ~n..m.
func (l *lark) tilde() (lo, hi int32) {
	l.space()
	lo, ok := l.number()
	hi = lo
	if l.space(); ok && l.eat("..") {
		l.space()
		hi, ok = l.number()
	}
	if !ok || lo > hi {
		l.bad("a malformed repetition")
	}
	return lo, hi
}

// lexeme lets what is ignored follow n, if n is in a rule.
func (l *lark) lexeme(n *expr) *expr {
	if !l.inRule {
		return n
	}
	return &expr{kind: exprSeq, subs: []*expr{n, {kind: exprRule, text: ignored}}}
}

func (l *lark) atom() *expr {
	switch {
	case l.eat("("):
		n := l.alt()
		if !l.eat(")") {
			l.bad("missing )")
		}
		return n
	case l.eat("["):
		n := l.alt()
		if !l.eat("]") {
			l.bad("missing ]")
		}
		return &expr{kind: exprRepeat, subs: []*expr{n}, hi: 1}
	case l.eat(`"`):
		return l.lexeme(l.literal())
	case l.eat("/"):
		return l.lexeme(l.regex())
	}
	name := l.name()
	if name == "" {
		fail(ErrUnsupported, "", "grammar: %s is not supported", quoteJSON(l.s[l.i:min(len(l.s), l.i+12)]))
	}
	ref := &expr{kind: exprRule, text: name}
	if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(name, "_")); unicode.IsUpper(first) {
		return l.lexeme(ref)
	}
	if !l.inRule {
		fail(ErrInvalid, "", "grammar: a terminal refers to the rule %s", name)
	}
	return ref
}

// literal reads "text", "text"i or "a".."z".
func (l *lark) literal() *expr {
	text := l.quoted()
	switch {
	case l.eat("i"):
		n := &expr{kind: exprSeq}
		for _, r := range text {
			n.subs = append(n.subs, &expr{kind: exprSet, set: runeSet{{r, r}}.fold()})
		}
		return n
	case l.eat(`.."`):
		lo, hi := []rune(text), []rune(l.quoted())
		if len(lo) != 1 || len(hi) != 1 || lo[0] > hi[0] {
			l.bad("a malformed range")
		}
		return &expr{kind: exprSet, set: runeSet{{lo[0], hi[0]}}}
	}
	return &expr{kind: exprText, text: text}
}

func (l *lark) quoted() string {
	var b strings.Builder
	for !l.eat(`"`) {
		r := l.rune()
		switch r {
		case '\n':
			l.bad("a string that does not end")
		case '\\':
			r = l.escape()
		}
		b.WriteRune(r)
	}
	return b.String()
}

func (l *lark) regex() *expr {
	var b strings.Builder
	for !l.eat("/") {
		r := l.rune()
		if r == '\\' {
			if next := l.rune(); next != '/' {
				b.WriteByte('\\')
				r = next
			} else {
				r = '/'
			}
		}
		b.WriteRune(r)
	}
	flags := l.name()
	p := &rxParser{s: []rune(b.String()), dotAll: strings.Contains(flags, "s")}
	if strings.Trim(flags, "isu") != "" {
		fail(ErrUnsupported, "", "grammar: the flags %s of a regular expression are not supported", flags)
	}
	n := p.parse()
	if strings.Contains(flags, "i") {
		n.fold()
	}
	return &expr{kind: exprRegex, re: n}
}

func (n *rx) fold() {
	if n.kind == rxSet {
		n.set = n.set.fold()
	}
	for _, s := range n.subs {
		s.fold()
	}
}
