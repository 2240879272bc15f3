package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

func TestNegations(t *testing.T) {
	checkTexts(t, []textCase{
		{"a string that is not short", schema(`{"type":"string","not":{"maxLength":2}}`), []string{`"abc"`}, []string{`""`, `"ab"`, `3`}},
		{"excluded words, however spelled", schema(`{"type":"string","not":{"enum":["ab","c"]}}`), []string{`"a"`, `"abc"`, `""`, `"C"`}, []string{`"ab"`, `"c"`, `"\u0061b"`, `"a\u0062"`, `"\u0063"`}},
		{"excluded numbers, however spelled", schema(`{"type":"number","not":{"enum":[1,2.5,0,-3]}}`), []string{`2`, `10`, `1.5`, `2.05`, `-1`, `3`}, []string{`1`, `1.0`, `1.00`, `1e0`, `10e-1`, `2.5`, `2.50`, `25e-1`, `0`, `-0`, `0.0`, `-0.00`, `0e5`, `-3`, `-3.0`}},
		{"a number that is no integer", schema(`{"type":"number","not":{"type":"integer"}}`), []string{`0.5`, `-1.25`}, []string{`1`, `1.0`, `10e-1`, `-0`}},
		{"an integer that is no multiple", schema(`{"type":"integer","not":{"multipleOf":3},"minimum":-5}`), []string{`-5`, `1`, `100`}, []string{`-3`, `0`, `99`, `1.5`}},
		{"one boolean is left", schema(`{"not":{"anyOf":[{"const":true},{"type":["number","string","null","object","array"]}]}}`), []string{`false`}, []string{`true`, `null`, `0`}},
		{"a pattern does not match", schema(`{"type":"string","not":{"pattern":"^a|b"}}`), []string{`""`, `"ca"`}, []string{`"ac"`, `"cb"`, `"\u0061"`}},
		{"an array that is not that one", schema(`{"type":"array","not":{"const":[1,"a"]}}`), []string{`[]`, `[1]`, `[1,"b"]`, `[2,"a"]`, `[1,"a",1]`}, []string{`[1,"a"]`, `[1.0,"\u0061"]`}},
		{"an object that is not that one", schema(`{"type":"object","not":{"const":{"a":1}}}`), []string{`{}`, `{"a":2}`, `{"a":1,"b":1}`, `{"b":1}`}, []string{`{"a":1}`, `{"a":1.0}`}},
		{"an element that is no integer", schema(`{"type":"array","maxItems":3,"not":{"items":{"type":"integer"}}}`), []string{`["a"]`, `[1,0.5]`, `[1,null,1]`}, []string{`[]`, `[1,2]`, `[1,2,3,null]`}},
		{"an element after the first that is no integer, in a long array", schema(`{"type":"array","minItems":40,"maxItems":50,"not":{"prefixItems":[true],"items":{"type":"integer"}}}`),
			[]string{"[" + strings.Repeat("1,", 45) + "null]", "[1,null" + strings.Repeat(",1", 38) + "]"}, []string{"[null" + strings.Repeat(",1", 45) + "]", "[1,null" + strings.Repeat(",1", 37) + "]", "[1,null" + strings.Repeat(",1", 49) + "]"}},
		{"an undeclared property that is no integer", schema(`{"type":"object","properties":{"a":{}},"not":{"properties":{"a":{}},"additionalProperties":{"type":"integer"}}}`),
			[]string{`{"b":"x"}`, `{"a":1,"b":1,"c":"x"}`}, []string{`{}`, `{"a":"x"}`, `{"a":"x","b":1}`}},
		// Readers take the last value of a name that comes twice, so that must be a witness.
		{"a witness that is written over", schema(`{"type":"object","not":{"additionalProperties":{"type":"integer"}}}`), []string{`{"b":"x","b":"y"}`}, []string{`{"b":"x","b":1}`, `{"b":"x","\u0062":1}`}},
		{"two witnesses in one object", schema(`{"type":"object","allOf":[{"not":{"patternProperties":{"a":{"type":"integer"}}}},{"not":{"patternProperties":{"b":{"type":"string"}}}}]}`),
			[]string{`{"ab":null}`, `{"a":"","b":1}`, `{"b":1,"a":""}`, `{"x":1,"b":1,"a":"","y":1}`}, []string{`{}`, `{"a":""}`, `{"b":1}`, `{"a":1,"b":""}`, `{"a":1,"b":1}`}},
		{"an object with a name that does not match", schema(`{"type":"object","not":{"propertyNames":{"pattern":"^a"}}}`), []string{`{"b":1}`, `{"a":1,"b":1}`}, []string{`{}`, `{"a":1}`, `{"\u0061":1}`}},
	})
}

