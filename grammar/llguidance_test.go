package grammar

import (
	"encoding/json"
	"testing"
)

// llguidanceApart are the cases of testdata/llguidance_lark.json that one of the two takes
// and the other refuses. The value says why.
var llguidanceApart = map[string]string{
	"no start":                            "the first rule is the start",
	"a terminal in itself":                "it is read as a rule",
	"nested, with spaces ignored outside": "llguidance wants a line break before }",
	"a rule with a parameter":             "not supported",
}

// llguidanceFewer and llguidanceMore are texts that only llguidance accepts, and that only
// weir accepts. The value says why.
var (
	llguidanceFewer = map[string]string{}
	llguidanceMore  = map[string]string{
		`ignored: ["ab "]`:               "in Lark, what is ignored may come at the end",
		`not in a rule: ["<ab>"]`:        "llguidance's lexer takes the longest lexeme, and the text is one of the grammar",
		`any tokens: [257,"!"]`:          "llguidance reads ! as any token and not as the text after it",
		`any tokens: [257,"ab",258,"!"]`: "llguidance reads ! as any token and not as the text after it",
	}
)

// TestLlguidanceLark compares Lark grammars with what llguidance 1.9.1 says of them
// (tools/golden/llguidance_lark.py).
func TestLlguidanceLark(t *testing.T) {
	var golden struct {
		Cases []struct {
			Name, Grammar    string
			Refused          bool
			Accepts, Rejects []tokenText
		}
	}
	if err := json.Unmarshal(readFile(t, "testdata/llguidance_lark.json"), &golden); err != nil {
		t.Fatal(err)
	}
	v := specialVocabulary(t)
	texts := 0
	for _, c := range golden.Cases {
		g, err := compileFor(notation(c.Grammar), v)
		if apart := llguidanceApart[c.Name] != ""; (err != nil) != (c.Refused != apart) {
			t.Errorf("%s: %v, llguidance refuses it: %t", c.Name, err, c.Refused)
		}
		if err != nil {
			continue
		}
		for want, list := range map[bool][]tokenText{true: c.Accepts, false: c.Rejects} {
			except := llguidanceMore
			if want {
				except = llguidanceFewer
			}
			for _, text := range list {
				texts++
				key := c.Name + ": " + dump(t, text)
				if got := g.acceptsTokens(t, c.Name, text.ids(t)); got != (want != (except[key] != "")) {
					t.Errorf("%s: accepted: %t, by llguidance: %t", key, got, want)
				}
			}
		}
	}
	if texts < 180 {
		t.Errorf("only %d texts", texts)
	}
}
