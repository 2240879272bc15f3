package grammar

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// logicSchema draws schemas with negations, conditions, dependencies and overlapping oneOf
// over so few names and values that texts are often valid by a hair.
type logicSchema struct{ randomSchema }

func (r *logicSchema) schema(depth int) any {
	if r.one(20) {
		return r.one(2)
	}
	s := obj{}
	if r.one(4) {
		s["type"] = pick[any](&r.randomSchema, "object", "array", "string", "integer", "number", "boolean", []any{"string", "object"}, []any{"number", "null"})
	}
	for range 1 + r.n(2) {
		r.keyword(s, depth)
	}
	return s
}

func (r *logicSchema) list(depth int) []any {
	l := make([]any, 1+r.n(3))
	for i := range l {
		l[i] = r.schema(depth - 1)
	}
	return l
}

func (r *logicSchema) name() string { return pick(&r.randomSchema, "a", "b", "c") }

// value is a constant of the values that texts are made of.
func (r *logicSchema) value() any {
	return pick[any](&r.randomSchema, nil, true, false, 0, 1, 1.0, 2, 0.5, "", "x", "y", "xy", []any{}, []any{1}, []any{"x", 1}, obj{}, obj{"a": 1}, obj{"a": "x", "b": 1})
}

func (r *logicSchema) keyword(s obj, depth int) {
	if depth > 0 && r.one(2) {
		r.applicator(s, depth)
		return
	}
	switch r.n(12) {
	case 0:
		s["const"] = r.value()
	case 1:
		s["enum"] = []any{r.value(), r.value(), r.value()}
	case 2:
		s["required"] = []any{"a", "b", "c"}[r.n(3):]
	case 3:
		s[pick(&r.randomSchema, "minLength", "maxLength")] = r.n(3)
	case 4:
		s["pattern"] = pick(&r.randomSchema, "x", "^x", "y$", "^$")
	case 5:
		s[pick(&r.randomSchema, "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")] = pick[any](&r.randomSchema, 0, 1, 0.5, 2)
	case 6:
		s["multipleOf"] = pick[any](&r.randomSchema, 1, 2, 0.5, 0.25)
	case 7:
		s[pick(&r.randomSchema, "minItems", "maxItems")] = r.n(3)
	case 8:
		s[pick(&r.randomSchema, "minProperties", "maxProperties")] = r.n(2)
	case 9:
		s["type"] = pick[any](&r.randomSchema, "object", "array", "string", "integer", "number", "boolean", "null")
	case 10:
		s["dependentRequired"] = obj{r.name(): []any{r.name()}}
	case 11:
		s["properties"] = obj{r.name(): r.schema(0)}
	}
}

func (r *logicSchema) applicator(s obj, depth int) {
	switch r.n(14) {
	case 0, 1:
		s["not"] = r.schema(depth - 1)
	case 2, 3:
		s["if"] = r.schema(depth - 1)
		if r.one(2) {
			s["then"] = r.schema(depth - 1)
		}
		if r.one(2) {
			s["else"] = r.schema(depth - 1)
		}
	case 4, 5:
		s["oneOf"] = r.list(depth)
	case 6:
		s["anyOf"] = r.list(depth)
	case 7:
		s["allOf"] = r.list(depth)
	case 8:
		s["dependentSchemas"] = obj{r.name(): r.schema(depth - 1)}
	case 9:
		s["dependencies"] = obj{r.name(): pick[any](&r.randomSchema, []any{r.name()}, r.schema(depth-1))}
	case 10:
		s[pick(&r.randomSchema, "items", "additionalProperties")] = r.schema(depth - 1)
	case 11:
		s["prefixItems"] = r.list(depth)
	case 12:
		s["patternProperties"] = obj{pick(&r.randomSchema, "a", "b", "^c", "[ab]"): r.schema(depth - 1)}
	case 13:
		if r.one(2) {
			s["propertyNames"] = obj{pick(&r.randomSchema, "pattern", "const"): pick(&r.randomSchema, "a", "b")}
		} else {
			props := obj{}
			for range 2 {
				props[r.name()] = r.schema(depth - 1)
			}
			s["properties"] = props
		}
	}
}

