package jinja

import (
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// lexer cuts a template into tokens, one at a time when the parser needs it. It follows
// Jinja2's lexer.py with trim_blocks and lstrip_blocks and without keep_trailing_newline.
type lexer struct {
	src  string
	pos  int
	line int
	// lineStart says that what was read last ended in a newline. Only then may
	// lstrip_blocks remove the white space before the next tag.
	lineStart bool
	tag       byte   // '{' inside {{ }}, '%' inside {% %}, 0 outside
	open      []byte // the closing brackets that the tag still needs
	// begin is the opening of the tag after the text that was returned last.
	begin    token
	hasBegin bool
}

func newLexer(src string) *lexer {
	if strings.IndexByte(src, '\r') >= 0 {
		src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	}
	return &lexer{src: strings.TrimSuffix(src, "\n"), line: 1, lineStart: true}
}

// advance moves to position to and counts the lines up to there.
func (l *lexer) advance(to int) {
	l.line += strings.Count(l.src[l.pos:to], "\n")
	l.pos = to
}

// next returns the next token, tokEOF at the end.
func (l *lexer) next() token {
	for {
		if l.hasBegin {
			l.hasBegin = false
			return l.begin
		}
		if l.tag != 0 {
			return l.inTag()
		}
		if l.pos >= len(l.src) {
			return token{kind: tokEOF, line: l.line}
		}
		if t, ok := l.outside(); ok {
			return t
		}
	}
}

// outside reads text up to and including the opening of the next tag. It returns false if
// that gives no token (a comment, an empty text).
func (l *lexer) outside() (token, bool) {
	start, line := l.pos, l.line
	open := l.findTag()
	if open < 0 {
		l.advance(len(l.src))
		return token{kind: tokData, line: line, text: l.src[start:]}, true
	}
	kind := l.src[open+1]
	raw := 0
	if kind == '%' {
		raw = l.rawBegin(open)
	}
	p := open + 2
	sign := byte(0)
	if p < len(l.src) && (l.src[p] == '-' || l.src[p] == '+') {
		sign = l.src[p]
		p++
	}
	text := l.strip(l.src[start:open], sign, kind != '{')
	data := token{kind: tokData, line: line, text: text}
	l.lineStart = false
	switch {
	case raw > 0:
		l.advance(raw)
		l.lineStart = l.src[raw-1] == '\n'
		body := l.rawBody()
		data.text += body // raw is not a tag for the parser, so this is one piece of text
		return data, data.text != ""
	case kind == '#':
		l.advance(p)
		l.comment()
	default:
		l.advance(p)
		l.tag = kind
		l.begin = token{kind: tokPrintBegin, line: l.line}
		if kind == '%' {
			l.begin.kind = tokBlockBegin
		}
		l.hasBegin = true
	}
	return data, text != ""
}

// strip removes the white space before a tag that the tag's sign or lstrip_blocks
// removes.
func (l *lexer) strip(text string, sign byte, lstrip bool) string {
	switch {
	case sign == '-':
		return trimRightSpace(text)
	case sign != '+' && lstrip:
		i := strings.LastIndexByte(text, '\n') + 1
		if (i > 0 || l.lineStart) && trimLeftSpace(text[i:]) == "" {
			return text[:i]
		}
	}
	return text
}

func (l *lexer) findTag() int {
	for i := l.pos; ; i++ {
		j := strings.IndexByte(l.src[i:], '{')
		if j < 0 || i+j+1 >= len(l.src) {
			return -1
		}
		i += j
		if c := l.src[i+1]; c == '%' || c == '{' || c == '#' {
			return i
		}
	}
}

// rawBegin returns the end of the {% raw %} that starts at i, or 0. Unlike other tags it
// cannot end in "+%}" and does not remove the newline after it, even with trim_blocks.
func (l *lexer) rawBegin(i int) int {
	p := i + 2
	if p < len(l.src) && (l.src[p] == '-' || l.src[p] == '+') {
		p++
	}
	p = skipSpace(l.src, p)
	if !strings.HasPrefix(l.src[p:], "raw") {
		return 0
	}
	p = skipSpace(l.src, p+3)
	switch {
	case strings.HasPrefix(l.src[p:], "-%}"):
		return skipSpace(l.src, p+3)
	case strings.HasPrefix(l.src[p:], "%}"):
		return p + 2
	}
	return 0
}

// rawBody reads up to and including {% endraw %}. If {% raw %} is the end of the template,
// a missing endraw is not an error, as in Jinja2.
func (l *lexer) rawBody() string {
	start := l.pos
	if start == len(l.src) {
		return ""
	}
	for i := start; ; i += 2 {
		j := strings.Index(l.src[i:], "{%")
		if j < 0 {
			throwSyntax(l.line, "Missing end of raw directive")
		}
		i += j
		p := i + 2
		sign := byte(0)
		if p < len(l.src) && (l.src[p] == '-' || l.src[p] == '+') {
			sign = l.src[p]
			p++
		}
		p = skipSpace(l.src, p)
		if !strings.HasPrefix(l.src[p:], "endraw") {
			continue
		}
		end := l.blockEnd(skipSpace(l.src, p+len("endraw")), '%')
		if end == 0 {
			continue
		}
		text := l.strip(l.src[start:i], sign, true)
		l.advance(end)
		l.lineStart = l.src[end-1] == '\n'
		return text
	}
}

// blockEnd returns where the closing of a block (c is '%') or comment ('#') at p ends,
// including the white space or the newline that it removes. It returns 0 if there is no
// closing at p.
func (l *lexer) blockEnd(p int, c byte) int {
	s := l.src
	sign := byte(0)
	if p < len(s) && (s[p] == '-' || s[p] == '+') {
		sign = s[p]
		p++
	}
	if p+2 > len(s) || s[p] != c || s[p+1] != '}' {
		return 0
	}
	p += 2
	switch {
	case sign == '-':
		return skipSpace(s, p)
	case sign == 0 && p < len(s) && s[p] == '\n':
		return p + 1
	}
	return p
}

func (l *lexer) comment() {
	if l.pos == len(l.src) {
		return // "{#" as the last two bytes is not an error in Jinja2
	}
	n := strings.Index(l.src[l.pos:], "#}")
	if n < 0 {
		throwSyntax(l.line, "Missing end of comment tag")
	}
	i := l.pos + n
	if n > 0 && (l.src[i-1] == '-' || l.src[i-1] == '+') {
		i--
	}
	end := l.blockEnd(i, '#')
	l.advance(end)
	l.lineStart = l.src[end-1] == '\n'
}

// inTag returns the next token inside {{ }} or {% %}.
func (l *lexer) inTag() token {
	if l.pos >= len(l.src) {
		return token{kind: tokEOF, line: l.line}
	}
	if len(l.open) == 0 {
		if t, ok := l.tagEnd(); ok {
			return t
		}
	}
	if p := skipSpace(l.src, l.pos); p > l.pos {
		l.advance(p)
		return l.inTag()
	}
	rest := l.src[l.pos:]
	t := token{line: l.line}
	if t.num, t.kind = l.number(); t.kind != tokEOF {
		return t
	}
	if n := identLen(rest); n > 0 {
		t.kind, t.text = tokName, rest[:n]
		if !isIdentifier(t.text) {
			throwSyntax(l.line, "Invalid character in identifier")
		}
		l.pos += n
		return t
	}
	if rest[0] == '\'' || rest[0] == '"' {
		n := stringLen(rest)
		if n == 0 {
			throwSyntax(l.line, "unexpected char %s at %d", repr(rest[:1]), utf8.RuneCountInString(l.src[:l.pos]))
		}
		t.kind, t.text = tokString, l.unescape(rest[1:n-1])
		l.advance(l.pos + n)
		return t
	}
	kind, n := operatorAt(rest)
	if n == 0 {
		_, size := utf8.DecodeRuneInString(rest)
		throwSyntax(l.line, "unexpected char %s at %d", repr(rest[:size]), utf8.RuneCountInString(l.src[:l.pos]))
	}
	l.balance(kind)
	t.kind = kind
	l.pos += n
	return t
}

// tagEnd reads the closing of the tag if it is next. The caller skips white space before
// it.
func (l *lexer) tagEnd() (token, bool) {
	end, kind := 0, tokBlockEnd
	if l.tag == '%' {
		end = l.blockEnd(l.pos, '%')
	} else {
		kind = tokPrintEnd
		switch rest := l.src[l.pos:]; {
		case strings.HasPrefix(rest, "-}}"):
			end = skipSpace(l.src, l.pos+3)
		case strings.HasPrefix(rest, "}}"):
			end = l.pos + 2
		}
	}
	if end == 0 {
		return token{}, false
	}
	t := token{kind: kind, line: l.line}
	l.advance(end)
	l.lineStart = l.src[end-1] == '\n'
	l.tag = 0
	return t, true
}

func (l *lexer) balance(kind tokenKind) {
	switch kind {
	case tokLBrace:
		l.open = append(l.open, '}')
	case tokLParen:
		l.open = append(l.open, ')')
	case tokLBracket:
		l.open = append(l.open, ']')
	case tokRBrace, tokRParen, tokRBracket:
		got := tokenText[kind]
		if len(l.open) == 0 {
			throwSyntax(l.line, "unexpected '%s'", got)
		}
		want := l.open[len(l.open)-1]
		l.open = l.open[:len(l.open)-1]
		if got[0] != want {
			throwSyntax(l.line, "unexpected '%s', expected '%c'", got, want)
		}
	}
}

// maxDigits is Python's limit for the digits of an int that is read from text or printed
// (sys.set_int_max_str_digits). It also bounds the time that this takes here.
const maxDigits = 4300

// number reads an int or float literal, or returns tokEOF.
func (l *lexer) number() (Value, tokenKind) {
	s := l.src[l.pos:]
	if s[0] < '0' || s[0] > '9' {
		return nil, tokEOF
	}
	if l.pos == 0 || l.src[l.pos-1] != '.' {
		if n := floatLen(s); n > 0 {
			l.pos += n
			f, _ := strconv.ParseFloat(strings.ReplaceAll(s[:n], "_", ""), 64) // out of range gives ±Inf, as in Python
			return f, tokFloat
		}
	}
	n, base := integerLen(s)
	l.pos += n
	digits := strings.ReplaceAll(s[:n], "_", "")
	if base != 10 {
		digits = digits[2:]
	} else if len(digits) > maxDigits {
		throwSyntax(l.line, "Exceeds the limit (%d digits) for integer string conversion: value has %d digits; use sys.set_int_max_str_digits() to increase the limit", maxDigits, len(digits))
	}
	if i, err := strconv.ParseInt(digits, base, 64); err == nil {
		return i, tokInteger
	}
	if len(digits) > 4*maxDigits {
		throwSyntax(l.line, "integer literal too long")
	}
	i, _ := new(big.Int).SetString(digits, base)
	return i, tokInteger
}

// digitRun matches d(_?d)* for the digits of the base.
func digitRun(s string, base int) int {
	n := 0
	for n < len(s) {
		i := n
		if i > 0 && s[i] == '_' {
			i++
		}
		if i >= len(s) || digitValue(s[i]) >= base {
			break
		}
		n = i + 1
	}
	return n
}

func digitValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return 99
}

