package cpu

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"weir/internal/invariants"
)

const (
	// linePad keeps what one thread writes off the cache lines that others
	// read; two lines, because processors prefetch them in pairs.
	linePad = 128
	// spinFor is how long a worker that finds no chunk waits actively. A step has
	// hundreds of operations, microseconds apart, and waking a parked worker takes
	// longer than most of them.
	spinFor = 200 * time.Microsecond
	// pausesPerLook is the length of one wait between looks at the state, about
	// 0.1 to 0.2 microseconds.
	pausesPerLook = 4
	// After looksPerYield looks a waiting thread offers its processor to other
	// threads, and after looksPerGosched looks to other goroutines. The second is
	// rare: Gosched wakes a thread of the runtime whenever a P is idle, and that
	// thread then competes with the workers for the processors (a job of two chunks
	// of 1.9 us took 3.5 us instead of 2.1).
	looksPerYield   = 64
	looksPerGosched = 1024
)

// A job is an operation that is cut into chunks, which may be computed in any order
// and at the same time.
type job interface {
	// do computes one chunk. worker, in [0, threads), selects the scratch memory: no
	// two chunks are computed with the same worker at the same time.
	do(worker, chunk int)
}

// workers runs jobs on a fixed set of goroutines and on the caller.
//
// Chunks are claimed one by one from a counter, and the caller claims too until
// none is left. So a worker that loses its processor delays a job by one chunk, or
// by two if it has asked what follows. With equal shares all others would wait for
// its whole share.
//
// On a machine with several memory nodes each node has a queue of its own, which
// always holds the same share of a job's columns. The node's workers were the first
// to touch the memory that these columns read. A worker whose own queue is empty
// takes from the others.
//
// One goroutine calls run, runAtHome, wakeUp and close.
type workers struct {
	threads int // the caller included
	place   placement
	kept    []kept     // [threads]
	job     job        // this, columns and the queues' shares are set before a state says that there are chunks
	columns int        // chunks of a row of the job
	number  int        // of the job
	mode    queueState // stays during runAtHome, else 0
	queues  []queue    // [nodes]
	failed  atomic.Pointer[chunkPanic]
	closing atomic.Bool
	running sync.WaitGroup
	parking []parking // [threads]; the caller's is unused
	undo    func()    // unbinds the caller's thread

	_    [linePad]byte
	done atomic.Int64 // chunks finished
	_    [linePad]byte
	idle atomic.Int32 // workers that are parked or about to be, never fewer than have their flag set
	_    [linePad]byte
}

// queue is a node's share of a job: columns [first, first+width) of every row.
type queue struct {
	first, width int
	_            [linePad]byte
	state        atomic.Uint64 // a queueState
	_            [linePad]byte
}

// queueState is, from the highest bit on: whether chunks are for this node's
// workers alone (1 bit), the job's number (7), its chunks (28), and the next to
// claim (28), which runs past the end by one per worker at most.
type queueState uint64

const (
	chunkBits = 28
	maxChunks = 1 << (chunkBits - 1)
	jobShift  = 2 * chunkBits
	stays     = queueState(1) << 63
)

func (s queueState) next() int { return int(s & (1<<chunkBits - 1)) }

// left reports whether there is a chunk to claim.
func (s queueState) left() bool { return s.next() < int(s>>chunkBits&(1<<chunkBits-1)) }

// sameJob is true if t is a queue of s's job and open to other nodes.
func (s queueState) sameJob(t queueState) bool { return s>>jobShift == t>>jobShift && t&stays == 0 }

func (q *queue) load() queueState { return queueState(q.state.Load()) }

