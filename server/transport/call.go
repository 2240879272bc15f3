package transport

import (
	"bytes"
	"context"
	"io"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/auth"
	"weir/internal/memory"
	"weir/server/failure"
)

// Call is one request, from its headers to the last byte of its answer. It belongs to the
// goroutine of its handler. Other goroutines may use its Context only.
type Call struct {
	*fasthttp.RequestCtx // not to be touched once the handler has returned

	Who       *auth.Identity // who sent it; nil: the route is open
	Target    string         // the path as it was sent, without the root path
	RequestID string         // X-Request-Id; "": none was sent
	Project   string         // "<team>/<project>"; "": none
	Begun     time.Time      // when its headers had been read

	server *Server
	conn   *conn
	face   failure.Interface
	ctx    context.Context
	cancel context.CancelCauseFunc

	account  account
	memory   *memory.Reservation // see Memory
	body     body
	bodyRead bool     // nothing of the body is left on the wire
	answerID string   // X-Request-Id of the answer; "": it has none
	streams  bool     // the answer goes on after the handler has returned
	size     int      // of an answer that streams, if it is known before
	atEnd    []func() // see AtEnd
	decoded  []byte   // the body without its Content-Encoding; nil: it is as it was sent

	background bool // see Background
	limited    limited
	tracked    *Ongoing // see Track; nil: it is not tracked
}

// Context ends when the client leaves, with the cause failure.ErrGone, or when the
// server stops, with failure.ErrDraining.
func (c *Call) Context() context.Context { return c.ctx }

// Answer sets a status and a JSON body.
func (c *Call) Answer(status int, body string) {
	c.SetStatusCode(status)
	c.SetContentType("application/json")
	c.SetBodyString(body)
}

// Memory returns the memory that the call has reserved. A handler adds what it is about to
// hold; all is given back when the answer has been sent.
func (c *Call) Memory() *memory.Reservation {
	if c.memory == nil {
		c.memory = c.server.memory.OpenFor(c.Tenant())
	}
	return c.memory
}

// callBytes is about what a connection with a request holds beside the body and the answer:
// stacks, buffers, headers.
const callBytes = 32 << 10

// Reply sets status 200 and a JSON body. The caller must not change the body after that.
// The memory of a large one is charged until it has been sent.
func (c *Call) Reply(body []byte) {
	if len(body) > callBytes && !c.Memory().TryGrow(int64(cap(body))) {
		c.Fail(failure.ErrMemory)
		return
	}
	c.send("application/json", body)
}

// ReplyReserved is Reply for a body that the call has reserved the memory of. What it has
// reserved beyond that is given back, but for what a connection holds.
func (c *Call) ReplyReserved(body []byte) { c.replyReserved("application/json", body) }

// ReplyBinary is ReplyReserved for a body that is no text.
func (c *Call) ReplyBinary(body []byte) { c.replyReserved("application/octet-stream", body) }

func (c *Call) replyReserved(contentType string, body []byte) {
	if n := c.Memory().Held() - callBytes - int64(cap(body)); n >= 0 {
		c.Memory().Shrink(n)
	} else {
		c.Memory().Force(-n) // it is there already
	}
	c.send(contentType, body)
}

// send sets a body whose memory is charged.
func (c *Call) send(contentType string, body []byte) {
	if len(body) <= callBytes {
		c.SetStatusCode(fasthttp.StatusOK)
		c.SetContentType(contentType)
		c.Response.SetBodyRaw(body)
		return
	}
	c.StreamSized(contentType, &wholeBody{Reader: bytes.NewReader(body), call: c}, len(body))
	c.Settle()
}

// wholeBody is an answer that is complete. Its call ends when it has been sent.
type wholeBody struct {
	*bytes.Reader
	call *Call
}

func (b *wholeBody) Close() error {
	b.call.Done()
	return nil
}

// Stream sets a body that is read, sent and closed after the handler has returned. The
// Close method of body must call Done. While body is read, nothing may use the RequestCtx.
func (c *Call) Stream(contentType string, body io.Reader) { c.StreamSized(contentType, body, -1) }

