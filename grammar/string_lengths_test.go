package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// lengthPatterns are patterns that have texts of few lengths, of all lengths, and of lengths
// with gaps between them; with escapes, and characters of several bytes.
var lengthPatterns = []string{`^[ab]+$`, `^a*$`, `a@b`, `^\S+@\S+$`, `^(ab)*$`, `^(aba)+b?$`, `^(a|bbb)$`, `^a{2,5}$`, `^(é|a"b|@@@@)*$`, `^(?:[ab]+@){0,3}b$`,
	`^[^a]*a[^a]*$`, `^(a|bb|@@@@@@)(é|bbbb)?$`, `^a\n?("|é)*$`, `^$`, `^(aaaa)*(b|@)?$`, `^(é@|é"a|éb)+$`}

// TestCountedStrings compares the texts of languages that are counted by counters with what
// regular expressions of Go and the number of characters say, for all short texts, and
// checks that no text gets into a dead end. The counters give up only where the lengths of
// the texts have gaps.
func TestCountedStrings(t *testing.T) {
	texts := allTexts(5, "a", "b", "@", `"`, "é", "\n")
	given := 0
	for _, pattern := range lengthPatterns {
		d, ok := regexDFA(parseRegex(pattern, unmetered()), true, newBuilder(nil, 1<<20, unmetered()))
		if !ok {
			t.Fatal(pattern)
		}
		oracle := regexp.MustCompile(strings.ReplaceAll(pattern, `\S`, `[^\n]`))
		for _, bound := range [][2]int64{{0, 0}, {0, 3}, {2, 2}, {1, 4}, {3, -1}, {4, 5}, {2, 3}, {0, 4}, {5, 5}, {5, 4}, {3, 9}} {
			name := fmt.Sprint(pattern, bound)
			g, ok := compileCounted(d, bound[0], bound[1])
			if !ok {
				given++
				if bound[0] == 0 || bound[1] < 0 {
					t.Errorf("%s: given up", name)
				}
				continue
			}
			checkStrings(t, name, g, texts, func(s string) bool {
				n := int64(utf8.RuneCountInString(s))
				return oracle.MatchString(s) && n >= bound[0] && (bound[1] < 0 || n <= bound[1])
			})
		}
	}
	if given == 0 || given > 40 {
		t.Errorf("%d combinations were given up", given)
	}
}

// allTexts are the texts of up to n characters of an alphabet.
func allTexts(n int, alphabet ...string) []string {
	texts, from := []string{""}, 0
	for range n {
		to := len(texts)
		for _, s := range texts[from:to] {
			for _, c := range alphabet {
				texts = append(texts, s+c)
			}
		}
		from = to
	}
	return texts
}

// checkStrings checks that g, which is nil if no string satisfies it, accepts those of the
// texts for which want is true, as JSON strings, and that no text gets into a dead end.
func checkStrings(t *testing.T, name string, g *Grammar, texts []string, want func(s string) bool) {
	t.Helper()
	for _, s := range texts {
		if got := g != nil && g.accepts(quoteJSON(s)); got != want(s) {
			t.Fatalf("%s: %q is accepted: %t", name, s, got)
		}
	}
	if g != nil {
		checkNoDeadEnds(t, name, g, 4000)
	}
}

// compileCounted makes a grammar of strings by countedString, which may give up; nil: there
// is no such string.
func compileCounted(d *dfa, least, most int64) (g *Grammar, ok bool) {
	b := newBuilder(commonRules(), 1<<20, unmetered())
	r := b.rule()
	at, ok := b.countedString(b.lit(b.start(r), `"`), d, least, most)
	if !ok {
		return nil, false
	}
	b.accept(at)
	var err error
	func() {
		defer catch(&err)
		g = &Grammar{m: newMachine(b.finish(r), testVocabulary, 1<<30)}
	}()
	return g, true
}

// checkNoDeadEnds walks all positions that the texts of g have, up to a number of them, and
// checks that each leads to the end of a text. Where there are more, those that were not
// walked count as leading there.
func checkNoDeadEnds(t *testing.T, name string, g *Grammar, most int) {
	t.Helper()
	list := []*position{g.m.root}
	from := map[*position][]*position{g.m.root: nil}
	good := map[*position]bool{}
	var queue []*position
	for i := 0; i < len(list); i++ {
		p := list[i]
		if p.accept || i >= most {
			good[p], queue = true, append(queue, p)
			continue
		}
		for _, b := range g.m.net.reps {
			to := g.m.step(p, b)
			if to == dead {
				continue
			}
			if _, seen := from[to]; !seen {
				list = append(list, to)
			}
			from[to] = append(from[to], p)
		}
	}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, p := range from[queue[0]] {
			if !good[p] {
				good[p], queue = true, append(queue, p)
			}
		}
	}
	for _, p := range list {
		if !good[p] {
			t.Fatalf("%s: a dead end: %v", name, describe(g, p))
		}
	}
}

// describe shows the stacks of a position.
func describe(g *Grammar, p *position) string {
	s := ""
	for _, f := range p.tops {
		s += " ["
		for ; f.depth > 0; f = f.parent {
			s += fmt.Sprintf(" %d need %d left %d edges %v", f.st, f.need, f.left, g.m.net.at(f.st).edges)
		}
		s += "]"
	}
	return s
}

