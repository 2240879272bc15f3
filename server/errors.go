package server

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"weir/server/failure"
)

// classes are the settings of the classification of errors, which its messages name.
func (s *Server) classes() *failure.Settings {
	t := &s.cfg.Trajectories
	return &failure.Settings{
		Body: s.cfg.MaxBody, Header: s.cfg.MaxHeader, Upload: t.MaxBody, Ratio: t.MaxRatio, Quota: t.Quota,
		Trajectory: t.Limits.Trajectory, Trajectories: t.Limits.Trajectories,
		Progress: func() string { return *s.progress.Load() },
	}
}

// fail answers with err, in the form of the interface that the path of c belongs to.
func (s *Server) fail(c *call, err error) {
	if c.ctx != nil && c.ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = context.Cause(c.ctx) // which says whether the client left or the server stops
	}
	f := s.classes().Of(c.face, err)
	s.logFailure(c, &f, err)
	s.failWith(c.RequestCtx, &f)
}

func (s *Server) failWith(rc *fasthttp.RequestCtx, f *failure.Failure) {
	h := &rc.Response.Header
	h.Del("Content-Encoding") // of an answer that would have been an export
	h.Del("Content-Disposition")
	rc.SetStatusCode(f.Status)
	rc.SetContentType("application/json")
	rc.SetBody(f.AppendBody(nil))
	if f.Retry() {
		h.Set("Retry-After", strconv.Itoa(s.retryAfter()))
	}
	if f.Gone() {
		rc.SetConnectionClose()
	}
}

// retryAfter is in whole seconds: the header knows no others.
func (s *Server) retryAfter() int {
	return int((s.cfg.RetryAfter + time.Second - 1) / time.Second)
}

// logFailure leaves a failure in the log, in the account of c, and, if it has kept the
// request from the engine, in the counter of refusals.
func (s *Server) logFailure(c *call, f *failure.Failure, err error) {
	c.account.failure = f.Kind
	if c.account.path != "" && c.account.stream == nil && f.Reason != "" {
		s.counts.Rejected(f.Reason)
	}
	tenant := ""
	if c.who != nil {
		tenant = c.who.Tenant
	}
	s.log.Log(context.Background(), f.Level(), logFailed, "id", c.id, "project", c.project, "tenant", tenant,
		"status", f.Status, "kind", f.Kind, "error", err, "took", s.now().Sub(c.begun))
}

// malformed answers what is not HTTP, or not in time; fasthttp then closes the
// connection.
func (s *Server) malformed(rc *fasthttp.RequestCtx, err error) {
	s.cfg.CORS.answer(rc)
	reason := failure.ErrNotHTTP
	small, ne := (*fasthttp.ErrSmallBuffer)(nil), net.Error(nil)
	switch {
	case errors.As(err, &small):
		reason = failure.ErrHeaders
	case errors.As(err, &ne) && ne.Timeout():
		reason = failure.ErrSlowBody
	}
	f := s.classes().Of(failure.OpenAI, reason)
	s.failWith(rc, &f)
	if nc, ok := rc.Conn().(*conn); ok {
		nc.linger.Store(true)
	}
}
