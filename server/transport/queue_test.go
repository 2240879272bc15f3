package transport

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/retry"
	"weir/server/failure"
)

func testQueue(t *testing.T, places, workers int) *Queue {
	t.Helper()
	q, err := NewQueue(places, workers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { q.Close(time.Second) })
	return q
}

// A tenant with many jobs in the queue delays another tenant by one job only, and so does a
// project of a tenant another one of it. More projects do not give a tenant more turns.
func TestQueueFairness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 100, 1)
		release := make(chan struct{})
		var order []string // needs no lock, because there is one worker
		var wg sync.WaitGroup
		submit := func(tenant, project string, n int) {
			for i := range n {
				wg.Go(func() {
					if err := q.Do(context.Background(), Turn{Tenant: tenant, Project: project}, func() { order = append(order, tenant+project) }); err != nil {
						t.Errorf("%s %s %d: %v", tenant, project, i, err)
					}
				})
				synctest.Wait() // jobs queue up in this order
			}
		}
		wg.Go(func() { _ = q.Do(context.Background(), Turn{}, func() { <-release }) })
		synctest.Wait()
		submit("a", "1", 4)
		submit("b", "", 2)
		submit("c", "", 1)
		submit("a", "2", 2)
		submit("a", "3", 1)
		close(release)
		wg.Wait()
		want := "a1 b c a2 b a3 a1 a2 a1 a1"
		if got := strings.Join(order, " "); got != want {
			t.Errorf("served in the order %q, want %q", got, want)
		}
	})
}

// Nobody keeps others out by taking all places: the newest job of the tenant that has most
// of them goes, and of its projects that of the one that has most. Among those that have
// equally many, whoever comes last is refused.
func TestQueuePlacesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 4, 1)
		release := make(chan struct{})
		var wg sync.WaitGroup
		results := map[string]error{}
		var mu sync.Mutex
		submit := func(name, tenant, project string) {
			wg.Go(func() {
				err := q.Do(context.Background(), Turn{Tenant: tenant, Project: project}, func() { <-release })
				mu.Lock()
				results[name] = err
				mu.Unlock()
			})
			synctest.Wait()
		}
		refused := func(name string) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if len(results) != 1 || !errors.Is(results[name], failure.ErrQueueFull) {
				t.Errorf("refused %v, want %s", results, name)
			}
			clear(results)
		}
		submit("running", "a", "1")
		for _, name := range []string{"a1", "a2", "a3", "a4"} {
			submit(name, "a", "1")
		}
		submit("a5", "a", "1")
		refused("a5")
		submit("other project", "a", "2") // 3 of project 1, 1 of project 2
		refused("a4")
		submit("b1", "b", "")
		refused("a3")
		submit("b2", "b", "") // two each
		refused("a2")
		submit("b3", "b", "")
		refused("b3")
		submit("a6", "a", "1")
		refused("a6")
		submit("c1", "c", "")
		refused("b2") // b has come later than a
		close(release)
		wg.Wait()
		for name, err := range results {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 2, 1)
		release := make(chan struct{})
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancelCause(context.Background())
		for range 3 { // one runs, two wait
			wg.Go(func() { _ = q.Do(ctx, Turn{Tenant: "p"}, func() { <-release }) })
			synctest.Wait()
		}
		if err := q.Do(context.Background(), Turn{Tenant: "p"}, func() { t.Error("ran") }); !errors.Is(err, failure.ErrQueueFull) {
			t.Errorf("a fourth request: %v, want failure.ErrQueueFull", err)
		}
		// A job that leaves makes room at once.
		cancel(failure.ErrGone)
		wg.Wait()
		if n := q.Waiting(); n != 0 {
			t.Errorf("%d jobs wait after all have left", n)
		}
		done := make(chan error, 1)
		go func() { done <- q.Do(context.Background(), Turn{Tenant: "other"}, func() {}) }()
		synctest.Wait()
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// When its context ends, a job leaves the queue from any place, and Do returns the cause.
func TestQueueLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 10, 1)
		release, running := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancelCause(context.Background())
		first := make(chan error, 1)
		go func() { first <- q.Do(ctx, Turn{Tenant: "p"}, func() { close(running); <-release }) }()
		<-running
		second, third := make(chan error, 1), make(chan error, 1)
		ctx2, cancel2 := context.WithCancelCause(context.Background())
		go func() { second <- q.Do(ctx2, Turn{Tenant: "p"}, func() { t.Error("a job that was left ran") }) }()
		synctest.Wait()
		ran := false
		go func() { third <- q.Do(context.Background(), Turn{Tenant: "p"}, func() { ran = true }) }()
		synctest.Wait()
		cancel2(failure.ErrGone)
		if err := <-second; !errors.Is(err, failure.ErrGone) {
			t.Errorf("waiting: %v", err)
		}
		cancel(failure.ErrGone)
		if err := <-first; !errors.Is(err, failure.ErrGone) { // its job runs on
			t.Errorf("running: %v", err)
		}
		close(release)
		if err := <-third; err != nil || !ran {
			t.Errorf("the job after it: ran %v, %v", ran, err)
		}
	})
}

