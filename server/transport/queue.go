package transport

import (
	"container/list"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/panjf2000/ants/v2"

	"weir/internal/retry"
	"weir/server/failure"
)

// Queue is where requests wait for one of a few workers to prepare them. It is bounded and
// fair between tenants, and then between the projects of a tenant. A request leaves it as
// soon as its client has left. The package ants keeps the goroutines. Its own queue is not
// used, because it is in order of arrival, and a job cannot be taken out of it.
//
// A large request takes seconds where a small one takes a millisecond. The two kinds
// therefore wait apart, each with its own places, and neither can take all workers: as long
// as requests of a kind wait, at least one worker is theirs. A queue with a single worker
// has a second one for this, and the Go scheduler divides the time between them.
type Queue struct {
	places  int // jobs of a kind that may wait
	workers int // jobs that run at a time, one more if a single one is large
	pool    *ants.Pool
	now     func() time.Time

	mu struct {
		sync.Mutex
		small, large lane
	}
}

// LargeBody is the size in bytes from which a request counts as large for a Queue. The
// largest usual chats have some 100 KB.
const LargeBody = 256 << 10

// Turn says whose turn in a [Queue] a job takes, and the size of its request in bytes.
type Turn struct {
	Tenant, Project string
	Size            int
}

// lane holds the jobs of a kind.
type lane struct {
	all     line       // its parts are the tenants
	running int        // workers
	took    retry.Mean // of a job
	most    int        // workers that may have jobs of this kind at a time
}

// line is a part of the queue: all of it, what a tenant has in it, or a project of a tenant.
// Jobs are in the lines of projects, the other lines have parts that take turns.
type line struct {
	name    string
	within  *line            // nil: this is the whole queue
	turn    *list.Element    // in within.turns
	parts   map[string]*line // by name; none is empty
	turns   list.List        // of *line; the first one is next
	jobs    list.List        // of *job, in order of arrival
	waiting int              // jobs in it and in its parts
}

// part returns the part of a name, and makes it if need be.
func (l *line) part(name string) *line {
	p := l.parts[name]
	if p == nil {
		if p = (&line{name: name, within: l}); l.parts == nil {
			l.parts = make(map[string]*line)
		}
		l.parts[name] = p
		p.turn = l.turns.PushBack(p)
	}
	return p
}

// fullest returns the part with the most jobs, among equal ones that whose turn comes last.
func (l *line) fullest() *line {
	var most *line
	for e := l.turns.Back(); e != nil; e = e.Prev() {
		if p := e.Value.(*line); most == nil || p.waiting > most.waiting {
			most = p
		}
	}
	return most
}

// has returns the number of jobs in the part of a name.
func (l *line) has(name string) int {
	if p := l.parts[name]; p != nil {
		return p.waiting
	}
	return 0
}

// job is one call of Do.
type job struct {
	run  func()
	err  error
	done chan struct{} // closed when run has returned, or the job has lost its place

	lane  *lane
	line  *line
	place *list.Element // in line.jobs; nil once a worker has it, or it has lost its place
}

// NewQueue returns a queue in which so many jobs may wait and so many run at the same time.
func NewQueue(places, workers int) (*Queue, error) {
	// A pool without a limit never blocks in Submit. It does not need one, because running
	// is never above workers.
	pool, err := ants.NewPool(-1)
	if err != nil {
		return nil, fmt.Errorf("server: preparation workers: %w", err)
	}
	q := &Queue{places: places, workers: workers, pool: pool, now: time.Now}
	q.mu.small.most, q.mu.large.most = workers, max(1, workers-1)
	return q, nil
}

