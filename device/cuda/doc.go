// Package cuda is model.Device on an NVIDIA GPU. It is built with the tag cuda on
// linux/amd64 (make cuda); without the tag, only this comment is. Package kernels has the
// kernels and their launch table.
//
// # One binary
//
// The build needs a C compiler and nothing of NVIDIA's. gorgonia.org/cu is compiled against
// our own declarations of the driver's interface, and its calls land in trampolines that
// [Open] points into the driver's library, if there is one (package cudashim). So one binary
// starts everywhere and chooses its device. The kernels are in it as PTX. The driver compiles
// them at the first start, and the machine code is kept in Config.CacheDir.
//
// # Numbers
//
// The residual stream (model.ActShape.Sum) and the logits are float32, every other activation
// is bfloat16, weights and the KV cache are bfloat16, and sums are float32. What a row gets
// depends on that row alone, bit for bit (package kernels says in which order sums are taken),
// so chunking, prefix hits, other sequences, graphs and padding change nothing. Given the
// logits, draws are those of package sampler, bit for bit.
//
// With the formats [Q8] and [Q4], matrices are packed on the device while they are loaded, by
// the CPU's rules to the bit, and their products turn them into bfloat16 in registers.
// Activations are not rounded further; the CPU rounds them to 8 bits.
// Weights that are quantized in their file already are packed into these tiles by the host, if
// the tiles hold them as they are (exact.go).
//
// # A step
//
// All work goes to one stream, in order. Begin writes the batch into a slot of pinned memory,
// copies it to the device and queues the forward pass. Draw adds the draws, the copy of their
// results into pinned memory, and a kernel that then writes the step's number to a word that
// the host polls:
//
//	Begin     copy of the batch | embed, layers, norm (or a graph of them)
//	Draw      head product | copy of edits and masks | pick | copy of results | set_flag
//	End       the host polls the flag
//
// Tokens that are still being drawn (^r) are read on the device. So two steps can be in
// flight, and no call waits for the device but End. End polls and never blocks in C: a thread
// that returns from C late, because goroutines keep all processors busy, was measured to lose
// milliseconds.
//
// A layer is eight kernels, where attention takes one: rmsnorm, the product of Q, K and V,
// rope_kv (model.Device's StoreKV), attention, the output product with its sum, rmsnorm, the
// product of gate and up with its activation, the down product with its sum. A matrix of gate
// and up is packed so that 32 rows of the one and 32 of the other take turns. With a bias its
// product goes to the scratch buffer, and silu_gate follows.
//
// Other kinds of norms, activations and sums are kernels of their own (elements.go): norm_rows,
// act_gate after a product into the scratch buffer, and elements. A product that reads float32
// rows, such as the residual stream of a layer without a first norm, reads a copy in bfloat16.
//
// Attention and the store before it have two sets of kernels. Those named above are for heads of one
// size of up to 128 dimensions (the store: 256) and windows. Layers with anything else (larger heads,
// values of another size, sinks, bounded scores, chunks, queries scaled by position, no keys of their own)
// have attn_*_x* and rope_kv_x, which are slower (heads.go). Which set a layer has depends on its network alone.
// Plan refuses networks with pieces that have no kernel (pieces.go).
//
// # Experts
//
// A mixture is five kernels, or six: route, group_rows, the first product, its activation where that is not SwiGLU
// without bias, the second product, sum_experts. Entries, which are a row and an expert that
// it chose, are sorted on the device, and products are launched for as many tiles as there can be, so that
// a graph does for every choice; blocks without a tile end at once. All matrices are in a table
// that is written before the first step, and those of a mixture's experts are equally far apart in it. A
// step whose entries would take more than entryBytes is computed in several turns.
//
// The router reads float32: its weights, and rows that no product has rounded, for which the buffer of normed rows is
// float32 in such networks (model.ActShape.Sum). Rows that pad a graph's bucket choose no expert.
//
// # Recurrent states
//
// States lie in slots beside the KV pool, and kernels take slots from the batch. A block has 32 columns of a head's
// state in shared memory and walks through the sequence's tokens (src/recurrent.cu); a convolution keeps its last
// rows in registers.
//
// # Graphs
//
// A batch in which every sequence has one token and is drawn is padded to a bucket. Its forward
// pass is captured as a CUDA graph when the bucket is first seen, from Begin to EndForward,
// and replayed from then on: while a graph is replayed, the operations of the device do
// nothing. What differs between such batches (lengths, block tables) is read from the copied
// batch, whose layout depends on the bucket alone. Other batches are launched kernel by kernel.
//
// # Memory
//
// KV blocks and states are copied to the host and back on a stream of their own, beside a step in flight (copy.go).
// The KV pool is given what memory is left after the largest step has run once (ResizeKV), so
// that everything the driver allocates late is already there. What only products with few rows
// need is allocated by the first step, when all matrices are known.
//
// # Failure
//
// The first error of a step is kept and End returns it, with the driver's words. Close is the
// only call that may follow. A device that does not answer for Config.Timeout counts as hung,
// and Close leaves it alone, because every call to it would block.
//
// # Choices
//
//   - There are two families of products, [MMA] for every GPU and [WGMMA] for Hopper. Each has
//     the same bits for every number of rows. On an H100 WGMMA is the faster one for every
//     number of rows and every shape that was measured. So there is no choice by the number
//     of rows, which would give up batch invariance for nothing.
//   - Config.PlainLaunch launches every kernel through gorgonia.org/cu, without graphs and
//     tensor maps, with the same bits. It is there to tell a fault of a kernel from one of
//     the ways to launch it.
//   - A product writes whole tiles of 64 columns. Into a view whose columns are no whole tiles, and
//     which other columns follow, it goes by scratch memory (multiplyAside). Writing less than a tile
//     in the kernels would cost all others a test.
//   - Experts' products do not cut K into ranges: there are enough of them to keep the processors busy, and
//     partial sums would need memory for every tile that there could be.
//   - The order of calls used to say what could be fused: a product waited for the Add or the
//     gate that followed it, and any call could end a graph's capture. Now model.Device has
//     these as operations.
//
// # Tests
//
// fake is a libcuda.so.1 for tests (make test-cuda-emu): memory with guards, work that runs
// when somebody waits for it, calls that fail when they are told to, and kernels in the
// emulator of package kernels. STATUS.md says what that proves and what it does not. Package
// check has the tests that need a GPU.
//
// # Files
//
// device.go opens a device, load.go and format.go take weights in, plan.go and memory.go
// allocate. step.go has the operations of a step, heads.go and gemm.go some of them, attend.go the
// work lists of attention, graph.go the graphs, draw.go draws and results, elements.go norms and functions of
// single numbers, experts.go and recurrent.go mixtures and states, launch.go and module.go launch and load
// kernels, and lab.go runs single ones for package check.
package cuda
