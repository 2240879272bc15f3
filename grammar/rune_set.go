package grammar

import (
	"slices"
	"unicode"
	"unicode/utf8"
)

// runeSet is a set of characters as inclusive ranges.
type runeSet [][2]rune

var (
	digits    = runeSet{{'0', '9'}}
	wordChars = runeSet{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}
	spaces    = runeSet{{9, 13}, {32, 32}, {0xA0, 0xA0}, {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
		{0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}}
	anyChar = runeSet{{0, utf8.MaxRune}}
)

func (s runeSet) single() bool { return len(s) == 1 && s[0][0] == s[0][1] }

// normal sorts and joins the ranges.
func (s runeSet) normal() runeSet {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b [2]rune) int { return int(a[0]) - int(b[0]) })
	var res runeSet
	for _, r := range s {
		if n := len(res); n > 0 && r[0] <= res[n-1][1]+1 {
			res[n-1][1] = max(res[n-1][1], r[1])
		} else {
			res = append(res, r)
		}
	}
	return res
}

// invert is the set of all other characters.
func (s runeSet) invert() runeSet {
	var res runeSet
	next := rune(0)
	for _, r := range s.normal() {
		if r[0] > next {
			res = append(res, [2]rune{next, r[0] - 1})
		}
		next = r[1] + 1
	}
	if next <= utf8.MaxRune {
		res = append(res, [2]rune{next, utf8.MaxRune})
	}
	return res
}

func tableSet(t *unicode.RangeTable) runeSet {
	var s runeSet
	add := func(lo, hi, stride rune) {
		if stride == 1 {
			s = append(s, [2]rune{lo, hi})
			return
		}
		for r := lo; r <= hi; r += stride {
			s = append(s, [2]rune{r, r})
		}
	}
	for _, r := range t.R16 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	for _, r := range t.R32 {
		add(rune(r.Lo), rune(r.Hi), rune(r.Stride))
	}
	return s.normal()
}

// fold adds the other case of the ASCII letters.
func (s runeSet) fold() runeSet {
	res := slices.Clone(s)
	for _, r := range s {
		for c := max(r[0], 'A'); c <= min(r[1], 'z'); c++ {
			if unicode.IsLetter(c) {
				res = append(res, [2]rune{c ^ 0x20, c ^ 0x20})
			}
		}
	}
	return res.normal()
}
