package grammar

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPrefixGoesOn: what may follow a given text, and what may not.
func TestPrefixGoesOn(t *testing.T) {
	const abc = `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"},"c":{"enum":["x","y"]}},"required":["a","c"],"additionalProperties":false}`
	const open = `{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":{"type":"boolean"}}`
	const tree = `{"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/t"},"maxItems":2}},"required":["v"],"additionalProperties":false}}}`
	for _, c := range []struct {
		schema, given string
		pass, fail    []string
	}{
		// What is missing comes in the order of the schema.
		{abc, `{"c":"x",`, []string{`"a":1}`, `"a":1,"b":true}`}, []string{`"b":true}`, `"b":true,"a":1}`, `"c":"x","a":1}`}},
		{abc, `{"c":"x"`, []string{`,"a":1}`, ` , "a":1}`}, []string{`}`, `"a":1}`}},
		{abc, `{"b":true,"c":"y","a":1`, []string{`}`, `2}`}, []string{`,"a":1}`, `,"d":1}`, `.5}`}},
		{abc, `{"b":true,"c":"y","a":1}`, []string{``}, []string{`}`, `,`}},
		{abc, "{\n\n\n\n \"c\"", []string{`:"x","a":1}`, ` :"y","a":1}`}, []string{`"x"`}},
		{abc, `{"c":"y","b`, []string{`":true,"a":1}`}, []string{`":true}`}},
		// White space goes on as if it had been generated.
		{abc, "{\"c\":\"x\",\n  ", []string{`"a":1}`, `  "a":1}`}, []string{"\n\n\"a\":1}"}},
		// Another spelling.
		{abc, `{"\u0063":"\u0078","a":1e0`, []string{`}`, `,"b":false}`, `5}`}, []string{`,"c":"x"}`}},
		{abc, `{"c":"\u00`, []string{`78","a":1}`, `79","a":1}`}, []string{`7a","a":1}`}},
		{abc, `{"\u006`, []string{`3":"x","a":1}`}, []string{`4":"x","a":1}`}},
		// Undeclared properties.
		{open, `{"zz":true,`, []string{`"a":1}`, `"a":1,"y":true}`}, []string{`"zz":false,"a":1}`, `"a":1,"zz":false}`, `"y":true}`}},
		{open, `{"zz":tr`, []string{`ue,"a":1}`}, []string{`ue}`}},
		{open, `{"z`, []string{`":true,"a":1}`}, []string{`":1,"a":1}`, `":true}`}},
		{open, `{"a":1,"z`, []string{`":true}`, `zz":true}`}, nil},
		{`{"properties":{"a":{}},"patternProperties":{"^x":{"type":"integer"}},"additionalProperties":false,"required":["a"]}`, `{"x1":1,"x2":`, []string{`3,"a":0}`, `3,"a":0,"x3":4}`}, []string{`true,"a":0}`, `3,"a":0,"x1":4}`}},
		{`{"propertyNames":{"pattern":"^[ab]+$"}}`, `{"ab":1,   "b`, []string{`":2}`, `a":2}`}, []string{`c":2}`, `":2,"ab":3}`}},
		// Numbers of properties and elements.
		{`{"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":2,"maxProperties":2,"additionalProperties":false}`, `{"c":1`, []string{`,"a":1}`, `,"b":1}`}, []string{`}`, `,"a":1,"b":2}`}},
		{`{"properties":{"a":{},"b":{},"c":{},"d":{},"e":{}},"minProperties":4,"maxProperties":4,"additionalProperties":false}`, `{"d":1,"b":[]`, []string{`,"a":1,"c":2}`, `,"c":1,"e":2}`}, []string{`}`, `,"a":1}`, `,"a":1,"c":2,"e":3}`}},
		{`{"properties":{"a":{},"b":{}},"required":["b"],"maxProperties":4,"additionalProperties":{"type":"integer"}}`, `{"x":1,"y":2 `, []string{`,"a":0,"b":1}`, `,"b":1,"z":3}`}, []string{`}`, `,"a":0,"b":1,"z":2}`}},
		{`{"type":"array","items":{"type":"integer"},"minItems":3,"maxItems":4}`, `[ 1e0, 2.0,3`, []string{`]`, `4]`, `,5]`}, []string{`,5,6]`, `,true]`}},
		{`{"type":"array","items":{"type":"integer"},"minItems":3,"maxItems":4}`, `[1.0,2`, []string{`,3]`}, []string{`]`}},
		{`{"type":"array","prefixItems":[{"type":"integer"},{"type":"null"}],"items":{"type":"boolean"}}`, `[1.0,`, []string{`null]`, `null,true]`}, []string{`true]`, `]`}},
		// Alternatives: those go on that fit what is given.
		{`{"anyOf":[{"properties":{"k":{"const":"a"},"v":{"type":"integer"}},"required":["k","v"],"additionalProperties":false},{"properties":{"k":{"const":"b"},"v":{"type":"string"}},"required":["k","v"],"additionalProperties":false}]}`,
			`{"v":1.0,`, []string{`"k":"a"}`}, []string{`"k":"b"}`}},
		{`{"oneOf":[{"type":"object","properties":{"k":{"const":"a"},"v":{"type":"integer"}},"required":["k","v"]},{"type":"object","properties":{"k":{"const":"b"},"w":{"type":"integer"}},"required":["k","w"]}]}`,
			`{"w":1,"k`, []string{`":"a","v":2}`, `":"b"}`}, []string{`":"a"}`}},
		{`{"allOf":[{"properties":{"a":{"minimum":3}}},{"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["b"]}]}`, `{"b":1,"a":`, []string{`3}`}, []string{`2}`, `3.5}`}},
		{`{"enum":[{"a":1,"b":[1,2],"c":"x"},{"a":2,"b":[1,3]}]}`, `{"b":[1.0,`, []string{`2],"a":1,"c":"x"}`, `3],"a":2}`}, []string{`2],"a":2}`, `3]}`}},
		{`{"const":{"a":"x/y"}}`, `{"\u0061":"x\`, []string{`/y"}`}, []string{`ny"}`}},
		{`{"type":"array","items":{"enum":[[1,2],[3]]}}`, `[[3.0],[`, []string{`1,2]]`, `3]]`}, []string{`2]]`}},
		// At depth.
		{tree, `{"kids":[{"kids":[],"v":1.0},{"kids":[{"v`, []string{`":2}],"v":3}],"v":4}`}, []string{`":2}]}],"v":4}`, `":2}],"v":3},{"v":5}],"v":4}`}},
		// A pattern and lengths.
		{`{"properties":{"s":{"type":"string","pattern":"^a+b$"},"n":{"type":"string","minLength":3,"maxLength":4}},"required":["s"],"additionalProperties":false}`, `{"n":"\u0061\ud83d\ude00`, []string{`c","s":"ab"}`, `cd","s":"aab"}`}, []string{`","s":"ab"}`, `cde","s":"ab"}`, `c"}`}},
		{`{"properties":{"s":{"type":"string","pattern":"^a+b$"},"n":{}},"additionalProperties":false}`, `{"n":0,"s":"\u0061`, []string{`b"}`, `aab"}`}, []string{`"}`, `bb"}`}},
		{`{"type":"array","maxItems":1,"uniqueItems":true}`, ` [{"a":1,"a`, []string{`b":2}]`}, []string{`":2}]`, `b":2},3]`}},
		{`{"properties":{"s":{"pattern":"^[a-z]{1,50000}$"},"n":{"type":"integer"}},"required":["s"],"additionalProperties":false}`, "{\t\t\"s\":\"\\u0061\" ,\n  ", []string{`"n":1}`, `  "n":1}`}, []string{`"s":"b"}`, `}`}},
		{`true`, ` [{"a": 1,"a`, []string{`b":2}]`}, []string{`":2}]`}},
		{`{"type":"integer"}`, ` `, []string{`1`}, []string{`true`}},
	} {
		s := schema(c.schema)
		g, err := afterFor(mustCompile(t, s, testVocabulary), s, c.given)
		if err != nil {
			t.Errorf("%s, %q: %v", c.schema, c.given, err)
			continue
		}
		m := g.NewMatcher()
		for _, text := range c.pass {
			if p := m.m.run(m.at, []byte(text)); p == dead || !p.accept {
				t.Errorf("%s: after %q, %q is rejected", c.schema, c.given, text)
			}
		}
		for _, text := range c.fail {
			if p := m.m.run(m.at, []byte(text)); p != dead && p.accept {
				t.Errorf("%s: after %q, %q is accepted", c.schema, c.given, text)
			}
		}
	}
}

