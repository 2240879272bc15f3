package backend_test

import (
	"fmt"

	"weir/backend"
)

// The batch of the package comment, and the same with a block table that is too short.
func ExampleBatch_Check() {
	spec := backend.Spec{VocabSize: 100, BlockTokens: 4, NumBlocks: 10, MaxTokens: 16, MaxSeqs: 4, MaxSeqTokens: 64, Depth: 2}
	batch := backend.Batch{
		Tokens:   []int32{10, 11, 12, 13, 14, 15, ^1},
		Pos:      []int32{0, 1, 2, 3, 4, 5, 3},
		Slots:    []int32{12, 13, 14, 15, 20, 21, 31},
		QueryEnd: []int32{6, 7},
		KVLen:    []int32{6, 4},
		TableEnd: []int32{2, 3},
		Tables:   []int32{3, 5, 7},
		At:       []int32{5, 6},
	}
	const drawn = 2 // rows of the previous step
	fmt.Println(batch.Check(spec, drawn))
	batch.TableEnd[0] = 1
	fmt.Println(batch.Check(spec, drawn))
	// Output:
	// <nil>
	// backend: broken step contract: sequence 0: a table of 1 blocks of 4 tokens is too short for 6 positions
}
