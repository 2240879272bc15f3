package tokenizer

import (
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads the two large members of a tokenizer.json, the vocabulary and
// the merges, without the reflection and the second pass of encoding/json: they
// are nine tenths of up to 35 MB. The small members go to encoding/json.
//
// The bytes are known to be valid UTF-8.
type scanner struct {
	b []byte
	i int
}

// maxDepth bounds nesting, as encoding/json does.
const maxDepth = 1000

func (s *scanner) fail(want string) error {
	if s.i >= len(s.b) {
		return fmt.Errorf("%w: it ends where %s should be", ErrInvalid, want)
	}
	return fmt.Errorf("%w: byte %d is not %s", ErrInvalid, s.i, want)
}

// peek skips white space and returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) expect(c byte) error {
	if s.peek() != c {
		return s.fail(string(rune(c)))
	}
	s.i++
	return nil
}

// members calls f at the value of each member of an object; f must read it.
func (s *scanner) members(f func(key []byte) error) error {
	if err := s.expect('{'); err != nil {
		return err
	}
	var buf []byte
	return s.list('}', func() error {
		var err error
		if buf, err = s.text(buf[:0]); err != nil {
			return err
		}
		if err = s.expect(':'); err != nil {
			return err
		}
		return f(buf)
	})
}

// elements calls f at each element of an array; f must read it.
func (s *scanner) elements(f func() error) error {
	if err := s.expect('['); err != nil {
		return err
	}
	return s.list(']', f)
}

func (s *scanner) list(end byte, f func() error) error {
	if s.peek() == end {
		s.i++
		return nil
	}
	for {
		if err := f(); err != nil {
			return err
		}
		switch s.peek() {
		case ',':
			s.i++
		case end:
			s.i++
			return nil
		default:
			return s.fail("a comma or " + string(rune(end)))
		}
	}
}

// text reads a string and appends what it stands for to dst.
func (s *scanner) text(dst []byte) ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return dst, err
	}
	start := s.i
	for s.i < len(s.b) {
		switch c := s.b[s.i]; {
		case c == '"':
			dst = append(dst, s.b[start:s.i]...)
			s.i++
			return dst, nil
		case c == '\\':
			dst = append(dst, s.b[start:s.i]...)
			var err error
			if dst, err = s.escape(dst); err != nil {
				return dst, err
			}
			start = s.i
		case c < ' ':
			return dst, s.fail("part of a string")
		default:
			s.i++
		}
	}
	return dst, s.fail("the end of a string")
}

// escape reads the escape at s.i.
func (s *scanner) escape(dst []byte) ([]byte, error) {
	if s.i+1 >= len(s.b) {
		return dst, s.fail("an escape")
	}
	c := s.b[s.i+1]
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		r, ok := s.unicodeEscape()
		if ok && utf16.IsSurrogate(r) {
			low, lowOK := s.unicodeEscape()
			if r = utf16.DecodeRune(r, low); !lowOK || r == utf8.RuneError {
				ok = false
			}
		}
		if !ok {
			return dst, s.fail("a Unicode escape")
		}
		return utf8.AppendRune(dst, r), nil
	default:
		return dst, s.fail("an escape")
	}
	s.i += 2
	return append(dst, c), nil
}

// unicodeEscape reads \uHHHH at s.i.
func (s *scanner) unicodeEscape() (rune, bool) {
	if s.i+6 > len(s.b) || s.b[s.i] != '\\' || s.b[s.i+1] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(s.b[s.i+2:s.i+6]), 16, 16)
	if err != nil {
		return 0, false
	}
	s.i += 6
	return rune(v), true
}

// id reads a token id.
func (s *scanner) id() (int32, error) {
	s.peek()
	start, v := s.i, 0
	for ; s.i < len(s.b) && '0' <= s.b[s.i] && s.b[s.i] <= '9'; s.i++ {
		if v = v*10 + int(s.b[s.i]-'0'); v >= maxIDs {
			return 0, fmt.Errorf("%w: a token id of %d or more", ErrUnsupported, maxIDs)
		}
	}
	if s.i == start {
		return 0, s.fail("a token id")
	}
	return int32(v), nil
}

// value reads any value and returns its bytes. Numbers and literals are not
// checked: whoever decodes the bytes does that.
func (s *scanner) value() ([]byte, error) {
	s.peek()
	start, depth := s.i, 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			if err := s.skipString(); err != nil {
				return nil, err
			}
			if depth == 0 {
				return s.b[start:s.i], nil
			}
			continue
		case '{', '[':
			if depth++; depth > maxDepth {
				return nil, fmt.Errorf("%w: nested deeper than %d", ErrInvalid, maxDepth)
			}
		case '}', ']':
			if depth == 0 {
				return s.scalar(start)
			}
			if depth--; depth == 0 {
				s.i++
				return s.b[start:s.i], nil
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return s.scalar(start)
			}
		}
		s.i++
	}
	if depth > 0 {
		return nil, s.fail("the end of a value")
	}
	return s.scalar(start)
}

func (s *scanner) scalar(start int) ([]byte, error) {
	if s.i == start {
		return nil, s.fail("a value")
	}
	return s.b[start:s.i], nil
}

func (s *scanner) skipString() error {
	for s.i++; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case '"':
			s.i++
			return nil
		case '\\':
			s.i++
		}
	}
	return s.fail("the end of a string")
}
