package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"weir/backend"
	"weir/internal/retry"
	"weir/kvcache"
	"weir/scheduler"
)

// Offload keeps copies of KV blocks and states outside of the backend, where they survive their eviction and perhaps the
// process. No call waits for a disk. It calls Engine.Wake when there is memory for Buffer or Fetch again, and when Fetched
// has something. Only the loop calls it.
type Offload interface {
	// Has reports whether there is a copy, and notes that it is of use.
	Has(kvcache.Key) bool
	// Wants reports whether a copy is to be saved.
	Wants(kvcache.Key) bool
	// Buffer returns memory for a copy of n bytes, which is given to Save; nil: there is none now.
	Buffer(n int) []byte
	Save(k kvcache.Key, data []byte)
	// Fetch begins to read a copy of n bytes. It reports false if too much is being read.
	Fetch(k kvcache.Key, n int) bool
	// Fetched appends copies that have been read to dst, up to most bytes but one at least. They are valid until the
	// next call. One without Data is not there any more, or was damaged.
	Fetched(dst []kvcache.Content, most int) []kvcache.Content
	// Drop forgets everything.
	Drop()
}

// OffloadStats counts copies of blocks and states.
type OffloadStats struct {
	Saved, SavedBytes   uint64 // copied out
	Uncopied            uint64 // evicted before they could be copied out
	Loaded, LoadedBytes uint64 // copied back
	Failed              uint64 // copies that were not there any more, or damaged

	Queried  uint64 // tokens of sequences that were held back, beyond what the pool had
	Hits     uint64 // of Queried, tokens that were brought back
	Slower   uint64 // sequences that were computed because that was quicker
	TimedOut uint64 // sequences for which copies came too late
	Loading  int    // sequences that are held back

	LoadTime time.Duration // in which copies were brought back
}

// offload is what the loop knows of copies.
type offload struct {
	to      Offload // nil: there are no copies
	be      backend.Copier
	sizes   [2]int  // bytes of a block and of a state
	loads   []*load // of sequences that are held back, in the order in which they are brought back
	ahead   int     // bytes that they wait for
	got     []kvcache.Content
	keys    []kvcache.Key // scratch
	compute retry.Rate    // of tokens, in steps with many
	read    [2]retry.Rate // of bytes: from copies of this machine, and from other machines
	probed  time.Duration // when copies were last read although that was slower, as measured
	counts  OffloadStats
	step    time.Duration // the time of the last step
}

// load is a sequence that is held back.
type load struct {
	c       *choice
	until   time.Duration // by then it goes on with what it has
	bytes   int           // that it waits for, as estimated
	gain    int           // tokens, as estimated
	begun   time.Duration // when it was the first to be brought back; never: not yet
	missing []kvcache.Key
	open    map[kvcache.Key]bool // that are being read
	loaded  int                  // bytes
	memory  int                  // of loaded, those for which no disk was read
	outside int                  // of loaded, those that have come from other machines
}

// recalled are the tokens of a choice that were brought back from copies.
type recalled struct{ disk, memory, external int }

// split divides what a load has brought by where it was.
func (l *load) split() recalled {
	if l.loaded == 0 { // somebody has computed all of it meanwhile
		return recalled{}
	}
	part := func(bytes int) int { return int(int64(l.gain) * int64(bytes) / int64(l.loaded)) }
	memory, outside := part(l.memory), part(l.outside)
	return recalled{l.gain - memory - outside, memory, outside}
}

const (
	// loadSlack is how long a sequence may be held back at least.
	loadSlack = 50 * time.Millisecond
	// unknownLoad is how long it may be if it is not known how long computing takes.
	unknownLoad = 10 * time.Second
	// probeLoads is the time after which copies are read although computing was quicker.
	probeLoads = time.Minute
	// busyLoad is the most bytes that are copied back between two steps while sequences are running.
	busyLoad = 16 << 20
	// leastSave is the time that may be spent between two steps on copying out; so may a part of the last step's time, 1/saveShare.
	leastSave, saveShare = 200 * time.Microsecond, 50
	// idleSave is the time after which the intake is looked at while there is nothing else to do.
	idleSave = 5 * time.Millisecond
	// lastSave is the time that is spent on copying out when the engine stops.
	lastSave = 2 * time.Second
)

// Wake lets the loop look for what there is to do.
func (e *Engine) Wake() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Offloads reports whether copies are kept.
func (e *Engine) Offloads() bool { return e.cfg.Offload != nil && e.cfg.Caching }

