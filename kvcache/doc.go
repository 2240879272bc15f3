// Package kvcache keeps the books of the paged KV cache. It decides which block
// of the pool belongs to which sequence, which full blocks hold a prefix that
// other sequences can share, and which block is reused first when memory runs
// short. The memory itself belongs to the backend; this package only hands out
// block numbers. One goroutine, the engine's, owns a [Manager].
//
// # Blocks, slots and tables
//
// The pool is divided into blocks of BlockTokens slots; a slot holds the keys
// and values of one token. A sequence uses whole blocks, in any order, and its
// [Table] lists them by position. With blocks of 4 tokens, a sequence of 10
// tokens may look like this:
//
//	position   0  1  2  3 |  4  5  6  7 |  8  9  .  .
//	block          7      |      2      |      5
//	slot      28 29 30 31 |  8  9 10 11 | 20 21
//
// So Table.Blocks is [7 2 5], and position 5 lies in slot 2*4 + 1 = 9. Block 0
// is the null block. It is never handed out, so a table entry that was left at
// zero by mistake never points to the memory of a sequence.
//
// A table only ever grows at its end. A step that is in flight on the device
// can therefore go on using the blocks that it was planned with.
//
// # The prefix cache
//
// A full block whose tokens are final is published under a chain hash, the
// first 128 bits of a SHA-256 over the hash of the block before it and its own
// token ids. The chain begins with the sequence's salt:
//
//	h1 = hash(salt, tokens[0:4])   finds block 7
//	h2 = hash(h1,   tokens[4:8])   finds block 2
//
// A new sequence with the same salt whose prompt begins with the same eight
// tokens computes the same h1 and h2, takes blocks 7 and 2 into its own table
// and only has to compute the rest of its prompt. Because each hash includes
// the one before it, equal hashes mean that the salt and the whole prefix are
// equal. A client that could choose salts freely could search for collisions
// offline, so the server derives them with a keyed hash.
//
// A hit never covers the whole prompt: the last token has to be computed,
// because the first draw needs its logits.
//
// [Manager.Fork] shares blocks without hashing and works with the cache turned
// off. It gives the further choices of a request (n > 1) the prompt's blocks.
//
// # Eviction
//
// A block that no table lists is free, and stays published until it is handed
// out again. The free list is therefore the eviction order, and there is no
// other eviction logic:
//
//	handed out next  ->  unpublished blocks, then published ones,
//	                     least recently released first
//
// A table is released from its last block to its first, so that the end of a
// prefix is evicted before its beginning, without which the end could not be
// found. The chain hash, the free list as eviction order and this order of
// release are vLLM's (vllm/v1/core/block_pool.py and kv_cache_utils.py).
//
// # Alternatives
//
//   - A radix tree over tokens instead of a chain of hashes shares prefixes to
//     the token instead of to the block. It needs node splitting, and eviction
//     of leaves; the chain needs one map and the free list.
//   - Merging equal blocks of two sequences that computed the same prefix at
//     the same time would save memory, but it would change entries in the
//     middle of a table while a step in flight uses them. The second block
//     simply stays unpublished.
//
// # Files
//
// kvcache.go is the whole package. In its tests, testdata/*.txt are small
// stories with the blocks that each step hands out, and reference_test.go
// compares random operations with a cache that is too simple to be wrong.
package kvcache
