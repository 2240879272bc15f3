package model_test

import (
	"context"
	"fmt"

	"weir/backend"
	"weir/device/cpu"
	"weir/model"
	"weir/models"
)

// One step of the bundled model: a prompt of three tokens, and the most likely
// token after it.
func Example() {
	m, err := model.OpenFS(models.Bundled())
	if err != nil {
		panic(err)
	}
	defer m.Close()
	dev, err := cpu.Open(cpu.Default())
	if err != nil {
		panic(err)
	}
	r, err := model.NewRunner(context.Background(), dev, m, model.Options{MaxSeqTokens: 64})
	if err != nil {
		panic(err)
	}
	defer r.Close()

	batch := backend.Batch{
		Tokens: []int32{1, 3299, 205}, Pos: []int32{0, 1, 2}, Slots: []int32{16, 17, 18},
		QueryEnd: []int32{3}, KVLen: []int32{3}, TableEnd: []int32{1}, Tables: []int32{1}, At: []int32{2},
	}
	draws := backend.Draws{Rows: []backend.Draw{{TopP: 1, Mask: -1, Allow: -1, Target: -1}}}
	out := backend.Out{Tokens: make([]int32, 1), Logprobs: make([]float32, 1), Ranks: make([]int32, 1)}
	for _, err := range []error{r.Begin(&batch), r.Draw(&draws), r.End(&out)} {
		if err != nil {
			panic(err)
		}
	}
	fmt.Println(m.Config.Architecture, out.Tokens[0] >= 0)
	// Output: Qwen3ForCausalLM true
}
