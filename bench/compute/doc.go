// Package compute measures a compute backend from the inside: a model.Runner over a device,
// with no server, no scheduler and no text. For each batch size and context it gives the
// runner the steps that the engine would give it. It compares the time they take with what
// they have to do, and with what the machine can do at most, which package limits measures
// in the same run: shared machines differ from hour to hour, so limits measured at another
// time would say little.
//
// # What a step has to do
//
// It is counted from the operations that the runner asks its device for (cost.go), so it holds for every
// network, and leaves out what the runner leaves out:
//
//	weights     bytes of the matrices that the step reads, in the device's format, once
//	            each; of experts, those that some row of the step has chosen. The embedding
//	            is left out, because a step reads a few of its rows; the head is read by
//	            steps that draw a token.
//	KV          bytes of the keys and values that the step's sequences see, within windows
//	            and chunks, once for each layer that reads them
//	states      bytes of recurrent states, read and written once per sequence
//	products    2 operations for each weight and row; for the head, drawn rows only
//	attention   2 operations for each head, row, position that it sees, and dimension of
//	            keys and of values
//	recurrence  operations of convolutions, delta rules and state spaces
//
// Which experts were chosen is what the device has listed in order to compute them (Gauge), so
// that serving does not pay for it.
//
// # The floor
//
// The floor of a step is the longer of two times: reading these bytes at the speed of the
// memory, and doing these operations at the machine's peak, which is the peak of int8 for
// the products of quantized weights and that of float32 otherwise, in attention and in recurrences. No
// arrangement of the same arithmetic is faster, so what a step takes beyond its floor is
// what can still be gained.
//
// The speed of the memory is also measured between repetitions. The share of a row is the
// share of the speeds just before and after it; the table of limits shows the best of the
// whole run.
//
// # Files
//
//	config.go     what is measured, and which rows fit into the machine
//	run.go        giving steps to the runner; limits; garbage beside the steps
//	stopwatch.go  a device that measures how long each operation takes, and counts it
//	cost.go       what a step has to do
//	shapes.go     models in published shapes with random weights
//	report.go, format.go   what was measured, and how it is printed
package compute
