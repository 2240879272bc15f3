package engine

import (
	"time"

	"weir/scheduler"
)

// CacheStats is what is used of the KV cache.
type CacheStats struct {
	BlocksUsed, BlocksTotal int // KV blocks; those that only the prefix cache keeps are not used
	BlocksWindowed          int // of BlocksUsed, those of layers that see a window or a chunk
	StatesUsed, StatesTotal int // slots for recurrent states; those that only the prefix cache keeps are not used
	StatesKept              int // slots that are not used, but have the state at the end of a prefix, until they are handed out
}

// Stats is a snapshot of the engine, taken between two steps.
type Stats struct {
	Waiting, Running int // sequences
	SittingOut       int // of Running and Waiting, sequences that wait for their masks, or for which the last step had no work left
	CacheStats
	Offload OffloadStats

	// StepBegan is when the step began that is being computed, or zero if there is nothing
	// to do. If it lies far back, the device hangs.
	StepBegan time.Time

	// Speed is how many tokens steps have computed per second lately, of prompts and outputs
	// alike; 0: it is not known.
	Speed float64

	// The following only grow.
	Steps            uint64
	PromptTokens     uint64        // of requests that have their first token
	CachedTokens     uint64        // of PromptTokens, those taken from the prefix cache
	GenerationTokens uint64        // output tokens
	ForcedTokens     uint64        // of GenerationTokens, those booked without a draw, because a mask left no other
	PrefixQueries    uint64        // prompt tokens looked up in the prefix cache
	PrefixHits       uint64        // prompt tokens found there
	StateHits        uint64        // sequences that began with a state at the end of a prefix
	Postponed        uint64        // tokens that were drawn in a later step, because their mask was not ready
	LeftOut          uint64        // times that a step had no work left for a running sequence (scheduler.Work)
	SlowMasks        uint64        // times that masks of a request took so long that they went to the slow lane
	MaskWait         time.Duration // that steps have waited for masks
	Preemptions      uint64        // times a sequence lost its blocks
	Aged             uint64        // sequences that became as urgent as any because others had been served for long
	Finished         [6]uint64     // choices that have ended, by Reason
	Reopened         uint64        // times the backend failed and was opened again
}

// Stats returns the newest snapshot. It is cheap and never waits for a step.
func (e *Engine) Stats() Stats {
	e.stats.Lock()
	defer e.stats.Unlock()
	return e.stats.Stats
}

// Share is what a tenant has of the engine.
type Share = scheduler.Share

// OtherTenants is the Share of all tenants that have none of their own.
const OtherTenants = scheduler.OtherTenants

// Shares appends what each tenant has, 32 of them at most and all others together, to dst. It
// is as new as Stats.
func (e *Engine) Shares(dst []Share) []Share {
	e.stats.Lock()
	defer e.stats.Unlock()
	return append(dst, e.stats.shares...)
}

// publishStats makes the counts the newest snapshot.
func (e *Engine) publishStats() {
	s := &e.counts
	s.Waiting, s.Running = e.sched.Len()
	s.BlocksTotal = e.kv.Total()
	s.BlocksUsed = s.BlocksTotal - e.kv.Free()
	s.BlocksWindowed = e.kv.Windowed()
	s.StatesTotal = e.kv.TotalStates()
	s.StatesKept = e.kv.KeptStates()
	s.StatesUsed = s.StatesTotal - e.kv.FreeStates()
	c := e.sched.Counters()
	s.Preemptions, s.PrefixQueries, s.PrefixHits, s.Postponed = c.Preemptions, c.PrefixTokens, c.PrefixHits, c.Postponed
	s.LeftOut, s.StateHits, s.Aged = c.LeftOut, c.StateHits, c.Aged
	o := &e.offload
	s.Offload = o.counts
	s.Offload.Uncopied += e.kv.Uncopied()
	s.Offload.Loading = len(o.loads)
	s.SittingOut, s.SlowMasks = len(e.late)+e.sched.LeftOut(), e.masks.overruns.Load()
	e.stats.Lock()
	e.stats.Stats = *s
	e.stats.shares = e.sched.AppendShares(e.stats.shares[:0])
	e.stats.Unlock()
}
