package transport

import (
	"container/list"
	"context"
	"sync"
	"time"

	"weir/internal/memory"
	pacing "weir/internal/pace" // bodies.go has a type pace
	"weir/internal/retry"
	"weir/server/failure"
)

// Turns shares out a few workers' time among queries. A query runs on a goroutine of its
// own while it has a turn. When a turn has lasted for a slice and others wait, it goes to
// the next one: tenants take turns, and so do the queries of a tenant, so that a query that
// takes minutes delays a short one by some slices only. A query gives its turn back while
// its client is slow to take the answer.
//
// Queue is not used for this, because its jobs keep a worker until their end.
type Turns struct {
	TurnLimits
	now     func() time.Time
	sleep   func(context.Context, time.Duration) // for Rest
	resting func() bool                          // whether workers rest

	mu struct {
		sync.Mutex
		lines   map[string]*turnLine // by tenant
		waiting list.List            // of *turnLine, those with queries that wait; the first one is next
		open    int                  // queries that have entered and not ended
		running int                  // turns that are held
		took    retry.Mean           // the turns of a query, all together
	}
}

// TurnLimits bound the queries of a server.
type TurnLimits struct {
	// Workers is how many queries run at the same time.
	Workers int
	// Places is how many queries there may be at all; more are refused.
	Places int
	// Begun is how many queries of a tenant there may be that have begun and not ended.
	// Each of them holds a snapshot and its memory, and others wait.
	Begun int
	// Slice is how long a query runs before others take their turns, or before it rests.
	Slice time.Duration
	// Rest is how long a worker sleeps after each slice while something is computed
	// (RestWhile), so that the threads that compute find a processor free. Go would let a
	// query have one for 10 ms at a time.
	Rest time.Duration
}

// turnLine has the queries of one tenant.
type turnLine struct {
	key          string
	fresh, begun list.List     // of *turn: those that wait to begin, and to go on
	live         int           // queries that have begun and not ended
	users        int           // all queries
	place        *list.Element // in Turns.mu.waiting; nil: no query waits
	freshFirst   bool          // whether the next turn is for one that has not begun
}

// turn is one query. It belongs to the goroutine of the query.
type turn struct {
	all   *Turns
	line  *turnLine
	ctx   context.Context
	grant chan struct{} // has one element when the turn was granted and not taken yet

	place *list.Element // in fresh or begun; nil: it does not wait
	begun bool
	holds bool // it has a worker's time
	lost  bool // it has lost its place to another query before it began
	since time.Time
	used  time.Duration // all its turns that have ended
}

func newTurns(l TurnLimits, now func() time.Time) *Turns {
	t := &Turns{TurnLimits: l, now: now, sleep: sleep, resting: func() bool { return true }}
	t.mu.lines = make(map[string]*turnLine)
	return t
}

// RestWhile makes workers rest only while f says that something is computed. It is called before
// the server serves. A rest takes longer than TurnLimits.Rest in a process that has nothing else to
// do, 1.1 ms for 0.2, because Go's timers then wait for whole milliseconds.
func (t *Turns) RestWhile(f func() bool) { t.resting = f }

// sleep waits for a time, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Do runs a query of a tenant when its turn comes. The context that f gets lets f's meters
// (package pace) end turns. Do fails with failure.ErrQueriesFull, or with the cause of
// ctx if that ends first.
func (t *Turns) Do(ctx context.Context, tenant string, f func(ctx context.Context) error) error {
	return t.do(ctx, tenant, func(ctx context.Context, _ *turn) error { return f(ctx) })
}

func (t *Turns) do(ctx context.Context, tenant string, f func(context.Context, *turn) error) error {
	q, err := t.enter(ctx, tenant)
	if err != nil {
		return err
	}
	defer q.exit()
	if err := q.wait(); err != nil {
		return err
	}
	return f(pacing.With(ctx, q.pause), q)
}

// enter adds a query, unless there are too many.
func (t *Turns) enter(ctx context.Context, tenant string) (*turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.open >= t.Places && !t.makePlace(tenant) {
		return nil, t.full(tenant)
	}
	t.mu.open++
	l := t.mu.lines[tenant]
	if l == nil {
		l = &turnLine{key: tenant}
		t.mu.lines[tenant] = l
	}
	l.users++
	return &turn{all: t, line: l, ctx: ctx, grant: make(chan struct{}, 1)}, nil
}

// makePlace takes its place from the newest query that has not begun of the tenant that has
// most queries, if that one then still has no fewer than the given one would. The lock is held.
func (t *Turns) makePlace(tenant string) bool {
	own := 0
	if l := t.mu.lines[tenant]; l != nil {
		own = l.users
	}
	var most *turnLine
	for _, l := range t.mu.lines {
		if l.fresh.Len() > 0 && (most == nil || l.users > most.users || l.users == most.users && l.key > most.key) {
			most = l
		}
	}
	if most == nil || most.users <= own+1 {
		return false
	}
	q := most.fresh.Back().Value.(*turn)
	t.leave(q)
	q.lost = true
	t.mu.open--
	most.users--
	q.grant <- struct{}{}
	return true
}

