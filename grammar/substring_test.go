package grammar

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSubstrings compares the automaton of substrings with all substrings, of sequences
// over few and over many different texts.
func TestSubstrings(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	texts := []string{"a", "b", "ab", "ba", "", "aa"}
	for round := range 200 {
		list := make([]string, rng.IntN(12))
		for i := range list {
			list[i] = texts[rng.IntN(1+rng.IntN(len(texts)))]
		}
		in := map[string]bool{"": true}
		for i := range list {
			for j := i; j <= len(list); j++ {
				in[strings.Join(list[i:j], "")] = true
			}
		}
		g := mustCompile(t, notation(fmt.Sprintf("start: %%regex {\"substring_chunks\": %s}", dump(t, list))), testVocabulary)
		for text := range in {
			if !g.accepts(text) {
				t.Fatalf("round %d: %q rejects %q", round, list, text)
			}
		}
		for range 60 {
			var b strings.Builder
			for range rng.IntN(10) {
				b.WriteByte("ab"[rng.IntN(2)])
			}
			if g.accepts(b.String()) != in[b.String()] {
				t.Fatalf("round %d: %q accepts %q", round, list, b.String())
			}
		}
	}
}

// TestSubstringsOfLongTexts: what repeats does not make the automaton of quadratic size.
func TestSubstringsOfLongTexts(t *testing.T) {
	for _, text := range []string{strings.Repeat("a", 20_000), strings.Repeat("lorem ipsum dolor sit amet ", 1000)} {
		for _, how := range []string{"substring_chars", "substring_words"} {
			g := mustCompile(t, notation(fmt.Sprintf("start: %%regex {%q: %q}", how, text)), testVocabulary)
			if !g.accepts(text) || !g.accepts("") || g.accepts("b") {
				t.Errorf("%s of %.12q: wrong texts", how, text)
			}
		}
	}
}
