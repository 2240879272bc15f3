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
type Queue struct {
	places  int // jobs that may wait
	workers int // jobs that run at a time
	pool    *ants.Pool

	mu struct {
		sync.Mutex
		lines   map[string]*line // by project; none is empty
		turns   list.List        // of *line; the first one is next
		waiting int
		running int // workers
	}
}

// line holds the waiting jobs of one project, in order of arrival.
type line struct {
	project string
	jobs    list.List     // of *job
	turn    *list.Element // in Queue.mu.turns
}

// job is one call of Do.
type job struct {
	run  func()
	err  error
	done chan struct{} // closed when run has returned

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
	q.mu.lines = make(map[string]*line)
	return q, nil
}

// Do runs f on a worker and waits for its end. Calls with the same project are in order of
// arrival, and different projects take turns. If ctx ends first, Do returns its cause at
// once. In this case f either never begins or may still be running, so that the caller must
// not use anything that f uses. Do fails with failure.ErrQueueFull if too many jobs wait, and
// with failure.ErrPanic if f panics.
func (q *Queue) Do(ctx context.Context, project string, f func()) error {
	j := &job{run: f, done: make(chan struct{})}
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
	l := q.mu.lines[project]
	if l == nil {
		l = &line{project: project}
		q.mu.lines[project] = l
		l.turn = q.mu.turns.PushBack(l)
	}
	j.line, j.place = l, l.jobs.PushBack(j)
	q.mu.waiting++
	start := q.mu.running < q.workers
	if start {
		q.mu.running++
	}
	q.mu.Unlock()
	if !start {
		return nil
	}
	if err := q.pool.Submit(q.work); err != nil { // the pool is closed
		q.mu.Lock()
		q.mu.running--
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
		q.mu.turns.Remove(l.turn)
		delete(q.mu.lines, l.project)
	}
}

// next removes and returns the first job of the project whose turn it is. If there is none,
// it returns nil, and the worker ends.
func (q *Queue) next() *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	front := q.mu.turns.Front()
	if front == nil {
		q.mu.running--
		return nil
	}
	l := front.Value.(*line)
	j := l.jobs.Front().Value.(*job)
	q.mu.turns.MoveToBack(front)
	q.remove(j)
	return j
}

func (q *Queue) work() {
	for j := q.next(); j != nil; j = q.next() {
		j.begin()
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
