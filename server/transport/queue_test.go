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

// A project that floods the queue delays another one by a job, not by its flood.
func TestQueueFairBetweenProjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 100, 1)
		release := make(chan struct{})
		var order []string // one worker: no lock
		var wg sync.WaitGroup
		submit := func(project string, n int) {
			for i := range n {
				wg.Go(func() {
					if err := q.Do(context.Background(), project, func() { order = append(order, project) }); err != nil {
						t.Errorf("%s %d: %v", project, i, err)
					}
				})
				synctest.Wait() // jobs queue up in this order
			}
		}
		wg.Go(func() { _ = q.Do(context.Background(), "first", func() { <-release }) })
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

func TestQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 2, 1)
		release := make(chan struct{})
		var wg sync.WaitGroup
		ctx, cancel := context.WithCancelCause(context.Background())
		for range 3 { // one runs, two wait
			wg.Go(func() { _ = q.Do(ctx, "p", func() { <-release }) })
			synctest.Wait()
		}
		if err := q.Do(context.Background(), "other", func() { t.Error("ran") }); !errors.Is(err, failure.ErrQueueFull) {
			t.Errorf("a fourth request: %v, want failure.ErrQueueFull", err)
		}
		// Whoever leaves makes room at once.
		cancel(failure.ErrGone)
		wg.Wait()
		if n := q.Waiting(); n != 0 {
			t.Errorf("%d jobs wait after all have left", n)
		}
		done := make(chan error, 1)
		go func() { done <- q.Do(context.Background(), "other", func() {}) }()
		synctest.Wait()
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// Leaving takes a job out wherever it stands, and returns the cause.
func TestQueueLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := testQueue(t, 10, 1)
		release, running := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancelCause(context.Background())
		first := make(chan error, 1)
		go func() { first <- q.Do(ctx, "p", func() { close(running); <-release }) }()
		<-running
		second, third := make(chan error, 1), make(chan error, 1)
		ctx2, cancel2 := context.WithCancelCause(context.Background())
		go func() { second <- q.Do(ctx2, "p", func() { t.Error("a job that was left ran") }) }()
		synctest.Wait()
		ran := false
		go func() { third <- q.Do(context.Background(), "p", func() { ran = true }) }()
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
			t.Errorf("the job behind: ran %v, %v", ran, err)
		}
	})
}

func TestQueuePanicIsAnError(t *testing.T) {
	q := testQueue(t, 10, 2)
	for range 5 {
		err := q.Do(context.Background(), "p", func() { panic("boom") })
		if !errors.Is(err, failure.ErrPanic) || !strings.Contains(err.Error(), "boom") || !strings.Contains(err.Error(), "queue_test.go") {
			t.Fatalf("got %v, want the panic with its stack", err)
		}
	}
	if err := q.Do(context.Background(), "p", func() {}); err != nil {
		t.Fatal(err)
	}
}

// Against an obvious twin: whatever order of arrivals, departures and ends, the
// queue serves what round robin over lists serves.
func TestQueueTwin(t *testing.T) {
	for seed := range 50 {
		synctest.Test(t, func(t *testing.T) { queueTwin(t, uint64(seed)) })
	}
}

func queueTwin(t *testing.T, seed uint64) {
	random := func(n int) int {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int(seed>>33) % n
	}
	q := testQueue(t, 8, 1)
	type entry struct {
		name   string
		cancel context.CancelCauseFunc
	}
	var lines [][]entry // the twin: projects in turn order
	var names []string
	var served, want []string
	gate := make(chan struct{}) // lets the running job end
	running := ""
	waiting := func() (n int) {
		for _, l := range lines {
			n += len(l)
		}
		return n
	}
	next := func() {
		running = ""
		if len(lines) == 0 {
			return
		}
		l, name := lines[0], names[0]
		lines, names = lines[1:], names[1:]
		running = l[0].name
		want = append(want, running)
		if len(l) > 1 {
			lines, names = append(lines, l[1:]), append(names, name)
		}
	}
	var wg sync.WaitGroup
	for i := range 200 {
		switch random(3) {
		case 0: // a job arrives
			project, name := string(rune('a'+random(4))), fmt.Sprint("job ", i)
			full := waiting() == 8
			ctx, cancel := context.WithCancelCause(context.Background())
			refused := false
			wg.Go(func() {
				defer cancel(nil)
				err := q.Do(ctx, project, func() { served = append(served, name); <-gate })
				refused = errors.Is(err, failure.ErrQueueFull)
			})
			synctest.Wait()
			switch {
			case refused != full:
				t.Fatalf("step %d: refused %v with %d waiting", i, refused, waiting())
			case full:
			case running == "":
				running = name
				want = append(want, name)
			default:
				at := slices.Index(names, project)
				if at < 0 {
					at, lines, names = len(lines), append(lines, nil), append(names, project)
				}
				lines[at] = append(lines[at], entry{name, cancel})
			}
		case 1: // one that waits leaves
			if len(lines) == 0 {
				continue
			}
			l := random(len(lines))
			k := random(len(lines[l]))
			lines[l][k].cancel(failure.ErrGone)
			synctest.Wait()
			if lines[l] = slices.Delete(slices.Clone(lines[l]), k, k+1); len(lines[l]) == 0 {
				lines, names = slices.Delete(lines, l, l+1), slices.Delete(names, l, l+1)
			}
		case 2: // the running one ends
			if running == "" {
				continue
			}
			gate <- struct{}{}
			synctest.Wait()
			next()
		}
		if q.Waiting() != waiting() {
			t.Fatalf("step %d: %d wait, want %d", i, q.Waiting(), waiting())
		}
	}
	close(gate)
	wg.Wait()
	for running != "" {
		next()
	}
	if !slices.Equal(served, want) {
		t.Fatalf("served %v\n  want %v", served, want)
	}
}
