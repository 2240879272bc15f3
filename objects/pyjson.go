package objects

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"weir/internal/jsontext"
	"weir/internal/pace"
)

// Digest is Weave's digest of a text: SHA-256 in URL-safe base64 without padding, with X for
// - and Y for _.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return strings.NewReplacer("-", "X", "_", "Y").Replace(base64.RawURLEncoding.EncodeToString(sum[:]))
}

// valueDigest is the digest of a JSON value: of the text that Python's json.dumps with
// sort_keys makes of it, because clients compute digests so.
func valueDigest(v jsontext.Value, m *pace.Meter) string { return Digest(appendPython(nil, v, m)) }

// tableDigest is the digest of a table: SHA-256 of the digests of its rows, in hexadecimal.
func tableDigest(rows []string) string {
	h := sha256.New()
	for _, r := range rows {
		h.Write([]byte(r))
	}
	return hex.EncodeToString(h.Sum(nil))
}

// appendPython appends a JSON value as Python's json.dumps(json.loads(text), sort_keys=True)
// writes it: with a space after commas and colons, names in the order of their code points,
// everything but printable ASCII escaped, and numbers as Python shows them. It is of no use
// if the meter has an error afterwards.
func appendPython(dst []byte, v jsontext.Value, m *pace.Meter) []byte {
	switch v.Kind() {
	case jsontext.Number:
		return appendNumber(dst, string(v))
	case jsontext.String:
		if m.Spend(8*len(v)) != nil {
			return dst
		}
		return appendPythonText(dst, v)
	case jsontext.Array:
		dst = append(dst, '[')
		for i, e := range v.Elements() {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			dst = appendPython(dst, e, m)
		}
		return append(dst, ']')
	case jsontext.Object:
		return appendObject(dst, v, m)
	}
	return append(dst, v...)
}

// appendObject appends an object. Of a name that occurs twice the last value counts.
func appendObject(dst []byte, v jsontext.Value, m *pace.Meter) []byte {
	type property struct {
		name  string // codePoints(key)
		key   jsontext.Value
		value jsontext.Value
	}
	var list []property
	for key, val := range v.RawMembers() {
		list = append(list, property{codePoints(key), key, val})
	}
	if m.Spend(len(v)*4) != nil {
		return dst
	}
	slices.SortStableFunc(list, func(a, b property) int { return strings.Compare(a.name, b.name) })
	dst = append(dst, '{')
	first := true
	for i := range list {
		if i+1 < len(list) && list[i+1].name == list[i].name {
			continue
		}
		if !first {
			dst = append(dst, ", "...)
		}
		first = false
		dst = append(appendPythonText(dst, list[i].key), ": "...)
		dst = appendPython(dst, list[i].value, m)
	}
	return append(dst, '}')
}

// runes are the code points of a JSON string as Python reads it: escapes of the two halves
// of a character become the character, and a half alone stays.
func runes(v jsontext.Value) (out []rune) {
	s := v[1 : len(v)-1]
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			r, n := utf8.DecodeRune(s[i:])
			out = append(out, r)
			i += n
			continue
		}
		if s[i+1] != 'u' {
			out = append(out, rune(escaped[s[i+1]]))
			i += 2
			continue
		}
		n, _ := strconv.ParseUint(string(s[i+2:i+6]), 16, 16)
		r := rune(n)
		i += 6
		if last := len(out) - 1; last >= 0 && isEscape(s, i-12) {
			if whole := utf16.DecodeRune(out[last], r); whole != utf8.RuneError {
				out[last] = whole
				continue
			}
		}
		out = append(out, r)
	}
	return out
}

// isEscape reports whether the six bytes at i may be an escape of half a character.
func isEscape(s jsontext.Value, i int) bool { return i >= 0 && s[i] == '\\' && s[i+1] == 'u' }

// escaped are the characters that stand after a backslash, and what they mean.
var escaped = map[byte]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// codePoints is a text that sorts as the code points of a JSON string do.
func codePoints(v jsontext.Value) string {
	var b []byte
	for _, r := range runes(v) {
		b = append(b, byte(r>>16), byte(r>>8), byte(r))
	}
	return string(b)
}

// appendPythonText appends a JSON string with everything escaped but printable ASCII.
func appendPythonText(dst []byte, v jsontext.Value) []byte {
	dst = append(dst, '"')
	for _, r := range runes(v) {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r >= ' ' && r <= '~':
			dst = append(dst, byte(r))
		case r == '\n':
			dst = append(dst, '\\', 'n')
		case r == '\r':
			dst = append(dst, '\\', 'r')
		case r == '\t':
			dst = append(dst, '\\', 't')
		case r == '\b':
			dst = append(dst, '\\', 'b')
		case r == '\f':
			dst = append(dst, '\\', 'f')
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			dst = appendUnit(appendUnit(dst, high), low)
		default:
			dst = appendUnit(dst, r)
		}
	}
	return append(dst, '"')
}

func appendUnit(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	return append(dst, '\\', 'u', hex[r>>12&15], hex[r>>8&15], hex[r>>4&15], hex[r&15])
}

// appendNumber appends a number as Python shows it: an integer in full, and another one with
// the fewest digits that make it, with an exponent below 1e-4 and from 1e16 on.
func appendNumber(dst []byte, s string) []byte {
	if !strings.ContainsAny(s, ".eE") {
		if s == "-0" {
			s = "0"
		}
		return append(dst, s...)
	}
	f, _ := strconv.ParseFloat(s, 64)
	switch {
	case math.IsInf(f, 1):
		return append(dst, "Infinity"...)
	case math.IsInf(f, -1):
		return append(dst, "-Infinity"...)
	case f == 0 || math.Abs(f) >= 1e-4 && math.Abs(f) < 1e16:
		at := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
		if !slices.Contains(dst[at:], '.') {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	return strconv.AppendFloat(dst, f, 'e', -1, 64) // such as 1e-07 and 1.5e+300
}
