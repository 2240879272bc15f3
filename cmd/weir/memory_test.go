package main

import (
	"runtime/debug"
	"testing"
)

// What requests may hold, for every wish and machine: what --memory-limit says, and
// otherwise what is left beside the system, weights, KV cache and the process itself. With
// its garbage, all of that fits into the machine.
func TestPlanMemory(t *testing.T) {
	for _, c := range []struct{ asked, machine, held, requests int64 }{
		{0, 16 << 30, 5 << 30, 8<<30 - ownMemory},
		{0, 4 << 30, 1 << 30, (4<<30-256<<20-1<<30)/5*4 - ownMemory},
		{0, 1 << 30, 1 << 30, leastRequestMemory},
		{0, 0, 1 << 30, unknownMemory},
		{10 << 20, 16 << 30, 1 << 30, 10 << 20},
		{100 << 30, 16 << 30, 1 << 30, 100 << 30}, // it was asked for
	} {
		p := planMemory(c.asked, c.machine, c.held)
		if p.requests != c.requests {
			t.Errorf("%+v: %+v", c, p)
		}
		if all := p.heap + c.held + c.machine/16; c.asked == 0 && p.requests > leastRequestMemory && c.machine > 0 && all > c.machine {
			t.Errorf("%+v: %d bytes in all", c, all)
		}
		if p.heap < p.requests+ownMemory {
			t.Errorf("%+v: a heap of %d bytes", c, p.heap)
		}
	}
}

// The limit of the heap is set and restored.
func TestLimitHeap(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	p := memoryPlan{heap: 123 << 30}
	restore := p.limitHeap(0)
	if got := debug.SetMemoryLimit(-1); got < p.heap {
		t.Errorf("the limit is %d", got)
	}
	restore()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("the limit is %d, want %d as before", got, before)
	}
}