// TestPrefixRefused: a text that is no beginning is refused, with the place.
func TestPrefixRefused(t *testing.T) {
	const ab = `{"properties":{"a":{"type":"integer"},"b":{"maxLength":2}},"required":["a","b"],"additionalProperties":false}`
	for _, c := range []struct{ schema, given, want string }{
		{ab, `x`, "at byte 0 of the given text: no JSON value begins so"},
		{ab, `{"b":"x" "a"`, "at byte 9 of the given text: a comma or the end of the list is expected here"},
		{ab, `{"b":"x",]`, "at byte 9 of the given text: the name of a property is expected here"},
		{ab, `{"b" 1`, "at byte 5 of the given text: a colon is expected here"},
		{ab, `{"b":"x","b"`, "at byte 9 of the given text: this property is there already"},
		{ab, `{"b":"x","c":1`, `at byte 13 of the given text: the property "c" is not allowed here`},
		{ab, `{"b":"xyz",`, `at byte 5 of the given text: the value of the property "b" does not satisfy the schema`},
		{ab, `{"b":"xyz`, "at byte 5 of the given text: nothing that satisfies the schema goes on so"},
		{ab, `{"b":"x"}`, "at byte 0 of the given text: the value does not satisfy the schema"},
		{ab, `{"b":"x","a":1}1`, "at byte 15 of the given text: the JSON value has ended before"},
		{ab, `{"b":"\x`, "at byte 6 of the given text: no escape begins so"},
		{ab, `{"b":"\ud800x`, "at byte 6 of the given text: this is the first half of a pair of surrogates without the second"},
		{ab, `{"b":01`, "at byte 6 of the given text: this number is not one of JSON"},
		{ab, "{\"b\":\"\n", "at byte 6 of the given text: a control character in a string has to be escaped"},
		{ab, `{"b":"x","a":1,`, "at byte 15 of the given text: nothing that satisfies the schema goes on so"},
		{`{"items":{"type":"integer"},"maxItems":2}`, `[1.0,2,3`, "at byte 7 of the given text: there are too many elements"},
		{`{"items":{"type":"integer"}}`, `[ 1,2,"x"`, `at byte 6 of the given text: this element does not satisfy the schema`},
		{`{"type":"object","maxProperties":1}`, `{"a":1,"b":2`, "at byte 11 of the given text: there are too many properties"},
		{`{"type":"object"}`, `[`, "at byte 0 of the given text: an array is not allowed here"},
		{`{"type":"array"}`, ` {`, "at byte 1 of the given text: an object is not allowed here"},
		{`{"enum":[1,"x"]}`, ` "y`, "at byte 1 of the given text: no value that the schema lists begins so"},
		{`{"propertyNames":{"maxLength":2}}`, `{"abc" :1`, `at byte 8 of the given text: the property "abc" is not allowed here`},
	} {
		s := schema(c.schema)
		_, err := afterFor(mustCompile(t, s, testVocabulary), s, c.given)
		if !errors.Is(err, ErrPrefix) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s, %q: %v, want %s", c.schema, c.given, err, c.want)
		}
	}
	for _, c := range []struct {
		spec        Spec
		given, want string
	}{
		{re(`ab*`), "abc", "at byte 2 "},
		{Spec{Kind: Choice, Choices: []string{"yes", "no"}}, "maybe", "at byte 0 "},
		{notation(`root ::= "a" root | "b"`), "aba", "at byte 2 "},
		{tag(`{"format":{"type":"json_schema","json_schema":{"type":"object","properties":{"a":{},"b":{}}}}}`), `{"b":1,"a"`, "at byte 9 "},
	} {
		_, err := afterFor(mustCompile(t, c.spec, testVocabulary), c.spec, c.given)
		if !errors.Is(err, ErrPrefix) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s%s, %q: %v, want %s", c.spec.Text, c.spec.Schema, c.given, err, c.want)
		}
	}
}

