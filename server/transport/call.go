package transport

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"weir/auth"
	"weir/server/failure"
)

// Call is one request, from its headers to the last byte of its answer. The
// handler's goroutine owns it; only Context is for others.
type Call struct {
	*fasthttp.RequestCtx // not to be touched once the handler has returned

	Who       *auth.Identity // who sent it; nil: the route is open
	Target    string         // the path as it was sent, without the root path
	RequestID string         // X-Request-Id; "": none was sent
	Project   string         // "<team>/<project>"; "": none
	QueueKey  string         // whose turn it is in the preparation queue
	Begun     time.Time      // when its headers had been read

	server *Server
	conn   *conn
	face   failure.Interface
	ctx    context.Context
	cancel context.CancelCauseFunc

	account  account
	body     body
	bodyRead bool   // nothing of the body is left on the wire
	streams  bool   // the answer goes on after the handler has returned
	atEnd    func() // see AtEnd
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

// Reply sets status 200 and a JSON body, which the caller does not touch again.
func (c *Call) Reply(body []byte) {
	c.SetStatusCode(fasthttp.StatusOK)
	c.SetContentType("application/json")
	c.Response.SetBodyRaw(body)
}

// Stream sets a body that is read, written and closed after the handler has returned.
// Its Close has to call Done. Nothing of the RequestCtx may be touched while it is read.
func (c *Call) Stream(contentType string, body io.Reader) {
	c.SetContentType(contentType)
	c.streams = true
	c.SetBodyStream(body, -1)
}

// AtEnd makes f be called when the answer is complete, or cut short.
func (c *Call) AtEnd(f func()) { c.atEnd = f }

// Done ends a call whose answer was streamed.
func (c *Call) Done() {
	c.Settle()
	c.end()
}

// finish ends a call, unless its answer streams on: then the stream does.
func (c *Call) finish() {
	if !c.bodyRead {
		// What comes next on this connection is the rest of the body, not a
		// request. Read on for a while after the answer, so that it arrives.
		c.SetConnectionClose()
		c.conn.linger.Store(true)
	}
	c.body.free()
	if !c.streams {
		c.Done()
	}
}

// end releases what a call holds beyond its handler.
func (c *Call) end() {
	if c.atEnd != nil {
		c.atEnd()
		c.atEnd = nil
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

// requestID echoes the request's id, or makes one for whoever reads logs.
func (c *Call) requestID() {
	if c.server.cfg.NoRequestID {
		return
	}
	id := c.RequestID
	if id == "" {
		id = RandomHex(16)
	}
	c.Response.Header.Set("X-Request-Id", id)
}

// Detached returns a call without a connection, for tests of what streams. It leaves no
// account.
func (s *Server) Detached() *Call {
	c := &Call{server: s, conn: &conn{}, Begun: s.Now()}
	c.ctx, c.cancel = context.WithCancelCause(s.base)
	return c
}

// JSONType reports whether a Content-Type is JSON's or none at all, as the interfaces of
// feedback and trajectories have it: the reference's client sends none
// (docs/interface/feedback.md, F-2).
func JSONType(header string) bool {
	media, _, _ := strings.Cut(header, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	sub, ok := strings.CutPrefix(media, "application/")
	return media == "" || ok && (sub == "json" || strings.HasSuffix(sub, "+json"))
}

// ValidIdempotencyKey tells whether a value of the header Idempotency-Key is at most 255
// bytes of printable ASCII. An absent header has the value "", which is valid.
func ValidIdempotencyKey(key string) bool {
	return len(key) <= 255 && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' })
}
