// Package limits measures what the processors of this machine can do at most:
// read memory, multiply and add float32, multiply and add int8. A share of a
// limit that was measured in the same minute says more about a kernel than a rate
// does, because the rates of shared machines differ from hour to hour by a third.
package limits

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Rates are the results of some equal measurements, per second.
type Rates []float64

// Best is the largest of them, 0 if there are none. Whatever else the machine does can
// only make a rate smaller, so the largest is the closest to the limit.
func (r Rates) Best() float64 {
	if len(r) == 0 {
		return 0
	}
	return slices.Max(r)
}

const (
	// block is the memory that a thread claims at a time. As in a product, claims make
	// sure that a thread which is held up delays the others by little.
	block = 1 << 20
	// burst is the arithmetic between two claims, and turns that of one call:
	// microseconds, because assembly cannot be preempted.
	burst = 64
	turns = 2048
)

// loops are the fastest loops that this processor can run.
type loops struct {
	read     func(b []byte) uint64 // len(b) a multiple of 512
	readForm string
	fma      func(n int)
	fmaOps   int // operations per turn, a multiplication and an addition being two
	fmaForm  string
	dot      func(n int)
	dotOps   int
	dotForm  string
}

var best = native()

// Forms names the instructions that Meter.Read, FMA and Int8 use. Without
// assembly for this processor these are Go's loops, and their rates are less
// than a limit.
func Forms() (read, fma, int8 string) { return best.readForm, best.fmaForm, best.dotForm }

// A Meter reads memory. It is used by one goroutine at a time.
type Meter struct {
	data []byte
	free func() error
	sum  uint64
}

// Open allocates bytes, rounded up to whole blocks of 1 MiB, in huge pages where
// the system has them. They should be many times the caches'.
func Open(bytes int) (*Meter, error) {
	if bytes <= 0 {
		return nil, fmt.Errorf("limits: %d bytes of memory to read", bytes)
	}
	data, free, err := allocate((bytes + block - 1) / block * block)
	if err != nil {
		return nil, fmt.Errorf("limits: memory to read: %w", err)
	}
	m := &Meter{data: data, free: free}
	// Pages that were never written are one page of zeros.
	team(runtime.GOMAXPROCS(0), len(data)/block, func(i int) {
		b := data[i*block:][:block]
		for k := range b {
			b[k] = byte(i + k)
		}
	})
	return m, nil
}

// Close releases the memory.
func (m *Meter) Close() error {
	if m.data == nil {
		return nil
	}
	m.data = nil
	return m.free()
}

// Bytes is how much memory one measurement reads.
func (m *Meter) Bytes() int { return len(m.data) }

// Read measures how many bytes per second a number of threads read together, and does so
// passes times.
func (m *Meter) Read(threads, passes int) Rates {
	var sum atomic.Uint64
	r := measure(threads, passes, len(m.data)/block, float64(len(m.data)), func(i int) {
		sum.Add(best.read(m.data[i*block:][:block]))
	})
	m.sum = sum.Load()
	return r
}

// FMA measures float32 operations per second, multiplications and additions, in passes
// of about 10 ms.
func FMA(threads, passes int) Rates { return arithmetic(threads, passes, best.fma, best.fmaOps) }

// Int8 measures operations on 8-bit integers in the same way: products of
// unsigned with signed, summed in 32 bits.
func Int8(threads, passes int) Rates { return arithmetic(threads, passes, best.dot, best.dotOps) }

func arithmetic(threads, passes int, f func(n int), ops int) Rates {
	n := threads * 32
	return measure(threads, passes, n, float64(n)*burst*turns*float64(ops), func(int) {
		for range burst {
			f(turns)
		}
	})
}

// measure runs a job of parts that amount to work, passes times, after a pass that warms
// up. The rates are work per second.
func measure(threads, passes, parts int, work float64, part func(i int)) Rates {
	r := make(Rates, passes)
	team(threads, parts, part)
	for i := range r {
		start := time.Now()
		team(threads, parts, part)
		r[i] = work / time.Since(start).Seconds()
	}
	return r
}

// team runs parts on threads, the caller's included.
func team(threads, parts int, part func(i int)) {
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < parts; i = int(next.Add(1)) - 1 {
			part(i)
		}
	}
	var others sync.WaitGroup
	for range threads - 1 {
		others.Go(func() {
			runtime.LockOSThread() // ends with the goroutine: a thread of its own
			work()
		})
	}
	work()
	others.Wait()
}
