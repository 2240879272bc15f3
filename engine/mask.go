package engine

import (
	"sync"
	"sync/atomic"
)

// maskFill fills the mask rows of one step while the device computes. Workers do it, and
// the device's call of Draws.Ready does what no worker has begun, so it ends even if all
// workers are busy.
type maskFill struct {
	jobs  []maskJob
	masks []uint32
	words int            // length of a row
	done  sync.WaitGroup // one for each job

	// claimed is count<<32 | next. Jobs are claimed by incrementing next. Only the
	// goroutine that moved it from i to i+1, with i < count, may read the fields above:
	// job i is then its own. A worker that comes late finds nothing to claim, or
	// already helps with the next step that uses this memory.
	claimed atomic.Uint64
}

type maskJob struct {
	mask Mask
	row  int32
}

// reset forgets the jobs of the last step, which are done.
func (f *maskFill) reset() {
	clear(f.jobs)
	f.jobs = f.jobs[:0]
}

// add notes a row to fill.
func (f *maskFill) add(m Mask, row int32) { f.jobs = append(f.jobs, maskJob{m, row}) }

// begin lets the rows of masks that were added be claimed, and reports whether there are
// any.
func (f *maskFill) begin(masks []uint32, words int) bool {
	n := len(f.jobs)
	if n == 0 {
		return false
	}
	f.masks, f.words = masks, words
	f.done.Add(n)
	f.claimed.Store(uint64(n) << 32)
	return true
}

// unclaimed is the number of rows that can be claimed.
func (f *maskFill) unclaimed() int {
	c := f.claimed.Load()
	return int(c>>32) - int(c&(1<<32-1))
}

// run fills rows until none can be claimed.
func (f *maskFill) run() {
	for {
		c := f.claimed.Load()
		i := c & (1<<32 - 1)
		if i >= c>>32 {
			return
		}
		if !f.claimed.CompareAndSwap(c, c+1) {
			continue
		}
		j := f.jobs[i]
		j.mask.Fill(f.masks[int(j.row)*f.words : (int(j.row)+1)*f.words])
		f.done.Done()
	}
}

// wait returns when all rows are filled.
func (f *maskFill) wait() {
	f.run()
	f.done.Wait()
}

// maskWorker fills rows until stopped is closed. A worker that finds more than one row
// wakes the next one, so a single signal is enough for any number of rows, and one row
// wakes one worker.
func (e *Engine) maskWorker(stopped <-chan struct{}) {
	for {
		select {
		case <-e.fillRows:
		case <-stopped:
			return
		}
		for i := range e.steps {
			if e.steps[i].masks.unclaimed() > 1 {
				e.wakeMaskWorker()
			}
			e.steps[i].masks.run()
		}
	}
}

func (e *Engine) wakeMaskWorker() {
	select {
	case e.fillRows <- struct{}{}:
	default:
	}
}