// countedSchemas are strings of real schemas, with pattern or format and lengths.
var countedSchemas = []string{
	`{"type":"string","format":"uri","minLength":1,"maxLength":2083}`,
	`{"type":"string","format":"email","minLength":30,"maxLength":40}`,
	`{"type":"string","format":"email","maxLength":190}`,
	`{"type":"string","format":"hostname","maxLength":128}`,
	`{"type":"string","format":"date-time","minLength":22,"maxLength":28}`,
	`{"type":"string","pattern":"^\\S+@\\S+$","minLength":5,"maxLength":255}`,
	`{"type":"string","pattern":"^(?:\\S+\\s+){0,49}\\S+$","minLength":1,"maxLength":500}`,
	`{"type":"string","pattern":"^$|(^(?:\\S+\\s+){0,9}\\S+$)","maxLength":50}`,
	`{"type":"string","pattern":"^data:image/(jpg|jpeg|png|svg\\+xml);base64,[0-9a-zA-Z+/=]*$","maxLength":32767}`,
	`{"type":"string","pattern":"^([a-z][0-9])+$","minLength":10000}`,
	`{"type":"string","pattern":"^[a-zA-Z0-9_.+-]+@[a-zA-Z0-9-]+\\.[a-zA-Z0-9-.]+$","minLength":5,"maxLength":25}`,
	`{"type":"string","pattern":"^[a-z]+(-[a-z]{2,3}){1,2}$","minLength":24,"maxLength":31}`,
	`{"type":"string","pattern":"^x[^x]{1,20}xxxxxxxxxxxxxxxxxxxxxxx$","minLength":26,"maxLength":40}`,
	`{"type":"array","items":{"type":"string","pattern":"foo","minLength":18,"maxLength":21}}`,
	`{"type":"string","pattern":"\"[^é]*é{3}","maxLength":20}`,
}

// TestMasksOfCountedStrings: the masks are those of a walk over the whole vocabulary, also
// near the ends of the counters, and no text gets into a dead end.
func TestMasksOfCountedStrings(t *testing.T) {
	vocabularies := []*Vocabulary{lettersVocabulary(t), syntheticVocabulary(t, 4096, false), syntheticVocabulary(t, 32_000, true)}
	for i, text := range countedSchemas {
		for k, v := range vocabularies {
			if k == 2 && (slow || testing.Short()) {
				continue
			}
			g := mustCompile(t, schema(text), v)
			for seed := range 4 {
				compareMasks(t, g, rand.New(rand.NewPCG(uint64(seed), uint64(i))), 60, 1+2*k, text)
			}
		}
		checkNoDeadEnds(t, text, mustCompile(t, schema(text), testVocabulary), 3000)
	}
}

// TestLongCountedStrings: texts that random tokens make satisfy both demands.
func TestLongCountedStrings(t *testing.T) {
	v := syntheticVocabulary(t, 4096, false)
	done := 0
	for i, text := range countedSchemas {
		if strings.Contains(text, "10000") {
			continue // it takes too many tokens
		}
		g, valid := mustCompile(t, schema(text), v), validator(t, text)
		for seed := range 10 {
			s, ok := randomText(t, g, rand.New(rand.NewPCG(uint64(seed), uint64(i))))
			if !ok {
				continue
			}
			var value any
			if err := json.Unmarshal([]byte(s), &value); err != nil {
				t.Fatal(err)
			}
			if err := valid.Validate(value); err != nil {
				t.Errorf("%s: wrote %s: %v", text, s, err)
			}
			done++
		}
	}
	if done < 100 {
		t.Errorf("only %d texts were finished", done)
	}
}

// randomPattern is a pattern over a few characters.
func randomPattern(rng *rand.Rand, depth int) string {
	if depth == 0 || rng.IntN(4) == 0 {
		return []string{"a", "b", "é", `"`, "[ab]", "[^a]", "aa", "@b"}[rng.IntN(8)]
	}
	switch rng.IntN(4) {
	case 0:
		return "(?:" + randomPattern(rng, depth-1) + "|" + randomPattern(rng, depth-1) + ")"
	case 1:
		return "(?:" + randomPattern(rng, depth-1) + ")" + []string{"*", "+", "?", "{2}", "{1,3}", "{0,2}"}[rng.IntN(6)]
	}
	return randomPattern(rng, depth-1) + randomPattern(rng, depth-1)
}

// TestRandomCountedStrings is TestCountedStrings with random patterns and bounds, and with
// masks.
func TestRandomCountedStrings(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 1))
	texts := allTexts(4, "a", "b", "@", `"`, "é")
	v := lettersVocabulary(t)
	counted := 0
	for range 150 {
		pattern := "^" + randomPattern(rng, 4) + "$"
		d, ok := regexDFA(parseRegex(pattern, unmetered()), true, newBuilder(nil, 1<<20, unmetered()))
		if !ok {
			t.Fatal(pattern)
		}
		least, most := int64(rng.IntN(4)), int64(-1)
		if rng.IntN(3) > 0 {
			most = least + int64(rng.IntN(5))
		}
		name := fmt.Sprint(pattern, least, most)
		g, ok := compileCounted(d, least, most)
		if !ok {
			continue
		}
		counted++
		oracle := regexp.MustCompile(pattern)
		checkStrings(t, name, g, texts, func(s string) bool {
			n := int64(utf8.RuneCountInString(s))
			return oracle.MatchString(s) && n >= least && (most < 0 || n <= most)
		})
		// The same with bounds that are far away, for the masks.
		far := schema(fmt.Sprintf(`{"type":"string","pattern":%s,"minLength":%d,"maxLength":%d}`, quoteJSON("^(?:"+pattern[1:len(pattern)-1]+")+$"), 8+rng.IntN(20), 28+rng.IntN(20)))
		if wide, err := compileFor(far, v); err == nil {
			compareMasks(t, wide, rng, 40, 1, string(far.Schema))
		}
	}
	if counted < 100 {
		t.Errorf("only %d languages were counted", counted)
	}
}
