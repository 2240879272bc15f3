package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// toValid replaces each maximal invalid subpart by U+FFFD, which the Unicode standard
// (version 15, section 3.9) calls best practice, as Python and Rust do.
func toValid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string(appendLossy(make([]byte, 0, len(s)+len(s)/2), []byte(s)))
}

// appendLossy appends b with each maximal invalid subpart replaced by U+FFFD. Go's own
// conversions would replace each byte of it.
func appendLossy(dst, b []byte) []byte {
	for len(b) > 0 {
		r, w := utf8.DecodeRune(b)
		if r == utf8.RuneError && w == 1 {
			w = subpart(b)
			dst = append(dst, "\uFFFD"...)
		} else {
			dst = append(dst, b[:w]...)
		}
		b = b[w:]
	}
	return dst
}

// subpart returns the length of the maximal invalid subpart at the start of b:
// the longest prefix that could have begun a valid sequence, at least one byte.
func subpart(b []byte) int {
	lo, hi, n := byte(0x80), byte(0xBF), 1
	switch c := b[0]; {
	case c < 0xC2 || c > 0xF4:
		return 1
	case c == 0xE0:
		lo, n = 0xA0, 3
	case c == 0xED:
		hi, n = 0x9F, 3
	case c == 0xF0:
		lo, n = 0x90, 4
	case c == 0xF4:
		hi, n = 0x8F, 4
	case c < 0xE0:
		n = 2
	case c < 0xF0:
		n = 3
	default:
		n = 4
	}
	i := 1
	for i < min(n, len(b)) && lo <= b[i] && b[i] <= hi {
		lo, hi = 0x80, 0xBF
		i++
	}
	return i
}

// A normalizer rewrites a stretch of text between added tokens.
type normalizer func(string) string

func prepend(prefix string) normalizer {
	return func(s string) string {
		if s == "" {
			return s
		}
		return prefix + s
	}
}

func replace(from, to string) normalizer {
	return func(s string) string { return strings.ReplaceAll(s, from, to) }
}

// nfc returns s in normalization form C. The tables of Hugging Face's library are of an
// older version of Unicode: marks that are newer, such as U+10F83, keep their place among
// other marks there and are put in order here.
//
// x/text inserts U+034F after 30 combining marks (the stream-safe format of UAX #15),
// which Hugging Face's library does not do. Text with so many is composed by
// composeMarks, which is slower.
func nfc(s string) string {
	n := norm.NFC.QuickSpanString(s) // unlike IsNormalString it allocates nothing
	switch {
	case n == len(s):
		return s
	case manyMarks(s[n:]):
		return s[:n] + composeMarks(s[n:])
	}
	return norm.NFC.String(s)
}

// manyMarks reports whether s has a run of combining marks that may decompose
// into 30 or more: one code point decomposes into at most three.
func manyMarks(s string) bool {
	n := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			n = 0
			i++
			continue
		}
		p := norm.NFC.PropertiesString(s[i:])
		if n++; p.CCC() == 0 && p.TrailCCC() == 0 {
			n = 0
		}
		if n == 10 {
			return true
		}
		i += max(p.Size(), 1)
	}
	return false
}

// composeMarks is the algorithm of UAX #15: decompose, order the marks, compose.
func composeMarks(s string) string {
	type char struct {
		r   rune
		ccc uint8
	}
	chars := make([]char, 0, len(s)/2)
	add := func(s string) {
		for i, r := range s {
			chars = append(chars, char{r, norm.NFD.PropertiesString(s[i:]).CCC()})
		}
	}
	for i, r := range s {
		// Hangul syllables have no listed decomposition: they are composed already.
		if d := norm.NFD.PropertiesString(s[i:]).Decomposition(); d != nil {
			add(string(d))
		} else {
			add(string(r))
		}
	}
	for i := 0; i < len(chars); {
		j := i
		for j < len(chars) && chars[j].ccc != 0 {
			j++
		}
		slices.SortStableFunc(chars[i:j], func(a, b char) int { return int(a.ccc) - int(b.ccc) })
		i = j + 1
	}
	out := chars[:0]
	starter := -1
	for _, c := range chars {
		if starter >= 0 {
			last := out[len(out)-1]
			if len(out)-1 == starter || last.ccc < c.ccc {
				if r, ok := composePair(out[starter].r, c.r); ok {
					out[starter].r = r
					continue
				}
			}
		}
		if c.ccc == 0 {
			starter = len(out)
		}
		out = append(out, c)
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, c := range out {
		b.WriteRune(c.r)
	}
	return b.String()
}

// composePair returns the primary composite of two code points. The tables are
// x/text's own; it has no function for one pair.
func composePair(a, b rune) (rune, bool) {
	var buf, res [2 * utf8.UTFMax]byte
	pair := utf8.AppendRune(utf8.AppendRune(buf[:0], a), b)
	both := norm.NFC.Append(res[:0], pair...)
	r, w := utf8.DecodeRune(both)
	return r, w == len(both)
}
