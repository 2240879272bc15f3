// Package compute measures a compute backend from the inside: a model.Runner
// over a device, no server, no scheduler and no text. For each batch and context
// it takes steps as the engine would give them, and lays what they took beside
// what they had to do and what the machine can do (package limits), which is
// measured in the same run.
//
// What a step has to do is counted from the network's shape (cost.go):
//
//	weights   bytes of the matrices that the step reads, as the device holds them,
//	          once each: the embedding is a few rows and is left out, the head is
//	          read by steps that draw
//	KV        bytes of the keys and values that its sequences see, once per step
//	products  2 operations for each weight and row, the head's for drawn rows only
//	attention 4 operations for each head, dimension, row and position it sees
//
// The floor of a step is the longer of two times: reading these bytes at the
// machine's speed, and doing these operations at its peak, the one for int8 if
// the weights are quantized, the one for float32 otherwise and in attention. No
// arrangement of the same arithmetic is faster; a step's share of its floor is
// what there is left to gain.
package compute
