package trajectory

import (
	"strconv"
	"unicode/utf8"

	"weir/internal/jsontext"
)

// Value is a JSON value without white space between tokens.
type Value = jsontext.Value

// Pace lets work on a large value be stopped. The result means nothing then; nil never stops
// anything.
type Pace = jsontext.Pace

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
