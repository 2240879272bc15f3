package engine

// What the requests of a step may ask for beside its computation is bounded over all of them,
// so that no step is much longer for it, however many requests ask for the most that one
// may. Package scheduler shares it.
const (
	// maxWork is the most work of the draws of a step, in edits of logits
	// (sampler.State.Work), of which each takes about a nanosecond of the loop, and as
	// much again of the device.
	maxWork = 1 << 20

	// hostLogits is the number of logits that are copied to the host in the time of an edit.
	hostLogits = 16

	// maxScored is the most logits of prompt tokens whose log-probabilities a step gives.
	maxScored = 1 << 26
)

// configureWork sets the bounds of a step where the configuration leaves them out.
func (e *Engine) configureWork() {
	c := &e.cfg.Scheduler
	if c.MaxWork == 0 {
		c.MaxWork = maxWork
	}
	if c.MaxScored == 0 {
		c.MaxScored = max(1, maxScored/e.spec.VocabSize)
	}
}

// setWork tells the scheduler what the next draw of c costs.
func (e *Engine) setWork(c *choice) {
	n := c.sampling.Work(c.output(), e.spec.Depth)
	if len(c.req.LogprobIDs) > 0 {
		n += max(1, e.spec.VocabSize/hostLogits)
	}
	c.seq.Work.Draw = n
}
