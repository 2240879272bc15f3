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

// Tenants have turns in proportion to their weights, and so do the projects of a tenant. Who
// has just come waits for as long as its weight says, and not for more.
func TestQueueWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 1000, 1)
		step := make(chan struct{})
		var mu sync.Mutex
		served := map[string]int{}
		ctx, cancel := context.WithCancelCause(context.Background())
		var wg sync.WaitGroup
		submit := func(turn Turn, n int) {
			for range n {
				wg.Go(func() {
					_ = q.Do(ctx, turn, func() {
						mu.Lock()
						served[turn.Tenant]++
						served[turn.Tenant+"/"+turn.Project]++
						mu.Unlock()
						select {
						case <-step:
						case <-ctx.Done():
						}
					})
				})
			}
			synctest.Wait()
		}
		serve := func(n int) {
			for range n {
				step <- struct{}{}
				synctest.Wait()
			}
		}
		submit(Turn{}, 1)
		submit(Turn{Tenant: "light", ProjectWeight: 25, Project: "1"}, 100)
		submit(Turn{Tenant: "light", Project: "2"}, 100)
		submit(Turn{Tenant: "heavy", Weight: 300}, 300)
		serve(200)
		for name, want := range map[string]int{"heavy": 150, "light": 50, "light/1": 10, "light/2": 40} {
			if got := served[name]; got < want-1 || got > want+1 {
				t.Errorf("of 200 jobs %d are of %s, want %d", got, name, want)
			}
		}
		submit(Turn{Tenant: "new", Weight: 50}, 1)
		for n := 1; served["new"] == 0; n++ {
			if serve(1); n > 10 { // 2 of light, 6 of heavy, its own, and one that runs
				t.Fatal("one that is half as heavy as light waits for more than 10 jobs")
			}
		}
		cancel(failure.ErrGone)
		wg.Wait()
	})
}

// However light, nobody loses its last place to others; the rest goes by weight.
func TestQueuePlacesByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 8, 1)
		release := make(chan struct{})
		var wg sync.WaitGroup
		var mu sync.Mutex
		done := map[string]int{}
		submit := func(tenant string, weight, n int) {
			for range n {
				wg.Go(func() {
					if err := q.Do(context.Background(), Turn{Tenant: tenant, Weight: weight}, func() { <-release }); err == nil {
						mu.Lock()
						done[tenant]++
						mu.Unlock()
					}
				})
				synctest.Wait()
			}
		}
		submit("", 0, 1)
		submit("feather", 1, 1)
		submit("light", 0, 10)
		submit("heavy", 300, 20)
		submit("feather", 1, 5)
		submit("light", 0, 5)
		close(release)
		wg.Wait()
		if done["feather"] != 1 || done["light"] != 2 || done["heavy"] != 5 {
			t.Errorf("places were %v, want 1, 2 and 5", done)
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
// reference implementation serves, with the usual weights and with others.
func TestQueueAgainstReference(t *testing.T) {
	for seed := range 50 {
		synctest.Test(t, func(t *testing.T) { compareWithReference(t, uint64(seed), map[string]int{}) })
		synctest.Test(t, func(t *testing.T) {
			compareWithReference(t, uint64(seed), map[string]int{"a": 300, "b": 50, "x": 700, "z": 40})
		})
	}
}

// referenceQueue is the reference implementation. It keeps the waiting jobs in order of
// arrival, and for tenants and projects the time of their next turn, from which it finds
// everything else anew each time.
type referenceQueue struct {
	jobs    []waitingJob
	turns   map[Turn]referenceTurn // of each tenant, with Project "*", and of each project
	clocks  map[string]int         // the newest turn of a tenant's projects, and with "" of all tenants
	now     int
	running string // job; "": none
	served  []string
	refused []string
}

// referenceTurn is when a turn comes; of those at the same time the one comes first that was
// given first.
type referenceTurn struct{ at, given int }

func (t referenceTurn) before(o referenceTurn) bool {
	return t.at < o.at || t.at == o.at && t.given < o.given
}

// give gives a tenant or a project its next turn after a time.
func (r *referenceQueue) give(whose Turn, after, weight int) {
	r.now++
	r.turns[whose] = referenceTurn{after + turnGap/weighed(weight), r.now}
}

// weighed is a weight, or the usual one.
func weighed(weight int) int {
	if weight == 0 {
		return 100
	}
	return weight
}

func tenantOf(t Turn) Turn  { return Turn{Tenant: t.Tenant, Project: "*"} }
func projectOf(t Turn) Turn { return Turn{Tenant: t.Tenant, Project: t.Project} }

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
		most, ok := r.fullest(j.turn)
		if !ok {
			r.refused = append(r.refused, j.name)
			return
		}
		r.evict(most)
	}
	if r.ofTenant(j.turn.Tenant) == 0 {
		r.give(tenantOf(j.turn), r.clocks[""], j.turn.Weight)
		r.clocks[j.turn.Tenant] = 0
	}
	if r.ofProject(j.turn) == 0 {
		r.give(projectOf(j.turn), r.clocks[j.turn.Tenant], j.turn.ProjectWeight)
	}
	r.jobs = append(r.jobs, j)
}

