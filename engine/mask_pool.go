package engine

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maskPool fills the rows of constraints on a few workers, so that no fill keeps another one
// waiting for long, whatever a client's grammar is like.
//
// A fill that takes longer than a slice moves to the slow lane: it works on in pieces, one
// fill at a time, in turn, and while there are steps to compute the lane rests after each
// piece as long as the piece took. Another worker takes its place. Go cannot interrupt a
// fill, so this happens when the fill calls its pace. One that does not is left alone after
// a while, and another worker takes its place, too, but only a few times.
type maskPool struct {
	clock func() time.Duration
	rest  func(time.Duration) // time.Sleep
	most  int                 // workers on fills that are not slow

	arrived chan struct{} // capacity 1: a row was filled
	timer   *time.Timer   // of await, which the loop alone calls
	lane    sync.Mutex    // held by the slow fill that works; a fair lock for those that wait long
	busy    atomic.Bool   // there are steps to compute
	stopped atomic.Bool

	overruns atomic.Uint64 // times that a request came under suspicion of slow fills

	mu struct {
		sync.Mutex
		wake      sync.Cond
		queue     []*constraint // from head on
		head      int
		active    []*constraint // on the workers that count
		idle      int           // workers that wait for the queue
		displaced int           // fills that do not call their pace and whose workers do not count
	}
}

func newMaskPool(workers int, clock func() time.Duration) *maskPool {
	p := &maskPool{clock: clock, rest: time.Sleep, most: workers, arrived: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	p.mu.wake.L = &p.mu.Mutex
	return p
}

// add queues c for the workers, which begin when kick is called.
func (p *maskPool) add(c *constraint) {
	p.mu.Lock()
	if !c.work.queued { // else it was filled by the loop before its turn came, and keeps its place
		c.work.queued = true
		p.mu.queue = append(p.mu.queue, c)
	}
	p.mu.Unlock()
}

// next takes the first constraint off the queue, which is not empty.
func (p *maskPool) next() *constraint {
	c := p.mu.queue[p.mu.head]
	p.mu.queue[p.mu.head] = nil
	if p.mu.head++; 2*p.mu.head >= len(p.mu.queue) {
		p.mu.queue = p.mu.queue[:copy(p.mu.queue, p.mu.queue[p.mu.head:])]
		p.mu.head = 0
	}
	c.work.queued = false
	return c
}

// waiting reports whether a worker has something to do. The caller holds mu.
func (p *maskPool) waiting() bool { return len(p.mu.queue) > p.mu.head && len(p.mu.active) < p.most }

// kick lets a worker begin with what is queued. Each worker that finds more lets another
// one begin.
func (p *maskPool) kick() {
	p.mu.Lock()
	p.startWorker()
	p.mu.Unlock()
}

// startWorker lets one more worker begin, if there is anything to do. The caller holds mu.
func (p *maskPool) startWorker() {
	switch {
	case !p.waiting():
	case p.mu.idle > 0:
		p.mu.wake.Signal()
	default:
		go p.worker()
	}
}

// close lets all workers end. Fills that are under way end when they call their pace.
func (p *maskPool) close() {
	p.stopped.Store(true)
	p.mu.Lock()
	p.mu.wake.Broadcast()
	p.mu.Unlock()
}

func (p *maskPool) worker() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for !p.stopped.Load() {
		if !p.waiting() {
			if p.mu.idle >= p.most {
				return
			}
			p.mu.idle++
			p.mu.wake.Wait()
			p.mu.idle--
			continue
		}
		c := p.next()
		if !c.state.CompareAndSwap(maskQueued, maskFilling) {
			continue // the loop has filled it
		}
		c.work.began, c.work.pieces = p.clock(), 0
		p.mu.active = append(p.mu.active, c)
		p.startWorker()
		p.mu.Unlock()
		p.fill(c)
		p.mu.Lock()
		p.left(c)
		c.state.Store(maskFilled) // from here on c is the loop's
		select {
		case p.arrived <- struct{}{}:
		default:
		}
	}
}

// fill fills the row of c, unless nobody waits for it.
func (p *maskPool) fill(c *constraint) {
	suspect := c.kin.slow.Load()
	if suspect {
		p.enterLane(c)
	}
	if !c.gone.Load() {
		c.fill()
	}
	if c.work.inLane {
		if suspect && c.work.pieces == 0 && p.clock()-c.work.began < quickAgain {
			c.kin.slow.Store(false)
		}
		p.lane.Unlock()
	}
}

// left notes that the worker of c is free. The caller holds mu.
func (p *maskPool) left(c *constraint) {
	switch {
	case c.work.inLane:
	case c.work.displaced:
		p.mu.displaced--
	default:
		p.deactivate(c)
	}
	c.work.inLane, c.work.displaced = false, false
}

// deactivate stops counting the worker of c. The caller holds mu.
func (p *maskPool) deactivate(c *constraint) {
	i := slices.Index(p.mu.active, c)
	last := len(p.mu.active) - 1
	p.mu.active[i] = p.mu.active[last]
	p.mu.active[last] = nil
	p.mu.active = p.mu.active[:last]
}

// keepPace is what a fill calls while it works (Mask.Fill).
func (c *constraint) keepPace(waiting bool) (goOn bool) {
	p := c.pool
	if c.gone.Load() || p.stopped.Load() {
		return false
	}
	worked := p.clock() - c.work.began
	switch {
	case c.work.inLane && waiting:
		p.lane.Unlock()
		p.rest(waitingForKin)
		p.lane.Lock()
	case worked < laneSlice:
		if waiting {
			p.rest(waitingForKin)
		}
		return true
	case c.work.inLane:
		if p.busy.Load() {
			p.rest(worked)
		}
		p.lane.Unlock()
		p.lane.Lock()
	default:
		p.enterLane(c)
	}
	c.work.began = p.clock()
	c.work.pieces++
	return !c.gone.Load() && !p.stopped.Load()
}

// enterLane moves a fill to the slow lane and waits for its turn there. Another worker takes
// the place of its worker.
func (p *maskPool) enterLane(c *constraint) {
	p.makeSlow(c)
	p.lane.Lock()
	c.work.began = p.clock()
}

// makeSlow moves c from the workers that count to the slow lane.
func (p *maskPool) makeSlow(c *constraint) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.work.displaced {
		p.mu.displaced--
	} else {
		p.deactivate(c)
	}
	c.work.inLane, c.work.displaced = true, false
	if !c.kin.slow.Swap(true) {
		p.overruns.Add(1)
	}
	p.startWorker()
}

// displace finds fills that have not called their pace for long and stops counting their
// workers, so that others take their places. There may be only a few of them, because
// nothing else bounds what they take from the rest of the machine.
func (p *maskPool) displace() {
	now := p.clock()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.mu.active) - 1; i >= 0 && p.mu.displaced < maxDisplaced; i-- {
		c := p.mu.active[i]
		if now-c.work.began < overdue {
			continue
		}
		p.deactivate(c)
		c.work.displaced = true
		p.mu.displaced++
		if !c.kin.slow.Swap(true) {
			p.overruns.Add(1)
		}
	}
	p.startWorker()
}

// await waits until a row was filled since the last call, but not longer than d. It reports
// false if none was.
func (p *maskPool) await(d time.Duration) bool {
	p.timer.Reset(d)
	select {
	case <-p.arrived:
		return true
	case <-p.timer.C:
		return false
	}
}
