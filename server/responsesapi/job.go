package responsesapi

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"strconv"
	"sync"
	"time"

	"weir/api"
	"weir/auth"
	"weir/server/failure"
	"weir/server/transport"
)

// job is a response in the background that has not ended, with the events that it has so far.
type job struct {
	key     jobKey
	created int64
	who     *auth.Identity // who asked for it, for this project
	project string
	done    chan struct{} // closed when it has ended, or is given up

	mu      sync.Mutex
	events  []byte        // bytes that were written are never changed
	ends    []int         // where each event ends
	changed chan struct{} // closed with the next change; nil: nobody waits for it
	closed  bool          // there are no further events
	cancel  context.CancelCauseFunc
	why     error // for which it is to end; nil: it is not
}

func newJob(p *pending) *job {
	return &job{key: jobKey{p.owner, p.id}, created: p.created, who: p.who, project: p.project, done: make(chan struct{})}
}

func (j *job) order(k *job) int {
	return cmp.Or(cmp.Compare(j.created, k.created), cmp.Compare(j.key.id, k.key.id))
}

// running notes that the job is being computed, and returns the context of that.
func (j *job) running(parent context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(parent)
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.why != nil {
		cancel(j.why)
	}
	j.cancel = cancel
	return ctx
}

// computed reports whether it is being computed.
func (j *job) computed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cancel != nil
}

// end asks for the end of a job. It reports true if nobody computes it, so that the caller has to
// end it.
func (j *job) end(why error) (waits bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.why == nil {
		j.why = why
	}
	if j.cancel == nil {
		return true
	}
	j.cancel(why)
	return false
}

// begin makes the first two events, unless they are there, and returns the number of the next one.
// response is the response as it was queued.
func (j *job) begin(response []byte) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.ends) == 0 {
		a := &answer{}
		for _, name := range []string{"response.created", "response.queued"} {
			j.append(end(append(append(a.event(nil, name), `,"response":`...), response...)))
		}
	}
	return len(j.ends)
}

// add appends events.
func (j *job) add(events []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.append(events)
}

var eventEnd = []byte("\n\n")

// append appends events; j.mu is held. JSON has no line feeds, so that each event ends with the first blank line.
func (j *job) append(events []byte) {
	for rest := events; ; {
		i := bytes.Index(rest, eventEnd)
		if i < 0 {
			break
		}
		rest = rest[i+len(eventEnd):]
		j.ends = append(j.ends, len(j.events)+len(events)-len(rest))
	}
	j.events = append(j.events, events...)
	j.wake()
}

func (j *job) wake() {
	if j.changed != nil {
		close(j.changed)
		j.changed = nil
	}
}

// close appends the last events and ends the job. Further calls have no effect.
func (j *job) close(last []byte) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closed {
		return
	}
	j.append(last)
	j.closed = true
	if j.cancel != nil {
		j.cancel(nil)
	}
	j.wake()
	close(j.done)
}

// soFar are the events that there are.
func (j *job) soFar() []byte {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.events[:len(j.events):len(j.events)]
}

// from returns the events from a number on, and the number after them. If there are none, changed
// is closed when there is something new; nil: there will be nothing.
func (j *job) from(n int) (events []byte, next int, changed <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n < len(j.ends) {
		start := 0
		if n > 0 {
			start = j.ends[n-1]
		}
		return j.events[start:len(j.events):len(j.events)], len(j.ends), nil
	}
	if j.closed {
		return nil, n, nil
	}
	if j.changed == nil {
		j.changed = make(chan struct{})
	}
	return nil, n, j.changed
}

// follower is the body of an answer that has the events of a job, as they come. When its client
// leaves, the job goes on.
type follower struct {
	call      *transport.Call
	j         *job
	next      int // number of the event that is sent next
	heartbeat time.Duration
	rest      []byte // for Read
}

// follow answers with the events of a job from a number on.
func (h *Handlers) follow(c *transport.Call, j *job, from int) {
	if err := h.jobs.seed(j); err != nil {
		c.Fail(err)
		return
	}
	streamHeaders(c)
	c.Stream(streamType, &follower{call: c, j: j, next: from, heartbeat: h.cfg.Heartbeat})
}

// streamType is the content type of events.
const streamType = "text/event-stream; charset=utf-8"

func streamHeaders(c *transport.Call) {
	c.Response.Header.Set("Cache-Control", "no-cache")
	c.Response.Header.Set("X-Accel-Buffering", "no") // nginx
}

// seed gives a job its first events, if it has none yet.
func (b *jobs) seed(j *job) error {
	if len(j.soFar()) > 0 {
		return nil
	}
	rec, err := b.h.cfg.Store.Get(j.key.owner, j.key.id)
	if err == nil && rec == nil {
		err = errNotFound(j.key.id)
	}
	if err == nil {
		j.begin(rec.Response)
	}
	return err
}

