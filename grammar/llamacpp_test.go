package grammar

import (
	"encoding/json"
	"regexp"
	"testing"
)

// TestLlamaCases runs the cases of llama.cpp's tests/test-grammar-integration.cpp (MIT
// licence). llama.cpp limits integers to 16 digits, so some strings that it rejects
// (llamaDigitCap) are legal here. Its schemas are strict: undeclared properties are not
// allowed, and keywords imply a type. One schema has uniqueItems, which is refused here
// and not enforced there; it is tried without.
func TestLlamaCases(t *testing.T) {
	llamaCases(t, readFile(t, "testdata/llamacpp_grammar_integration.json"))
}

var llamaDigitCap = map[string]bool{
	"min 0 100000000000000000000000000000000": true,
	"min 2 12345678900000000":                 true,
}

func llamaCases(t *testing.T, text []byte) {
	var cases []struct {
		Kind, Name, Grammar string
		Schema              json.RawMessage
		Pass, Fail          []string
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, c := range cases {
		spec := Spec{Kind: JSONSchema, Schema: regexp.MustCompile(`,\s*"uniqueItems": true`).ReplaceAll(c.Schema, nil)}
		spec.Strict = true
		if c.Kind == "grammar" {
			spec = Spec{Kind: Notation, Text: c.Grammar}
		}
		g, err := compileFor(spec, testVocabulary)
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		for _, s := range c.Pass {
			if checked++; !g.accepts(s) {
				t.Errorf("%s: rejects %q", c.Name, s)
			}
		}
		for _, s := range c.Fail {
			if checked++; g.accepts(s) && !llamaDigitCap[c.Name+" "+s] {
				t.Errorf("%s: accepts %q", c.Name, s)
			}
		}
	}
	if checked < 367 {
		t.Errorf("only %d strings checked", checked)
	}
}
