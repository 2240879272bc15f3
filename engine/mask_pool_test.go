package engine

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weir/backend"
)

// fakeClock is a clock that goes on when it is told to.
type fakeClock struct{ now atomic.Int64 }

func (c *fakeClock) read() time.Duration     { return time.Duration(c.now.Load()) }
func (c *fakeClock) advance(d time.Duration) { c.now.Add(int64(d)) }

// poolTest is a mask pool on a fakeClock.
type poolTest struct {
	*testing.T
	*maskPool
	clock *fakeClock

	mu    sync.Mutex
	rests []time.Duration
}

func newPoolTest(t *testing.T, workers int) *poolTest {
	p := &poolTest{T: t, clock: &fakeClock{}}
	p.maskPool = newMaskPool(workers, p.clock.read)
	p.rest = func(d time.Duration) {
		p.mu.Lock()
		p.rests = append(p.rests, d)
		p.mu.Unlock()
		p.clock.advance(d)
	}
	t.Cleanup(p.close)
	return p
}

// wait waits until f is true.
func (p *poolTest) wait(what string, f func() bool) {
	p.Helper()
	for patience := time.Now().Add(20 * time.Second); !f(); runtime.Gosched() {
		if time.Now().After(patience) {
			p.Fatalf("in 20 s it did not happen that %s", what)
		}
	}
}

// read calls f with the lock of the pool.
func (p *poolTest) read(f func() int) int {
	p.maskPool.mu.Lock()
	defer p.maskPool.mu.Unlock()
	return f()
}

// scriptedMask is a mask whose fill is a function. It allows all tokens.
type scriptedMask struct {
	fill func(pace func(bool) bool) error
}

func (m *scriptedMask) Only() int32       { return -1 }
func (m *scriptedMask) Accept(int32) bool { return true }
func (m *scriptedMask) Quick(int32) bool  { return false }
func (m *scriptedMask) Fill(row []uint32, pace func(bool) bool) error {
	for i := range row {
		row[i] = 7
	}
	return m.fill(pace)
}

// request requests a row that fill fills.
func (p *poolTest) request(kin *kinship, fill func(pace func(bool) bool) error) *constraint {
	k := p.constraint(kin, fill)
	k.request(2)
	p.kick()
	return k
}

func (p *poolTest) constraint(kin *kinship, fill func(pace func(bool) bool) error) *constraint {
	k := &constraint{mask: &scriptedMask{fill}, pool: p.maskPool, kin: kin, token: -1}
	k.pace = k.keepPace
	return k
}

func filled(k *constraint) func() bool { return func() bool { return k.state.Load() == maskFilled } }

var errGivenUp = errors.New("given up")

// quick is a fill that takes no time.
func quick(func(bool) bool) error { return nil }

// slow is a fill that works for so many pieces of the slow lane.
func (p *poolTest) slow(pieces int) func(func(bool) bool) error {
	return func(pace func(bool) bool) error {
		for range pieces {
			if p.clock.advance(laneSlice); !pace(false) {
				return errGivenUp
			}
		}
		return nil
	}
}

// held is a fill that calls its pace until release is closed. Each call comes after a piece
// of work.
func (p *poolTest) held(release chan struct{}) func(func(bool) bool) error {
	return func(pace func(bool) bool) error {
		for {
			select {
			case <-release:
				return nil
			default:
			}
			if p.clock.advance(laneSlice); !pace(false) {
				return errGivenUp
			}
		}
	}
}

