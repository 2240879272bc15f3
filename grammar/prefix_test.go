package grammar

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"
)

// afterFor is the grammar of s behind prefix, as Compiler makes it; plain is the grammar of
// s without it.
func afterFor(plain *Grammar, s Spec, prefix string) (*Grammar, error) {
	start, err := plain.m.after(context.Background(), prefix, time.Minute)
	if err == nil {
		return &Grammar{m: plain.m, start: start}, nil
	}
	if !errors.Is(err, ErrPrefix) || !s.json() {
		return nil, err
	}
	s.Prefix = prefix
	g, err := compileFor(s, plain.m.voc)
	if err != nil {
		if start := plain.m.respelled(context.Background(), &s, time.Minute, nil); start != nil {
			return &Grammar{m: plain.m, start: start}, nil
		}
	}
	return g, err
}

// oddly spells a value in a way that would not be generated: with properties in another
// order, escapes that nobody needs, exponents and too much white space.
type oddly struct{ rng *rand.Rand }

func (o oddly) blank() string {
	return [...]string{"", "", "", " ", "\n  ", " \t\r\n\n\n ", "  "}[o.rng.IntN(7)]
}

func (o oddly) spell(v any) string {
	switch v := v.(type) {
	case *object:
		var b strings.Builder
		b.WriteString("{" + o.blank())
		for i, k := range o.rng.Perm(len(v.keys)) {
			if i > 0 {
				b.WriteString("," + o.blank())
			}
			name := v.keys[k]
			b.WriteString(o.text(name) + o.blank() + ":" + o.blank() + o.spell(v.m[name]) + o.blank())
		}
		return b.String() + "}"
	case []any:
		var b strings.Builder
		b.WriteString("[" + o.blank())
		for i, e := range v {
			if i > 0 {
				b.WriteString("," + o.blank())
			}
			b.WriteString(o.spell(e) + o.blank())
		}
		return b.String() + "]"
	case string:
		return o.text(v)
	case numeral:
		return o.number(string(v))
	}
	return dumpJSON(v)
}

func (o oddly) text(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch o.rng.IntN(4) {
		case 0:
			text := fmt.Sprintf(`\u%04x`, r)
			if r > 0xFFFF {
				text = fmt.Sprintf(`\u%04x\u%04X`, 0xD800+(r-0x10000)>>10, 0xDC00+(r-0x10000)&0x3FF)
			}
			b.WriteString(text)
		default:
			if r == '/' {
				b.WriteString(`\/`)
			} else {
				text := quoteJSON(string(r))
				b.WriteString(text[1 : len(text)-1])
			}
		}
	}
	return b.String() + `"`
}

func (o oddly) number(s string) string {
	if fractional(numeral(s)) || len(s) > 15 || s == "0" {
		return s
	}
	return s + [...]string{"", ".0", "e0", "E+00", "0e-1", ".00e0"}[o.rng.IntN(6)]
}

// forSuite calls f for each group of JSON-Schema-Test-Suite, draft 2020-12, whose schema
// compiles.
func forSuite(t *testing.T, f func(name string, s Spec, g *Grammar, tests []any)) {
	t.Helper()
	file, err := os.Open("testdata/json_schema_test_suite.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	groupsOf("", "", mustParse(t, text), func(name string, group *object) {
		s := schema(dumpJSON(group.m["schema"]))
		if g, err := compileFor(s, testVocabulary); err == nil {
			f(fmt.Sprintf("%s: %s", name, group.m["description"]), s, g, group.m["tests"].([]any))
		}
	})
}

