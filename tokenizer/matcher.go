package tokenizer

import (
	"strings"
	"unicode"
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

// digitGroups matches threesPattern: the digits of a number that no character of a word
// follows, three at a time, counted from the end, so that only the first group may be
// shorter.
type digitGroups struct{}

// digitRun returns the end of the decimal digits that begin at s[i], and their number.
func digitRun(s string, i int) (end, n int) {
	for i < len(s) {
		r, w := utf8.DecodeRuneInString(s[i:])
		if !unicode.Is(unicode.Nd, r) {
			break
		}
		i += w
		n++
	}
	return i, n
}

// skipRunes returns where n characters after s[i] end.
func skipRunes(s string, i, n int) int {
	for ; n > 0 && i < len(s); n-- {
		_, w := utf8.DecodeRuneInString(s[i:])
		i += w
	}
	return i
}

// afterDigit reports whether a decimal digit ends at s[i].
func afterDigit(s string, i int) bool {
	r, w := utf8.DecodeLastRuneInString(s[:i])
	return w > 0 && unicode.Is(unicode.Nd, r)
}

func (digitGroups) match(s string, i int, _ *allowance) int {
	if r, _ := utf8.DecodeRuneInString(s[i:]); !unicode.Is(unicode.Nd, r) {
		return i
	}
	// Within a number, groups have been cut off before, so a multiple of three is left.
	group := 3
	if !afterDigit(s, i) {
		end, n := digitRun(s, i)
		if r, w := utf8.DecodeRuneInString(s[end:]); w > 0 && isWordInPattern(r) {
			return i
		}
		if n%3 != 0 {
			group = n % 3
		}
	}
	return skipRunes(s, i, group)
}

func (m digitGroups) find(s string, i int, allow *allowance) int {
	if afterDigit(s, i) { // nothing matched where this number begins
		i, _ = digitRun(s, i)
	}
	for i < len(s) {
		if m.match(s, i, allow) > i {
			break
		}
		if end, n := digitRun(s, i); n > 0 {
			i = end
		} else {
			i = skipRunes(s, i, 1)
		}
	}
	return i
}

// digitSplits stands for splitThrees, which matches nothing between characters: where a
// multiple of three digits follows. The pieces that are cut there are its matches.
type digitSplits struct{}

func (digitSplits) match(s string, i int, _ *allowance) int {
	at, first := i, true
	for at < len(s) {
		end, n := digitRun(s, at)
		group := n % 3
		if first && n > 0 && (group == 0 || afterDigit(s, at)) {
			group = 3 // at begins a group itself
		}
		if group < n && n >= 3 {
			return skipRunes(s, at, group)
		}
		if first = false; n == 0 {
			end = skipRunes(s, at, 1)
		}
		at = end
	}
	return len(s)
}

func (m digitSplits) find(_ string, i int, _ *allowance) int { return i }