// TestMaskPoolSlowLane: a fill that takes longer than a slice goes to the slow lane, once for
// its request, and a single worker fills the masks of others meanwhile. What is quick again
// comes out of suspicion.
func TestMaskPoolSlowLane(t *testing.T) {
	p := newPoolTest(t, 1)
	release := make(chan struct{})
	slow, other := &kinship{}, &kinship{}
	k := p.request(slow, p.held(release))
	p.wait("the fill is in the slow lane", slow.slow.Load)
	for range 50 {
		n := p.request(other, quick)
		p.wait("a neighbour's row is filled", filled(n))
		if n.err != nil || n.row[0] != 7 {
			t.Fatalf("the neighbour's row is %v, %v", n.row, n.err)
		}
	}
	if other.slow.Load() || k.state.Load() != maskFilling || p.overruns.Load() != 1 {
		t.Errorf("suspicion of the neighbour: %v, state of the slow one: %d, overruns: %d", other.slow.Load(), k.state.Load(), p.overruns.Load())
	}
	close(release)
	p.wait("the slow row is filled", filled(k))
	if k.err != nil || !slow.slow.Load() {
		t.Errorf("%v, suspicion %v", k.err, slow.slow.Load())
	}
	p.wait("the next row is filled", filled(p.request(slow, quick)))
	if slow.slow.Load() {
		t.Error("a quick fill did not end the suspicion")
	}
}

// TestMaskPoolRests: while there are steps to compute, the slow lane rests after each piece
// for as long as the piece took; otherwise it does not.
func TestMaskPoolRests(t *testing.T) {
	for _, busy := range []bool{false, true} {
		p := newPoolTest(t, 1)
		p.busy.Store(busy)
		k := p.request(&kinship{}, p.slow(5))
		p.wait("the row is filled", filled(k))
		var want []time.Duration
		if busy {
			want = slices.Repeat([]time.Duration{laneSlice}, 4) // the first piece was not in the lane
		}
		if p.mu.Lock(); !slices.Equal(p.rests, want) {
			t.Errorf("busy %v: rests of %v, want %v", busy, p.rests, want)
		}
		p.mu.Unlock()
		if k.work.pieces != 5 {
			t.Errorf("busy %v: %d pieces", busy, k.work.pieces)
		}
	}
}

// TestMaskPoolTurns: slow fills take turns in their lane, so that a short one does not wait for
// the end of a long one. One works at a time.
func TestMaskPoolTurns(t *testing.T) {
	p := newPoolTest(t, 2)
	release := make(chan struct{})
	var working, most atomic.Int32
	piece := func(pace func(bool) bool) bool {
		n := working.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		p.clock.advance(laneSlice)
		working.Add(-1)
		return pace(false)
	}
	fill := func(pieces int) func(func(bool) bool) error {
		return func(pace func(bool) bool) error {
			for range pieces {
				if !piece(pace) {
					return errGivenUp
				}
			}
			return nil
		}
	}
	endless := p.request(&kinship{}, func(pace func(bool) bool) error {
		for {
			select {
			case <-release:
				return nil
			default:
				if !piece(pace) {
					return errGivenUp
				}
			}
		}
	})
	p.wait("the endless fill is in the lane", endless.kin.slow.Load)
	most.Store(0)
	suspect := &kinship{}
	suspect.slow.Store(true) // so that it begins in the lane
	p.wait("a shorter one is filled", filled(p.request(suspect, fill(20))))
	if endless.state.Load() != maskFilling || most.Load() != 1 {
		t.Errorf("state of the endless one: %d; up to %d worked at a time", endless.state.Load(), most.Load())
	}
	close(release)
	p.wait("the endless one ends", filled(endless))
}

// TestMaskPoolOrder: rows are filled in the order in which they were requested, but those of
// choices that have ended are not filled.
func TestMaskPoolOrder(t *testing.T) {
	p := newPoolTest(t, 1)
	var order []int
	var all []*constraint
	for i := range 20 {
		k := p.constraint(&kinship{}, func(func(bool) bool) error { order = append(order, i); return nil })
		k.gone.Store(i%5 == 3)
		k.request(2)
		all = append(all, k)
	}
	p.kick()
	for _, k := range all {
		p.wait("a row is filled", filled(k))
	}
	want := []int{0, 1, 2, 4, 5, 6, 7, 9, 10, 11, 12, 14, 15, 16, 17, 19}
	if !slices.Equal(order, want) {
		t.Errorf("filled %v, want %v", order, want)
	}
}

