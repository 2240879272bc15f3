package responsesapi

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"weir/api"
	"weir/server/backlog"
	"weir/server/failure"
	"weir/server/transport"
)

// Background bounds the responses that are computed in the background. 0 is the default.
type Background struct {
	MostWaiting int // responses that wait or are being computed, of all projects
	MostOfOwner int // the same, of a project
	MostAtOnce  int // responses that are being computed
}

// Bounds of Background.
const (
	DefaultWaiting = 1000
	DefaultOfOwner = 100
	DefaultAtOnce  = 4
)

func (b *Background) fill() {
	for _, v := range []struct {
		at    *int
		other int
	}{{&b.MostWaiting, DefaultWaiting}, {&b.MostOfOwner, DefaultOfOwner}, {&b.MostAtOnce, DefaultAtOnce}} {
		if *v.at <= 0 {
			*v.at = v.other
		}
	}
}

// A run that the engine has no place for, or a change that the store does not take, is tried again
// after a second, and then after ever longer times.
const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

// Causes for which a job ends.
var (
	errCancelled = errors.New("responsesapi: the response was cancelled")
	errDeleted   = errors.New("responsesapi: the response was deleted")
	errRevoked   = errors.New("responsesapi: the key of the request was revoked or has expired")
)

// jobs are the responses in the background that have not ended. Each owner has as many of those
// that are computed as others that wait, and of one owner the first comes first. Those that are on
// disk from an earlier run of the server are added by resume.
type jobs struct {
	h     *Handlers
	most  Background
	ctx   context.Context
	stop  context.CancelCauseFunc
	queue *backlog.Queue[Owner, *job]

	mu      sync.Mutex
	all     map[jobKey]*job
	places  map[Owner]int // of each owner: jobs, and requests for one that are being written
	taken   int           // of places
	started bool          // there is a model
	closed  bool
}

type jobKey struct {
	owner Owner
	id    string
}

func newJobs(h *Handlers) *jobs {
	b := &jobs{h: h, most: h.cfg.Background, all: map[jobKey]*job{}, places: map[Owner]int{}}
	b.most.fill()
	b.queue = backlog.New(backlog.Config[Owner, *job]{Most: b.most.MostAtOnce, Owner: func(j *job) Owner { return j.key.owner }, Run: b.run, Order: (*job).order})
	b.ctx, b.stop = context.WithCancelCause(context.Background())
	h.cfg.Store.gone = func(o Owner, id string) {
		if j := b.find(o, id); j != nil && j.end(errDeleted) {
			b.leave(j)
			j.close(nil)
		}
	}
	return b
}

// errTooMany refuses a request for a response in the background.
func errTooMany(what string, most int) *api.Error {
	return &api.Error{
		Name: "background-full", Status: 429, Code: 429, Type: "RateLimitError",
		Message: what + " has " + strconv.Itoa(most) + " responses in the background that are not complete, which is the most. Wait until one is, or cancel one.",
	}
}

// take takes a place for a job of an owner.
func (b *jobs) take(o Owner) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return failure.ErrDraining
	case b.taken >= b.most.MostWaiting:
		return errTooMany("The server", b.most.MostWaiting)
	case b.places[o] >= b.most.MostOfOwner:
		return errTooMany("The project", b.most.MostOfOwner)
	}
	b.taken++
	b.places[o]++
	return nil
}

// give gives a place back. b.mu is held.
func (b *jobs) give(o Owner) {
	b.taken--
	if b.places[o]--; b.places[o] == 0 {
		delete(b.places, o)
	}
}

// add keeps a response that is to be computed, and queues it.
func (b *jobs) add(ctx context.Context, p *pending, rec *Record) (*job, error) {
	if err := b.take(p.owner); err != nil {
		return nil, err
	}
	err := b.h.cfg.Store.queue(ctx, p, rec)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.give(p.owner)
		return nil, err
	}
	return b.enter(p), nil
}

// enter adds a job that has a place. b.mu is held.
func (b *jobs) enter(p *pending) *job {
	j := newJob(p)
	b.all[j.key] = j
	b.queue.Add(j)
	return j
}

// find returns a job that has not ended; nil: there is none.
func (b *jobs) find(o Owner, id string) *job {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.all[jobKey{o, id}]
}

// leave removes a job that has ended.
func (b *jobs) leave(j *job) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.all[j.key] != j {
		return
	}
	delete(b.all, j.key)
	b.give(j.key.owner)
	b.queue.Remove(j)
}

// start begins to compute: there is a model. What an earlier run of the server has left is added.
func (b *jobs) start() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.started || b.closed {
		return
	}
	b.started = true
	b.queue.Go(b.resume)
	if b.h.cfg.HTTP.HasKeys() {
		b.queue.Go(b.watchKeys)
	}
}

// resume adds the responses that are on disk and not computed yet.
func (b *jobs) resume() {
	select {
	case <-b.h.cfg.Store.ready():
	case <-b.ctx.Done():
		return
	}
	n := 0
	err := b.h.cfg.Store.unfinished(func(p *pending) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.all[jobKey{p.owner, p.id}] == nil {
			b.taken++
			b.places[p.owner]++
			b.enter(p)
			n++
		}
	})
	if err != nil {
		b.h.cfg.Log.Warn("responses in the background that an earlier run has left could not be read", "error", err)
	}
	if n > 0 {
		b.h.cfg.Log.Info("responses in the background are computed that an earlier run has left", "responses", n)
	}
	b.queue.Start()
}

// run computes a job.
func (b *jobs) run(j *job) {
	ctx := j.running(b.ctx)
	for pause := firstPause; b.attempt(ctx, j); pause = min(2*pause, lastPause) {
		backlog.Sleep(ctx, pause)
	}
	b.leave(j)
	j.close(nil)
}