// suiteURIs are the values of $schema for the folders of the suite.
var suiteURIs = map[string]string{
	"draft4": "http://json-schema.org/draft-04/schema#", "draft6": "http://json-schema.org/draft-06/schema#", "draft7": "http://json-schema.org/draft-07/schema#",
	"draft2019-09": "https://json-schema.org/draft/2019-09/schema", "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}

// groupsOf calls f for the groups in v, which is a list of them, or an object of such things
// by file or draft. The schemas of a draft get its $schema, which many do not have.
func groupsOf(name, uri string, v any, f func(name string, group *object)) {
	switch v := v.(type) {
	case []any:
		for _, g := range v {
			g := g.(*object)
			if o, ok := g.m["schema"].(*object); ok && uri != "" && o.m["$schema"] == nil {
				o.keys = append(o.keys, "$schema")
				o.m["$schema"] = uri
			}
			f(name, g)
		}
	case *object:
		for _, k := range v.keys {
			if u := suiteURIs[k]; u != "" {
				uri = u
			}
			if k != "optional/content" { // of a string's content, which is not looked at
				groupsOf(name+k+" ", uri, v.m[k], f)
			}
		}
	}
}

// TestPrefixSuite: a valid value is accepted in any order and spelling, and so is all that
// it begins with; what is generated then makes a value that satisfies the schema. An invalid
// value is never complete. make test takes every second group of the suite, make test-all every one.
func TestPrefixSuite(t *testing.T) {
	p := &prefixSuite{T: t, rng: rand.New(rand.NewPCG(1, 2))}
	groups := 0
	forSuite(t, func(name string, s Spec, g *Grammar, tests []any) {
		groups++
		if slow && groups%8 != 0 || groups%2 != 0 && os.Getenv("WEIR_TEST_ALL") == "" {
			return
		}
		if groups%3 == 0 {
			s.DisableAnyWhitespace = true // of what is generated
			g = mustCompile(t, s, testVocabulary)
		}
		whole := mustParse(t, s.Schema)
		for _, v := range tests {
			c := v.(*object)
			if c.m["valid"] != true && satisfies(c.m["data"], whole) {
				t.Errorf("%s: %s is taken for valid", name, dumpJSON(c.m["data"]))
			}
			// Formats make some values invalid that are valid for the suite, and a fraction of 0 does
			// so for integers of draft 4.
			text := oddly{p.rng}.spell(c.m["data"])
			if satisfies(mustParse(t, []byte(text)), whole) {
				p.valid(name, s, g, text)
			} else if g, err := afterFor(g, s, text); err == nil && g.NewMatcher().Done() {
				t.Errorf("%s: accepts %s, which is not valid", name, text)
			}
		}
	})
}

// satisfies reports whether v satisfies schema.
func satisfies(v, schema any) bool {
	return newSchemas(newBuilder(commonRules(), 400_000, unmetered()), schema, "", Options{}).holds(v, schema)
}

type prefixSuite struct {
	*testing.T
	rng *rand.Rand
}

func (p *prefixSuite) valid(name string, s Spec, g *Grammar, text string) {
	if g, err := afterFor(g, s, text); err != nil || !g.NewMatcher().Done() {
		if strings.Contains(name, "draft4") && strings.HasSuffix(text, ".0") {
			return // no integer in that draft, and no number that a negation of integers generates
		}
		p.Errorf("%s: rejects %s, which is valid: %v", name, text, err)
		return
	}
	for i := range len(text) {
		if len(text) > 80 && p.rng.IntN(len(text)) > 80 {
			continue
		}
		g, err := afterFor(g, s, text[:i])
		switch {
		case err != nil && strings.Contains(err.Error(), "only in the spelling in which it would be generated"):
			// Such an array or object is refused with a reason (unfollowed).
		case err != nil:
			p.Errorf("%s: rejects %q, the beginning of %s: %v", name, text[:i], text, err)
		case p.rng.IntN(4) == 0:
			finish(p.T, name, s, g, text[:i], p.rng)
		}
	}
}

// finish goes on with random tokens and checks the value.
func finish(t *testing.T, name string, s Spec, g *Grammar, text string, rng *rand.Rand) {
	t.Helper()
	w := newRandomWalk(t, name, g, rng)
	w.text = []byte(text)
	for range 300 {
		mask := w.fill()
		tok := randomLegal(rng, mask, w.v.size)
		for _, c := range []byte(`"]}`) { // to come to an end
			if legal(mask, int32(c)) && rng.IntN(2) == 0 {
				tok = int32(c)
			}
		}
		if w.m.Done() {
			tok = 256
		}
		if w.accept(tok) {
			continue
		}
		if v, err := parseJSON(w.text); err != nil {
			t.Errorf("%s: %q + %q: %v", name, text, w.text[len(text):], err)
		} else if !satisfies(v, mustParse(t, s.Schema)) {
			t.Errorf("%s: %q + %q does not satisfy the schema", name, text, w.text[len(text):])
		}
		return
	}
}
