// Package backend is the contract between the engine and whatever computes tokens: a CPU, a
// GPU or a simulator. It computes nothing, but it can check a step against the contract
// ([Batch.Check] and others).
//
// # A step has two halves
//
// A device should never wait for the host. So a step is handed over in two halves. Begin
// carries the forward pass. Draw carries what decides its tokens, which may still be unknown
// when the pass starts: penalties, masks and stop rules depend on the token before. End waits
// for the oldest step and takes its tokens.
//
//	Depth 1:  Begin(n)   Draw(n)   End(n)     Begin(n+1) ...
//	Depth 2:  Begin(n+1) End(n)    Draw(n+1)  Begin(n+2) End(n+1) Draw(n+2) ...
//
// At depth 2 the pass of step n+1 runs while the host books the tokens of step n. The newest
// token of a sequence is then not known to the host yet, and the batch names it by the row
// that draws it (Batch.Tokens). If the sequence turns out to have ended with that token, its
// row is marked Dead: it costs its computation, and nobody reads the result.
//
// # A batch
//
// Everything is flat: T tokens, S sequences, R rows to draw, M mask rows. These letters are
// used in every comment of the package. Here a sequence with a prompt of six tokens starts,
// and another, which has three tokens in the cache, gets its fourth. With blocks of 4 tokens
// the batch is
//
//	Tokens    10 11 12 13 14 15   ^1
//	Pos        0  1  2  3  4  5    3
//	Slots     12 13 14 15 20 21   31
//	QueryEnd                  6    7
//	KVLen                     6    4
//	TableEnd                  2    3
//	Tables     3  5                7
//	At         5  6
//
// The first sequence has the blocks 3 and 5, the second has block 7. Row 0 is drawn from the
// logits of token 5, the end of the prompt, and row 1 from those of token 6, which row 1 of
// the previous step draws.
//
// A network with a recurrent state keeps the states of sequences in slots (Spec.StateSlots). Each run
// goes on from the state in one slot and leaves it in the same or another one. If the second sequence had a
// state in slot 4 that is still of use to others, the batch above would have
//
//	StateIn    0     4
//	StateOut   1     2
//
// and slot 4 would stay as it is, without a copy. Slot 0 holds the state of an empty sequence. No slot is
// written by two sequences of a batch, or written by one and read by another.
//
// There is no prefill phase and no decode phase: a sequence may have any run of tokens in a
// step, and none, one or all of them may be drawn.
//
// # Draws
//
// A row becomes a token by edits of its logits, up to two mask rows and the parameters of
// [Draw]. Package sampler defines the arithmetic, which every device repeats bit for bit.
//
//   - Edits name a token at most once per row, so a device may apply them in any order.
//   - The mask of a grammar and that of an allow list are two rows, because raw
//     log-probabilities are taken between them.
//   - Masks may be filled by other goroutines until Draws.Ready has returned. A device calls
//     it as late as it can, so that they are filled beside the forward pass. Ready returns
//     soon: if a mask is late, its row allows all tokens, and the engine throws away what is
//     drawn. The next step may have been begun with that token; its row is Dead.
//   - A row with a Target draws nothing and reports on a given token. The log-probabilities
//     of a prompt come from such rows. Copying whole rows of logits to the host for them was
//     the first plan; Host rows, which do that, remain for tests and for requests that
//     name the tokens whose log-probabilities they want.
//
// # Memory
//
// The engine owns the slices of a batch, its draws and its result, and the backend may read
// them until the End of their step has returned. So nothing is allocated or copied per step,
// and a block of the KV cache may be given to another sequence only when the last step that
// writes it has ended, and a state slot when the last step that reads or writes it has.
//
// A [Copier] also copies blocks and states to memory of the host and back, so that they can be kept elsewhere.
//
// # Batch invariance
//
// What a row gets depends on its own sequence alone, bit for bit: not on the other sequences
// of the batch, on how the sequence was cut into chunks, on which blocks it has or on how
// many threads compute. Package engine and package model test this.
//
// # Checks
//
// Only a bug in the engine can break the contract, never a client. So a backend compares the
// sizes of a batch in every build (Batch.CheckSizes takes a few nanoseconds), and reads it
// as a whole in builds with invariants. Whether a block was given away too early, or slices
// changed too early, can only be noticed by somebody who remembers earlier steps: package
// sim's Oracle does.
package backend
