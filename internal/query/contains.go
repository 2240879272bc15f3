package query

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/jsontext"
	"weir/internal/pace"
)

// contains evaluates $contains and $containsToken.
func (n *Expr) contains(r Row, m *pace.Meter) bool {
	of := n.Args[0]
	v := of.Eval(r, m)
	if of.Field.List && v.Kind == Composite {
		return n.among(v.Raw, m)
	}
	text := v.Scalar()
	switch v.Kind {
	case Missing, Null:
		return false
	case Composite: // its JSON is searched
		text = string(v.Raw)
	}
	if n.Fold {
		text = FoldText(text, m)
	}
	if n.Op == "$contains" {
		_, found := n.search.next(text, 0, m)
		return found
	}
	for from := 0; n.search.sub != ""; {
		at, found := n.search.next(text, from, m)
		if !found {
			return false
		}
		if !isWord(lastRune(text[:at])) && !isWord(firstRune(text[at+len(n.search.sub):])) {
			return true
		}
		from = at + 1
	}
	return false
}

// among reports whether the text that n looks for is an element of a list.
func (n *Expr) among(list jsontext.Value, m *pace.Meter) bool {
	for _, e := range list.Elements() {
		if e.Kind() != jsontext.String || m.Spend(pace.Compare+len(e)) != nil {
			continue
		}
		text := e.Text()
		if n.Fold {
			text = FoldText(text, m)
		}
		if text == n.search.sub {
			return true
		}
	}
	return false
}

// search finds a text in others. It takes time in proportion to their length, whatever the
// texts are: a token that occurs everywhere but never as a whole word would otherwise cost
// the product of both lengths (Knuth, Morris, Pratt: Fast Pattern Matching in Strings,
// SIAM Journal on Computing 6, 1977).
type search struct {
	sub string
	// fail[i] is the length of the longest text that sub[:i+1] both begins and ends with,
	// and that is shorter than it.
	fail []int32

	// Where the last call of next has stopped, in the same text.
	at, matched int
}

func newSearch(sub string) *search {
	s := &search{sub: sub, fail: make([]int32, len(sub))}
	k := 0
	for i := 1; i < len(sub); i++ {
		for k > 0 && sub[i] != sub[k] {
			k = int(s.fail[k-1])
		}
		if sub[i] == sub[k] {
			k++
		}
		s.fail[i] = int32(k)
	}
	return s
}

// searchGrain is how many bytes are looked at between two looks at the meter.
const searchGrain = 16 << 10

// next returns where the first occurrence in text begins that does not begin before from.
// A call with from > 0 goes on after the occurrence at from-1 that the last call found.
func (s *search) next(text string, from int, m *pace.Meter) (at int, ok bool) {
	if len(s.sub) > len(text) {
		return 0, false
	}
	if s.sub == "" {
		return from, true
	}
	if from == 0 {
		s.at, s.matched = 0, 0
	}
	for s.at < len(text) {
		end := min(len(text), s.at+searchGrain)
		if m.Spend(2*(end-s.at)) != nil {
			return 0, false
		}
		for s.at < end {
			for s.matched > 0 && text[s.at] != s.sub[s.matched] {
				s.matched = int(s.fail[s.matched-1])
			}
			if text[s.at] == s.sub[s.matched] {
				s.matched++
			}
			s.at++
			if s.matched == len(s.sub) {
				s.matched = int(s.fail[s.matched-1])
				return s.at - len(s.sub), true
			}
		}
	}
	return 0, false
}

func firstRune(s string) rune {
	if s == "" {
		return ' '
	}
	c, _ := utf8.DecodeRuneInString(s)
	return c
}

func lastRune(s string) rune {
	if s == "" {
		return ' '
	}
	c, _ := utf8.DecodeLastRuneInString(s)
	return c
}

func isWord(c rune) bool { return unicode.IsLetter(c) || unicode.IsDigit(c) }

// foldText replaces each letter by one that stands for it in all cases (Unicode's simple
// case folding). It returns less than the text if the meter stops the work.
func FoldText(s string, m *pace.Meter) string {
	var b strings.Builder
	for len(s) > 0 {
		end := min(len(s), searchGrain)
		for end < len(s) && !utf8.RuneStart(s[end]) {
			end++
		}
		if m.Spend(32*end) != nil {
			break
		}
		b.WriteString(strings.Map(foldRune, s[:end]))
		s = s[end:]
	}
	return b.String()
}

func foldRune(c rune) rune {
	least := c
	for f := unicode.SimpleFold(c); f != c; f = unicode.SimpleFold(f) {
		least = min(least, f)
	}
	return least
}