// TestPrefixWhitespace: a pattern for white space that demands some does not matter for what
// is given.
func TestPrefixWhitespace(t *testing.T) {
	s := schema(`{"properties":{"a":{"type":"integer"},"b":{"type":"array"}},"required":["a"],"additionalProperties":false}`)
	s.WhitespacePattern = ` |\t\t`
	g, err := afterFor(mustCompile(t, s, testVocabulary), s, "{\n\"b\":[1]\t\n,")
	if err != nil {
		t.Fatal(err)
	}
	if !g.accepts(` "a" : 1 }`) || g.accepts(`"a":1}`) {
		t.Error("what is generated does not follow the pattern")
	}
}

// TestPrefixCompiler: a prefix that the ordinary grammar reads takes no grammar of its own,
// and all that is compiled is given back.
func TestPrefixCompiler(t *testing.T) {
	c, err := NewCompiler(testVocabulary, DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := schema(`{"properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}`)
	compile := func(prefix string) *Grammar {
		s.Prefix = prefix
		g, err := c.Compile(context.Background(), s)
		if err != nil {
			t.Fatalf("%q: %v", prefix, err)
		}
		return g
	}
	plain, usual, odd, odder := compile(""), compile(`{"a": 1`), compile(`{"b":1`), compile(`{"b":2,"a":`)
	if plain.m != usual.m || odd.m == plain.m || odder.m == odd.m || len(c.entries) != 3 {
		t.Errorf("%d grammars", len(c.entries))
	}
	for range 2 { // a matcher begins behind the prefix, whatever others did
		if m := usual.NewMatcher(); !m.Accept(int32(',')) || m.Accept(int32('{')) {
			t.Error("after a usual prefix")
		}
		if m := plain.NewMatcher(); !m.Accept(int32('{')) {
			t.Error("without a prefix")
		}
	}
	m := odder.NewMatcher()
	m.Accept(int32('7'))
	if m.Rollback(5); m.Len() != 0 || m.Accept(int32('}')) || !m.Accept(int32('8')) || !m.Accept(int32('}')) || !m.Done() {
		t.Error("rolling back leads elsewhere than to the end of the prefix")
	}
	for _, g := range []*Grammar{plain, usual, odd, odder} {
		g.Release()
	}
	s.Prefix = `{"c":`
	if _, err := c.Compile(context.Background(), s); !errors.Is(err, ErrPrefix) {
		t.Errorf("%v", err)
	}
	for _, el := range c.entries {
		if e := el.Value.(*entry); e.users != 0 || e.hold != nil {
			t.Errorf("somebody still uses a grammar: %+v", e)
		}
	}
}

// TestPrefixLarge: the cost of a second lowering grows with the text no more than reading it.
func TestPrefixLarge(t *testing.T) {
	s := schema(`{"type":"object","properties":{"s":{"type":"string"},"n":{"type":"array","items":{"type":"integer"}},"a":{"type":"integer"}},"required":["a"],"additionalProperties":{"type":"integer"}}`)
	plain := mustCompile(t, s, testVocabulary)
	var many strings.Builder
	for i := range 20_000 {
		many.WriteString(`"k` + strings.Repeat("x", i%50) + string(rune('a'+i%26)) + strconv.Itoa(i) + `": 1.0 ,`)
	}
	for name, given := range map[string]string{
		"a long string":       `{"n":[],"s":"` + strings.Repeat(`\u0061bc`, 50_000),
		"a long list":         `{"n":[` + strings.Repeat("1.0,", 100_000),
		"many properties":     "{" + many.String(),
		"much white space":    `{"n":[],` + strings.Repeat("\n ", 100_000),
		"a long wrong number": `{"n":[],"s":` + strings.Repeat("1", 100_000),
	} {
		began := time.Now()
		g, err := afterFor(plain, s, given)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: %v", name, took)
		}
		if (err != nil) != strings.Contains(name, "wrong") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && g.m.static > 1<<20 && name != "many properties" { // of these, their names have to be kept away
			t.Errorf("%s: the grammar has %d bytes", name, g.m.static)
		}
	}
	deep := schema(`true`)
	plain = mustCompile(t, deep, testVocabulary)
	if _, err := afterFor(plain, deep, strings.Repeat(`[{"a": 1.0,  "b":`, 120)); err != nil {
		t.Error(err)
	}
	if _, err := afterFor(plain, deep, `[1,  2,`+strings.Repeat(`[`, 300)); !errors.Is(err, ErrTooComplex) {
		t.Errorf("nested too deeply: %v", err)
	}
}
