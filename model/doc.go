// Package model knows decoders: what a config.json means, which tensors a checkpoint must
// hold, and in which order a step's operations come. How an operation is computed is up to a
// [Device]. A [Runner] drives a device, and is the backend.Backend that the engine sees.
//
//	m, err := model.Open(dir)                        // reads headers and configs, no weights
//	r, err := model.NewRunner(ctx, device, m, opts)  // loads the weights into the device
//	...
//	r.Close() // first: the device may still read the mapped files
//	m.Close()
//
// Letters in shapes: T tokens of a step, R rows to draw, D hidden size, F intermediate size,
// H query heads, G key/value heads, K head size, V vocabulary size, L layers.
//
// # Networks are made of pieces
//
// A [Config] holds a [Network], which describes each layer by its pieces: norms, mixers that let
// tokens see others ([AttentionSpec], [LatentSpec], [DeltaSpec], [MambaSpec], [SelectiveSpec], [ConvSpec]), and feeds that
// treat each token by itself ([MLPSpec], [ExpertsSpec]). A family is a function that reads a config.json into
// such a description (family_*.go); it knows the names of tensors and the defaults of transformers. The
// builder makes of it what a decoder does: the list of weights, the activation buffers, which pieces share,
// and the operations of a step. This is a layer of Llama, as operations of a device. x is the residual stream; h,
// qkv, attn and mid are activation buffers with a row per token:
//
//	Norm        h    = rmsnorm(x)
//	MatMul      qkv  = h · [q | k | v]ᵀ + bias
//	StoreKV     heads of q and k are normed and rotated, k and v go to the KV cache
//	Attend      attn = softmax(q · K) · V over the blocks of the sequence
//	MatMulAdd   x   += attn · outᵀ
//	Norm        h    = rmsnorm(x)
//	MatMulGate  mid  = silu(h · gateᵀ) * (h · upᵀ)
//	MatMulAdd   x   += mid · downᵀ
//
// After the mixers of the last layer no token sees another any more. So the rows that are
// drawn are gathered, and only these are computed to the end; a step that draws no row stops
// with what later steps read. testdata/order.txt lists the operations of two whole steps.
//
// A weight may be a part of a stored tensor: rows of a fused one, an expert of a stack (also of a quantized one whose
// codes and scales are stored by row), a matrix turned over
// (view.go). Parts that follow each other share its bytes; others are copied while they are loaded.
//
// Gemma 3n has several residual streams, of which a layer computes one and corrects all (altup.go).
//
// With an indexer (DeepSeek V3.2), Select chooses the positions that latent attention sees, by keys in a cache of their
// own; the CPU device still computes the scores of all, and leaves those out that were not chosen.
//
// Latent attention is computed in its absorbed form in prefill and decoding alike: queries are multiplied with
// the part of kv_b_proj that makes keys, and the cache has the latent once, as the value and the first part of the key. Recurrent states
// are in slots (backend.Batch.StateIn and StateOut), and are computed token by token, so that their bits do not depend
// on how a sequence was cut.
//
// The config is read as transformers reads it, with the defaults of each family, and compared
// with it in tests. Quantized checkpoints are read as package quantconfig says. What would
// change the result silently is refused: an unknown activation, rotary embeddings whose angles depend on the sequence's length,
// a tensor that is missing or not expected. LongRoPE has two sets of angles, for
// sequences up to the original length and for longer ones: the caller says which a sequence is (backend.Batch.Long), and computes one
// that has become long anew (package scheduler).
//
// # GGUF files
//
// A GGUF file is a model, too. Its metadata become the fields of a config.json (ggufFields), and
// its tensors get the names that transformers gives them, so that everything behind it knows one
// form only. In the files of llama.cpp's llama architectures the rows of queries and keys take
// turns, which weights.Tensor.Pairs says; nothing is copied. A head that is not stored is the
// embedding, biases are there if their tensors are, and rotary factors are a tensor. A key of the
// architecture that is neither known nor 0 is refused, because it may change every logit. The
// converter of llama.cpp leaves out attention windows and all but one end token, so a file of a
// network with windows is computed without them, as llama.cpp does it.
//
// # The contract with a device
//
// What a device can do in one pass over its data is one operation of [Device]: a product with
// the sum that follows it, a product with its gate, norm, rotation and store of heads. An
// earlier contract had only the parts (Add, Gate, Rope), and the CUDA device held each back
// until it knew what came next. That made the order of calls part of the contract, and left
// the contents of buffers undefined. A device without a fused kernel uses the scratch buffer
// that the call names: device/cpu writes the product there and adds it in a second pass.
//
// A device may keep activations in less than float32 except for the residual stream
// (ActShape.Sum), and may round the rows that products read (ActShape.Factor) when they are
// written. EndForward says where the forward pass ends, because a device may record the
// operations of one pass and replay them in later steps.
//
// Shape.Check and Matrix.Check compare what a device is given with the contract. Devices call
// them, and add only the limits of their own.
//
// # Runner
//
// At depth 1 a Runner keeps the batch and the draws until End and computes everything there,
// so that the engine can deliver the tokens of the step before first. At depth 2 the forward
// pass is queued in Begin and the draws in Draw. A step allocates nothing.
//
// # Tests
//
// testdata holds small checkpoints of each family with the logits that transformers computes
// from them (tools/golden). The tests compare every device with these, layer by layer, and
// with a reference device, which is made of plain loops in float64. TestBatchInvariance cuts
// the same sequences into random chunks and batches, and compares all bits.
package model
