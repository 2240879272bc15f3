package tokenizer_test

import (
	"fmt"
	"os"

	"weir/tokenizer"
)

// A text becomes ids, and ids become text again, token by token.
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
	prompt, err := t.Encode(nil, "the the中<|end|>", true)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(prompt)
	fmt.Println(t.Decode(prompt, tokenizer.DecodeOptions{SkipSpecial: true}))

	d := t.NewDecoder(prompt, tokenizer.DecodeOptions{SkipSpecial: true})
	output, _ := t.Encode(nil, " the 🙂<|end|>", false)
	for _, id := range output {
		fmt.Printf("%q ", d.Append(nil, id))
	}
	// Output:
	// [259 257 258 228 184 173 260]
	// the the中
	// " the" " " "" "" "" "🙂" ""
}
