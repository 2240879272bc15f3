package tokenizer

import (
	"slices"
	"unicode/utf8"
)

// characters has the symbols that merging starts from in a vocabulary that is not
// byte-level.
type characters struct {
	ids      map[rune]int32
	ascii    [utf8.RuneSelf]int32 // the same for ASCII; -1 if there is none
	bytes    [256]int32           // the <0xNN> tokens, with fallback
	fallback bool                 // a character without a token becomes the tokens of its bytes
	unknown  unknowns             // what it becomes without fallback
	// lacking, with fallback, are the characters of pieces that are no tokens themselves, from
	// the id lost on: merges need a token for them, and what is left of it becomes bytes.
	lacking []rune
	lost    int32

	// joins holds the pairs of characters that some merge brings together: the last
	// character of its left part and the first of its right part. near holds the same for
	// pairs of ASCII characters and the space mark, which are most of them.
	joins map[uint64]struct{}
	near  [nearChars][nearChars]bool
}

const (
	spaceMark = '▁'
	nearChars = utf8.RuneSelf + 1
)

func nearIndex(r rune) int {
	if r == spaceMark {
		return utf8.RuneSelf
	}
	return int(r)
}

func joinKey(a, b rune) uint64 { return uint64(a)<<32 | uint64(b) }

func (c *characters) join(a, b rune) {
	if x, y := nearIndex(a), nearIndex(b); x < nearChars && y < nearChars {
		c.near[x][y] = true
	} else {
		c.joins[joinKey(a, b)] = struct{}{}
	}
}

// joined reports whether a word must not be cut between a and b.
func (c *characters) joined(a, b rune) bool {
	if x, y := nearIndex(a), nearIndex(b); x < nearChars && y < nearChars {
		if c.near[x][y] {
			return true
		}
	} else if _, ok := c.joins[joinKey(a, b)]; ok {
		return true
	}
	return c.unknown.fuse && !c.fallback && c.symbol(a) < 0 && c.symbol(b) < 0
}

// symbol returns the token of a character, or -1.
func (c *characters) symbol(r rune) int32 {
	if r < utf8.RuneSelf {
		return c.ascii[r]
	}
	if id, ok := c.ids[r]; ok {
		return id
	}
	return -1
}

// symbols appends the tokens of the characters of s.
func (c *characters) symbols(dst []int32, s string) []int32 {
	before := false
	for _, r := range s {
		switch id := c.symbol(r); {
		case id >= 0:
			dst, before = append(dst, id), false
		case c.fallback:
			var buf [utf8.UTFMax]byte
			for _, b := range utf8.AppendRune(buf[:0], r) {
				dst = append(dst, c.bytes[b])
			}
		default:
			dst, before = c.unknown.add(dst, before), true
		}
	}
	return dst
}

// lose gives characters that are parts of a piece tokens to merge.
func (c *characters) lose(piece string) {
	if utf8.RuneCountInString(piece) < 2 {
		return
	}
	for _, r := range piece {
		if c.symbol(r) >= 0 || r == utf8.RuneError {
			continue
		}
		id := c.lost + int32(len(c.lacking))
		if c.lacking = append(c.lacking, r); r < utf8.RuneSelf {
			c.ascii[r] = id
		} else {
			c.ids[r] = id
		}
	}
}

// restore replaces what is left of such tokens by those of the bytes. The tokens from start on
// are looked at.
func (c *characters) restore(out []int32, start int) []int32 {
	for i := start; i < len(out); i++ {
		if out[i] < c.lost {
			continue
		}
		var bytes [utf8.UTFMax]int32
		var room [utf8.UTFMax]byte
		n := 0
		for _, b := range utf8.AppendRune(room[:0], c.lacking[out[i]-c.lost]) {
			bytes[n] = c.bytes[b]
			n++
		}
		out = slices.Replace(out, i, i+1, bytes[:n]...)
		i += n - 1
	}
	return out
}

// unknowns says what becomes of symbols that the vocabulary lacks.
type unknowns struct {
	id   int32 // the token that they become; -1: they are left out
	fuse bool  // several in a row become one token
}

// add appends an unknown symbol. before says that the symbol before it was unknown too.
func (u unknowns) add(dst []int32, before bool) []int32 {
	if u.id < 0 || before && u.fuse {
		return dst
	}
	return append(dst, u.id)
}
