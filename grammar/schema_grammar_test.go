package grammar

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"weir/internal/jsontext"
)

// changes is a grammar of lists of changes to files, with every kind of terminal that such grammars have.
const changes = `
start: opening change+ closing
opening: "== Changes ==" LF
closing: "== End ==" LF?
change: new | gone | edit
new: "New: " path LF added+
gone: "Gone: " path LF
edit: "Edit: " path LF moved? (place | line)* last?
moved: "To: " path LF
place: ("@" | "@ " /(.+)/) LF
line: ("+" | "-" | " ") /(.*)/ LF
added: "+" /(.*)/ LF -> line
last: "<eof>" LF
path: /(.+)/
%import common.LF
`

// inTool is a schema of arguments with one string of the grammar.
func inTool(grammar string) string {
	return `{"type":"object","properties":{"input":{"type":"string","x-grammar":` + string(jsontext.AppendString(nil, grammar)) + `}},"required":["input"],"additionalProperties":false}`
}

// inStringCase has texts that a grammar takes, texts that it does not, and arguments that are refused as they are written.
type inStringCase struct {
	grammar            string
	yes, no, unwritten []string
}

var inStringCases = []inStringCase{
	{changes, []string{
		"== Changes ==\nNew: a \"b\".go\n+\tif x == '\\n' {\n+é\n== End ==", "== Changes ==\nGone: C:\\x\n== End ==\n",
		"== Changes ==\nEdit: a\nTo: b\n@\n@ func\n+x\n-\n <eof>\n<eof>\nGone: x\n== End ==",
	}, []string{"", "== Changes ==\n== End ==", "== Changes ==\nNew: a\n== End ==", "== Changes ==\nGone: x\n== End ==\n\n", "== Changes ==\nGone: x\n* y\n== End =="},
		[]string{"{\"input\":\"== Changes ==\nGone: x\n== End ==\"}", `{"input":"== Changes ==\u000aGone: x\n== End =="}`}},
	{`start: "\"" /[^"\\]*/ "\"" | "\\" A | "a" "\t"` + "\nA: /[a-c]+/ & ~/.*bb.*/", []string{`"x"`, `\abc`, "a\t", "\"\x01\u2028\""}, []string{`"x`, `"\"`, `\bb`, `\`, "a\\t"}, []string{`{"input":"\a"}`}},
	{"start: %regex {\"substring_chunks\": [\"a\\n\", \"\\\"b\\\"\", \"c\"]}", []string{"a\n\"b\"", "\"b\"c", ""}, []string{"ac", "b"}, nil},
}

// TestGrammarInString: a string satisfies a grammar, which reads what the string says, and not how it
// is written.
func TestGrammarInString(t *testing.T) {
	quoted := func(input string) string { return string(jsontext.AppendString(nil, input)) }
	styled := func(style string) func(string) Spec {
		return func(grammar string) Spec {
			return tag(`{"format":{"type":"tag","begin":"<","content":{"type":"json_schema","style":"` + style + `","json_schema":` + inTool(grammar) + `},"end":">"}}`)
		}
	}
	object := func(input string) string { return `{"input":` + quoted(input) + `}` }
	for name, form := range map[string]struct {
		spec  func(grammar string) Spec
		write func(input string) string
	}{
		"a schema": {func(grammar string) Spec { return schema(inTool(grammar)) }, object},
		"a tag": {func(grammar string) Spec {
			return tag(`{"format":{"type":"json_schema","json_schema":` + inTool(grammar) + `}}`)
		}, object},
		"qwen_xml": {styled("qwen_xml"), func(input string) string { return "<<parameter=input>\n" + input + "\n</parameter>>" }},
		"gemma":    {styled("gemma"), func(input string) string { return `<input:<|"|>` + input + `<|"|>>` }},
		"python":   {styled("python"), func(input string) string { return `<input=` + quoted(input) + `>` }},
	} {
		for _, c := range inStringCases {
			c.check(t, name, mustCompile(t, form.spec(c.grammar), testVocabulary), form.write)
		}
	}
	for _, c := range inStringCases {
		g := mustCompile(t, schema(inTool(c.grammar)), testVocabulary)
		for _, text := range c.unwritten {
			if g.accepts(text) {
				t.Errorf("%s is taken", text)
			}
		}
	}
}

// check compares what a grammar of a form takes with what it should.
func (c *inStringCase) check(t *testing.T, form string, g *Grammar, write func(input string) string) {
	t.Helper()
	for want, texts := range map[bool][]string{true: c.yes, false: c.no} {
		for _, text := range texts {
			if got := g.accepts(write(text)); got != want {
				t.Errorf("%s: %q is taken: %t", form, text, got)
			}
		}
	}
}

// TestGrammarInStringRandom: what a model writes that draws at random is a JSON string whose text
// the grammar takes, and the masks are those of the reference.
func TestGrammarInStringRandom(t *testing.T) {
	g := mustCompile(t, schema(inTool(changes)), testVocabulary)
	plain := mustCompile(t, notation(changes), testVocabulary)
	whole := 0
	for seed := range uint64(40) {
		text, done := drawLines(t, g, rand.New(rand.NewPCG(seed, 1)))
		if !done {
			continue
		}
		whole++
		if jsontext.Check(text, 10) != nil {
			t.Fatalf("%q is not JSON", text)
		}
		if input := jsontext.Value(text).Member("input").Text(); !plain.accepts(input) {
			t.Errorf("%q is not of the grammar", input)
		}
	}
	if whole < 5 {
		t.Errorf("only %d texts have ended", whole)
	}
}

// drawLines draws a text at random, in which lines end more often than by chance, and reports whether it has ended.
func drawLines(t *testing.T, g *Grammar, rng *rand.Rand) (text []byte, done bool) {
	t.Helper()
	mask, want := make([]uint32, (testVocabulary.size+31)/32), make([]uint32, (testVocabulary.size+31)/32)
	m := g.NewMatcher()
	for len(text) < 400 && !m.Done() {
		if err := m.Fill(mask); err != nil {
			t.Fatal(err)
		}
		referenceMask(m, want)
		if d := maskDifference(testVocabulary, mask, want); d != "" {
			t.Fatalf("after %q: %s", text, d)
		}
		tok := randomLegal(rng, mask, testVocabulary.size)
		if n := int32('\\'); rng.IntN(3) == 0 && legal(mask, n) {
			tok = n
		} else if n := int32('n'); bytes.HasSuffix(text, []byte(`\`)) && legal(mask, n) && rng.IntN(2) == 0 {
			tok = n
		}
		if tok < 0 || !m.Accept(tok) {
			t.Fatalf("after %q: %d", text, tok)
		}
		text = append(text, byte(tok))
	}
	return text, m.Done()
}

// TestGrammarInStringRefused: what cannot be kept is refused, with the place.
func TestGrammarInStringRefused(t *testing.T) {
	for spec, want := range map[string]string{
		`{"type":"string","x-grammar":"start: a"}`:                              "a",
		`{"type":"string","x-grammar":"start: \"a\"","minLength":2}`:            "together with other demands",
		`{"type":"string","x-grammar":"start: \"a\"","pattern":"b"}`:            "together with other demands",
		`{"type":"string","x-grammar":3}`:                                       "a string",
		`{"type":"string","x-grammar":" "}`:                                     "a grammar",
		`{"type":"string","x-grammar":"start: %json {\"type\":\"integer\"}"}`:   "inside a JSON string",
		`{"allOf":[{"x-grammar":"start: \"a\""},{"x-grammar":"start: \"b\""}]}`: "two grammars",
	} {
		_, err := compileFor(schema(spec), testVocabulary)
		var e *Error
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &e) || !strings.Contains(e.Path, "x-grammar") {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

// TestGrammarBeforeEnd: where strings have no quotes, no terminal of a grammar has the mark in it that
// ends a string.
func TestGrammarBeforeEnd(t *testing.T) {
	for style, c := range map[string]struct{ before, after string }{"qwen_xml": {"<parameter=input>\n", "\n</parameter>"}, "gemma": {`input:<|"|>`, `<|"|>`}} {
		g := mustCompile(t, tag(`{"format":{"type":"tag","begin":"<","content":{"type":"json_schema","style":"`+style+`","json_schema":`+inTool("start: (/.*/ | MARKS) LF\nMARKS: /[^a-z]+/ & /..+/\n%import common.LF")+`},"end":">"}}`), testVocabulary)
		for text, want := range map[string]bool{"x <y\n": true, "<|\"|\n": true, "x " + strings.TrimPrefix(c.after, "\n") + "\n": false} {
			if got := g.accepts("<" + c.before + text + c.after + ">"); got != want {
				t.Errorf("%s: %q is taken: %t", style, text, got)
			}
		}
	}
}
