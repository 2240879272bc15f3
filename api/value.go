package api

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The functions of this file read values that scan has accepted. They trust
// the syntax, so they have no error paths for it.

// A kind is the JSON type of a value, worded for error messages.
type kind string

const (
	kindString kind = "a string"
	kindNumber kind = "a number"
	kindBool   kind = "a boolean"
	kindNull   kind = "null"
	kindArray  kind = "an array"
	kindObject kind = "an object"
)

func (v Raw) kind() kind {
	switch v[0] {
	case '"':
		return kindString
	case '{':
		return kindObject
	case '[':
		return kindArray
	case 't', 'f':
		return kindBool
	case 'n':
		return kindNull
	}
	return kindNumber
}

// given reports whether v is there and not null.
func (v Raw) given() bool { return len(v) > 0 && v[0] != 'n' }

// members goes over the properties of an object, in order and with repeated
// names as they come: who wants Python's rule lets the last one win. The key
// is valid until the next one.
func (v Raw) members() iter.Seq2[[]byte, Raw] {
	return func(yield func([]byte, Raw) bool) {
		for i := skipSpace(v, 1); v[i] != '}'; {
			end := skipString(v, i)
			key := v[i+1 : end-1]
			if bytes.IndexByte(key, '\\') >= 0 {
				key = appendUnquoted(nil, v[i:end])
			}
			i = skipSpace(v, skipSpace(v, end)+1) // ':'
			end = skipValue(v, i)
			if !yield(key, v[i:end:end]) {
				return
			}
			if i = skipSpace(v, end); v[i] == ',' {
				i = skipSpace(v, i+1)
			}
		}
	}
}

// elements goes over the elements of an array, with their indexes.
func (v Raw) elements() iter.Seq2[int, Raw] {
	return func(yield func(int, Raw) bool) {
		n := 0
		for i := skipSpace(v, 1); v[i] != ']'; n++ {
			end := skipValue(v, i)
			if !yield(n, v[i:end:end]) {
				return
			}
			if i = skipSpace(v, end); v[i] == ',' {
				i = skipSpace(v, i+1)
			}
		}
	}
}

func skipSpace(b []byte, i int) int {
	for isSpace(b[i]) {
		i++
	}
	return i
}

// skipString returns the index behind the string whose opening quote is at i.
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
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && !isSpace(b[i]) {
		i++
	}
	return i
}

// trim cuts the white space around a value.
func trim(b []byte) Raw { return bytes.Trim(b, " \n\r\t") }

// text decodes a JSON string. The result does not point into v.
func (v Raw) text() string {
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1])
	}
	return string(appendUnquoted(make([]byte, 0, len(v)), v))
}

// appendUnquoted appends what the JSON string v stands for. A surrogate escape
// without its partner becomes U+FFFD: Go strings are UTF-8, and a tokenizer
// could do nothing with half a character anyway.
func appendUnquoted(dst []byte, v []byte) []byte {
	v = v[1 : len(v)-1]
	for {
		i := bytes.IndexByte(v, '\\')
		if i < 0 {
			return append(dst, v...)
		}
		dst = append(dst, v[:i]...)
		c := v[i+1]
		v = v[i+2:]
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
			r := hex4(v)
			v = v[4:]
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(v) >= 6 && v[0] == '\\' && v[1] == 'u' {
					low = hex4(v[2:])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					v = v[6:]
				}
			}
			dst = utf8.AppendRune(dst, r)
			continue
		}
		dst = append(dst, c)
	}
}

// maxBound is the figure the interface document prints for the bounds of seed
// and truncate_prompt_tokens: 2^63 after a rounding to 16 digits.
const maxBound = 9223372036854776000

// integer64 is an integer as sent, in sign and magnitude, because the
// documented bounds lie just outside int64.
type integer64 struct {
	neg bool
	mag uint64 // 0 when neg is false or the number is below zero
}

// magnitude reads an integer: a JSON number without fraction however it is
// spelt (10, 10.0, 1e1), or a boolean (true is 1), as pydantic does. Text is
// refused although pydantic reads it (spec 1.5 [R]).
func magnitude(v Raw) (n integer64, f *fault) {
	switch v.kind() {
	case kindBool:
		if v[0] == 't' {
			n.mag = 1
		}
		return n, nil
	case kindNumber:
	default:
		return n, wrongType("an integer", v)
	}
	whole, negative := bytes.CutPrefix(v, []byte("-"))
	exp := 0
	if i := bytes.IndexAny(whole, "eE"); i >= 0 {
		exp = exponent(whole[i+1:])
		whole = whole[:i]
	}
	// The number is (whole digits, then frac digits) * 10^exp, and after the
	// trimming its last digit is not 0: a negative exp means a fraction.
	whole, frac, _ := bytes.Cut(whole, []byte("."))
	frac = bytes.TrimRight(frac, "0")
	exp -= len(frac)
	if len(frac) == 0 {
		all := len(whole)
		whole = bytes.TrimRight(whole, "0")
		exp += all - len(whole)
	}
	whole = bytes.TrimLeft(whole, "0")
	if len(whole) == 0 && len(frac) == 0 {
		return n, nil
	}
	if exp < 0 {
		return n, faultf("must be an integer, got %s", clip(v))
	}
	for _, part := range [][]byte{whole, frac, zeros[:min(exp, len(zeros))]} {
		for _, c := range part {
			hi, lo := bits.Mul64(n.mag, 10)
			sum, carry := bits.Add64(lo, uint64(c-'0'), 0)
			if hi != 0 || carry != 0 {
				return n, faultf("must be a 64-bit integer, got %s", clip(v))
			}
			n.mag = sum
		}
	}
	n.neg = negative
	return n, nil
}