// TestMaskPoolDisplaces: a fill that does not call its pace keeps its place for so long, and
// then another worker has it; but there may be only so many such fills.
func TestMaskPoolDisplaces(t *testing.T) {
	p := newPoolTest(t, 1)
	release := make(chan struct{})
	rude := func(func(bool) bool) error { <-release; return nil }
	var stuck []*constraint
	for range maxDisplaced {
		k := p.request(&kinship{}, rude)
		stuck = append(stuck, k)
		p.wait("it is being filled", func() bool { return k.state.Load() == maskFilling })
		p.read(func() int { return 0 }) // from state to the time of its beginning, the worker holds the lock
		p.clock.advance(overdue - 1)
		if p.displace(); k.kin.slow.Load() {
			t.Fatal("a fill was displaced too early")
		}
		p.clock.advance(1)
		if p.displace(); !k.kin.slow.Load() {
			t.Fatal("a fill was not displaced")
		}
		p.wait("a neighbour's row is filled", filled(p.request(&kinship{}, quick)))
	}
	last := p.request(&kinship{}, rude)
	p.wait("it is being filled", func() bool { return last.state.Load() == maskFilling })
	neighbour := p.request(&kinship{}, quick)
	p.clock.advance(10 * overdue)
	p.displace()
	if last.kin.slow.Load() || neighbour.state.Load() != maskQueued {
		t.Errorf("more than %d fills were displaced", maxDisplaced)
	}
	close(release)
	for _, k := range append(stuck, last, neighbour) {
		p.wait("its row is filled", filled(k))
	}
	if n := p.read(func() int { return p.maskPool.mu.displaced + len(p.maskPool.mu.active) }); n != 0 {
		t.Errorf("%d workers are still counted", n)
	}
}

// TestMaskPoolClose: fills under way end when they call their pace, and all workers end.
func TestMaskPoolClose(t *testing.T) {
	p := newPoolTest(t, 2)
	k := p.request(&kinship{}, p.held(nil))
	p.wait("it is slow", k.kin.slow.Load)
	p.wait("another one is filled", filled(p.request(&kinship{}, quick)))
	p.wait("a worker is idle", func() bool { return p.read(func() int { return p.maskPool.mu.idle }) > 0 })
	p.close()
	p.wait("the fill has ended", filled(k))
	if !errors.Is(k.err, errGivenUp) {
		t.Errorf("it ended with %v", k.err)
	}
	p.wait("no worker is left", func() bool {
		return p.read(func() int { return p.maskPool.mu.idle + len(p.maskPool.mu.active) }) == 0
	})
}

// TestLateMaskAndItsStep: a step that needs a mask which does not get ready goes on, with a mask
// of ones that is marked as late. The wait is charged to the account and to the request; when
// either is used up there is no wait at all. The row that is ready is in the step, as it is.
func TestLateMaskAndItsStep(t *testing.T) {
	e := New(Config{MaskWait: time.Hour}, nil) // only the account ends a wait
	e.spec = backend.Spec{VocabSize: 64}
	e.masks.most = 2 // one for the mask that is late
	defer e.masks.close()
	release := make(chan struct{})
	defer close(release)
	masked := func(fill func(func(bool) bool) error) *choice {
		k := &constraint{mask: &scriptedMask{fill}, pool: e.masks, kin: &kinship{}, token: -1}
		k.pace = k.keepPace
		return &choice{constraint: k, times: choiceTimes{scheduled: 0}}
	}
	late, ready := masked(func(func(bool) bool) error { <-release; return nil }), masked(quick)
	for _, c := range []struct {
		name          string
		saved, waited time.Duration
		least, most   time.Duration
	}{
		{"it waits", maskWaitSaved, 0, maskWaitSaved, time.Hour},
		{"the account is empty", 0, 0, 0, time.Hour},
		{"the request has had its share", maskWaitSaved, requestWait, 0, 0},
	} {
		s := &e.steps[0]
		s.draws.Reset()
		s.masked = s.masked[:0]
		e.addMask(s, late, 0)
		e.addMask(s, ready, 1)
		e.masks.kick()
		pt := &poolTest{T: t, maskPool: e.masks}
		if late.constraint.state.Load() == maskQueued { // the first time
			pt.wait("it is being filled", func() bool { return late.constraint.state.Load() != maskQueued })
		}
		pt.wait("the other one is filled", filled(ready.constraint))
		late.constraint.kin.slow.Store(false)
		late.constraint.kin.waited, e.account.saved, e.counts.MaskWait = c.waited, c.saved, 0
		e.masksReady(s)
		if s.masked[0].fate != maskLate || s.masked[1].fate != maskGiven || !slices.Equal(s.draws.Masks, []uint32{^uint32(0), ^uint32(0), 7, 7}) {
			t.Errorf("%s: fates %v %v, masks %x", c.name, s.masked[0].fate, s.masked[1].fate, s.draws.Masks)
		}
		spent, charged := c.saved-e.account.saved, late.constraint.kin.waited-c.waited
		if spent != charged || e.counts.MaskWait != spent || spent < c.least || spent > c.most {
			t.Errorf("%s: %v of the account, %v of the request's share, %v counted", c.name, spent, charged, e.counts.MaskWait)
		}
		if ready.constraint.kin.waited != 0 {
			t.Errorf("%s: %v are charged to the mask that was ready", c.name, ready.constraint.kin.waited)
		}
	}
}

