package grammar

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// distinctSpecs are arrays with uniqueItems. The letters are few, so values come up
// again.
var distinctSpecs = []string{
	`{"type":"array","uniqueItems":true,"items":{"type":"string"}}`,
	`{"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"^[ab]*$"}}`,
	`{"type":"array","uniqueItems":true,"items":{"type":"string","maxLength":2}}`,
	`{"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"^(a|b[ab]*|ba?)$"},"minItems":3,"maxItems":9}`,
	`{"type":"array","uniqueItems":true,"items":{"enum":["a","ab","b",1,10,1.0,-1,null,true,"\"","a"]}}`,
	`{"type":"array","uniqueItems":true,"items":{"enum":["a","ab","b"]},"minItems":3}`,
	`{"type":"array","uniqueItems":true,"items":{"type":"integer","minimum":-1,"maximum":12}}`,
	`{"type":"array","uniqueItems":true,"items":{"type":["integer","string","null","boolean"]},"maxItems":4}`,
	`{"type":"array","uniqueItems":true,"items":{"type":"number"}}`,
	`{"type":"array","uniqueItems":true,"prefixItems":[{"type":"boolean"},{"type":"boolean"}],"items":{"enum":[true,false,1,2]}}`,
	`{"type":"array","uniqueItems":true,"items":{"type":"object","properties":{"a":{"type":"boolean"},"b":{"type":"string"}},"required":["b"],"additionalProperties":false}}`,
	`{"type":"array","uniqueItems":true,"items":{"anyOf":[{"type":"string"},{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}]}}`,
	`{"type":"array","uniqueItems":true,"items":{"type":"integer"},"contains":{"minimum":1},"minContains":2,"maxItems":5}`,
	`{"type":"object","properties":{"a":{"type":"array","uniqueItems":true,"items":{"type":"string"}},"b":{"type":"array","uniqueItems":true,"items":{"enum":["a","b"]}}}}`,
	`{"anyOf":[{"type":"array","uniqueItems":true,"items":{"enum":["a","ab",1]}},{"type":"array","items":{"type":"string","maxLength":1}}]}`,
	`{"anyOf":[{"type":"array","uniqueItems":true,"items":{"type":"string"},"maxItems":3},{"type":"array","uniqueItems":true,"items":{"type":["string","integer"]},"minItems":3}]}`,
	`{"anyOf":[{"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"^a*b?$"}},{"type":"array","items":{"type":"string","pattern":"^a?b?$"}},{"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"^b?a?b?$"}}]}`,
	`{"type":"array","items":{"type":"array","uniqueItems":true,"items":{"type":"string","maxLength":1}}}`,
	`{"type":"object","properties":{"b":{"type":"integer"}},"minProperties":4,"additionalProperties":{"type":"integer"}}`,
	`{"type":"array","uniqueItems":true,"items":{"type":"array"}}`,
	`{"type":"array","uniqueItems":true,"items":{"type":["array","object","boolean"]}}`,
	`{"type":"array","uniqueItems":true,"prefixItems":[{"type":"object"},{"type":"object"}],"items":{"type":"string"}}`,
	`{"type":"object","minProperties":3,"maxProperties":4,"patternProperties":{"^a":{"type":"null"},"b":{"type":["null","integer"]}},"propertyNames":{"pattern":"^[ab]{1,2}$"},"additionalProperties":false}`,
}

