package grammar

import (
	"errors"
	"strings"
	"testing"
)

// TestGemmaArguments: what the style gemma takes of arguments, and what it refuses.
func TestGemmaArguments(t *testing.T) {
	gemma := func(schema string) Spec {
		return tag(`{"format":{"type":"tag","begin":"f{","content":{"type":"json_schema","style":"gemma","json_schema":` + schema + `},"end":"}"}}`)
	}
	checkTexts(t, []textCase{
		{"flat", gemma(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"type":"boolean"}},"required":["b"],"additionalProperties":false}`),
			[]string{`f{b:1}`, `f{a:<|"|>x, "y"\<|"|>,b:-2,c:true}`, `f{a:<|"|><|"<|"|>,b:1}`}, []string{`f{}`, `f{a:"x",b:1}`, `f{b:1, c:true}`, `f{"b":1}`, `f{b:1,c:True}`, `f{b=1}`}},
		{"nested", gemma(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"enum":["x",null,{"y":"z"}]},"c":{}},"additionalProperties":false}}},"required":["a"],"additionalProperties":false}`),
			[]string{`f{a:[]}`, `f{a:[{b:<|"|>x<|"|>,c:[null,{d:<|"|><|"|>}]},{b:{y:<|"|>z<|"|>}},{b:null}]}`}, []string{`f{a:[{"b":null}]}`, `f{a:[{b:<|"|>y<|"|>}]}`, `f{a:[{c:"x"}]}`, `f{a:[{c:{"d":1}}]}`}},
		{"null", gemma(`{"type":"object","properties":{"a":{"type":["null","integer"]},"b":{"enum":[null,{"c":null}]}},"additionalProperties":false}`),
			[]string{`f{a:null,b:null}`, `f{a:None,b:None}`, `f{b:{c:None}}`}, []string{`f{a:none}`, `f{a:True}`}},
		{"texts", gemma(`{"type":"object","properties":{"a":{"type":"string","pattern":"^[a-z]{1,2}$"},"b":{"type":"string","maxLength":2}},"additionalProperties":false}`),
			[]string{`f{}`, `f{a:<|"|>xy<|"|>,b:<|"|>é"<|"|>}`}, []string{`f{a:<|"|><|"|>}`, `f{a:<|"|>xyz<|"|>}`, `f{b:<|"|>abc<|"|>}`}},
	})
	for schema, msg := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"object","properties":{"b c":{}}}}}`: "no identifier",
		`{"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}}`:       "uniqueItems",
		`{"type":"object","properties":{"a":{"type":"object","minProperties":2}}}`:       "number of undeclared",
		`{"type":"array"}`: "objects",
	} {
		_, err := compileFor(gemma(schema), testVocabulary)
		if err == nil || !strings.Contains(err.Error(), msg) || !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, want %q", schema, err, msg)
		}
	}
}
