// Package kvevents publishes what changes in the prefix cache, in the form of vLLM's KV events, so that routers know which server has the
// beginning of a prompt computed already.
//
//	p, err := kvevents.Open(cfg, blockTokens)
//	engine.Config{Changes: p.Take, ...}
//	p.Close()
//
// # Nobody waits
//
// Take is called by the engine between two steps. It copies the changes into memory that was there from the start, under a mutex that
// is otherwise held only to exchange two pointers, and returns. A goroutine turns what has come meanwhile into one batch, gives it
// a number, and adds it to the history, from which the goroutine of each connection sends. If so many changes wait
// that there is no room, all that wait are lost: a number is left out, and the next batch begins with AllBlocksCleared. An index is then
// too small for a time, instead of wrong for ever.
//
// There is one history for all: a subscriber is a place in it. One that is slow has no queue of its own that could grow, and what it comes too
// late for it finds missing by the numbers. Those are the rules of ZeroMQ's high-water mark (hwm) and of vLLM's buffer_steps, and 64 MiB
// bound the history besides.
//
// # What is sent
//
// The frames of a batch are the topic, its number as 8 bytes, and MessagePack: [seconds, [events], 0]. Events are maps with a member type, as
// vLLM has sent them since version 0.24 (vllm/distributed/kv_events.py):
//
//	BlockStored       block_hashes, parent_block_hash, token_ids, block_size, medium, group_idx, kv_cache_spec_kind, ...
//	BlockRemoved      block_hashes, medium, group_idx
//	AllBlocksCleared  when the cache was emptied or begins
//
// Blocks that follow each other in one prompt make one event. A hash is the first 64 bits of the block's as an integer, or all 128 as bytes; it is
// of use only to find the block again. A state of a network with recurrent layers is a block of the group mamba, with the hash of the
// block at whose end it is. extra_keys has the namespace of a prompt that others do not share, at its first block. medium is GPU for the
// memory that the device computes in, whatever it is, because that is what routers look for.
//
// Whoever asks at the replay endpoint, a ROUTER, with the number of a batch gets it and all later ones that are kept, and a last message with number -1.
//
// # Alternatives
//
//   - libzmq is C. go-zeromq/zmq4 is Go, but takes frames of any length from anybody, has a queue for each subscriber, and does not
//     connect again. What a publisher needs of ZMTP fits into one file; the tests talk to zmq4, and tools/kvevents to libzmq.
//   - A batch for each step, as in vLLM, even if several wait: more messages when there is least time for them.
//   - To send the whole cache again after a loss needs a walk over all blocks in the engine's time.
package kvevents
