package transport

import (
	"container/heap"
	"container/list"
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/panjf2000/ants/v2"

	"weir/auth"
	"weir/internal/retry"
	"weir/server/failure"
)

// Queue is where requests wait for one of a few workers to prepare them. It is bounded and
// fair between tenants, and then between the projects of a tenant, by their weights: where
// preparing is what the server has too little time for, the engine could not give what a weight
// promises if all had the same turns here. A request leaves it as soon as its client has left. The package ants keeps the goroutines. Its own queue is not
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

// Turn says whose turn in a [Queue] a job takes, and the size of its request in bytes. The
// weights are in hundredths; 0 is the usual one. Those of the newest job count.
type Turn struct {
	Tenant, Project       string
	Weight, ProjectWeight int
	Size                  int
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
//
// The turns are those of self-clocked fair queueing (Golestani 1994) with jobs of one length:
// the next turn of a part comes at a time that lies after its last one by as much as the part
// is light, or after the present if it has just come. With equal weights this is round robin.
type line struct {
	name    string
	within  *line            // nil: this is the whole queue
	parts   map[string]*line // by name; none is empty
	turns   turnHeap         // the same; the first one is next
	jobs    list.List        // of *job, in order of arrival
	waiting int              // jobs in it and in its parts

	clock  int64 // the time of the newest turn of its parts
	number int64 // of turns that its parts have been given

	weight int64
	turn   int64 // the time of its next turn
	order  int64 // decides between equal times: within.number when it was given
	at     int   // index in within.turns
}

// turnGap lies between two turns of a part, divided by its weight in hundredths.
const turnGap = 10_000_000

// turnHeap is a heap (container/heap) of the parts of a line.
type turnHeap []*line

func (h turnHeap) Len() int { return len(h) }
func (h turnHeap) Less(i, j int) bool {
	return h[i].turn < h[j].turn || h[i].turn == h[j].turn && h[i].order < h[j].order
}

func (h turnHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

func (h *turnHeap) Push(p any) {
	l := p.(*line)
	l.at = len(*h)
	*h = append(*h, l)
}

func (h *turnHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return l
}

// part returns the part of a name, with a weight, and makes it if need be.
func (l *line) part(name string, weight int) *line {
	if weight <= 0 {
		weight = int(auth.UsualWeight)
	}
	p := l.parts[name]
	if p != nil {
		p.weight = int64(weight)
		return p
	}
	if p = (&line{name: name, within: l, weight: int64(weight)}); l.parts == nil {
		l.parts = make(map[string]*line)
	}
	l.parts[name] = p
	p.turn = l.clock
	p.giveTurn()
	heap.Push(&l.turns, p)
	return p
}

// giveTurn sets the time of the next turn of a part, which was that of its last one.
func (l *line) giveTurn() {
	l.within.number++
	l.turn, l.order = l.turn+max(1, turnGap/l.weight), l.within.number
}

// take returns the part whose turn it is, and gives it its next one.
func (l *line) take() *line {
	p := l.turns[0]
	l.clock = p.turn
	p.giveTurn()
	heap.Fix(&l.turns, 0)
	return p
}

// fullest returns the part with the most jobs for its weight, among equal ones that whose turn
// comes last, of those with more than so many jobs; nil: there is none.
func (l *line) fullest(than int) *line {
	var most *line
	for i, p := range l.turns {
		if p.waiting <= than {
			continue
		}
		if most == nil || p.fuller(most) || !most.fuller(p) && l.turns.Less(most.at, i) {
			most = p
		}
	}
	return most
}

// fuller reports whether l has more jobs for its weight than o.
func (l *line) fuller(o *line) bool { return int64(l.waiting)*o.weight > int64(o.waiting)*l.weight }

// ahead returns about how many jobs of all parts run until n are of the part of a name, which
// has a weight: each other part has as many as its weight is to this one, but no more than wait.
func (l *line) ahead(name string, weight int, n int64) int64 {
	others, weights := int64(l.waiting), int64(0)
	for _, p := range l.turns {
		if p.name == name {
			others -= int64(p.waiting)
		} else {
			weights += p.weight
		}
	}
	if weight <= 0 {
		weight = int(auth.UsualWeight)
	}
	return n + min(others, (n*weights+int64(weight)-1)/int64(weight))
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
// arrival, the projects of a tenant take turns by their weights, and so do tenants. If ctx ends first, Do
// returns its cause at once. In this case f either never begins or may still be running, so
// that the caller must not use anything that f uses. Do fails with failure.ErrPanic if f
// panics.
//
// Do fails with failure.ErrQueueFull if too many jobs wait. Nobody can keep others out with
// that: if all places are taken, and another tenant has more of them for its weight than the
// caller would have, or another project of the same tenant, the newest job of the one that has
// the most fails in place of the caller's. No weight takes the last place of another.
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
	l := j.lane.all.part(turn.Tenant, turn.Weight).part(turn.Project, turn.ProjectWeight)
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
	victim, mine, weight := n.all.fullest(1), n.all.has(turn.Tenant), turn.Weight
	if victim != nil && victim.name == turn.Tenant {
		victim, mine, weight = victim.fullest(1), victim.has(turn.Project), turn.ProjectWeight
	}
	if victim == nil {
		return false
	}
	if weight <= 0 {
		weight = int(auth.UsualWeight)
	}
	if int64(victim.waiting)*int64(weight) <= int64(mine+1)*victim.weight {
		return false // taking one from it would turn the shares around
	}
	for len(victim.turns) > 0 {
		victim = victim.fullest(0)
	}
	j := victim.jobs.Back().Value.(*job)
	remove(j)
	j.err = n.full(Turn{Tenant: victim.within.name, Project: victim.name, Weight: int(victim.within.weight), ProjectWeight: int(victim.weight)})
	close(j.done)
	return true
}

// full is failure.ErrQueueFull, with the time after which a request may be sent again. Until
// its turn comes, the jobs that run end, and those of its own project; each other project
// of its tenant has its turns meanwhile, and so has each other tenant.
func (n *lane) full(turn Turn) error {
	ahead := int64(1)
	if t := n.all.parts[turn.Tenant]; t != nil {
		ahead = t.ahead(turn.Project, turn.ProjectWeight, ahead+int64(t.has(turn.Project)))
	}
	ahead = n.all.ahead(turn.Tenant, turn.Weight, ahead)
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
			heap.Remove(&l.within.turns, l.at)
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
	for len(l.turns) > 0 {
		l = l.take()
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
