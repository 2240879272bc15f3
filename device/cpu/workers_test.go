package cpu

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
)

// countJob counts how often each chunk ran and whether two ran at once with the
// same worker.
type countJob struct {
	t    *testing.T
	runs []atomic.Int32
	busy []atomic.Bool
	then func(worker, chunk int)
}

func newCountJob(t *testing.T, chunks, threads int) *countJob {
	return &countJob{t: t, runs: make([]atomic.Int32, chunks), busy: make([]atomic.Bool, threads), then: func(int, int) {}}
}

func (j *countJob) do(worker, chunk int) {
	if !j.busy[worker].CompareAndSwap(false, true) {
		j.t.Errorf("two chunks at once with worker %d", worker)
	}
	defer j.busy[worker].Store(false)
	j.runs[chunk].Add(1)
	j.then(worker, chunk)
}

func (j *countJob) check() {
	j.t.Helper()
	for i := range j.runs {
		if n := j.runs[i].Swap(0); n != 1 {
			j.t.Fatalf("chunk %d of %d ran %d times", i, len(j.runs), n)
		}
	}
}

// TestWorkersRunEveryChunkOnce: thousands of jobs in a row, of all sizes.
func TestWorkersRunEveryChunkOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		w := startWorkers(t, anywhere(threads))
		for round := range 3000 {
			n := round % 23
			j := newCountJob(t, n, threads)
			w.run(1, n, j)
			j.check()
		}
		w.close()
	}
}

// TestWorkersFollow: the chunk that follow promises to a worker is its next one, and all
// chunks run once, whichever worker asks and how often.
func TestWorkersFollow(t *testing.T) {
	for _, place := range []placement{anywhere(1), anywhere(2), anywhere(3), fakeNodes(1, 2), fakeNodes(2, 2)} {
		threads := len(place.node)
		w := startWorkers(t, place)
		promised := make([]int, threads) // + 1
		total := 0
		for round := range 2000 {
			n := round % 29
			j := newCountJob(t, n, threads)
			var kept atomic.Int32
			j.then = func(worker, chunk int) {
				if p := promised[worker]; p > 0 && p != chunk+1 {
					t.Errorf("worker %d computes chunk %d, not %d as promised", worker, chunk, p-1)
				}
				promised[worker] = 0
				if (chunk+round)%3 == 0 {
					return
				}
				if next, ok := w.follow(worker); ok {
					promised[worker] = next + 1
					kept.Add(1)
					if _, ok := w.follow(worker); ok {
						t.Errorf("worker %d is promised two chunks", worker)
					}
				}
			}
			w.run(1, n, j)
			j.check()
			total += int(kept.Load())
		}
		if threads > 1 && total == 0 {
			t.Errorf("%d threads: no chunk was ever promised", threads)
		}
		w.close()
	}
}

// TestWorkersOneProcessor: with fewer processors than threads no thread waits for
// one that cannot run.
func TestWorkersOneProcessor(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	w := startWorkers(t, anywhere(4))
	defer w.close()
	for range 200 {
		j := newCountJob(t, 9, 4)
		w.run(1, 9, j)
		j.check()
	}
}

// waitParked returns when all workers sleep.
func waitParked(w *workers) {
	for int(w.idle.Load()) != w.threads-1 {
		runtime.Gosched()
	}
}

// TestWorkersWake: parked workers come back for a job. Each chunk waits for all
// others, so the job ends only if every worker takes one.
func TestWorkersWake(t *testing.T) {
	for _, threads := range []int{2, 3, 5} {
		w := startWorkers(t, anywhere(threads))
		for range 20 {
			waitParked(w)
			var there atomic.Int32
			j := newCountJob(t, threads, threads)
			j.then = func(int, int) {
				there.Add(1)
				for int(there.Load()) != threads {
					runtime.Gosched()
				}
			}
			w.run(1, threads, j)
			j.check()
		}
		w.close()
	}
}

// TestWorkersCountParked: idle is never less than the number of parked workers. If it
// were zero beside one that is parked, close would not wake that one and wait forever.
func TestWorkersCountParked(t *testing.T) {
	w := startWorkers(t, anywhere(4))
	defer w.close()
	for range 300 {
		w.run(1, 64, newCountJob(t, 64, w.threads))
		for all := int32(w.threads - 1); w.idle.Load() != all; {
			parked := int32(0)
			for i := range w.parking {
				if w.parking[i].parked.Load() {
					parked++
				}
			}
			if idle := w.idle.Load(); idle < parked {
				t.Fatalf("%d idle workers, and %d are parked", idle, parked)
			}
			pause(1)
		}
	}
}

// TestWorkersPanic: a panic in a chunk, whoever runs it, reaches the caller
// when all other chunks have run, and the next job works.
func TestWorkersPanic(t *testing.T) {
	const threads, chunks = 3, 40
	w := startWorkers(t, anywhere(threads))
	defer w.close()
	for bad := range threads {
		var hit atomic.Bool
		var there atomic.Int32
		j := newCountJob(t, chunks, threads)
		j.then = func(worker, chunk int) {
			there.Add(1)
			for there.Load() < threads { // each gets a chunk
				runtime.Gosched()
			}
			if worker == bad && hit.CompareAndSwap(false, true) {
				panic("chunk broken")
			}
		}
		func() {
			defer func() {
				p, ok := recover().(*chunkPanic)
				if !ok || p.value != "chunk broken" || !strings.Contains(p.Error(), "workers_test.go") {
					t.Errorf("worker %d: recovered %v", bad, p)
				}
			}()
			w.run(1, chunks, j)
			t.Error("no panic")
		}()
		j.check()
		j.then = func(int, int) {}
		w.run(1, chunks, j)
		j.check()
	}
}

func startWorkers(t testing.TB, place placement) *workers {
	t.Helper()
	w, err := newWorkers(place)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
