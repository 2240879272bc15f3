package transport

import (
	"container/list"
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/panjf2000/ants/v2"

	"weir/server/failure"
)

// Queue is where requests wait for one of a few workers to prepare them. It is bounded and
// fair between projects, and a request leaves it as soon as its client has left. The
// package ants keeps the goroutines. Its own queue is not used, because it is in order of
// arrival, and a job cannot be taken out of it.
//
// A large request takes seconds where a small one takes a millisecond. The two kinds
// therefore wait apart, and neither can take all workers: as long as requests of a kind
// wait, at least one worker is theirs. A queue with a single worker has a second one for
// this, and the Go scheduler divides the time between them.
type Queue struct {
	places  int // jobs that may wait
	workers int // jobs that run at a time; see most
	pool    *ants.Pool

	mu struct {
		sync.Mutex
		small, large lane
		waiting      int
	}
}

// LargeBody is the size in bytes from which a request counts as large for a Queue. The
// largest usual chats have some 100 KB.
const LargeBody = 256 << 10

// lane holds the jobs of one kind.
type lane struct {
	lines   map[string]*line // by project; none is empty
	turns   list.List        // of *line; the first one is next
	running int              // workers
	most    int              // workers that may have jobs of this kind at a time
}

// line holds the waiting jobs of one project, in order of arrival.
type line struct {
	project string
	jobs    list.List     // of *job
	turn    *list.Element // in lane.turns
}

// job is one call of Do.
type job struct {
	run  func()
	err  error
	done chan struct{} // closed when run has returned

	lane  *lane
	line  *line
	place *list.Element // in line.jobs; nil once a worker has it
}

// NewQueue returns a queue in which so many jobs may wait and so many run at the same time.
func NewQueue(places, workers int) (*Queue, error) {
	// A pool without a limit never blocks in Submit. It does not need one, because running
	// is never above workers.
	pool, err := ants.NewPool(-1)
	if err != nil {
		return nil, fmt.Errorf("server: preparation workers: %w", err)
	}
	q := &Queue{places: places, workers: workers, pool: pool}
	q.mu.small = lane{lines: make(map[string]*line), most: workers}
	q.mu.large = lane{lines: make(map[string]*line), most: max(1, workers-1)}
	return q, nil
}

// Do runs f on a worker and waits for its end. Calls with the same project are in order of
// arrival, and different projects take turns. If ctx ends first, Do returns its cause at
// once. In this case f either never begins or may still be running, so that the caller must
// not use anything that f uses. Do fails with failure.ErrQueueFull if too many jobs wait, and
// with failure.ErrPanic if f panics. size is the size of the request in bytes.
func (q *Queue) Do(ctx context.Context, project string, size int, f func()) error {
	j := &job{run: f, done: make(chan struct{}), lane: &q.mu.small}
	if size >= LargeBody {
		j.lane = &q.mu.large
	}
	if err := q.push(project, j); err != nil {
		return err
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		q.leave(j)
		return context.Cause(ctx)
	}
}

func (q *Queue) push(project string, j *job) error {
	q.mu.Lock()
	if q.mu.waiting >= q.places {
		q.mu.Unlock()
		return failure.ErrQueueFull
	}
	l := j.lane.lines[project]
	if l == nil {
		l = &line{project: project}
		j.lane.lines[project] = l
		l.turn = j.lane.turns.PushBack(l)
	}
	j.line, j.place = l, l.jobs.PushBack(j)
	q.mu.waiting++
	start := q.choose(nil)
	q.mu.Unlock()
	if start == nil {
		return nil
	}
	if err := q.pool.Submit(func() { q.work(start) }); err != nil { // the pool is closed
		q.mu.Lock()
		start.running--
		q.mu.Unlock()
		q.leave(j)
		return failure.ErrDraining
	}
	return nil
}

// leave takes j out of its line, if no worker has it yet.
func (q *Queue) leave(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j.place != nil {
		q.remove(j)
	}
}

func (q *Queue) remove(j *job) {
	l := j.line
	l.jobs.Remove(j.place)
	j.place = nil
	q.mu.waiting--
	if l.jobs.Len() == 0 {
		j.lane.turns.Remove(l.turn)
		delete(j.lane.lines, l.project)
	}
}

// choose takes a worker for the kind of job that is to run next and returns that kind, or
// nil if none of those that wait may run. done is the kind that the worker has run before,
// if it has.
func (q *Queue) choose(done *lane) *lane {
	small, large := &q.mu.small, &q.mu.large
	if done != nil {
		done.running--
	}
	may := func(l *lane, workers int) bool {
		return l.turns.Len() > 0 && l.running < l.most && small.running+large.running < workers
	}
	var next *lane
	switch all := max(2, q.workers); {
	case may(large, all) && large.running == 0: // one of them always makes progress
		next = large
	case may(small, all):
		next = small
	case may(large, q.workers):
		next = large
	default:
		return nil
	}
	next.running++
	return next
}

// next removes and returns the first job of the project whose turn it is, or nil if all of
// this kind have left.
func (q *Queue) next(l *lane) *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	front := l.turns.Front()
	if front == nil {
		return nil
	}
	j := front.Value.(*line).jobs.Front().Value.(*job)
	l.turns.MoveToBack(front)
	q.remove(j)
	return j
}

// work runs jobs until none is left that may run.
func (q *Queue) work(l *lane) {
	for l != nil {
		if j := q.next(l); j != nil {
			j.begin()
		}
		q.mu.Lock()
		l = q.choose(l)
		q.mu.Unlock()
	}
}

func (j *job) begin() {
	defer close(j.done)
	defer func() {
		if p := recover(); p != nil {
			j.err = fmt.Errorf("%w: %v\n%s", failure.ErrPanic, p, debug.Stack())
		}
	}()
	j.run()
}

// Waiting returns the number of jobs that wait.
func (q *Queue) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.mu.waiting
}

// Workers returns the number of jobs that may run at the same time.
func (q *Queue) Workers() int { return q.workers }

// Close ends the workers as soon as they have nothing to do. Do must not be called after it.
func (q *Queue) Close() { q.pool.Release() }
