package sampler_test

import (
	"fmt"

	"weir/backend"
	"weir/sampler"
)

// One step of one sequence: the engine plans the row, a device draws from its
// logits, the engine books the token.
func Example() {
	const vocab = 4
	p := sampler.DefaultParams()
	p.Temperature = 0
	p.BadWords = [][]int32{{2}}
	if err := p.Validate(vocab); err != nil {
		fmt.Println(err)
		return
	}
	state := sampler.NewState(&p, vocab, []int32{0, 1})

	var draws backend.Draws
	var output []int32
	state.Plan(&draws, 1, output)

	var picker sampler.Picker
	out := backend.Out{Tokens: make([]int32, len(draws.Rows))}
	picker.Pick([]float32{0.1, 0.2, 0.9, 0.4}, &draws, 0, &out, 0)

	state.Accept(out.Tokens[0])
	fmt.Println(out.Tokens[0])
	// Output: 3
}
