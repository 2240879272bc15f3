// Package cpu is the implementation of model.Device on the processors of this
// machine: arithmetic, memory and threads. It knows nothing of sequences, only of rows.
//
//	d, err := cpu.Open(cpu.Default()) // starts the threads
//	err = d.Plan(shape)               // allocates activations and the KV cache
//	w, err := d.Load(matrix)          // packs weights into tiles
//	d.Begin(batch)                    // a step: the operations of a decoder ...
//	d.MatMul(dst, w, src)
//	d.Draw(head, src, draws)
//	err = d.End(out)                  // ... and its tokens
//
// # Numbers
//
// Activations and sums are float32. Weights and the KV cache are stored as float32,
// float16 or bfloat16 and widened, exactly, when they are used, or in one of the
// formats below. Every sum has one order that depends on nothing but the row that it
// belongs to:
//
//   - A matrix product sums the even k in one chain and the odd k in another, both
//     ascending, and adds the two chains, then the bias. With weights in blocks it
//     adds up the blocks, ascending, in one chain.
//   - Attention computes partial results over the absolute positions [256p, 256p+256)
//     and merges them in ascending p. A prefill chunk and a decode step do the same
//     arithmetic, so chunks, prefix hits, block tables and block sizes change no bit. A
//     sink joins the sum of weights once, after all partial results.
//   - Threads share out rows, columns, heads and partial results, but never the k of a
//     product.
//
// So how many rows are computed at once, by which thread and in which call changes no
// bit of a result. That holds within one tier of instructions (Config.Impl). Tiers
// differ from each other in the last bits, because one has fused multiply-add and the
// next has not. Recurrences, convolutions and the functions of pointwise.go have the same
// bits on all tiers.
//
// # Weights in blocks
//
// Q8 and Q4 store 32 columns of a row as integers with a float16 scale (quant.go), W8A8
// a whole row as 8-bit integers with a float32 scale (perchannel.go). The rows that such
// weights are multiplied with are rounded to 8 bits in the same blocks, with a power of
// two as the scale (MXINT8), so the dot product of two blocks is an exact integer on
// every tier. An operation that writes an input of products (model.ActShape.Factor)
// rounds each row while it is in the cache (input.go). The result depends on the row alone.
// Matrices of quantized checkpoints of Hugging Face become such tiles if these can hold every
// number as it is stored, and are widened otherwise (packed.go).
//
// Embeddings stay in the mapped file. If it is cut, reading a row faults, and the
// step fails (weights.CatchFault); where a file ends within a page the row ends in zeros,
// and only then the file's size is asked for. So a step has no system call and no
// setting to make for this. The goroutines' setting debug.SetPanicOnFault holds while they
// read what is mapped, and not longer, so a fault of a kernel still ends the process.
//
// # Types of blocks
//
// Tensors of ggml's types of blocks keep their codes: Q8_0 and Q4_0 become tiles of Q8 and Q4,
// and Q4_1, Q5_0, Q5_1, Q2_K to Q6_K, IQ4_NL, IQ4_XS and MXFP4 tiles of their own
// (blocks.go, and repack.go, which moves codes and scales from their places in a file to those
// in a tile). A tile takes at most 1.15 times the bytes of the file. Types that have no tiles
// go to some with more bits, where no number changes: TQ1_0, TQ2_0, Q1_0 and Q2_0 to Q4, and
// IQ1 to IQ3 to K8. Stacked tensors of different types are parts of one layer, each with
// tiles of its own. Where the configuration says float32, a tile is widened when it is used,
// and its product is that of weights in float32.
//
// The products with such tiles are the same bits on every tier (but for Q8 and Q4): their
// definition has a fused multiply-add, which the plain code computes with fma32. With AVX-512
// VNNI a kernel takes blocks apart while it multiplies up to 12 rows. AVX2, AVX-VNNI and NEON
// have registers for few rows, so for more of them a tile is expanded once, into scratch
// memory, and then multiplied with all. For up to six rows of MXFP4, and up to four of some other types, a kernel that takes
// blocks apart while it multiplies is faster (BenchmarkFewRows: with MXFP4 and AVX2 1.32 times at two rows, 1.19 at four, 1.15
// at six), and with twelve rows both would be equal. The tier avx512, without VNNI, has the kernels of
// AVX2, and the tier neon, where there is no SDOT, widens tensors of blocks to float32.
//
// Load refuses numbers that are none (NaN, infinities) and those that a format cannot hold,
// with the tensor's name. Matrices are checked while they are packed and their numbers are
// in a register: that takes no time that could be measured when the bundled model is loaded. A table
// of embeddings, which nothing else reads at this time, is read by all threads for this
// (weights.NotFinite, 12 GB/s on one thread), unless a tied head has just been packed from it.
//
// The tier avx512bf16 rounds the rows of products with bfloat16 weights to bfloat16 in
// the same way, because VDPBF16PS does twice the work of a fused multiply-add on Zen 4.
// The tier amx does so, too, for AMX multiplies many times as much. All other tiers keep them in
// float32.
//
// AMX (amx.go) is for products with weights in bfloat16 and W8A8: its instructions add up 32 or 64
// columns of 16 rows and 16 columns at once, from lines as tiles have them. The instruction for
// bfloat16 has an order of additions of its own, so even one row is multiplied with it. Weights in
// blocks have a scale for 32 columns, and storing the sums of so few takes AMX longer than
// multiplying: on a machine that had other work, too, a kernel for Q8 reached 1.6 times the speed of
// VNNI with numbers in the first-level cache, little of it in whole products, and one for Q4 nothing.
//
// Keys and values stored as Int8 have a scale for each head and position, and where the value is a
// part of its key that part and the rest of the key have one each. A query is
// rounded to 8 bits too, the weights of a partial result to 16, and both products are
// exact integers. SageAttention (arXiv:2410.02367) and llama.cpp multiply queries and
// keys like this, too.
//
// The tier avx2 has no instruction that adds up four products. It multiplies six rows or more
// with Q8, and twelve with types of blocks of eight bits, by Winograd's inner product, which has
// half of the multiplications (pairs.go); the integers are the same.
//
// # Tiles
//
// A tile is 16 rows of a matrix, interleaved so that one vector load gives the same k
// of 16 rows and no horizontal sum is ever needed (format.go). The KV cache consists of
// the same tiles: for Q·K a tile is 16 positions by KeyDim, for P·V it is 16 dimensions
// by 16 positions (kv.go).
//
// Packing takes most of the time that a start takes. So a Config may have a TileCache, which keeps
// tiles of formats that are not only moved from one start to the next (tilecache.go). Their layout
// has a number, and a test that fails if the layout changes and the number does not.
//
// # The path of a matrix product
//
//	MatMul            one product of a step; rounds the rows if the kernel wants that
//	  multiply        cuts the product into chunks: blocks of rows by parts of the tiles
//	    workers.run   lets all threads see the chunks, and returns when all are done
//	      takeChunks  on each thread: claims chunk after chunk
//	        doChunk   one chunk; keeps a panic for the caller
//	          do      cuts a chunk into passes: rows by tiles that one kernel takes
//	            pass  slices the operands and calls
//	              the kernel, an assembly function: impl.mul, impl.dot or another (way.go)
//
// A product of fewer than serialWork multiplications goes from multiply to do directly.
// These are three rows and five tiles of which the last is not full, on two threads:
//
//	         tile 0   1   2   3   4
//	row 0   ┌───────┬───────┬───┐
//	row 1   │ chunk │ chunk │ c.│    a chunk with few rows has one pass over all of its
//	row 2   │   0   │   1   │ 2 │    full tiles; with more rows than a kernel takes, each
//	        └───────┴───────┴───┘    tile meets all rows, in passes, before the next tile
//
// Operations on rows (step.go), attention (attend.go) and draws (draw.go) are jobs of
// the same workers with chunks of their own. Attention's passes are also a number of
// rows that its kernels take at once.
//
// # Attention
//
// A network has a cache of keys and values for each layer, or for several layers that share it, and
// each cache has its own number of heads and sizes of keys and values. What a position sees is always
// a range of positions (attendJob.sees): all before it, a window, a chunk, or in an encoder those
// after it, too. Whole units of 16 positions outside the range of a run of queries are neither read
// nor multiplied; where the ranges of queries that share a pass differ, and at the ends of a range,
// the scores of single positions become -Inf, so that their weights are exactly zero. A layer with
// latent attention has one key for all heads, whose first columns are the value, and the cache holds it once. Products
// with keys and with values want tiles of different directions, so a worker turns a partial result's tiles of keys
// into tiles of values before it computes (turn.go), once for all heads; storing both took 1.9 times the memory.
//
// Scores that are bounded (model.Attention.Softcap), and logits of a head that bounds them, go through
// impl.bound, which takes its exponentials from the softmax's kernel.
//
// # Experts
//
// A mixture of experts (experts.go) sorts its rows by the experts that they chose, and computes the
// first products of all these experts as one job, then the second ones (grouped.go): a step
// of one row gives all threads work, and each expert's weights are read once. Each expert's kernel
// is chosen by its number of rows. If there is no memory for all entries at once, runs of experts
// take turns. Every row adds up the results of its experts in ascending order. Routers are
// float32, whatever the format of other weights is.
//
// # States
//
// Recurrent states are float32, in slots beside the KV cache (state.go). A step reads the state of a
// sequence in one slot and leaves it in another or in the same: a kernel reads its state at one place and
// writes it at another, so a checkpoint costs no copy. A sequence and a head, some of a head's columns if
// there are more threads than that, or a few columns of a convolution are one piece of work, computed
// token by token: a state after a position has the same bits however the sequence was cut.
//
// The state of a head of a delta net is a row of values for each key dimension, so that vectors run over
// values; that of Mamba is turned over for the same reason. It is kept in blocks of 32 values of all key
// dimensions (recurrent.go). A kernel computes one position of a block, in two passes over it for the
// delta rule and in one for Mamba. Each block takes eight positions before the next block does: it stays in
// the first-level cache meanwhile, and what the positions need besides, normed keys and queries and decays,
// is computed once for all blocks.
//
// # Activations
//
// Functions of single numbers (pointwise.go) are described once, in _gen/pointwise.go, as a row of
// operations that have one result each. The generator makes kernels for all instructions of it, and
// plain Go. Exponents are in two parts, because a rounding of a large exponent would be many of its
// result. Gates with plain SiLU, which most networks have, use a kernel of their own (impl.gate), whose
// bits depend on the tier.
//
// # Draws
//
// If no row of a step needs its logits for anything but a token, they are never stored:
// the worker that computed a chunk of the head's product adds it to its draft
// (sampler.PartialDraw), and the workers' drafts are merged at the end. The tokens are
// those that sampler.Picker draws from whole rows, which filters, masks, edits and
// log-probabilities need. With AVX-512 both have loops over the vocabulary in assembly
// (sampler.Kernels).
//
// Whoever computes a chunk of logits scales and bounds it (model.Head), so that drafts, the host and
// log-probabilities see the same numbers. Rows whose vector is wanted (backend.Draw.Hidden) draw
// nothing, and if there are no others the head is not read.
//
// # Threads
//
// A Device belongs to one goroutine, which computes along with the workers (workers.go).
// Nothing is allocated during a step. There are as many threads as physical cores that
// affinity and control groups leave; a second thread on a core adds nothing to kernels
// that keep its units busy. A worker that finds no chunk spins for 200 µs, then parks.
// Chunks are claimed from one atomic word, so a thread that loses its processor costs
// a chunk and not a step. Waiting threads call sched_yield and only rarely
// runtime.Gosched: Gosched wakes a thread of the runtime whenever a P is idle, which
// added two thirds to the time of a short job (3.5 µs instead of 2.1).
//
// Threads are bound to processors on request (Config.Pin), or if the machine has
// several memory nodes. Then each node has a queue with the same share of every
// matrix's columns. Its threads pack these columns, and so are the first to touch their
// pages, and a thread takes from another node's queue when its own is empty. This has
// not been measured on a machine with two nodes; the tests use made-up ones.
//
// # Files
//
// Assembly (*_amd64.s, *_arm64.s), its declarations and tables (kernels_*.go) are
// generated by the program in _gen: make gen writes them, make gen-check compares. So are
// activations in plain Go (pointwise_numbers.go). ops.go, attendops.go and recurrent.go
// define what each kernel computes; generic.go, attendgeneric.go and recurrent.go do
// that in plain Go. dispatch*.go choose a tier.
package cpu
