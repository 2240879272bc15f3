package main

import (
	"runtime"
	"runtime/debug"
)

const (
	// ownMemory is what the process holds on the Go heap beside its requests: the
	// vocabulary, tables of the databases in memory, buffers.
	ownMemory = 256 << 20
	// leastRequestMemory is the least default of --memory-limit. A machine that has less
	// can still serve small requests.
	leastRequestMemory = 64 << 20
	// unknownMemory is the default of --memory-limit where the size of the machine is
	// unknown.
	unknownMemory = 4 << 30
)

// memoryPlan is how much memory the process may use for what.
type memoryPlan struct {
	requests int64 // what requests may hold (--memory-limit)
	heap     int64 // what the Go heap may grow to before garbage is collected all the time
}

// planMemory divides the memory of the machine, or 0 if that is unknown. held is what
// weights and the KV cache take of it, asked the value of --memory-limit
// or 0. Garbage needs room, too: the heap gets a quarter more than its parts. A sixteenth of
// the machine is left to the system.
//
// Measured with the bundled model on two processors, under the attacks of tools/chaos on
// memory: in a control group of 512 MiB (requests get 128 MiB) the group held at most 212 MiB,
// in one of 2 GiB (1,280 MiB) 1,434 MiB; a process with --memory-limit 2GiB 2,017 MiB. An idle
// one holds 45 MiB. What is left of ownMemory is for larger vocabularies and for databases.
func planMemory(asked, machine, held int64) memoryPlan {
	requests := asked
	switch {
	case asked == 0 && machine == 0:
		requests = unknownMemory
	case asked == 0:
		requests = max(leastRequestMemory, (machine-machine/16-held)/5*4-ownMemory)
	}
	return memoryPlan{requests: requests, heap: (requests + ownMemory) / 4 * 5}
}

// limitHeap sets the memory limit of the Go runtime, and returns a function that restores
// what it was. held is what weights and the KV cache take: they are on the heap where the
// system cannot map memory.
func (p memoryPlan) limitHeap(held int64) (restore func()) {
	heap := p.heap
	if runtime.GOOS != "linux" {
		heap += held
	}
	before := debug.SetMemoryLimit(heap)
	return func() { debug.SetMemoryLimit(before) }
}
