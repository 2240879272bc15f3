package jsontext

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"weir/internal/longcopy"
)

// Value is the text of one JSON value, without white space before and after it, which a
// scanner of this package has accepted. It may be a part of a larger text. Its methods
// trust the syntax, so they have no error paths for it. The spelling of numbers and
// strings and the order of members are those of the text.
//
// A nil Value is an absent one. Given, Empty, Member and the methods that return iterators
// may be called on it, the others may not.
type Value []byte

// Kind is the type of a value.
type Kind byte

// The types of values.
const (
	String Kind = '"'
	Object Kind = '{'
	Array  Kind = '['
	Number Kind = '0'
	Bool   Kind = 't'
	Null   Kind = 'n'
)

// String names the type as messages to clients do.
func (k Kind) String() string {
	switch k {
	case String:
		return "a string"
	case Object:
		return "an object"
	case Array:
		return "an array"
	case Number:
		return "a number"
	case Bool:
		return "a boolean"
	}
	return "null"
}

// Kind is the type of v.
func (v Value) Kind() Kind {
	switch c := v[0]; c {
	case '"', '{', '[', 't', 'n':
		return Kind(c)
	case 'f':
		return Bool
	}
	return Number
}

// Given reports whether v is there and not null.
func (v Value) Given() bool { return len(v) > 0 && v[0] != 'n' }

// Trim cuts the white space around a text that a scanner has accepted.
func Trim(text []byte) Value { return bytes.Trim(text, " \n\r\t") }

// Empty reports whether v is absent, null, or an array or object with nothing in it.
func (v Value) Empty() bool {
	switch {
	case !v.Given():
		return true
	case v[0] == '{' || v[0] == '[':
		c := v[skipSpace(v, 1)]
		return c == '}' || c == ']'
	}
	return false
}

// Members goes over the members of an object in the order of the text; equal names are not
// merged. The name is decoded, and valid until the next one. A value that is not an object
// has none.
func (v Value) Members() iter.Seq2[[]byte, Value] { return v.PacedMembers(nil) }

// RawMembers is Members with the names as JSON strings, as they are written in the text.
func (v Value) RawMembers() iter.Seq2[Value, Value] { return v.PacedRawMembers(nil) }

// Elements goes over the elements of an array, with their indexes. A value that is not an
// array has none.
func (v Value) Elements() iter.Seq2[int, Value] { return v.PacedElements(nil) }

// Member returns the value of a member of an object, the last one if the name is there
// more than once, as Python does. It is nil if there is none, and if v is absent or not an
// object.
func (v Value) Member(name string) (found Value) {
	for key, val := range v.Members() {
		if string(key) == name {
			found = val
		}
	}
	return found
}

func skipSpace(b []byte, i int) int {
	for isSpace(b[i]) {
		i++
	}
	return i
}

// skipString returns the index after the string whose opening quote is at i.
func skipString(b []byte, i int) int {
	for i++; ; {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, back := w^(ones*'"'), w^(ones*'\\')
			m := ((quote-ones)&^quote | (back-ones)&^back) & highs // as in special
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		switch b[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
		i++
	}
}

// skipValue returns the index after the value that starts at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		for depth := 0; ; i++ {
			switch b[i] {
			case '"':
				i = skipString(b, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && !isSpace(b[i]) {
		i++
	}
	return i
}

// Text is what a string stands for. It does not point into v. A surrogate escape without
// its partner becomes U+FFFD, because Go's strings are UTF-8.
func (v Value) Text() string { return v.PacedText(nil) }

// escaped reports whether a string has escapes.
func escaped(v Value) bool { return bytes.IndexByte(v, '\\') >= 0 }

// SharedText is Text, or the text of a number, that shares the memory of v where it can. It
// may be used if v is not written to as long as the result is in use.
func (v Value) SharedText() string {
	if v[0] == '"' {
		if escaped(v) {
			return v.Text()
		}
		v = v[1 : len(v)-1]
	}
	return unsafe.String(unsafe.SliceData(v), len(v))
}

// AppendText appends what the string v stands for, and reports whether each surrogate
// escape has its partner.
func (v Value) AppendText(dst []byte) (text []byte, paired bool) { return v.appendText(dst, nil) }

func (v Value) appendText(dst []byte, p Pace) (text []byte, paired bool) {
	paired = true
	last := len(v)
	for b := v[1 : len(v)-1]; ; {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return longcopy.Append(dst, b), paired
		}
		if p != nil && last-len(b) >= pacedPiece {
			if !p(last - len(b)) {
				return dst, paired
			}
			last = len(b)
		}
		dst = longcopy.Append(dst, b[:i])
		c := b[i+1]
		if b = b[i+2:]; c != 'u' {
			dst = append(dst, unescaped(c))
			continue
		}
		r := hex4(b)
		b = b[4:]
		if utf16.IsSurrogate(r) {
			low := rune(-1)
			if len(b) >= 6 && b[0] == '\\' && b[1] == 'u' {
				low = hex4(b[2:])
			}
			if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
				b = b[6:]
			} else {
				paired = false
			}
		}
		dst = utf8.AppendRune(dst, r)
	}
}

// unescaped is the byte that a backslash and c stand for.
func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c // a quote, a slash or a backslash
}

// Float reads a number as a float64. It reports false if v is not a number, and if it is
// beyond the range of finite values; a number too small for a float64 is 0.
func (v Value) Float() (x float64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	x, err := ParseFloat(v.SharedText())
	return x, !math.IsInf(x, 0) && (err == nil || x == 0)
}
