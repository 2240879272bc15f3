package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"weir/internal/retry"
	"weir/metrics"
	"weir/server/failure"
)

// Fail answers with err, in the form of the interface that the path belongs to, and records
// it in the log and the metrics. It returns what the client is told.
func (c *Call) Fail(err error) failure.Failure {
	f := c.Failed(err)
	c.server.answer(c.RequestCtx, &f)
	return f
}

// Failed records err in the log, for Settle, and, if the engine has not accepted the
// request, in the counter of refusals. It returns err in the form that a client sees. It is
// for answers that have begun already; Fail is for all others.
func (c *Call) Failed(err error) failure.Failure {
	s := c.server
	if c.ctx != nil && c.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(c.ctx) // which says whether the client left or the server stops
	}
	f := s.failures.Of(c.face, err)
	if c.face == failure.Messages {
		f.RequestID = c.answerID
	}
	c.account.failure = f.Kind
	switch f.Reason {
	case metrics.EngineFull, metrics.QueuedTokens, metrics.QueueTime:
		c.account.tokens = nil // the engine has accepted it, and given its place away before it began
	}
	if c.account.path != "" && c.account.tokens == nil && f.Reason != "" {
		s.counts.Rejected(f.Reason)
	}
	tenant := ""
	if c.Who != nil {
		tenant = c.Who.Tenant
	}
	s.log.Log(context.Background(), f.Level(), LogFailed, "id", c.RequestID, "project", c.Project, "tenant", tenant,
		"status", f.Status, "kind", f.Kind, "error", err, "took", s.Now().Sub(c.Begun))
	return f
}

// answer sets the status, the headers and the body of a failure.
func (s *Server) answer(rc *fasthttp.RequestCtx, f *failure.Failure) {
	h := &rc.Response.Header
	h.Del("Content-Encoding") // which the handler of an export has set already
	h.Del("Content-Disposition")
	rc.SetStatusCode(f.Status)
	rc.SetContentType("application/json")
	rc.SetBody(f.AppendBody(nil))
	if f.Retry() {
		wait := s.retryAfter(f)
		h.Set("Retry-After", strconv.Itoa(wait))
		h.Set("x-should-retry", strconv.FormatBool(wait <= int(retry.Most/time.Second)))
	}
	if f.Gone() || s.Draining() {
		rc.SetConnectionClose()
	}
}

// refuse answers a connection for which there is no place, and closes it. A connection that
// has just begun takes so few bytes at once, so that nobody waits for the client.
func (s *Server) refuse(nc net.Conn, err error) {
	f := s.failures.Of(failure.OpenAI, err)
	s.counts.Rejected(f.Reason)
	body := f.AppendBody(nil)
	_ = nc.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = fmt.Fprintf(nc, "HTTP/1.1 %d %s\r\nConnection: close\r\nRetry-After: %d\r\nx-should-retry: true\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		f.Status, fasthttp.StatusMessage(f.Status), s.retryAfter(&f), len(body), body)
	_ = nc.Close()
}

// retryAfter returns the value of the header Retry-After: the time that is left to requests in
// flight if the server stops, else what was measured or is always said, else Config.RetryAfter. What
// is no estimate may be more than a minute.
func (s *Server) retryAfter(f *failure.Failure) int {
	wait := f.After
	if end := s.stops.Load(); end != nil {
		wait = max(1, end.Sub(s.Now()))
	}
	if wait == 0 {
		wait = s.cfg.RetryAfter
	}
	if f.Exact && wait == f.After {
		return int((wait + time.Second - 1) / time.Second)
	}
	return retry.Seconds(wait)
}

// malformed answers requests that are not HTTP, or whose headers are too large or too slow.
// fasthttp closes the connection after that.
func (s *Server) malformed(rc *fasthttp.RequestCtx, err error) {
	s.pages.answer(rc)
	reason := failure.ErrNotHTTP
	small, ne := (*fasthttp.ErrSmallBuffer)(nil), net.Error(nil)
	switch {
	case errors.As(err, &small):
		reason = failure.ErrHeaders
	case errors.As(err, &ne) && ne.Timeout():
		reason = failure.ErrSlowBody
	}
	f := s.failures.Of(failure.OpenAI, reason)
	s.answer(rc, &f)
	if nc, ok := rc.Conn().(*conn); ok {
		nc.linger.Store(true)
	}
}