func TestConditions(t *testing.T) {
	checkTexts(t, []textCase{
		{"if", schema(`{"type":"object","properties":{"t":{"enum":["a","b","c"]},"x":{"type":"integer"}},"required":["t"],"if":{"properties":{"t":{"const":"a"}}},"then":{"required":["x"]},"else":{"properties":{"x":false}}}`),
			[]string{`{"t":"a","x":1}`, `{"t":"b"}`, `{"t":"c","y":1}`}, []string{`{"t":"a"}`, `{"t":"b","x":1}`}},
		{"then and else without if", schema(`{"then":false,"else":false}`), []string{`1`}, nil},
		{"if alone", schema(`{"if":{"format":"date"}}`), []string{`1`, `"a"`}, nil},
		{"dependentRequired", schema(`{"properties":{"a":true,"b":true,"c":true},"dependentRequired":{"a":["b","c"]}}`), []string{`{}`, `{"b":1}`, `{"a":1,"b":1,"c":1}`, `7`}, []string{`{"a":1}`, `{"a":1,"b":1}`}},
		{"dependencies of both forms", schema(`{"properties":{"a":true,"b":true},"dependencies":{"a":["b"],"b":{"maxProperties":2}}}`), []string{`{}`, `{"a":1,"b":1}`, `{"b":1,"c":1}`}, []string{`{"a":1}`, `{"a":1,"b":1,"c":1}`}},
		{"dependentSchemas", schema(`{"properties":{"a":true,"b":true},"dependentSchemas":{"a":{"properties":{"b":{"type":"null"}}}}}`), []string{`{"b":1}`, `{"a":1,"b":null}`, `{"a":1}`}, []string{`{"a":1,"b":1}`}},
		{"oneOf by required names", schema(`{"type":"object","properties":{"a":true,"b":true},"oneOf":[{"required":["a"]},{"required":["b"]}]}`), []string{`{"a":1}`, `{"b":1}`}, []string{`{}`, `{"a":1,"b":1}`}},
		{"oneOf of ranges", schema(`{"type":"integer","oneOf":[{"minimum":0,"maximum":10},{"multipleOf":5}]}`), []string{`3`, `15`, `-5`}, []string{`5`, `0`, `-4`, `12`}},
	})
}

// TestConditionsOnOneProperty: conditions on the same property do not multiply.
func TestConditionsOnOneProperty(t *testing.T) {
	var s strings.Builder
	s.WriteString(`{"type":"object","properties":{"t":{"type":"string"}},"required":["t"],"allOf":[`)
	for i := range 40 {
		fmt.Fprintf(&s, `{"if":{"properties":{"t":{"const":"t%d"}},"required":["t"]},"then":{"properties":{"x":{"const":%d}},"required":["x"]}},`, i, i)
	}
	s.WriteString(`true]}`)
	g := mustCompile(t, schema(s.String()), testVocabulary)
	for _, c := range []struct {
		text string
		want bool
	}{{`{"t":"t7","x":7}`, true}, {`{"t":"t39","x":39}`, true}, {`{"t":"t7","x":8}`, false}, {`{"t":"t7"}`, false}, {`{"t":"other"}`, true}, {`{"t":"t70","x":8}`, true}} {
		if g.accepts(c.text) != c.want {
			t.Errorf("%s: accepted %t", c.text, !c.want)
		}
	}
}

// TestOneOfAsAnyOf: a oneOf that cannot be kept is refused, unless the schema or an option
// says that it may be read as anyOf. One that can be kept is kept.
func TestOneOfAsAnyOf(t *testing.T) {
	hard := `[{"type":"array","items":{"enum":[1,2]},"uniqueItems":true},{"type":"array","items":{"enum":[1,2]},"maxItems":1}]`
	plain, marked := schema(`{"a":1,"oneOf":`+hard+`}`), schema(`{"x-oneOf":"any","oneOf":`+hard+`}`)
	if _, err := compileFor(plain, testVocabulary); !errors.Is(err, ErrUnsupported) {
		t.Errorf("without x-oneOf: %v", err)
	}
	option := plain
	option.OneOfAny = true
	for _, spec := range []Spec{marked, option} {
		g := mustCompile(t, spec, testVocabulary)
		if !g.accepts(`[1]`) || !g.accepts(`[2,1]`) || g.accepts(`[1,1]`) {
			t.Errorf("%s: it is not read as anyOf", spec.Schema)
		}
		if w := g.Warnings(); len(w) != 1 || w[0].Path != "/oneOf" {
			t.Errorf("%s: warnings %v", spec.Schema, w)
		}
	}
	listed := schema(`{"x-oneOf":"any","enum":[[1],7,[1,2]],"oneOf":` + hard + `}`)
	if g := mustCompile(t, listed, testVocabulary); g.accepts(`[1]`) || !g.accepts(`[1,2]`) || len(g.Warnings()) > 0 {
		t.Errorf("a oneOf of constants can be kept: %v", g.Warnings())
	}
	easy := schema(`{"x-oneOf":"any","type":"integer","oneOf":[{"minimum":0},{"maximum":5}]}`)
	g := mustCompile(t, easy, testVocabulary)
	if !g.accepts(`-1`) || !g.accepts(`6`) || g.accepts(`3`) || len(g.Warnings()) > 0 {
		t.Errorf("a oneOf that can be kept is not: %v", g.Warnings())
	}
	if plain.key() == option.key() {
		t.Error("a grammar with OneOfAny is taken for one without")
	}
}

