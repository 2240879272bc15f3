package grammar

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// larkItem matches the beginning of a line that does not continue the line before: a
// definition or a directive.
var larkItem = regexp.MustCompile(`^\s*(?:[?!]{0,2}[_A-Za-z][A-Za-z0-9_-]*(?:\.-?\d+)?(?:::_)?\s*[:{\[]|%(?:import|ignore|declare|override|extend|llguidance)\b)`)

// larkCommon are the terminals of Lark's common library (lark/grammars/common.lark).
var larkCommon = map[string]string{
	"DIGIT": `[0-9]`, "HEXDIGIT": `[0-9A-Fa-f]`, "INT": `[0-9]+`, "SIGNED_INT": `[+-]?[0-9]+`, "_EXP": `[eE][+-]?[0-9]+`,
	"DECIMAL": `[0-9]+\.[0-9]*|\.[0-9]+`, "FLOAT": larkFloat, "SIGNED_FLOAT": `[+-]?(?:` + larkFloat + `)`,
	"NUMBER": larkFloat + `|[0-9]+`, "SIGNED_NUMBER": `[+-]?(?:` + larkFloat + `|[0-9]+)`,
	"ESCAPED_STRING": `"(?:[^"\\\n]|\\[^\n])*"`, "LCASE_LETTER": `[a-z]`, "UCASE_LETTER": `[A-Z]`, "LETTER": `[A-Za-z]`,
	"WORD": `[A-Za-z]+`, "CNAME": `[_A-Za-z][_A-Za-z0-9]*`, "WS_INLINE": `[ \t]+`, "WS": `[ \t\f\r\n]+`,
	"CR": `\r`, "LF": `\n`, "NEWLINE": `(?:\r?\n)+`,
	"SH_COMMENT": `#[^\n]*`, "CPP_COMMENT": `\/\/[^\n]*`, "SQL_COMMENT": `--[^\n]*`, "C_COMMENT": `\/\*[^*]*\*+(?:[^/*][^*]*\*+)*\/`,
}

const larkFloat = `[0-9]+[eE][+-]?[0-9]+|(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?`

// ignored is the name of the rule for %ignore; no Lark name has a space.
const ignored = "% ignore"

// parseLark reads a Lark grammar, as far as it describes texts: rules, terminals,
// strings, ranges, regular expressions, repetition, %import common and %ignore, and what
// llguidance 1.9.1 adds (its docs/syntax.md): %json, %regex, %lark, tokens, & and ~ in
// terminals, and lazy rules. What only concerns parse trees has no effect. The grammar
// begins with the rule start, or with its first rule if it has no start.
func parseLark(text string, b *builder) *definitions {
	return parseLarkPart(larkBare(text), 0, len(text), 0, b)
}

// parseLarkPart reads the grammar in bare[from:to], which is bare of comments.
func parseLarkPart(bare string, from, to, depth int, b *builder) *definitions {
	l := &lark{defs: &definitions{text: bare}}
	for _, item := range larkItems(bare, from, to) {
		l.scanner = scanner{s: bare[:item[1]], i: item[0], depth: depth, b: b}
		l.item()
	}
	for _, m := range l.imports {
		l.defs.define(m.here, &expr{kind: exprRegex, re: parseRegex(larkCommon[m.name], b.meter)}, m.at)
	}
	skip := &expr{kind: exprSeq}
	if len(l.skip) > 0 {
		skip = &expr{kind: exprRepeat, subs: []*expr{alternatives(l.skip)}, hi: -1}
		if l.once {
			skip.hi = 1
		}
	}
	l.defs.define(ignored, skip, from)
	start := "start"
	if l.defs.body[start] == nil && len(l.rules) > 0 {
		start = l.rules[0]
	}
	if l.defs.start = start; l.before && l.defs.body[start] != nil {
		l.defs.start = "% start"
		l.defs.define(l.defs.start, &expr{kind: exprSeq, subs: []*expr{{kind: exprRule, text: ignored}, {kind: exprRule, text: start}}}, from)
	}
	return l.defs
}

// larkBare is text with spaces in the place of comments.
func larkBare(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		bare, _ := larkLine(line, 0)
		b.WriteString(bare)
		b.WriteString(strings.Repeat(" ", len(strings.TrimSuffix(line, "\n"))-len(bare)))
		if strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// larkLine cuts a comment, and the line break, off a line. A slash begins a regular
// expression, but // never does. It adds up the braces that the line opens.
func larkLine(line string, braces int) (string, int) {
	line = strings.TrimSuffix(line, "\n")
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
		case c == '<':
			i += max(0, larkTokenLen(line[i:])-1)
		case strings.HasPrefix(line[i:], "//"), c == '#':
			return line[:i], braces
		case c == '"' || c == '/':
			quote = c
		case c == '{':
			braces++
		case c == '}':
			braces--
		}
	}
	return line, braces
}

// larkTokenLen is the length of the <token> that s begins with, 0 if it does not begin with
// one.
func larkTokenLen(s string) int {
	end := strings.IndexAny(s[1:], "<> \t\r\n")
	if s[0] != '<' || end < 1 || s[1+end] != '>' {
		return 0
	}
	return end + 2
}