// attempt computes a job, and reports whether it is to be tried again.
func (b *jobs) attempt(ctx context.Context, j *job) (again bool) {
	if ctx.Err() != nil {
		b.interrupted(context.Cause(ctx), j, nil)
		return false
	}
	if !b.holds(j) {
		b.interrupted(errRevoked, j, nil)
		return false
	}
	p, err := b.h.cfg.Store.pending(j.key.owner, j.key.id)
	switch {
	case err != nil:
		b.h.cfg.Log.Warn("a response in the background could not be read", "id", j.key.id, "error", err)
		return true
	case p == nil: // it was deleted
		return false
	}
	if err := b.seed(j); err != nil {
		return !errors.As(err, new(*api.Error)) // it was deleted
	}
	r := &run{h: b.h, j: j, p: p}
	e := &transport.Errand{Path: Path, Body: p.body, RequestID: p.id, Project: p.project, Who: p.who, Address: p.address}
	b.h.cfg.HTTP.Run(ctx, e, func(c *transport.Call) {
		r.c = c
		b.h.cfg.Service.Serve(c, r)
	})
	switch {
	case r.ended:
	case ctx.Err() != nil:
		b.interrupted(context.Cause(ctx), j, r.answer)
	case r.fault != nil && r.fault.Retry() && !r.opened:
		return true
	case r.fault != nil:
		b.broken(j, failed, codeOf(*r.fault), r.fault.Message, r.answer)
	default:
		b.broken(j, failed, "server_error", "Internal server error", r.answer)
	}
	return false
}

// interrupted ends a job for a reason: it was cancelled or deleted, or may not go on, or the server
// stops, and goes on with it when it is started again.
func (b *jobs) interrupted(why error, j *job, a *answer) {
	switch {
	case errors.Is(why, errCancelled):
		b.broken(j, cancelled, "", "", a)
	case errors.Is(why, errRevoked):
		b.broken(j, failed, "invalid_api_key", "The key with which the response was asked for was revoked or has expired.", a)
	}
}

// broken ends a response that has failed or was cancelled, and keeps it. a has what was generated; nil: nothing was.
func (b *jobs) broken(j *job, status, code, fault string, a *answer) {
	rec, err := b.h.cfg.Store.Get(j.key.owner, j.key.id)
	if rec == nil {
		if err != nil {
			b.h.cfg.Log.Warn("a response in the background could not be read", "id", j.key.id, "error", err)
		}
		return
	}
	events := &answer{sequence: j.begin(rec.Response)}
	values := map[string][]byte{"status": quoted(status), "error": appendFault(nil, code, fault)}
	if a != nil {
		events.sequence = a.sequence
		values["output"] = a.appendOutput(nil, a.broken())
	}
	rec.Response = restate(rec.Response, values)
	var last []byte
	if fault != "" {
		last = events.errorEvent(last, code, fault)
	}
	last = end(append(append(events.event(last, "response."+status), `,"response":`...), rec.Response...))
	b.keep(j, j.key.owner, rec, last)
}

// keep keeps the end of a response, and then ends its events with the last ones. It tries until the
// store takes it, or the server stops, and reports whether the response has ended.
func (b *jobs) keep(j *job, o Owner, rec *Record, last []byte) bool {
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		ctx, cancel := context.WithTimeout(context.Background(), storeTime)
		_, err := b.h.cfg.Store.finish(ctx, o, rec, append(j.soFar(), last...))
		cancel()
		if errors.Is(err, errTooLarge) && rec.status() != failed {
			b.broken(j, failed, "server_error", "The response is larger than all that its project may keep.", nil)
			return true
		}
		if errors.Is(err, errTooLarge) { // not even that it has failed can be kept
			ctx, cancel := context.WithTimeout(context.Background(), storeTime)
			_, err = b.h.cfg.Store.Delete(ctx, o, rec.ID)
			cancel()
		}
		if err == nil {
			b.leave(j) // before a client sees the last event, and asks for the response
			j.close(last)
			return true
		}
		b.h.cfg.Log.Warn("a response could not be kept", "id", rec.ID, "project", o.Project, "error", err)
		if b.ctx.Err() != nil {
			return false
		}
		backlog.Sleep(b.ctx, pause)
	}
}

// interrupt ends a job for a reason.
func (b *jobs) interrupt(j *job, why error) {
	if j.end(why) { // nobody computes it
		b.leave(j)
		b.interrupted(why, j, nil)
		j.close(nil)
	}
}

// keyTime is how often the keys of jobs are looked at.
const keyTime = time.Second

// watchKeys ends the jobs whose keys are revoked or have expired.
func (b *jobs) watchKeys() {
	for ; b.ctx.Err() == nil; backlog.Sleep(b.ctx, keyTime) {
		b.mu.Lock()
		jobs := slices.Collect(maps.Values(b.all))
		b.mu.Unlock()
		for _, j := range jobs {
			if !b.holds(j) {
				b.interrupt(j, errRevoked)
			}
		}
	}
}

// holds reports whether the key of a job is still good for it.
func (b *jobs) holds(j *job) bool { return b.h.cfg.HTTP.Holds(j.who, j.project) }

// cancel ends a job as cancelled, and returns when it has ended.
func (b *jobs) cancel(ctx context.Context, j *job) error {
	b.interrupt(j, errCancelled)
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// close gives up all jobs, which stay on disk, and returns when no goroutine is left.
func (b *jobs) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	waiting := b.queue.Close()
	b.stop(failure.ErrDraining)
	for _, j := range waiting {
		j.close(nil)
	}
	b.queue.Wait()
}
