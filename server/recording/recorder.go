package recording

import (
	"context"
	"errors"
	"sync"
	"time"

	"weir/internal/memory"
	"weir/metrics"
	"weir/store"
	"weir/trajectory"
	"weir/trajectory/archive"
)

// Recorder gathers recordings and writes them to the archive.
type Recorder struct {
	cfg    Config
	counts *metrics.Metrics
	linker *Linker       // nil: feedback sets no rewards
	wake   chan struct{} // has an element while there is something to write
	quit   chan struct{}
	ended  chan struct{}

	memory *memory.Reservation // of the recordings that wait or are written; nil: they are not counted

	callsFailed bool // the last call could not be written, and the log says so; run uses it

	mu struct {
		sync.Mutex
		list   []*Recording
		bytes  int // of these, and of those that are being written
		lost   lost
		closed bool
	}
}

// lost counts what was lost.
type lost struct{ trajectories, calls int }

func (l *lost) add(r *Recording) {
	if r.outcome.Finished {
		l.trajectories++
	}
	if r.called {
		l.calls++
	}
}

// maxRecordings bounds the recordings that wait or are being written, in bytes.
const maxRecordings = 64 << 20

// NewRecorder returns a recorder that runs until Close. It calls linker.Add for completions
// that have been recorded; linker may be nil.
func NewRecorder(cfg Config, linker *Linker, counts *metrics.Metrics) *Recorder {
	r := &Recorder{cfg: cfg, counts: counts, linker: linker, wake: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{})}
	if cfg.Memory != nil {
		r.memory = cfg.Memory.Open()
	}
	go r.run()
	return r
}

// Commit hands over a recording whose answer a has ended. held is the memory that the request
// has reserved, of which the recording keeps what it needs. Commit does not wait for the disk;
// if too many recordings wait, this one is dropped and counted.
func (rec *Recorder) Commit(r *Recording, o Outcome, a Answer, held *memory.Reservation) {
	if !o.Finished && !r.called {
		return
	}
	r.outcome, r.answer, r.ended = o, a, rec.cfg.Clock()
	r.bytes = r.size()
	rec.mu.Lock()
	full := rec.mu.closed || rec.mu.bytes+r.bytes > maxRecordings || !rec.keep(int64(r.bytes), held)
	if full {
		rec.mu.lost.add(r)
	} else {
		rec.mu.list = append(rec.mu.list, r)
		rec.mu.bytes += r.bytes
	}
	rec.mu.Unlock()
	rec.signal()
}

// keep takes n bytes over from a request, and reserves what that lacks.
func (rec *Recorder) keep(n int64, from *memory.Reservation) bool {
	if rec.memory == nil {
		return true
	}
	moved := min(n, from.Held())
	if !rec.memory.TryGrow(n - moved) {
		return false
	}
	from.Move(rec.memory, moved)
	return true
}

// done gives back the memory of recordings that are written, or lost.
func (rec *Recorder) done(list []*Recording) {
	n := 0
	for _, r := range list {
		n += r.bytes
	}
	rec.mu.Lock()
	rec.mu.bytes -= n
	rec.mu.Unlock()
	if rec.memory != nil {
		rec.memory.Shrink(int64(n))
	}
}

// again lets recordings wait once more.
func (rec *Recorder) again(list []*Recording) {
	rec.mu.Lock()
	closed := rec.mu.closed
	if closed {
		for _, r := range list {
			rec.mu.lost.add(r)
		}
	} else {
		rec.mu.list = append(rec.mu.list, list...)
	}
	rec.mu.Unlock()
	if closed {
		rec.done(list)
	}
	rec.signal()
}

// signal makes run write what waits.
func (rec *Recorder) signal() {
	select {
	case rec.wake <- struct{}{}:
	default:
	}
}

// Close writes all recordings that wait and ends the recorder.
func (rec *Recorder) Close() {
	rec.mu.Lock()
	closed := rec.mu.closed
	rec.mu.closed = true
	rec.mu.Unlock()
	if !closed {
		close(rec.quit)
	}
	<-rec.ended
}

func (rec *Recorder) run() {
	defer close(rec.ended)
	for {
		select {
		case <-rec.wake:
			select {
			case <-time.After(rec.cfg.Every): // others may come in this time
			case <-rec.quit:
			}
		case <-rec.quit:
			rec.flush()
			rec.flush() // counts what the first could not write as lost
			return
		}
		rec.flush()
	}
}