// configureOffload prepares copies, once for each backend and manager.
func (e *Engine) configureOffload() error {
	o := &e.offload
	if e.cfg.Offload == nil || !e.cfg.Caching {
		return nil
	}
	o.to = e.cfg.Offload
	be, ok := e.be.(backend.Copier)
	if ok {
		o.sizes[0], o.sizes[1], ok = be.CopySizes()
	}
	if !ok {
		return fmt.Errorf("engine: the device cannot copy KV blocks")
	}
	o.be = be
	e.kv.Copies()
	o.loads, o.ahead = nil, 0
	return nil
}

// size is the number of bytes of what a key names.
func (o *offload) size(k kvcache.Key) int {
	if k.State {
		return o.sizes[1]
	}
	return o.sizes[0]
}

// save copies blocks and states out for a time. It reports whether there are more, and memory for them.
func (e *Engine) save(most time.Duration) (more bool, err error) {
	if more, err = e.saveSome(most); !more {
		e.copiedOut()
	}
	return more, err
}

func (e *Engine) saveSome(most time.Duration) (more bool, err error) {
	o := &e.offload
	if o.to == nil {
		return false, nil
	}
	begun := e.clock()
	for {
		c, ok := e.kv.NextCopy()
		if !ok {
			return false, nil
		}
		if !o.to.Wants(c.Key) {
			e.kv.Copied(c)
			continue
		}
		data := o.to.Buffer(o.size(c.Key))
		if data == nil {
			return false, nil
		}
		if err := o.be.CopyOut(data, c.Key.State, c.ID); err != nil {
			return false, fmt.Errorf("copy out: %w", err)
		}
		o.to.Save(c.Key, data)
		e.kv.Copied(c)
		o.counts.Saved++
		o.counts.SavedBytes += uint64(len(data))
		if e.clock()-begun >= most {
			return true, nil
		}
	}
}

// saveLast copies out what it can before the backend is closed.
func (e *Engine) saveLast() {
	if e.offload.to == nil {
		return
	}
	end := e.clock() + lastSave
	for e.clock() < end {
		_, err := e.save(end - e.clock())
		if _, ok := e.kv.NextCopy(); !ok || err != nil {
			return
		}
		select {
		case <-e.wake:
		case <-time.After(idleSave):
		}
	}
}

// moveCopies copies out what there is time for, and copies back what was read.
func (e *Engine) moveCopies() error {
	o := &e.offload
	if o.to == nil {
		return nil
	}
	if _, err := e.save(max(leastSave, o.step/time.Duration(cmp.Or(e.cfg.SaveShare, saveShare)))); err != nil {
		return err
	}
	e.beginLoads()
	if err := e.takeLoaded(); err != nil {
		return err
	}
	e.fetch()
	return nil
}

// beginLoads decides which of the sequences that were held back wait for copies. The others go on. It reports whether there were any.
func (e *Engine) beginLoads() bool {
	o := &e.offload
	list := e.sched.Recalls()
	for _, q := range list {
		c := q.Owner.(*choice)
		keys, gain := e.kv.Missing(o.keys[:0], q.Tokens, e.sched.Root(q), o.to.Has)
		o.keys = keys
		o.counts.Queried += uint64(len(q.Tokens))
		bytes := 0
		for _, k := range keys {
			bytes += o.size(k)
		}
		computing := retry.Time(float64(gain), o.compute.PerSecond())
		if gain == 0 || e.cfg.LoadWait == 0 && e.slower(c, bytes, computing) {
			e.loaded(c)
			continue
		}
		l := &load{c: c, bytes: bytes, gain: gain, begun: never, until: e.clock() + unknownLoad, open: map[kvcache.Key]bool{}}
		if e.cfg.LoadWait > 0 {
			l.until = e.clock() + e.cfg.LoadWait
		} else if computing > 0 {
			l.until = e.clock() + max(loadSlack, computing)
		}
		o.loads, o.ahead = append(o.loads, l), o.ahead+bytes
	}
	return len(list) > 0
}

// heldBack reports whether a sequence is held back.
func (e *Engine) heldBack() bool { return e.sched.HeldBack() || len(e.offload.loads) > 0 }

// rate is how fast copies come for a choice.
func (o *offload) rate(c *choice) *retry.Rate {
	if c.req.External {
		return &o.read[1]
	}
	return &o.read[0]
}

// slower reports whether it takes longer to bring so many bytes back than to compute what they are. Once in a while it is
// tried nevertheless, so that a disk that has become faster is noticed.
func (e *Engine) slower(c *choice, bytes int, computing time.Duration) bool {
	o := &e.offload
	reading := retry.Time(float64(o.ahead+bytes), o.rate(c).PerSecond())
	if reading == 0 || computing == 0 || reading <= computing {
		return false
	}
	if now := e.clock(); len(o.loads) == 0 && now-o.probed >= probeLoads {
		o.probed = now
		return false
	}
	o.counts.Slower++
	return true
}

