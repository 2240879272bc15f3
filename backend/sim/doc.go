// Package sim has two backends without a model. Both check the step contract of
// package backend and answer every breach with an error that wraps ErrContract.
//
// Oracle is for correctness. Its KV slots hold (token, position); what it
// "attends" to is read back from them through the block tables and hashed into
// logits, and sampler.Picker draws from these. So its tokens are a pure function
// of each sequence's own tokens and sampling parameters if, and only if, every
// slot, position, table and row of the engine is right; a wrong book changes a
// token or is refused.
//
// Paced is for load without hardware. It takes the time that a Profile says and
// draws plausible tokens without computing logits.
//
// Both run at depth 1 and 2, under testing/synctest too.
package sim