// flush writes all recordings that wait, as trajectories and as calls. What cannot be written
// now waits for the next flush.
func (rec *Recorder) flush() {
	rec.mu.Lock()
	list, gone := rec.mu.list, rec.mu.lost
	rec.mu.list, rec.mu.lost = nil, lost{}
	rec.mu.Unlock()
	if gone != (lost{}) {
		rec.counts.Recorded(0, gone.trajectories)
		rec.counts.CallsWritten(0, gone.calls)
		rec.cfg.Log.Error("chat completions were not recorded: too many wait for the disk", "completions", max(gone.trajectories, gone.calls))
	}
	var called []*Recording
	waits := make(map[*Recording]bool) // those that are to be tried again
	for _, r := range list {
		if r.called {
			called = append(called, r)
			r.called = false
		}
	}
	for _, r := range rec.flushCalls(called) {
		r.called, waits[r] = true, true
	}
	for _, r := range rec.flushTrajectories(list) {
		waits[r] = true
	}
	var again, done []*Recording
	for _, r := range list {
		if waits[r] {
			again = append(again, r)
		} else {
			done = append(done, r)
		}
	}
	rec.done(done)
	if len(again) > 0 {
		rec.again(again)
	}
}

// flushTrajectories writes the trajectories among recordings, and returns those that are to be
// tried again. Those of the same tenant, model and split become one batch.
func (rec *Recorder) flushTrajectories(list []*Recording) (again []*Recording) {
	type key struct{ tenant, model, split string }
	batches := make(map[key][]*Recording)
	var order []key
	for _, r := range list {
		if !r.outcome.Finished {
			continue
		}
		k := key{r.outcome.Tenant, r.model, r.split}
		if batches[k] == nil {
			order = append(order, k)
		}
		batches[k] = append(batches[k], r)
	}
	for _, k := range order {
		err := rec.write(k.tenant, k.model, k.split, batches[k])
		switch {
		case err == nil:
			rec.counts.Recorded(len(batches[k]), 0)
		case errors.Is(err, store.ErrOpening), errors.Is(err, store.ErrBusy), errors.Is(err, memory.ErrFull):
			again = append(again, batches[k]...)
			continue
		default:
			rec.counts.Recorded(0, len(batches[k]))
			rec.cfg.Log.Error("chat completions were not recorded", "completions", len(batches[k]), "error", err)
		}
		for _, r := range batches[k] {
			r.outcome.Finished = false // its trajectories are not written again
		}
	}
	return again
}

// write writes one batch.
func (rec *Recorder) write(tenant, model, split string, list []*Recording) error {
	if err := rec.cfg.Archive.CheckQuota(tenant, 0, rec.cfg.Quota); err != nil {
		return err
	}
	ctx, release := reserving(context.Background(), rec.cfg.Memory)
	defer release()
	u, err := rec.cfg.Archive.Begin(ctx, tenant, model)
	if err != nil {
		return err
	}
	defer u.Abort()
	var size int64
	var text []byte
	most := 0 // what the text takes, reserved
	for g, r := range list {
		if n := TextShare * r.bytes; n > most {
			if err := memory.Take(ctx, int64(n-most)); err != nil {
				return err
			}
			most = n
		}
		for i := range r.answer.Choices() {
			text = r.append(text[:0], i)
			t := trajectory.Trajectory{Group: g, Index: i, Text: text}
			if t.Facts, err = trajectory.Describe(t.Text, nil); err != nil {
				return err
			}
			t.Scored = false // it has no reward yet
			size += int64(len(t.Text))
			if err := u.Trajectory(&t); err != nil {
				return err
			}
		}
		if err := u.Group(&trajectory.Group{Index: g, Trajectories: r.answer.Choices(), Text: append(r.appendMetadata([]byte(`{"metadata":`)), '}')}); err != nil {
			return err
		}
	}
	calls := make([]archive.Call, len(list))
	ids := make([]string, len(list))
	for g, r := range list {
		ids[g] = r.answer.ID()
		calls[g] = archive.Call{ID: ids[g], Project: r.project, Group: g, Choices: r.answer.Choices()}
	}
	if _, err = u.Commit(archive.Meta{Split: split, Bytes: size, Calls: calls}); err != nil {
		return err
	}
	rec.linker.Add(tenant, ids...)
	return nil
}
