package grammar

import (
	"encoding/json"
	"strings"
	"testing"
)

// bytesVocabulary has one token per byte, and an end token.
func bytesVocabulary() *Vocabulary {
	tokens := make([][]byte, 257)
	for i := range 256 {
		tokens[i] = []byte{byte(i)}
	}
	v, err := NewVocabulary(tokens, []int32{256})
	if err != nil {
		panic(err)
	}
	return v
}

var testVocabulary = bytesVocabulary()

func compileFor(s Spec, v *Vocabulary) (*Grammar, error) { return compile(s, v, DefaultConfig()) }

func (g *Grammar) accepts(text string) bool {
	c := g.m.run(g.m.root, []byte(text))
	return c != dead && c.accept
}

// dump writes JSON as Python's json.dumps does, with ", " and ": ".
func dump(v any) string {
	switch v := v.(type) {
	case *object:
		parts := make([]string, len(v.keys))
		for i, k := range v.keys {
			parts[i] = dump(k) + ": " + dump(v.m[k])
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = dump(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return quoteJSON(v)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

func mustParse(t testing.TB, text []byte) any {
	t.Helper()
	v, err := parseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