// quickMask is a mask whose fills are expected to be quick.
type quickMask struct{ scriptedMask }

func (*quickMask) Quick(int32) bool { return true }

// TestFillsOfTheLoop: a row that is expected to be filled quickly is filled by the loop, however
// often that calls its pace and however long ago a worker has filled the row before. If it has to
// wait or takes long, a worker does it.
func TestFillsOfTheLoop(t *testing.T) {
	var clock fakeClock
	for _, c := range []struct {
		name    string
		work    func(first bool, pace func(bool) bool) bool
		inLoop  bool
		dropped bool // a worker meets the row while the loop fills it
	}{
		{"quick", func(_ bool, pace func(bool) bool) bool {
			pace(false)
			return pace(false)
		}, true, false},
		{"waiting", func(first bool, pace func(bool) bool) bool { return pace(first) }, false, false},
		{"long", func(first bool, pace func(bool) bool) bool {
			if first {
				clock.advance(2 * loopSlice)
			}
			return pace(false)
		}, false, false},
		{"long, and off the queue", func(first bool, pace func(bool) bool) bool {
			if first {
				clock.advance(2 * loopSlice)
			}
			return pace(false)
		}, false, true},
	} {
		e := New(Config{}, nil)
		e.spec, e.masks.clock = backend.Spec{VocabSize: 64}, clock.read
		pt := &poolTest{T: t, maskPool: e.masks}
		fills := 0
		mask := &quickMask{}
		mask.fill = func(pace func(bool) bool) error {
			fills++
			if c.dropped && fills == 1 {
				e.masks.mu.Lock()
				e.masks.next()
				e.masks.mu.Unlock()
			}
			if !c.work(fills == 1, pace) {
				return errors.New("abandoned")
			}
			return nil
		}
		k := &constraint{mask: mask, pool: e.masks, kin: &kinship{}, token: -1}
		k.pace = k.keepPace
		s := &e.steps[0]
		s.draws.Reset()
		s.masked = s.masked[:0]
		clock.advance(2 * laneSlice) // began is long ago
		e.addMask(s, &choice{constraint: k}, 0)
		if late, _ := e.takeMasks(s, e.spec.MaskWords()); (late == 0) != c.inLoop {
			t.Errorf("%s: %d rows are late", c.name, late)
		}
		if !c.inLoop {
			pt.wait("a worker fills it", filled(k))
			if late, _ := e.takeMasks(s, e.spec.MaskWords()); late != 0 || k.err != nil || fills != 2 {
				t.Errorf("%s: late %d, error %v, %d fills", c.name, late, k.err, fills)
			}
		}
		if !slices.Equal(s.draws.Masks, []uint32{7, 7}) {
			t.Errorf("%s: the mask is %x", c.name, s.draws.Masks)
		}
		e.masks.close()
	}
}
