package api

import (
	"reflect"
	"testing"
)

func TestC70C72StructuredOutputs(t *testing.T) {
	refuse(t, `"structured_outputs":{}`, want{"schema", "You must use one kind of structured outputs constraint but none are specified"})
	refuse(t, `"structured_outputs":{"json":null,"regex":null}`, want{"schema", "none are specified"})
	refuse(t, `"structured_outputs":{"json":{},"regex":"a"}`, want{"schema", "You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice')."})
	refuse(t, `"structured_outputs":{"json":{},"grammar":"a"}`, want{"schema", "You can only use one kind of structured outputs constraint but multiple are specified: json, grammar"})
	refuse(t, `"response_format":{"type":"json_object"},"structured_outputs":{"regex":"a"}`, want{"constraint", "multiple are specified"})
	refuse(t, `"structured_outputs":{"choice":[]}`, want{"constraint", "Choice '[]' cannot be an empty list"})
	refuse(t, `"structured_outputs":{"grammar":""}`, want{"constraint", "structured_outputs.grammar cannot be an empty string"})
	refuse(t, `"structured_outputs":{"grammar":" \n"}`, want{"constraint", "cannot be an empty string"})
	for _, v := range []string{`5`, `{"regex":5}`, `{"choice":"a"}`, `{"choice":[1]}`, `{"grammar":{}}`, `{"json":5}`, `{"json":[]}`, `{"json_object":5}`, `{"structural_tag":{}}`,
		`{"regex":"a","disable_any_whitespace":null}`, `{"regex":"a","whitespace_pattern":5}`} {
		refuse(t, `"structured_outputs":`+v, want{"schema", "structured_outputs"})
	}
	for f, c := range map[string]*Constraint{
		`"structured_outputs":null`:                              nil,
		`"structured_outputs":{"choice":["a","b"],"regex":null}`: {Kind: ConstraintChoice, Choices: []string{"a", "b"}},
		`"structured_outputs":{"regex":""}`:                      {Kind: ConstraintRegex},
		`"structured_outputs":{"regex":"\\d{3}"}`:                {Kind: ConstraintRegex, Text: `\d{3}`},
		`"structured_outputs":{"grammar":"root ::= \"x\""}`:      {Kind: ConstraintGrammar, Text: `root ::= "x"`},
		`"structured_outputs":{"json_object":true}`:              {Kind: ConstraintJSONObject},
		`"structured_outputs":{"json":{"type":"object"},"disable_any_whitespace":true,"disable_additional_properties":true,"whitespace_pattern":" ?","disable_fallback":true,"_backend":null,"_backend_was_auto":false}`: {
			Kind: ConstraintJSON, Schema: Raw(`{"type":"object"}`), DisableAnyWhitespace: true, DisableAdditionalProperties: true, WhitespacePattern: ptr(" ?")},
		`"response_format":{"type":"text"},"structured_outputs":{"regex":"a"}`: {Kind: ConstraintRegex, Text: "a"},
		`"response_format":{"type":"text","json_schema":5}`:                    nil,
		`"response_format":null`:                                               nil,
	} {
		if r := accept(t, f); !reflect.DeepEqual(r.Constraint, c) {
			t.Errorf("%s: %+v, want %+v", f, r.Constraint, c)
		}
	}
}

func ptr[T any](x T) *T { return &x }

func TestC73Uncompilable(t *testing.T) {
	for e, text := range map[*Error]string{
		ErrConstraint(ConstraintRegex, "x"):   "Failed to transform regex into a grammar: x",
		ErrConstraint(ConstraintJSON, "x"):    "Failed to transform json schema into a grammar: x",
		ErrConstraint(ConstraintGrammar, "x"): "Invalid grammar specification. x",
		ErrConstraint(ConstraintTag, ""):      "Invalid structural tag specification.",
		ErrConstraint(ConstraintChoice, ""):   "Invalid grammar specification.",
		ErrContinued("at byte 1: x"):          "continue_final_message is set but the final message is not the beginning of an output that the constraint allows: at byte 1: x",
	} {
		if e.Message != text || e.Status != 400 || e.Type != TypeBadRequest || e.Param != nil {
			t.Errorf("%+v", e)
		}
	}
}

