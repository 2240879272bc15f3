package grammar

import (
	"errors"
	"strings"
	"testing"
)

func TestOptions(t *testing.T) {
	props := `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a","b"]}`
	with := func(s Spec, o Options) Spec { s.Options = o; return s }
	checkTexts(t, []textCase{
		{"default whitespace is bounded", schema(props), []string{`{"a":1,"b":2}`, "{ \"a\" : 1 ,\n\n  \"b\":2, \"c\": []}"}, []string{`{  "a":1,"b":2}`, "{\"a\":1,\n\n\n\"b\":2}", ` {"a":1,"b":2}`, `{"a":1,"b":2} `}},
		{"disable_any_whitespace", with(schema(props), Options{DisableAnyWhitespace: true}), []string{`{"a":1,"b":{"c":[]},"d":""}`}, []string{`{"a": 1,"b":2}`, `{"a":1,"b":{ }}`}},
		{"disable_additional_properties", with(schema(props), Options{DisableAdditionalProperties: true}), []string{`{"a":1,"b":2}`}, []string{`{"a":1,"b":2,"c":3}`}},
		{"additionalProperties said otherwise", with(schema(`{"properties":{"a":{}},"additionalProperties":true}`), Options{DisableAdditionalProperties: true}), []string{`{"z":1}`, `3`}, nil},
		{"allOf declares together", with(schema(`{"allOf":[{"properties":{"a":{}}},{"properties":{"b":{}}}]}`), Options{DisableAdditionalProperties: true}), []string{`{"a":1,"b":2}`}, []string{`{"c":1}`}},
		{"patterns declare names", with(schema(`{"type":"object","patternProperties":{"^k":{"type":"integer"}}}`), Options{Strict: true}), []string{`{"k1":1,"k":2}`, `{}`}, []string{`{"a":1}`, `{"k":1,"":0}`}},
		{"patterns and properties", with(schema(`{"properties":{"a":{}},"patternProperties":{"^k":{"type":"integer"}},"required":["a"]}`), Options{Strict: true}), []string{`{"a":1,"k":2}`}, []string{`{"a":1,"b":2}`}},
		{"patterns beside properties of another schema", with(schema(`{"allOf":[{"properties":{"a":{"type":"null"}},"required":["a"]},{"patternProperties":{"^k":{"type":"integer"}}}]}`), Options{Strict: true}), []string{`{"a":null}`}, []string{`{"a":null,"b":2}`, `{"a":1}`}},
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
		{"long bounds cost nothing", schema(`{"type":"string","minLength":1,"maxLength":20000}`), []string{`"` + strings.Repeat("é", 20000) + `"`}, []string{`""`, `"` + strings.Repeat("a", 20001) + `"`}},
		{"a pattern with bounds", schema(`{"type":"string","pattern":"^[a-z]*$","maxLength":5000,"minLength":3}`), []string{`"abc"`}, []string{`"ab"`, `"ABC"`}},
		{"a pattern with quotes and controls", schema(`{"type":"string","pattern":"^[\"\\\\\\u0001\\n]+$"}`), []string{`"\"\\\u0001\n"`}, []string{`"a"`, `""`}},
		{"undeclared names exclude declared ones, however spelled", schema(`{"type":"object","properties":{"ab":{"type":"integer"},"é\n":{"type":"null"}}}`),
			[]string{`{"ab": 1}`, `{"a": "x"}`, `{"abc": "x"}`, `{"é": 1}`}, []string{`{"ab": "x"}`, `{"a\u0062": "x"}`, `{"\u0061b": "x"}`, `{"é\n": 1}`, `{"\u00e9\n": 1}`}},
	})
}

func TestNumbers(t *testing.T) {
	checkTexts(t, []textCase{
		{"exponents", schema(`{"type":"number"}`), []string{"1e5", "-0.5E+07", "1e299", "12e-042"}, []string{"1e", "1e300", "1e999", "1e0001", "1e5.0"}},
		{"an open bound", schema(`{"type":"number","exclusiveMinimum":0.5,"exclusiveMaximum":9}`), []string{"0.51", "0.500000000000001", "8.99999999", "8.99999999999999", "1", "1.00000000000000000000000001"},
			[]string{"0.5", "0.50000000000000001", "8.99999999999999999", "9", "9.0"}},
		{"open at 0", schema(`{"type":"number","exclusiveMinimum":0}`), []string{"0.00000001", "1", "10"}, []string{"0", "0.0", "-1", "0." + strings.Repeat("0", 400) + "1"}},
		{"open below 0", schema(`{"type":"number","exclusiveMaximum":-273.15,"minimum":-300}`), []string{"-273.150001", "-300"}, []string{"-273.15", "-273.15000000000000001", "-300.1"}},
		{"a narrow range", schema(`{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":0.0000000000000000000000001}`), []string{"0.00000000000000000000000000005"}, []string{"0"}},
		{"closed bounds are in the range", schema(`{"type":"number","minimum":0.1,"maximum":0.3}`), []string{"0.1", "0.3", "0.10000000000000000000001"}, []string{"0.09", "0.31"}},
	})
}
