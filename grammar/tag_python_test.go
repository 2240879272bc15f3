package grammar

import (
	"errors"
	"strings"
	"testing"
)

// TestPythonArguments: what the style python takes of keyword arguments, and what it refuses.
func TestPythonArguments(t *testing.T) {
	python := func(schema string) Spec {
		return tag(`{"format":{"type":"tag","begin":"f(","content":{"type":"json_schema","style":"python","json_schema":` + schema + `},"end":")"}}`)
	}
	checkTexts(t, []textCase{
		{"required and optional", python(`{"type":"object","properties":{"a":{"type":"string"},"ab":{"type":"integer"},"c":{"type":"boolean"}},"required":["ab"],"additionalProperties":false}`),
			[]string{`f(ab=1)`, `f(a="x)", ab=-2)`, `f(a="\n", ab=1, c=True)`, `f(ab=1, c=False)`},
			[]string{`f()`, `f(a="x")`, `f(ab=1,c=True)`, `f(ab=1, c=true)`, `f(ab=1, a="x")`, `f(ab=1, d=1)`, `f(ab="1")`, `f(ab=1, )`, `f("x", ab=1)`, `f(ab =1)`}},
		{"None", python(`{"type":"object","properties":{"a":{"type":["string","null"]},"b":{"enum":[null,true,{"x":[false]},1]}},"additionalProperties":false}`),
			[]string{`f()`, `f(a=None)`, `f(a="None", b=None)`, `f(b=True)`, `f(b={"x": [False]})`, `f(b=1)`}, []string{`f(a=null)`, `f(b=null)`, `f(b=False)`, `f(b={"x": [false]})`}},
		{"nested", python(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"type":"boolean"},"c":{}}}}},"required":["a"],"additionalProperties":false}`),
			[]string{`f(a=[])`, `f(a=[{"b": True, "c": [None, {"d": False}]}, {}])`}, []string{`f(a=[{"b": true}])`, `f(a=[{"c": null}])`, `f(a=[{b: True}])`, `f(a=[{"b"=True}])`}},
		{"undeclared", python(`{"type":"object","properties":{"a":{}},"additionalProperties":{"type":"integer"}}`),
			[]string{`f()`, `f(b=1)`, `f(a=None, b_2=1, C=2)`}, []string{`f(b=True)`, `f(b=1, a=1)`, `f(b-2=1)`, `f(2=1)`, `f(="1")`}},
		{"numbers of properties", python(`{"type":"object","properties":{"a":{},"b":{}},"minProperties":1,"maxProperties":1,"additionalProperties":false}`),
			[]string{`f(a=1)`, `f(b=1)`}, []string{`f()`, `f(a=1, b=1)`}},
		{"single quotes", python(`{"type":"object","properties":{"a":{"type":"string"},"b":{"enum":["x","it's"]},"c":{"type":"array","items":{"type":"string","pattern":"^[a-z]{2}.?$"}},"d":{"type":"string","maxLength":2}},"additionalProperties":false}`),
			[]string{`f(a='x "y" é')`, `f(a='', b='x', c=['ab', "cd"], d='xy')`, `f(b="it's")`},
			[]string{`f(a='x)`, `f(a='x")`, `f(a='\n')`, "f(a='\n')", `f(a='it's')`, `f(b='it's')`, `f(b='y')`, `f(c=['a'])`, `f(c=['ab\\'])`, `f(d='xyz')`}},
		{"unequal in single quotes", python(`{"type":"object","properties":{"a":{"type":"array","items":{"type":"string","maxLength":1},"uniqueItems":true}},"additionalProperties":false}`),
			[]string{`f(a=["x", "y"])`}, []string{`f(a=["x", "x"])`, `f(a=['x', "x"])`}},
		{"any object", python(`{"type":"object"}`), []string{`f()`, `f(a={"b": None})`}, []string{`f(1)`, `f(a=null)`}},
		{"one of two", python(`{"anyOf":[{"type":"object","properties":{"a":{"const":1}},"required":["a"],"additionalProperties":false},{"type":"object","properties":{"b":{"const":2}},"required":["b"],"additionalProperties":false}]}`),
			[]string{`f(a=1)`, `f(b=2)`}, []string{`f()`, `f(a=2)`, `f(a=1, b=2)`}},
	})
	for schema, msg := range map[string]string{
		`{"type":"string"}`:                         "objects",
		`{"type":"object","properties":{"a-b":{}}}`: "no identifier",
		`{"type":"object","minProperties":3}`:       "number of undeclared",
	} {
		_, err := compileFor(python(schema), testVocabulary)
		if err == nil || !strings.Contains(err.Error(), msg) || !errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v, want %q", schema, err, msg)
		}
	}
}
