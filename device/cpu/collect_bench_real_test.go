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
	n := newNet(newRand(1), weights.BF16, 32)
	spec := backend.Spec{BlockTokens: 16, NumBlocks: 600, MaxTokens: 64, MaxSeqs: 64, MaxSeqTokens: 256, Depth: 1}
	live := make([][]byte, 1<<12) // something to mark
	for i := range live {
		live[i] = make([]byte, 1<<10)
	}
	for name, disturb := range map[string]func(stop chan struct{}){
		"quiet": func(stop chan struct{}) { <-stop },
		"garbage": func(stop chan struct{}) {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				select {
				case <-stop:
					return
				case <-tick.C:
					for i := range 50 {
						live[i] = make([]byte, 1<<10)
					}
				}
			}
		},
		"always": func(stop chan struct{}) {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.GC()
				}
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
			r := newRunner(b, n, Config{Threads: 2, KVType: BF16, HugePages: true}, spec)
			f := newFeeder(newRand(2), spec)
			for range 64 {
				s := &sequence{tokens: make([]int32, 128), computed: 127}
				for range 8 {
					s.table, f.free = append(s.table, f.free[0]), f.free[1:]
				}
				f.add(s, 1, false)
			}
			for i := range f.draws.Rows {
				f.draws.Rows[i].Host = false
			}
			f.out.Tokens = make([]int32, 64)
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
		})
	}
	runtime.KeepAlive(live)
}
