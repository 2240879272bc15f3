package bench

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"weir/api"
)

var (
	errCut      = errors.New("the stream ended before [DONE]")
	errNoChoice = errors.New("no event of the stream had a choice")
	errNoJSON   = errors.New("an event of the stream is not JSON")
)

// exchange is a request and its answer.
type exchange struct {
	client  *client
	reader  *eventReader
	request *request
	outcome *outcome
	now     func() time.Duration
	leave   context.CancelFunc // ends the exchange as its client does
	events  int                // events with a choice so far
}

// run sends the request and reads the answer. It returns nil if the answer was complete.
func (x *exchange) run(ctx context.Context) error {
	resp, err := x.open(ctx)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxError))
		return errors.New(refusal(resp, text))
	}
	done := false
	for err == nil {
		err = x.reader.fill(resp.Body)
		events, last, bad := x.read(x.now())
		if bad != nil {
			return bad
		}
		x.outcome.joined += max(0, events-1)
		done = done || last
		if leave := &x.request.leave; leave.leaves && leave.after == 0 && x.events > 0 && x.events >= leave.events && !done {
			x.leave()
			return ctx.Err()
		}
	}
	switch {
	case err != io.EOF:
		return err
	case !done:
		return errCut
	case x.outcome.first < 0:
		return errNoChoice
	}
	return nil
}

// open sends the request and waits for the beginning of the answer. Some servers close a connection that
// they said they would keep (llama.cpp's after a stream). Nobody has seen anything of an answer then, so
// the request is sent once more, over a connection of its own.
func (x *exchange) open(ctx context.Context) (*http.Response, error) {
	resp, ended, err := x.send(ctx, x.client.transport)
	if err == nil || !ended || ctx.Err() != nil {
		return resp, err
	}
	x.outcome.reopened = true
	resp, _, err = x.send(ctx, x.client.fresh)
	return resp, err
}

// send sends the request. ended says that there was a connection, and that it ended before the first byte
// of an answer.
func (x *exchange) send(ctx context.Context, via *http.Transport) (resp *http.Response, ended bool, err error) {
	var connected, answered atomic.Bool
	trace := &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { connected.Store(true) },
		GotFirstResponseByte: func() { answered.Store(true) },
	}
	if leave := &x.request.leave; leave.leaves && leave.after == 0 && leave.events == 0 {
		trace.WroteRequest = func(httptrace.WroteRequestInfo) { x.leave() }
	}
	resp, err = x.client.request(httptrace.WithClientTrace(ctx, trace), via, http.MethodPost, x.client.path, x.request.body)
	return resp, connected.Load() && !answered.Load(), err
}

// read takes in the events that are complete, all of which arrived at the same time.
// It returns how many had a choice, not counting the first of the answer, and whether the
// last event of the stream was among them. The first is not counted because the first event
// of a chat has only the role, and is sent together with the second.
func (x *exchange) read(at time.Duration) (events int, done bool, err error) {
	var e event
	o := x.outcome
	for {
		data, ok := x.reader.next()
		if !ok {
			return events, done, nil
		}
		if string(data) == doneData {
			done = true
			continue
		}
		if !e.parse(data) {
			return events, done, errNoJSON
		}
		if e.failure != nil {
			return events, done, errors.New("error event: " + explain(e.failure))
		}
		if e.usage {
			o.usage, o.prompt, o.completion, o.cached = true, e.prompt, e.completion, e.cached
		}
		if e.choices {
			if o.first >= 0 {
				events++
			}
			x.choice(&e, at)
		}
	}
}

var doneData = strings.TrimSpace(strings.TrimPrefix(api.Done, "data: "))

// choice takes in an event with a choice.
func (x *exchange) choice(e *event, at time.Duration) {
	o := x.outcome
	if o.first < 0 {
		o.first = at
	} else {
		o.gaps = append(o.gaps, at-o.last)
	}
	o.last = at
	x.events++
	if e.output {
		o.outputs++
		x.client.live.outputs.Add(1)
	}
	if e.text != nil && (x.client.keepText || x.request.wanted) {
		o.text = unquoted(o.text, e.text)
	}
}
