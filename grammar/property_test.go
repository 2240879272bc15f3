package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// randomSchema draws schemas. Each supported keyword comes up now and then.
type randomSchema struct {
	rng  *rand.Rand
	defs int
}

type obj = map[string]any

func (r *randomSchema) n(n int) int         { return r.rng.IntN(n) }
func (r *randomSchema) one(in int) bool     { return r.rng.IntN(in) == 0 }
func pick[T any](r *randomSchema, l ...T) T { return l[r.n(len(l))] }

func (r *randomSchema) document() obj {
	r.defs = r.n(3)
	s := obj{}
	if v, ok := r.schema(3).(obj); ok {
		s = v
	}
	defs := obj{}
	for i := range r.defs {
		d := r.schema(2)
		if o, ok := d.(obj); ok { // a definition that is a loop of references means nothing
			delete(o, "$ref")
		}
		defs[fmt.Sprint("d", i)] = d
	}
	s["$defs"] = defs
	return s
}

func (r *randomSchema) schema(depth int) any {
	if r.one(25) {
		return true
	}
	s := obj{}
	if depth > 0 && r.one(4) {
		switch r.n(5) {
		case 0:
			s["anyOf"] = r.list(depth, 2)
		case 1:
			s["oneOf"] = r.list(depth, 2)
		case 2:
			s["allOf"] = r.list(depth, 2)
		default:
			if r.defs > 0 {
				s["$ref"] = fmt.Sprint("#/$defs/d", r.n(r.defs))
			}
		}
		if r.one(2) {
			return s
		}
	}
	switch r.n(9) {
	case 0:
		s["enum"] = []any{1, "a", nil, []any{true}, obj{"k": 1.5, "l": "é\n"}, -3}[:1+r.n(6)]
	case 1:
		s["const"] = pick[any](r, "x", 7, -0.5, nil, obj{"a": []any{1}}, false, "\"\\/\t")
	case 2, 3:
		s["type"] = pick(r, "integer", "number")
		r.number(s)
	case 4, 5:
		s["type"] = "string"
		r.text(s)
	case 6:
		r.array(s, depth)
	case 7, 8:
		r.object(s, depth)
	}
	if depth > 0 && r.one(8) {
		r.logic(s, depth)
	}
	if r.one(6) {
		s["type"] = []any{"null", pick(r, "string", "integer", "array", "object"), "boolean"}[:2+r.n(2)]
	}
	return s
}

// logic adds a negation, a condition or a dependency.
func (r *randomSchema) logic(s obj, depth int) {
	switch r.n(4) {
	case 0, 1:
		s["not"] = r.schema(depth - 1)
	case 2:
		s["if"], s["then"], s["else"] = r.schema(depth-1), r.schema(depth-1), r.schema(depth-1)
	case 3:
		s["dependentSchemas"] = obj{pick(r, "a", "ab", "b"): r.schema(depth - 1)}
		s["dependentRequired"] = obj{pick(r, "a", "b", "x-1"): []any{pick(r, "ab", "é")}}
	}
}

func (r *randomSchema) list(depth, n int) []any {
	l := make([]any, n+r.n(2))
	for i := range l {
		l[i] = r.schema(depth - 1)
	}
	return l
}

func (r *randomSchema) number(s obj) {
	v := func() any {
		return pick[any](r, r.n(200)-100, float64(r.n(4000)-2000)/float64(pick(r, 2, 4, 5, 8, 10)), 0, 1e6, -12345.678)
	}
	for _, k := range []string{"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"} {
		if r.one(4) {
			s[k] = v()
		}
	}
	if r.one(5) {
		s["multipleOf"] = pick[any](r, 1, 2, 3, 7, 0.5, 0.01, 25, 2.5)
	}
}

func (r *randomSchema) text(s obj) {
	if r.one(3) {
		s["minLength"] = pick(r, r.n(6), r.n(6), 10+r.n(12))
	}
	if r.one(3) {
		s["maxLength"] = pick(r, r.n(12), 17+r.n(60)) // the larger ones are counted by counters
	}
	if r.one(4) {
		s["pattern"] = pick(r, "^[a-z]+$", "foo", "^a|b$", "\\d{2,4}", "^(?:ab)*$", "é", "^[^x]*$", "^\\S+ \\S+$", "a.c", "^$|^x", "\\p{Lu}", "[\"\\\\]", "^.{1,3}$")
	}
	if r.one(6) { // not uri-template: the validator takes {?x} for a query
		s["format"] = pick(r, "date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri", "uri-reference", "json-pointer", "relative-json-pointer",
			"idn-email", "idn-hostname", "iri", "iri-reference", "regex")
	}
}

