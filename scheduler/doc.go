// Package scheduler decides, step by step, which tokens of which sequences are
// computed next. It is a plain state machine: it starts no goroutine, takes no
// lock, reads no clock, and knows neither text nor devices. The engine drives
// it, and the tests drive it in the same way.
//
// # No prefill phase and no decode phase
//
// A [Sequence] is a list of tokens, first the prompt and then the output, of
// which the first Computed have their keys and values in the KV cache. A step
// computes some of the others, for as many sequences as fit the token budget of
// the step. When a step reaches the newest token of a sequence, the logits of
// that token give the next one, and the sequence has a token to compute again.
//
// Here are two prompts, of 6 and 7 tokens, under a budget of 10 tokens to a
// step. [a,b) are positions; a step that is marked * also draws a token:
//
//	step   sequence 1   sequence 2
//	  1     [0,6) *      [0,4)          the budget is used up
//	  2     [6,7) *      [4,7) *        the rest of the prompt
//	  3     [7,8) *      [7,8) *
//
// A long prompt that is computed in chunks, a prefix that was found in the
// cache, and a sequence that lost its blocks and starts over differ only in the
// value of Computed. None of them needs code of its own. The idea and the rules
// are those of vLLM's scheduler (vllm/v1/core/sched/scheduler.py).
//
// # A step
//
// [Scheduler.Schedule] plans a step as a list of chunks. The caller runs it,
// books each chunk with [Scheduler.Commit] and closes the step with
// [Scheduler.EndStep]. Steps end in the order in which they were planned.
//
// Two steps may be in flight: step n+1 is then planned before the tokens of step
// n are known. A sequence counts such tokens as Pending, and its next chunk may
// include a token that is still being drawn:
//
//	Schedule    1: [0,3) *
//	Schedule    1: [3,4) *       token 3 is being drawn by the first step
//	Commit 5    Tokens[3] = 5    ends the first step
//	Schedule    1: [4,5) *
//	Commit 6    Tokens[4] = 6    ends the second step
//
// If token 3 had ended the sequence, the second step would have computed a row
// too many, whose token is discarded. A sequence that is certain to end with a
// pending token, because it reaches its length, is left out of the next step.
//
// # Order
//
// A step first gives a token to each running sequence that wants a single one. What
// is left of the budget goes to running sequences that want more, and to waiting
// ones, as long as there is a free place among the Config.MaxSeqs and memory. The
// next one is always of the most urgent class, if Config.Priority is set, then of
// the tenant and then of its project that have been served least for their weights, and then
// the first by arrival ([Account]). So a tenant's few words do not wait for the long prompts
// of another. This is fair queueing by virtual time, as in "Fairness in Serving Large
// Language Models" (Sheng et al., OSDI 2024), in two levels: each token that is
// computed for the first time counts, tokens of prompts and outputs alike, and who
// begins to wait starts with what the others have on average. With a weight of 3 a token costs a
// third of what it costs with 1. More rules:
//
//   - Config.MaxPrefill bounds the prompt tokens of a step while other
//     sequences are producing output.
//   - With Config.WholePrompts no prompt is cut into chunks. One that has more tokens
//     than are left of the budget waits for a later step, and after some plans comes
//     before the single tokens (whole.go).
//   - A waiting sequence that lacks memory is not overtaken by a smaller one,
//     or it might never get its turn.
//   - A class that has got less than a sixteenth of what was computed while it waited has its
//     next sequence lifted to the most urgent class (age.go), so that nothing waits for ever.
//   - A tenant that holds more places or blocks, for its weight, than another one would have with
//     its next sequence gives one back, by preemption, at the cost of at most a
//     quarter of a token for each new token (room.go). So does work in the
//     background ([Background]) to all other.
//
// # Preemption
//
// Blocks of the KV cache are taken as a sequence grows, not in advance: a request
// may be allowed to fill the whole context and rarely does, so reserving blocks
// for the longest possible output would leave most of the memory unused. When a
// running sequence needs a block and there is none, the last running sequence by
// priority and arrival is preempted, or the last one of a tenant that holds far more: it gives its blocks back, keeps its tokens and waits. When
// it is admitted again it computes them again, or finds them in the prefix cache.
// A draw depends only on the seed, the index and the token, so the output is the
// same as without the preemption.
//
// A sequence with a pending token never preempts another. That token may end the
// sequence, and the other would have lost its blocks for nothing; it waits for
// one step instead. A newly admitted sequence must leave a free block for each
// running one, so that it is not preempted again at once.
//
// # Windows
//
// Layers that look back to a window only have block tables of their own (package kvcache), and when a chunk has been
// computed, the blocks that they do not see any more return. A sequence so takes no more of these than its window
// and the chunks in flight need, however long it gets. The first choice of a request holds those that its further
// choices begin with until they have begun, unless it could not go on otherwise.
//
// # Held back
//
// A part of a sequence's prefix may be kept outside of the pool (Sequence.Recall). When there is a place and memory for the sequence, it is held
// back once instead of being admitted, and the caller is told ([Scheduler.Recalls]). Others are admitted until the caller has brought back
// what it can, and says so ([Scheduler.Recalled]). How long that may take is up to the caller, which has the clock.
//
// # Sitting out
//
// What decides a token, such as the mask of a grammar, may not be known when the
// device needs it. The caller, which has the clock, then books the chunk with
// [Scheduler.Postpone] instead of Commit: no token was drawn, and the sequence sits
// out, with its blocks, until [Scheduler.Resume]. Then it computes its newest token
// again, into the same slot, and draws from the same logits. So it gets the same
// token, only later, and no other sequence has waited for it:
//
//	Schedule    1: [3,4) *
//	Schedule    1: [4,5) *       planned before the first step has ended
//	Postpone                     Computed = 3; what the second step computes is stale
//	Schedule    nothing          1 sits out
//	Commit                       ignored: it ends the second step
//	Resume
//	Schedule    1: [3,4) *       only after the stale step has ended
//
// A running sequence that has sat out for many plans gives its place to one that
// waits. The block of a postponed token is not published, so nobody else reads the
// slot that is written a second time.
//
// # Work beside the computation
//
// Thousands of biases or bans make the draw of one token take longer than the step of
// a small model, and each sequence may have them. So the caller says what the next draw
// of a sequence costs (Sequence.Work, in units of its own), and a step draws for no more
// than Config.MaxWork together. The others have no chunk in this step, and draw the
// same tokens later. Tenants share the work in equal parts, and the sequences of a
// tenant take turns (work.go). With 100 units to a step, and 60 for each of 1, 2 and 3,
// of which 3 is of another tenant, and 10 for 4:
//
//	step   draw     left out
//	  1    1, 4     2, 3
//	  2    2, 4     1, 3
//	  3    3, 4     1, 2
//	  4    1, 4     2, 3
//
// The scores of a prompt's tokens have a bound of their own, Config.MaxScored, which
// cuts the chunks of such prompts. Postponing what is drawn too late, as for masks, would
// do as well, but compute each row in vain: what a mask costs is known only when it is
// late, and this is known before.
//
// # Recurrent states
//
// A network with a recurrent state has a limited number of slots for it, and a running sequence holds
// one. A waiting sequence for which no slot is free waits as if there were no place, and the tenant with
// most places may have to give one back. Slots that only the prefix cache holds are free.
//
// Each chunk goes on from slot StateIn to slot StateOut. A prefix can be shared only up to where a state
// was kept (package kvcache), so chunks end there, and the next one goes into a fresh slot:
//
//   - at the last end of a block in the prompt before its Sequence.Suffix, which is what a template adds to
//     open the answer, and which the next turn of a chat may not repeat;
//   - at the last end of a block before the prompt's last token, if the sequence has followers;
//   - where the blocks of an earlier sequence were found, but no state: two prompts have gone on from there in
//     different ways, as after a system prompt, and a third one may, too. That one begins there;
//   - every Config.StateEvery tokens of what is computed in chunks, so that the second one does, too;
//   - at the newest end of a block of the output, where a chunk happens to end there, which one of a
//     single token does. That is what a turn that repeats the answer, or a preempted sequence, goes on from.
//
// With blocks of 4 tokens, a prompt of 10 with a suffix of 1, in slot 1 first:
//
//	chunk   [0,8)   [8,10) *  [10,11) *  [11,12) *  [12,13) *
//	slot   0 -> 1    1 -> 2    2 -> 2     2 -> 2     2 -> 3
//
// To keep states where prompts part is the idea of Marconi ("Prefix Caching for the Era of Hybrid LLMs", Pan et
// al., MLSys 2025). It needs few slots, and those are where they are of use; states every so many tokens
// take many, and are mostly not.
//
// So a prompt costs a second step, of less than a block and the suffix, and the next turn computes no more
// than that again. To let a device keep states in the middle of a chunk would save the step, and needs
// a list of positions in the contract of every device.
//
// States are kept only if slots are free. Nobody is preempted for one, and while a sequence waits for a
// slot, the last free one is left to it. A postponed draw needs the state before its chunk, so a sequence that
// is Postponable goes into a fresh slot with every draw, and back to the old one when it is postponed.
// If that was not kept it is preempted, and computed again from what the cache has.
//
// # Long sequences
//
// A network may compute a sequence in another way once it has more than Config.LongAfter tokens, from its first
// token on (LongRoPE). Such a sequence gives its blocks back when the token is known that makes it long, waits its turn,
// and is computed anew; its prefixes are found under another root (long.go). With LongAfter 6 and a prompt of 5:
//
//	chunk   [0,5) *  [5,6) *  [0,7) *  [7,8) *
//
// That costs the history once, and no bit depends on anything but the sequence. To compute every sequence that may
// become long as a long one would save it, and answer short requests otherwise than the model was trained to.
//
// # Blocks return late
//
// A step in flight goes on writing to the blocks it was planned with. When a
// sequence finishes or is preempted, its blocks are therefore released only when
// the last step that computes it has ended. Publishing to the prefix cache also
// waits for the end of the step, and only covers tokens that are final.
//
// # Several choices of one prompt
//
// The further choices of a request with n > 1 name the first one as their Leader.
// They wait until it has computed the prompt, then share its full blocks by
// reference ([kvcache.Manager.Fork]), with prefix caching turned off too. The first one holds its state
// at the end of these blocks until all have begun.
// Sequences of other requests may overtake them while they wait.
//
// # Files
//
// sequence.go has the state of one sequence and stop.go the rules that end it.
// scheduler.go has the state, fair.go the queues of tenants and projects, age.go lets classes of
// priority grow older, share.go counts what tenants have, room.go
// says who is preempted for whom, whole.go keeps prompts whole, work.go bounds and
// shares work, state.go says which recurrent states are kept, recall.go holds back, long.go begins long
// sequences anew, plan.go plans a step
// and commit.go books its results. In the tests, testdata/*.txt are scripts that show the chunks,
// blocks and state slots of every step; random_test.go runs random workloads on a device whose
// memory shows whether a history was read back correctly.
package scheduler