// piece waits for the next bytes to send; io.EOF: there are no more.
func (f *follower) piece() ([]byte, error) {
	var tick <-chan time.Time
	for {
		events, next, changed := f.j.from(f.next)
		if f.next = next; events != nil {
			return events, nil
		}
		if changed == nil {
			return nil, io.EOF
		}
		if tick == nil && f.heartbeat > 0 {
			t := time.NewTimer(f.heartbeat)
			defer t.Stop()
			tick = t.C
		}
		select {
		case <-changed:
		case <-tick:
			return []byte(api.Heartbeat), nil
		case <-f.call.Context().Done():
			return nil, context.Cause(f.call.Context())
		}
	}
}

// SupportsBodyWriteTo makes fasthttp call WriteTo, so that each piece is sent at once.
func (f *follower) SupportsBodyWriteTo() bool { return true }

func (f *follower) WriteTo(w io.Writer) (n int64, err error) {
	for {
		piece, err := f.piece()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		m, err := w.Write(piece)
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
}

func (f *follower) Read(p []byte) (n int, err error) {
	if len(f.rest) == 0 {
		if f.rest, err = f.piece(); err != nil {
			return 0, err
		}
	}
	n = copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

func (f *follower) Close() error {
	f.call.Done()
	return nil
}

// past is the body of an answer that has the events of a response that has ended.
type past struct {
	io.Reader
	call *transport.Call
}

func (p *past) Close() error {
	p.call.Done()
	return nil
}

// replay answers with the events of a response that has ended, from a number on.
func replay(c *transport.Call, packed []byte, from int) {
	r := bufio.NewReader(unpack(packed))
	for blank := 0; blank < from; { // an event is two lines and a blank one
		line, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			break
		}
		if len(line) == 1 && line[0] == '\n' {
			blank++
		}
	}
	streamHeaders(c)
	c.Stream(streamType, &past{r, c})
}

// get answers GET /v1/responses/{id}.
func (h *Handlers) get(c *transport.Call, id string) {
	from, streams, err := startingAfter(c)
	if err != nil {
		c.Fail(err)
		return
	}
	if h.cfg.Store == nil {
		c.Fail(errNotFound(id))
		return
	}
	o := ownerOf(senderOf(c))
	j := h.jobs.find(o, id)
	if j != nil && streams {
		h.follow(c, j, from)
		return
	}
	rec := h.find(c, id)
	switch {
	case rec == nil:
	case streams:
		h.replay(c, o, rec, from)
	case j != nil && j.computed() && rec.status() == queued:
		c.Reply(restate(rec.Response, map[string][]byte{"status": quoted(inProgress)}))
	default:
		c.Reply(rec.Response)
	}
}

// replay answers with the events of a response that has ended.
func (h *Handlers) replay(c *transport.Call, o Owner, rec *Record, from int) {
	packed, err := h.cfg.Store.events(o, rec.ID)
	switch {
	case err != nil:
		c.Fail(err)
	case packed != nil:
		replay(c, packed, from)
	case rec.status() == queued: // the server is starting, or stops
		c.Fail(failure.ErrLoading)
	default:
		c.Fail(failure.BadRequest("stream", "The events of response %s are not kept: it was not computed in the background. Ask for it without stream.", rec.ID))
	}
}

// startingAfter reads which events are asked for: from that number on.
func startingAfter(c *transport.Call) (from int, streams bool, err error) {
	q := c.QueryArgs()
	switch v := string(q.Peek("stream")); v {
	case "", "false":
	case "true":
		streams = true
	default:
		return 0, false, failure.BadRequest("stream", "stream must be true or false, got %s.", clip([]byte(v)))
	}
	v := q.Peek("starting_after")
	if len(v) == 0 {
		return 0, streams, nil
	}
	n, err := strconv.ParseUint(string(v), 10, 31)
	if err != nil {
		return 0, false, failure.BadRequest("starting_after", "starting_after must be the sequence_number of an event, got %s.", clip(v))
	}
	if !streams {
		return 0, false, failure.BadRequest("starting_after", "starting_after is about events, and needs stream=true.")
	}
	return int(n) + 1, true, nil
}

// cancel answers POST /v1/responses/{id}/cancel. Only a response in the background can be
// cancelled. One that has ended stays as it is.
func (h *Handlers) cancel(c *transport.Call, id string) {
	if h.cfg.Store == nil {
		c.Fail(errNotFound(id))
		return
	}
	o := ownerOf(senderOf(c))
	j := h.jobs.find(o, id)
	if j == nil {
		if p, err := h.cfg.Store.pending(o, id); err != nil {
			c.Fail(err)
			return
		} else if p != nil { // the server is starting, or stops
			j = newJob(p)
		}
	}
	if j != nil {
		if err := h.jobs.cancel(c.Context(), j); err != nil {
			c.Fail(err)
			return
		}
	}
	rec := h.find(c, id)
	switch {
	case rec == nil:
	case !rec.inBackground():
		c.Fail(failure.BadRequest("response_id", "Response %s is complete. Only responses in the background can be cancelled; others end when their client leaves.", id))
	default:
		c.Reply(rec.Response)
	}
}

// Start begins to compute responses in the background. It is called when there is a model.
func (h *Handlers) Start() {
	if h.jobs != nil {
		h.jobs.start()
	}
}

// Close ends the responses in the background. Those that are not complete are computed again when
// the server is started the next time.
func (h *Handlers) Close() {
	if h.jobs != nil {
		h.jobs.close()
	}
}