func (r *randomSchema) array(s obj, depth int) {
	s["type"] = "array"
	if depth > 0 {
		if r.one(2) {
			s["items"] = r.schema(depth - 1)
		}
		if r.one(3) {
			s["prefixItems"] = r.list(depth, 1)
		}
	}
	if r.one(12) {
		s["items"] = false
	}
	if r.one(3) {
		s["minItems"] = r.n(4)
	}
	if r.one(3) {
		s["maxItems"] = r.n(6)
	}
	if r.one(4) {
		s["uniqueItems"] = true
		if r.one(3) {
			s["items"] = pick[any](r, obj{"enum": []any{1, "a", 1.0, nil, "ab", obj{"k": 1.5}}}, obj{"type": "boolean"},
				obj{"type": "integer", "minimum": -1, "maximum": 1}, obj{"type": "string", "maxLength": 1}, obj{"type": "string", "pattern": "^(a|bc*)$"},
				obj{"type": "object", "properties": obj{"x": true, "id": obj{"type": []any{"integer", "string"}}}, "required": []any{"id"}})
		}
	}
	if r.one(5) {
		s["contains"] = pick[any](r, r.schema(0), obj{"type": "integer"}, obj{"const": "x"}, obj{"minimum": 5}, true)
		if r.one(2) {
			s["minContains"] = r.n(4)
		}
		if r.one(3) {
			s["maxContains"] = r.n(4)
		}
	}
}

func (r *randomSchema) object(s obj, depth int) {
	s["type"] = "object"
	names := []string{"a", "ab", "b", "x-1", "é", "k\n", "", "foo", "xy"}
	if depth > 0 {
		props := obj{}
		for range r.n(5) {
			props[pick(r, names...)] = r.schema(depth - 1)
		}
		if len(props) > 0 {
			s["properties"] = props
		}
		if r.one(4) {
			s["patternProperties"] = obj{pick(r, "^x", "a", "^[a-f]+$", "[^q]", "y$"): r.schema(depth - 1)}
		}
		switch r.n(4) {
		case 0:
			s["additionalProperties"] = false
		case 1:
			s["additionalProperties"] = r.schema(depth - 1)
		}
	}
	if r.one(2) {
		req := []any{}
		for i, n := range names {
			if r.one(4) && i < 6 {
				req = append(req, n)
			}
		}
		s["required"] = req
	}
	if r.one(5) {
		s["minProperties"] = r.n(3)
	}
	if r.one(5) {
		s["maxProperties"] = r.n(5)
	}
	if r.one(8) {
		s["propertyNames"] = obj{"pattern": pick(r, "^[a-z]", "^.{1,3}$", "a|b|x")}
	}
}

func validator(t testing.TB, schema string) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(schema))
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("mem:///s.json", v); err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	s, err := c.Compile("mem:///s.json")
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return s
}

// randomText takes random legal tokens until the text may end. It reports false if
// that did not happen in time. It prefers tokens that close something.
func randomText(t *testing.T, g *Grammar, rng *rand.Rand) (string, bool) {
	t.Helper()
	w := newRandomWalk(t, "", g, rng)
	for i := range 3000 {
		w.fill()
		if w.m.Done() && (i > 60 || rng.IntN(3) > 0) {
			return string(w.text), true
		}
		tok := randomLegal(rng, w.mask, w.v.size)
		if i > 60 || rng.IntN(4) == 0 {
			for _, c := range []byte(`"}]0`) {
				if legal(w.mask, int32(c)) {
					tok = int32(c) // the first 256 tokens are the bytes
					break
				}
			}
		}
		if !w.accept(tok) {
			return string(w.text), true
		}
	}
	return string(w.text), false
}

// TestRandomSchemasRandomWalks: whatever random legal tokens a text is made of, the
// text satisfies the schema, as another validator sees it.
func TestRandomSchemasRandomWalks(t *testing.T) {
	voc := syntheticVocabulary(t, 4096, false)
	seeds, walks := 2500, 6
	if slow || testing.Short() {
		seeds = 150
	}
	refused, unsatisfiable, long, checked := 0, 0, 0, 0
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		r := &randomSchema{rng: rng}
		schema, err := json.Marshal(r.document())
		if err != nil {
			t.Fatal(err)
		}
		spec := Spec{Kind: JSONSchema, Schema: schema}
		spec.DisableAnyWhitespace = seed%3 == 1
		spec.DisableAdditionalProperties = seed%5 == 1
		spec.Strict = seed%11 == 1
		if seed%7 == 1 {
			spec.WhitespacePattern = `[ \n]{0,2}`
		}
		g, err := compileFor(spec, voc)
		switch {
		case errors.Is(err, ErrUnsatisfiable):
			unsatisfiable++
			continue
		case errors.Is(err, ErrUnsupported), errors.Is(err, ErrTooComplex) && strings.Contains(err.Error(), "refers to itself"):
			refused++
			continue
		case err != nil:
			t.Fatalf("%s: %v", schema, err)
		}
		valid := validator(t, string(schema))
		for range walks {
			text, done := randomText(t, g, rng)
			if !done {
				long++
				continue
			}
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
			if err != nil {
				t.Fatalf("seed %d: %s\nwrote %s\nwhich is not JSON: %v", seed, schema, text, err)
			}
			if err := valid.Validate(v); err != nil && !strings.Contains(err.Error(), "reference cycle") {
				t.Fatalf("seed %d: %s\nwrote %s\n%v", seed, schema, text, err)
			}
			checked++
		}
	}
	t.Logf("%d texts checked, %d unfinished; of %d schemas %d refused, %d unsatisfiable", checked, long, seeds, refused, unsatisfiable)
	if checked < seeds*2 || long > checked/15 {
		t.Errorf("only %d texts checked, %d unfinished", checked, long)
	}
}
