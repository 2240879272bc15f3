// Package kvtransfer sends copies of KV blocks and recurrent states from one server to another, so that a prompt can be computed on
// one machine and its answer on another.
//
//	n, err := kvtransfer.New(cfg)      // an engine.Offload
//	go n.Serve(listener)
//
//	lease := n.Lease(keys)             // where the prompt is computed, before it is
//	copies := lease.Settle()           // and when it was
//
//	offer, err := n.Offer(ctx, addr, lease, keys) // where the answer is computed, before its prompt is submitted
//	offer.End()                        // when its prefix has come
//
// A [Node] stands where package kvstore does: what the engine copies out of the pool is held for the partner who will ask for it, and what
// the engine wants to have copied back is read from the partner. So the bits of an answer depend on transfers as little as on
// copies on a disk: a block is found by the hash of all tokens before it and of the salt, and partners with another identity, which is
// the build, the instructions, the types, the weights and the size of blocks, do not talk to each other. Whatever is missing, late or wrong
// is computed. The engine waits for no longer than computing would take.
//
// # Who asks
//
// The side that computes the answer asks. It knows what it has already, and how much it can take in. To push
// blocks as they are computed would save a round trip, but the other side would have to reserve memory for requests that
// it does not know yet, and the blocks that it has would be sent once more.
//
// The interface of a backend copies whole blocks, with all layers. So a block goes when its last token was computed, and not layer by layer.
// A partner that asks before the prompt has been computed gets each block as it comes.
//
// # Leases
//
// A lease names the keys of a prompt. Only these can be asked for, and only by its number, which is random and which the
// client brings from one server to the other in kv_transfer_params. It ends when the partner says so, or after Config.LeaseTime.
// Copies are in memory of their own, so that a lease keeps no block of the pool from its next use. They are shared by all leases that name them. There is
// a limit for all leases and one for their bytes; beyond them a prompt is computed as any other, and nothing is held.
//
// # The protocol
//
// docs/kv-transfer.md describes it. Both sides prove that they know a secret; with Config.Encrypt they do so inside
// of a TLS connection, whose keys the proofs name. A copy is sent by one writev from the memory into which the device has copied it, and
// read into the memory from which the device copies it back, so that the processors copy nothing in between but what the kernel does.
//
// # Alternatives
//
//   - Holding the blocks of the pool, instead of copies, is what vLLM's connectors do. It needs no memory of the machine, but a partner that is slow or
//     dead takes blocks from those who are being computed, and the loop of the engine would have to copy for the network while it waits.
//   - sendfile and splice need a file or a pipe for a source. MSG_ZEROCOPY has a notice for each send, and pays off for
//     copies that are larger than most blocks are; on loopback the kernel copies in any case.
//   - gRPC or HTTP cost a copy of all data into frames.
package kvtransfer
