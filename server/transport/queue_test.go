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

	"weir/server/failure"
)

func testQueue(t *testing.T, places, workers int) *Queue {
	t.Helper()
	q, err := NewQueue(places, workers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

// A project with many jobs in the queue delays another project by one job only.
func TestQueueFairBetweenProjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 100, 1)
		release := make(chan struct{})
		var order []string // needs no lock, because there is one worker
		var wg sync.WaitGroup
		submit := func(project string, n int) {
			for i := range n {
				wg.Go(func() {
					if err := q.Do(context.Background(), project, 0, func() { order = append(order, project) }); err != nil {
						t.Errorf("%s %d: %v", project, i, err)
					}
				})
				synctest.Wait() // jobs queue up in this order
			}
		}
		wg.Go(func() { _ = q.Do(context.Background(), "first", 0, func() { <-release }) })
		synctest.Wait()
		submit("a", 5)
		submit("b", 2)
		submit("c", 1)
		close(release)
		wg.Wait()
		want := "a b c a b a a a"
		if got := strings.Join(order, " "); got != want {
			t.Errorf("served in the order %q, want %q", got, want)
		}
	})
}

// Large requests never have all workers, so that a small one begins at once, however many
// large ones run and wait, of its own project too. And one large request always runs.
func TestLargeRequestsLeaveAWorker(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		synctest.Test(t, func(t *testing.T) {
			q := testQueue(t, 100, workers)
			var wg sync.WaitGroup
			large, small := make(chan struct{}), make(chan struct{})
			began := map[bool]int{}
			var mu sync.Mutex
			submit := func(size, n int, gate chan struct{}) {
				for range n {
					wg.Go(func() {
						if err := q.Do(context.Background(), "p", size, func() {
							mu.Lock()
							began[size >= LargeBody]++
							mu.Unlock()
							<-gate
						}); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait()
				}
			}
			check := func(what string, wantLarge, wantSmall int) {
				t.Helper()
				synctest.Wait()
				if began[true] != wantLarge || began[false] != wantSmall {
					t.Errorf("%d workers, %s: %d large and %d small ones began, want %d and %d", workers, what, began[true], began[false], wantLarge, wantSmall)
				}
			}
			most := max(1, workers-1)
			submit(LargeBody, 3*workers, large)
			check("only large ones", most, 0)
			submit(LargeBody-1, 1, small)
			check("a small one", most, 1)
			submit(0, 5, small)
			check("more small ones", most, 1)
			small <- struct{}{}
			check("a small one has ended", most, 2)
			large <- struct{}{}
			if most == 1 { // no other large one runs
				check("a large one has ended", 2, 2)
			} else {
				check("a large one has ended", most, 3)
			}
			close(small)
			check("all small ones", most+1, 6)
			close(large)
			check("all", 3*workers, 6)
			wg.Wait()
		})
	}
}

// A large request that waits gets the next worker that is free, however many small ones
// wait.
func TestSmallRequestsLeaveAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 100, 2)
		var wg sync.WaitGroup
		gate, large := make(chan struct{}), make(chan struct{})
		for range 10 {
			wg.Go(func() { _ = q.Do(context.Background(), "p", 0, func() { <-gate }) })
			synctest.Wait()
		}
		running := false
		wg.Go(func() { _ = q.Do(context.Background(), "p", LargeBody, func() { running = true; <-large }) })
		synctest.Wait()
		if running {
			t.Error("a third job runs beside two workers")
		}
		gate <- struct{}{}
		synctest.Wait()
		if !running {
			t.Error("the large request still waits after a worker was free")
		}
		close(gate)
		close(large)
		wg.Wait()
	})
}

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 2, 1)
		release := make(chan struct{})
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancelCause(context.Background())
		for range 3 { // one runs, two wait
			wg.Go(func() { _ = q.Do(ctx, "p", 0, func() { <-release }) })
			synctest.Wait()
		}
		if err := q.Do(context.Background(), "other", 0, func() { t.Error("ran") }); !errors.Is(err, failure.ErrQueueFull) {
			t.Errorf("a fourth request: %v, want failure.ErrQueueFull", err)
		}
		// A job that leaves makes room at once.
		cancel(failure.ErrGone)
		wg.Wait()
		if n := q.Waiting(); n != 0 {
			t.Errorf("%d jobs wait after all have left", n)
		}
		done := make(chan error, 1)
		go func() { done <- q.Do(context.Background(), "other", 0, func() {}) }()
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
		go func() { first <- q.Do(ctx, "p", 0, func() { close(running); <-release }) }()
		<-running
		second, third := make(chan error, 1), make(chan error, 1)
		ctx2, cancel2 := context.WithCancelCause(context.Background())
		go func() { second <- q.Do(ctx2, "p", 0, func() { t.Error("a job that was left ran") }) }()
		synctest.Wait()
		ran := false
		go func() { third <- q.Do(context.Background(), "p", 0, func() { ran = true }) }()
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
		err := q.Do(context.Background(), "p", 0, func() { panic("boom") })
		if !errors.Is(err, failure.ErrPanic) || !strings.Contains(err.Error(), "boom") || !strings.Contains(err.Error(), "queue_test.go") {
			t.Fatalf("got %v, want the panic with its stack", err)
		}
	}
	if err := q.Do(context.Background(), "p", 0, func() {}); err != nil {
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

// referenceQueue is the reference implementation: a list of projects in the order of
// their turns, each with its jobs.
type referenceQueue struct {
	lines   [][]waitingJob
	names   []string // of the projects
	running string   // job; "": none
	served  []string
}

type waitingJob struct {
	name  string
	leave context.CancelCauseFunc
}

func (r *referenceQueue) waiting() (n int) {
	for _, l := range r.lines {
		n += len(l)
	}
	return n
}

func (r *referenceQueue) run(name string) {
	r.running = name
	r.served = append(r.served, name)
}

func (r *referenceQueue) arrive(project string, j waitingJob) {
	if r.running == "" {
		r.run(j.name)
		return
	}
	at := slices.Index(r.names, project)
	if at < 0 {
		at, r.lines, r.names = len(r.lines), append(r.lines, nil), append(r.names, project)
	}
	r.lines[at] = append(r.lines[at], j)
}

func (r *referenceQueue) leave(line, place int) {
	if r.lines[line] = slices.Delete(slices.Clone(r.lines[line]), place, place+1); len(r.lines[line]) == 0 {
		r.lines, r.names = slices.Delete(r.lines, line, line+1), slices.Delete(r.names, line, line+1)
	}
}

// next ends the running job and runs the first of the project whose turn it is.
func (r *referenceQueue) next() {
	r.running = ""
	if len(r.lines) == 0 {
		return
	}
	l, name := r.lines[0], r.names[0]
	r.lines, r.names = r.lines[1:], r.names[1:]
	r.run(l[0].name)
	if len(l) > 1 {
		r.lines, r.names = append(r.lines, l[1:]), append(r.names, name)
	}
}

func compareWithReference(t *testing.T, seed uint64) {
	random := func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % n
	}
	const places = 8
	q := testQueue(t, places, 1)
	var want referenceQueue
	var served []string
	gate := make(chan struct{}) // lets the running job end
	var wg sync.WaitGroup
	arrive := func(i int) {
		project, name := string(rune('a'+random(4))), fmt.Sprint("job ", i)
		full := want.waiting() == places
		ctx, cancel := context.WithCancelCause(context.Background())
		refused := false
		wg.Go(func() {
			defer cancel(nil)
			err := q.Do(ctx, project, 0, func() { served = append(served, name); <-gate })
			refused = errors.Is(err, failure.ErrQueueFull)
		})
		synctest.Wait()
		if refused != full {
			t.Fatalf("step %d: refused %v with %d waiting", i, refused, want.waiting())
		}
		if !full {
			want.arrive(project, waitingJob{name, cancel})
		}
	}
	leave := func() {
		line := random(len(want.lines))
		place := random(len(want.lines[line]))
		want.lines[line][place].leave(failure.ErrGone)
		synctest.Wait()
		want.leave(line, place)
	}
	for i := range 200 {
		switch action := random(3); {
		case action == 0:
			arrive(i)
		case action == 1 && len(want.lines) > 0:
			leave()
		case action == 2 && want.running != "":
			gate <- struct{}{}
			synctest.Wait()
			want.next()
		}
		if q.Waiting() != want.waiting() {
			t.Fatalf("step %d: %d wait, want %d", i, q.Waiting(), want.waiting())
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
