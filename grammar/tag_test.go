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
