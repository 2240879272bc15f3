// Package cuda is model.Device on an NVIDIA GPU. It is built with the tag cuda
// on linux/amd64; package kernels has the kernels and their launch table.
//
// # Numbers
//
// The residual stream (ActShape.Sum) and the logits are float32, every other
// activation is bfloat16, weights and keys and values are bfloat16, sums are
// float32. What a row gets depends on that row alone, bit for bit (package
// kernels says in which order sums are taken), so chunking, prefix hits, batch
// mates, graphs and padding change nothing. Draws are those of package sampler,
// bit for bit, given the logits.
//
// # A step
//
// All work goes to one stream, in order. Begin writes the batch into a slot of
// pinned memory, copies it to the device at once and queues the forward pass;
// Draw adds the draws, the copy of their results into pinned memory and a
// kernel that then writes the step's number to a word the host polls. Tokens
// that are still being drawn (^r) are read on the device. So two steps can be in
// flight and no call waits for the device but End, which polls and never blocks
// in C: a thread that returns from C late, because goroutines keep all
// processors busy, was measured to lose milliseconds.
//
// A batch in which every sequence has one token and is drawn is padded to a
// bucket, and its forward pass is captured once per bucket as a CUDA graph and
// replayed from then on. Other batches are launched kernel by kernel.
//
// # Failure
//
// The first error of a step is kept and End returns it, with the driver's words.
// The device is then only good for Close. A device that answers nothing for
// Config.Timeout counts as hung; Close leaves it alone, because every call to
// it would block.
package cuda
