package engine

import "time"

// Stats is a snapshot of the engine, taken between two steps.
type Stats struct {
	Waiting, Running        int // sequences
	BlocksUsed, BlocksTotal int // KV blocks; blocks that only the prefix cache keeps count as unused

	// The following only grow.
	Steps            uint64
	PromptTokens     uint64    // of requests that have got their first token
	CachedTokens     uint64    // of those, taken from the prefix cache
	GenerationTokens uint64    // output tokens
	ForcedTokens     uint64    // of those, taken without a forward pass: a mask left no other
	PrefixQueries    uint64    // prompt tokens looked up in the prefix cache
	PrefixHits       uint64    // prompt tokens found there
	Preemptions      uint64    // times a sequence's blocks were taken back
	Finished         [6]uint64 // choices by Reason
	Reopened         uint64    // times the backend failed and was opened anew

	// Busy since: when the step began that is running now; zero while there is
	// nothing to do. Its age is the engine's pulse.
	StepBegan time.Time
}

// Stats returns the newest snapshot. It is cheap and never waits for a step.
func (e *Engine) Stats() Stats {
	e.stats.Lock()
	defer e.stats.Unlock()
	return e.stats.Stats
}

func (e *Engine) publishStats() {
	s := &e.count
	s.Waiting, s.Running = e.sched.Len()
	s.BlocksTotal = e.kv.Total()
	s.BlocksUsed = s.BlocksTotal - e.kv.Free()
	c := e.sched.Counters()
	s.Preemptions, s.PrefixQueries, s.PrefixHits = c.Preemptions, c.PrefixTokens, c.PrefixHits
	e.stats.Lock()
	e.stats.Stats = *s
	e.stats.Unlock()
}
