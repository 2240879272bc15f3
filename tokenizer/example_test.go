package tokenizer_test

import (
	"fmt"
	"os"

	"weir/tokenizer"
)

// Text in, ids, and text out token by token.
func Example() {
	file, err := os.ReadFile("testdata/example.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := tokenizer.Load(file)
	if err != nil {
		fmt.Println(err)
		return
	}
	prompt := t.Encode(nil, "the 中", true)
	fmt.Println(prompt, t.Decode(prompt, tokenizer.DecodeOptions{SkipSpecial: true}))

	d := t.NewDecoder(prompt, tokenizer.DecodeOptions{SkipSpecial: true})
	for _, id := range t.Encode(nil, " the 🙂<|end|>", false) {
		fmt.Printf("%q ", d.Append(nil, id))
	}
	// Output:
	// [259 257 32 228 184 173] the 中
	// " the" " " "" "" "" "🙂" ""
}
