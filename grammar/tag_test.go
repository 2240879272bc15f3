package grammar

import (
	"errors"
	"strings"
	"testing"
)

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
	for _, s := range []string{`{"format":{"type":"any_text","max_tokens":3}}`, `{"format":{"type":"json_schema","style":"cohere_xml","json_schema":{}}}`, `{"format":{"type":"token","token":256}}`} {
		if _, err := compileFor(tag(s), testVocabulary); !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, want ErrUnsupported", s, err)
		}
	}
}

// TestLegacyTags: the older form, as vLLM and SGLang send it.
func TestLegacyTags(t *testing.T) {
	structures := `"structures":[{"begin":"<a>","schema":{"type":"boolean"},"end":"</a>"},{"begin":"<b>","schema":null,"end":"</b>"}],"triggers":["<a","<b"]`
	checkTexts(t, []textCase{
		{"vLLM", tag(`{"type":"structural_tag",` + structures + `}`), []string{"", "x<a>true</a>", `<b>[1]</b>`}, []string{"<a>1</a>", "<a>", "<b>x</b>"}},
		{"SGLang", tag(`{"type":"structural_tag",` + structures + `,"at_least_one":true}`), []string{"<a>true</a>", "<a>true</a>x"}, []string{"", "x<a>true</a>"}},
		{"null beside format", tag(`{"structures":null,"format":{"value":"x"}}`), []string{"x"}, []string{""}},
	})
}

// TestTagRefusals: what is refused says why and where.
func TestTagRefusals(t *testing.T) {
	for _, c := range []struct{ format, path, msg string }{
		{`{"type":"sequence","elements":[{"value":"a"},{"type":"any_text","max_tokens":3}]}`, "/format/elements/1/max_tokens", "max_chars"},
		{`{"type":"json_schema","style":"minimax_m3_xml","json_schema":{}}`, "/format/style", "minimax_m3_xml"},
		{`{"type":"json_schema","excludes":["a"],"json_schema":{}}`, "/format/excludes", ""},
		{`{"type":"json_schema","style":"qwen_xml","json_schema":{"type":"string"}}`, "/format/json_schema", "objects"},
		{`{"type":"json_schema","style":"qwen_xml","json_schema":{"properties":{"a>b":{}}}}`, "/format/json_schema/properties", "a\u003eb"},
		{`{"type":"json_schema","style":"qwen_xml","json_schema":{"properties":{"a":{},"b":{}},"minProperties":1}}`, "/format/json_schema", "number of properties"},
		{`{"type":"json_schema","style":"qwen_xml","json_schema":{"properties":{"a":{"type":"nothing"}}}}`, "/format/json_schema/properties/a/type", "nothing"},
		{`{"begin":"a","content":{"value":""},"end":{"token":"<|z|>"}}`, "/format/end/token", "no token"},
		{`{"begin":"a","content":{"value":""},"end":{"token":256}}`, "/format/end", "end token"},
		{`{"type":"token_triggered_tags","trigger_tokens":[257],"tags":[{"begin":{"token":258},"content":{"value":""},"end":""}]}`, "/format/tags/0/begin", "trigger_tokens"},
		{`{"type":"token_triggered_tags","trigger_tokens":[257,258],"tags":[{"begin":{"token":258},"content":{"value":""},"end":""}]}`, "/format/trigger_tokens/0", "no tag"},
		{`{"type":"token_dispatch","rules":[[true,{"value":""}]]}`, "/format/rules/0/0", "id or a text"},
		{`{"type":"dispatch","rules":[["",{"value":""}]]}`, "/format/rules/0", "text"},
	} {
		_, err := compileFor(tag(`{"format":`+c.format+`}`), specialVocabulary(t))
		var e *Error
		if !errors.As(err, &e) || e.Path != c.path || !strings.Contains(e.Msg, c.msg) {
			t.Errorf("%s: %v, want %q at %s", c.format, err, c.msg, c.path)
		}
	}
}

// TestTagWarnings: what is read in another way than its author may expect is said.
func TestTagWarnings(t *testing.T) {
	g := mustCompile(t, tag(`{"format":{"type":"json_schema","any_order":true,"json_schema":{"type":"boolean"}}}`), testVocabulary)
	if w := g.Warnings(); len(w) != 1 || w[0].Path != "/format/any_order" {
		t.Errorf("warnings %v", w)
	}
}

// TestNamesOfPython: in the style qwen_names_xml the value of a parameter may be a name of Python, and
// nothing within it.
func TestNamesOfPython(t *testing.T) {
	schema := `{"type":"object","properties":{"a":{"type":"boolean"},"b":{"enum":[null,1,true]},"c":{"type":["integer","null"]},"d":{"type":"array"}},"additionalProperties":false}`
	one := func(name, v string) string { return "<parameter=" + name + ">\n" + v + "\n</parameter>" }
	good := []string{one("a", "true"), one("a", "True"), one("a", "False"), one("b", "None"), one("b", "True"), one("b", "1"), one("c", "None"), one("d", "[true, null]")}
	bad := []string{one("a", "None"), one("a", "TRUE"), one("b", "False"), one("c", "True"), one("d", "[True]"), one("d", "None")}
	checkTexts(t, []textCase{{"names", tag(`{"format":{"type":"json_schema","style":"qwen_names_xml","json_schema":` + schema + `}}`), good, bad},
		{"JSON", tag(`{"format":{"type":"json_schema","style":"qwen_xml","json_schema":` + schema + `}}`), good[:1], append(bad, good[1:5]...)}})
}

// TestParametersEndOnce: no string of a parameter contains the end of a parameter, whatever
// its schema says.
func TestParametersEndOnce(t *testing.T) {
	const end = "</parameter>"
	schema := `{"properties":{"p":{"type":"string","pattern":"x"},"e":{"enum":["a` + end + `b","c"]},"l":{"type":"string","maxLength":50},"s":{"type":"string"}}}`
	checkTexts(t, []textCase{{"parameters", tag(`{"format":{"type":"qwen_xml_parameter","json_schema":` + schema + `}}`),
		[]string{"<parameter=p>axb" + end, "<parameter=e>c" + end, "<parameter=l>a</param" + end, "<parameter=s></parameter" + end},
		[]string{"<parameter=p>x" + end + "y" + end, "<parameter=p>x" + end + end, "<parameter=e>a" + end + "b" + end, "<parameter=l>a" + end + end, "<parameter=s>" + end + end}}})
}
