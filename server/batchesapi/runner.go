package batchesapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"weir/batch"
	"weir/internal/jsontext"
	"weir/server/backlog"
	"weir/server/transport"
)

// maxRunning is how many batches are computed at a time. Further ones wait (package backlog).
const maxRunning = 4

// heldBytes bounds the lines of a batch that are in flight, in bytes.
const heldBytes = 64 << 20

// again is how long a batch waits whose results could not be written.
const again = 10 * time.Second

// keyTime is how often the key of a batch is looked at.
const keyTime = time.Second

// Why a batch stops being computed.
var (
	errStopped   = errors.New("batchesapi: the server stops")
	errCancelled = errors.New("batchesapi: the batch is cancelled")
	errExpired   = errors.New("batchesapi: the batch has expired")
	errRevoked   = errors.New("batchesapi: the key of the batch was revoked or has expired")
)

// runner computes batches.
type runner struct {
	cfg  *Config
	ctx  context.Context
	stop context.CancelCauseFunc

	queue *backlog.Queue[owner, named]

	mu      sync.Mutex
	begun   bool // begin was called
	closed  bool
	running map[named]*run
}

// run is a batch that is being computed.
type run struct {
	named
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	done counts // of Total 0: not known yet
}

// counts are those at this time.
func (one *run) counts() counts {
	one.mu.Lock()
	defer one.mu.Unlock()
	return one.done
}

// begin sets the counts of a batch that no result is known of.
func (one *run) begin(total int64) {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.done = counts{Total: total}
}

// count counts the result of a line.
func (one *run) count(failed bool, u usage) {
	one.mu.Lock()
	defer one.mu.Unlock()
	one.done.add(failed, u)
}

func newRunner(cfg *Config) *runner {
	r := &runner{cfg: cfg, running: map[named]*run{}}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	r.queue = backlog.New(backlog.Config[owner, named]{Most: maxRunning, Owner: func(n named) owner { return n.owner }, Run: r.work})
	return r
}

// begin reads which batches have not ended, and goes on with them.
func (r *runner) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.begun || r.closed {
		return
	}
	r.begun = true
	r.queue.Go(func() {
		if !r.cfg.Store.db.Used() {
			r.resume(nil)
			return
		}
		for r.ctx.Err() == nil {
			open, err := r.cfg.Store.unfinished()
			if err == nil {
				err = r.cfg.Store.sweep(r.ctx)
			}
			if err == nil {
				r.resume(open)
				return
			}
			r.cfg.Log.Warn("batches that have not ended could not be read", "error", err)
			backlog.Sleep(r.ctx, again)
		}
	})
}

// resume computes the batches of an earlier process, and then what has come meanwhile.
func (r *runner) resume(open []named) {
	if len(open) > 0 {
		r.cfg.Log.Info("going on with batches", "batches", len(open))
	}
	r.cfg.Store.swept.Store(true)
	r.cfg.Store.fresh.Clear()
	r.queue.Prepend(open)
	r.queue.Start()
}

// add computes a batch, now or later.
func (r *runner) add(n named) { r.queue.Add(n) }

// work computes a batch until it has ended or the server stops.
func (r *runner) work(n named) {
	ctx, cancel := context.WithCancelCause(r.ctx)
	defer cancel(nil)
	one := &run{named: n, cancel: cancel}
	r.mu.Lock()
	r.running[n] = one
	r.mu.Unlock()
	for ctx.Err() == nil || context.Cause(ctx) != errStopped {
		err := r.run(ctx, one)
		if err == nil || errors.Is(context.Cause(ctx), errStopped) {
			break
		}
		r.cfg.Log.Warn("a batch has to wait", "batch", n.id, "project", n.owner.project, "error", err)
		backlog.Sleep(r.ctx, again)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, n)
}

// cancel ends the computing of a batch whose record says that it is cancelled.
func (r *runner) cancel(n named) {
	r.queue.Now(n) // it need not wait for room
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.running[n]; one != nil {
		one.cancel(errCancelled)
	}
}

// close stops computing, and returns when nothing is computed any more.
func (r *runner) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.queue.Close()
	r.stop(errStopped)
	r.queue.Wait()
}

// count sets the counts of a batch that is being computed.
func (r *runner) count(b *batchRow) {
	if b.ended() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for n, one := range r.running {
		if now := one.counts(); n.id == b.ID && now.Total > 0 {
			b.Counts = now
		}
	}
}

// run computes a batch until its files are written.
func (r *runner) run(ctx context.Context, one *run) error {
	s := r.cfg.Store
	row, err := s.batch(one.owner, one.id)
	if err != nil || row == nil || row.ended() {
		return err
	}
	if row.Status == validating {
		if row, err = r.validate(one, row); err != nil || row == nil || row.ended() {
			return err
		}
	}
	if row.Status == inProgress {
		why, err := r.compute(ctx, one, row)
		if err != nil {
			return err
		}
		next := completed
		switch {
		case errors.Is(why, errStopped):
			return nil
		case errors.Is(why, errExpired):
			next = expired
		case errors.Is(why, errCancelled):
			next = cancelled
		case errors.Is(why, errRevoked):
			next = failed
		}
		if row, err = s.change(context.Background(), one.owner, one.id, func(b *batchRow) bool {
			if b.Status == inProgress {
				b.set(finalizing, r.cfg.Now().Unix())
				b.Next = next
				if next == failed {
					b.Errors = []lineError{{Error: batch.Error{Code: "invalid_api_key", Message: "The key with which the batch was made was revoked or has expired."}}}
				}
			}
			b.Counts = one.counts()
			return true
		}); err != nil {
			return err
		}
	}
	return r.finish(r.ctx, one, row)
}

