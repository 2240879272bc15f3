package grammar

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

func (l *lark) atom() *expr {
	l.b.spend(1)
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
	text := l.s[l.i : l.i+larkTokenLen(l.s[l.i:])]
	if text == "" {
		l.bad("a malformed token")
	}
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
		case c == '<':
			l.i += max(0, larkTokenLen(l.s[l.i-1:])-1)
		case c == '"' || c == '/':
			quote = c
		case c == '{':
			braces++
		case c == '}':
			braces--
		}
	}
	inner := parseLarkPart(l.defs.text, start, l.i-1, l.depth, l.b)
	inner.part = true
	return &expr{kind: exprNested, nested: inner}
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
	n := (&rxParser{s: []rune(text), dotAll: strings.Contains(flags, "s"), rust: rust, meter: p.b.meter}).parse()
	if n.contains(func(n *rx) bool { return n.kind == rxLook }) {
		fail(ErrUnsupported, "", "regular expression: lookaround is not supported in a grammar")
	}
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
