package toolcall

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"weir/grammar"
)

// compile compiles the grammar of a format, for a vocabulary of bytes.
func compile(t testing.TB, f *Format, tools []Tool, choice Choice, content string) (*grammar.Grammar, error) {
	t.Helper()
	var given []byte
	if content != "" {
		given = []byte(content)
	}
	tag, err := f.Grammar(tools, choice, given)
	if err != nil {
		t.Fatalf("%s: %v", f.Name(), err)
	}
	return compiler(t).Compile(context.Background(), grammar.Spec{Kind: grammar.Tag, Schema: tag, Options: grammar.Options{Strict: true}})
}

const endToken = 256

func compiler(t testing.TB) *grammar.Compiler {
	t.Helper()
	tokens := make([][]byte, 257)
	for i := range 256 {
		tokens[i] = []byte{byte(i)}
	}
	v, err := grammar.NewVocabulary(tokens, []int32{endToken})
	if err != nil {
		t.Fatal(err)
	}
	c, err := grammar.NewCompiler(v, grammar.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustCompile(t testing.TB, f *Format, tools []Tool, choice Choice, content string) *grammar.Grammar {
	t.Helper()
	g, err := compile(t, f, tools, choice, content)
	if err != nil {
		t.Fatalf("%s: %v", f.Name(), err)
	}
	return g
}

// accepts reports how much of text the grammar takes, and whether it may end there.
func accepts(g *grammar.Grammar, text string) (n int, whole bool) {
	m := g.NewMatcher()
	for i := range len(text) {
		if !m.Accept(int32(text[i])) {
			return i, false
		}
	}
	return len(text), m.Accept(endToken)
}

// draw takes random legal tokens, and some more often than others, until the text ends. It begins
// with a given text.
func draw(g *grammar.Grammar, rng *rand.Rand, begin string) (string, bool) {
	m := g.NewMatcher()
	mask := make([]uint32, 9)
	legal := func(tok int) bool { return mask[tok>>5]>>(tok&31)&1 == 1 }
	text := []byte(begin)
	for _, b := range text {
		m.Accept(int32(b))
	}
	for i := range 1500 {
		if m.Fill(mask) != nil {
			return string(text), false
		}
		if legal(endToken) && (i > 300 || rng.IntN(3) == 0) {
			return string(text), true
		}
		tok := randomToken(rng, legal, i > 150, text)
		if tok == endToken {
			return string(text), true
		}
		if !m.Accept(int32(tok)) {
			return string(text), false
		}
		text = append(text, byte(tok))
	}
	return string(text), false
}

// randomToken draws a legal token behind text. With late it is one that ends something, if any is.
func randomToken(rng *rand.Rand, legal func(tok int) bool, late bool, text []byte) int {
	tok := rng.IntN(256)
	for n := 0; !legal(tok) && n < 257; n++ {
		tok = (tok + 1) % 257
	}
	if late || rng.IntN(3) == 0 {
		ends := []byte(`"}]0)'<`)
		if i := slices.IndexFunc(ends, func(c byte) bool { return legal(int(c)) }); i >= 0 {
			tok = int(ends[i])
		}
	}
	if !late {
		return tok
	}
	if n := unfinished([]string{inGemma.quote}, text); (n > 0 || bytes.Count(text, []byte(inGemma.quote))%2 == 1) && legal(int(inGemma.quote[n])) {
		tok = int(inGemma.quote[n]) // the end of a string, which is not drawn by chance
	}
	return tok
}

// TestGrammarAccepts: what a format's grammar accepts of calls that are written as the family's
// template has them, and what it refuses.
func TestGrammarAccepts(t *testing.T) {
	for _, f := range formats {
		if f.channels {
			continue // TestHarmonyGrammar
		}
		one := written(f, Call{Name: "weather", Arguments: []byte(`{"city": "Köln", "days": 2}`)})
		two := written(f, Call{Name: "weather", Arguments: []byte(`{"city": "Köln", "days": 2}`)}, Call{Name: "now", Arguments: []byte(`{}`)})
		stranger := written(f, Call{Name: "other", Arguments: []byte(`{}`)})
		wrong := written(f, Call{Name: "weather", Arguments: []byte(`{"days": 2}`)})
		check := func(g *grammar.Grammar, what, text string, want bool) {
			t.Helper()
			if n, whole := accepts(g, text); whole != want {
				t.Errorf("%s, %s: %q: %v, want %v (it goes on after %q)", f.Name(), what, text, whole, want, text[:n])
			}
		}
		g := mustCompile(t, f, weather, Choice{Mode: Required, Parallel: true}, "")
		check(g, "required", one, true)
		check(g, "required", two, true)
		check(g, "required", stranger, false)
		check(g, "required", wrong, false)
		check(g, "required", "Hello", false)
		check(g, "required", "", false)
		g = mustCompile(t, f, weather, Choice{Mode: Required}, "")
		check(g, "required, one", one, true)
		check(g, "required, one", two, false)
		g = mustCompile(t, f, weather, Choice{Mode: Function, Name: "now", Parallel: true}, "")
		check(g, "named", one, false)
		check(g, "named", written(f, Call{Name: "now", Arguments: []byte(`{}`)}), true)
		check(g, "named", two, false)
		g = mustCompile(t, f, weather, Choice{Mode: Auto, Parallel: true}, "")
		check(g, "auto", "Hello", true)
		check(g, "auto", "", true)
		check(g, "auto", "Let me see.\n"+one, true)
		check(g, "auto", two, true)
		check(g, "auto", stranger, !f.marked())
		check(g, "auto", wrong, false)
		g = mustCompile(t, f, weather, Choice{Mode: Auto}, "")
		check(g, "auto, one", "Let me see.\n"+one, true)
		check(g, "auto, one", two, false)
		g = mustCompile(t, f, weather, Choice{Mode: Auto, Parallel: true}, `{"type": "regex", "pattern": "yes|no"}`)
		check(g, "auto, constrained", "yes", true)
		check(g, "auto, constrained", "maybe", false)
		check(g, "auto, constrained", two, true)
		g = mustCompile(t, f, weather, Choice{Mode: None}, "")
		check(g, "none", "Hello", true)
		check(g, "none", one, !f.marked())
	}
}

// randomParameters draws a schema of arguments.
func randomParameters(rng *rand.Rand, depth int) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range rng.IntN(4) {
		name := string([]byte{byte('a' + i)}) + []string{"", "_b", "C"}[rng.IntN(3)]
		properties[name] = randomValue(rng, depth)
		if rng.IntN(2) == 0 {
			required = append(required, name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties, "required": required}
	switch rng.IntN(4) {
	case 0:
		s["additionalProperties"] = false
	case 1:
		s["additionalProperties"] = randomValue(rng, 0)
	}
	return s
}

func randomValue(rng *rand.Rand, depth int) any {
	n := 9
	if depth > 0 {
		n = 13
	}
	switch rng.IntN(n) {
	case 0:
		return map[string]any{"type": "integer", "minimum": rng.IntN(5)}
	case 1:
		return map[string]any{"type": "number"}
	case 2:
		return map[string]any{"type": "boolean"}
	case 3:
		return map[string]any{"type": "string", "maxLength": 5 + rng.IntN(20)}
	case 4:
		return map[string]any{"enum": []any{"a", "b c", 1, nil, true}[rng.IntN(2):]}
	case 5:
		return map[string]any{"type": []string{"string", "null"}}
	case 6:
		return map[string]any{"type": "string", "pattern": "^[a-z]{1,3}$"}
	case 7:
		return map[string]any{"type": "string"}
	case 8:
		return map[string]any{"type": "null"}
	case 9:
		return map[string]any{"type": "array", "items": randomValue(rng, depth-1), "maxItems": 3}
	case 10:
		return map[string]any{"anyOf": []any{randomValue(rng, depth-1), randomValue(rng, depth-1)}}
	case 11:
		return map[string]any{"type": "array"}
	}
	return randomParameters(rng, depth-1)
}

func validator(t testing.TB, schema []byte) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(schema)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("mem:///s.json", v); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("mem:///s.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestGrammarRandom: whatever a model that draws at random writes under the grammar, the parser
// reads calls of the given tools out of it whose arguments obey their schemas, and nothing else
// where nothing else is allowed. make test-all draws from 1,000 sets of tools for each format.
func TestGrammarRandom(t *testing.T) {
	seeds := 400
	switch {
	case testing.Short():
		seeds = 60
	case os.Getenv("WEIR_TEST_ALL") != "":
		seeds = 1000
	}
	for _, f := range formats {
		var n drawCounts
		for seed := range seeds {
			n.draw(t, f, rand.New(rand.NewPCG(uint64(seed), 7)))
		}
		t.Logf("%s: %+v", f.Name(), n)
		if n.drawn < 2*seeds || n.calls < seeds {
			t.Errorf("%s: only %d texts with %d calls", f.Name(), n.drawn, n.calls)
		}
	}
}

// TestGrammarOfText: where an argument is a text of a grammar, it is one in what the parser reads of
// random calls, however a format writes texts.
func TestGrammarOfText(t *testing.T) {
	const lines = `start: "<<" LF line+ ">>" LF?
line: ("+" | "-" | " ") /[^\n]{0,5}/ LF
%import common.LF`
	texts := regexp.MustCompile("^<<\n([-+ ][^\n]{0,5}\n)+>>\n?$")
	parameters, err := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"input": map[string]any{"type": "string", "x-grammar": lines}},
		"required": []any{"input"}, "additionalProperties": false})
	if err != nil {
		t.Fatal(err)
	}
	tools := []Tool{{Name: "edit", Parameters: parameters}}
	for _, f := range formats {
		g := mustCompile(t, f, tools, Choice{Mode: Function, Name: "edit"}, "")
		n := 0
		for seed := range uint64(30) {
			text, done := draw(g, rand.New(rand.NewPCG(seed, 3)), "")
			if !done {
				continue
			}
			n++
			read := text
			if f.channels {
				read = withoutThoughts(text)
			}
			_, found := f.Split([]byte(read), tools)
			if len(found) != 1 || !found[0].Complete || json.Unmarshal(found[0].Arguments, &struct{ Input string }{}) != nil {
				t.Fatalf("%s: %q: %s", f.Name(), text, shown(found))
			}
			var args struct{ Input string }
			_ = json.Unmarshal(found[0].Arguments, &args)
			if !texts.MatchString(args.Input) {
				t.Errorf("%s: %q has the input %q", f.Name(), text, args.Input)
			}
		}
		if n < 10 {
			t.Errorf("%s: only %d calls have ended", f.Name(), n)
		}
	}
}

// drawCounts counts texts that were drawn and the calls in them, schemas that were refused, and
// texts without an end.
type drawCounts struct{ drawn, calls, refused, unfinished int }

// draw draws three texts under the grammar of random tools.
func (n *drawCounts) draw(t *testing.T, f *Format, rng *rand.Rand) {
	t.Helper()
	var tools []Tool
	valid := map[string]*jsonschema.Schema{}
	for i := range 1 + rng.IntN(2) {
		schema, err := json.Marshal(randomParameters(rng, 2))
		if err != nil {
			t.Fatal(err)
		}
		tool := Tool{Name: fmt.Sprintf("tool_%d", i), Parameters: schema}
		tools, valid[tool.Name] = append(tools, tool), validator(t, schema)
	}
	choice := Choice{Mode: []Mode{Required, Function, Auto}[rng.IntN(3)], Name: "tool_0", Parallel: rng.IntN(2) == 0}
	g, err := compile(t, f, tools, choice, "")
	if errors.Is(err, grammar.ErrUnsupported) || errors.Is(err, grammar.ErrUnsatisfiable) {
		n.refused++
		return
	}
	if err != nil {
		t.Fatalf("%s: %s: %v", f.Name(), tools, err)
	}
	for range 3 {
		begin := ""
		if choice.Mode == Auto && rng.IntN(4) > 0 {
			begin = "Yes. " + f.trigger(tools[0])
		}
		if f.channels {
			begin = "<|channel|>commentary to=functions.tool_0"
		}
		text, done := draw(g, rng, begin)
		if !done {
			n.unfinished++
			continue
		}
		n.drawn++
		n.calls += checkDrawn(t, f, tools, choice, valid, text)
	}
}

// checkDrawn checks what the parser reads out of a text, and returns the number of its calls.
func checkDrawn(t *testing.T, f *Format, tools []Tool, choice Choice, valid map[string]*jsonschema.Schema, text string) int {
	t.Helper()
	if f.channels {
		text = withoutThoughts(text)
	}
	content, found := f.Split([]byte(text), tools)
	if choice.Mode != Auto && (len(content) > 0 || len(found) == 0) || (!choice.Parallel || choice.Mode == Function) && len(found) > 1 {
		t.Fatalf("%s, %+v: %q: content %q, calls %s", f.Name(), choice, text, content, shown(found))
	}
	for _, c := range found {
		checkArguments(t, f, valid, text, c)
	}
	return len(found)
}

func checkArguments(t *testing.T, f *Format, valid map[string]*jsonschema.Schema, text string, c Call) {
	t.Helper()
	schema := valid[c.Name]
	if schema == nil || !c.Complete {
		t.Fatalf("%s: %q: a call of %q, complete %v", f.Name(), text, c.Name, c.Complete)
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(string(c.Arguments)))
	if err != nil {
		t.Fatalf("%s: %q: %s: %v", f.Name(), text, c.Arguments, err)
	}
	if err := schema.Validate(v); err != nil {
		t.Fatalf("%s: %q: %s: %v", f.Name(), text, c.Arguments, err)
	}
}
