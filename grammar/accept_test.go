package grammar

import "testing"

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

func compileFor(s Spec, v *Vocabulary) (*Grammar, error) { return compile(s, v, DefaultConfig(), nil) }

func (g *Grammar) accepts(text string) bool {
	c := g.m.run(g.m.root, []byte(text))
	return c != dead && c.accept
}

func mustParse(t testing.TB, text []byte) any {
	t.Helper()
	v, err := parseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
