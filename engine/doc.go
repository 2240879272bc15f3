// Package engine runs requests. It owns the loop that plans a step, lets a backend
// compute it, and hands the tokens to the readers:
//
//	e := engine.New(config, openBackend)
//	go e.Run(ctx)
//	<-e.Ready()
//	stream, err := e.Submit(request) // never blocks
//	err = stream.Next(ctx, &events)  // waits for tokens
//
// Everything slow happens outside of it: requests are parsed, rendered and tokenized
// before [Engine.Submit], and events are encoded by the goroutine that reads the
// [Stream].
//
// # Terms
//
// A [Request] is one prompt with N choices, which are N sequences for the scheduler. A
// step is one forward pass of the backend over a batch of tokens, and the draws from
// its logits. A row is one of these draws. An [Event] is one token of one choice, or
// the end of a choice. A step is in flight from Begin to End.
//
// # Ownership
//
// One goroutine, which runs [Engine.Run], owns the scheduler, the books of the KV
// cache, the sampling state, the batches and the backend. There are no locks around
// them. This is all that is shared with other goroutines:
//
//	what                                      protected by       used by
//	intake: new requests, aborts, calls of    Engine.mu          Submit, Cancel,
//	ForgetPrefixes, who holds the places                         ForgetPrefixes; loop
//	events of a stream that are not taken     Stream.mu          reader; loop
//	Stats                                     Engine.stats       any goroutine; loop
//	the observer of Reports                   atomic pointer     Observe; loop
//	the newest steps                          flight.mu          Steps; loop
//	a mask and its row                        constraint.state   mask workers; loop
//	the queue of masks                        maskPool.mu        mask workers; loop
//
// No lock is held, and no channel is sent to, while the backend computes. The loop
// locks its OS thread to open the backend, and stays locked only if the backend says
// that it is bound to its thread (backend.Spec.ThreadBound).
//
// # The loop
//
// With one step in flight (backend.Spec.Depth is 1), an iteration is
//
//	take in new requests and aborts
//	plan, Begin, Draw        the device only records
//	signal the readers       of the last step's tokens
//	End                      the device computes
//	book the tokens          stop rules, text, events
//
// So the tokens of step k can be read before step k+1 is computed, although the host
// does not wait for the readers. With two steps in flight it is
//
//	take in new requests and aborts
//	plan n+1, Begin(n+1)     its newest tokens are still being drawn by step n
//	End(n), book n
//	Draw(n+1)                with the penalties and masks that follow from n's tokens
//	signal the readers
//
// and the host plans and books while the device computes:
//
//	host     |plan n+1|   book n   |plan n+2|  book n+1  |
//	device   ... forward n | draw n | forward n+1 | draw n+1 | forward n+2 ...
//
// # A step has two halves
//
// Begin carries the forward pass, Draw what decides its tokens (package backend has the
// contract). A token that step n is still drawing is named in the batch of step n+1 by
// the row that draws it. That is possible because only the draw, not the forward pass,
// needs what follows from the token: penalties, masks, stop rules. If the sequence turns
// out to have ended with step n, its row in step n+1 is marked Dead and costs nothing
// but its computation. The scheduler releases the sequence's blocks when that step has
// ended (package scheduler, "Blocks return late").
//
// The log-probabilities of a prompt's own tokens come from rows with a Target, which
// draw nothing. Copying whole rows of logits to the host for them was the first plan;
// Host rows remain for tests and for LogprobIDs: no device gathers the scores of given
// tokens, and a copy costs little beside the product that made the row.
//
// # Constraints
//
// A [Mask] is the state of a grammar for one choice. As soon as a token is booked, the row
// of the next one is requested from workers, which fill it in memory of the choice, beside
// the steps. The device calls Draws.Ready before it needs the rows. That copies those that
// are filled, and fills itself what no worker has begun if Mask.Quick says that it takes no
// time, so that no step waits for an idle worker to wake up.
//
// A row may take a second. No step waits for that: it waits for a few milliseconds at
// most, all steps together for an eighth of the time, and for each request for a sixteenth
// of its time. A choice that is late after that sits out. Its row is drawn with a mask of
// ones, because the step is under way, and the token is thrown away; scheduler.Postpone puts
// the sequence back by this token, and it is planned again when its mask is there. Since the
// draw depends on seed, index and logits alone, it then gets the token that it would have
// got in time.
//
// Fills that take longer than a millisecond share one slow lane (mask_pool.go), in pieces
// and in turn, and a request that was seen there begins there. So the masks of others are
// filled in time, and the device loses no more than half a core to slow masks.
//
// When a mask leaves a single token, drawing it cannot give another one. Such a forced
// token is booked without a forward pass, if the sequence has no token in flight, and a
// run of forced tokens is then computed in one chunk. The answer is the same, bit for
// bit, as without this, so a step books only so many of them (mostForced), and leaves the
// others to the next.
//
// # Copies of the prefix cache
//
// With Config.Offload, copies of the prefix cache survive their eviction, and perhaps the process. The backend has to be a backend.Copier.
// Blocks and states are copied out between two steps, in the order in which they were published, for a fiftieth of the time at most; where
// no step waits, as long as there is something. What is in the pool is not copied before it is evicted only, because then a crash would lose it.
//
// A sequence that could be admitted is held back by the scheduler once, while copies are read by the goroutines of the Offload
// and put into free blocks between steps. These are published and found like any other, so that the books know of copies only which are
// wanted. It is not held back if computing is quicker, by the rates that were measured, and goes on with what has come
// when computing would have taken as long. If a copy is missing or damaged, what comes after it is computed. Bits are the same in
// every case; offload_test.go compares them over restarts, with pools and folders that are too small, and damaged files.
//
// To read ahead for all that wait would fill the pool with prefixes of those whose turn is far away. To have reads write into blocks of the pool
// directly would save a copy, and needs a backend whose memory other goroutines may write to beside a step.
//
// # Recurrent states
//
// If the backend has state slots (backend.Spec.StateSlots), the batch names those of each sequence, which
// package scheduler has chosen. A caller says with Request.Suffix how much of a prompt's end the next turn
// of a chat will not repeat. A choice with a mask may sit out, so that the state before each of its draws
// is kept in a second slot, and in a third one with two steps in flight.
//
// # Work beside the computation
//
// A request has bounds for what it adds to each step: edits of logits, bans, logits that are
// copied to the host, scores of its prompt. Hundreds of requests that ask for the most made
// steps of a tenth of a second, so that all of a step together have a bound, too (work.go).
// Here the loop needs no clock: what a draw costs is known before the step is planned, and
// scheduler.Work says it. A sequence for which nothing is left has no row in this step, and
// draws the same token in a later one. This is what the rest of a step costs at most, in the
// loop's thread, with 256 sequences and a vocabulary of 131,072, on a backend that computes
// nothing; before there was a bound, and now:
//
//	a plain step                                          0.04 ms   0.04 ms
//	16,384 biases                                          3.1       0.8
//	4,096 stop ids and min_tokens                          4.7       0.9
//	8,192 bad words that end after the same token         12.7       1.6
//	all of these with penalties                          119.3       1.2
//	penalties after prompts of 30,000 tokens, 64 of them   1.2       0.5
//	forced tokens with repetition detection of 2,048       2.4       0.9
//	prompt_logprobs 20 of 2,048 tokens                     0.3       0.2
//
// Other things have no bound over the step, because hundreds of the most that is allowed
// come to less: stop strings and stop ids 0.02 ms, repetition detection 0.2 ms, 20
// alternatives or 128 chosen tokens 0.1 ms, rows of allowed tokens 0.1 ms, copies of masks
// 0.4 ms. To share the edits that never change among rows, in place of copying them, would
// save a part of the first lines, at the price of a second list of edits in the contract of
// every device; a copy of all that a step may have takes 0.8 ms.
//
// # The pace of answers
//
// Config.MaxPrefill of the scheduler bounds how many prompt tokens delay the answers in a step. How many are too many
// depends on device, network, context and load, so with Config.ITLTarget the loop measures and adapts it
// (pace.go). The scheduler stays without a clock: it is told the number before each plan. A model of the costs
// with a coefficient for each part of a batch was the other choice. It has to be fitted where batches hardly differ, and
// the time of the last steps says the same.
//
// # Vectors
//
// A request with [Request.Pool] wants vectors, the inputs of the network's head, and no tokens: for embeddings,
// reranking and classes. It is a sequence like any other that ends with its prompt, so that places, turns, aborts
// and preemption need no rules of their own. The vectors come with the chunks of the prompt and are taken in
// in the order of positions (pool.go). All kinds but the last token's need every position computed, and so do
// not read the prefix cache. If the backend is an encoder (backend.Spec.Whole), sequences are computed
// whole, without prefix cache, and may be no longer than a step.
//
// # Text and stop strings
//
// Tokens become text in the loop (tens of nanoseconds a token), because a stop string
// ends a sequence and has to do so before the next step is planned. Text that may turn
// out to be the beginning of a stop string is held back (text.go). One automaton, made
// before the request is submitted and shared by its choices, looks for all stop strings at
// once, so a token costs time in proportion to its text, whatever they are (stops.go).
//
// # Streams
//
// Pushing an event never blocks: what a reader has not taken waits in its stream, in a
// compact form (backlog.go), and cannot be more than the request's own limits let it
// produce. A [Budget] bounds what all streams hold together. So a slow reader holds up no
// other request. The readers are signalled once per step, after everything that the
// step gave has been counted: a reader who has seen a token finds it in [Stats] and in
// the [Report] of the step.
//
// # Batch invariance
//
// What a request gets depends on the request alone. Other requests, chunking, prefix
// hits, preemption, the number of threads and the order of arrival change no bit of a
// logit and no draw. metamorphic_test.go proves it for this package: it runs one
// workload under many configurations over a simulator whose tokens depend on every slot
// of the KV cache that the books name. model_test.go does the same over a trained model
// and compares all bits.
//
// # Failure
//
// Bad input is refused by Submit, before any work. If a call of the backend fails, the
// requests of the steps in flight end with its error, the backend is closed and opened
// again, and all other requests go on from their tokens. If it cannot be opened, or is
// not the same as before, Run returns the error, and what is live ends with it. If one
// choice of a request fails, the request fails. A broken invariant panics.
//
// # Alternatives
//
//   - A goroutine for each stage (scheduler, runner, sampler, detokenizer), joined by
//     channels, overlaps their work naturally. It costs four to six hand-offs for each
//     token instead of one, makes aborts and preemption race with messages in flight, and
//     the result depend on timing. The overlap that matters, host beside device, comes
//     from two steps in flight.
//   - A channel for each reader instead of a slice and a signal: pushing a token to one of
//     256 readers took 147 ns with a channel of capacity 1 and 57 ns with the slice (two
//     virtual processors). A channel with room for many tokens is as fast, but blocks
//     when it is full.
//   - Keeping the loop locked to its thread in any case: a round trip to a goroutine that is
//     locked took 20 to 45 µs, and to another one 0.4 µs.
//
// # Files
//
// request.go has what callers hand in and get back, engine.go the Engine and its loop,
// submit.go the intake, places.go who holds its places, and reserve.go places that are taken
// before a request is prepared, and what waits for too long. step.go plans a step and gives it
// to the backend; book.go books what the step gave, pool.go what it gave of vectors. failure.go ends requests that cannot go
// on. stream.go, backlog.go, text.go and stops.go serve the readers, mask.go and mask_pool.go
// fill mask rows, work.go bounds what a step does beside its computation, pace.go how long prompts may make it, stats.go and
// report.go count, flight.go keeps the newest steps, forget.go empties the prefix cache, and offload.go copies it out and back.
package engine
