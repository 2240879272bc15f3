package tokenizer

import (
	"unicode"
	"unicode/utf8"
)

// anchor is a condition on a place between characters, named by how a pattern spells it.
type anchor uint8

const (
	textStart    anchor = 'A'
	textEnd      anchor = 'z'
	lineStart    anchor = '^'
	lineEnd      anchor = '$'
	wordBoundary anchor = 'b'
	noBoundary   anchor = 'B'
)

// holds reports whether the anchor matches before s[i]. No line begins after a line end that
// ends the text, as in Oniguruma.
func (a anchor) holds(s string, i int) bool {
	switch a {
	case textStart:
		return i == 0
	case textEnd:
		return i == len(s)
	case lineStart:
		return i == 0 || s[i-1] == '\n' && i < len(s)
	case lineEnd:
		return i == len(s) || s[i] == '\n'
	}
	before, w := utf8.DecodeLastRuneInString(s[:i])
	after, v := utf8.DecodeRuneInString(s[i:])
	boundary := (w > 0 && isWordInPattern(before)) != (v > 0 && isWordInPattern(after))
	return boundary == (a == wordBoundary)
}

// wordTables are \w of Oniguruma: letters, marks, digits, connectors, and of the other numbers
// those in Latin-1, such as ².
var wordTables = []*unicode.RangeTable{unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic,
	{R16: []unicode.Range16{{Lo: 0xB2, Hi: 0xB3, Stride: 1}, {Lo: 0xB9, Hi: 0xB9, Stride: 1}, {Lo: 0xBC, Hi: 0xBE, Stride: 1}}, LatinOffset: 3}}

// isWordInPattern is \w of Oniguruma.
func isWordInPattern(r rune) bool { return unicode.In(r, wordTables...) }
