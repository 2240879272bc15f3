package engine

import (
	"sync"
	"sync/atomic"
)

// filling is the filling of one step's mask rows, beside the forward pass. The
// device's call of ready lends a hand, so it ends however busy the workers are.
type filling struct {
	jobs  []maskJob
	masks []uint32
	words int
	done  sync.WaitGroup // of each job
	// claims is count<<32 | next. Only who moved next from i to i+1 < count may
	// read the fields above: a worker that comes late finds nothing to claim, or
	// helps with the step after.
	claims atomic.Uint64
}

type maskJob struct {
	mask Mask
	row  int32
}

// reset forgets the rows of the step before, which are filled.
func (f *filling) reset() {
	clear(f.jobs)
	f.jobs = f.jobs[:0]
}

// add books a row to fill.
func (f *filling) add(m Mask, row int32) { f.jobs = append(f.jobs, maskJob{m, row}) }

// begin opens the booked rows of masks, words long each, to the workers and
// reports whether there are any.
func (f *filling) begin(masks []uint32, words int) bool {
	n := len(f.jobs)
	if n == 0 {
		return false
	}
	f.masks, f.words = masks, words
	f.done.Add(n)
	f.claims.Store(uint64(n) << 32)
	return true
}

// left is the number of rows that nobody has claimed.
func (f *filling) left() int {
	c := f.claims.Load()
	return int(c>>32) - int(c&(1<<32-1))
}

// run fills rows until none is left to claim.
func (f *filling) run() {
	for {
		c := f.claims.Load()
		i := c & (1<<32 - 1)
		if i >= c>>32 {
			return
		}
		if !f.claims.CompareAndSwap(c, c+1) {
			continue
		}
		j := f.jobs[i]
		j.mask.Fill(f.masks[int(j.row)*f.words : (int(j.row)+1)*f.words])
		f.done.Done()
	}
}

// ready returns when every row is filled.
func (f *filling) ready() {
	f.run()
	f.done.Wait()
}

// fill is a worker: it waits for rows and fills them. Workers wake each other
// as long as there are rows, so that one signal is enough and one row wakes one.
func (e *Engine) fill(stopped <-chan struct{}) {
	for {
		select {
		case <-e.rows:
		case <-stopped:
			return
		}
		for i := range e.flights {
			if e.flights[i].masks.left() > 1 {
				e.wakeFiller()
			}
			e.flights[i].masks.run()
		}
	}
}

func (e *Engine) wakeFiller() {
	select {
	case e.rows <- struct{}{}:
	default:
	}
}