// fullest returns the project with most jobs for its weight of the tenant with most jobs for
// its weight, if that one has more than one that comes would have then.
func (r *referenceQueue) fullest(comes Turn) (Turn, bool) {
	pick := func(least int, among func(Turn) bool, of func(Turn) int, weight func(Turn) int, turn func(Turn) Turn) (most Turn, ok bool) {
		for _, j := range r.jobs {
			if !among(j.turn) || of(j.turn) < least {
				continue
			}
			more := of(j.turn)*weight(most) - of(most)*weight(j.turn)
			if !ok || more > 0 || more == 0 && r.turns[turn(most)].before(r.turns[turn(j.turn)]) {
				most, ok = j.turn, true
			}
		}
		return most, ok
	}
	ofTenant := func(t Turn) int { return r.ofTenant(t.Tenant) }
	weight, projectWeight := func(t Turn) int { return weighed(t.Weight) }, func(t Turn) int { return weighed(t.ProjectWeight) }
	tenant, ok := pick(2, func(Turn) bool { return true }, ofTenant, weight, tenantOf)
	if !ok {
		return tenant, false
	}
	within := func(t Turn) bool { return t.Tenant == tenant.Tenant }
	if tenant.Tenant == comes.Tenant {
		most, ok := pick(2, within, r.ofProject, projectWeight, projectOf)
		return most, ok && r.ofProject(most)*projectWeight(comes) > (r.ofProject(comes)+1)*projectWeight(most)
	}
	most, _ := pick(1, within, r.ofProject, projectWeight, projectOf)
	return most, ofTenant(tenant)*weight(comes) > (ofTenant(comes)+1)*weight(tenant)
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
		best := r.jobs[at].turn
		if a, b := tenantOf(j.turn), tenantOf(best); r.turns[a].before(r.turns[b]) || a == b && r.turns[projectOf(j.turn)].before(r.turns[projectOf(best)]) {
			at = i
		}
	}
	j := r.jobs[at]
	tenant, project := tenantOf(j.turn), projectOf(j.turn)
	r.clocks[""], r.clocks[tenant.Tenant] = r.turns[tenant].at, r.turns[project].at
	r.give(tenant, r.turns[tenant].at, j.turn.Weight)
	r.give(project, r.turns[project].at, j.turn.ProjectWeight)
	r.jobs = slices.Delete(r.jobs, at, at+1)
	r.run(j.name)
}

func compareWithReference(t *testing.T, seed uint64, weights map[string]int) {
	random := func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % n
	}
	const places = 8
	q := testQueue(t, places, 1)
	want := referenceQueue{turns: map[Turn]referenceTurn{}, clocks: map[string]int{}}
	var served, refused []string
	var mu sync.Mutex           // of refused
	gate := make(chan struct{}) // lets the running job end
	var wg sync.WaitGroup
	arrive := func(i int) {
		turn, name := Turn{Tenant: string(rune('a' + random(3))), Project: string(rune('x' + random(3)))}, fmt.Sprint("job ", i)
		turn.Weight, turn.ProjectWeight = weights[turn.Tenant], weights[turn.Project]
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
