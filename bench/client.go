package bench

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"weir/internal/jsontext"
)

// client speaks HTTP/1.1. Each request in flight has a connection of its own, which a
// later request may use again.
type client struct {
	transport *http.Transport // keeps connections
	fresh     *http.Transport // makes a connection for each request
	base, key string
	header    http.Header
	path      string
	keepText  bool
	readers   sync.Pool // of *eventReader
	live      liveCounts
}

func newClient(c *ServeConfig) *client {
	return &client{
		transport: newTransport(&c.Target, math.MaxInt), fresh: newTransport(&c.Target, -1),
		base: strings.TrimSuffix(strings.TrimRight(c.BaseURL, "/"), "/v1"), key: c.APIKey, header: c.Header,
		path: c.path(), keepText: c.KeepText,
		readers: sync.Pool{New: func() any { return new(eventReader) }},
	}
}

// newTransport makes a transport that keeps so many connections that nothing uses; -1: none.
func newTransport(t *Target, idle int) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Transport{
		DialContext: t.Dial, Protocols: &protocols, DisableCompression: true,
		MaxIdleConnsPerHost: idle, MaxResponseHeaderBytes: maxError,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: t.Insecure},
	}
}

func (c *client) close() {
	c.transport.CloseIdleConnections()
	c.fresh.CloseIdleConnections()
}

func (c *client) request(ctx context.Context, via *http.Transport, method, path string, body []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
		r.GetBody = nil // the transport shall not send it twice: that is counted here
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	for name, values := range c.header {
		r.Header[name] = values
	}
	return via.RoundTrip(r)
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
	resp, err := c.request(ctx, c.transport, http.MethodGet, "/v1/models", nil)
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
	begun              bool // it was sent
	due, arrived, sent time.Duration
	waited             bool            // it was due before it could be sent, because of the largest concurrency
	first, last        time.Duration   // events with a choice; first < 0: there was none. Of a failed request, last is when it failed
	gaps               []time.Duration // times between events with a choice
	prompt, completion int             // tokens
	cached             int             // of the prompt's tokens, not computed, as the server says
	usage              bool            // prompt and completion are the server's count
	joined             int             // events with a choice that were read together with the one before, not counting the first
	outputs            int             // events that carried something of the answer
	failure            string          // "": the request completed, or its client left
	cut                bool            // it failed because the run ended
	left               bool            // its client left, as was planned
	reopened           bool            // its connection had ended before the first byte of an answer, and was opened again
	text               []byte
}

// stream sends a request and reads the answer to its end, or until the client leaves.
func (c *client) stream(ctx context.Context, q *request, o *outcome, now func() time.Duration) {
	r := c.readers.Get().(*eventReader)
	defer c.readers.Put(r)
	r.reset()
	o.begun, o.sent = true, now()
	o.first = -1
	present, leave := ctx, func() {}
	if q.leave.leaves {
		present, leave = leaving(ctx, q.leave.after)
	}
	defer leave()
	x := exchange{client: c, reader: r, request: q, outcome: o, now: now, leave: leave}
	err := x.run(present)
	switch {
	case err == nil:
	case q.leave.leaves && ctx.Err() == nil && present.Err() != nil:
		o.left = true
	default:
		o.failure, o.cut = reason(err), ctx.Err() != nil
	}
	if err != nil {
		o.last = now()
	}
}

// leaving returns a context that ends when the client of a request leaves: after a time, or, if that is
// 0, when the function that it returns is called.
func leaving(ctx context.Context, after time.Duration) (context.Context, context.CancelFunc) {
	if after > 0 {
		return context.WithTimeout(ctx, after)
	}
	return context.WithCancel(ctx)
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