// larkItems are the beginnings and ends of the items of bare[from:to].
func larkItems(bare string, from, to int) [][2]int {
	var items [][2]int
	at, braces := from, 0
	for line := range strings.Lines(bare[from:to]) {
		switch {
		case strings.TrimSpace(line) == "":
		case len(items) == 0 || braces <= 0 && larkItem.MatchString(line):
			if len(items) > 0 {
				items[len(items)-1][1] = at
			}
			items = append(items, [2]int{at, to})
			braces = 0
		}
		_, braces = larkLine(line, braces)
		at += len(line)
	}
	return items
}

type lark struct {
	scanner
	defs    *definitions
	rules   []string
	imports []larkImport
	skip    []*expr
	inRule  bool // in a rule, not in a terminal: what is ignored may follow each lexeme
	once    bool // what is ignored comes once, not again and again
	before  bool // what is ignored may come at the beginning
}

// larkImport is the import of a terminal of the library by the name here.
type larkImport struct {
	name, here string
	at         int
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
	case l.eat("%llguidance"):
		l.options()
	case l.peek() == '%':
		l.refuse("the directive " + strings.Fields(l.s[l.i:])[0])
	default:
		l.definition()
	}
	if l.space(); l.i < len(l.s) {
		l.bad("unexpected " + quoteJSON(string(l.rune())))
	}
}

// options reads what %llguidance says. Fields that llguidance does not know it ignores.
func (l *lark) options() {
	at := l.i
	o, ok := l.json().(*object)
	if !ok {
		l.i = at
		l.bad("expected an object")
	}
	flag := func(key string) bool {
		v, ok := o.m[key].(bool)
		if !ok && o.m[key] != nil {
			l.i = at
			l.bad(key + " must be true or false")
		}
		return v
	}
	l.once = l.once || flag("ignore_once")
	l.before = l.before || flag("allow_initial_skip")
	flag("no_forcing")
	if flag("allow_invalid_utf8") {
		l.i = at
		l.refuse("allow_invalid_utf8")
	}
}

func (l *lark) definition() {
	for l.eat("?") || l.eat("!") {
	}
	start := l.i
	name := l.name()
	if l.eat(".") {
		l.eat("-")
		l.number()
	}
	var a larkAttributes
	l.space()
	switch {
	case l.peek() == '{':
		l.refuse("a template")
	case strings.HasPrefix(l.s[l.i:], "::"):
		l.refuse("a rule with a parameter")
	case name != "" && l.peek() == '[':
		a = l.attributes()
		l.space()
	}
	if name == "" || !l.eat(":") {
		l.bad("expected a rule (name: ...)")
	}
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(name, "_"))
	rule := !unicode.IsUpper(first)
	if rule {
		l.rules = append(l.rules, name)
	}
	l.inRule = rule && !a.lazy
	body := l.alt()
	switch {
	case a.empty:
		body = &expr{kind: exprSeq}
	case a.lazy:
		if a.suffix != nil {
			body = &expr{kind: exprSeq, subs: []*expr{body, a.suffix}}
		}
		l.inRule = true
		body = l.lexeme(&expr{kind: exprLazy, subs: []*expr{body}})
	}
	l.defs.define(name, body, start)
}

func (l *lark) importing() {
	l.space()
	if !l.eat("common") {
		l.refuse("an import from elsewhere than common")
	}
	add := func(as bool) {
		l.space()
		at := l.i
		name := l.name()
		if _, ok := larkCommon[name]; !ok {
			l.i = at
			l.refuse("common." + name)
		}
		here := name
		if l.space(); as && l.eat("->") {
			l.space()
			here = l.name()
		}
		l.imports = append(l.imports, larkImport{name, here, at})
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
	subs := []*expr{l.and()}
	for l.eat("|") {
		subs = append(subs, l.and())
	}
	return alternatives(subs)
}

// and reads sequences with & between them.
func (l *lark) and() *expr {
	subs := []*expr{l.seq()}
	for l.peek() == '&' {
		if l.inRule {
			l.bad("& is only for terminals, whose names are in capitals")
		}
		l.i++
		subs = append(subs, l.seq())
	}
	if len(subs) == 1 {
		return subs[0]
	}
	return &expr{kind: exprAnd, subs: subs}
}

func (l *lark) seq() *expr {
	res := &expr{kind: exprSeq}
	for {
		l.space()
		switch c := l.peek(); {
		case l.i >= len(l.s) || c == '|' || c == ')' || c == ']' || c == '&':
			return res
		case l.eat("->"): // the name of an alternative, for parse trees
			l.space()
			l.name()
			continue
		case strings.HasPrefix(l.s[l.i:], "%if"):
			l.refuse("a condition")
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
			case l.tildeAhead():
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

// tildeAhead reports whether ~ and a number come next; otherwise ~ is a complement.
func (l *lark) tildeAhead() bool {
	rest := strings.TrimLeft(strings.TrimPrefix(l.s[l.i:], "~"), " \t")
	return l.peek() == '~' && rest != "" && rest[0] >= '0' && rest[0] <= '9'
}

// tilde reads ~n or ~n..m.
func (l *lark) tilde() (lo, hi int32) {
	l.eat("~")
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
