package api

import (
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// plain marks the bytes that stand for themselves inside a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. The result is valid UTF-8 whatever s
// holds: each byte that is not part of a character becomes U+FFFD. Only what
// JSON demands is escaped; U+2028 and U+2029 are left as they are.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// appendEscape appends the escape of a quote, a backslash or a control character.
func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	}
	return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}

// appendASCII is AppendString with everything outside ASCII escaped.
func appendASCII(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf && plain[r]:
			dst = append(dst, byte(r))
		case r < 0x20 || r == '"' || r == '\\':
			dst = appendEscape(dst, byte(r))
		case r > 0xFFFF:
			high, low := utf16.EncodeRune(r)
			dst = appendHex4(appendHex4(dst, high), low)
		default:
			dst = appendHex4(dst, r)
		}
	}
	return append(dst, '"')
}

func appendHex4(dst []byte, r rune) []byte {
	return append(dst, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

func appendStringOrNull(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, "null"...)
	}
	return AppendString(dst, *s)
}

// minLogprob stands for everything below it, minus infinity included, and for
// what is no log-probability at all (spec 7.2): JSON has no word for infinity.
const minLogprob = -9999

// appendLogprob appends the shortest digits that read back as the same float32.
// A point or an exponent is always there, so that typed readers see a float;
// exponents (only below 1e-6) are spelt as encoding/json spells them.
func appendLogprob(dst []byte, x float32) []byte {
	if !(x >= minLogprob && x <= math.MaxFloat32) {
		x = minLogprob
	}
	if x == 0 {
		return append(dst, "0.0"...) // -0 too
	}
	if a := max(x, -x); a < 1e-6 || a >= 1e21 {
		dst = strconv.AppendFloat(dst, float64(x), 'e', -1, 32)
		if n := len(dst); dst[n-2] == '0' { // e-09 becomes e-9
			dst[n-2] = dst[n-1]
			dst = dst[:n-1]
		}
		return dst
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, float64(x), 'f', -1, 32)
	for _, c := range dst[start:] {
		if c == '.' {
			return dst
		}
	}
	return append(dst, ".0"...)
}
