package jsontext

import (
	"encoding/binary"
	"io"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// Reason says which rule of the syntax a text breaks. Its words are part of the answers
// that clients see; SyntaxError.Reason has them.
type Reason uint8

// The reasons of a SyntaxError.
const (
	WantValue       Reason = iota // there is no value where one has to be; NaN and Infinity too
	WantName                      // a member of an object does not begin with a string
	WantColon                     // no ':' after the name of a member
	WantSeparator                 // neither ',' nor the closing bracket after a member or an element
	WantEnd                       // something other than white space after the value
	TooDeep                       // more arrays and objects inside one another than allowed
	BadNumber                     // a digit is missing; Token is where the number begins
	BadLiteral                    // not true, false or null; Token is where the word begins
	UnclosedString                // the text ends in a string; Token is its opening quote
	BadEscape                     // Offset is the backslash
	ControlInString               // a byte below 0x20 in a string
	InvalidUTF8                   // in a string
)

// SyntaxError says where and why a text is not the JSON that this package accepts.
type SyntaxError struct {
	Offset int    // of the offending byte, from the start of the text; its length at the end
	Token  int    // of the first byte of the string, number or literal that is wrong, or one before it
	Depth  int    // how many arrays and objects are open there
	Kind   Reason // for callers that word the reason themselves
	Reason string // in words
}

func (e *SyntaxError) Error() string { return e.Reason + " at byte " + strconv.Itoa(e.Offset) }

// Scan checks that data is exactly one JSON value (RFC 8259) in valid UTF-8, whose arrays
// and objects are nested at most maxDepth levels deep. It takes linear time, allocates
// nothing on success and looks at every byte once. What it has accepted can be read with
// the methods of Value, which have no error paths of their own.
//
// It agrees with encoding/json.Valid except for two things: invalid UTF-8 in a string is
// an error here, as it is in Python, and so is nesting beyond maxDepth. NaN, Infinity, a
// byte order mark and anything after the value are errors in both. A surrogate escape
// without its partner (\ud800) is an error in neither, and neither are equal names in an
// object.
//
// The error is a *SyntaxError.
func Scan(data []byte, maxDepth int) error {
	if err := Check(data, maxDepth); err != nil {
		return err
	}
	return nil
}

// Check is Scan with the type of its error.
func Check(data []byte, maxDepth int) *SyntaxError {
	s := Scanner{buf: data, n: len(data), end: io.EOF, max: maxDepth}
	if s.Value() && s.Over() {
		return nil
	}
	return s.err.(*SyntaxError) // a text in memory fails in no other way
}

// A Scanner goes over one JSON text from its beginning to its end. It checks all that
// Scan checks, and its caller decides for each value whether to look into it (Object,
// Array), to keep its text (Capture, Raw) or to pass over it (Value).
//
// The text is in memory (NewScanner), or it is read through a window as it arrives
// (NewStream). A stream holds one window of the text, and all that has come of the value
// that is being captured.
//
// Methods that scan report whether they succeeded; Err says why not. After a failure
// nothing more is scanned.
type Scanner struct {
	r     io.Reader
	buf   []byte
	i     int   // the next byte is buf[i]
	n     int   // the window is buf[:n]
	base  int   // offset of buf[0] in the text
	end   error // why nothing follows the window; nil if something may
	token int   // offset of the first byte of the last string, number or literal

	depth, max int // arrays and objects that are open, and that may be

	capturing bool
	from      int    // buf[from:i] belongs to the captured text as well
	text      []byte // the captured text, without white space between tokens
	limit     int    // of len(text)
	reserve   func(bytes int) bool
	reserved  int // bytes that it has allowed

	// A text in memory that is scanned at a pace has a window that grows by pieces.
	pace  Pace
	piece int

	err error
}

// NewScanner returns a Scanner over data, which may be nested maxDepth levels deep.
func NewScanner(data []byte, maxDepth int) *Scanner {
	return &Scanner{buf: data, n: len(data), end: io.EOF, max: maxDepth}
}

// Err is the first failure, nil as long as there is none: a *SyntaxError, an error of the
// stream's reader, ErrTooLarge, ErrNoMemory, or what Fail was given.
func (s *Scanner) Err() error { return s.err }

// Offset is the offset of the next byte in the text.
func (s *Scanner) Offset() int { return s.base + s.i }

// Fail ends the scanning with an error of the caller. It returns false.
func (s *Scanner) Fail(err error) bool {
	if s.err == nil {
		s.err = err
	}
	return false
}

func (s *Scanner) fail(kind Reason, reason string) bool {
	if s.err == nil {
		s.err = &SyntaxError{Offset: s.base + s.i, Token: s.token, Depth: s.depth, Kind: kind, Reason: reason}
	}
	return false
}

// unexpected words the failure for the byte at s.i, where want was due.
func (s *Scanner) unexpected(kind Reason, want string) bool {
	if s.i >= s.n && !s.more() {
		return s.fail(kind, "unexpected end, want "+want)
	}
	return s.fail(kind, "unexpected "+quoteByte(s.buf[s.i])+", want "+want)
}

func quoteByte(c byte) string {
	if c >= utf8.RuneSelf {
		return "byte 0x" + strconv.FormatUint(uint64(c), 16)
	}
	return "character " + strconv.QuoteRuneToASCII(rune(c))
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

func isDigit(c byte) bool { return c-'0' <= 9 }

// Next passes over white space and returns the byte that follows, without taking it. It
// is 0 at the end, and where the text holds a zero byte, which is an error everywhere.
func (s *Scanner) Next() byte {
	if s.i < s.n && s.buf[s.i] > ' ' {
		return s.buf[s.i]
	}
	return s.skipSpace()
}

func (s *Scanner) skipSpace() byte {
	if i := s.i + 1; i < s.n && s.buf[i] > ' ' && s.buf[i-1] == ' ' && !s.capturing {
		s.i = i // a single space is the most frequent case
		return s.buf[i]
	}
	for {
		if s.capturing && !s.flush() {
			return 0
		}
		i := s.i
		for i < s.n && isSpace(s.buf[i]) {
			i++
		}
		s.i, s.from = i, i
		if i < s.n {
			return s.buf[i]
		}
		if !s.more() {
			return 0
		}
	}
}

// End reports whether nothing but white space follows. It takes the white space.
func (s *Scanner) End() bool {
	s.Next()
	return s.i >= s.n
}

// Over checks that nothing but white space follows.
func (s *Scanner) Over() bool {
	if !s.End() {
		return s.fail(WantEnd, "extra data behind the value")
	}
	return s.err == nil
}

// Value checks the value that follows and passes over it.
func (s *Scanner) Value() bool {
	switch c := s.Next(); {
	case c == '"':
		return s.string()
	case c == '{':
		return s.object(nil)
	case c == '[':
		return s.array(nil)
	case c == '-' || isDigit(c):
		return s.number()
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	case c == 'N' || c == 'I':
		return s.fail(WantValue, "NaN and Infinity are not JSON")
	}
	return s.unexpected(WantValue, "a value")
}

// Object scans the object that follows. member is called at the name of each of its
// members and has to scan the member, with Name and then a method that scans a value.
func (s *Scanner) Object(member func() bool) bool {
	if s.Next() != '{' {
		return s.unexpected(WantValue, "'{'")
	}
	return s.object(member)
}

// Array scans the array that follows. element is called at each of its elements, with the
// element's index, and has to scan it.
func (s *Scanner) Array(element func(n int) bool) bool {
	if s.Next() != '[' {
		return s.unexpected(WantValue, "'['")
	}
	return s.array(element)
}

// object scans the object whose opening bracket is at s.i. Without a function it passes
// over the members.
func (s *Scanner) object(member func() bool) bool {
	if !s.open() {
		return false
	}
	if s.Next() == '}' {
		return s.close()
	}
	for {
		if s.Next() != '"' {
			return s.unexpected(WantName, nameWanted)
		}
		if member == nil {
			if !s.string() || s.Next() != ':' && !s.colon() {
				return false
			}
			s.i++
			if !s.Value() {
				return false
			}
		} else if !member() {
			return false
		}
		switch s.Next() {
		case ',':
			s.i++
		case '}':
			return s.close()
		default:
			return s.unexpected(WantSeparator, "',' or '}'")
		}
	}
}

// array scans the array whose opening bracket is at s.i. Without a function it passes over
// the elements.
func (s *Scanner) array(element func(n int) bool) bool {
	if !s.open() {
		return false
	}
	if s.Next() == ']' {
		return s.close()
	}
	for n := 0; ; n++ {
		if element == nil {
			if !s.Value() {
				return false
			}
		} else if !element(n) {
			return false
		}
		switch s.Next() {
		case ',':
			s.i++
		case ']':
			return s.close()
		default:
			return s.unexpected(WantSeparator, "',' or ']'")
		}
	}
}

// open takes the bracket that opens an array or object.
func (s *Scanner) open() bool {
	if s.depth >= s.max {
		return s.tooDeep()
	}
	s.i++
	s.depth++
	return true
}

func (s *Scanner) tooDeep() bool {
	return s.fail(TooDeep, "nested more than "+strconv.Itoa(s.max)+" levels deep")
}

// close takes the bracket that closes an array or object.
func (s *Scanner) close() bool {
	s.i++
	s.depth--
	return true
}

const nameWanted = "a property name in double quotes"

// colon checks that a colon follows.
func (s *Scanner) colon() bool {
	return s.Next() == ':' || s.unexpected(WantColon, "':'")
}

func (s *Scanner) literal(word string) bool {
	s.token = s.base + s.i
	for j := range len(word) {
		if s.peek() != word[j] {
			return s.unexpected(BadLiteral, word)
		}
		s.i++
	}
	return true
}

// peek is the byte that follows, 0 at the end.
func (s *Scanner) peek() byte {
	if s.i < s.n || s.more() {
		return s.buf[s.i]
	}
	return 0
}

func (s *Scanner) digits() bool {
	if !isDigit(s.peek()) {
		return false
	}
	for isDigit(s.peek()) {
		s.i++
	}
	return true
}

func (s *Scanner) number() bool {
	s.token = s.base + s.i
	if s.peek() == '-' {
		s.i++
		if s.peek() == 'I' {
			return s.fail(BadNumber, "NaN and Infinity are not JSON")
		}
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return s.unexpected(BadNumber, "a digit")
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return s.unexpected(BadNumber, "a digit behind the point")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.unexpected(BadNumber, "a digit in the exponent")
		}
	}
	return true
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special marks, by their top bits, the bytes of w that end a plain run of a string: below
// 0x20, '"', '\\', and 0x80 or above. A subtraction may borrow into the byte above a true
// hit, so only the lowest mark is exact, and only the lowest is used.
func special(w uint64) uint64 {
	quote, back := w^(ones*'"'), w^(ones*'\\')
	return (w | (w-ones*0x20)&^w | (quote-ones)&^quote | (back-ones)&^back) & highs
}

// string scans the string whose opening quote is at s.i.
func (s *Scanner) string() bool {
	token := s.base + s.i
	s.i++
	for {
		end, closed := runOn(s.buf[:s.n], s.i)
		if s.i = end; closed {
			s.i++
			return true
		}
		if s.token = token; !s.uncut() {
			return false
		}
	}
}

// runOn goes on in a string from b[i]. It returns the offset of the closing quote and true,
// or the offset of what does not continue a string: the end of b, or an error. It is the
// hottest code of the package, and was measured to be faster as a function of a slice
// than as a loop over the fields of the scanner.
func runOn(b []byte, i int) (end int, closed bool) {
	for {
		for i+8 <= len(b) {
			if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(b) {
			return i, false
		}
		switch c := b[i]; {
		case c == '"':
			return i, true
		case c == '\\':
			if i+1 < len(b) && shortEscape[b[i+1]] {
				i += 2
				continue
			}
			n := escape(b[i:])
			if n == 0 {
				return i, false
			}
			i += n
		case c < 0x20:
			return i, false
		case c < utf8.RuneSelf:
			i++
		default:
			n := characters(b[i:])
			if n == 0 {
				return i, false
			}
			i += n
		}
	}
}

// characters returns the length of the characters outside ASCII at the start of b, 0 if
// there is none. Most of them have two or three bytes, of which any continuation bytes are
// valid after these first bytes; the others are left to package utf8.
func characters(b []byte) (n int) {
	for n < len(b) && b[n] >= utf8.RuneSelf {
		switch c := b[n]; {
		case c-0xc2 < 0xe0-0xc2 && n+1 < len(b) && b[n+1]&0xc0 == 0x80:
			n += 2
		case c-0xe1 < 0xed-0xe1 && n+2 < len(b) && b[n+1]&0xc0 == 0x80 && b[n+2]&0xc0 == 0x80:
			n += 3
		default:
			r, size := utf8.DecodeRune(b[n:])
			if r == utf8.RuneError && size == 1 {
				return n
			}
			n += size
		}
	}
	return n
}

// uncut is called at what does not go on a string. That is an error, unless the end of the
// window has cut it off; then more is read.
func (s *Scanner) uncut() bool {
	if s.i >= s.n {
		return s.more() || s.fail(UnclosedString, "unterminated string")
	}
	switch c := s.buf[s.i]; {
	case c == '\\':
		for s.n-s.i < len(`\u0000`) && s.more() {
		}
		return escape(s.buf[s.i:s.n]) > 0 || s.fail(BadEscape, "invalid escape in a string")
	case c < 0x20:
		return s.fail(ControlInString, "control "+quoteByte(c)+" in a string")
	}
	for !utf8.FullRune(s.buf[s.i:s.n]) && s.more() {
	}
	return characters(s.buf[s.i:s.n]) > 0 || s.fail(InvalidUTF8, "invalid UTF-8 in a string")
}

// shortEscape says which bytes make an escape of two bytes after a backslash.
var shortEscape = [256]bool{'"': true, '\\': true, '/': true, 'b': true, 'f': true, 'n': true, 'r': true, 't': true}

// escape returns the length of the escape at the start of b, 0 if there is none.
func escape(b []byte) int {
	switch {
	case len(b) >= 2 && shortEscape[b[1]]:
		return 2
	case len(b) >= 6 && b[1] == 'u' && hex4(b[2:6]) >= 0:
		return 6
	}
	return 0
}

// hex4 reads four hexadecimal digits; it is -1 if b does not begin with them.
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