// full is failure.ErrQueriesFull, with the time after which a query of a tenant may be sent
// again: until those of the tenant have ended, and as many of each other one. The lock is held.
func (t *Turns) full(tenant string) error {
	own, others := 0, len(t.mu.lines)
	if l := t.mu.lines[tenant]; l != nil {
		own, others = l.users, others-1
	}
	ahead := retry.Shared(int64(own)+1, int64(t.mu.open-own), others) - 1
	return retry.After(failure.ErrQueriesFull, t.mu.took.Times(float64(ahead)/float64(t.Workers)))
}

// wait waits for a turn, or for the end of the query's context. A turn that the query has
// is given back in the same moment: otherwise others could have two turns in succession.
func (q *turn) wait() error {
	t := q.all
	if q.ctx.Err() != nil {
		return context.Cause(q.ctx) // exit gives the turn back
	}
	t.mu.Lock()
	if q.holds {
		q.yield()
	}
	l := q.line
	if q.begun {
		q.place = l.begun.PushBack(q)
	} else {
		q.place = l.fresh.PushBack(q)
	}
	if l.place == nil {
		l.place = t.mu.waiting.PushBack(l)
	}
	t.dispatch()
	t.mu.Unlock()
	select {
	case <-q.grant:
	case <-q.ctx.Done():
		t.mu.Lock()
		defer t.mu.Unlock()
		if q.place != nil {
			t.leave(q)
		}
		return context.Cause(q.ctx)
	}
	if q.lost {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.full(q.line.key)
	}
	q.since = t.now()
	return nil
}

// yield gives the query's turn back. The lock is held.
func (q *turn) yield() {
	q.holds = false
	q.used += q.all.now().Sub(q.since)
	q.all.mu.running--
}

// leave takes a query out of its line. The lock is held.
func (t *Turns) leave(q *turn) {
	l := q.line
	if q.begun {
		l.begun.Remove(q.place)
	} else {
		l.fresh.Remove(q.place)
	}
	q.place = nil
	if l.begun.Len()+l.fresh.Len() == 0 {
		t.mu.waiting.Remove(l.place)
		l.place = nil
	}
}

// dispatch grants turns as long as a worker is free. The lock is held.
func (t *Turns) dispatch() {
	for e := t.mu.waiting.Front(); e != nil && t.mu.running < t.Workers; {
		l := e.Value.(*turnLine)
		q := l.next(t.Begun)
		if q == nil { // all that it may begin have begun, and wait for their clients
			e = e.Next()
			continue
		}
		t.mu.waiting.MoveToBack(e)
		t.leave(q)
		if !q.begun {
			q.begun = true
			l.live++
		}
		q.holds = true
		t.mu.running++
		q.grant <- struct{}{}
		e = t.mu.waiting.Front()
	}
}

// next returns the query of a tenant whose turn it is; nil: none may have one. Those that
// have begun and those that have not alternate, so that neither wait for all of the other.
func (l *turnLine) next(most int) *turn {
	fresh, begun := l.fresh.Front(), l.begun.Front()
	if l.live >= most {
		fresh = nil
	}
	if fresh != nil && (begun == nil || l.freshFirst) {
		l.freshFirst = false
		return fresh.Value.(*turn)
	}
	l.freshFirst = true
	if begun == nil {
		return nil
	}
	return begun.Value.(*turn)
}

// release gives the turn back.
func (q *turn) release() {
	t := q.all
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.holds {
		q.yield()
		t.dispatch()
	}
}

// exit ends the query.
func (q *turn) exit() {
	q.release()
	t := q.all
	t.mu.Lock()
	defer t.mu.Unlock()
	if q.lost {
		return
	}
	l := q.line
	t.mu.open--
	if l.users--; l.users == 0 {
		delete(t.mu.lines, l.key)
	}
	if q.begun {
		t.mu.took.Add(q.used, 1)
		l.live--
		t.dispatch() // one that waits to begin
	}
}

// pause is called by the query's meters. At the end of a slice it rests, and lets others
// have their turns.
func (q *turn) pause() error {
	t := q.all
	if t.now().Sub(q.since) < t.Slice {
		return nil
	}
	if t.Rest > 0 && t.resting() {
		t.sleep(q.ctx, t.Rest)
	}
	return q.wait()
}

// outside runs f, which waits for something else, without a turn.
func (q *turn) outside(f func() error) error {
	q.release()
	if err := f(); err != nil {
		return err
	}
	return q.wait()
}

// Open returns the number of queries that have not ended.
func (t *Turns) Open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.open
}

// Query runs a query in the turns of its sender's tenant, and returns its error.
func (c *Call) Query(f func(ctx context.Context) error) error {
	held := c.Memory()
	return c.server.turns.do(c.ctx, c.Tenant(), func(ctx context.Context, q *turn) error { return f(q.taking(ctx, held)) })
}

// taking returns a context whose work reserves its memory in a reservation (package memory).
// While it waits for memory, others have their turns.
func (q *turn) taking(ctx context.Context, held *memory.Reservation) context.Context {
	return memory.With(ctx, func(n int64) error {
		if held.TryGrow(n) {
			return nil
		}
		return q.outside(func() error { return held.Grow(q.ctx, n) })
	})
}

// Turns returns what shares out the time of queries.
func (s *Server) Turns() *Turns { return s.turns }
