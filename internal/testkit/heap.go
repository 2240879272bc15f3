package testkit

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// live returns the bytes on the heap that the last garbage collection found in use.
func live() int64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return int64(s[0].Value.Uint64())
}

// Heap returns the bytes on the heap that are in use.
func Heap() int64 {
	runtime.GC()
	runtime.GC()
	return live()
}

// Highest returns the most bytes on the heap that were in use at a time while f ran, beyond
// those before it. It looks after each garbage collection, of which one follows the other, so
// that what waits to be collected does not count.
func Highest(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5))
	before := Heap()
	most := before
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
				most = max(most, live())
			}
		}
	}()
	f()
	close(stop)
	<-done
	return most - before
}
