package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestFormats(t *testing.T) {
	for format, c := range map[string]struct{ pass, fail string }{
		"date":          {"0001-01-01 2024-02-29 9999-12-31 0400-02-29", "0000-01-01 0000-02-29 2023-02-29 0100-02-29 2024-13-01"},
		"date-time":     {"0001-01-01T00:00:00Z", "0000-02-29T00:00:00Z 2024-02-30T00:00:00Z"},
		"uri-template":  {"/a{x} {x*} /{x:3} /{x:3,y*} /{?a.b,c*}", "/{x:3*} /{x*:3} /{x**} /{x:3:4} /{x:0}"},
		"idn-email":     {"ann@example.com 安@example.com", "安@安.com ann @b"},
		"idn-hostname":  {"example.com a", "a--b -a 安..com"},
		"iri":           {"http://example.com/ü?é#安 urn:ü", "ü http://ü\" a\tb"},
		"iri-reference": {"ü /ü #ü http://x/安", "ü:x \\"},
		"uri":           {"http://example.com/%C3%BC", "http://example.com/ü"},
		"regex": {`^[a-zA-Z0-9_]{3,16}$ a|b+?|(c|\d{2,}){0,3} ^a\.b$ [^\s-] ^(?:v)?[0-9]+(\.[0-9]+)*$`,
			`( a) [ a{2,1} a** \q [z-a] a{`},
	} {
		g := mustCompile(t, schema(fmt.Sprintf(`{"type":"string","format":%q}`, format)), testVocabulary)
		for _, s := range strings.Fields(c.pass) {
			if !g.accepts(quoteJSON(s)) {
				t.Errorf("%s: rejects %q", format, s)
			}
		}
		for _, s := range strings.Fields(c.fail) {
			if g.accepts(quoteJSON(s)) {
				t.Errorf("%s: accepts %q", format, s)
			}
		}
		if len(g.Warnings()) > 0 {
			t.Errorf("%s: %v", format, g.Warnings())
		}
	}
}

// TestRegexFormatIsRegex: what the format regex allows is a regular expression for Go, and
// for this package.
func TestRegexFormatIsRegex(t *testing.T) {
	g := mustCompile(t, schema(`{"type":"string","format":"regex"}`), testVocabulary)
	rng := rand.New(rand.NewPCG(1, 2))
	checked := 0
	for range 2000 {
		w := newRandomWalk(t, "regex", g, rng)
		for range 60 {
			if w.fill(); w.m.Done() {
				break
			}
			tok := randomLegal(rng, w.mask, w.v.size)
			if len(w.text) > 20 && legal(w.mask, '"') {
				tok = '"'
			}
			w.accept(tok)
		}
		if !w.m.Done() {
			continue
		}
		text := mustParse(t, w.text).(string)
		if _, err := regexp.Compile(text); err != nil && !strings.Contains(err.Error(), "invalid repeat count") {
			t.Fatalf("%q: %v", text, err)
		}
		parseRegex(text, unmetered())
		checked++
	}
	if checked < 1500 {
		t.Errorf("only %d texts were finished", checked)
	}
}

// TestUnknownFormatIsAnAnnotation: a format that JSON Schema does not define demands
// nothing, and a warning says so once for each place.
func TestUnknownFormatIsAnAnnotation(t *testing.T) {
	g := mustCompile(t, schema(`{"type":"object","properties":{
		"file":{"type":"string","format":"path","maxLength":3},
		"a/b":{"enum":["x"],"format":"binary"},
		"n":{"type":"integer","format":"int32"},
		"d":{"type":"string","format":"date"}},"additionalProperties":false}`), testVocabulary)
	for text, want := range map[string]bool{`{"file":"/a"}`: true, `{"file":"/a/b"}`: false, `{"a/b":"x"}`: true, `{"n":5000000000}`: true, `{"d":"x"}`: false} {
		if got := g.accepts(text); got != want {
			t.Errorf("%s: accepted %t, want %t", text, got, want)
		}
	}
	want := []string{`the format "path" is not enforced: JSON Schema does not define it (at /properties/file/format)`,
		`the format "binary" is not enforced: JSON Schema does not define it (at /properties/a~1b/format)`}
	var got []string
	for _, w := range g.Warnings() {
		got = append(got, w.String())
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("warnings %q, want %q", got, want)
	}
	many := `{"type":"object","properties":{`
	for i := range 2 * maxWarnings {
		many += fmt.Sprintf(`"p%d":{"type":"string","format":"x%d"},`, i, i)
	}
	if n := len(mustCompile(t, schema(strings.TrimSuffix(many, ",")+"}}"), testVocabulary).Warnings()); n != maxWarnings {
		t.Errorf("%d warnings, want %d", n, maxWarnings)
	}
	if w := mustCompile(t, schema(`{"type":"string","format":"`+strings.Repeat("x", 500)+`"}`), testVocabulary).Warnings(); len(w) != 1 || len(w[0].Msg) > 150 {
		t.Errorf("a long format: %v", w)
	}
}

