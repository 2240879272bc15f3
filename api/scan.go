package api

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// SyntaxError says where and why a text is not the JSON we accept.
type SyntaxError struct {
	Offset int // bytes from the start, in [0, len(data)]
	Reason string
}

func (e *SyntaxError) Error() string {
	return "api: " + e.Reason + " at byte " + strconv.Itoa(e.Offset)
}

// Scan checks that data is exactly one JSON value (RFC 8259) in valid UTF-8
// whose arrays and objects nest at most maxDepth levels deep. It is linear,
// allocates nothing on success and looks at every byte once, so what reads the
// values afterwards needs no error paths of its own.
//
// It agrees with encoding/json.Valid but for two things: invalid UTF-8 in a
// string is an error here (Python's parser refuses it too), and so is nesting
// beyond maxDepth. NaN, Infinity, a byte order mark and anything behind the
// value are errors in both; a lone surrogate escape (\ud800) is none in either.
//
// The error is a *SyntaxError.
func Scan(data []byte, maxDepth int) error {
	if err := scan(data, maxDepth); err != nil {
		return err
	}
	return nil
}

func scan(data []byte, maxDepth int) *SyntaxError {
	s := scanner{b: data, max: maxDepth}
	if s.space(); !s.value(0) {
		return &SyntaxError{Offset: s.i, Reason: s.reason}
	}
	if s.space(); s.i < len(data) {
		return &SyntaxError{Offset: s.i, Reason: "extra data behind the value"}
	}
	return nil
}

type scanner struct {
	b      []byte
	i      int
	max    int
	reason string
}

func (s *scanner) fail(reason string) bool {
	s.reason = reason
	return false
}

// unexpected words the failure for the byte at s.i, where want was due.
func (s *scanner) unexpected(want string) bool {
	if s.i >= len(s.b) {
		return s.fail("unexpected end, want " + want)
	}
	return s.fail("unexpected " + quoteByte(s.b[s.i]) + ", want " + want)
}

func quoteByte(c byte) string {
	if c >= utf8.RuneSelf {
		return "byte 0x" + strconv.FormatUint(uint64(c), 16)
	}
	return "character " + strconv.QuoteRuneToASCII(rune(c))
}

func (s *scanner) space() {
	i := s.i
	for i < len(s.b) && isSpace(s.b[i]) {
		i++
	}
	s.i = i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func (s *scanner) at(c byte) bool { return s.i < len(s.b) && s.b[s.i] == c }

// value scans the value that starts at s.i, inside depth containers.
func (s *scanner) value(depth int) bool {
	if s.i >= len(s.b) {
		return s.unexpected("a value")
	}
	switch c := s.b[s.i]; {
	case c == '"':
		return s.str()
	case c == '{' || c == '[':
		if depth == s.max {
			return s.fail("nested more than " + strconv.Itoa(s.max) + " levels deep")
		}
		s.i++
		if c == '{' {
			return s.object(depth + 1)
		}
		return s.array(depth + 1)
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case c == 'N' || c == 'I':
		return s.fail("NaN and Infinity are not JSON")
	}
	return s.unexpected("a value")
}

func (s *scanner) object(depth int) bool {
	if s.space(); s.at('}') {
		s.i++
		return true
	}
	for {
		if !s.at('"') {
			return s.unexpected("a property name in double quotes")
		}
		if !s.str() {
			return false
		}
		if s.space(); !s.at(':') {
			return s.unexpected("':'")
		}
		s.i++
		if s.space(); !s.value(depth) {
			return false
		}
		s.space()
		switch {
		case s.at(','):
			s.i++
			s.space()
		case s.at('}'):
			s.i++
			return true
		default:
			return s.unexpected("',' or '}'")
		}
	}
}

func (s *scanner) array(depth int) bool {
	if s.space(); s.at(']') {
		s.i++
		return true
	}
	for {
		if !s.value(depth) {
			return false
		}
		s.space()
		switch {
		case s.at(','):
			s.i++
			s.space()
		case s.at(']'):
			s.i++
			return true
		default:
			return s.unexpected("',' or ']'")
		}
	}
}

func (s *scanner) literal(word string) bool {
	for j := range len(word) {
		if !s.at(word[j]) {
			return s.unexpected(word)
		}
		s.i++
	}
	return true
}

func isDigit(c byte) bool { return c-'0' <= 9 }

func (s *scanner) digits() bool {
	if s.i >= len(s.b) || !isDigit(s.b[s.i]) {
		return false
	}
	for s.i < len(s.b) && isDigit(s.b[s.i]) {
		s.i++
	}
	return true
}

func (s *scanner) number() bool {
	if s.at('-') {
		s.i++
		if s.at('I') {
			return s.fail("NaN and Infinity are not JSON")
		}
	}
	if s.at('0') {
		s.i++
	} else if !s.digits() {
		return s.unexpected("a digit")
	}
	if s.at('.') {
		s.i++
		if !s.digits() {
			return s.unexpected("a digit behind the point")
		}
	}
	if s.at('e') || s.at('E') {
		s.i++
		if s.at('+') || s.at('-') {
			s.i++
		}
		if !s.digits() {
			return s.unexpected("a digit in the exponent")
		}
	}
	return true
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, by their top bits, the bytes of w that end a plain run of a
// string: below 0x20, '"', '\\', and 0x80 or above. A subtraction may borrow
// into the byte above a true hit, so only the lowest mark is exact, and only
// the lowest is used.
func special(w uint64) uint64 {
	quote, back := w^(ones*'"'), w^(ones*'\\')
	return (w | (w-ones*0x20)&^w | (quote-ones)&^quote | (back-ones)&^back) & highs
}

// str scans the string whose opening quote is at s.i.
func (s *scanner) str() bool {
	b, i := s.b, s.i+1
	for {
		for i+8 <= len(b) {
			if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			s.i = len(b)
			return s.fail("unterminated string")
		}
		switch c := b[i]; {
		case c == '"':
			s.i = i + 1
			return true
		case c == '\\':
			n := escape(b[i:])
			if n == 0 {
				s.i = i
				return s.fail("invalid escape in a string")
			}
			i += n
		case c < 0x20:
			s.i = i
			return s.fail("control " + quoteByte(c) + " in a string")
		case c < utf8.RuneSelf:
			i++
		default:
			for i < len(b) && b[i] >= utf8.RuneSelf {
				r, n := utf8.DecodeRune(b[i:])
				if r == utf8.RuneError && n == 1 {
					s.i = i
					return s.fail("invalid UTF-8 in a string")
				}
				i += n
			}
		}
	}
}

// escape returns the length of the escape at the start of b, 0 if it is none.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && hex4(b[2:6]) >= 0 {
			return 6
		}
	}
	return 0
}

// hex4 reads four hexadecimal digits; -1 if they are not.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case isDigit(c):
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}
