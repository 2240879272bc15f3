// Package kvcache keeps the books of the paged KV cache. It decides which block
// of the pool belongs to which sequence, which full blocks hold a prefix that
// other sequences can share, and which block is reused first when memory runs
// short. For networks with a recurrent state it keeps the same books of state slots.
// The memory itself belongs to the backend; this package only hands out
// numbers. One goroutine, the engine's, owns a [Manager].
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
// # Windows
//
// In many networks some layers see a window of the last positions, or the chunk that a position is in, and others
// all. Layers that see equally much make a group (backend.KVGroup), and each group has a block table of its own for
// every sequence. A block of the pool belongs to one group at a time, and has room for its layers. So the blocks
// that a window has left can return while other layers still need theirs ([Manager.Slide]). With one group that
// sees everything and one with a window of 4 positions, in blocks of 4 tokens, a sequence of 14 tokens has
//
//	position     0 .. 3   4 .. 7   8 .. 11   12 .. 15
//	group 0         1        3        5         7
//	group 1         -        -        6         8
//
// because the token at position 14 sees positions 11 to 14 in group 1. What was given back stands on the free list
// like the blocks of a sequence that has ended, and is found until it is handed out again. A prefix hit is the
// longest one after which every group finds the blocks that the next token sees; groups with windows get no
// others. That it need not have more is vLLM's idea (SlidingWindowManager in
// vllm/v1/core/single_type_kv_cache_manager.py).
//
// # States
//
// Linear attention, state-space layers and short convolutions have no keys and values. They read a
// state of fixed size, which depends on all tokens so far and changes with each. The device keeps
// such states in numbered slots. A sequence has one of its own, which every chunk of its tokens
// overwrites, so that what it was before is lost:
//
//	chunk      [0,8)    [8,13)    [13,14)
//	slot      0 -> 1    1 -> 1    1 -> 1
//
// Slot 0 is the state of an empty sequence. To keep a state, the sequence goes on into a fresh slot
// ([Manager.Advance]). Nothing is copied: the old slot, which nobody writes to any more, is the copy.
//
//	chunk      [0,8)    [8,13)    [13,14)
//	slot      0 -> 1    1 -> 2    2 -> 2
//	                    slot 1 has the state after 8 tokens
//
// Such a slot is a thing like a block: with references, a place on a free list of its own, and, at the end
// of a block, the hash of the chain up to there under which it is found. A prefix hit needs both: it is
// the longest one at whose end a state is published and whose blocks are all there. So a sequence
// may have to compute tokens again that are in blocks; where to keep states is up to package
// scheduler. A table holds a kept state as long as a step that reads it is in flight
// ([Manager.Settle]), and then leaves it to the free list.
//
// States are large, and a long answer passes many ends of blocks. So the state at the newest one takes
// the place of the one before (Rolling), and two rules say what is evicted first:
//
//	handed out next  ->  unpublished slots, then states with which one sequence began that has
//	                     kept a later one of its prompt, then others, least recently released first
//
// The second kind is the state of a chat's turn once the next turn has come. A sequence that finds no
// free slot but the very state that it goes on from takes that one over. [Manager.Rewind] takes a
// sequence back to a state that was kept for that.
//
// That states are found at ends of blocks, under the hash of the blocks, and that the newest one of a
// running sequence takes the place of the one before, is vLLM's idea, too (MambaManager in
// vllm/v1/core/single_type_kv_cache_manager.py).
//
// # Copies
//
// What is published may be copied to another place, and back into the pool when a sequence could use it. This package
// says what: [Manager.NextCopy] lists blocks and states in the order in which they were published, and [Manager.Missing] what
// a sequence lacks of the longest prefix that it can have. A copy is named by the hash under which it was found. To copy it back, the
// caller gets a free block, fills it, and has it published ([Manager.Restore], [Manager.Restored]); so it is
// found by Share like any other, may be evicted before, and no table has to wait for it. A block that is handed out
// again before it was copied is lost: to copy it at that moment would hold up whoever needs it.
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
//   - Copying a state to keep it is what a separate store of checkpoints would need: a copy of 160 MiB at
//     each end of a block, on the device's time.
//   - Putting states into blocks of the KV cache, padded to the same size, saves the second pool and its
//     sizing. A state is as large as hundreds of tokens, so that blocks would have to be as long.
//
// # Files
//
// pool.go has the books of numbered things, kvcache.go blocks, tables and prefixes of all groups, state.go the
// state slots, and keep.go what is copied and copied back. In the tests, testdata/*.txt are small stories with the blocks and slots that each step
// hands out, and reference_test.go and reference_state_test.go compare random operations with
// caches that are too simple to be wrong.
package kvcache
