// Package sim has two backends without a model: [Oracle], which tests the engine, and
// [Paced], which stands in for a device under load. Both check what the engine hands them
// against the contract of package backend and answer every breach with an error (of a batch,
// a paced backend only checks the sizes in builds without invariants). Both run with one and with two steps in flight, and in virtual time (testing/synctest).
//
// # Oracle
//
// The KV cache of an oracle stores, in each slot, the token and the position that were
// written there. To compute a row it walks through the block table of the sequence, reads
// the whole history back, and hashes it. The hash gives the row of logits, from which
// sampler.Picker draws:
//
//	block table 7 2       slots of block 7        slots of block 2
//	                      10@0 11@1 12@2 13@3     14@4 15@5  -   -
//	logits = hash(seed, 10, 11, 12, 13, 14, 15)
//
// So the tokens are a function of the sequence's own tokens and sampling parameters, as a
// model's are, provided that every slot, position, table and row is right. A mistake in the
// books of the engine changes a token, or is refused because a slot holds another position.
// The metamorphic tests of package engine rest on this.
//
// If there are state slots, an oracle keeps in each the hash of the tokens that it comes after. What a run
// goes on from has to be the hash of the history that its blocks hold, so that every wrong slot is noticed.
//
// An eager oracle reads batches and draws when they are handed over, and notices what is
// filled in too late. A lazy one reads them in End, as a device with a queue may, and
// notices what is changed or reused too early (see [Reading]). Tests cancel requests, and
// let steps fail, from OracleConfig.Hook.
//
// # Paced
//
// A paced backend takes the time that a [Profile] gives for the batch, and draws plausible
// tokens without computing logits: they honour masks and bans, and nothing else. With the
// profile [Instant] it measures what everything but the device costs. It is what
// weir serve --device sim runs.
//
// [NewScripted] opens a paced backend that writes given answers. As an oracle does, it reads the
// prompt back from the slots of the KV cache, so it has the answer for a prompt however that was
// cut into chunks, preempted or shared.
//
// # Files
//
// turns.go refuses calls out of turn. oracle.go and paced.go are the two backends,
// profile.go the profiles, scripted.go the answers that are given. In the tests, driver_test.go is the smallest engine that can run
// sequences on a backend.
package sim
