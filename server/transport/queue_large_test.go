package transport

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
)

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
						if err := q.Do(context.Background(), Turn{Size: size}, func() {
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
			wg.Go(func() { _ = q.Do(context.Background(), Turn{}, func() { <-gate }) })
			synctest.Wait()
		}
		running := false
		wg.Go(func() { _ = q.Do(context.Background(), Turn{Size: LargeBody}, func() { running = true; <-large }) })
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