// TestFormatsAreWideInProofs: what is written for a format is less than what a validator
// takes for one, so that it proves nothing about other texts.
func TestFormatsAreWideInProofs(t *testing.T) {
	for _, c := range []struct{ schema, text string }{ // of each, the text is one of the format for some validators
		{`{"oneOf":[{"const":"ann@localhost"},{"type":"string","format":"email"}]}`, `"ann@localhost"`},
		{`{"oneOf":[{"type":"string","pattern":"@localhost$"},{"type":"string","format":"email"}]}`, `"ann@localhost"`},
		{`{"enum":["ann@localhost","x","a@b.com","yy"],"oneOf":[{"format":"email"},{"minLength":2}]}`, `"ann@localhost"`},
		{`{"oneOf":[{"type":"string","pattern":"^0000-"},{"type":"string","format":"date"}]}`, `"0000-01-01"`},
		{`{"oneOf":[{"type":"string","pattern":"^http:$"},{"type":"string","format":"uri"}]}`, `"http:"`},
		{`{"type":"string","not":{"format":"email"}}`, `"ann@localhost"`},
	} {
		g, err := compileFor(schema(c.schema), testVocabulary)
		if err != nil {
			if !errors.Is(err, ErrUnsupported) && !errors.Is(err, ErrUnsatisfiable) {
				t.Errorf("%s: %v", c.schema, err)
			}
		} else if g.accepts(c.text) {
			t.Errorf("%s: accepts %s", c.schema, c.text)
		}
	}
	checkTexts(t, []textCase{
		{"formats that are apart", schema(`{"oneOf":[{"type":"string","format":"date"},{"type":"string","format":"ipv4"},{"type":"string","format":"email"},{"const":"none"}]}`),
			[]string{`"2024-01-01"`, `"127.0.0.1"`, `"a@b.com"`, `"none"`}, nil},
		{"constants in an array", schema(`{"enum":[["ann@localhost"],["bob"],["a@b.com"]],"items":{"oneOf":[{"format":"email"},{"minLength":2}]}}`), []string{`["bob"]`}, []string{`["ann@localhost"]`, `["a@b.com"]`}},
	})
	// Each text that is written for a format is among those that a validator may take for one.
	for _, f := range formatNames {
		if rest, ok := formatDFA(f).minus(wideFormatDFA(f)); !ok || !rest.empty() {
			t.Errorf("%s is not as wide as what is written for it", f)
		}
	}
}

// TestHTTPURL: what Pydantic makes of HttpUrl allows the schemes http and https only, and
// what it makes of AnyUrl all.
func TestHTTPURL(t *testing.T) {
	web := []string{`"http://a.example/"`, `"https://user@[::1]:8080/p?q#f"`, `"https://10.0.0.1"`}
	other := []string{`"ftp://a.example/"`, `"urn:isbn:1"`, `"mailto:a@b.example"`, `"ws://a.example/"`}
	checkTexts(t, []textCase{
		{"HttpUrl", schema(`{"type":"string","format":"uri","minLength":1,"maxLength":2083}`), web, append(other, `"http://"`, `"https:///p"`, `"http:"`)},
		{"AnyUrl", schema(`{"type":"string","format":"uri","minLength":1}`), append(web, other...), nil},
		{"another limit", schema(`{"type":"string","format":"uri","maxLength":2000}`), append(web, other...), nil},
	})
}
