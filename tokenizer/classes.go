package tokenizer

import (
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// class is what the hand-written matchers need to know about a code point.
type class uint8

const (
	letter  class = 1 << iota // \p{L}
	mark                      // \p{M}
	number                    // \p{N}
	space                     // \s: White_Space
	newline                   // \r or \n
	upper                     // \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}: the beginning of an o200k word
	lower                     // \p{Ll}\p{Lm}\p{Lo}\p{M}: the rest of it
	symbol                    // \p{P}\p{S}
)

var asciiClass = func() (table [utf8.RuneSelf]class) {
	for r := range table {
		table[r] = computeClass(rune(r))
	}
	return table
}()

// classPages has the classes of all code points. A page is computed when a text first
// needs it: computing all 1.1 million classes at start-up would take longer than loading
// everything else.
var classPages [(unicode.MaxRune + 1) >> 8]atomic.Pointer[[256]class]

func computeClass(r rune) class {
	var c class
	switch {
	case unicode.Is(unicode.Ll, r):
		c = letter | lower
	case unicode.In(r, unicode.Lu, unicode.Lt):
		c = letter | upper
	case unicode.Is(unicode.L, r):
		c = letter | upper | lower
	case unicode.Is(unicode.M, r):
		c = mark | upper | lower
	case unicode.Is(unicode.N, r):
		c = number
	case unicode.In(r, unicode.P, unicode.S):
		c = symbol
	}
	if unicode.Is(unicode.White_Space, r) {
		c |= space
	}
	if r == '\r' || r == '\n' {
		c |= newline
	}
	return c
}

func classOf(r rune) class {
	page := classPages[r>>8].Load()
	if page == nil {
		page = new([256]class)
		for i := range page {
			page[i] = computeClass(r&^0xff | rune(i))
		}
		classPages[r>>8].Store(page)
	}
	return page[r&0xff]
}

// classAt returns the class and width of the code point at s[i].
func classAt(s string, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return asciiClass[b], 1
	}
	r, w := utf8.DecodeRuneInString(s[i:])
	return classOf(r), w
}

// skipClass returns the end of the run from s[i] of code points with a class of in.
func skipClass(s string, i int, in class) int {
	for i < len(s) {
		if b := s[i]; b < utf8.RuneSelf {
			if asciiClass[b]&in == 0 {
				return i
			}
			i++
			continue
		}
		r, w := utf8.DecodeRuneInString(s[i:])
		if classOf(r)&in == 0 {
			return i
		}
		i += w
	}
	return i
}

// skipNot returns the end of the run from s[i] of code points with no class of out.
func skipNot(s string, i int, out class) int {
	for i < len(s) {
		c, w := classAt(s, i)
		if c&out != 0 {
			break
		}
		i += w
	}
	return i
}

// isWord is \w of Rust's regex crate, which Hugging Face's library uses for the flag
// single_word of added tokens: alphabetic, marks, decimal digits, connectors and joiners.
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic, unicode.Join_Control)
}
