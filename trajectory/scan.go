package trajectory

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// syntaxError says where and why a body is not the JSON we accept.
type syntaxError struct {
	offset int64 // bytes from the start of the body
	reason string
}

func (e *syntaxError) Error() string {
	return "trajectory: " + e.reason + " at byte " + strconv.FormatInt(e.offset, 10)
}

// window is how many bytes of the body are looked at in one piece.
const window = 128 << 10

// scanner checks a body as it arrives: RFC 8259, valid UTF-8, bounded depth. It
// holds one window of it, and of the value that is being captured all that came
// so far. A lone surrogate escape is valid, NaN and a byte order mark are not.
//
// The methods report whether they succeeded; why not is in err.
type scanner struct {
	r   io.Reader
	buf []byte
	i   int   // the next byte is buf[i]
	n   int   // the window is buf[:n]
	at  int64 // of buf[0], in the body
	end error // why there is nothing behind the window; nil: there may be
	max int   // depth

	capturing bool
	from      int    // buf[from:i] belongs to the captured text, too
	text      []byte // the captured text, without white space between tokens
	limit     int    // of len(text)
	reserve   func(bytes int) bool

	err error
}

func newScanner(r io.Reader, maxDepth int) *scanner {
	return &scanner{r: r, buf: make([]byte, window), max: maxDepth}
}

func (s *scanner) fail(reason string) bool {
	if s.err == nil {
		s.err = &syntaxError{s.at + int64(s.i), reason}
	}
	return false
}

// unexpected words the failure for the byte at s.i, where want was due.
func (s *scanner) unexpected(want string) bool {
	if s.i >= s.n && !s.more() {
		return s.fail("unexpected end, want " + want)
	}
	c := s.buf[s.i]
	if c >= utf8.RuneSelf {
		return s.fail("unexpected byte 0x" + strconv.FormatUint(uint64(c), 16) + ", want " + want)
	}
	return s.fail("unexpected character " + strconv.QuoteRuneToASCII(rune(c)) + ", want " + want)
}

// errTooLarge is what a captured value beyond its limit fails with.
var errTooLarge = errors.New("value too large")

// flush moves buf[from:i] to the captured text.
func (s *scanner) flush() bool {
	if !s.capturing {
		return true
	}
	switch size := len(s.text) + s.i - s.from; {
	case s.err != nil:
		return false
	case size > s.limit:
		s.err = errTooLarge
		return false
	case size > cap(s.text):
		room := max(size, 2*cap(s.text))
		if s.reserve != nil && !s.reserve(room-cap(s.text)) {
			s.err = ErrMemory
			return false
		}
		s.text = append(make([]byte, 0, room), s.text...)
	}
	s.text = append(s.text, s.buf[s.from:s.i]...)
	s.from = s.i
	return true
}

// more reads behind the window, whose bytes from s.i on stay, and reports
// whether there is more than there was.
func (s *scanner) more() bool {
	if s.end != nil || s.err != nil || !s.flush() {
		return false
	}
	s.n = copy(s.buf, s.buf[s.i:s.n])
	s.at += int64(s.i)
	s.i, s.from = 0, 0
	const patience = 100 // readers that return nothing and no error, as in bufio
	for range patience {
		m, err := s.r.Read(s.buf[s.n:])
		s.n += m
		s.end = err
		if err != nil && err != io.EOF {
			s.err = err
			return false
		}
		if m > 0 || err != nil {
			return m > 0
		}
	}
	s.err = io.ErrNoProgress
	return false
}

// begin starts to capture at the next byte.
func (s *scanner) begin(limit int) {
	s.capturing, s.from, s.text, s.limit = true, s.i, s.text[:0], limit
}

// captured ends what begin began. The text is valid until begin.
func (s *scanner) captured() ([]byte, bool) {
	ok := s.flush()
	s.capturing = false
	return s.text, ok
}

// capture scans a value inside depth containers and returns its text, without
// white space, valid until the next.
func (s *scanner) capture(depth, limit int) ([]byte, bool) {
	s.begin(limit)
	if !s.value(depth) {
		return nil, false
	}
	return s.captured()
}

