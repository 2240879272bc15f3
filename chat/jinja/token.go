package jinja

import "strings"

type tokenKind uint8

const (
	tokEOF tokenKind = iota
	tokData
	tokPrintBegin
	tokPrintEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInteger
	tokFloat

	tokAdd // operators of the same precedence are adjacent, because the parser tests for ranges
	tokSub
	tokDiv
	tokFloorDiv
	tokMul
	tokMod
	tokPow
	tokTilde
	tokLBracket
	tokRBracket
	tokLParen
	tokRParen
	tokLBrace
	tokRBrace
	tokEq
	tokNe
	tokGt
	tokGe
	tokLt
	tokLe
	tokAssign
	tokDot
	tokColon
	tokPipe
	tokComma
	tokSemicolon
)

// token is one token. text is the name, the value of the string, or template data; num is
// the value of the number.
type token struct {
	kind tokenKind
	line int
	text string
	num  Value
}

var tokenText = [...]string{
	tokEOF:        "end of template",
	tokData:       "template data / text",
	tokPrintBegin: "begin of print statement",
	tokPrintEnd:   "end of print statement",
	tokBlockBegin: "begin of statement block",
	tokBlockEnd:   "end of statement block",
	tokName:       "name",
	tokString:     "string",
	tokInteger:    "integer",
	tokFloat:      "float",
	tokAdd:        "+",
	tokSub:        "-",
	tokDiv:        "/",
	tokFloorDiv:   "//",
	tokMul:        "*",
	tokMod:        "%",
	tokPow:        "**",
	tokTilde:      "~",
	tokLBracket:   "[",
	tokRBracket:   "]",
	tokLParen:     "(",
	tokRParen:     ")",
	tokLBrace:     "{",
	tokRBrace:     "}",
	tokEq:         "==",
	tokNe:         "!=",
	tokGt:         ">",
	tokGe:         ">=",
	tokLt:         "<",
	tokLe:         "<=",
	tokAssign:     "=",
	tokDot:        ".",
	tokColon:      ":",
	tokPipe:       "|",
	tokComma:      ",",
	tokSemicolon:  ";",
}

func (t token) String() string {
	if t.kind == tokName {
		return t.text
	}
	return tokenText[t.kind]
}

// operatorAt returns the operator at the start of s, the longest first.
func operatorAt(s string) (tokenKind, int) {
	if len(s) >= 2 {
		switch s[:2] {
		case "//":
			return tokFloorDiv, 2
		case "**":
			return tokPow, 2
		case "==":
			return tokEq, 2
		case "!=":
			return tokNe, 2
		case ">=":
			return tokGe, 2
		case "<=":
			return tokLe, 2
		}
	}
	const single = "+-/*%~[](){}><=.:|,;"
	kinds := [len(single)]tokenKind{tokAdd, tokSub, tokDiv, tokMul, tokMod, tokTilde, tokLBracket, tokRBracket, tokLParen,
		tokRParen, tokLBrace, tokRBrace, tokGt, tokLt, tokAssign, tokDot, tokColon, tokPipe, tokComma, tokSemicolon}
	if i := strings.IndexByte(single, s[0]); i >= 0 {
		return kinds[i], 1
	}
	return tokEOF, 0
}