// Do runs f on a worker and waits for its end. Jobs of a tenant's project are in order of
// arrival, the projects of a tenant take turns, and so do tenants. If ctx ends first, Do
// returns its cause at once. In this case f either never begins or may still be running, so
// that the caller must not use anything that f uses. Do fails with failure.ErrPanic if f
// panics.
//
// Do fails with failure.ErrQueueFull if too many jobs wait. Nobody can keep others out with
// that: if all places are taken, and another tenant has more of them than the caller would
// have, or another project of the same tenant, the newest job of the one that has the most
// fails in place of the caller's.
func (q *Queue) Do(ctx context.Context, turn Turn, f func()) error {
	j := &job{run: f, done: make(chan struct{}), lane: &q.mu.small}
	if turn.Size >= LargeBody {
		j.lane = &q.mu.large
	}
	if err := q.push(turn, j); err != nil {
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

func (q *Queue) push(turn Turn, j *job) error {
	q.mu.Lock()
	if j.lane.all.waiting >= q.places && !j.lane.makePlace(turn) {
		err := j.lane.full(turn)
		q.mu.Unlock()
		return err
	}
	l := j.lane.all.part(turn.Tenant).part(turn.Project)
	j.line, j.place = l, l.jobs.PushBack(j)
	for in := l; in != nil; in = in.within {
		in.waiting++
	}
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

// makePlace takes its place from another job, if the one whose turn a new job would take
// has less than its share, and reports whether there is a place now.
func (n *lane) makePlace(turn Turn) bool {
	victim, mine := n.all.fullest(), n.all.has(turn.Tenant)
	if victim == nil {
		return false // there are no places
	}
	if victim.name == turn.Tenant {
		victim, mine = victim.fullest(), victim.has(turn.Project)
	}
	if victim.waiting <= mine+1 {
		return false // taking one from it would turn the shares around
	}
	for victim.turns.Len() > 0 {
		victim = victim.fullest()
	}
	j := victim.jobs.Back().Value.(*job)
	remove(j)
	j.err = n.full(Turn{Tenant: victim.within.name, Project: victim.name})
	close(j.done)
	return true
}

// full is failure.ErrQueueFull, with the time after which a request may be sent again. Until
// its turn comes, the jobs that run end, and those of its own project; each other project
// of its tenant has as many turns, and each other tenant as many as its own.
func (n *lane) full(turn Turn) error {
	ahead := int64(1)
	if t := n.all.parts[turn.Tenant]; t != nil {
		own := t.has(turn.Project)
		ahead = retry.Shared(ahead+int64(own), int64(t.waiting-own), len(t.parts)-min(own, 1))
	}
	own := n.all.has(turn.Tenant)
	ahead = retry.Shared(ahead, int64(n.all.waiting-own), len(n.all.parts)-min(own, 1))
	return retry.After(failure.ErrQueueFull, n.took.Times(float64(ahead-1+int64(n.running))/float64(n.most)))
}

// leave takes j out of its line, if no worker has it yet.
func (q *Queue) leave(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if j.place != nil {
		remove(j)
	}
}

// remove takes j out of its line, and removes the lines that are then empty.
func remove(j *job) {
	j.line.jobs.Remove(j.place)
	j.place = nil
	for l := j.line; l != nil; l = l.within {
		if l.waiting--; l.waiting == 0 && l.within != nil {
			l.within.turns.Remove(l.turn)
			delete(l.within.parts, l.name)
		}
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
	may := func(n *lane, workers int) bool {
		return n.all.waiting > 0 && n.running < n.most && small.running+large.running < workers
	}
	var next *lane
	switch all := max(2, q.workers); {
	case may(large, all) && large.running == 0: // one of them always makes progress
		next = large
	case may(small, all):
		next = small
	case may(large, all):
		next = large
	default:
		return nil
	}
	next.running++
	return next
}

// next removes and returns the first job of the project whose turn it is, or nil if all of
// this kind have left.
func (q *Queue) next(n *lane) *job {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n.all.waiting == 0 {
		return nil
	}
	l := &n.all
	for l.turns.Len() > 0 {
		front := l.turns.Front()
		l.turns.MoveToBack(front)
		l = front.Value.(*line)
	}
	j := l.jobs.Front().Value.(*job)
	remove(j)
	return j
}

// work runs jobs until none is left that may run.
func (q *Queue) work(n *lane) {
	for n != nil {
		began := q.now()
		j := q.next(n)
		if j != nil {
			j.begin()
		}
		took := q.now().Sub(began)
		q.mu.Lock()
		if j != nil {
			n.took.Add(took, 1)
		}
		n = q.choose(n)
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
	return q.mu.small.all.waiting + q.mu.large.all.waiting
}

// Workers returns the number of jobs that may run at the same time.
func (q *Queue) Workers() int { return q.workers }

// Close ends the workers as soon as they have nothing to do, and waits for them for some time:
// a job may go on for a moment when its client has left. It reports whether all have ended. Do
// must not be called after it.
func (q *Queue) Close(wait time.Duration) bool { return q.pool.ReleaseTimeout(wait) == nil }
