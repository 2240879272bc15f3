package jsontext

import (
	"strconv"
	"strings"
)

// longNumber is the length in bytes from which on ParseFloat shortens a number first.
const longNumber = 4096

// ParseFloat is strconv.ParseFloat(s, 64) for decimal numbers that may have megabytes. The
// runtime cannot interrupt strconv's, and a garbage collection waits for it with the whole
// process. It reads no inf, nan, hexadecimal numbers and underscores if s is longer than that.
func ParseFloat(s string) (float64, error) {
	if len(s) > longNumber {
		short, ok := shorten(s)
		if !ok {
			return 0, strconv.ErrSyntax
		}
		s = short
	}
	return strconv.ParseFloat(s, 64)
}

// keptDigits is more than the 767 digits by which two neighbouring float64s and the middle
// between them can be told apart. What follows them can only say that there is more. It is less
// than the 800 digits beyond which strconv takes whole numbers for smaller ones.
const keptDigits = 790

// shorten returns a short number that rounds to the same float64. It reports false if s is not
// a decimal number.
func shorten(s string) (short string, ok bool) {
	sign := ""
	if s[0] == '-' || s[0] == '+' {
		sign, s = s[:1], s[1:]
	}
	whole, s := cutDigits(s)
	fraction := ""
	if len(s) > 0 && s[0] == '.' {
		fraction, s = cutDigits(s[1:])
	}
	exponent, ok := exponentOf(s)
	if !ok || whole == "" && fraction == "" {
		return "", false
	}
	exponent -= len(fraction) // of all digits as a whole number
	whole = strings.TrimLeft(whole, "0")
	if whole == "" {
		fraction = strings.TrimLeft(fraction, "0")
	}
	first := whole[:min(len(whole), keptDigits)]
	second := fraction[:min(len(fraction), keptDigits-len(first))]
	last := "0"
	if strings.TrimLeft(whole[len(first):], "0") != "" || strings.TrimLeft(fraction[len(second):], "0") != "" {
		last = "1" // it stands for all that is left out
	}
	exponent += len(whole) + len(fraction) - len(first) - len(second) - len(last)
	return sign + first + second + last + "e" + strconv.Itoa(exponent), true
}

// cutDigits cuts the digits off that s begins with.
func cutDigits(s string) (digits, rest string) {
	n := 0
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return s[:n], s[n:]
}

// exponentOf reads an exponent with its e; without one it is 0. No number has as many digits as
// would make up for an exponent of a billion.
func exponentOf(s string) (n int, ok bool) {
	if s == "" {
		return 0, true
	}
	if s[0] != 'e' && s[0] != 'E' {
		return 0, false
	}
	s = s[1:]
	negative := s != "" && s[0] == '-'
	if s != "" && (s[0] == '-' || s[0] == '+') {
		s = s[1:]
	}
	if s == "" {
		return 0, false
	}
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		n = min(n*10+int(s[i]-'0'), 1_000_000_000)
	}
	if negative {
		n = -n
	}
	return n, true
}
