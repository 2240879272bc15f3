package cpu

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// pauseJob waits for a number of PAUSE instructions per chunk.
type pauseJob struct{ pauses int }

func (j *pauseJob) do(int, int) {
	if j.pauses > 0 {
		pause(j.pauses)
	}
}

// BenchmarkForkJoin is what sharing a job out costs: bodies of nothing and of
// about 3 microseconds, by workers and, for comparison, by goroutines.
func BenchmarkForkJoin(b *testing.B) {
	const threads = 2
	start := time.Now()
	pause(1 << 16)
	body := int(2700 * (1 << 16) / time.Since(start).Nanoseconds())
	percentiles := func(b *testing.B, f func()) {
		const batch = 50
		var times []time.Duration
		for b.Loop() {
			start := time.Now()
			for range batch {
				f()
			}
			times = append(times, time.Since(start)/batch)
		}
		slices.Sort(times)
		at := func(p int) float64 { return float64(times[len(times)*p/100].Nanoseconds()) }
		b.ReportMetric(at(0), "min-ns")
		b.ReportMetric(at(50), "p50-ns")
		b.ReportMetric(at(90), "p90-ns")
		b.ReportMetric(at(99), "p99-ns")
	}
	for _, pauses := range []int{0, body} {
		for _, chunks := range []int{2, 16} {
			j := &pauseJob{pauses * threads / chunks}
			name := fmt.Sprintf("pauses=%d/chunks=%d", pauses, chunks)
			b.Run("workers/"+name, func(b *testing.B) {
				w := startWorkers(b, anywhere(threads))
				defer w.close()
				percentiles(b, func() { w.run(1, chunks, j) })
			})
			b.Run("goroutines/"+name, func(b *testing.B) {
				percentiles(b, func() {
					var g sync.WaitGroup
					for c := range chunks {
						g.Go(func() { j.do(0, c) })
					}
					g.Wait()
				})
			})
		}
	}
}
