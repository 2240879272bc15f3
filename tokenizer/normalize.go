package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"weir/internal/longcopy"
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
		if cap(dst)-len(dst) < utf8.UTFMax {
			dst = longcopy.Grow(dst, utf8.UTFMax)
		}
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

// A normalizer rewrites a stretch of text between added tokens. If the allowance ends, the
// result does not matter.
type normalizer func(*allowance, string) string

func prepend(prefix string) normalizer {
	return func(_ *allowance, s string) string {
		if s == "" {
			return s
		}
		return prefix + s
	}
}

func replace(from, to string) normalizer {
	return func(_ *allowance, s string) string { return strings.ReplaceAll(s, from, to) }
}

// nfc returns s in normalization form C. The tables of Hugging Face's library are of an
// older version of Unicode: marks that are newer, such as U+10F83, keep their place among
// other marks there and are put in order here.
//
// x/text inserts U+034F after 30 combining marks (the stream-safe format of UAX #15),
// which Hugging Face's library does not do. Text with so many is composed by
// composeMarks, which is slower.
//
// A long text is normalized part by part, so that the work can be stopped.
func nfc(allow *allowance, s string) string { return nfcParts(allow, s, workSlice) }

// nfcParts is nfc with parts of at least so many bytes.
func nfcParts(allow *allowance, s string, size int) string {
	var b strings.Builder
	kept := 0 // s[:kept] is in b
	for i := 0; i < len(s); {
		end := boundary(norm.NFC, s, i+size)
		part := s[i:end]
		if !allow.work(len(part)) {
			return s
		}
		n := norm.NFC.QuickSpanString(part) // unlike IsNormalString it allocates nothing
		if n < len(part) {
			b.WriteString(s[kept:i])
			if manyMarks(part[n:]) {
				b.WriteString(part[:n])
				b.WriteString(composeMarks(allow, norm.NFC, part[n:]))
			} else {
				b.WriteString(norm.NFC.String(part))
			}
			kept = end
		}
		i = end
	}
	if kept == 0 {
		return s
	}
	b.WriteString(s[kept:])
	return b.String()
}

// boundary returns the first index from i on at which a code point begins that is neither
// composed nor put in another order with those before it.
func boundary(form norm.Form, s string, i int) int {
	for ; i < len(s); i++ {
		if utf8.RuneStart(s[i]) && form.PropertiesString(s[i:]).BoundaryBefore() {
			return i
		}
	}
	return len(s)
}

// manyMarks reports whether s has a run of combining marks, or of others that are composed
// with what is before them, that may decompose into 30 or more: one code point decomposes
// into at most three.
func manyMarks(s string) bool {
	n := 0
	for i := 0; i < len(s); {
		if s[i] < utf8.RuneSelf {
			n = 0
			i++
			continue
		}
		p := norm.NFC.PropertiesString(s[i:])
		if n++; p.CCC() == 0 && p.TrailCCC() == 0 && p.BoundaryBefore() {
			n = 0
		}
		if n == 10 {
			return true
		}
		i += max(p.Size(), 1)
	}
	return false
}

// composedChar is a code point with its canonical combining class.
type composedChar struct {
	r   rune
	ccc uint8
}

// composeMarks is the algorithm of UAX #15: decompose, order the marks, and compose if the form
// is NFC or NFKC.
func composeMarks(allow *allowance, form norm.Form, s string) string {
	decompose := norm.NFD
	if form == norm.NFKC || form == norm.NFKD {
		decompose = norm.NFKD
	}
	chars := make([]composedChar, 0, len(s)/2)
	add := func(s string) {
		for i, r := range s {
			chars = append(chars, composedChar{r, norm.NFD.PropertiesString(s[i:]).CCC()})
		}
	}
	for i, r := range s {
		if !allow.work(16) {
			return s
		}
		// Hangul syllables have no listed decomposition: they are composed already, or
		// decomposed below.
		if d := decompose.PropertiesString(s[i:]).Decomposition(); d != nil {
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
		orderMarks(chars[i:j])
		i = j + 1
	}
	var b strings.Builder
	b.Grow(len(s))
	if form == norm.NFD || form == norm.NFKD {
		for _, c := range chars {
			b.WriteString(norm.NFD.String(string(c.r))) // of Hangul
		}
		return b.String()
	}
	for _, c := range composeChars(chars) {
		b.WriteRune(c.r)
	}
	return b.String()
}

// composeChars composes decomposed characters whose marks are in order. It overwrites them.
func composeChars(chars []composedChar) []composedChar {
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
	return out
}

// orderMarks sorts marks by their class and keeps the order of those with the same. A run
// may be as long as the text, so that many are sorted by counting.
func orderMarks(marks []composedChar) {
	if len(marks) <= 64 {
		slices.SortStableFunc(marks, func(a, b composedChar) int { return int(a.ccc) - int(b.ccc) })
		return
	}
	var at [257]int // by class: where its next mark goes
	for _, c := range marks {
		at[int(c.ccc)+1]++
	}
	for i := range 256 {
		at[i+1] += at[i]
	}
	for _, c := range slices.Clone(marks) {
		marks[at[c.ccc]] = c
		at[c.ccc]++
	}
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
