package grammar

import (
	"errors"
	"strings"
	"testing"
)

type textCase struct {
	name       string
	spec       Spec
	pass, fail []string
}

func checkTexts(t *testing.T, cases []textCase) {
	t.Helper()
	for _, c := range cases {
		g, err := compileFor(c.spec, testVocabulary)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, s := range c.pass {
			if !g.accepts(s) {
				t.Errorf("%s: rejects %q", c.name, s)
			}
		}
		for _, s := range c.fail {
			if g.accepts(s) {
				t.Errorf("%s: accepts %q", c.name, s)
			}
		}
	}
}

func TestRegex(t *testing.T) {
	checkTexts(t, []textCase{
		{"C74: the whole text matches", re(`\d{3}`), []string{"123"}, []string{"12", "1234", "a123", "١٢٣"}},
		{"the empty expression", re(``), []string{""}, []string{"a"}},
		{"anchors change nothing", re(`^ab$`), []string{"ab"}, []string{"abb", ""}},
		{"anchors inside", re(`(?:^a|b$|x^y)c?`), []string{"a", "ac", "b"}, []string{"bc", "xy", "xyc"}},
		{"classes", re(`[^a-c\d]\w\s[\]\-\\]`), []string{"xz\u3000]", "é_ -"}, []string{"az ]", "xz  "}},
		{"counted beyond unrolling", re(`(?:ab?){3,500}c`), []string{"abaac", strings.Repeat("ab", 500) + "c"}, []string{"aac", strings.Repeat("a", 501) + "c"}},
		{"non-greedy and groups", re(`(?P<x>a+?)(?<y>b*?)(?:c)??`), []string{"a", "aabbc"}, []string{"b", "abcc"}},
		{"characters, not bytes", re(`.{2}`), []string{"é😀", "ab"}, []string{"é", "a\n"}},
		{"Unicode properties", re(`\p{Lu}\P{L}[\p{Script=Greek}]`), []string{"É1α"}, []string{"é1α", "Éaα", "É1a"}},
		{"escapes", re(`\x41\u00e9\u{1F600}\cJ\0`), []string{"Aé😀\n\x00"}, nil},
		{"a brace that is no quantifier", re(`a{,b}{`), []string{"a{,b}{"}, nil},
		{"an empty loop", re(`(?:a*)*b`), []string{"b", "aab"}, []string{"a"}},
	})
	for _, s := range []string{`[`, `(`, `)`, `a**b(`, `*`, `\`, `[b-a]`, `a{3,2}`, `\x1`, `(?<>a)`} {
		if _, err := compileFor(re(s), testVocabulary); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", s, err)
		}
	}
	for _, s := range []string{`(?=a)b`, `(?<!a)b`, `(a)\1`, `\bfoo`, `(?i)a`, `\p{Nonsense}`, `a++`} {
		if _, err := compileFor(re(s), testVocabulary); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%q: %v, want ErrUnsupported", s, err)
		}
	}
}

func TestChoice(t *testing.T) {
	checkTexts(t, []textCase{
		{"C71", Spec{Kind: Choice, Choices: []string{"a"}}, []string{"a"}, []string{"", "aa"}},
		{"prefixes", Spec{Kind: Choice, Choices: []string{"yes", "yes please", "yé"}}, []string{"yes", "yes please", "yé"}, []string{"yes ", "y"}},
	})
	if _, err := compileFor(Spec{Kind: Choice}, testVocabulary); !errors.Is(err, ErrInvalid) {
		t.Errorf("no choices: %v", err)
	}
}

func TestEBNF(t *testing.T) {
	nested := `root ::= "a" root "b" | "a" root "c" | "x"`
	deep := strings.Repeat("a", 40)
	checkTexts(t, []textCase{
		{"C72", notation(`root ::= "x"`), []string{"x"}, []string{"", "xx"}},
		{"literals and classes", notation("root ::= \"\\\"\\x41\\u00e9\\n\" [^\\]a-c] [-x] . # comment\n"), []string{"\"Aé\nd-é"}, []string{"\"Aé\na-é"}},
		{"rules over lines", notation("root ::= (\n a |\n b)\n\na ::= \"1\"\nb ::= \"2\" | \"3\"\n"), []string{"1", "2", "3"}, []string{"4"}},
		{"repetition", notation(`root ::= "a"{2,3} "b"{2} "c"{2,} "d"{,2} ("ef"){3,400}`),
			[]string{"aabbccefefef", "aaabbcccdd" + strings.Repeat("ef", 400)}, []string{"abbccefefef", "aabbccef", "aabbcc" + strings.Repeat("ef", 401)}},
		{"balanced", notation(`root ::= "(" root ")" root | ""`), []string{"", "()", "(()())()"}, []string{"(", "())"}},
		{"left recursion", notation("root ::= root \"+\" term | root \"-\" term | term\nterm ::= term \"*\" [0-9] | [0-9]"), []string{"1", "1+2*3-4", "1*2*3"}, []string{"", "+1", "1+", "1*"}},
		{"indirect left recursion", notation("root ::= a \"x\" | \"1\"\na ::= b \"y\" | \"2\"\nb ::= root \"z\" | a \"w\""), []string{"1", "2x", "1zyx", "2wyx", "1zyxzyx", "2wywyx"}, []string{"1z", "1zy", "2", "x"}},
		{"hidden left recursion", notation("root ::= n root \"a\" | \"b\"\nn ::= \"n\"?"), []string{"b", "ba", "nba", "nnbaa", "nbaa"}, []string{"nb", "a", "n"}},
		{"an empty left recursion", notation(`root ::= root root | "a" | ""`), []string{"", "a", "aaaa"}, []string{"b"}},
		{"rules that never end are cut", notation("root ::= \"a\" | \"b\" loop\nloop ::= \"c\" loop"), []string{"a"}, []string{"b", "bc"}},
		{"one prefix, two ends", notation(nested), []string{"x", "axb", deep + "x" + strings.Repeat("bc", 20)}, []string{"ax", deep + "x" + strings.Repeat("b", 39)}},
	})
	for _, s := range []string{`root ::= undefined`, `root := "x" ::=`, `root ::= "x`, `root ::= [a`, `root ::= (`, `x ::= "y"`, `root ::= "a" root ::= "b"`, `root ::= [\d]`, `root ::= "a"{3,2}`, `::=`} {
		if _, err := compileFor(notation(s), testVocabulary); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", s, err)
		}
	}
	if _, err := compileFor(notation(`root ::= "a" root`), testVocabulary); !errors.Is(err, ErrUnsatisfiable) {
		t.Errorf("endless rule: %v, want ErrUnsatisfiable", err)
	}
}

