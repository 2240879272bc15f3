package tokenizer

import (
	"sync/atomic"
	"unicode"
	"unicode/utf8"
)

// runeMatcher matches one character.
type runeMatcher func(rune) bool

func (m runeMatcher) match(s string, i int, _ *allowance) int {
	if r, w := utf8.DecodeRuneInString(s[i:]); m(r) {
		return i + w
	}
	return i
}

func (m runeMatcher) find(s string, i int, _ *allowance) int {
	for i < len(s) {
		r, w := utf8.DecodeRuneInString(s[i:])
		if m(r) {
			break
		}
		i += w
	}
	return i
}

var (
	spaces = classRun{space, 0}
	// punctuation is what BERT takes for it: also $, +, <, =, >, ^, `, | and ~.
	punctuation = runeMatcher(func(r rune) bool {
		return r < utf8.RuneSelf && classOf(r)&symbol != 0 || r >= utf8.RuneSelf && unicode.Is(unicode.P, r)
	})
)

// wordRuns matches `\w+|[^\w\s]+`, with \w of Rust's regex crate.
type wordRuns struct{}

// kindOf returns 0 for white space, 1 for a character of a word, 2 for any other.
func (wordRuns) kindOf(r rune) int {
	switch {
	case isWord(r):
		return 1
	case classOf(r)&space != 0:
		return 0
	}
	return 2
}

func (m wordRuns) match(s string, i int, _ *allowance) int {
	first, start := 0, i
	for i < len(s) {
		r, w := utf8.DecodeRuneInString(s[i:])
		k := m.kindOf(r)
		if i == start {
			first = k
		}
		if k == 0 || k != first {
			break
		}
		i += w
	}
	return i
}

func (m wordRuns) find(s string, i int, _ *allowance) int { return spaces.match(s, i, nil) }

// fixedLength matches so many characters, or those that are left.
type fixedLength int

func (m fixedLength) match(s string, i int, _ *allowance) int { return skipRunes(s, i, int(m)) }
func (m fixedLength) find(_ string, i int, _ *allowance) int  { return i }

// scriptRuns matches what is written in one script. Kana counts as Han, and spaces belong to
// whatever is around them. (Hugging Face tokenizers, pre_tokenizers/unicode_scripts.)
type scriptRuns struct{}

func (scriptRuns) match(s string, i int, _ *allowance) int {
	if r, _ := utf8.DecodeRuneInString(s[i:]); scriptOf(r) == anyScript {
		return i // at the start of a text: it is left out, as Hugging Face's library does
	}
	last := anyScript
	for i < len(s) {
		r, w := utf8.DecodeRuneInString(s[i:])
		if script := scriptOf(r); script != anyScript {
			if last != anyScript && script != last {
				break
			}
			last = script
		}
		i += w
	}
	return i
}

func (scriptRuns) find(s string, i int, _ *allowance) int {
	for i < len(s) {
		r, w := utf8.DecodeRuneInString(s[i:])
		if scriptOf(r) != anyScript {
			break
		}
		i += w
	}
	return i
}

// anyScript is the script of spaces and of code points that have none.
const anyScript uint8 = 0

var (
	scriptTables = sortedScripts()
	scriptPages  [(unicode.MaxRune + 1) >> 8]atomic.Pointer[[256]uint8]
)

func sortedScripts() (tables []*unicode.RangeTable) {
	for name, table := range unicode.Scripts {
		if name != "Hiragana" && name != "Katakana" && name != "Han" {
			tables = append(tables, table)
		}
	}
	return tables
}

func computeScript(r rune) uint8 {
	switch {
	case r == ' ':
		return anyScript
	case r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana):
		return 1
	}
	for i, table := range scriptTables {
		if unicode.Is(table, r) {
			return uint8(2 + i)
		}
	}
	return anyScript
}

func scriptOf(r rune) uint8 {
	page := scriptPages[r>>8].Load()
	if page == nil {
		page = new([256]uint8)
		for i := range page {
			page[i] = computeScript(r&^0xff | rune(i))
		}
		scriptPages[r>>8].Store(page)
	}
	return page[r&0xff]
}
