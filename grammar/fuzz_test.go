package grammar

import (
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// fuzzConfig keeps one input from taking a machine's memory or time.
func fuzzConfig() Config {
	return Config{CacheBytes: 8 << 20, GrammarBytes: 2 << 20, MaxStates: 20_000, MaxWork: 4_000_000, Deadline: time.Second}
}

var fuzzVocabulary = func() *Vocabulary {
	tokens, eos := syntheticTokens(3000, true)
	special := Special{int32(len(tokens)), "<|a|>"}
	v, err := NewVocabulary(append(tokens, nil), eos, special)
	if err != nil {
		panic(err)
	}
	return v
}()

// tryGrammar compiles s and walks through it. It must not panic, take longer than
// the deadline allows, run into a dead end, or build more than it may.
func tryGrammar(t *testing.T, s Spec) {
	start := time.Now()
	g, err := compile(s, fuzzVocabulary, fuzzConfig(), nil)
	if d := time.Since(start); d > 10*time.Second {
		t.Fatalf("compiling took %v", d)
	}
	if err != nil {
		var e *Error
		if !errors.As(err, &e) || e.Kind == nil || e.Msg == "" {
			t.Fatalf("not a refusal: %v", err)
		}
		return
	}
	w := newRandomWalk(t, "", g, nil)
	want := make([]uint32, w.v.words())
	for i := range 24 {
		if err := w.m.Fill(w.mask); errors.Is(err, ErrTooComplex) {
			return
		} else if err != nil {
			t.Fatalf("%v after %d tokens", err, i)
		}
		if i%8 == 3 {
			referenceMask(w.m, want)
			if diff := maskDifference(w.v, w.mask, want); diff != "" {
				t.Fatalf("after %q: %s", w.text, diff)
			}
		}
		if !w.accept(nextLegal(w.mask, i*977, w.v.size)) {
			break
		}
	}
	if b := g.m.bytes; b > 3*fuzzConfig().GrammarBytes {
		t.Fatalf("built %d bytes", b)
	}
	w.m.Rollback(w.m.Len())
	if w.m.at != g.m.root {
		t.Fatal("Rollback does not lead to the beginning")
	}
}

func FuzzSchema(f *testing.F) {
	for _, s := range sampleSpecs {
		if s.Kind == JSONSchema {
			f.Add(s.Schema, 0)
		}
	}
	for i, s := range []string{`{"$ref":"#"}`, `{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, `{"oneOf":[{"type":"string"},{"minLength":1,"type":"integer"}],"enum":[1,"a"]}`,
		`{"$id":"http://x/y","$defs":{"a":{"$anchor":"b"}},"$ref":"#b"}`, `{"propertyNames":{"enum":["a","b"]},"minProperties":1,"maxProperties":2}`,
		`{"type":"array","prefixItems":[{"$ref":"#"}],"minItems":3}`, `{"multipleOf":0.25,"minimum":-1.5,"exclusiveMaximum":1e2}`, `{"const":1e999999999}`, `[`, `{"pattern":"(((((a*)*)*)*)*){1,50}$"}`} {
		f.Add([]byte(s), i)
	}
	f.Fuzz(func(t *testing.T, schema []byte, o int) {
		s := Spec{Kind: JSONSchema, Schema: schema}
		s.DisableAnyWhitespace, s.Strict = o&1 == 1, o&2 == 2
		tryGrammar(t, s)
	})
}

func FuzzRegex(f *testing.F) {
	for _, s := range []string{`a|b*c{2,7}`, `(?:^x|[^\d]$)+?`, `\p{L}{3,900}`, `(a{1,60}){1,60}`, `((((((a?)*)*)*)*)*)*`, `[`, `(?P<n>.)`, `(.*a){20}`, `\u{1F600}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tryGrammar(t, Spec{Kind: Regex, Text: s})
		pattern, _ := json.Marshal(s)
		tryGrammar(t, Spec{Kind: JSONSchema, Schema: []byte(`{"type":"object","patternProperties":{` + string(pattern) + `:{}},"properties":{"a":{"pattern":` + string(pattern) + `,"maxLength":9}}}`)})
		tryGrammar(t, Spec{Kind: JSONObject, Options: Options{WhitespacePattern: s}})
	})
}

func FuzzNotation(f *testing.F) {
	for _, s := range []string{"root ::= root \"a\" | [a-z]{2,30} b?\nb ::= \"x\" root* # c", `root ::= "" | root root | "a" root "b"`, "start: a (\",\" a)*\na: /[a-z]+/i | \"x\"..\"z\"\n%ignore \" \"", "%import common (INT, WS)\nstart: [INT] WS~1..3 -> x",
		`root ::= (root{0,9} "a"){3,99}`, `root[capture] ::= !<|a|>{2,9} <[97]> Regex("a|b", flags="i") (="x") | Substring("ab", "c")`,
		"root ::= TagDispatch((\"<a>\", x.y), excludes=(\"z\",)) TokenTagDispatch((97, x.y), loop_after_dispatch=false)\nx.y ::= [^]",
		"start: <|a|> %json {\"type\": \"integer\", \"minimum\": 3} <[^1-5,9]>* f\nf[suffix=\"e\"]: /\\w+/ & ~(/a.*/ | \"b\")\n%llguidance {\"allow_initial_skip\": true}\n%ignore / /",
		"start: %lark { start: \"a\"~2..3 } %regex {\"substring_words\": \"a b, c\"} | <[*]>", "root ::= a a a a\na ::= b b b b\nb ::= c c c c\nc ::= \"x\"? \"y\"?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { tryGrammar(t, Spec{Kind: Notation, Text: s}) })
}

func FuzzTag(f *testing.F) {
	for _, s := range []string{`{"structures":[{"begin":"<a>","schema":{"type":"integer"},"end":"</a>"}],"triggers":["<"]}`,
		`{"format":{"type":"sequence","elements":[{"type":"any_text","excludes":["x"]},{"type":"tag","begin":"<","content":{"type":"any_text"},"end":["x>","y"]},{"type":"repeat","min":1,"max":30,"content":{"type":"regex","pattern":"a?"}}]}}`,
		`{"format":{"type":"dispatch","rules":[["a",{"type":"const_string","value":""}],["ab",{"type":"json_schema","json_schema":true}]],"loop":true}}`,
		`{"format":{"type":"tags_with_separator","tags":[{"type":"tag","begin":"","content":{"type":"const_string","value":""},"end":""}],"separator":""}}`,
		`{"format":{"type":"qwen_xml_parameter","json_schema":{"type":"object","properties":{"s":{"type":"string","maxLength":40},"n":{"type":["integer","null"]},"p":{"pattern":"^a"}},"additionalProperties":{"type":"boolean"}}}}`,
		`{"format":{"style":"kimi_k3_xml","json_schema":{"properties":{"a\"":{"enum":["x",1]}},"required":["a\""]}}}`,
		`{"format":{"type":"token_triggered_tags","trigger_tokens":["<|a|>"],"tags":[{"begin":{"token":"<|a|>"},"content":{"type":"any_tokens","max_tokens":9},"end":{"token":97}}],"at_least_one":true}}`,
		`{"format":{"begin":"<","content":{"type":"any_text","max_chars":30,"excludes":["é"]},"end":[">",""]}}`,
		`{"format":{"type":"token_dispatch","rules":[[98,{"type":"exclude_token"}]],"loop":false}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, s []byte) { tryGrammar(t, Spec{Kind: Tag, Schema: s}) })
}

func FuzzChoice(f *testing.F) {
	f.Add("a", "ab", "")
	f.Fuzz(func(t *testing.T, a, b, c string) { tryGrammar(t, Spec{Kind: Choice, Choices: []string{a, b, c}}) })
}
