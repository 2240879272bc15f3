package cpu

import (
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// linePad keeps what one thread writes off the cache lines that others
	// read; two lines, because processors prefetch them in pairs.
	linePad = 128
	// spinFor is how long a worker without work waits actively. A step has
	// hundreds of operations microseconds apart, and waking a parked worker
	// costs more than most of them.
	spinFor = 200 * time.Microsecond
	// pausesPerLook is the length of one wait between looks at the state.
	pausesPerLook = 8
	looksPerClock = 32
	// callerSpins is how often the caller looks for the end of the last chunk
	// before it lets others have its processor.
	callerSpins = 1000
)

// A job is work cut into chunks that may run in any order and at once.
type job interface {
	// do computes one chunk. worker, in [0, threads), is for scratch memory: no
	// two chunks run with the same worker at a time.
	do(worker, chunk int)
}

// workers runs jobs on a fixed set of goroutines and on the caller.
//
// Chunks are claimed one by one from a counter, and the caller claims too until
// none is left. So a worker whose processor is taken away delays a job by one
// chunk at most, where equal shares would make everybody wait for it.
//
// One goroutine calls run, wake and close.
type workers struct {
	threads int // the caller included
	job     job // set before state says that there are chunks
	failed  atomic.Pointer[chunkPanic]
	closing atomic.Bool
	running sync.WaitGroup
	parking []parking // [threads]; the caller's is unused

	_     [linePad]byte
	state atomic.Uint64 // chunks of the job << 32 | next to claim, which runs past the end
	_     [linePad]byte
	done  atomic.Int64 // chunks finished
	_     [linePad]byte
	idle  atomic.Int32 // workers that are parked or about to be
	_     [linePad]byte
}

// parking is where a worker sleeps. Whoever changes parked from true to false
// owes it a wake-up.
type parking struct {
	parked atomic.Bool
	wake   chan struct{}
	_      [linePad]byte
}

// chunkPanic carries a panic from a worker to the caller.
type chunkPanic struct {
	value any
	stack []byte
}

func (p *chunkPanic) Error() string {
	return fmt.Sprintf("cpu: panic in a worker: %v\n\n%s", p.value, p.stack)
}

func newWorkers(threads int) *workers {
	w := &workers{threads: threads, parking: make([]parking, threads)}
	for id := 1; id < threads; id++ {
		w.parking[id].wake = make(chan struct{}, 1)
		w.running.Go(func() { w.serve(id) })
	}
	return w
}

// run computes chunks [0, n) of j and returns when all are done. A panic in a
// chunk is raised again here, after the others have ended.
func (w *workers) run(n int, j job) {
	if n == 1 || w.threads == 1 {
		for i := range n {
			j.do(0, i)
		}
		return
	}
	if n <= 0 {
		return
	}
	w.job = j
	w.done.Store(0)
	w.state.Store(uint64(n) << 32)
	w.wakeUp(n - 1)
	for w.claim(0) {
	}
	for i := 0; w.done.Load() != int64(n); i++ {
		if i < callerSpins {
			pause(1)
		} else {
			yield()
		}
	}
	if p := w.failed.Swap(nil); p != nil {
		panic(p)
	}
}

// claim computes one chunk if there is one left.
func (w *workers) claim(id int) bool {
	if !w.pending() {
		return false
	}
	// Between the look and the claim the job may have ended and the next begun;
	// then this claims a chunk of the next, which is as good.
	s := w.state.Add(1) - 1
	if uint32(s) >= uint32(s>>32) {
		return false
	}
	w.compute(id, int(uint32(s)))
	return true
}

func (w *workers) pending() bool {
	s := w.state.Load()
	return uint32(s) < uint32(s>>32)
}

func (w *workers) compute(id, chunk int) {
	defer w.done.Add(1)
	defer func() {
		if v := recover(); v != nil {
			w.failed.Store(&chunkPanic{v, debug.Stack()})
		}
	}()
	w.job.do(id, chunk)
}

func (w *workers) serve(id int) {
	var since time.Time
	for looks := 0; ; looks++ {
		switch {
		case w.claim(id):
			looks = -1
		case w.closing.Load():
			return
		case looks == 0:
			since = time.Now()
		case looks%looksPerClock == 0 && time.Since(since) > spinFor:
			w.park(id)
			looks = -1
		default:
			pause(pausesPerLook)
			if looks%looksPerClock == 1 {
				yield()
			}
		}
	}
}

// park sleeps until wakeUp. The order matters: first the flag, then a last look
// at the state; run does it the other way round, so one of the two sees the
// other.
func (w *workers) park(id int) {
	p := &w.parking[id]
	p.parked.Store(true)
	w.idle.Add(1)
	if (w.pending() || w.closing.Load()) && p.parked.CompareAndSwap(true, false) {
		w.idle.Add(-1)
		return
	}
	<-p.wake
}

// wakeUp wakes up to n parked workers.
func (w *workers) wakeUp(n int) {
	if w.idle.Load() == 0 {
		return
	}
	for id := 1; id < w.threads && n > 0; id++ {
		if p := &w.parking[id]; p.parked.CompareAndSwap(true, false) {
			w.idle.Add(-1)
			p.wake <- struct{}{}
			n--
		}
	}
}

// close stops the workers and waits for them.
func (w *workers) close() {
	w.closing.Store(true)
	w.wakeUp(w.threads)
	w.running.Wait()
}
