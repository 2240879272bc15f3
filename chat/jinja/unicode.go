package jinja

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The functions here classify and map characters as Python does where package unicode
// differs from it.

// isSpace is str.isspace of one character, and \s of Python's re.
func isSpace(r rune) bool {
	if r < utf8.RuneSelf {
		return r == ' ' || r >= '\t' && r <= '\r' || r >= 0x1c && r <= 0x1f
	}
	return unicode.IsSpace(r)
}

func trimLeftSpace(s string) string  { return strings.TrimLeftFunc(s, isSpace) }
func trimRightSpace(s string) string { return strings.TrimRightFunc(s, isSpace) }

// skipSpace returns the first index from i on that is not white space.
func skipSpace(s string, i int) int {
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if !isSpace(r) {
			break
		}
		i += n
	}
	return i
}

func inRanges(table [][2]rune, r rune) bool {
	i := sort.Search(len(table), func(i int) bool { return table[i][1] >= r })
	return i < len(table) && table[i][0] <= r
}

func isAlpha(r rune) bool   { return unicode.IsLetter(r) }
func isDecimal(r rune) bool { return unicode.IsDigit(r) }
func isDigit(r rune) bool   { return unicode.IsDigit(r) || inRanges(digitNotDecimal, r) }
func isNumeric(r rune) bool { return unicode.IsNumber(r) || inRanges(numericNotNumber, r) }
func isAlnum(r rune) bool   { return isAlpha(r) || isNumeric(r) }

func isLower(r rune) bool {
	return unicode.IsLower(r) || r >= 0x80 && unicode.Is(unicode.Other_Lowercase, r)
}

func isUpper(r rune) bool {
	return unicode.IsUpper(r) || r >= 0x80 && unicode.Is(unicode.Other_Uppercase, r)
}

func isCased(r rune) bool { return isLower(r) || isUpper(r) || unicode.IsTitle(r) }

// isCaseIgnorable is the Unicode property of that name (The Unicode Standard,
// 3.13, D136), which decides whether a sigma is final.
func isCaseIgnorable(r rune) bool {
	return strings.ContainsRune("'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a", r) ||
		unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk)
}

// isWord is \w of Python's re.
func isWord(r rune) bool { return r == '_' || isAlnum(r) }

// identLen returns how many bytes at the start of s may belong to a name.
func identLen(s string) int {
	for i, r := range s {
		if r < utf8.RuneSelf && !isASCIIWord(byte(r)) || r >= utf8.RuneSelf && !isWord(r) && !isIdentContinue(r) {
			return i
		}
	}
	return len(s)
}

func isASCIIWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func isIdentStart(r rune) bool {
	if r < utf8.RuneSelf {
		return isASCIIWord(byte(r)) && (r < '0' || r > '9')
	}
	return unicode.In(r, unicode.L, unicode.Nl, unicode.Other_ID_Start)
}

func isIdentContinue(r rune) bool {
	if r < utf8.RuneSelf {
		return isASCIIWord(byte(r))
	}
	return isIdentStart(r) || unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue)
}

// isIdentifier is str.isidentifier.
func isIdentifier(s string) bool {
	for i, r := range s {
		if i == 0 && !isIdentStart(r) || !isIdentContinue(r) {
			return false
		}
	}
	return s != ""
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// runeLen is Python's len of a str.
func runeLen(s string) int { return utf8.RuneCountInString(s) }

func upper(s string) string {
	return mapFull(s, upperFull, unicode.ToUpper, strings.ToUpper)
}

// mapFull maps every character of s by the table of full mappings or, if it is not in it,
// by simple. ascii does the same for text that is ASCII.
func mapFull(s string, full map[rune]string, simple func(rune) rune, ascii func(string) string) string {
	if isASCII(s) {
		return ascii(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		if r < utf8.RuneSelf {
			b.WriteRune(simple(r))
		} else if f, ok := full[r]; ok {
			b.WriteString(f)
		} else {
			b.WriteRune(simple(r))
		}
	}
	return b.String()
}

func casefold(s string) string { return mapFull(s, foldFull, unicode.ToLower, strings.ToLower) }

func lower(s string) string {
	if isASCII(s) {
		return strings.ToLower(s)
	}
	var b strings.Builder
	b.Grow(len(s))
	for i, r := range s {
		writeLower(&b, s, i, r)
	}
	return b.String()
}

// writeLower writes the lower case of r, the character at byte i of s.
func writeLower(b *strings.Builder, s string, i int, r rune) {
	switch {
	case r == 'Σ' && finalSigma(s, i):
		b.WriteRune('ς')
	case r == 'İ':
		b.WriteString("i̇")
	default:
		b.WriteRune(unicode.ToLower(r))
	}
}

// finalSigma reports whether the sigma at byte i ends a word: there is a cased character
// before it and none after it, not counting case-ignorable ones.
func finalSigma(s string, i int) bool {
	before := strings.TrimRightFunc(s[:i], isCaseIgnorable)
	if r, n := utf8.DecodeLastRuneInString(before); n == 0 || !isCased(r) {
		return false
	}
	after := strings.TrimLeftFunc(s[i+len("Σ"):], isCaseIgnorable)
	r, n := utf8.DecodeRuneInString(after)
	return n == 0 || !isCased(r)
}

func writeTitle(b *strings.Builder, r rune) {
	if f, ok := titleFull[r]; ok {
		b.WriteString(f)
	} else {
		b.WriteRune(unicode.ToTitle(r))
	}
}

// title is str.title: a letter after anything that has no case starts a word.
func title(s string) string {
	var b strings.Builder
	inWord := false
	for i, r := range s {
		if inWord {
			writeLower(&b, s, i, r)
		} else {
			writeTitle(&b, r)
		}
		inWord = isCased(r)
	}
	return b.String()
}

func capitalize(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i == 0 {
			writeTitle(&b, r)
		} else {
			writeLower(&b, s, i, r)
		}
	}
	return b.String()
}

func swapcase(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case isUpper(r):
			writeLower(&b, s, i, r)
		case isLower(r):
			if f, ok := upperFull[r]; ok {
				b.WriteString(f)
			} else {
				b.WriteRune(unicode.ToUpper(r))
			}
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// allRunes reports whether s is not empty and is holds for all its characters, like
// Python's str.isdigit and its relatives.
func allRunes(s string, is func(rune) bool) bool {
	for _, r := range s {
		if !is(r) {
			return false
		}
	}
	return s != ""
}

// isCaseOnly is str.isupper and str.islower: there is a character of the case, and none of
// the other case or of title case.
func isCaseOnly(s string, is, other func(rune) bool) bool {
	found := false
	for _, r := range s {
		if other(r) || unicode.IsTitle(r) {
			return false
		}
		found = found || is(r)
	}
	return found
}

func isTitleCased(s string) bool {
	found, inWord := false, false
	for _, r := range s {
		switch {
		case isUpper(r) || unicode.IsTitle(r):
			if inWord {
				return false
			}
			found, inWord = true, true
		case isLower(r):
			if !inWord {
				return false
			}
			found, inWord = true, true
		default:
			inWord = false
		}
	}
	return found
}

func isPrintable(s string) bool {
	for _, r := range s {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
