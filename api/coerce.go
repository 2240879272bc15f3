package api

import (
	"bytes"
	"math"
	"math/bits"
	"strconv"
	"strings"

	"weir/internal/jsontext"
	"weir/internal/longcopy"
)

// The functions of this file read values as pydantic does for the reference server, which
// takes some types for others: true for 1, and the text "0.5" for a number.

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
// refused although pydantic reads it (docs/interface/chat-completions.md, section 1.5).
func magnitude(v Raw) (n integer64, f *fault) {
	switch v.Kind() {
	case jsontext.Bool:
		if v[0] == 't' {
			n.mag = 1
		}
		return n, nil
	case jsontext.Number:
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

// zeros are more than a 64-bit integer can take after its first digit.
var zeros = []byte("00000000000000000000")

// exponent reads the digits after an e. Exponents beyond a billion mean the same
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
	s := v.SharedText() // it may have megabytes
	switch v.Kind() {
	case jsontext.Bool:
		if v[0] == 't' {
			return 1, nil
		}
		return 0, nil
	case jsontext.String:
		// ParseFloat also reads inf, nan, hexadecimal and underscores.
		if strings.Trim(s, "0123456789+-.eE") != "" {
			return 0, faultf("must be a number, got %s", clip(v))
		}
	case jsontext.Number:
	default:
		return 0, wrongType("a number", v)
	}
	x, err := jsontext.ParseFloat(s)
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
	switch v.Kind() {
	case jsontext.Bool:
		return v[0] == 't', nil
	case jsontext.Number:
		if x, f := number(v); f == nil && (x == 0 || x == 1) {
			return x == 1, nil
		}
		return false, faultf("must be a boolean, got %s", clip(v))
	case jsontext.String:
		if on, ok := ParseBool(v.Text()); ok {
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
	if v.Kind() != jsontext.String {
		return "", wrongType("a string", v)
	}
	return v.Text(), nil
}

// sharedText is text for what may be megabytes long. It shares the memory of the body where it
// can, so that what is to outlive the body has to be copied.
func sharedText(v Raw) (string, *fault) {
	if v.Kind() != jsontext.String {
		return "", wrongType("a string", v)
	}
	return v.SharedText(), nil
}

func object(v Raw) (Raw, *fault) {
	if v.Kind() != jsontext.Object {
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
	if v.Kind() != jsontext.Array {
		return nil, wrongType("an array", v)
	}
	out := []T{}
	for i, e := range v.Elements() {
		if i == limit {
			return nil, faultf("must have at most %d entries", limit)
		}
		x, f := read(e)
		if f != nil {
			return nil, f.index(i)
		}
		if len(out) == cap(out) {
			out = longcopy.Grow(out, len(out)/2+8) // lists may have a million entries
		}
		out = append(out, x)
	}
	return out, nil
}
