package grammar

import (
	"errors"
	"testing"
)

// TestDrafts: a schema is read as the version in its $schema says.
func TestDrafts(t *testing.T) {
	in := func(version, rest string) Spec {
		return schema(`{"$schema":"http` + map[string]string{
			"4": "://json-schema.org/draft-04/schema#", "6": "://json-schema.org/draft-06/schema", "7": "://json-schema.org/draft-07/schema#",
			"2019": "s://json-schema.org/draft/2019-09/schema", "2020": "s://json-schema.org/draft/2020-12/schema",
		}[version] + `",` + rest)
	}
	siblings := `"properties":{"a":{"$ref":"#/definitions/a","maxLength":1}},"definitions":{"a":{"type":"string"}},"type":"object","required":["a"]}`
	ids := `"type":"object","properties":{"a":{"id":"http://a.example/x/","$id":"http://b.example/y/","items":{"$ref":"z"}}},"required":["a"],
		"definitions":{"x":{"id":"http://a.example/x/z","$id":"http://c.example/","type":"null"},"y":{"id":"http://c.example/z","$id":"http://b.example/y/z","type":"boolean"}}}`
	names := func(key string) string {
		return `"type":"array","items":{"$ref":"#n"},"definitions":{"n":{"` + key + `":"#n","type":"null"},"m":{"enum":[{"` + key + `":"#n"}]}}}`
	}
	checkTexts(t, []textCase{
		{"draft 4 ignores what is beside $ref", in("4", siblings), []string{`{"a":"xy"}`}, []string{`{"a":1}`}},
		{"draft 7 does too", in("7", siblings), []string{`{"a":"xy"}`}, []string{`{"a":1}`}},
		{"2019-09 does not", in("2019", siblings), []string{`{"a":"x"}`}, []string{`{"a":"xy"}`}},
		{"without $schema neither", schema(`{` + siblings), []string{`{"a":"x"}`}, []string{`{"a":"xy"}`}},
		{"id is the base in draft 4", in("4", ids), []string{`{"a":[null]}`}, []string{`{"a":[true]}`}},
		{"$id is the base in draft 7", in("7", ids), []string{`{"a":[true]}`}, []string{`{"a":[null]}`}},
		{"a property named id is no keyword", in("4", `"type":"object","properties":{"id":{"type":"null"},"b":{"$ref":"#/properties/id"}},"required":["b"]}`), []string{`{"b":null}`}, []string{`{"b":1}`}},
		{"a fragment as id", in("4", names("id")), []string{`[null]`}, []string{`[1]`}},
		{"a fragment as $id", in("6", names("$id")), []string{`[null]`}, []string{`[1]`}},
		{"a fragment as id, without $schema", schema(`{` + names("id")), []string{`[null]`}, []string{`[1]`}},
		{"$ref beside $id", in("7", `"$id":"http://x.example/","items":{"$id":"sub/","$ref":"a"},"type":"array","definitions":{"a":{"$id":"http://x.example/a","type":"null"},"b":{"$id":"http://x.example/sub/a","type":"boolean"}}}`), []string{`[null]`}, []string{`[true]`}},
		{"exclusiveMinimum of draft 4", in("4", `"type":"integer","minimum":3,"exclusiveMinimum":true,"maximum":5,"exclusiveMaximum":false}`), []string{`4`, `5`}, []string{`3`, `6`}},
		{"a pointer past an id that is meant from the root", in("4", `"type":"array","items":{"id":"item","items":{"$ref":"#/definitions/n"},"type":"array"},"definitions":{"n":{"type":"null"}}}`), []string{`[[null]]`}, []string{`[[1]]`}},
		{"$recursiveRef", in("2019", `"type":"array","items":{"$recursiveRef":"#"},"$recursiveAnchor":true}`), []string{`[[[]]]`}, []string{`[1]`}},
		{"$dynamicRef", in("2020", `"type":"array","items":{"$dynamicRef":"#n"},"$dynamicAnchor":"n"}`), []string{`[[[]]]`}, []string{`[1]`}},
		{"items as a list", in("7", `"type":"array","items":[{"type":"null"}],"additionalItems":{"type":"boolean"}}`), []string{`[null,true]`, `[]`}, []string{`[true]`, `[null,1]`}},
	})
	for _, c := range []struct {
		text string
		kind error
	}{
		{`{"$id":"http://x.example/","$dynamicAnchor":"n","items":{"$dynamicRef":"#n"},"$defs":{"o":{"$id":"o","$dynamicAnchor":"n"}}}`, ErrUnsupported},
		{`{"$recursiveAnchor":true,"items":{"$recursiveRef":"#"},"$defs":{"o":{"$id":"o","$recursiveAnchor":true}}}`, ErrUnsupported},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","type":"array","items":{"$ref":"#n"},"definitions":{"m":{"enum":[{"id":"#n"}]}}}`, ErrInvalid},
	} {
		if _, err := compileFor(schema(c.text), testVocabulary); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, want %v", c.text, err, c.kind)
		}
	}
}

// TestImpliedTypes: with Options.Strict, keywords imply a type only where no other schema
// for the same value says one.
func TestImpliedTypes(t *testing.T) {
	strict := func(text string) Spec {
		s := schema(text)
		s.Strict = true
		return s
	}
	checkTexts(t, []textCase{
		{"a number and properties", strict(`{"allOf":[{"type":"number"},{"properties":{"a":{}}}]}`), []string{`1.5`}, []string{`{}`, `"x"`}},
		{"a constant and properties", strict(`{"allOf":[{"const":1},{"properties":{"a":{}}}]}`), []string{`1`}, []string{`{}`}},
		{"a choice that says the type", strict(`{"allOf":[{"minLength":1},{"minimum":2}],"anyOf":[{"type":"boolean"},{"type":"integer"}]}`), []string{`true`, `2`}, []string{`1`, `"x"`}},
		{"both imply the same", strict(`{"allOf":[{"minLength":1},{"maxLength":2}]}`), []string{`"x"`}, []string{`1`}},
		{"an object and properties", strict(`{"allOf":[{"type":["object","null"]},{"properties":{"a":{}}}]}`), []string{`{}`}, []string{`null`}},
	})
}
