// Package kernels has the CUDA kernels and their launch table: what each entry of the PTX
// modules takes, and how it is launched.
//
// The sources in src are written once, against a header of 150 lines, and compiled twice. clang
// compiles them to PTX (make kernels), which is committed with a hash of its sources. Any C++
// compiler compiles them for the emulator in emu, where a thread is a fiber, shared memory
// starts as NaN, asynchronous copies arrive when they are waited for, and threads and blocks
// run in random order.
//
// # Tests
//
// go test compares the launch table with the PTX, and the hash with the sources. make
// test-cuda-kernels runs every kernel in the emulator, also under sanitizers. make
// test-cuda-mutants plants some fifty bugs in the kernels and expects each to be caught. An
// emulator proves that the kernels agree with our reading of the instruction set, not with a
// GPU: ../STATUS.md says what is known of each kernel, and by what.
//
// # Memory
//
// An activation is a row-major matrix with a row per token. Its row stride (ld*, in
// elements) is a multiple of 64, and its base is aligned to 256 bytes. The columns
// from its width on are zero, and every kernel leaves them so. Widths are
// even. The residual stream is float32, everything else bfloat16 (bf16). Views
// of columns (Q, K and V of one product) need no alignment beyond 4 bytes.
//
// A matrix [N, K] of bf16 weights is stored in tiles of 64 rows by 64 columns,
// 8192 bytes each, in the order [ceil(N/64)][ceil(K/64)], with zeros beyond N and K.
// Within a tile, element (r, k) is number r*64 + ((k/8)^(r%8))*8 + k%8: the
// 128-byte swizzle that ldmatrix and wgmma want in shared memory, so that a
// tile is copied there as it is. pack_bf16 makes it from rows.
//
// The 8-bit and 4-bit formats have the same order of tiles; their inside is
// described in src/quant.h. A tile is Q8Tile or Q4Tile bytes. Routers' matrices are
// float32 rows.
//
// Recurrent states are float32, in slots of all states of a sequence; a convolution's is
// [rows before][columns], the others are [head][rows of a head's state][columns].
//
// The KV cache of a layer is blocks of BlockTokens positions:
//
//	[block]{ K [kvHeads][BlockTokens][row], V [kvHeads][BlockTokens][row] }
//
// of bf16, with rows of KVRow(dimensions of a head) elements, which end with zeros; those of keys and
// of values may differ. Consecutive blocks are blockStride elements apart, so that the layers of
// a block may lie together ([block][layer]) or apart. BlockTokens is a multiple
// of 16.
//
// # Numbers
//
// What a kernel writes into a row depends on that row alone, bit for bit, and prefill
// and decode agree. For products this means that every element is one chain of the same
// mma instruction, whatever the tile: K is cut into ranges by (N, K) alone (Splits), a
// range is summed in steps of 16 in ascending order, and the ranges are added in order.
// Weights are the instruction's m side for every number of rows. All of gemm_bf16_n* and
// gemm_bf16_128 give the same bits; the h* family (wgmma) has its own, again the same for
// all of its members.
//
// Products of experts (grouped_*) have one range of K for every matrix, and the bits of an entry are
// the same in tiles of 8, 16, 32 or 64 entries. A row's experts are added up in ascending order of
// their numbers. Recurrences go on token by token, and their sums run over the keys or states
// in ascending order.
//
// Attention walks tiles of 64 absolute positions. It computes partial results over the
// positions [512p, 512p+512) and merges them in ascending p, and a tile that a row does not
// see changes none of its bits. attn_prefill_*, attn_decode_* with attn_merge, and
// attn_whole_* give the same bits. attn_*_x<size> are a family of their own for each size of heads,
// with tiles of 64, 32 or 16 positions (HeadSizes).
package kernels
