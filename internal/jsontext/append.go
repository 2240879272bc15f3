package jsontext

import (
	"unicode/utf16"
	"unicode/utf8"

	"weir/internal/longcopy"
)

// plain marks the bytes that stand for themselves inside a JSON string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. The result is valid UTF-8 whatever s holds:
// each byte that is not part of a character becomes U+FFFD. Only what JSON demands is
// escaped; U+2028 and U+2029 are left as they are.
func AppendString(dst []byte, s string) []byte {
	if len(s) > longcopy.Piece {
		dst = longcopy.Grow(dst, MaxLen(s))
	}
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
				dst = appendRun(dst, s[start:i])
				dst = append(dst, "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}
		dst = appendRun(dst, s[start:i])
		dst = appendEscape(dst, c)
		i++
		start = i
	}
	dst = appendRun(dst, s[start:])
	return append(dst, '"')
}

func appendRun(dst []byte, s string) []byte {
	if len(s) > longcopy.Piece {
		return longcopy.AppendString(dst, s)
	}
	return append(dst, s...)
}

// MaxLen returns a bound on the bytes that AppendString appends for a valid string: it is
// exceeded by none, and more than needed only for control characters.
func MaxLen(s string) int {
	n := len(s) + len(`""`)
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			n++
		case c < 0x20:
			n += len(`\u0000`) - 1
		}
	}
	return n
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

// AppendASCII is AppendString with everything outside ASCII escaped.
func AppendASCII(dst []byte, s string) []byte {
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

// AppendCompact appends v without the white space between its tokens. Everything else
// stays as it is written: numbers, escapes, the order of members.
func AppendCompact(dst []byte, v Value) []byte {
	for i := 0; i < len(v); {
		switch {
		case v[i] == '"':
			end := skipString(v, i)
			if end-i > longcopy.Piece {
				dst = longcopy.Append(dst, v[i:end])
			} else {
				dst = append(dst, v[i:end]...)
			}
			i = end
		case isSpace(v[i]):
			i++
		default:
			dst = append(dst, v[i])
			i++
		}
	}
	return dst
}