// StreamSized is Stream for a body whose length is known; below 0: it is not.
func (c *Call) StreamSized(contentType string, body io.Reader, length int) {
	c.SetContentType(contentType)
	c.streams = true
	c.size = max(length, 0)
	c.SetBodyStream(body, length)
}

// Impatient bounds the time that the client may take to read 64 KiB of the answer, below what
// Config.WriteTimeout lets it: nobody is to wait for it.
func (c *Call) Impatient(most time.Duration) { c.conn.impatient = most }

// AtEnd adds a function that is called when the answer is complete or was cut short.
func (c *Call) AtEnd(f func()) { c.atEnd = append(c.atEnd, f) }

// Done ends a call whose answer was streamed.
func (c *Call) Done() {
	c.Settle()
	c.end()
}

// finish is called when the handler has returned. It ends the call, unless the answer is a
// stream, whose Close ends it.
func (c *Call) finish() {
	if !c.bodyRead {
		// The next bytes of this connection are the rest of the body and not a request.
		// The connection is closed, but reads on for a while, so that the answer arrives.
		c.SetConnectionClose()
		c.conn.linger.Store(true)
	}
	c.body.free()
	if !c.streams {
		c.Done()
	}
}

// end releases what a call holds until its answer is complete.
func (c *Call) end() {
	for _, f := range c.atEnd {
		f()
	}
	c.atEnd = nil
	c.server.ongoing.remove(c.tracked)
	c.conn.impatient = 0
	if c.memory != nil {
		c.memory.Release()
		c.memory = nil
	}
	if c.cancel != nil {
		c.conn.detach()
		c.cancel(nil)
	}
}

// begin gives the call its context, which the watcher ends when the client leaves.
func (c *Call) begin() {
	c.ctx, c.cancel = context.WithCancelCause(c.server.base)
	c.conn.attach(c.cancel)
}

// requestID sets the header X-Request-Id of the answer: the id of the request, or a random
// one.
func (c *Call) requestID() {
	if c.server.cfg.NoRequestID {
		return
	}
	id := c.RequestID
	if id == "" {
		id = RandomHex(16)
	}
	c.answerID = id
	c.Response.Header.Set("X-Request-Id", id)
}

// maxAffinity bounds the value of a header that affinity repeats, in bytes.
const maxAffinity = 512

// affinity repeats the headers by which clients and routers say which requests belong together in the answer, so that a client sees what
// the router before this server went by.
func (c *Call) affinity() {
	h := &c.Request.Header
	set := c.repeat
	set("X-Session-Id", h.Peek("X-Session-Id"))
	set("X-Session-Affinity", h.Peek("X-Session-Affinity"))
	set("X-Correlation-Id", h.Peek("X-Correlation-Id"))
	set("X-Smg-Routing-Key", h.Peek("X-Smg-Routing-Key"))
	set("X-Dynamo-Session-Id", h.Peek("X-Dynamo-Session-Id"))
}

// repeat sets a header of the answer to a value of the request, unless that is absent, too long, or not printable ASCII.
func (c *Call) repeat(name string, value []byte) {
	if len(value) > 0 && len(value) <= maxAffinity && printable(value) {
		c.Response.Header.SetBytesV(name, value)
	}
}

// printable reports whether a text is printable ASCII.
func printable(text []byte) bool {
	for _, b := range text {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return true
}

// Detached returns a call without a connection, for tests of streams. It is neither
// counted nor logged.
func (s *Server) Detached() *Call {
	c := &Call{server: s, conn: &conn{}, Begun: s.Now()}
	c.ctx, c.cancel = context.WithCancelCause(s.base)
	return c
}

// JSONType reports whether a Content-Type is one of JSON or is absent. The interfaces of
// feedback and trajectories use it; Weave's client sends no Content-Type
// (docs/interface/feedback.md, F-2).
func JSONType(header string) bool {
	media, _, _ := strings.Cut(header, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	sub, ok := strings.CutPrefix(media, "application/")
	return media == "" || ok && (sub == "json" || strings.HasSuffix(sub, "+json"))
}

// ValidIdempotencyKey reports whether a value of the header Idempotency-Key is at most 255
// bytes of printable ASCII. An absent header has the value "", which is valid.
func ValidIdempotencyKey(key string) bool {
	return len(key) <= 255 && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' })
}