func TestQueuePanicIsAnError(t *testing.T) {
	q := testQueue(t, 10, 2)
	for range 5 {
		err := q.Do(context.Background(), Turn{Tenant: "p"}, func() { panic("boom") })
		if !errors.Is(err, failure.ErrPanic) || !strings.Contains(err.Error(), "boom") || !strings.Contains(err.Error(), "queue_test.go") {
			t.Fatalf("got %v, want the panic with its stack", err)
		}
	}
	if err := q.Do(context.Background(), Turn{Tenant: "p"}, func() {}); err != nil {
		t.Fatal(err)
	}
}

// Whatever the order of arrivals, departures and ends, the queue serves what the
// reference implementation serves: round robin over lists.
func TestQueueAgainstReference(t *testing.T) {
	for seed := range 50 {
		synctest.Test(t, func(t *testing.T) { compareWithReference(t, uint64(seed)) })
	}
}

// referenceQueue is the reference implementation. It keeps the waiting jobs in order of
// arrival, and for tenants and projects the time of their last turn, or of their arrival in
// the queue, from which it finds everything else anew each time.
type referenceQueue struct {
	jobs    []waitingJob
	turns   map[Turn]int // of each tenant, with Project "*", and of each project, the time
	now     int
	running string // job; "": none
	served  []string
	refused []string
}

type waitingJob struct {
	name  string
	turn  Turn
	leave context.CancelCauseFunc
}

func (r *referenceQueue) run(name string) {
	r.running = name
	r.served = append(r.served, name)
}

func (r *referenceQueue) count(is func(waitingJob) bool) (n int) {
	for _, j := range r.jobs {
		if is(j) {
			n++
		}
	}
	return n
}

func (r *referenceQueue) ofTenant(tenant string) int {
	return r.count(func(j waitingJob) bool { return j.turn.Tenant == tenant })
}

func (r *referenceQueue) ofProject(turn Turn) int {
	return r.count(func(j waitingJob) bool { return j.turn == turn })
}

// arrive queues j in a queue of so many places.
func (r *referenceQueue) arrive(j waitingJob, places int) {
	if r.running == "" {
		r.run(j.name)
		return
	}
	if len(r.jobs) == places {
		most := r.fullest()
		have, mine := r.ofTenant(most.Tenant), r.ofTenant(j.turn.Tenant)
		if most.Tenant == j.turn.Tenant {
			have, mine = r.ofProject(most), r.ofProject(j.turn)
		}
		if have <= mine+1 {
			r.refused = append(r.refused, j.name)
			return
		}
		r.evict(most)
	}
	r.now++
	if r.ofTenant(j.turn.Tenant) == 0 {
		r.turns[Turn{Tenant: j.turn.Tenant, Project: "*"}] = r.now
	}
	if r.ofProject(j.turn) == 0 {
		r.turns[j.turn] = r.now
	}
	r.jobs = append(r.jobs, j)
}

// fullest returns the project with most jobs of the tenant with most jobs.
func (r *referenceQueue) fullest() (most Turn) {
	last := func(a, b int, x, y Turn) bool { return a > b || a == b && r.turns[x] > r.turns[y] }
	most = r.jobs[0].turn
	for _, j := range r.jobs {
		if last(r.ofTenant(j.turn.Tenant), r.ofTenant(most.Tenant), Turn{Tenant: j.turn.Tenant, Project: "*"}, Turn{Tenant: most.Tenant, Project: "*"}) {
			most = j.turn
		}
	}
	for _, j := range r.jobs {
		if j.turn.Tenant == most.Tenant && last(r.ofProject(j.turn), r.ofProject(most), j.turn, most) {
			most = j.turn
		}
	}
	return most
}

// evict refuses the newest job of a project.
func (r *referenceQueue) evict(turn Turn) {
	for i := len(r.jobs) - 1; ; i-- {
		if r.jobs[i].turn == turn {
			r.refused = append(r.refused, r.jobs[i].name)
			r.jobs = slices.Delete(r.jobs, i, i+1)
			return
		}
	}
}