func TestLark(t *testing.T) {
	checkTexts(t, []textCase{
		{"simple", notation("start: \"a\" b+ // comment\nb: \"b\"i | C\nC: /[0-9]{2}/\n"), []string{"ab", "aB12b"}, []string{"a", "a1"}},
		{"ignore", notation("%import common.INT\n%import common.WS\n%ignore WS\nstart: item (\",\" item)*\nitem: \"id=\" INT"),
			[]string{"id=1", "id=1, id= 42 ", "id=1 ,id=2\n"}, []string{" id=1", "id=4 2x", "i d=1"}},
		{"continued lines, aliases, priorities", notation("?start: x -> one\n  | y -> two\n!x.2: \"x\"\ny: [\"z\"] \"y\"~2..3\n"), []string{"x", "yy", "zyyy"}, []string{"zx", "y", "yyyy"}},
		{"ranges and flags", notation(`start: "a".."c" /x.y/is "#" /\//`), []string{"bX\nY#/"}, []string{"dxzy#/"}},
		{"the first rule, without start", notation("doc: \"x\"\nother: \"y\""), []string{"x"}, []string{"y"}},
		{"left recursion", notation("start: start \"+\" NUM | NUM\nNUM: /[0-9]+/"), []string{"1", "1+22+3"}, []string{"+1", "1+"}},
	})
	for _, s := range []string{`start: x`, `start: "a`, "start: \"a\"\nstart: \"b\"", `start "x"`, `start: "b".."a"`} {
		if _, err := compileFor(notation(s), testVocabulary); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, want ErrInvalid", s, err)
		}
	}
	for _, s := range []string{"%declare X\nstart: X", `start: <|tool|>`, `%import python.X`, "t{x}: x\nstart: t"} {
		if _, err := compileFor(notation(s), testVocabulary); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%q: %v, want ErrUnsupported", s, err)
		}
	}
}

