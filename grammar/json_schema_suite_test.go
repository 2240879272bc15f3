package grammar

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
)

// suiteDrafts are the drafts of JSON-Schema-Test-Suite, with $schema of those whose tests do
// not have it.
var suiteDrafts = []struct{ name, schema string }{
	{"draft4", "http://json-schema.org/draft-04/schema#"},
	{"draft6", "http://json-schema.org/draft-06/schema#"},
	{"draft7", "http://json-schema.org/draft-07/schema#"},
	{"draft2019-09", "https://json-schema.org/draft/2019-09/schema"},
	{"draft2020-12", "https://json-schema.org/draft/2020-12/schema"},
}

// suiteResult are the results of a draft.
type suiteResult struct {
	groups   int // a schema and its tests
	passed   int // groups in which every valid value is accepted and every invalid one is not
	refused  int // groups whose schema has something that masks cannot enforce
	remote   int // groups whose schema refers to another document, which is refused as well
	wrong    int // groups in which a valid value is rejected
	falsely  int // invalid values that are accepted: must not be
	rejected map[string]int
}

// row is the result in the table of README.md.
func (r *suiteResult) row(draft string) string {
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d | %d | %d |", strings.TrimPrefix(draft, "draft"), r.groups, r.passed, r.refused, r.remote, r.wrong,
		r.rejected["format"], r.rejected["order"], r.rejected["spelling"], r.rejected["compared"])
}

// TestJSONSchemaTestSuite runs JSON-Schema-Test-Suite (MIT licence), with the optional tests.
// Its results are the table of README.md.
func TestJSONSchemaTestSuite(t *testing.T) {
	f, err := os.Open("testdata/json_schema_test_suite.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	readme := string(readFile(t, "README.md"))
	suite := mustParse(t, text).(*object)
	for _, d := range suiteDrafts {
		res := suiteResult{rejected: make(map[string]int)}
		for _, file := range suite.keys {
			if file == "optional/content" {
				continue // contentEncoding and contentMediaType are annotations
			}
			if groups, ok := suite.m[file].(*object).m[d.name].([]any); ok {
				res.run(t, d.name+"/"+file, d.schema, groups)
			}
		}
		if row := res.row(d.name); !strings.Contains(readme, row) {
			t.Errorf("README.md does not have this row:\n%s", row)
		}
		if n := res.rejected["other"]; n > 0 {
			t.Errorf("%s: %d valid values are rejected for reasons that README.md does not name", d.name, n)
		}
	}
}

func (r *suiteResult) run(t *testing.T, file, draft string, groups []any) {
	t.Helper()
	for _, v := range groups {
		r.groups++
		g := v.(*object)
		if o, ok := g.m["schema"].(*object); ok && draft != "" {
			if _, ok := o.m["$schema"]; !ok {
				o.keys = append(o.keys, "$schema")
				o.m["$schema"] = draft
			}
		}
		gr, err := compileFor(Spec{Kind: JSONSchema, Schema: []byte(dumpJSON(g.m["schema"]))}, testVocabulary)
		var refusal *Error
		if errors.As(err, &refusal) && !errors.Is(err, ErrUnsatisfiable) {
			if refusal.Path == "" && !errors.Is(err, ErrTooComplex) {
				t.Errorf("%s: %s: refused without a path: %v", file, g.m["description"], err)
			}
			t.Logf("refused: %s: %s: %v", file, g.m["description"], err)
			if strings.Contains(refusal.Msg, "leads out of the schema") {
				r.remote++
			} else {
				r.refused++
			}
			continue
		}
		if err != nil && refusal == nil {
			t.Fatal(err)
		}
		if r.group(t, file, g, gr) {
			r.passed++
		} else {
			r.wrong++
		}
	}
}

// group runs the tests of a group and reports whether all valid values are accepted. gr is nil
// if no value satisfies the schema.
func (r *suiteResult) group(t *testing.T, file string, g *object, gr *Grammar) bool {
	t.Helper()
	right := true
	for _, v := range g.m["tests"].([]any) {
		c := v.(*object)
		text, valid := dumpJSON(c.m["data"]), c.m["valid"] == true
		switch ok := gr != nil && gr.accepts(text); {
		case ok == valid:
		case ok:
			r.falsely++
			t.Errorf("%s: %s: %s: accepts %s", file, g.m["description"], c.m["description"], text)
		default:
			right = false
			reason := rejectedFor(file, c.m["data"], text)
			r.rejected[reason]++
			t.Logf("rejected (%s): %s: %s: %s: %.100s", reason, file, g.m["description"], c.m["description"], text)
		}
	}
	return right
}

// longForm are numbers with a fraction of zeros or an exponent.
var longForm = regexp.MustCompile(`[0-9](\.0+\b|[eE])`)

// rejectedFor is why a valid value is rejected, as far as one can tell by looking at it.
func rejectedFor(file string, v any, text string) string {
	o, isObject := v.(*object)
	switch {
	case strings.Contains(file, "format") || strings.Contains(file, "vocabulary"):
		return "format"
	case strings.Contains(file, "uniqueItems"):
		return "compared"
	case longForm.MatchString(text):
		return "spelling"
	case isObject && len(o.keys) > 1:
		return "order"
	}
	return "other"
}

func TestSchemaRefusalsNameThePath(t *testing.T) {
	for _, c := range []struct{ schema, path string }{
		{`{"properties":{"a":{"not":{"uniqueItems":true}}}}`, "/properties/a/not/uniqueItems"},
		{`{"$defs":{"x y":{"uniqueItems":true,"minItems":2,"items":{"type":"object"}}},"$ref":"#/$defs/x%20y"}`, "/$defs/x y/uniqueItems"},
		{`{"items":[{"if":{"uniqueItems":true},"then":{"maxItems":2}}]}`, "/items/0/if/uniqueItems"},
		{`{"anyOf":[{"contains":{"minimum":3},"maxContains":300},{}]}`, "/anyOf/0/contains"},
		{`{"unevaluatedProperties":false}`, "/unevaluatedProperties"},
		{`{"$ref":"https://example.com/other"}`, "/$ref"},
		{`{"oneOf":[{"uniqueItems":true},{"maxItems":2}]}`, "/oneOf/0/uniqueItems"},
		{`{"minProperties":3,"additionalProperties":false,"patternProperties":{"^a$":{"type":"null"},"^[bc]$":{"type":"string"}}}`, "/minProperties"},
		{`{"pattern":"(a)\\1"}`, "/pattern"},
		{`{"items":[{"if":{"not":7},"then":{}}]}`, "/items/0/if/not"},
		{`{"dependentSchemas":{"a":7}}`, "/dependentSchemas/a"},
		{`{"dependentRequired":{"a":{}}}`, "/dependentRequired/a"},
		{`{"x-oneOf":true}`, "/x-oneOf"},
		{`{"pattern":"["}`, "/pattern"},
		{`{"type":"bogus"}`, "/type"},
		{`{"minLength":-1}`, "/minLength"},
		{`{"patternProperties":{"(":{}}}`, "/patternProperties"},
		{`{"$ref":"#/nowhere"}`, "/$ref"},
	} {
		_, err := compileFor(Spec{Kind: JSONSchema, Schema: []byte(c.schema)}, testVocabulary)
		var e *Error
		if !errors.As(err, &e) || e.Path != c.path {
			t.Errorf("%s: %v, want a refusal at %s", c.schema, err, c.path)
		}
	}
}