// zeros are more than a 64-bit integer can take behind its first digit.
var zeros = []byte("00000000000000000000")

// exponent reads the digits behind an e. Figures beyond a billion mean the same
// as a billion: no body has that many digits to make up for them.
func exponent(b []byte) int {
	const most = 1_000_000_000
	n, err := strconv.Atoi(string(b))
	if err != nil && b[0] == '-' {
		return -most
	}
	if err != nil {
		return most
	}
	return max(-most, min(n, most))
}

// integer reads an int64.
func integer(v Raw) (int, *fault) {
	n, f := magnitude(v)
	if f != nil {
		return 0, f
	}
	switch {
	case n.neg && n.mag <= 1<<63:
		return int(-n.mag), nil
	case !n.neg && n.mag < 1<<63:
		return int(n.mag), nil
	}
	return 0, faultf("must be a 64-bit integer, got %s", clip(v))
}

// clamped reads an integer within the documented bounds and clamps it to int64.
func clamped(v Raw) (int, *fault) {
	n, f := magnitude(v)
	if f != nil {
		return 0, f
	}
	switch {
	case n.mag > maxBound:
		return 0, faultf("must be between -%d and %d, got %s", uint64(maxBound), uint64(maxBound), clip(v))
	case n.neg && n.mag <= 1<<63:
		return int(-n.mag), nil
	case n.neg:
		return math.MinInt64, nil
	}
	return int(min(n.mag, math.MaxInt64)), nil
}

// number reads a finite number: a JSON number, text that spells one, or a boolean.
func number(v Raw) (float64, *fault) {
	s := string(v)
	switch v.kind() {
	case kindBool:
		if v[0] == 't' {
			return 1, nil
		}
		return 0, nil
	case kindString:
		s = v.text()
		// ParseFloat also reads inf, nan, hexadecimal and underscores.
		if strings.Trim(s, "0123456789+-.eE") != "" {
			return 0, faultf("must be a number, got %s", clip(v))
		}
	case kindNumber:
	default:
		return 0, wrongType("a number", v)
	}
	x, err := strconv.ParseFloat(s, 64)
	if math.IsInf(x, 0) {
		return 0, faultf("must be a finite number, got %s", clip(v))
	}
	if err != nil {
		return 0, faultf("must be a number, got %s", clip(v))
	}
	return x, nil
}

// boolean reads true, false, 1, 0 and the words that pydantic takes for them.
func boolean(v Raw) (bool, *fault) {
	switch v.kind() {
	case kindBool:
		return v[0] == 't', nil
	case kindNumber:
		if x, f := number(v); f == nil && (x == 0 || x == 1) {
			return x == 1, nil
		}
		return false, faultf("must be a boolean, got %s", clip(v))
	case kindString:
		if on, ok := ParseBool(v.text()); ok {
			return on, nil
		}
		return false, faultf("must be a boolean, got %s", clip(v))
	}
	return false, wrongType("a boolean", v)
}

// ParseBool reads the words that pydantic takes for true and false.
func ParseBool(s string) (on, ok bool) {
	switch strings.ToLower(s) {
	case "true", "t", "yes", "y", "on", "1":
		return true, true
	case "false", "f", "no", "n", "off", "0":
		return false, true
	}
	return false, false
}

func text(v Raw) (string, *fault) {
	if v.kind() != kindString {
		return "", wrongType("a string", v)
	}
	return v.text(), nil
}

func object(v Raw) (Raw, *fault) {
	if v.kind() != kindObject {
		return nil, wrongType("an object", v)
	}
	return v, nil
}

// optional reads a value whose absence means something.
func optional[T any](v Raw, read func(Raw) (T, *fault)) (*T, *fault) {
	x, f := read(v)
	if f != nil {
		return nil, f
	}
	return &x, nil
}

// list reads an array of at most limit elements.
func list[T any](v Raw, limit int, read func(Raw) (T, *fault)) ([]T, *fault) {
	if v.kind() != kindArray {
		return nil, wrongType("an array", v)
	}
	out := []T{}
	for i, e := range v.elements() {
		if i == limit {
			return nil, faultf("must have at most %d entries", limit)
		}
		x, f := read(e)
		if f != nil {
			return nil, f.index(i)
		}
		out = append(out, x)
	}
	return out, nil
}

// clip quotes a value of the client in a message, cut to a length that no log
// or client minds.
func clip(v []byte) string {
	const most = 64
	s := strings.ToValidUTF8(string(v[:min(len(v), most)]), "")
	if len(v) > most {
		s += "…"
	}
	return s
}

// A fault is a violation found while decoding, with the path to it inside the
// body. It becomes an Error at the top.
type fault struct {
	path, text string
	cause      cause // causeSchema unless somebody says otherwise
}

func faultf(format string, args ...any) *fault { return &fault{text: fmt.Sprintf(format, args...)} }

func wrongType(want string, v Raw) *fault { return faultf("must be %s, not %s", want, v.kind()) }

// in puts a property name in front of the path.
func (f *fault) in(name string) *fault {
	if f == nil {
		return nil
	}
	switch {
	case f.path == "" || f.path[0] == '[':
		f.path = name + f.path
	default:
		f.path = name + "." + f.path
	}
	return f
}

// index puts an array index in front of the path.
func (f *fault) index(i int) *fault { return f.in("[" + strconv.Itoa(i) + "]") }

// error makes the answer of a fault. The texts of the special causes are fixed
// by the spec and name their field themselves.
func (f *fault) error() *Error {
	if f.cause == causeSchema || f.cause == causeMessages {
		return newError(f.cause, f.path+": "+f.text, nil)
	}
	return newError(f.cause, f.text, nil)
}