// logicValues are the texts of all values that logicSchema is about, up to a size. Those of
// one value in different orders of its properties are together.
func logicValues() [][]string {
	scalars := []string{"null", "true", "false", "0", "1", "2", "0.5", "-1", "0.25", `""`, `"x"`, `"y"`, `"xy"`, `"yx"`, `"z"`}
	small := []string{"null", "1", "0.5", `"x"`, `""`, `{"a": 1}`, `[1]`}
	var res [][]string
	for _, v := range scalars {
		res = append(res, []string{v})
	}
	res = append(res, []string{"[]"}, []string{"{}"})
	for _, v := range append(scalars[:13:13], "[]", "[1]", "{}") {
		res = append(res, []string{"[" + v + "]"}, []string{`{"a": ` + v + `}`}, []string{`{"b": ` + v + `}`}, []string{`{"d": ` + v + `}`})
	}
	for _, v := range small {
		for _, w := range small {
			res = append(res, []string{"[" + v + ", " + w + "]"})
			for _, names := range []string{"ab", "ac", "bc", "ad"} {
				one, two := `"`+names[:1]+`": `+v, `"`+names[1:]+`": `+w
				res = append(res, []string{"{" + one + ", " + two + "}", "{" + two + ", " + one + "}"})
			}
		}
	}
	for _, v := range []string{"1", `"x"`} {
		res = append(res, []string{"[" + v + ", 0.5, " + v + "]"})
		var orders []string
		parts := []string{`"a": ` + v, `"b": 1`, `"c": "x"`}
		for _, o := range []string{"012", "021", "102", "120", "201", "210"} {
			orders = append(orders, "{"+parts[o[0]-'0']+", "+parts[o[1]-'0']+", "+parts[o[2]-'0']+"}")
		}
		res = append(res, orders)
	}
	return res
}

// TestLogic: for random schemas, exactly those values are accepted that another validator
// calls valid, in some order of their properties.
func TestLogic(t *testing.T) {
	values := logicValues()
	seeds := 6000
	if slow || testing.Short() {
		seeds = 400
	}
	valid, invalid, refused, unsatisfiable := 0, 0, 0, 0
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 11))
		r := &logicSchema{randomSchema{rng: rng}}
		text := mustMarshal(t, r.schema(3))
		spec := schema(text)
		// The schema then says more, and all that is accepted is valid, unless it is a oneOf.
		spec.Strict = seed%4 == 3 && !strings.Contains(text, "oneOf")
		g, err := compileFor(spec, testVocabulary)
		switch {
		case errors.Is(err, ErrUnsatisfiable):
			unsatisfiable++
			g = nil
		case err != nil:
			refused++
			if refused < 20 {
				t.Logf("refused: %s: %v", text, err)
			}
			continue
		}
		v := validator(t, text)
		for _, orders := range values {
			ok, accepted := isValid(t, v, orders[0]), false
			for _, o := range orders {
				accepted = accepted || g != nil && g.accepts(o)
			}
			switch {
			case accepted && !ok:
				t.Fatalf("seed %d: %s\naccepts %s (strict %t)", seed, text, orders, spec.Strict)
			case ok && !accepted && !spec.Strict:
				t.Fatalf("seed %d: %s\nrejects %s (%v)", seed, text, orders, err)
			case ok:
				valid++
			default:
				invalid++
			}
		}
	}
	t.Logf("%d values accepted, %d rejected; of %d schemas %d refused, %d unsatisfiable", valid, invalid, seeds, refused, unsatisfiable)
	if refused > seeds/20 || valid < 20*seeds || invalid < 20*seeds {
		t.Errorf("%d values accepted, %d rejected; of %d schemas %d refused", valid, invalid, seeds, refused)
	}
}

func mustMarshal(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func isValid(t *testing.T, v *jsonschema.Schema, text string) bool {
	t.Helper()
	x, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v.Validate(x) == nil
}
