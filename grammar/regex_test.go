package grammar

import (
	"errors"
	"strings"
	"testing"
)

func TestRegex(t *testing.T) {
	checkTexts(t, []textCase{
		{"the whole text matches (docs/interface/chat-completions.md, C74)", re(`\d{3}`), []string{"123"}, []string{"12", "1234", "a123", "١٢٣"}},
		{"the empty expression", re(``), []string{""}, []string{"a"}},
		{"anchors change nothing", re(`^ab$`), []string{"ab"}, []string{"abb", ""}},
		{"anchors inside", re(`(?:^a|b$|x^y)c?`), []string{"a", "ac", "b"}, []string{"bc", "xy", "xyc"}},
		{"classes", re(`[^a-c\d]\w\s[\]\-\\]`), []string{"xz\u3000]", "é_ -"}, []string{"az ]", "xz  "}},
		{"counted beyond unrolling", re(`(?:ab?){3,500}c`), []string{"abaac", strings.Repeat("ab", 500) + "c"}, []string{"aac", strings.Repeat("a", 501) + "c"}},
		{"non-greedy and groups", re(`(?P<x>a+?)(?<y>b*?)(?:c)??`), []string{"a", "aabbc"}, []string{"b", "abcc"}},
		{"characters, not bytes", re(`.{2}`), []string{"é😀", "ab"}, []string{"é", "a\n"}},
		{"Unicode properties", re(`\p{Lu}\P{L}[\p{Script=Greek}]`), []string{"É1α"}, []string{"é1α", "Éaα", "É1a"}},
		{"escapes", re(`\x41\u00e9\u{1F600}\cJ\0`), []string{"Aé😀\n\x00"}, nil},
		{"properties of emoji", re(`\p{Extended_Pictographic}\P{Emoji_Component}\p{Emoji_Modifier}?`), []string{"😀a", "❤é🏽"}, []string{"aa", "😀1", "😀a😀"}},
		{"a brace that is no quantifier", re(`a{,b}{`), []string{"a{,b}{"}, nil},
		{"an empty loop", re(`(?:a*)*b`), []string{"b", "aab"}, []string{"a"}},
	})
	for _, s := range []string{`[`, `(`, `)`, `a**b(`, `*`, `\`, `[b-a]`, `a{3,2}`, `\x1`, `(?<>a)`} {
		if _, err := compileFor(re(s), testVocabulary); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", s, err)
		}
	}
	for _, s := range []string{`(?<=(?!a)b)c`, `(?=a\b)a`, `(a)\1`, `(?i)a`, `\p{Nonsense}`, `a++`} {
		if _, err := compileFor(re(s), testVocabulary); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%q: %v, want ErrUnsupported", s, err)
		}
	}
}