// floatLen matches digits ( '.' digits [exponent] | exponent ).
func floatLen(s string) int {
	n := digitRun(s, 10)
	if n == 0 {
		return 0
	}
	isFloat := false
	if n < len(s) && s[n] == '.' {
		if d := digitRun(s[n+1:], 10); d > 0 {
			n += 1 + d
			isFloat = true
		}
	}
	if n < len(s) && (s[n] == 'e' || s[n] == 'E') {
		e := n + 1
		if e < len(s) && (s[e] == '+' || s[e] == '-') {
			e++
		}
		if d := digitRun(s[e:], 10); d > 0 {
			return e + d
		}
	}
	if !isFloat {
		return 0
	}
	return n
}

func integerLen(s string) (n, base int) {
	if len(s) > 2 && s[0] == '0' {
		switch s[1] {
		case 'b', 'B':
			base = 2
		case 'o', 'O':
			base = 8
		case 'x', 'X':
			base = 16
		}
		if base != 0 {
			skip := 2
			if s[2] == '_' {
				skip = 3
			}
			if d := digitRun(s[skip:], base); d > 0 {
				return skip + d, base
			}
		}
	}
	if s[0] != '0' {
		return digitRun(s, 10), 10
	}
	n = 1 // 0(_?0)*: Python has no other numbers that start with 0
	for {
		i := n
		if i < len(s) && s[i] == '_' {
			i++
		}
		if i >= len(s) || s[i] != '0' {
			return n, 10
		}
		n = i + 1
	}
}

// stringLen returns the length of the quoted string at the start of s, or 0.
func stringLen(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case s[0]:
			return i + 1
		}
	}
	return 0
}
