package grammar

import (
	"encoding/json"
	"strings"
	"testing"
)

// specialVocabulary has a token for each byte, the end token 256, and special tokens.
func specialVocabulary(t testing.TB) *Vocabulary {
	t.Helper()
	tokens := make([][]byte, 261)
	for i := range 256 {
		tokens[i] = []byte{byte(i)}
	}
	v, err := NewVocabulary(tokens, []int32{256}, Special{256, "</s>"}, Special{257, "<|a|>"}, Special{258, "<|b|>"}, Special{259, "<|c|>"}, Special{260, "<|d|>"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// tokenText is a text as a list of strings, which are spelled in bytes, and token ids.
type tokenText []any

func (text tokenText) ids(t *testing.T) []int32 {
	t.Helper()
	var ids []int32
	for _, part := range text {
		switch part := part.(type) {
		case string:
			for i := range len(part) {
				ids = append(ids, int32(part[i]))
			}
		case float64:
			ids = append(ids, int32(part))
		default:
			t.Fatalf("not a part of a text: %v", part)
		}
	}
	return ids
}

// acceptsTokens reports whether g accepts the tokens as a whole. Each mask on the way
// must agree with Accept.
func (g *Grammar) acceptsTokens(t *testing.T, name string, ids []int32) bool {
	t.Helper()
	m := g.NewMatcher()
	mask := make([]uint32, g.Vocabulary().words())
	for _, id := range ids {
		if err := m.Fill(mask); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ok := m.Accept(id)
		if ok != legal(mask, id) {
			t.Fatalf("%s: token %d of %v is accepted: %t, by the mask: %t", name, id, ids, ok, legal(mask, id))
		}
		if !ok {
			return false
		}
	}
	return m.Done()
}

// xgrammarApart are the cases of testdata/xgrammar_tags.json that are read otherwise here.
// The value says why. Where a tag is read, nothing is accepted that xgrammar rejects.
var xgrammarApart = map[string]string{
	"EBNF repetition without a lower bound":    "it is 0",
	"EBNF two operators":                       "llama.cpp takes them",
	"a rule with the name of a macro":          "a macro has a parenthesis after its name",
	"json_schema without a schema":             "SGLang reads it as the schema of everything",
	"triggered_tags with a trigger twice over": "a tag may go on from any trigger that it begins with",
}

// xgrammarFewer are texts that xgrammar accepts, and that are not generated here.
var xgrammarFewer = map[string]string{
	`qwen_xml of many types: ["<parameter=k>6</parameter>"]`:     "a declared property is not an undeclared one as well",
	`any_tokens with max_tokens: ["abc"]`:                        "xgrammar counts only tokens that it has filled a mask for",
	`any_tokens with many max_tokens: ["aaaaaaaaaaaaaaaaaaaaa"]`: "xgrammar counts only tokens that it has filled a mask for",
}

// TestXgrammarTags compares structural tags with what xgrammar 0.2.8 says of them
// (tools/golden/xgrammar_tags.py).
func TestXgrammarTags(t *testing.T) {
	var golden struct {
		Cases []struct {
			Name             string
			Format           json.RawMessage
			Refused          bool
			Accepts, Rejects []tokenText
		}
	}
	if err := json.Unmarshal(readFile(t, "testdata/xgrammar_tags.json"), &golden); err != nil {
		t.Fatal(err)
	}
	v := specialVocabulary(t)
	texts := 0
	for _, c := range golden.Cases {
		g, err := compileFor(tag(`{"type":"structural_tag","format":`+string(c.Format)+`}`), v)
		apart := xgrammarApart[c.Name] != ""
		if (err != nil) != (c.Refused != apart) {
			t.Errorf("%s: %v, xgrammar refuses it: %t", c.Name, err, c.Refused)
		}
		if err != nil || apart {
			continue
		}
		for _, text := range c.Accepts {
			texts++
			key := c.Name + ": " + dump(t, text)
			if ok, fewer := g.acceptsTokens(t, c.Name, text.ids(t)), xgrammarFewer[key] != ""; ok == fewer {
				t.Errorf("%s: accepted: %t", key, ok)
			}
		}
		for _, text := range c.Rejects {
			texts++
			if g.acceptsTokens(t, c.Name, text.ids(t)) {
				t.Errorf("%s: accepts %s, which xgrammar rejects", c.Name, dump(t, text))
			}
		}
	}
	if texts < 600 {
		t.Errorf("only %d texts", texts)
	}
}

func dump(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(b.String())
}
