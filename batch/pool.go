package batch

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"weir/internal/jsontext"
)

// Outcome is what a request was answered with.
type Outcome struct {
	Status int
	Body   []byte
}

// Pool computes the requests of a batch.
type Pool struct {
	// InFlight is how many requests are computed at a time, and Bytes bounds the lines of all
	// of them, unless one alone is larger.
	InFlight int
	Bytes    int64
	// Do answers a request. If ctx ends, what it returns means nothing.
	Do func(ctx context.Context, l *Line, requestID string) Outcome
	// NewID returns the id of a request.
	NewID func() string
	// Patience is how long the first request that was refused for lack of something waits before it is
	// done again; 0: a second.
	Patience time.Duration
}

// Job is a line that is to be computed.
type Job struct {
	ID   string
	Line Line
	Size int    // bytes of the line
	Err  *Error // why it cannot be computed
}

// Run computes jobs until next returns io.EOF, and calls put with each result, on any goroutine.
// If stop ends, it begins none any more, and returns when those in flight have ended; if ctx
// ends, these are given up, without a result. It returns the first error of next or of put, after which
// it begins no more jobs, or else the cause of stop or ctx.
func (p *Pool) Run(ctx, stop context.Context, next func() (*Job, error), put func(*Result) error) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	room := newRoom(p.InFlight, p.Bytes)
	for {
		if err := room.wait(ctx, stop); err != nil {
			running.Wait()
			return err
		}
		job, err := next()
		if err != nil {
			running.Wait()
			if errors.Is(err, io.EOF) {
				err = context.Cause(ctx)
			}
			return err
		}
		size := int64(job.Size)
		room.take(size)
		running.Go(func() {
			defer room.give(size)
			if r := p.result(ctx, job); r != nil {
				if err := put(r); err != nil {
					fail(err)
				}
			}
		})
	}
}

// result computes a job; nil: ctx has ended.
func (p *Pool) result(ctx context.Context, job *Job) *Result {
	r := &Result{ID: job.ID, CustomID: job.Line.CustomID, Err: job.Err}
	if r.Err != nil {
		return r
	}
	r.RequestID = p.NewID()
	var out Outcome
	for wait := max(p.Patience, 0); ; {
		out = p.Do(ctx, &job.Line, r.RequestID)
		if ctx.Err() != nil && out.Status != 200 {
			return nil
		}
		if out.Status != 503 && out.Status != 429 {
			break
		}
		if wait == 0 {
			wait = time.Second
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait + rand.N(wait)):
		}
		wait = min(2*wait, maxPatience)
	}
	r.Status, r.Body = out.Status, out.Body
	if bad := jsontext.Check(r.Body, maxDepth); bad != nil {
		r.Err = &Error{Code: CodeAnswer, Message: "The answer is not JSON; another encoding_format, response_format or the like has one that is."}
	}
	return r
}

// maxPatience bounds the time after which a request that was refused is done again.
const maxPatience = 10 * time.Second

// room bounds what is in flight.
type room struct {
	most     int
	bytes    int64
	mu       sync.Mutex
	inFlight int
	held     int64
	given    chan struct{} // capacity 1: something was given back
}

func newRoom(most int, bytes int64) *room {
	return &room{most: most, bytes: bytes, given: make(chan struct{}, 1)}
}

// wait waits until there is room for another job.
func (r *room) wait(ctx, stop context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if stop.Err() != nil {
			return context.Cause(stop)
		}
		r.mu.Lock()
		free := r.inFlight == 0 || r.inFlight < r.most && r.held < r.bytes
		r.mu.Unlock()
		if free {
			return nil
		}
		select {
		case <-r.given:
		case <-ctx.Done():
		case <-stop.Done():
		}
	}
}

func (r *room) take(size int64) {
	r.mu.Lock()
	r.inFlight++
	r.held += size
	r.mu.Unlock()
}

func (r *room) give(size int64) {
	r.mu.Lock()
	r.inFlight--
	r.held -= size
	r.mu.Unlock()
	select {
	case r.given <- struct{}{}:
	default:
	}
}