// crossingVocabulary has tokens that hold the ends and the beginnings of values, whole
// values, and several of them.
func crossingVocabulary(t *testing.T) *Vocabulary {
	var tokens [][]byte
	for i := range 256 {
		tokens = append(tokens, []byte{byte(i)})
	}
	pieces := []string{"a", "b", "ab", "ba", "1", "10", "-1", "0.5", "é", `\"`, `"`, `",`, `, `, `,`, `, "`, `"a"`, `"ab"`, `"b", `, `["`, `"]`, `[`, `]`, ` "`, "\n", "true", "false", `{"a":`, `{"b":"`, `},`, `"}`, `a":`, `a": null`, `: 1`}
	seen := make(map[string]bool)
	for _, p := range pieces {
		for _, q := range pieces {
			for _, r := range append([]string{""}, pieces[10:13]...) {
				if text := p + q + r; len(text) > 1 && !seen[text] {
					seen[text] = true
					tokens = append(tokens, []byte(text))
				}
			}
		}
	}
	tokens = append(tokens, []byte(`a","b","a","a`), []byte(`","","`), []byte(`1,10,1,`), []byte(`"a","ab","b"]`), nil)
	tokens = append(tokens, tokens[300]) // a duplicate
	v, err := NewVocabulary(tokens, []int32{int32(len(tokens) - 2)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestDistinctMasksEqualReference: the masks of values that must differ are those of a
// walk over the whole vocabulary, whose positions remember all values, also after
// everything that was built has been dropped, and no text gets into a dead end.
func TestDistinctMasksEqualReference(t *testing.T) {
	voc := crossingVocabulary(t)
	c := &distinctWalks{}
	for k, text := range distinctSpecs {
		for _, o := range []Options{{}, {DisableAnyWhitespace: true}, {WhitespacePattern: "[ \n]?"}} {
			spec := schema(text)
			spec.Options = o
			g, err := compileFor(spec, voc)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			for walk := range 2 {
				c.walk(newRandomWalk(t, text, g, rand.New(rand.NewPCG(uint64(k), uint64(walk)))))
			}
		}
	}
	t.Logf("%d masks were contested, %d had parts, %d texts ended", c.contested, c.parts, c.ended)
	if c.contested < 150 || c.parts < 10 || c.ended < 20 {
		t.Error("too few to tell")
	}
}

// distinctWalks counts what random walks have met.
type distinctWalks struct{ contested, parts, ended int }

func (c *distinctWalks) walk(w *randomWalk) {
	want := make([]uint32, w.v.words())
	for range 30 {
		w.fill()
		sp := w.m.at.split.Load()
		switch {
		case sp != nil && sp.contested != nil:
			c.contested++
			w.checkMask(want)
		case sp != nil && sp.parts != nil:
			c.parts++
			w.checkMask(want)
		case w.rng.IntN(4) == 0:
			w.checkMask(want)
		}
		if w.rng.IntN(40) == 0 {
			w.m.m.mu.Lock()
			w.m.m.forget()
			w.m.m.mu.Unlock()
		}
		if !w.accept(likely(w)) {
			c.ended++
			checkDistinct(w.t, w.name, w.text)
			return
		}
	}
}

// likely is a legal token, mostly one that repeats what the text has already.
func likely(w *randomWalk) int32 {
	for range 12 {
		tok := randomLegal(w.rng, w.mask, w.v.size)
		if strings.Contains(string(w.text), string(w.v.tokens[tok])) && len(w.v.tokens[tok]) > 0 || w.v.ends(tok) {
			return tok
		}
	}
	return randomLegal(w.rng, w.mask, w.v.size)
}

// checkDistinct compares a text with what another validator says.
func checkDistinct(t *testing.T, schema string, text []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: wrote %s: %v", schema, text, err)
	}
	if err := validator(t, schema).Validate(v); err != nil {
		t.Fatalf("%s: wrote %s: %v", schema, text, err)
	}
}

// TestDistinctTexts: all short lists of some values are accepted if and only if another
// validator accepts them.
func TestDistinctTexts(t *testing.T) {
	values := []string{`"a"`, `"ab"`, `"b"`, `1`, `10`, `true`, `null`, `""`, `-1`, `"\""`, `"ba"`, `"bb"`}
	for _, text := range []string{distinctSpecs[0], distinctSpecs[1], distinctSpecs[3], distinctSpecs[4], distinctSpecs[5], distinctSpecs[6], distinctSpecs[7], distinctSpecs[9], distinctSpecs[12], distinctSpecs[14], distinctSpecs[15],
		`{"type":"array","contains":{"type":"string"},"maxContains":2,"minItems":2,"maxItems":3}`,
		`{"type":"array","contains":{"const":1},"minContains":2,"maxItems":3}`,
		`{"type":"array","contains":{"type":"integer"},"minContains":0,"maxContains":1,"items":{"type":["integer","string"]}}`,
		`{"type":"array","contains":{"enum":[1,"a"]},"items":{"type":["integer","string"]},"uniqueItems":true}`,
		`{"type":"array","contains":{"type":"number"},"items":{"type":"number"},"minContains":2,"maxContains":3}`,
		`{"type":"array","contains":{"type":"null"},"items":{"type":"number"},"minContains":0,"maxContains":3}`,
		`{"type":"array","contains":{"enum":["a","b"]},"items":{"enum":["a","b","ab"]},"minContains":2,"minItems":3}`,
	} {
		g, err := compileFor(schema(text), testVocabulary)
		if err != nil {
			t.Logf("%s: %v", text, err)
			continue
		}
		valid := validator(t, text)
		accepted := 0
		var try func(items []string)
		try = func(items []string) {
			list := "[" + strings.Join(items, ",") + "]"
			var v any
			if err := json.Unmarshal([]byte(list), &v); err != nil {
				t.Fatal(err)
			}
			want := valid.Validate(v) == nil
			if g.accepts(list) != want {
				t.Fatalf("%s: %s: accepted %t, want %t", text, list, !want, want)
			}
			if want {
				accepted++
			}
			if len(items) < 4 {
				for _, v := range values {
					try(append(items[:len(items):len(items)], v))
				}
			}
		}
		try(nil)
		if accepted == 0 {
			t.Errorf("%s: accepts none of the lists", text)
		}
	}
}

// TestDistinctSpellings: values are equal however they are written, and some spellings
// are never written.
func TestDistinctSpellings(t *testing.T) {
	checkTexts(t, []textCase{
		{"strings", schema(distinctSpecs[0]), []string{`["a", "A", "é", "\n"]`, `["\u0001","\u0002"]`}, []string{`["a", "\u0061"]`, `["é","é"]`, `["/","\/"]`, `["\u0001","\u0001"]`, `["a",]`, `["a" "b"]`}},
		{"numbers", schema(distinctSpecs[8]), []string{`[1, 1.5, 0.5, -0.5, 0, 10]`}, []string{`[1, 1.0]`, `[0, -0]`, `[0, 0.0]`, `[1e2]`, `[1.50]`, `[10, 1, 10]`}},
		{"objects", schema(distinctSpecs[10]), []string{`[{"b":"x"}, {"a":true,"b":"y"}]`}, []string{`[{"b":"x"},{"b":"x"}]`, `[{"b":"x"},{"a":true,"b":"x"}]`}},
		{"long list", schema(distinctSpecs[0]), []string{numbered(200), numbered(1000)}, []string{numbered(1001), numbered(200)[:len(numbered(200))-1] + `,"7"]`}},
	})
}

// numbered is a list of n strings.
func numbered(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("%q", fmt.Sprint(i))
	}
	return "[" + strings.Join(items, ",") + "]"
}

// TestAmbiguousDistinctMasks: where one reading of a text has to differ and another has not,
// or two remember different values, the masks are right at every byte.
func TestAmbiguousDistinctMasks(t *testing.T) {
	voc := crossingVocabulary(t)
	for _, c := range []struct{ schema, text string }{
		{`{"anyOf":[{"type":"array","uniqueItems":true,"items":{"enum":["a","ab",1]}},{"type":"array","items":{"type":"string","maxLength":1}}]}`, `["a", "a", "b"`},
		{`{"anyOf":[{"type":"array","uniqueItems":true,"items":{"type":"string"},"maxItems":3},{"type":"array","items":{"type":"string","minLength":1}}]}`, `["ab", "a", "ab", "ab"`},
		{`{"anyOf":[{"type":"array","uniqueItems":true,"prefixItems":[{"type":"string"}],"items":{"type":"string"}},{"type":"array","prefixItems":[true],"items":{"type":"array","uniqueItems":true,"items":{"type":"string"}}},
			{"type":"array","prefixItems":[true],"items":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]}}]}`, `["ab", "ab", ["a", "a"], "ab"`},
		{`{"anyOf":[{"type":"array","uniqueItems":true,"items":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"],"additionalProperties":false}},{"type":"array","uniqueItems":true,"items":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["b"],"additionalProperties":false}}]}`, `[{"a":"a","b":"a"},{"a":"a","b":"ab"},{"a":"a","b":"b"`},
	} {
		m := mustCompile(t, schema(c.schema), voc).NewMatcher()
		got, want := make([]uint32, voc.words()), make([]uint32, voc.words())
		for i := range len(c.text) {
			if err := m.Fill(got); err != nil {
				t.Fatal(err)
			}
			referenceMask(m, want)
			if diff := maskDifference(voc, got, want); diff != "" {
				t.Errorf("%s: after %s: %s", c.schema, c.text[:i], diff)
				break
			}
			if !m.Accept(int32(c.text[i])) {
				t.Fatalf("%s: rejects %s", c.schema, c.text[:i+1])
			}
		}
	}
}
