package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/api"
	"weir/internal/jsontext"
)

// client speaks HTTP/1.1. Each request in flight has a connection of its own, which a
// later request may use again.
type client struct {
	transport *http.Transport
	base, key string
	path      string
	keepText  bool
	readers   sync.Pool // of *eventReader
}

func newClient(c *ServeConfig) *client {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &client{
		transport: &http.Transport{
			DialContext: c.Dial, Protocols: &protocols, DisableCompression: true,
			MaxIdleConnsPerHost: math.MaxInt, MaxResponseHeaderBytes: maxError,
		},
		base: strings.TrimSuffix(strings.TrimRight(c.BaseURL, "/"), "/v1"), key: c.APIKey,
		path: c.Endpoint.path(), keepText: c.KeepText,
		readers: sync.Pool{New: func() any { return new(eventReader) }},
	}
}

func (c *client) close() { c.transport.CloseIdleConnections() }

func (c *client) request(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	return c.transport.RoundTrip(r)
}

// ready waits until the server answers and returns the name of its first model, or "" if
// the server does not say one. A server that refuses connections or answers 503 is asked
// again until the timeout.
func (c *client) ready(ctx context.Context, timeout time.Duration) (string, error) {
	for begin := time.Now(); ; {
		model, err := c.firstModel(ctx)
		if err == nil || time.Since(begin) >= timeout {
			return model, err
		}
		select {
		case <-time.After(readyPause):
		case <-ctx.Done():
			return "", err
		}
	}
}

const (
	readyPause = 100 * time.Millisecond
	readyLimit = 10 * time.Second // of one attempt
)

func (c *client) firstModel(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	resp, err := c.request(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		return "", fmt.Errorf("bench: %s: %s", c.base, reason(err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxEvent))
	if err != nil {
		return "", fmt.Errorf("bench: %s: %s", c.base, reason(err))
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		return "", fmt.Errorf("bench: %s: %s", c.base, refusal(resp, body))
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if jsontext.Decode(body, &list) != nil || len(list.Data) == 0 {
		return "", nil // a run that was told the model's name does not need this endpoint
	}
	return list.Data[0].ID, nil
}

// outcome is what became of a request. Times are measured from the start of the run.
type outcome struct {
	due, arrived, sent time.Duration
	waited             bool            // it was due before it could be sent, because of the largest concurrency
	first, last        time.Duration   // events with a choice; first < 0: there was none. Of a failed request, last is when it failed
	gaps               []time.Duration // times between events with a choice
	prompt, completion int             // tokens
	cached             int             // of the prompt's tokens, not computed, as the server says
	usage              bool            // prompt and completion are the server's count
	joined             int             // events with a choice that were read together with the one before, not counting the first
	failure            string          // "": the request completed
	cut                bool            // it failed because the run ended
	text               []byte
}

// stream sends a request and reads the answer to its end.
func (c *client) stream(ctx context.Context, body []byte, o *outcome, now func() time.Duration) {
	r := c.readers.Get().(*eventReader)
	defer c.readers.Put(r)
	r.reset()
	o.sent = now()
	o.first = -1
	if err := c.exchange(ctx, body, r, o, now); err != nil {
		o.failure, o.cut = reason(err), ctx.Err() != nil
	}
	if o.failure != "" {
		o.last = now()
	}
}

var (
	errCut      = errors.New("the stream ended before [DONE]")
	errNoChoice = errors.New("no event of the stream had a choice")
	errNoJSON   = errors.New("an event of the stream is not JSON")
)

// exchange sends a request and reads the answer. It returns nil if the answer was
// complete.
func (c *client) exchange(ctx context.Context, body []byte, r *eventReader, o *outcome, now func() time.Duration) error {
	resp, err := c.request(ctx, http.MethodPost, c.path, body)
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
		err = r.fill(resp.Body)
		events, last, bad := c.readEvents(r, o, now())
		if bad != nil {
			return bad
		}
		o.joined += max(0, events-1)
		done = done || last
	}
	switch {
	case err != io.EOF:
		return err
	case !done:
		return errCut
	case o.first < 0:
		return errNoChoice
	}
	return nil
}

// readEvents takes in the events that are complete, all of which arrived at the same time.
// It returns how many had a choice, not counting the first of the answer, and whether the
// last event of the stream was among them. The first is not counted because the first event
// of a chat has only the role, and is sent together with the second.
func (c *client) readEvents(r *eventReader, o *outcome, at time.Duration) (events int, done bool, err error) {
	var e event
	for {
		data, ok := r.next()
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
			c.addChoice(&e, o, at)
		}
	}
}

var doneData = strings.TrimSpace(strings.TrimPrefix(api.Done, "data: "))

// addChoice takes in an event with a choice.
func (c *client) addChoice(e *event, o *outcome, at time.Duration) {
	if o.first < 0 {
		o.first = at
	} else {
		o.gaps = append(o.gaps, at-o.last)
	}
	o.last = at
	if c.keepText && e.text != nil {
		o.text = unquoted(o.text, e.text)
	}
}

// refusal is the text of an answer whose status is not 200.
func refusal(resp *http.Response, body []byte) string {
	if text := explain(body); text != "" {
		return clip(resp.Status) + ": " + text
	}
	return clip(resp.Status)
}

// reason is the text of an error without what differs from request to request, such as
// port numbers, so that equal failures are counted together.
func reason(err error) string {
	if op := (*net.OpError)(nil); errors.As(err, &op) {
		return clip(op.Op + ": " + op.Err.Error())
	}
	return clip(err.Error())
}