func TestStructuralTag(t *testing.T) {
	call := `{"type":"tag","begin":"<f=get>","content":{"type":"json_schema","json_schema":{"type":"object","properties":{"c":{"type":"string"}},"required":["c"],"additionalProperties":false}},"end":"</f>"}`
	legacy := `{"structures":[{"begin":"<f=get>","schema":{"type":"object","properties":{"c":{"type":"string"}},"required":["c"],"additionalProperties":false},"end":"</f>"}],"triggers":["<f="]}`
	free := []string{"", "hello <f there", "x<<f=get>{\"c\": \"</f>\"}</f> and <f=get>{\"c\":\"\"}</f>"}
	bad := []string{"<f=", "<f=put>", "<f=get>{}</f>", "a<f=get>{\"c\":\"\"}", "<f=get>{\"c\":\"\"}</f><f=get>"}
	checkTexts(t, []textCase{
		{"legacy", tag(legacy), free, bad},
		{"triggered_tags", tag(`{"format":{"type":"triggered_tags","triggers":["<f="],"tags":[` + call + `]}}`), free, bad},
		{"at least one, then stop", tag(`{"format":{"type":"triggered_tags","triggers":["<f="],"tags":[` + call + `],"at_least_one":true,"stop_after_first":true}}`),
			[]string{`<f=get>{"c":"x"}</f>`}, []string{"", `a<f=get>{"c":"x"}</f>`, `<f=get>{"c":"x"}</f>b`}},
		{"stop after first", tag(`{"format":{"type":"triggered_tags","triggers":["<f="],"tags":[` + call + `],"stop_after_first":true,"excludes":["bad"]}}`),
			[]string{"ab", `a<f=get>{"c":"bad"}</f>`}, []string{`a<f=get>{"c":"x"}</f>b`, "a bad"}},
		{"tag around text", tag(`{"format":{"type":"sequence","elements":[{"type":"tag","begin":"<think>","content":{"type":"any_text"},"end":"</think>"},{"type":"const_string","value":"ok"}]}}`),
			[]string{"<think></think>ok", "<think>a</thin</think>ok", "<think>é<think></think>ok"}, []string{"<think>a</think></think>ok", "ok", "<think>ok"}},
		{"tag around tags", tag(`{"format":{"type":"tag","begin":"[","content":{"type":"triggered_tags","triggers":["<f="],"tags":[` + call + `]},"end":["]","END"]}}`),
			[]string{"[]", "[aEND", `[a<f=get>{"c":"]"}</f>b]`}, []string{"[a", "[a]b", `[<f=get>{"c":"x"}</f>`}},
		{"composition", tag(`{"format":{"type":"sequence","elements":[{"type":"optional","content":{"type":"const_string","value":"a"}},{"type":"plus","content":{"type":"regex","pattern":"[0-9]"}},
			{"type":"star","content":{"type":"const_string","value":"c"}},{"type":"repeat","min":2,"max":200,"content":{"type":"or","elements":[{"type":"const_string","value":"d"},{"type":"grammar","grammar":"root ::= \"e\""}]}}]}}`),
			[]string{"a12ccde", "1dd", "3" + strings.Repeat("e", 200)}, []string{"adde", "1d", "3" + strings.Repeat("e", 201)}},
		{"separated", tag(`{"format":{"type":"tags_with_separator","separator":",","tags":[{"type":"tag","begin":"<","content":{"type":"regex","pattern":"[a-z]+"},"end":">"}]}}`),
			[]string{"", "<a>", "<a>,<b>"}, []string{"<a>,", "<a><b>"}},
		{"dispatch", tag(`{"format":{"type":"dispatch","rules":[["<n>",{"type":"regex","pattern":"[0-9]+;"}],["<n>>",{"type":"const_string","value":"!"}]],"excludes":["</end>"]}}`),
			[]string{"text <n>12;more<n>3;", "<n"}, []string{"<n>", "a</end>", "<n>x"}},
		{"end of one kind in or", tag(`{"format":{"type":"tag","begin":"<","content":{"type":"or","elements":[{"type":"any_text"},{"type":"const_string","value":">>"}]},"end":">"}}`),
			[]string{"<>", "<abc>", "<>>>"}, []string{"<abc>>", "<abc"}},
	})
	for _, s := range []string{`[]`, `{}`, `{"format":{"type":"triggered_tags","triggers":["x"],"tags":[` + call + `]}}`, `{"format":{"type":"tag","begin":"a"}}`, `{"format":{"type":"regex","pattern":"["}}`, `{"structures":[],"triggers":["a"]}`, `{"format":3}`, `x`} {
		if _, err := compileFor(tag(s), testVocabulary); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", s, err)
		}
	}
	for _, s := range []string{`{"format":{"type":"token","token":3}}`, `{"format":{"type":"any_text","max_tokens":3}}`, `{"format":{"type":"json_schema","style":"qwen_xml","json_schema":{}}}`} {
		if _, err := compileFor(tag(s), testVocabulary); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", s, err)
		}
	}
}

