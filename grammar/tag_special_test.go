package grammar

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// markedVocabulary is a vocabulary of bytes with special tokens. The last one ends texts.
func markedVocabulary(t testing.TB, names ...string) *Vocabulary {
	t.Helper()
	tokens := make([][]byte, 256, 256+len(names))
	for i := range tokens {
		tokens[i] = []byte{byte(i)}
	}
	var special []Special
	for _, name := range names {
		special = append(special, Special{ID: int32(len(tokens)), Name: name})
		tokens = append(tokens, nil)
	}
	v, err := NewVocabulary(tokens, []int32{int32(len(tokens) - 1)}, special...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// takes reports whether g takes text, in which {name} is a special token, and may end there.
func takes(g *Grammar, text string) bool {
	v, m := g.Vocabulary(), g.NewMatcher()
	for text != "" {
		tok := int32(text[0])
		n := 1
		if text[0] == '{' {
			n = strings.IndexByte(text, '}') + 1
			tok = v.names[text[1:n-1]]
		}
		if !m.Accept(tok) {
			return false
		}
		text = text[n:]
	}
	return m.Done()
}

func TestTagSpecialTexts(t *testing.T) {
	v := markedVocabulary(t, "<call>", "</call>", "<call>>", "<s>", `<|"|>`, "<end>")
	call := `{"type":"tag","begin":"<call>f=","content":{"type":"regex","pattern":"[0-9]+"},"end":"</call>"}`
	for _, c := range []struct {
		name, format string
		good, bad    []string
	}{
		{"sequence", `{"type":"const_string","value":"a<call>b"}`, []string{"a{<call>}b"}, []string{"a<call>b", "a{<s>}b", "ab"}},
		{"the longest", `{"type":"const_string","value":"<call>>"}`, []string{"{<call>>}"}, []string{"{<call>}>"}},
		{"the end", `{"type":"const_string","value":"a<end>"}`, []string{"a"}, []string{"a<end>"}},
		{"triggered", `{"type":"triggered_tags","triggers":["<call>"],"tags":[` + call + `]}`,
			[]string{"", "x<cal", "{<call>}f=1{</call>}", "x{<call>}f=12{</call>}y{<call>}f=1{</call>}", "<c{<call>}f=1{</call>}"},
			[]string{"<call>", "{<call>}", "{<call>}g=1{</call>}", "{<call>}f=1</call>", "{<s>}", "{<call>}f=x{</call>}"}},
		{"stop after first", `{"type":"triggered_tags","triggers":["<call>"],"tags":[` + call + `],"stop_after_first":true}`,
			[]string{"x{<call>}f=1{</call>}"}, []string{"{<call>}f=1{</call>}x"}},
		{"at least one", `{"type":"triggered_tags","triggers":["<call>f"],"tags":[` + call + `],"at_least_one":true}`,
			[]string{"{<call>}f=1{</call>}x"}, []string{"", "x{<call>}f=1{</call>}"}},
		{"separated", `{"type":"tags_with_separator","separator":"<s>","tags":[` + call + `]}`,
			[]string{"{<call>}f=1{</call>}{<s>}{<call>}f=1{</call>}"}, []string{"{<call>}f=1{</call>}<s>{<call>}f=1{</call>}"}},
		{"mixed", `{"type":"triggered_tags","triggers":["[n","<call>"],"tags":[` + call + `,{"type":"tag","begin":"[n","content":{"type":"regex","pattern":"[0-9]"},"end":"]"}]}`,
			[]string{"x[n1]{<call>}f=1{</call>}[[n2]"}, []string{"[n{<call>}", "[n1]<call>"}},
		{"Gemma's strings", `{"type":"json_schema","style":"gemma","json_schema":{"type":"object","properties":{"a":{"type":"string"},"b":{"enum":["x",{"c":"y"}]},"d":{"pattern":"^z+$"}},"additionalProperties":false}}`,
			[]string{"", `a:{<|"|>}x<|"{<|"|>},b:{<|"|>}x{<|"|>},d:{<|"|>}zz{<|"|>}`, `d:1`}, []string{`a:<|"|>x<|"|>`, `a:{<|"|>}<|"|>{<|"|>}`, `a:{<|"|>}x`, `d:{<|"|>}y{<|"|>}`, `a:{<s>}`}},
		{"excluded", `{"type":"any_text","excludes":["<call>","no"]}`, []string{"a<call"}, []string{"{<call>}", "<call>", "no"}},
	} {
		g := mustCompile(t, tag(`{"special_tokens":true,"format":`+c.format+`}`), v)
		for _, text := range c.good {
			if !takes(g, text) {
				t.Errorf("%s: %q is refused", c.name, text)
			}
		}
		for _, text := range c.bad {
			if takes(g, text) {
				t.Errorf("%s: %q is accepted", c.name, text)
			}
		}
		rng, want := rand.New(rand.NewPCG(1, 9)), make([]uint32, v.words())
		for range 10 {
			w := newRandomWalk(t, c.name, g, rng)
			for range 30 {
				w.fill()
				w.checkMask(want)
				if _, more := w.step(); !more {
					break
				}
			}
		}
	}
	// Without the flag, and without such tokens, texts are texts.
	g := mustCompile(t, tag(`{"format":{"type":"const_string","value":"<call>"}}`), v)
	if !takes(g, "<call>") || takes(g, "{<call>}") {
		t.Error("a text without special_tokens")
	}
	g = mustCompile(t, tag(`{"special_tokens":true,"format":{"type":"const_string","value":"<call>"}}`), testVocabulary)
	if !g.accepts("<call>") {
		t.Error("a text in a vocabulary without such tokens")
	}
}

func TestTagSeparators(t *testing.T) {
	of := func(schema string) Spec {
		return tag(`{"format":{"type":"json_schema","separators":[", ",": "],"json_schema":` + schema + `}}`)
	}
	checkTexts(t, []textCase{
		{"object", of(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"array","items":{"type":"boolean"}},"c":{"enum":[{"x":[1,{}]}]}},"required":["a"],"additionalProperties":{"type":"null"}}`),
			[]string{`{"a": 1}`, `{"a": 1, "b": [true, false]}`, `{"a": 1, "b": [], "c": {"x": [1, {}]}}`, `{"a": 1, "z": null}`},
			[]string{`{"a":1}`, `{"a": 1,"b": []}`, `{ "a": 1}`, `{"a": 1, "b": [true,false]}`, `{"a": 1, "b": [ ]}`, `{"a": 1,  "b": []}`, `{"a": 1, "c": {"x":[1, {}]}}`, `{"a": 1, "z":null}`}},
		{"anything", of(`true`), []string{`{"a": [1, {"b": null}], "c": {}}`, `[]`, `"a,b:c"`}, []string{`{"a":1}`, `[1,2]`, `[1 , 2]`, `[ 1]`}},
		{"objects", of(`{"type":"object"}`), []string{`{}`, `{"a": [1, 2]}`}, []string{`{"a": [1,2]}`, `[]`}},
		{"constraints", of(`{"type":"array","items":{"type":"integer"},"minItems":2,"contains":{"const":3}}`), []string{`[1, 3]`, `[3, 1, 2]`}, []string{`[1,3]`, `[1, 2]`}},
		{"distinct", of(`{"type":"array","items":{"type":"integer"},"minItems":2,"uniqueItems":true}`), []string{`[1, 3]`}, []string{`[1,3]`, `[1, 1]`}},
		{"counted", of(`{"type":"object","minProperties":2,"patternProperties":{"^a":{"type":"integer"}},"additionalProperties":false}`), []string{`{"a": 1, "ab": 2}`}, []string{`{"a": 1}`, `{"a": 1,"ab": 2}`, `{"a":1, "ab":2}`}},
	})
	if _, err := compileFor(tag(`{"format":{"type":"json_schema","separators":[","," : "],"json_schema":true}}`), testVocabulary); err == nil {
		t.Error("other separators are accepted")
	}
}
