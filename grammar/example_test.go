package grammar_test

import (
	"context"
	"fmt"

	"weir/grammar"
)

// A schema is compiled for a vocabulary of ten tokens. Then a text is written token by
// token, and each mask says which tokens may come next.
func Example() {
	tokens := []string{`{`, `"`, `n`, `{"n`, `":`, `-`, `7`, `7}`, `}`, `<end>`}
	texts := make([][]byte, len(tokens))
	for i, s := range tokens {
		texts[i] = []byte(s)
	}
	vocabulary, err := grammar.NewVocabulary(texts, []int32{9}) // token 9 ends a text
	if err != nil {
		panic(err)
	}
	compiler, err := grammar.NewCompiler(vocabulary, grammar.DefaultConfig(), nil)
	if err != nil {
		panic(err)
	}
	g, err := compiler.Compile(context.Background(), grammar.Spec{
		Kind:    grammar.JSONSchema,
		Schema:  []byte(`{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}`),
		Options: grammar.Options{DisableAnyWhitespace: true},
	})
	if err != nil {
		panic(err)
	}

	m := g.NewMatcher()
	mask := make([]uint32, (vocabulary.Size()+31)/32) // a bit for each token
	for _, next := range []int32{0, 1, 2, 4, 5, 6, 8, 9} {
		if err := m.Fill(mask); err != nil {
			panic(err)
		}
		fmt.Printf("mask %010b, so", mask[0])
		for i, text := range tokens {
			if mask[i/32]>>(i%32)&1 == 1 {
				fmt.Printf("  %s", text)
			}
		}
		if only, ok := grammar.Single(mask); ok {
			fmt.Printf("  (token %d has no alternative)", only)
		}
		fmt.Println()
		if !m.Accept(next) {
			panic("an illegal token")
		}
	}
	fmt.Println("ended:", m.Ended())

	// Output:
	// mask 0000001001, so  {  {"n
	// mask 0000000010, so  "  (token 1 has no alternative)
	// mask 0000000100, so  n  (token 2 has no alternative)
	// mask 0000010010, so  "  ":
	// mask 0011100000, so  -  7  7}
	// mask 0011000000, so  7  7}
	// mask 0111000000, so  7  7}  }
	// mask 1000000000, so  <end>  (token 9 has no alternative)
	// ended: true
}
