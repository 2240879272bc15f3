package backlog

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Queue runs pieces of work of type W, which belong to owners of type O, some at a time and owner by owner in turn. Its methods may be called from any
// goroutine. It is made by [New].
type Queue[O, W comparable] struct {
	cfg   Config[O, W]
	group sync.WaitGroup

	mu      sync.Mutex
	waiting []W
	running map[W]bool
	taken   int       // of Config.Most
	busy    map[O]int // running works of each owner; those with none are not there
	started bool
	closed  bool
}

// Config says what a Queue does with its works.
type Config[O, W comparable] struct {
	Most  int              // works that run at a time
	Owner func(w W) O      // whose a work is
	Run   func(w W)        // computes a work, and returns when it has ended
	Order func(a, b W) int // of the works of an owner; nil: they come as they were added
}

// New returns a Queue that runs nothing yet.
func New[O, W comparable](cfg Config[O, W]) *Queue[O, W] {
	return &Queue[O, W]{cfg: cfg, running: map[W]bool{}, busy: map[O]int{}}
}

// Add adds a work, unless it waits or runs already. After Close it has no effect.
func (q *Queue[O, W]) Add(w W) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.knows(w) {
		return
	}
	at := len(q.waiting)
	if q.cfg.Order != nil {
		for at > 0 && q.cfg.Order(w, q.waiting[at-1]) < 0 {
			at--
		}
	}
	q.waiting = slices.Insert(q.waiting, at, w)
	q.next()
}

// Prepend adds works that an earlier process has left in front of those that have come since.
func (q *Queue[O, W]) Prepend(works []W) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	works = slices.DeleteFunc(slices.Clone(works), func(w W) bool { return q.running[w] })
	later := slices.DeleteFunc(q.waiting, func(w W) bool { return slices.Contains(works, w) })
	q.waiting = append(works, later...)
	q.next()
}

// knows reports whether a work waits or runs. q.mu is held.
func (q *Queue[O, W]) knows(w W) bool { return q.running[w] || slices.Contains(q.waiting, w) }

// Start lets works run from now on.
func (q *Queue[O, W]) Start() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.started = true
	q.next()
}

// Remove takes a work back, and reports whether it was waiting.
func (q *Queue[O, W]) Remove(w W) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.remove(w)
}

func (q *Queue[O, W]) remove(w W) bool {
	i := slices.Index(q.waiting, w)
	if i < 0 {
		return false
	}
	q.waiting = slices.Delete(q.waiting, i, i+1)
	return true
}

// Now runs a work that waits at once, beyond the room that there is, because it will end at once. Before
// Start it has no effect.
func (q *Queue[O, W]) Now(w W) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.started && !q.closed && q.remove(w) {
		q.begin(w)
	}
}

// next begins as many works as there is room for. q.mu is held.
func (q *Queue[O, W]) next() {
	for q.started && !q.closed && q.taken < q.cfg.Most && len(q.waiting) > 0 {
		at := 0
		for i, w := range q.waiting {
			if q.busy[q.cfg.Owner(w)] < q.busy[q.cfg.Owner(q.waiting[at])] {
				at = i
			}
		}
		w := q.waiting[at]
		q.waiting = slices.Delete(q.waiting, at, at+1)
		q.begin(w)
	}
}

// begin runs a work. q.mu is held.
func (q *Queue[O, W]) begin(w W) {
	o := q.cfg.Owner(w)
	q.taken++
	q.busy[o]++
	q.running[w] = true
	q.group.Go(func() {
		q.cfg.Run(w)
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.running, w)
		q.taken--
		if q.busy[o]--; q.busy[o] == 0 {
			delete(q.busy, o)
		}
		q.next()
	})
}

// Go runs what belongs to the works, such as reading them from a store, in a goroutine that Wait waits for.
func (q *Queue[O, W]) Go(f func()) { q.group.Go(f) }

// Close begins no further work, and returns those that wait. Those that run are for their owner to end.
func (q *Queue[O, W]) Close() (waiting []W) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	waiting, q.waiting = q.waiting, nil
	return waiting
}

// Wait returns when no goroutine is left.
func (q *Queue[O, W]) Wait() { q.group.Wait() }

// Sleep returns after a time, or when ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