func TestC75C76ResponseFormat(t *testing.T) {
	for _, v := range []string{`{"type":"json_schema"}`, `{"type":"json_schema","json_schema":null}`} {
		e := refuse(t, `"response_format":`+v, want{"json-schema-missing", ""})
		if e.Message != "When response_format type is 'json_schema', the 'json_schema' field must be provided. (parameter=response_format)" {
			t.Error(e.Message)
		}
	}
	refuse(t, `"response_format":{"type":"json_schema","json_schema":{"schema":{}}}`, want{"schema", "response_format.json_schema.name"})
	for _, v := range []string{`{"name":"x"}`, `{"name":"x","schema":null}`} {
		refuse(t, `"response_format":{"type":"json_schema","json_schema":`+v+`}`, want{"constraint", "You must use one kind of structured outputs constraint but none are specified"})
	}
	for _, v := range []string{`5`, `{}`, `{"type":null}`, `{"type":"xml"}`, `{"type":"json_schema","json_schema":5}`, `{"type":"json_schema","json_schema":{"name":5,"schema":{}}}`,
		`{"type":"json_schema","json_schema":{"name":"x","schema":"{}"}}`, `{"type":"json_schema","json_schema":{"name":"x","schema":{},"strict":"maybe"}}`, `{"type":"json_schema","json_schema":{"name":"x","schema":{},"description":5}}`,
		`{"type":"structural_tag"}`, `{"type":"structural_tag","format":5}`, `{"type":"structural_tag","structures":[]}`, `{"type":"structural_tag","triggers":[]}`, `{"type":"structural_tag","structures":[5],"triggers":[]}`, `{"type":"structural_tag","structures":[{"end":"a"}],"triggers":[]}`, `{"type":"structural_tag","structures":[{"begin":"a"}],"triggers":[]}`,
		`{"type":"structural_tag","structures":[{"begin":"a","end":"b","schema":5}],"triggers":[]}`, `{"type":"structural_tag","structures":[],"triggers":[5]}`} {
		refuse(t, `"response_format":`+v, want{"schema", "response_format"})
	}
	for v, c := range map[string]*Constraint{
		`{"type":"json_object"}`: {Kind: ConstraintJSONObject},
		`{"type":"json_schema","json_schema":{"name":"x","description":null,"strict":false,"schema":{"b":1.0,"a":[]}}}`: {Kind: ConstraintJSON, Schema: Raw(`{"b":1.0,"a":[]}`)},
		`{"type":"structural_tag","format":{"type":"any_text"}}`:                                                        {Kind: ConstraintTag, Schema: Raw(`{"type":"structural_tag","format":{"type":"any_text"}}`)},
		`{"type":"structural_tag","structures":[{"begin":"a","end":"b","schema":{}}],"triggers":["a"]}`: {
			Kind: ConstraintTag, Schema: Raw(`{"type":"structural_tag","structures":[{"begin":"a","end":"b","schema":{}}],"triggers":["a"]}`)},
	} {
		if r := accept(t, `"response_format":`+v); !reflect.DeepEqual(r.Constraint, c) {
			t.Errorf("%s: %+v", v, r.Constraint)
		}
	}
}

func TestC77JSONText(t *testing.T) {
	object := accept(t, `"structured_outputs":{"json":{"type":"object"}}`)
	text := accept(t, `"structured_outputs":{"json":" {\"type\":\"object\"} "}`)
	if !reflect.DeepEqual(object.Constraint, text.Constraint) {
		t.Errorf("%+v, %+v", object.Constraint, text.Constraint)
	}
	for _, v := range []string{`"{"`, `""`, `"{\"a\":NaN}"`} {
		refuse(t, `"structured_outputs":{"json":`+v+`}`, want{"constraint", "Invalid JSON grammar specification."})
	}
	for _, v := range []string{`"{"`, `"[]"`, `"{}"`, `""`} {
		refuse(t, `"structured_outputs":{"structural_tag":`+v+`}`, want{"constraint", "Invalid structural tag specification."})
	}
	r := accept(t, `"structured_outputs":{"structural_tag":"{\"format\":{}}"}`)
	if r.Constraint.Kind != ConstraintTag || string(r.Constraint.Schema) != `{"format":{}}` {
		t.Errorf("%+v", r.Constraint)
	}
}

func TestC80JSONObjectFalse(t *testing.T) {
	refuse(t, `"structured_outputs":{"json_object":false}`, want{"constraint", "structured_outputs.json_object must be True if set"})
}

func TestC81InStreams(t *testing.T) {
	for _, f := range []string{`"structured_outputs":{}`, `"structured_outputs":{"choice":[]}`, `"structured_outputs":{"grammar":""}`, `"response_format":{"type":"json_schema"}`,
		`"structured_outputs":{"json":"x"}`, `"response_format":{"type":"json_object"},"structured_outputs":{"regex":"a"}`} {
		_, plain := check(with(f))
		_, stream := check(with(f + `,"stream":true`))
		if plain == nil || !reflect.DeepEqual(plain, stream) {
			t.Errorf("%s: %v, in a stream %v", f, plain, stream)
		}
	}
}
