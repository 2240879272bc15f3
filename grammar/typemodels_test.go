package grammar

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// typeModel is the schema of one of the random Pydantic and zod models that tools/typemodels
// makes.
type typeModel struct {
	ID       string          `json:"id"`
	Sent     string          `json:"sent"`     // whose function made the schema
	Features []string        `json:"features"` // what the model is made of
	Less     []string        `json:"less"`     // what the library checks and the schema does not say
	Schema   json.RawMessage `json:"schema"`
}

func typeModels(t testing.TB) []typeModel {
	t.Helper()
	f, err := os.Open("testdata/typemodels.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var models []typeModel
	for d := json.NewDecoder(z); d.More(); {
		var m typeModel
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		models = append(models, m)
	}
	return models
}

// served is the spec that the server makes of a schema.
func (m *typeModel) served() Spec {
	return Spec{Kind: JSONSchema, Schema: m.Schema, Options: Options{Strict: true}}
}

// random is the same for the i-th text of a model in every run.
func (m *typeModel) random(i int) *rand.Rand {
	h := fnv.New64()
	h.Write([]byte(m.ID))
	return rand.New(rand.NewPCG(h.Sum64(), uint64(i)))
}

// typeModelRun counts what became of the models.
type typeModelRun struct {
	t                *testing.T
	voc              *Vocabulary
	texts, validated int
}

// compile is nil for a schema that is refused.
func (r *typeModelRun) compile(m *typeModel) *Grammar {
	g, err := compileFor(m.served(), r.voc)
	if err != nil {
		r.t.Errorf("%s: %v", m.ID, err)
	}
	return g
}

// draw draws n texts, each longer than the one before.
func (r *typeModelRun) draw(m *typeModel, g *Grammar, n, longer int, each func(text string)) {
	e := newEnds(g.m.net)
	for i := range n {
		text, done := drawnText(r.t, m.ID, g, e, m.random(i), longer*(i+1))
		if !done {
			r.t.Errorf("%s: the text does not end: %q", m.ID, text)
			continue
		}
		r.texts++
		each(text)
	}
}

// validate checks a text of m with another validator; valid is nil if it lacks something.
func (r *typeModelRun) validate(m *typeModel, valid *jsonschema.Schema, text string) {
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		r.t.Errorf("%s wrote %s\nwhich is not JSON: %v", m.ID, text, err)
		return
	}
	if valid == nil {
		return
	}
	if err := valid.Validate(v); err != nil {
		r.t.Errorf("%s: %s\nwrote %s\n%v", m.ID, m.Schema, text, err)
	}
	r.validated++
}

// TestTypeModels: the schemas of the models compile, and texts of random legal tokens end
// and are valid. make typemodels reads such texts back with the libraries.
func TestTypeModels(t *testing.T) {
	r := &typeModelRun{t: t, voc: syntheticVocabulary(t, 4096, false)}
	for i, m := range typeModels(t) {
		if slow && i%8 > 0 {
			continue
		}
		if i%4 == 0 { // without the server's options
			if _, err := compileFor(Spec{Kind: JSONSchema, Schema: m.Schema}, r.voc); err != nil {
				t.Errorf("%s: without options: %v", m.ID, err)
			}
		}
		if g := r.compile(&m); g != nil {
			valid := lenientValidator(t, m.Schema)
			if slices.Contains(m.Less, "byte size") {
				valid = nil // \s is Unicode, but not in Go
			}
			r.draw(&m, g, 2, 40, func(text string) { r.validate(&m, valid, text) })
		}
	}
	t.Logf("%d texts, %d of them compared with their schema", r.texts, r.validated)
	if slow {
		return
	}
	if r.validated < r.texts*8/10 { // Go's package regexp has no lookahead
		t.Errorf("only %d of %d texts were compared with their schema", r.validated, r.texts)
	}
}

// lenientValidator returns nil for a schema with patterns that Go's package regexp lacks.
func lenientValidator(t *testing.T, schema []byte) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource("mem:///s.json", v); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///s.json")
	if err != nil {
		return nil
	}
	return s
}

// TestTypeModelFeatures: there are enough models with each of the features that people use.
func TestTypeModelFeatures(t *testing.T) {
	count := make(map[string]int)
	exact := 0
	for _, m := range typeModels(t) {
		library, _, _ := strings.Cut(m.ID, "-")
		if len(m.Less) > 0 {
			continue
		}
		exact++
		for _, f := range m.Features {
			count[library+" "+f]++
		}
	}
	if exact < 900 {
		t.Errorf("only %d models whose schema says all that is checked", exact)
	}
	for library, features := range map[string]string{
		"pydantic": "HttpUrl AnyUrl EmailStr Decimal datetime date time timedelta UUID ip_address opaque constrained_str constrained_number " +
			"Literal Enum Optional union list set tuple dict dict_pattern discriminated recursion model record root any alias",
		"zod": "url email datetime date time duration uuid ip id constrainedString constrainedNumber literal enum optional nullable union array " +
			"tuple record recordPattern object loose discriminatedUnion recursion intersection templateLiteral any default",
	} {
		for f := range strings.FieldsSeq(features) {
			if n := count[library+" "+f]; n < 50 {
				t.Errorf("only %d %s models have the feature %s", n, library, f)
			}
		}
	}
}

// TestTypeModelTexts writes texts for the programs in tools/typemodels, which read them with
// the libraries that the schemas are from.
func TestTypeModelTexts(t *testing.T) {
	dir := os.Getenv("WEIR_TYPEMODELS_OUT")
	if dir == "" {
		t.Skip("WEIR_TYPEMODELS_OUT is not set: make typemodels")
	}
	out, err := os.Create(filepath.Join(dir, "texts.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	texts := 8
	if n, err := strconv.Atoi(os.Getenv("WEIR_TYPEMODELS_TEXTS")); err == nil {
		texts = n
	}
	w := bufio.NewWriter(out)
	r := &typeModelRun{t: t, voc: syntheticVocabulary(t, 16384, false)}
	for _, m := range typeModels(t) {
		g := r.compile(&m)
		if g == nil {
			continue
		}
		r.draw(&m, g, texts, max(1, 120/texts), func(text string) {
			line, err := json.Marshal(map[string]string{"id": m.ID, "text": text})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(w, "%s\n", line)
		})
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d texts", r.texts)
}