// TestNegatedFormatOfConstant: a constant that is not in the language of a format may be of
// the format all the same.
func TestNegatedFormatOfConstant(t *testing.T) {
	if _, err := compileFor(schema(`{"enum":["http:"],"not":{"format":"uri"}}`), testVocabulary); !errors.Is(err, ErrUnsatisfiable) {
		t.Errorf("%v", err)
	}
	g := mustCompile(t, schema(`{"enum":["http://a/",1],"not":{"type":"string","format":"uri"}}`), testVocabulary)
	if g.accepts(`"http://a/"`) || !g.accepts(`1`) {
		t.Error("a constant of the format is accepted")
	}
}

// TestLogicWalks: whatever random legal tokens a text is made of, it never gets stuck, and it
// satisfies the schema.
func TestLogicWalks(t *testing.T) {
	voc := syntheticVocabulary(t, 4096, false)
	seeds := 1500
	if slow || testing.Short() {
		seeds = 150
	}
	checked, unfinished := 0, 0
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 12))
		r := &logicSchema{randomSchema{rng: rng}}
		text := mustMarshal(t, r.schema(3))
		spec := schema(text)
		spec.Strict = seed%4 == 3 && !strings.Contains(text, "oneOf")
		spec.DisableAdditionalProperties = seed%4 == 2
		g, err := compileFor(spec, voc)
		if err != nil {
			continue
		}
		valid := validator(t, text)
		for range 5 {
			out, done := randomText(t, g, rng)
			if !done {
				unfinished++
				continue
			}
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
			if err != nil {
				t.Fatalf("seed %d: %s\nwrote %s\nwhich is not JSON: %v", seed, text, out, err)
			}
			if err := valid.Validate(v); err != nil {
				t.Fatalf("seed %d: %s\nwrote %s\n%v", seed, text, out, err)
			}
			checked++
		}
	}
	if checked < 3*seeds || unfinished > checked/15 {
		t.Errorf("%d texts checked, %d unfinished", checked, unfinished)
	}
}

// TestDemandsBeforeTheEnd: where only as many elements or properties are left as are demanded,
// no other ones can come, because the text could not be completed then.
func TestDemandsBeforeTheEnd(t *testing.T) {
	for _, c := range []struct{ schema, begins, stuck string }{
		{`{"type":"object","maxProperties":2,"not":{"additionalProperties":{"type":"string"}}}`, `{"a":"x","b":1}`, `{"a":"x","b":"`},
		{`{"type":"array","maxItems":3,"not":{"items":{"type":"string"}}}`, `["a","b",1]`, `["a","b","`},
		{`{"type":"array","maxItems":30,"minItems":29,"not":{"items":{"type":"string"}}}`, `[1` + strings.Repeat(`,"a"`, 28) + `]`, `["a"` + strings.Repeat(`,"a"`, 28) + `,"`},
		{`{"type":"object","maxProperties":1,"not":{"additionalProperties":{"type":"string"}},"allOf":[{"not":{"additionalProperties":{"type":"null"}}}]}`, `{"a":1}`, `{"a":null`},
		{`{"type":"array","maxItems":2,"not":{"items":{"type":"string"}},"allOf":[{"not":{"items":{"type":"number"}}}]}`, `["a",1]`, `["a","`},
	} {
		g := mustCompile(t, schema(c.schema), testVocabulary)
		if !g.accepts(c.begins) {
			t.Errorf("%s: rejects %s", c.schema, c.begins)
		}
		if g.m.run(g.m.root, []byte(c.stuck)) != dead {
			t.Errorf("%s: %s is a beginning, but cannot be completed", c.schema, c.stuck)
		}
	}
}
