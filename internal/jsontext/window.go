package jsontext

import (
	"errors"
	"io"

	"weir/internal/longcopy"
)

// Window is how many bytes of a stream are looked at in one piece.
const Window = 128 << 10

var (
	// ErrTooLarge is the error of a captured value beyond its limit.
	ErrTooLarge = errors.New("jsontext: value too large")
	// ErrNoMemory is the error of a captured value for which reserve allowed no memory.
	ErrNoMemory = errors.New("jsontext: no memory for a value")
)

// NewStream returns a Scanner over the text that r gives, which may be nested maxDepth
// levels deep. reserve is asked for so many more bytes before the buffer for captured values
// grows, which for a moment is there twice; if it says no, the scanning ends with ErrNoMemory.
// Without it (nil) everything is allowed.
func NewStream(r io.Reader, maxDepth int, reserve func(bytes int) bool) *Scanner {
	return &Scanner{r: r, buf: make([]byte, Window), max: maxDepth, reserve: reserve}
}

// more reads on, keeping the bytes of the window from s.i on, and reports whether there is
// more than there was.
func (s *Scanner) more() bool {
	if s.r == nil {
		return s.widen()
	}
	if s.end != nil || s.err != nil || !s.flush() {
		return false
	}
	s.n = copy(s.buf, s.buf[s.i:s.n])
	s.base += s.i
	s.i, s.from = 0, 0
	const patience = 100 // with readers that return nothing and no error, as in bufio
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

// flush moves buf[from:i] to the captured text.
func (s *Scanner) flush() bool {
	if !s.capturing {
		return true
	}
	switch size := len(s.text) + s.i - s.from; {
	case s.err != nil:
		return false
	case size > s.limit:
		s.err = ErrTooLarge
		return false
	case size > cap(s.text):
		room := max(size, min(2*cap(s.text), s.limit))
		if more := room + cap(s.text) - s.reserved; s.reserve != nil && more > 0 {
			if !s.reserve(more) {
				s.err = ErrNoMemory
				return false
			}
			s.reserved += more
		}
		s.text = longcopy.Append(make([]byte, 0, room), s.text)
	}
	s.text = append(s.text, s.buf[s.from:s.i]...)
	s.from = s.i
	return true
}

// begin starts to capture at the next byte.
func (s *Scanner) begin(limit int) {
	s.capturing, s.from, s.text, s.limit = true, s.i, s.text[:0], limit
}

// captured ends what begin began. The text is valid until begin.
func (s *Scanner) captured() ([]byte, bool) {
	ok := s.flush()
	s.capturing = false
	return s.text, ok
}

// Capture scans a value and returns its text without white space between tokens. It is
// valid until the next call of a method that captures. A text of more than limit bytes is
// ErrTooLarge.
func (s *Scanner) Capture(limit int) (Value, bool) {
	s.begin(limit)
	if !s.Value() {
		return nil, false
	}
	return s.captured()
}

// CaptureName scans the name of a member and the colon after it. It returns the name as
// the JSON string that it is written as, valid until the next call of a method that
// captures. A string of more than limit bytes is ErrTooLarge.
func (s *Scanner) CaptureName(limit int) (Value, bool) {
	if s.Next() != '"' {
		return nil, s.unexpected(WantName, nameWanted)
	}
	s.begin(limit)
	if !s.string() {
		return nil, false
	}
	name, ok := s.captured()
	if !ok || !s.colon() {
		return nil, false
	}
	s.i++
	return name, true
}

// Name scans the name of a member and the colon after it, and returns what it stands for.
// A name of more than limit bytes is ErrTooLarge.
func (s *Scanner) Name(limit int) (string, bool) {
	name, ok := s.CaptureName(limit)
	if !ok {
		return "", false
	}
	return name.Text(), true
}

// Raw scans a value and returns its text as it is, white space included, as a part of the
// data. It is for a Scanner of NewScanner.
func (s *Scanner) Raw() (Value, bool) {
	s.Next()
	from := s.i
	if !s.Value() {
		return nil, false
	}
	return s.buf[from:s.i:s.i], true
}

// RawName scans the name of a member and the colon after it, and returns the name as the
// JSON string that it is written as, a part of the data. It is for a Scanner of NewScanner.
func (s *Scanner) RawName() (Value, bool) {
	s.Next()
	from := s.i
	if s.peek() != '"' {
		return nil, s.unexpected(WantName, nameWanted)
	}
	if !s.string() {
		return nil, false
	}
	name := s.buf[from:s.i:s.i]
	if !s.colon() {
		return nil, false
	}
	s.i++
	return name, true
}

// Compact checks that text is one JSON value, as Scan does, and returns it without white
// space between tokens. The error is a *SyntaxError.
func Compact(text []byte, maxDepth int) (Value, error) {
	if err := Scan(text, maxDepth); err != nil {
		return nil, err
	}
	return AppendCompact(make([]byte, 0, len(text)), text), nil
}