// next ends the running job and runs the first of the project whose turn it is.
func (r *referenceQueue) next() {
	r.running = ""
	if len(r.jobs) == 0 {
		return
	}
	at := 0
	for i, j := range r.jobs {
		a, b := r.turns[Turn{Tenant: j.turn.Tenant, Project: "*"}], r.turns[Turn{Tenant: r.jobs[at].turn.Tenant, Project: "*"}]
		if a < b || a == b && r.turns[j.turn] < r.turns[r.jobs[at].turn] {
			at = i
		}
	}
	j := r.jobs[at]
	r.now++
	r.turns[Turn{Tenant: j.turn.Tenant, Project: "*"}], r.turns[j.turn] = r.now, r.now
	r.jobs = slices.Delete(r.jobs, at, at+1)
	r.run(j.name)
}

func compareWithReference(t *testing.T, seed uint64) {
	random := func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % n
	}
	const places = 8
	q := testQueue(t, places, 1)
	want := referenceQueue{turns: map[Turn]int{}}
	var served, refused []string
	var mu sync.Mutex           // of refused
	gate := make(chan struct{}) // lets the running job end
	var wg sync.WaitGroup
	arrive := func(i int) {
		turn, name := Turn{Tenant: string(rune('a' + random(3))), Project: string(rune('x' + random(3)))}, fmt.Sprint("job ", i)
		ctx, cancel := context.WithCancelCause(context.Background())
		wg.Go(func() {
			defer cancel(nil)
			if errors.Is(q.Do(ctx, turn, func() { served = append(served, name); <-gate }), failure.ErrQueueFull) {
				mu.Lock()
				refused = append(refused, name)
				mu.Unlock()
			}
		})
		synctest.Wait()
		want.arrive(waitingJob{name, turn, cancel}, places)
		// The new job and one that loses its place may be refused in any order.
		if slices.Sort(refused); !slices.Equal(refused, slices.Sorted(slices.Values(want.refused))) {
			t.Fatalf("step %d: refused %v, want %v", i, refused, want.refused)
		}
	}
	leave := func() {
		at := random(len(want.jobs))
		want.jobs[at].leave(failure.ErrGone)
		synctest.Wait()
		want.jobs = slices.Delete(want.jobs, at, at+1)
	}
	for i := range 200 {
		switch action := random(4); {
		case action <= 1:
			arrive(i)
		case action == 2 && len(want.jobs) > 0:
			leave()
		case action == 3 && want.running != "":
			gate <- struct{}{}
			synctest.Wait()
			want.next()
		}
		if q.Waiting() != len(want.jobs) {
			t.Fatalf("step %d: %d wait, want %d", i, q.Waiting(), len(want.jobs))
		}
	}
	close(gate)
	wg.Wait()
	for want.running != "" {
		want.next()
	}
	if !slices.Equal(served, want.served) {
		t.Fatalf("served %v\n  want %v", served, want.served)
	}
}

// Who is refused is told how long the jobs before its own take, as long as jobs took before.
// Those that wait of other projects and tenants count as far as they have turns before.
func TestQueueSaysWhenToRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 8, 1)
		clock := time.Unix(0, 0) // there is one worker
		q.now = func() time.Time { return clock }
		ctx := t.Context()
		release := make(chan struct{})
		var wg sync.WaitGroup
		after := map[string]time.Duration{}
		var mu sync.Mutex
		submit := func(tenant, project string) {
			wg.Go(func() {
				if err := q.Do(ctx, Turn{Tenant: tenant, Project: project}, func() { <-release }); err != nil {
					mu.Lock()
					after[tenant+project] = retry.Of(err)
					mu.Unlock()
				}
			})
			synctest.Wait()
		}
		refused := func(name string, want time.Duration) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if got, ok := after[name]; len(after) != 1 || !ok || got.Round(100*time.Millisecond) != want {
				t.Errorf("refused %v, want %s after %v", after, name, want)
			}
			clear(after)
		}
		for range 9 {
			submit("a", "1")
		}
		submit("a", "1")
		refused("a1", 0) // no job has ended yet
		close(release)
		wg.Wait()
		for range 300 { // each takes two seconds
			if err := q.Do(ctx, Turn{}, func() { clock = clock.Add(2 * time.Second) }); err != nil {
				t.Fatal(err)
			}
		}
		release = make(chan struct{})
		for range 9 {
			submit("a", "1")
		}
		submit("a", "1")
		refused("a1", 9*2*time.Second)
		submit("b", "") // in place of one of a
		refused("a1", (7+1)*2*time.Second)
		close(release)
		wg.Wait()
	})
}