// space skips white space and reports whether a byte follows.
func (s *scanner) space() bool {
	for {
		if s.i >= s.n && !s.more() {
			return false
		}
		if s.buf[s.i] > ' ' {
			return true
		}
		if !s.flush() {
			return false
		}
		for s.i < s.n && isSpace(s.buf[s.i]) {
			s.i++
		}
		s.from = s.i
		if s.i < s.n {
			return true
		}
	}
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// next is the byte that follows, behind white space; 0 at the end (which no
// valid text holds).
func (s *scanner) next() byte {
	if !s.space() {
		return 0
	}
	return s.buf[s.i]
}

// value scans the value that follows, inside depth containers.
func (s *scanner) value(depth int) bool {
	switch c := s.next(); {
	case c == '"':
		return s.str()
	case c == '{':
		return s.object(depth, func() bool {
			return s.str() && s.colon() && s.value(depth+1)
		})
	case c == '[':
		return s.array(depth, func(int) bool { return s.value(depth + 1) })
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

func (s *scanner) open(depth int) bool {
	if depth >= s.max {
		return s.fail("nested more than " + strconv.Itoa(s.max) + " levels deep")
	}
	s.i++
	return true
}

// object scans an object; member scans one member, from its key's quote on.
func (s *scanner) object(depth int, member func() bool) bool {
	if !s.open(depth) {
		return false
	}
	if s.next() == '}' {
		s.i++
		return true
	}
	for {
		if s.next() != '"' {
			return s.unexpected("a property name in double quotes")
		}
		if !member() {
			return false
		}
		switch s.next() {
		case ',':
			s.i++
		case '}':
			s.i++
			return true
		default:
			return s.unexpected("',' or '}'")
		}
	}
}

func (s *scanner) colon() bool {
	if s.next() != ':' {
		return s.unexpected("':'")
	}
	s.i++
	return true
}

// array scans an array; element scans one element.
func (s *scanner) array(depth int, element func(n int) bool) bool {
	if !s.open(depth) {
		return false
	}
	if s.next() == ']' {
		s.i++
		return true
	}
	for n := 0; ; n++ {
		if !element(n) {
			return false
		}
		switch s.next() {
		case ',':
			s.i++
		case ']':
			s.i++
			return true
		default:
			return s.unexpected("',' or ']'")
		}
	}
}

func (s *scanner) literal(word string) bool {
	for j := range len(word) {
		if s.i >= s.n && !s.more() || s.buf[s.i] != word[j] {
			return s.unexpected(word)
		}
		s.i++
	}
	return true
}

func isDigit(c byte) bool { return c-'0' <= 9 }

// peek is the byte that follows, 0 at the end.
func (s *scanner) peek() byte {
	if s.i >= s.n && !s.more() {
		return 0
	}
	return s.buf[s.i]
}

func (s *scanner) digits() bool {
	if !isDigit(s.peek()) {
		return false
	}
	for isDigit(s.peek()) {
		s.i++
	}
	return true
}

func (s *scanner) number() bool {
	if s.peek() == '-' {
		s.i++
		if s.peek() == 'I' {
			return s.fail("NaN and Infinity are not JSON")
		}
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return s.unexpected("a digit")
	}
	if s.peek() == '.' {
		s.i++
		if !s.digits() {
			return s.unexpected("a digit behind the point")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
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
// into the byte above a true hit, so only the lowest mark is exact.
func special(w uint64) uint64 {
	quote, back := w^(ones*'"'), w^(ones*'\\')
	return (w | (w-ones*0x20)&^w | (quote-ones)&^quote | (back-ones)&^back) & highs
}

// str scans the string whose opening quote is the next byte.
func (s *scanner) str() bool {
	s.i++
	for {
		b, i := s.buf[:s.n], s.i
		for i+8 <= len(b) {
			if m := special(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		s.i = i
		if i >= len(b) {
			if !s.more() {
				return s.fail("unterminated string")
			}
			continue
		}
		switch c := b[i]; {
		case c == '"':
			s.i++
			return true
		case c == '\\':
			if !s.escape() {
				return false
			}
		case c < 0x20:
			return s.fail("control character 0x" + strconv.FormatUint(uint64(c), 16) + " in a string")
		case c < utf8.RuneSelf:
			s.i++
		default:
			for !utf8.FullRune(s.buf[s.i:s.n]) && s.more() {
			}
			r, size := utf8.DecodeRune(s.buf[s.i:s.n])
			if r == utf8.RuneError && size == 1 {
				return s.fail("invalid UTF-8 in a string")
			}
			s.i += size
		}
	}
}

// escape scans the escape at s.i.
func (s *scanner) escape() bool {
	const longest = len(`\u0000`)
	for s.n-s.i < longest && s.more() {
	}
	b := s.buf[s.i:s.n]
	size := 0
	if len(b) >= 2 {
		switch b[1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			size = 2
		case 'u':
			if len(b) >= longest && hex4(b[2:]) >= 0 {
				size = longest
			}
		}
	}
	if size == 0 {
		return s.fail("invalid escape in a string")
	}
	s.i += size
	return true
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

// key scans a member's key and the colon behind it, and returns what it stands
// for. It must not be called while capturing.
func (s *scanner) key(limit int) (string, bool) {
	s.begin(limit)
	if !s.str() {
		return "", false
	}
	text, ok := s.captured()
	if !ok {
		return "", false
	}
	key := Value(text).Text()
	return key, s.colon()
}

// over checks that nothing but white space follows.
func (s *scanner) over() bool {
	if s.space() {
		return s.fail("extra data behind the value")
	}
	return s.err == nil
}

// Compact checks that text is one JSON value (RFC 8259, valid UTF-8, at most
// depth levels) and returns it without white space between tokens.
func Compact(text []byte, depth int) ([]byte, error) {
	s := newScanner(bytes.NewReader(text), depth)
	out, ok := s.capture(0, len(text))
	if !ok || !s.over() {
		return nil, fmt.Errorf("trajectory: %w", s.err)
	}
	return out, nil
}
