package jsontext

import (
	"errors"
	"io"
	"iter"
	"unsafe"

	"weir/internal/longcopy"
)

// A Pace lets long work on a large text be stopped. A function that has one tells it of the
// bytes that it has passed over, at least once in every 64 KiB of an array or object, and
// goes on if it says true. If it says false the function ends soon, and its result means
// nothing. nil never stops anything.
type Pace func(bytes int) bool

// pacedPiece is how many bytes are passed over before a Pace is told of them.
const pacedPiece = 64 << 10

// ErrStopped is the error of PacedScan when its Pace has stopped it.
var ErrStopped = errors.New("jsontext: stopped")

// PacedScan is Scan at a pace. The error is a *SyntaxError or ErrStopped.
func PacedScan(data []byte, maxDepth int, p Pace) error {
	return pacedScan(data, maxDepth, pacedPiece, p)
}

func pacedScan(data []byte, maxDepth, piece int, p Pace) error {
	s := Scanner{buf: data, max: maxDepth, pace: p, piece: piece}
	if s.Value() && s.Over() {
		return nil
	}
	return s.err
}

// widen makes the window of a text in memory larger, at the scanner's pace, and reports
// whether there is more than there was.
func (s *Scanner) widen() bool {
	switch {
	case s.end != nil || s.err != nil:
		return false
	case s.n == len(s.buf):
		s.end = io.EOF
		return false
	}
	size := min(s.piece, len(s.buf)-s.n)
	if s.n += size; s.pace != nil && !s.pace(size) {
		s.err = ErrStopped
		return false
	}
	return true
}

// skip is skipValue at a pace. It reports whether it came to the end of the value.
func (p Pace) skip(b []byte, i int) (end int, ok bool) {
	from := i
	if c := b[i]; p == nil || c != '{' && c != '[' {
		end = skipValue(b, i)
		return end, p == nil || p(end-from)
	}
	for depth := 0; ; i++ {
		if i-from >= pacedPiece {
			if !p(i - from) {
				return i, false
			}
			from = i
		}
		switch b[i] {
		case '"':
			i = skipString(b, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, p(i + 1 - from)
			}
		}
	}
}

// PacedMembers is Members at a pace. When that stops it, there are no further members.
func (v Value) PacedMembers(p Pace) iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		for name, val := range v.PacedRawMembers(p) {
			key := []byte(name[1 : len(name)-1])
			if escaped(name) {
				key, _ = name.AppendText(nil)
			}
			if !yield(key, val) {
				return
			}
		}
	}
}

// PacedRawMembers is RawMembers at a pace. When that stops it, there are no further members.
func (v Value) PacedRawMembers(p Pace) iter.Seq2[Value, Value] {
	return func(yield func(name, val Value) bool) {
		if len(v) == 0 || v[0] != '{' {
			return
		}
		for i := skipSpace(v, 1); v[i] != '}'; {
			end := skipString(v, i)
			name := v[i:end:end]
			i = skipSpace(v, skipSpace(v, end)+1) // ':'
			end, ok := p.skip(v, i)
			if !ok || !yield(name, v[i:end:end]) {
				return
			}
			if i = skipSpace(v, end); v[i] == ',' {
				i = skipSpace(v, i+1)
			}
		}
	}
}

// PacedElements is Elements at a pace. When that stops it, there are no further elements.
func (v Value) PacedElements(p Pace) iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if len(v) == 0 || v[0] != '[' {
			return
		}
		n := 0
		for i := skipSpace(v, 1); v[i] != ']'; n++ {
			end, ok := p.skip(v, i)
			if !ok || !yield(n, v[i:end:end]) {
				return
			}
			if i = skipSpace(v, end); v[i] == ',' {
				i = skipSpace(v, i+1)
			}
		}
	}
}

// PacedMember is Member at a pace.
func (v Value) PacedMember(name string, p Pace) (found Value) {
	for key, val := range v.PacedMembers(p) {
		if string(key) == name {
			found = val
		}
	}
	return found
}

// PacedText is Text at a pace.
func (v Value) PacedText(p Pace) string {
	if !escaped(v) {
		return longcopy.String(v[1 : len(v)-1])
	}
	s, _ := v.appendText(make([]byte, 0, len(v)), p)
	if unused := cap(s) - len(s); unused > len(s)/4 {
		return longcopy.String(s)
	}
	return unsafe.String(unsafe.SliceData(s), len(s))
}