// validate reads all lines of a batch, and lets it fail if one of them is wrong.
func (r *runner) validate(one *run, row *batchRow) (*batchRow, error) {
	in, err := r.input(one.owner, row)
	if err != nil {
		return nil, err
	}
	var bad []lineError
	total := int64(0)
	for in != nil {
		job, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		total++
		e := job.Err
		switch {
		case e == nil && job.Line.URL != row.Endpoint:
			e = &batch.Error{Code: batch.CodeMismatch, Message: "url is not the endpoint of the batch, " + row.Endpoint + ".", Param: "url"}
		case total == maxLines+1:
			e = &batch.Error{Code: "too_many_requests", Message: fmt.Sprintf("The file has more than %d requests.", maxLines)}
		}
		if e != nil && len(bad) < maxErrors {
			bad = append(bad, lineError{*e, in.Number()})
		}
		if total > maxLines {
			break
		}
	}
	switch {
	case in == nil:
		bad = append(bad, lineError{Error: batch.Error{Code: "file_not_found", Message: "The input file was deleted.", Param: "input_file_id"}})
	case total == 0:
		bad = append(bad, lineError{Error: batch.Error{Code: "empty_file", Message: "The input file has no requests.", Param: "input_file_id"}})
	}
	return r.cfg.Store.change(r.ctx, one.owner, one.id, func(b *batchRow) bool {
		if b.Status != validating {
			return false
		}
		if b.Counts.Total = total; len(bad) > 0 {
			b.Errors = bad
			b.set(failed, r.cfg.Now().Unix())
			return true
		}
		b.set(inProgress, r.cfg.Now().Unix())
		return true
	})
}

// input reads the input of a batch; nil: the file is not there.
func (r *runner) input(o owner, row *batchRow) (*batch.Input, error) {
	f, err := r.cfg.Store.file(o, row.Input)
	if err != nil || f == nil {
		return nil, err
	}
	return batch.NewInput(&contentReader{store: r.cfg.Store, spans: o.spans(f)}, r.cfg.MaxLine), nil
}

// whileHeld is a context that ends when the key of a batch is revoked or expires.
func (r *runner) whileHeld(ctx context.Context, row *batchRow) (held context.Context, unwatch func()) {
	ctx, end := context.WithCancelCause(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		for ; ctx.Err() == nil; backlog.Sleep(ctx, keyTime) {
			if !r.cfg.Holds(row.Who, row.Project) {
				end(errRevoked)
			}
		}
	})
	return ctx, func() { end(nil); watch.Wait() }
}

// compute computes the lines that have no result. why says why it was ended before that was done.
func (r *runner) compute(ctx context.Context, one *run, row *batchRow) (why, err error) {
	done := map[int]bool{}
	one.begin(row.Counts.Total)
	if err := r.cfg.Store.eachResult(row.ID, 0, func(line int, failed bool, text []byte) bool {
		done[line] = true
		one.count(failed, usageIn(text))
		return true
	}); err != nil {
		return nil, err
	}
	in, err := r.input(one.owner, row)
	if err != nil || in == nil {
		return nil, err
	}
	left := time.Unix(row.Expires, 0).Sub(r.cfg.Now())
	switch {
	case left <= 0:
		return errExpired, nil
	case !r.cfg.Holds(row.Who, row.Project):
		return errRevoked, nil
	}
	ctx, end := context.WithTimeoutCause(ctx, left, errExpired)
	defer end()
	ctx, unwatch := r.whileHeld(ctx, row)
	defer unwatch()
	lines := map[string]int{} // by id of the result
	var mu sync.Mutex
	pool := batch.Pool{
		InFlight: max(1, r.cfg.InFlight()), Bytes: heldBytes, NewID: func() string { return row.ID + "-" + transport.RandomHex(8) },
		Do: func(ctx context.Context, l *batch.Line, requestID string) batch.Outcome {
			return batch.Outcome(r.cfg.Do(ctx, &transport.Errand{Path: l.URL, Body: l.Body, RequestID: requestID, Project: row.Project, Who: row.Who, Address: row.Address}))
		},
	}
	err = pool.Run(ctx, ctx, func() (*batch.Job, error) {
		for {
			job, err := in.Next()
			if err != nil {
				return nil, err
			}
			if !done[in.Number()] {
				mu.Lock()
				lines[job.ID] = in.Number()
				mu.Unlock()
				return job, nil
			}
		}
	}, func(result *batch.Result) error {
		mu.Lock()
		line := lines[result.ID]
		delete(lines, result.ID)
		mu.Unlock()
		if err := r.cfg.Store.putResult(context.WithoutCancel(ctx), row.ID, line, result.Failed(), result.Append(nil)); err != nil {
			return err
		}
		one.count(result.Failed(), usageOf(jsontext.Trim(result.Body)))
		return nil
	})
	for _, cause := range []error{errStopped, errCancelled, errExpired, errRevoked} {
		if errors.Is(err, cause) {
			return cause, nil
		}
	}
	return nil, err
}
