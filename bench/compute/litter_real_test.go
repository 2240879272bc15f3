package compute

import (
	"runtime"
	"testing"
)

// TestLitter: garbage goes to the heap, is collected, and ends when it is told.
func TestLitter(t *testing.T) {
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	stop := litter(256 << 20)
	for now.TotalAlloc < before.TotalAlloc+16<<20 {
		runtime.Gosched()
		runtime.ReadMemStats(&now)
	}
	stop()
	runtime.ReadMemStats(&before)
	runtime.ReadMemStats(&now)
	if n := now.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes after the end", n)
	}
	litter(0)()
}
