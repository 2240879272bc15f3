//go:build linux

package cpu

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestWorkersIdle: without work the workers park soon and use no processor.
func TestWorkersIdle(t *testing.T) {
	w := startWorkers(t, anywhere(4))
	defer w.close()
	best := time.Hour
	for range 20 {
		j := newCountJob(t, 64, 4)
		w.run(1, 64, j)
		start := time.Now()
		for int(w.idle.Load()) != w.threads-1 {
			time.Sleep(10 * time.Microsecond)
		}
		best = min(best, time.Since(start))
	}
	t.Logf("parked after %v", best)
	if best > 20*spinFor {
		t.Errorf("workers parked after %v at best", best)
	}
	used := func() time.Duration {
		var r unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	const wait = 300 * time.Millisecond
	before := used()
	time.Sleep(wait)
	if u := used() - before; u > wait/20 {
		t.Errorf("%v of processor time in %v without work", u, wait)
	}
}
