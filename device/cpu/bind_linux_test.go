package cpu

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func boundTo(t *testing.T) []int {
	t.Helper()
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	var list []int
	for c := range 1024 {
		if set.IsSet(c) {
			list = append(list, c)
		}
	}
	return list
}

// TestBinding: every chunk runs on the processors of its thread, and afterwards
// the caller has the processors that it had before.
func TestBinding(t *testing.T) {
	runtime.LockOSThread() // boundTo reports on one thread
	defer runtime.UnlockOSThread()
	free := boundTo(t)
	const threads = 3
	place := anywhere(threads)
	for i := range place.cpus {
		place.cpus[i] = free[i%len(free) : i%len(free)+1]
	}
	w := startWorkers(t, place)
	var seen [threads][]int
	var all sync.WaitGroup
	all.Add(threads)
	j := newCountJob(t, threads, threads)
	j.then = func(worker, _ int) {
		seen[worker] = boundTo(t)
		all.Done()
		all.Wait()
	}
	w.run(1, threads, j)
	j.check()
	for i, got := range seen {
		if !slices.Equal(got, place.cpus[i]) {
			t.Errorf("thread %d runs on %v, not on %v", i, got, place.cpus[i])
		}
	}
	w.close()
	if got := boundTo(t); !slices.Equal(got, free) {
		t.Errorf("the caller is left on %v, it had %v", got, free)
	}
}

// TestBindingFails: a processor that does not exist is an error, after which no
// worker runs.
func TestBindingFails(t *testing.T) {
	for bad := range 2 {
		place := anywhere(2)
		place.cpus[bad] = []int{1023}
		if w, err := newWorkers(place); err == nil {
			w.close()
			t.Errorf("thread %d was bound to processor 1023", bad)
		} else if !errors.Is(err, unix.EINVAL) {
			t.Error(err)
		}
	}
	d := Default()
	d.Pin = "1023"
	if _, err := Open(d); !errors.Is(err, ErrConfig) {
		t.Errorf("Open: %v", err)
	}
}
