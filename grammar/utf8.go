package grammar

import (
	"slices"
	"unicode/utf8"
)

// Characters in automata over bytes: ranges of characters become paths of the bytes
// of their UTF-8 encoding.

// runeRange adds paths from from to to that read one character of [lo, hi] without
// the surrogates, which UTF-8 cannot encode.
func (b *builder) runeRange(from, to int32, lo, hi rune) {
	for _, part := range [...][2]rune{{0, 0x7F}, {0x80, 0x7FF}, {0x800, 0xD7FF}, {0xE000, 0xFFFF}, {0x10000, 0x10FFFF}} {
		l, h := max(lo, part[0]), min(hi, part[1])
		if l > h {
			continue
		}
		b.byteRange(from, to, utf8.AppendRune(nil, l), utf8.AppendRune(nil, h))
	}
}

// byteRange adds paths for the encodings from lo to hi, which have the same length.
func (b *builder) byteRange(from, to int32, lo, hi []byte) {
	rest := len(lo) - 1
	if rest == 0 {
		b.edge(from, lo[0], hi[0], to)
		return
	}
	all := func(s []byte, v byte) bool { return !slices.ContainsFunc(s, func(c byte) bool { return c != v }) }
	first, last := []byte{0x80, 0x80, 0x80}[:rest], []byte{0xBF, 0xBF, 0xBF}[:rest]
	part := func(l, h byte, lo, hi []byte) {
		if all(lo, 0x80) && all(hi, 0xBF) {
			b.edge(from, l, h, b.rest(to, rest))
			return
		}
		s := b.state()
		b.edge(from, l, h, s)
		b.byteRange(s, to, lo, hi)
	}
	l, h := lo[0], hi[0]
	if l == h {
		part(l, l, lo[1:], hi[1:])
		return
	}
	if !all(lo[1:], 0x80) {
		part(l, l, lo[1:], last)
		l++
	}
	end := h
	if !all(hi[1:], 0xBF) {
		end--
	}
	if l <= end {
		part(l, end, first, last)
	}
	if end < h {
		part(h, h, first, hi[1:])
	}
}

// rest is the state from which any n continuation bytes lead to to.
func (b *builder) rest(to int32, n int) int32 {
	if n == 0 {
		return to
	}
	key := restKey{to, n}
	s, ok := b.rests[key]
	if !ok {
		s = b.state()
		b.edge(s, 0x80, 0xBF, b.rest(to, n-1))
		if b.rests == nil {
			b.rests = make(map[restKey]int32)
		}
		b.rests[key] = s
	}
	return s
}

type restKey struct {
	to int32
	n  int
}
