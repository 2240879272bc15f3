package trajectory

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Value is the text of one JSON value that is valid and has no white space
// between tokens. Its methods trust that, so they have no error paths for it.
type Value []byte

// Kind is the type of a value, by the first byte of its text.
type Kind byte

const (
	String Kind = '"'
	Object Kind = '{'
	Array  Kind = '['
	Number Kind = '0'
	Bool   Kind = 't'
	Null   Kind = 'n'
)

// Kind is the type of v.
func (v Value) Kind() Kind {
	switch v[0] {
	case '"', '{', '[', 'n', 't':
		return Kind(v[0])
	case 'f':
		return Bool
	}
	return Number
}

// Text decodes a string. A surrogate escape without its partner becomes U+FFFD.
func (v Value) Text() string {
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	s, _ := v.decode()
	return s
}

// decode is Text that reports whether every surrogate has its partner.
func (v Value) decode() (s string, whole bool) {
	dst := make([]byte, 0, len(v))
	whole = true
	for b := v[1 : len(v)-1]; ; {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return string(append(dst, b...)), whole
		}
		dst = append(dst, b[:i]...)
		c := b[i+1]
		b = b[i+2:]
		switch c {
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
					whole = false
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
}

// Float reads a number as a float64; ok is false when it has none that is
// finite, or when v is no number.
func (v Value) Float() (x float64, ok bool) {
	if v.Kind() != Number {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(v), 64)
	return x, !math.IsInf(x, 0) && (err == nil || x == 0) // 1e-400 is 0
}

// score reads a metric: a number, or true for 1 and false for 0.
func (v Value) score() (x float64, ok bool) {
	if v.Kind() == Bool {
		if v[0] == 't' {
			return 1, true
		}
		return 0, true
	}
	return v.Float()
}

// Member returns the value of a member of the object v; the last of that name,
// as in Python, nil if there is none.
func (v Value) Member(name string) (found Value) {
	if v.Kind() != Object {
		return nil
	}
	c := cursor{b: v}
	c.object(func(key string) {
		if val := c.skip(); key == name {
			found = val
		}
	})
	return found
}

// Find is Member for a v that may be absent.
func (v Value) Find(name string) Value {
	if v == nil {
		return nil
	}
	return v.Member(name)
}

// Elements returns the elements of the array v.
func (v Value) Elements() (list []Value) {
	if v.Kind() != Array {
		return nil
	}
	c := cursor{b: v}
	c.array(func(int) { list = append(list, c.skip()) })
	return list
}

// Members calls f for each member of the object v, in order.
func (v Value) Members(f func(key string, val Value)) {
	if v.Kind() != Object {
		return
	}
	c := cursor{b: v}
	c.object(func(key string) { f(key, c.skip()) })
}

// cursor walks over a Value, every byte once: who looks into a container
// consumes it on the way.
type cursor struct {
	b Value
	i int
}

func (c *cursor) kind() Kind { return c.b[c.i:].Kind() }

// object calls member for each member of the object at the cursor, which has to
// consume the value.
func (c *cursor) object(member func(key string)) {
	for c.i++; c.b[c.i] != '}'; {
		from := c.i
		c.i = skipString(c.b, c.i)
		key := c.b[from:c.i].Text()
		c.i++ // ':'
		member(key)
		if c.b[c.i] == ',' {
			c.i++
		}
	}
	c.i++
}

// array calls element for each element of the array at the cursor, which has to
// consume it.
func (c *cursor) array(element func(n int)) {
	c.i++
	for n := 0; c.b[c.i] != ']'; n++ {
		element(n)
		if c.b[c.i] == ',' {
			c.i++
		}
	}
	c.i++
}

// skip consumes the value at the cursor and returns it.
func (c *cursor) skip() Value {
	from := c.i
	c.i = skipValue(c.b, c.i)
	return c.b[from:c.i:c.i]
}

// count consumes the array at the cursor and counts its elements.
func (c *cursor) count() (n int) {
	c.array(func(int) {
		c.i = skipValue(c.b, c.i)
		n++
	})
	return n
}

// skipString returns the index behind the string whose opening quote is at i.
func skipString(b []byte, i int) int {
	for i++; ; {
		for i+8 <= len(b) {
			w := binary.LittleEndian.Uint64(b[i:])
			quote, back := w^(ones*'"'), w^(ones*'\\')
			if m := ((quote-ones)&^quote | (back-ones)&^back) & highs; m != 0 {
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

// skipValue returns the index behind the value that starts at i.
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
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' {
		i++
	}
	return i
}

// AppendText appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendText(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[from:i]...), "\ufffd"...)
				from = i + 1
			}
			i += size
			continue
		}
		i++
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[from:i-1]...)
		from = i
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return append(append(dst, s[from:]...), '"')
}

// AppendFloat appends a finite number as JSON.
func AppendFloat(dst []byte, x float64) []byte { return strconv.AppendFloat(dst, x, 'g', -1, 64) }
