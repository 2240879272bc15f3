package compute

import (
	"runtime"
	"testing"
)

// TestAllocateGarbage: garbage is allocated on the heap, and no more of it after stop.
func TestAllocateGarbage(t *testing.T) {
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	stop := allocateGarbage(256 << 20)
	for now.TotalAlloc < before.TotalAlloc+16<<20 {
		runtime.Gosched()
		runtime.ReadMemStats(&now)
	}
	stop()
	runtime.ReadMemStats(&before)
	runtime.ReadMemStats(&now)
	if n := now.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes after stop", n)
	}
	allocateGarbage(0)()
}
