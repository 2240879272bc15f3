package sampler_test

import (
	"fmt"

	"weir/backend"
	"weir/sampler"
)

// This is the example of the package comment: four tokens with the logits 2, 1, 0 and
// -1. It shows both halves of the package.
func Example() {
	const vocab = 4
	p := sampler.DefaultParams()
	p.TopK, p.TopP, p.Seed = 3, 0.9, 2
	if err := p.Validate(vocab); err != nil {
		fmt.Println(err)
		return
	}
	prompt := []int32{0, 1}
	state := sampler.NewState(&p, vocab, prompt)

	// The engine plans the row of the next output token.
	var draws backend.Draws
	var output []int32
	state.Plan(&draws, 1, output)

	// A device has computed the row's logits and draws.
	var picker sampler.Picker
	out := backend.Out{Tokens: make([]int32, 1)}
	picker.Pick([]float32{2, 1, 0, -1}, &draws, 0, &out, 0)

	// The engine books the token.
	output = append(output, out.Tokens[0])
	state.Accept(out.Tokens[0])
	fmt.Println(output)
	// Output: [1]
}

// A bad word of a single token is never drawn. Of a longer one, the last token is banned
// where it would complete the word: here token 2 may not follow token 3.
func ExampleState() {
	const vocab = 4
	p := sampler.DefaultParams()
	p.Temperature = 0 // always the most likely token
	p.BadWords = [][]int32{{1}, {3, 2}}
	state := sampler.NewState(&p, vocab, nil)

	logits := []float32{0.1, 0.9, 0.8, 0.7}
	for _, output := range [][]int32{{0}, {3}} {
		var draws backend.Draws
		state.Plan(&draws, 1, output)
		var picker sampler.Picker
		out := backend.Out{Tokens: make([]int32, 1)}
		picker.Pick(logits, &draws, 0, &out, 0)
		fmt.Println("after", output, "comes", out.Tokens[0])
	}
	// Output:
	// after [0] comes 2
	// after [3] comes 3
}