// kept is a chunk that a worker has claimed while it computes another.
type kept struct {
	chunk int // + 1; 0: none
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

// newWorkers starts threads, the caller's among them, where place says. The
// caller's is bound until close.
func newWorkers(place placement) (*workers, error) {
	threads := len(place.node)
	w := &workers{threads: threads, place: place, queues: make([]queue, place.nodes()), parking: make([]parking, threads), kept: make([]kept, threads)}
	bound := make(chan error)
	for id := 1; id < threads; id++ {
		w.parking[id].wake = make(chan struct{}, 1)
		w.running.Go(func() {
			_, err := bindThread(place.cpus[id])
			bound <- err
			w.serve(id)
		})
	}
	undo, err := bindThread(place.cpus[0])
	w.undo = undo
	for id := 1; id < threads; id++ {
		err = errors.Join(err, <-bound)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// run computes the chunks of j, which are rows by columns, numbered row by row, and
// returns when all are done. What a column reads lies in the memory of one node, for
// every job of as many columns. A panic in a chunk is raised again here, after the
// others have ended.
func (w *workers) run(rows, columns int, j job) {
	n := rows * columns
	if n == 1 || w.threads == 1 {
		for i := range n {
			j.do(0, i)
		}
		return
	}
	if n <= 0 {
		return
	}
	invariants.Check(n < maxChunks, "a job of %d chunks", n)
	w.job, w.columns = j, columns
	w.fillQueues(rows)
	if w.mode == stays {
		w.wakeUp(w.threads)
	} else {
		w.wakeUp(n - 1)
	}
	w.done.Add(w.takeChunks(0))
	for i := 1; w.done.Load() != int64(n); i++ {
		pause(pausesPerLook)
		if i%looksPerYield == 0 {
			yieldThread()
		}
		if i%looksPerGosched == 0 {
			runtime.Gosched()
		}
	}
	if p := w.failed.Swap(nil); p != nil {
		panic(p)
	}
}

// runAtHome is run for chunks that touch memory for the first time: each is computed
// on its own node, however long the other nodes wait.
func (w *workers) runAtHome(n int, j job) {
	w.mode = stays
	defer func() { w.mode = 0 }()
	w.run(1, n, j)
}

// fillQueues shares the columns of the job out to the nodes, in proportion to their
// threads, and then lets the workers see its chunks.
func (w *workers) fillQueues(rows int) {
	w.number++
	w.done.Store(0)
	for i := range w.queues {
		q := &w.queues[i]
		q.first = w.columns * w.place.before[i] / w.threads
		q.width = w.columns*w.place.before[i+1]/w.threads - q.first
	}
	for i := range w.queues {
		q := &w.queues[i]
		q.state.Store(uint64(w.mode | queueState(w.number&127)<<jobShift | queueState(rows*q.width)<<chunkBits))
	}
}

// takeChunks computes chunks until none is left and returns how many those were.
func (w *workers) takeChunks(id int) (n int64) {
	home := &w.queues[w.place.node[id]]
	for {
		q := home
		chunk, ok := w.kept[id].chunk-1, true
		w.kept[id].chunk = 0
		if chunk < 0 {
			chunk, ok = w.claim(home)
		}
		if !ok && len(w.queues) > 1 {
			q, chunk, ok = w.steal(home)
		}
		if !ok {
			return n
		}
		w.doChunk(id, w.inJob(q, chunk))
		n++
	}
}

// inJob is the number in the job of a chunk of a queue.
func (w *workers) inJob(q *queue, chunk int) int {
	if len(w.queues) == 1 {
		return chunk
	}
	return chunk/q.width*w.columns + q.first + chunk%q.width
}

// follow claims, for a worker that is about to end a chunk, the chunk that it will
// compute next, so that it can prefetch that chunk's memory. ok is false if there is
// none, or if the worker has been given one already.
func (w *workers) follow(id int) (chunk int, ok bool) {
	home := &w.queues[w.place.node[id]]
	if w.kept[id].chunk > 0 {
		return 0, false
	}
	// While this worker's chunk is not done, neither is the job: what is claimed
	// here belongs to it.
	chunk, ok = w.claim(home)
	if !ok {
		return 0, false
	}
	w.kept[id].chunk = chunk + 1
	return w.inJob(home, chunk), true
}

// claim takes the next chunk of a worker's own queue.
func (w *workers) claim(q *queue) (chunk int, ok bool) {
	if !q.load().left() {
		return 0, false
	}
	// Between the look and the claim the job may have ended and the next one begun.
	// Then this claims a chunk of the next job, which is as good.
	s := queueState(q.state.Add(1) - 1)
	return s.next(), s.left()
}

// steal takes a chunk of another node's queue, of the job whose chunks in this queue
// have all been claimed.
func (w *workers) steal(home *queue) (q *queue, chunk int, ok bool) {
	mine := home.load()
	if mine.left() { // the next job has begun
		return nil, 0, false
	}
	for i := range w.queues {
		q := &w.queues[i]
		for s := q.load(); s.left() && mine.sameJob(s); s = q.load() {
			if q.state.CompareAndSwap(uint64(s), uint64(s+1)) {
				return q, s.next(), true
			}
		}
	}
	return nil, 0, false
}

// pending reports whether there is something to claim, here or elsewhere.
func (w *workers) pending(id int) bool {
	mine := w.queues[w.place.node[id]].load()
	if mine.left() {
		return true
	}
	for i := range w.queues {
		if s := w.queues[i].load(); s.left() && mine.sameJob(s) {
			return true
		}
	}
	return false
}

// doChunk computes one chunk and keeps a panic for the caller of run.
func (w *workers) doChunk(id, chunk int) {
	defer func() {
		if v := recover(); v != nil {
			w.failed.Store(&chunkPanic{v, debug.Stack()})
		}
	}()
	w.job.do(id, chunk)
}

// serve is the life of a worker other than the caller: it computes chunks, waits
// actively for more, and parks when it has waited for spinFor.
func (w *workers) serve(id int) {
	var since time.Time
	for looks := 0; ; looks++ {
		if n := w.takeChunks(id); n > 0 {
			w.done.Add(n)
			looks = 0
		}
		if w.closing.Load() {
			return
		}
		pause(pausesPerLook)
		if looks == 0 {
			since = time.Now()
		}
		if looks%looksPerYield == looksPerYield-1 {
			yieldThread()
			if time.Since(since) > spinFor {
				w.park(id)
				looks = -1
			}
		}
		if looks%looksPerGosched == looksPerGosched-1 {
			runtime.Gosched()
		}
	}
}

// park sleeps until wakeUp. The order matters: park sets the flag and then looks at
// the queues once more, run fills the queues and then looks at the flags. So one of
// the two sees what the other has done.
func (w *workers) park(id int) {
	p := &w.parking[id]
	// Counted first: otherwise a wake-up between the two lines would take away the
	// count of another worker, which is parked and would be overlooked from then on.
	w.idle.Add(1)
	p.parked.Store(true)
	if (w.pending(id) || w.closing.Load()) && p.parked.CompareAndSwap(true, false) {
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
	w.undo()
}
