package grammar

import (
	"regexp"
	"slices"
	"strconv"
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
		l.defs.define(m.here, &expr{kind: exprRegex, re: parseRegex(larkCommon[m.name])}, m.at)
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

// larkAttributes are those of a rule that change its texts.
type larkAttributes struct {
	lazy   bool
	suffix *expr
	empty  bool // max_tokens=0
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

// attributes reads what is between [ and ] after the name of a rule.
func (l *lark) attributes() (a larkAttributes) {
	l.eat("[")
	for again := true; again; again = l.eat(",") {
		l.space()
		at := l.i
		key := l.name()
		l.space()
		value := l.eat("=")
		l.space()
		switch {
		case key == "capture" && !value:
			l.i = at
			l.warn(key)
			l.i = at + len(key)
		case key == "lazy" && !value:
			a.lazy = true
		case !value || !slices.Contains([]string{"capture", "stop_capture", "temperature", "suffix", "stop", "max_tokens"}, key):
			l.i = at
			l.bad("an unknown attribute")
		default:
			l.attribute(&a, key, at)
		}
		l.space()
	}
	if !l.eat("]") {
		l.bad("missing ]")
	}
	return a
}

// attribute reads the value of the attribute key, which is at the byte at.
func (l *lark) attribute(a *larkAttributes, key string, at int) {
	ignore := func() {
		end := l.i
		l.i = at
		l.warn(key)
		l.i = end
	}
	switch key {
	case "capture", "stop_capture":
		if !l.eat(`"`) {
			l.bad("expected a string")
		}
		l.quoted()
		ignore()
	case "temperature":
		for strings.IndexByte("+-.0123456789eE", l.peek()) >= 0 && l.i < len(l.s) {
			l.i++
		}
		ignore()
	case "max_tokens":
		n, ok := l.number()
		if !ok || n > 0 {
			l.i = at
			l.refuse("max_tokens")
		}
		a.empty = true
	default:
		l.inRule = false
		value := l.atom()
		if key == "suffix" {
			a.suffix, a.lazy = value, true
			return
		}
		if value.kind != exprText || value.text != "" {
			l.i = at
			l.refuse("stop, whose text is taken back: suffix is supported, and stop")
		}
		ignore()
	}
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

func (l *lark) atom() *expr {
	at := l.i
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
	case l.eat("~"):
		return l.complement()
	case l.eat(`"`):
		return l.lexeme(l.literal())
	case l.peek() == '/':
		return l.lexeme(l.regex())
	case l.peek() == '<':
		return l.onlyInRule(l.token())
	case l.eat("%json"):
		return l.onlyInRule(&expr{kind: exprSchema, schema: l.json(), at: at})
	case l.eat("%regex"):
		return l.lexeme(l.substrings())
	case l.eat("%lark"):
		return l.onlyInRule(l.nested())
	case l.peek() == '@':
		l.refuse("a reference to another grammar")
	}
	name := l.name()
	if name == "" {
		l.refuse(quoteJSON(strings.ToValidUTF8(l.s[l.i:min(len(l.s), l.i+12)], "")))
	}
	if strings.HasPrefix(l.s[l.i:], "::") {
		l.refuse("a rule with a parameter")
	}
	ref := &expr{kind: exprRule, text: name, at: at}
	if first, _ := utf8.DecodeRuneInString(strings.TrimLeft(name, "_")); unicode.IsUpper(first) {
		return l.lexeme(ref)
	}
	if !l.inRule {
		l.i = at
		l.bad("a terminal refers to the rule " + name)
	}
	return ref
}

// onlyInRule lets what is ignored follow n, which may not be in a terminal.
func (l *lark) onlyInRule(n *expr) *expr {
	if !l.inRule {
		l.bad("tokens, schemas and grammars cannot be parts of a terminal")
	}
	return l.lexeme(n)
}

// complement reads what follows ~: any text but those of an atom. It is a lexeme.
func (l *lark) complement() *expr {
	rule := l.inRule
	l.inRule = false
	l.space()
	n := l.atom()
	l.inRule = rule
	return l.lexeme(&expr{kind: exprNot, subs: []*expr{n}})
}

// token reads <name>, or ids in <[...]>.
func (l *lark) token() *expr {
	n := &expr{kind: exprToken, at: l.i}
	text := l.s[l.i:]
	end := strings.IndexAny(text[1:], "<> \t\r\n")
	if end < 1 || text[1+end] != '>' {
		l.bad("a malformed token")
	}
	text = text[:end+2]
	l.i += len(text)
	list, ok := strings.CutPrefix(text, "<[")
	if !ok || !strings.HasSuffix(list, "]>") {
		n.tokens = l.tokenNamed(text)
		return n
	}
	list, n.tokens.not = strings.CutPrefix(strings.TrimSuffix(list, "]>"), "^")
	if list == "*" && !n.tokens.not {
		n.tokens.not = true
		return n
	}
	for part := range strings.SplitSeq(list, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		if !isRange {
			hi = lo
		}
		first, err1 := strconv.ParseInt(lo, 10, 32)
		last, err2 := strconv.ParseInt(hi, 10, 32)
		if err1 != nil || err2 != nil || first < 0 || first > last {
			l.bad("a malformed range of tokens " + quoteJSON(part))
		}
		n.tokens.ranges = append(n.tokens.ranges, idRange{int32(first), int32(last)})
	}
	return n
}

// json reads a JSON value. It ends where its braces do.
func (l *lark) json() any {
	l.space()
	start, braces, quoted := l.i, 0, false
	for l.i < len(l.s) {
		c := l.s[l.i]
		l.i++
		switch {
		case quoted && c == '\\':
			l.i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{':
			braces++
		case c == '}':
			braces--
		case braces == 0 && (c < 'a' || c > 'z'):
			l.i--
			return l.jsonValue(start)
		}
		if c == '}' && braces == 0 {
			break
		}
	}
	return l.jsonValue(start)
}

// jsonValue is the JSON value between start and here.
func (l *lark) jsonValue(start int) any {
	v, err := parseJSON([]byte(l.s[start:min(l.i, len(l.s))]))
	if err != nil {
		l.i = start
		l.bad("malformed JSON (" + err.Error() + ")")
	}
	return v
}

// substrings reads what follows %regex.
func (l *lark) substrings() *expr {
	at := l.i
	o, _ := l.json().(*object)
	bad := func() {
		l.i = at
		l.bad("%regex takes one of substring_chunks, substring_words and substring_chars")
	}
	if o == nil || len(o.keys) != 1 {
		bad()
	}
	n := &expr{kind: exprChunks}
	text, isText := o.m[o.keys[0]].(string)
	list, isList := o.m[o.keys[0]].([]any)
	switch key := o.keys[0]; {
	case key == "substring_chars" && isText:
		n.chunks = strings.Split(text, "")
	case key == "substring_words" && isText:
		n.chunks = words(text)
	case key == "substring_chunks" && isList:
		for _, v := range list {
			s, ok := v.(string)
			if !ok {
				bad()
			}
			n.chunks = append(n.chunks, s)
		}
	default:
		bad()
	}
	return n
}

// words cuts text where words, spaces and other characters meet, as llguidance does.
func words(text string) []string {
	var res []string
	before := -1
	for i, r := range text {
		kind := 2
		switch {
		case unicode.IsSpace(r):
			kind = 0
		case r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.Is(unicode.Other_Alphabetic, r):
			kind = 1
		}
		if kind != before {
			res = append(res, "")
		}
		before = kind
		res[len(res)-1] += text[i : i+utf8.RuneLen(r)]
	}
	return res
}

// nested reads what follows %lark: a grammar of its own between braces.
func (l *lark) nested() *expr {
	l.space()
	if !l.eat("{") {
		l.bad("expected { after %lark")
	}
	l.enter()
	defer func() { l.depth-- }()
	start, braces := l.i, 1
	quote := byte(0)
	for braces > 0 {
		if l.i >= len(l.s) {
			l.bad("missing }")
		}
		c := l.s[l.i]
		l.i++
		switch {
		case quote != 0 && c == '\\':
			l.i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '/':
			quote = c
		case c == '{':
			braces++
		case c == '}':
			braces--
		}
	}
	return &expr{kind: exprNested, nested: parseLarkPart(l.defs.text, start, l.i-1, l.depth, l.b)}
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
	at := l.i
	l.i++
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
	if strings.Trim(flags, "isu") != "" {
		l.refuse("a flag of a regular expression other than i, s and u")
	}
	n := l.parseRegex(b.String(), flags, true, at)
	return &expr{kind: exprRegex, re: n}
}

// parseRegex reads a regular expression, with rust in Rust's syntax. Its refusals say where it is.
func (p *scanner) parseRegex(text, flags string, rust bool, at int) *rx {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case *Error:
			r.Msg = "grammar: " + placeIn(p.s, at) + ": " + r.Msg
			panic(r)
		default:
			panic(r)
		}
	}()
	n := (&rxParser{s: []rune(text), dotAll: strings.Contains(flags, "s"), rust: rust}).parse()
	if strings.Contains(flags, "i") {
		n.fold()
	}
	return n
}

func (n *rx) fold() {
	if n.kind == rxSet {
		n.set = n.set.fold()
	}
	for _, s := range n.subs {
		s.fold()
	}
}