func TestOptions(t *testing.T) {
	props := `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a","b"]}`
	with := func(s Spec, o Options) Spec { s.Options = o; return s }
	checkTexts(t, []textCase{
		{"default whitespace is bounded", schema(props), []string{`{"a":1,"b":2}`, "{ \"a\" : 1 ,\n\n  \"b\":2, \"c\": []}"}, []string{`{  "a":1,"b":2}`, "{\"a\":1,\n\n\n\"b\":2}", ` {"a":1,"b":2}`, `{"a":1,"b":2} `}},
		{"disable_any_whitespace", with(schema(props), Options{DisableAnyWhitespace: true}), []string{`{"a":1,"b":{"c":[]},"d":""}`}, []string{`{"a": 1,"b":2}`, `{"a":1,"b":{ }}`}},
		{"disable_additional_properties", with(schema(props), Options{DisableAdditionalProperties: true}), []string{`{"a":1,"b":2}`}, []string{`{"a":1,"b":2,"c":3}`}},
		{"additionalProperties said otherwise", with(schema(`{"properties":{"a":{}},"additionalProperties":true}`), Options{DisableAdditionalProperties: true}), []string{`{"z":1}`, `3`}, nil},
		{"allOf declares together", with(schema(`{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`), Options{DisableAdditionalProperties: true}), []string{`{"a":1,"b":2}`}, []string{`{"c":1}`}},
		{"strict implies the type", with(schema(`{"minLength":2}`), Options{Strict: true}), []string{`"ab"`}, []string{`3`, `"a"`}},
		{"whitespace_pattern", with(schema(`{"type":"array"}`), Options{WhitespacePattern: `[ \t]*`}), []string{"[   1 ,\t{ } ]"}, []string{"[\n]"}},
		{"json_object", Spec{Kind: JSONObject}, []string{`{}`, `{"a": [1, null, "é\u0041"]}`}, []string{`[]`, `3`, `{"a": 01}`}},
	})
	for _, p := range []string{`x*`, `[^\n]`, `(`} {
		if _, err := compileFor(with(schema(`{}`), Options{WhitespacePattern: p}), testVocabulary); !errors.Is(err, ErrInvalid) {
			t.Errorf("whitespace_pattern %q: %v", p, err)
		}
	}
}

func TestStrings(t *testing.T) {
	checkTexts(t, []textCase{
		{"escapes", schema(`{"type":"string"}`), []string{`"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`, `"😀"`}, []string{`"\ud83d"`, `"\ude00"`, `"\x"`, "\"\n\"", `"a`, "\"\xff\"", "\"\xed\xa0\x80\""}},
		{"an escaped pair is one character", schema(`{"type":"string","minLength":2,"maxLength":2}`), []string{`"\ud83d\ude00a"`, `"éa"`}, []string{`"\ud83d\ude00"`, `"é"`, `"\u0061bc"`}},
		{"long bounds cost nothing", schema(`{"type":"string","minLength":1,"maxLength":100000}`), []string{`"` + strings.Repeat("é", 100000) + `"`}, []string{`""`, `"` + strings.Repeat("a", 100001) + `"`}},
		{"a pattern with bounds", schema(`{"type":"string","pattern":"^[a-z]*$","maxLength":5000,"minLength":3}`), []string{`"abc"`}, []string{`"ab"`, `"ABC"`}},
		{"a pattern with quotes and controls", schema(`{"type":"string","pattern":"^[\"\\\\\\u0001\\n]+$"}`), []string{`"\"\\\u0001\n"`}, []string{`"a"`, `""`}},
		{"undeclared names exclude declared ones, however spelled", schema(`{"type":"object","properties":{"ab":{"type":"integer"},"é\n":{"type":"null"}}}`),
			[]string{`{"ab": 1}`, `{"a": "x"}`, `{"abc": "x"}`, `{"é": 1}`}, []string{`{"ab": "x"}`, `{"a\u0062": "x"}`, `{"\u0061b": "x"}`, `{"é\n": 1}`, `{"\u00e9\n": 1}`}},
	})
}
