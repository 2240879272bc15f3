package tokenizer

import (
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// withPattern is a byte-level tokenizer that cuts words with a regular expression.
func withPattern(t *testing.T, pattern string) *Tokenizer {
	return mustLoad(t, marshal(t, tinyBytes(object{"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []any{
		object{"type": "Split", "pattern": object{"Regex": pattern}, "behavior": "Isolated"},
		object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
	}}})))
}

// TestTooComplex: a text that makes a regular expression backtrack too long, or
// remember too many alternatives, is refused after a number of steps that is linear in
// its length. The text after it is encoded as ever.
func TestTooComplex(t *testing.T) {
	for name, c := range map[string]struct{ pattern, text string }{
		"exponential":            {`(?:a+)+b|c`, strings.Repeat("a", 1000) + "c"},
		"quadratic":              {`a+b|c`, strings.Repeat("a", 20_000) + "c"},
		"quadratic look-ahead":   {`a(?!a*b)|c`, strings.Repeat("a", 20_000) + "b"},
		"in the second match":    {`(?:a+)+b|c`, "c" + strings.Repeat("a", 1000)},
		"many alternatives left": {`(?:ab|ac)+`, strings.Repeat("ab", maxFrames+1)},
	} {
		t.Run(name, func(t *testing.T) {
			tok := withPattern(t, c.pattern)
			before := []int32{7}
			if got, err := tok.Encode(before, c.text, true); !errors.Is(err, ErrTooComplex) || !slices.Equal(got, before) {
				t.Errorf("%d tokens, error %v", len(got), err)
			}
			re, err := compileRegex(c.pattern)
			if err != nil {
				t.Fatal(err)
			}
			steps := allow(budget(c.text))
			for i := 0; i < len(c.text) && !steps.spent(); {
				i, _ = (&splitter{matcher: re}).next(c.text, i, steps)
			}
			// One instruction may overdraw the budget by the run that it takes in.
			if !steps.spent() || steps.left < -len(c.text) {
				t.Errorf("%d steps left of %d", steps.left+steps.rest, budget(c.text))
			}
			if got, err := tok.Encode(nil, "ac", false); err != nil || tok.Decode(got, DecodeOptions{}) != "ac" {
				t.Errorf("the next text: %v, error %v", got, err)
			}
		})
	}
}

// TestPublishedPatternsStayInBudget: whatever the text, the published patterns take
// less than a quarter of their steps, even where the generic matcher has to match them.
func TestPublishedPatternsStayInBudget(t *testing.T) {
	most := 0
	for _, pattern := range []string{gpt2Pattern, llama3Pattern, qwen2Pattern, qwen35Pattern, o200kPattern, tekkenPattern, deepseekPattern} {
		re, err := compileRegex(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, unit := range []string{"a", "A", " ", "\n", "1", "!", "中", "\u0301", "Aa", "a ", " \n", "'s", "\x00"} {
			s, steps := strings.Repeat(unit, 3000), allow(1<<40)
			for i := 0; i < len(s); {
				i, _ = (&splitter{matcher: re}).next(s, i, steps)
			}
			spent := 1<<40 - steps.left - steps.rest
			most = max(most, spent/len(s))
			if spent > stepsPerByte/4*len(s) {
				t.Errorf("%q: %d steps for %d bytes of %q", pattern, spent, len(s), unit)
			}
		}
	}
	t.Logf("at most %d steps a byte", most)
}

// TestRegexMatchesStandardLibrary: where RE2 can express a pattern, both agree.
func TestRegexMatchesStandardLibrary(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, pattern := range []string{
		`a+`, `a+b|a`, `(?:a|ab)(?:c|bcd)d*`, `(?:ab|a)+b?`, `[^a\n]{2,3}x?`, `(?i:é|ab)+`, `\p{L}+\p{N}*|\s+`, `(?:a{2}|b{1,2})+`, `[a-c]*b[a-c]`, `.a|\n`,
		`(?:(?:a|b)*c|a)b?`, `a(?:b(?:c|d)?)?`, `\d+|\D`, `[\p{Lu}\p{Lt}]*[\p{Ll}é]+`,
	} {
		re, err := compileRegex(pattern)
		if err != nil {
			// A group that may match nothing cannot be repeated here.
			t.Fatalf("%q: %v", pattern, err)
		}
		std := regexp.MustCompile(`^(?:` + pattern + `)`)
		for range rounds(2000) {
			var b strings.Builder
			for range 1 + rng.IntN(12) {
				b.WriteString([]string{"a", "b", "c", "d", "A", "B", "é", "É", "1", "x", "\n", " ", "中"}[rng.IntN(13)])
			}
			s, want := b.String(), 0
			if loc := std.FindStringIndex(s); loc != nil {
				want = loc[1]
			}
			steps := allow(budget(s))
			if got := re.match(s, 0, steps); got != want {
				t.Fatalf("%q on %q: ends at %d, want %d", pattern, s, got, want)
			}
		}
	}
}
