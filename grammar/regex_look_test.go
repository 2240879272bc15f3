package grammar

import (
	"encoding/json"
	"os"
	"regexp"
	"testing"
)

// TestLookaround compares patterns with assertions with what Python's re says of all texts
// of up to five characters (tools/golden/lookaround.py).
func TestLookaround(t *testing.T) {
	text, err := os.ReadFile("testdata/lookaround.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Alphabet string
		Length   int
		Cases    map[string][]byte
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	var alphabet []string
	for _, c := range golden.Alphabet {
		alphabet = append(alphabet, string(c))
	}
	texts := textsByLength(golden.Length, alphabet)
	for pattern, want := range golden.Cases {
		d, ok := regexDFA(parseRegex(pattern, unmetered()), true, newBuilder(nil, 1<<20, unmetered()))
		if !ok {
			t.Errorf("%s: too many states", pattern)
			continue
		}
		for i, s := range texts {
			if got := d.match(s); got != (want[i/8]>>(i%8)&1 == 1) {
				t.Errorf("%s: %q: %t", pattern, s, got)
				break
			}
		}
		if d.all >= 0 && !d.states[d.all].accept {
			t.Errorf("%s: the state for all texts does not accept", pattern)
		}
	}
	if len(golden.Cases) < 100 {
		t.Errorf("only %d patterns", len(golden.Cases))
	}
}

// textsByLength are all texts of up to n characters, the shorter ones first, as Python's
// itertools.product has them.
func textsByLength(n int, alphabet []string) []string {
	texts, level := []string{""}, []string{""}
	for range n {
		var next []string
		for _, s := range level {
			for _, c := range alphabet {
				next = append(next, s+c)
			}
		}
		texts, level = append(texts, next...), next
	}
	return texts
}

// TestLookaroundInSchemas: patterns with assertions work together with lengths, with other
// patterns and as names, and a whole answer is matched with its end in sight.
func TestLookaroundInSchemas(t *testing.T) {
	checkTexts(t, []textCase{
		{"lengths", schema(`{"type":"string","pattern":"^(?!foo).*bar$","maxLength":2000,"minLength":5}`), []string{`"xxbar"`, `"fobar"`}, []string{`"foobar"`, `"xbar"`, `"xxbarx"`}},
		{"two patterns", schema(`{"allOf":[{"pattern":"^(?=.*[0-9])"},{"pattern":"^(?=.*[A-Z])"}],"type":"string"}`), []string{`"a1B"`}, []string{`"a1"`, `"B"`}},
		{"names", schema(`{"type":"object","patternProperties":{"^(?!@@)[@\\w]+$":{"type":"null"}},"additionalProperties":{"type":"boolean"}}`), []string{`{"@a":null}`, `{"@@a":true}`}, []string{`{"@a":true}`, `{"@@a":null}`}},
		{"whole answers", re(`(?!.*--)[a-z-]+(?<!-)`), []string{"a-b", "-b"}, []string{"a--b", "a-", ""}},
		{"words", re(`.*\bfoo\b.*`), []string{"a foo", "foo.", "foo"}, []string{"food", "afoo"}},
		{"no boundary in an empty text", re(`\B`), []string{""}, []string{"a"}},
		{"an assertion that repeats is not left out", schema(`{"type":"string","pattern":"^a(?:^|x){1}b$"}`), []string{`"axb"`}, []string{`"ab"`}},
	})
	for _, s := range []string{`(?<=a$)b`, `(?<=(?=a)a)b`, `(?=\ba)`, `(?!(?<=a)b)`} {
		_, err := compileFor(schema(`{"type":"string","pattern":`+quoteJSON(s)+`}`), testVocabulary)
		if e, ok := err.(*Error); !ok || e.Kind != ErrUnsupported || e.Path != "/pattern" {
			t.Errorf("%s: %v", s, err)
		}
	}
}

// TestRepetitionsAtTheEnds: where a match may begin or end anywhere, a repetition at its end
// makes no difference beyond its least count, and large ones need no states.
func TestRepetitionsAtTheEnds(t *testing.T) {
	texts := textsByLength(6, []string{"a", "b", "x"})
	for _, p := range []string{`a{1,3}x`, `xa{2,3}`, `a*x|b{2,}`, `(?:a*)(?:b{0,2})`, `a{0,2}b{0,2}x(?:ab){1,3}`, `^a{1,2}x`, `a{1,2}$`, `a{1,2}^`, `$a*`, `(?:^a){0,2}b`,
		`b(?:a$){0,2}`, `\bx{1,2}`, `x{1,2}\B`, `(?:a{1,2}|x)+b`, `(?:\ba|b){1,2}x`, `a{0}`, `(?:a{2}){1,2}`} {
		d, ok := regexDFA(parseRegex(p, unmetered()), true, newBuilder(nil, 1<<20, unmetered()))
		if !ok {
			t.Fatal(p)
		}
		oracle := regexp.MustCompile(p)
		for _, s := range texts {
			if got := d.match(s); got != oracle.MatchString(s) {
				t.Fatalf("%s: %q: %t", p, s, got)
			}
		}
	}
	for _, p := range []string{`[a-z]{1,3000}x`, `(a|b){1,20000}`, `.{0,90000}x.*`} {
		if d, ok := regexDFA(parseRegex(p, unmetered()), true, newBuilder(nil, 1<<20, unmetered())); !ok || len(d.states) > 50 {
			t.Errorf("%s: too many states", p)
		}
	}
}