// fetch has copies read for the first sequence that is held back, and ends the holding back of those that have what they
// waited for, or have waited long enough.
func (e *Engine) fetch() {
	o := &e.offload
	for len(o.loads) > 0 {
		l, now := o.loads[0], e.clock()
		switch {
		case l.c.seq.Status != scheduler.Waiting:
			e.endLoad()
			continue
		case now >= l.until:
			o.counts.TimedOut++
			e.endLoad()
			continue
		case l.begun == never:
			// What those before it have brought back may be a part of it.
			l.missing, l.gain = e.kv.Missing(nil, l.c.seq.Tokens, e.sched.Root(&l.c.seq), o.to.Has)
			l.begun = now
		}
		for len(l.missing) > 0 && o.to.Fetch(l.missing[0], o.size(l.missing[0])) {
			l.open[l.missing[0]], l.missing = true, l.missing[1:]
		}
		if len(l.missing)+len(l.open) > 0 {
			break
		}
		o.counts.Hits += uint64(l.gain)
		l.c.recalled = l.split()
		if l.loaded > 0 {
			o.rate(l.c).Add(float64(l.loaded), now-l.begun)
		}
		e.endLoad()
	}
	e.dropLate()
}

// dropLate ends the holding back of sequences behind the first that have waited long enough, or have ended.
func (e *Engine) dropLate() {
	o, now := &e.offload, e.clock()
	if len(o.loads) < 2 {
		return
	}
	o.loads = append(o.loads[:1], slices.DeleteFunc(o.loads[1:], func(l *load) bool {
		late := now >= l.until
		if !late && l.c.seq.Status == scheduler.Waiting {
			return false
		}
		if late {
			o.counts.TimedOut++
		}
		o.ahead -= l.bytes
		e.loaded(l.c)
		return true
	})...)
}

// endLoad ends the holding back of the first sequence.
func (e *Engine) endLoad() {
	o := &e.offload
	l := o.loads[0]
	o.ahead -= l.bytes
	if l.begun != never {
		o.counts.LoadTime += e.clock() - l.begun
	}
	e.loaded(l.c)
	o.loads = slices.Delete(o.loads, 0, 1)
}

// loaded lets a choice go on that was held back.
func (e *Engine) loaded(c *choice) {
	e.sched.Recalled(&c.seq)
	if c.req.Loaded != nil {
		c.req.Loaded()
	}
}

// takeLoaded copies back what was read.
func (e *Engine) takeLoaded() error {
	o := &e.offload
	most := busyLoad
	if _, running := e.sched.Len(); running == 0 {
		most = 1 << 40
	}
	o.got = o.to.Fetched(o.got[:0], most)
	for _, f := range o.got {
		ok, err := e.copyBack(f)
		if err != nil {
			return err
		}
		if len(o.loads) == 0 || !o.loads[0].open[f.Key] {
			continue // it was read for one that did not wait any longer
		}
		l := o.loads[0]
		delete(l.open, f.Key)
		switch {
		case f.External:
			l.outside += len(f.Data)
		case f.InMemory:
			l.memory += len(f.Data)
		}
		if l.loaded += len(f.Data); !ok { // what comes after it is of no use
			l.gain, l.missing = 0, nil
			clear(l.open)
		}
	}
	return nil
}

// copyBack copies a block or a state back into the pool. It reports false if it is not there then.
func (e *Engine) copyBack(f kvcache.Content) (ok bool, err error) {
	o := &e.offload
	if f.Data == nil {
		o.counts.Failed++
		return false, nil
	}
	if e.kv.Published(f.Key) {
		return true, nil // somebody has computed it meanwhile
	}
	id, ok := e.kv.Restore(f.Key)
	if !ok {
		return false, nil
	}
	if err := o.be.CopyIn(f.Data, f.Key.State, id); err != nil {
		return false, fmt.Errorf("copy back: %w", err)
	}
	e.kv.Restored(f.Key, id, true)
	o.counts.Loaded++
	o.counts.LoadedBytes += uint64(len(f.Data))
	return true, nil
}

// measureStep notes how long a step has taken that computed so many tokens of so many sequences.
func (o *offload) measureStep(tokens, seqs int, took time.Duration) {
	o.step = took
	if tokens >= 32 && tokens >= 4*seqs {
		o.compute.Add(float64(tokens), took)
	}
}

// forgetCopies forgets all copies, and lets those go on that wait for some.
func (e *Engine) forgetCopies() {
	o := &e.offload
	if o.to == nil {
		return
	}
	for len(o.loads) > 0 {
		e.endLoad()
	}
	o.to.Drop()
}
