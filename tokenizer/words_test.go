package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// mixedText returns n pieces of text of the kinds that the word patterns distinguish,
// in random order.
func mixedText(rng *rand.Rand, n int) string {
	parts := []string{"a", "B", "word", "WORD", "Ab", "ſ", "K", "ǅ", "ʰ", "ª", "é", "e\u0301", "\u0301", "\u0903", "中", "の", "カー", "한", "\u9fa5", "\u9fa6", "\u4dff", "\u303f", "\u3040", "\u30ff", "\u3100", "1", "23", "٣", "²", "Ⅷ",
		" ", "  ", "\u00a0", "\u3000", "\t", "\n", "\r\n", "\u2028", "'", "'s", "'S", "'ſ", "'ll", "'Re", "'VE", "’", "!", "?!", ".", ",", "/", "\\", "_", "$", "€", "+", "🙂", "\u200d", "\ufe0f", "\x00", "\x7f", "\u0085", "\U000E0001", "\U0010FFFD", "\uFFFD"}
	var b strings.Builder
	for range n {
		b.WriteString(parts[rng.IntN(len(parts))])
	}
	return b.String()
}

// TestWordsMatchRegex: each hand-written matcher finds what the generic one finds
// with the pattern it is registered for, at every position.
func TestWordsMatchRegex(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	texts := make([]string, 0, 4000)
	for _, s := range samples() {
		texts = append(texts, s.Text)
	}
	for range rounds(3000) {
		texts = append(texts, mixedText(rng, 1+rng.IntN(24)))
	}
	for _, pattern := range []string{gpt2Pattern, llama3Pattern, qwen2Pattern, qwen35Pattern, o200kPattern, tekkenPattern, deepseekPattern,
		kanaHanPattern, `\p{N}`, `\p{N}{1,3}`, `\p{N}+`} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			fast := knownPattern(pattern)
			slow, err := compileRegex(pattern)
			if fast == nil || err != nil {
				t.Fatalf("%v, %v", fast, err)
			}
			for _, s := range texts {
				compareMatchers(t, fast, slow, s)
			}
		})
	}
}

// compareMatchers compares matches at every position of the beginning of s, which has
// all that a long sample has, and searches at some of them.
func compareMatchers(t *testing.T, fast matcher, slow *regex, s string) {
	const longest = 1000
	for i := range s[:min(longest, len(s))] {
		steps := allow(budget(s))
		if got, want := fast.match(s, i, nil), slow.match(s, i, steps); got != want {
			t.Fatalf("at %d of %q: match ends at %d, want %d", i, s, got, want)
		}
		if i%7 != 0 || i >= 100 {
			continue
		}
		steps = allow(budget(s))
		if got, want := fast.find(s, i, nil), slow.find(s, i, steps); got != want {
			t.Fatalf("after %d of %q: next match at %d, want %d", i, s, got, want)
		}
	}
}
