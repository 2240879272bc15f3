package bench

import (
	"sync"
	"sync/atomic"
	"time"
)

// Progress is how far a run is.
type Progress struct {
	Elapsed                  time.Duration
	Total, Completed, Failed int
	Left, InFlight, Waiting  int
	Outputs                  int // events that carried something of an answer
}

// liveCounts are counted while a run goes on.
type liveCounts struct {
	completed, failed, left, outputs atomic.Int64
}

// ended counts a request that has ended.
func (l *liveCounts) ended(o *outcome) {
	switch {
	case o.left:
		l.left.Add(1)
	case o.failure != "":
		l.failed.Add(1)
	default:
		l.completed.Add(1)
	}
}

// progressPause is how often the progress is told.
const progressPause = 200 * time.Millisecond

// reportProgress tells f of the progress until the function that it returns is called, and then for
// the last time.
func (r *run) reportProgress(f func(Progress)) (stop func()) {
	if f == nil {
		return func() {}
	}
	ended := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		tick := time.NewTicker(progressPause)
		defer tick.Stop()
		for {
			f(r.progress())
			select {
			case <-tick.C:
			case <-ended:
				f(r.progress())
				return
			}
		}
	})
	return func() { close(ended); telling.Wait() }
}

func (r *run) progress() Progress {
	l := &r.client.live
	p := Progress{Elapsed: r.now(), Total: len(r.requests), Completed: int(l.completed.Load()), Failed: int(l.failed.Load()), Left: int(l.left.Load()), Outputs: int(l.outputs.Load())}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.InFlight, p.Waiting = r.mu.inFlight, len(r.mu.waiting)
	return p
}
