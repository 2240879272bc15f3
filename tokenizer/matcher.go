package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// A matcher finds the pieces that a pre-tokenizer cuts out. Both methods get the whole
// string, so that a look-ahead stops at its end. allow has the steps that the
// generic matcher may still take (see stepsPerByte); when they are used up, nothing
// matches. The other matchers ignore it.
type matcher interface {
	// match returns the end of the match that begins exactly at s[i], or i.
	match(s string, i int, allow *allowance) int
	// find returns the start of the first match at or after s[i], or len(s).
	find(s string, i int, allow *allowance) int
}

// classRun matches up to max code points of one class, or any number if max is 0.
type classRun struct {
	in  class
	max int
}

func (m classRun) match(s string, i int, _ *allowance) int {
	for n := 0; i < len(s) && (m.max == 0 || n < m.max); n++ {
		c, w := classAt(s, i)
		if c&m.in == 0 {
			break
		}
		i += w
	}
	return i
}

func (m classRun) find(s string, i int, _ *allowance) int {
	for i < len(s) {
		c, w := classAt(s, i)
		if c&m.in != 0 {
			break
		}
		i += w
	}
	return i
}

// literal matches one string.
type literal string

func (m literal) match(s string, i int, _ *allowance) int {
	if strings.HasPrefix(s[i:], string(m)) {
		return i + len(m)
	}
	return i
}

func (m literal) find(s string, i int, _ *allowance) int {
	if k := strings.Index(s[i:], string(m)); k >= 0 {
		return i + k
	}
	return len(s)
}

// kanaHan matches kanaHanPattern.
type kanaHan struct{}

func (kanaHan) has(r rune) bool {
	return 0x4E00 <= r && r <= 0x9FA5 || 0x3040 <= r && r <= 0x30FF
}

func (m kanaHan) match(s string, i int, _ *allowance) int {
	for i < len(s) && s[i] >= utf8.RuneSelf {
		r, w := utf8.DecodeRuneInString(s[i:])
		if !m.has(r) {
			break
		}
		i += w
	}
	return i
}

func (m kanaHan) find(s string, i int, _ *allowance) int {
	for i < len(s) {
		if s[i] < utf8.RuneSelf {
			i++
			continue
		}
		r, w := utf8.DecodeRuneInString(s[i:])
		if m.has(r) {
			break
		}
		i += w
	}
	return i
}
