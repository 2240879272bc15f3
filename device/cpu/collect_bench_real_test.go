package cpu

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"weir/backend"
	"weir/weights"
)

// BenchmarkStepWhileCollecting is what the garbage collector does to steps of 64
// streams: nothing to do; 50 MB of garbage per second, which is more than a
// server makes; and one collection after the other.
func BenchmarkStepWhileCollecting(b *testing.B) {
	live := make([][]byte, 1<<12) // something to mark
	for i := range live {
		live[i] = make([]byte, 1<<10)
	}
	b.Run("quiet", func(b *testing.B) { benchCollecting(b, func(stop chan struct{}) { <-stop }) })
	b.Run("garbage", func(b *testing.B) {
		benchCollecting(b, func(stop chan struct{}) {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for waitOr(stop, tick.C) {
				for i := range 50 {
					live[i] = make([]byte, 1<<10)
				}
			}
		})
	})
	b.Run("always", func(b *testing.B) {
		always := make(chan time.Time)
		close(always)
		benchCollecting(b, func(stop chan struct{}) {
			for waitOr(stop, always) {
				runtime.GC()
			}
		})
	})
	runtime.KeepAlive(live)
}

// waitOr waits for a tick. It returns false after stop.
func waitOr(stop chan struct{}, tick <-chan time.Time) bool {
	select {
	case <-stop:
		return false
	default:
	}
	select {
	case <-stop:
		return false
	case <-tick:
		return true
	}
}

// benchCollecting measures steps while another goroutine disturbs them.
func benchCollecting(b *testing.B, disturb func(stop chan struct{})) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	spec := backend.Spec{BlockTokens: 16, NumBlocks: 600, MaxTokens: 64, MaxSeqs: 64, MaxSeqTokens: 256, Depth: 1}
	r := newRunner(b, newNet(newRand(1), weights.BF16, 32), Config{Threads: 2, KVType: BF16, HugePages: true}, spec)
	f := newFeeder(newRand(2), spec)
	f.addLast(64, 1, 128)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() { defer close(stopped); disturb(stop) }()
	var times []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := r.step(&f.batch, &f.draws, &f.out); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
	}
	close(stop)
	<-stopped
	runtime.ReadMemStats(&after)
	slices.Sort(times)
	at := func(p int) float64 { return float64(times[len(times)*p/100].Microseconds()) }
	b.ReportMetric(at(50), "p50-us")
	b.ReportMetric(at(99), "p99-us")
	b.ReportMetric(float64(after.NumGC-before.NumGC), "collections")
	b.ReportMetric(float64(after.PauseTotalNs-before.PauseTotalNs)/max(1, float64(after.NumGC-before.NumGC))/1e3, "pause-us")
}
