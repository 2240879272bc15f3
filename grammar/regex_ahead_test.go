package grammar

import (
	"errors"
	"testing"
)

// backtrack is the plain reading of an expression: it tries all ways to match n at text[i:]
// and calls then for the end of each match.
func backtrack(n *rx, text []rune, i int, then func(i int) bool) bool {
	switch n.kind {
	case rxSet:
		if i == len(text) {
			return false
		}
		for _, r := range n.set {
			if r[0] <= text[i] && text[i] <= r[1] {
				return then(i + 1)
			}
		}
		return false
	case rxCat:
		if len(n.subs) == 0 {
			return then(i)
		}
		rest := &rx{kind: rxCat, subs: n.subs[1:]}
		return backtrack(n.subs[0], text, i, func(i int) bool { return backtrack(rest, text, i, then) })
	case rxAlt:
		for _, s := range n.subs {
			if backtrack(s, text, i, then) {
				return true
			}
		}
		return false
	case rxRepeat:
		return backtrackRepeat(n, text, i, then)
	case rxBegin:
		return i == 0 && then(i)
	case rxEnd:
		return i == len(text) && then(i)
	}
	return backtrack(n.subs[0], text, i, func(int) bool { return true }) != n.not && then(i)
}

func backtrackRepeat(n *rx, text []rune, i int, then func(i int) bool) bool {
	if n.lo <= 0 && then(i) {
		return true
	}
	if n.hi == 0 {
		return false
	}
	less := &rx{kind: rxRepeat, subs: n.subs, lo: n.lo - 1, hi: max(-1, n.hi-1)}
	return backtrack(n.subs[0], text, i, func(k int) bool {
		return (k > i || n.lo > 0) && backtrack(less, text, k, then)
	})
}

// eachText calls f for all texts of up to n of the characters.
func eachText(characters string, n int, f func(text string)) {
	texts := []string{""}
	for range n + 1 {
		var longer []string
		for _, t := range texts {
			f(t)
			for _, c := range characters {
				longer = append(longer, t+string(c))
			}
		}
		texts = longer
	}
}

// TestLookahead compares the automata of expressions with lookahead with backtracking.
func TestLookahead(t *testing.T) {
	for _, c := range []struct {
		pattern, characters string
		length              int
	}{
		// Decimal in Pydantic up to 2.13, without and with a number of digits.
		{`^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$`, "-+.07x", 6},
		{`^(?!^[-+.]*$)[+-]?0*(?:\d{0,2}|(?=[\d.]{1,4}0*$)\d{0,2}\.\d{0,1}0*$)`, "-.01", 7},
		// Durations in zod.
		{`^P(?:(\d+W)|(?!.*W)(?=\d|T\d)(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+([.,]\d+)?S)?)?)$`, "P1TYMWS", 6},
		// Names of hosts in zod, shorter.
		{`^(?=.{1,4}\.?$)[a-z0-9](?:[a-z0-9-]{0,2}[a-z0-9])?(?:\.[a-z0-9](?:[-0-9a-z]{0,1}[0-9a-z])?)*\.?$`, "a-.", 7},
		// Passwords.
		{`^(?=.*[A-Z])(?=.*\d)(?!.*\s)[A-Za-z\d ]{2,4}$`, "aA1 ", 5},
		{`(?=.*a)(?=.*b).{2}`, "abc", 5},
		{`^(?!foo|fo$)f.*`, "fo", 5},
		{`a(?!b)`, "abc", 4},
		{`^a(?=b)|c(?=d)|^$`, "abcd", 4},
		{`x(?:a(?=bx)b|(?!c).)?x$`, "xabc", 5},
		{`(?:^|,)a(?!=)`, "a,=", 4},
		{`^(?:(?!ab)[ab]){1,3}$`, "ab", 5},
		{`^(?=(?!b)a?)b?$`, "ab", 3},
		{`^(?!)a?$`, "ab", 2},
		{`^(?=$)`, "a", 2},
		{`^[^é](?!é)`, "éa", 3},
	} {
		n := parseRegex(c.pattern)
		if !n.looksAhead() {
			t.Fatalf("%s: no lookahead was read", c.pattern)
		}
		for _, search := range []bool{true, false} {
			d, ok := regexDFA(n, search, newBuilder(nil, 0, unmetered()))
			if !ok {
				t.Errorf("%s: too many states", c.pattern)
				continue
			}
			eachText(c.characters, c.length, func(text string) {
				want, runes := false, []rune(text)
				for i := range len(runes) + 1 {
					if search || i == 0 {
						want = want || backtrack(n, runes, i, func(end int) bool { return search || end == len(runes) })
					}
				}
				if d.match(text) != want {
					t.Errorf("%s (search %t): %q: %t, want %t", c.pattern, search, text, !want, want)
				}
			})
		}
	}
}

func TestLookaheadRefused(t *testing.T) {
	for _, p := range []string{`^(?:(?!ab).)*$`, `(?<=a)b`, `(?<!a)b`, `(?=a)+b`, `x(?=^a)`, `(?=a`, `(?=.*a)^b`, `^(?:(?=a).){70}$`} {
		g, err := compileFor(schema(`{"type":"string","pattern":`+quoteJSON(p)+`}`), testVocabulary)
		if e := (*Error)(nil); !errors.As(err, &e) {
			t.Errorf("%s: %v, %v", p, g, err)
		} else if e.Path != "/pattern" {
			t.Errorf("%s: the path is %q: %v", p, e.Path, err)
		}
	}
	checkTexts(t, []textCase{
		{"a regular expression with lookahead", re(`(?!a)[a-c]{2}`), []string{"bc", "ca"}, []string{"ab", "b"}},
		{"a pattern with lookahead", schema(`{"type":"string","pattern":"^(?!.*--)[a-z-]+$","maxLength":5}`), []string{`"a-b-c"`}, []string{`"a--b"`, `"a-b-cd"`, `""`}},
		{"names with lookahead", schema(`{"patternProperties":{"^(?!x)":{"type":"null"},"^x":{"type":"integer"}},"additionalProperties":false}`), []string{`{"a":null,"x":1}`}, []string{`{"a":1}`, `{"xa":null}`}},
	})
}
