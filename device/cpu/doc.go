// Package cpu is the CPU implementation of model.Device.
//
// # Numbers
//
// Activations and sums are float32. Weights and the KV cache are stored as
// float32, float16 or bfloat16 and widened, exactly, when they are used. Weights
// may also be stored in blocks of 32 columns with a scale (quant.go): then the
// rows that they are multiplied with are rounded to int8 in the same blocks, and
// the dot product of two blocks is an exact integer in every implementation.
//
// Every sum has one order that depends on nothing but the row it belongs to:
//
//   - a matrix product sums the even k in one chain and the odd k in another,
//     both ascending, and adds the two chains, then the bias; how many rows are
//     computed at once, by which thread and in which call changes nothing; with
//     weights in blocks it adds up the blocks, ascending, in one chain;
//   - where keys and values are stored as int8, a query is rounded in the same
//     way, the weights of a partial result to 16 bits, and both products are
//     exact integers in every implementation; SageAttention (arXiv:2410.02367)
//     and llama.cpp multiply Q·K like this, too;
//   - attention computes partial results over absolute positions
//     [256p, 256p+256) and merges them in ascending p. A prefill chunk and a
//     decode step do the same arithmetic, so chunking, prefix hits and block
//     tables change no bit; neither does the block size.
//
// That holds within one tier of instructions (Config.Impl). Tiers differ from
// each other in the last bits, because one has fused multiply-add and the next
// has not.
//
// # Layout
//
// A tile is 16 rows of a matrix, interleaved so that one vector load yields the
// same k of 16 rows, and no horizontal sum is ever needed (format.go). The KV
// cache uses the same tiles: for Q·K a tile is 16 positions by HeadDim, for P·V
// it is 16 dimensions by 16 positions (kv.go). So weights, keys and values go
// through the same kernels (ops.go).
//
// # Draws
//
// Where no row of a step asks for more than a token from all of them, the
// logits are never stored: a chunk of the head's product is drawn from by the
// worker that computed it (sampler.PartialDraw), and the workers' drafts are merged.
// That draws the same tokens as sampler.Picker from whole rows, which is what
// filters, masks, edits and log-probabilities need. With AVX-512 both have their
// loops over the vocabulary in assembly (sampler.Kernels).
//
// # Threads
//
// A Device belongs to one goroutine, which computes along with the workers
// (workers.go). Nothing is allocated during a step.
package cpu
