package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// unescape returns the value of a string literal, given without its quotes, as Python's
// unicode-escape codec does. \N{name} is not supported, because it needs the names of all
// characters. A lone surrogate becomes U+FFFD, because strings are UTF-8 here.
func (l *lexer) unescape(s string) string {
	i := strings.IndexByte(s, '\\')
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for {
		b.WriteString(s[:i])
		s = s[i+1:] // a literal never ends in a lone backslash
		c := s[0]
		n := 1
		switch c {
		case '\n':
		case '\\', '\'', '"':
			b.WriteByte(c)
		case 'a':
			b.WriteByte('\a')
		case 'b':
			b.WriteByte('\b')
		case 'f':
			b.WriteByte('\f')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 't':
			b.WriteByte('\t')
		case 'v':
			b.WriteByte('\v')
		case '0', '1', '2', '3', '4', '5', '6', '7':
			for n < 3 && n < len(s) && s[n] >= '0' && s[n] <= '7' {
				n++
			}
			v, _ := strconv.ParseUint(s[:n], 8, 32)
			b.WriteRune(rune(v))
		case 'x':
			n += l.hexEscape(&b, s, 2, `truncated \xXX escape`)
		case 'u':
			n += l.hexEscape(&b, s, 4, `truncated \uXXXX escape`)
		case 'U':
			n += l.hexEscape(&b, s, 8, `truncated \UXXXXXXXX escape`)
		case 'N':
			throwSyntax(l.line, `\N escapes are not supported`)
		default:
			// An unknown escape stays as it is. Python replaces characters beyond ASCII by
			// escapes before it decodes, so after a backslash the escape remains.
			r, size := utf8.DecodeRuneInString(s)
			n = size
			b.WriteByte('\\')
			switch {
			case r < utf8.RuneSelf:
				b.WriteByte(c)
			case r <= 0xff:
				fmt.Fprintf(&b, "x%02x", r)
			case r <= 0xffff:
				fmt.Fprintf(&b, "u%04x", r)
			default:
				fmt.Fprintf(&b, "U%08x", r)
			}
		}
		s = s[n:]
		if i = strings.IndexByte(s, '\\'); i < 0 {
			b.WriteString(s)
			return b.String()
		}
	}
}

// hexEscape decodes the digits after s[0] and returns how many there are.
func (l *lexer) hexEscape(b *strings.Builder, s string, digits int, truncated string) int {
	if len(s) < 1+digits {
		throwSyntax(l.line, "%s", truncated)
	}
	v, err := strconv.ParseUint(s[1:1+digits], 16, 32)
	switch {
	case err != nil:
		throwSyntax(l.line, "%s", truncated)
	case v > utf8.MaxRune:
		throwSyntax(l.line, "illegal Unicode character")
	}
	b.WriteRune(rune(v)) // a surrogate is written as U+FFFD
	return digits
}
