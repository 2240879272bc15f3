package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/engine"
	"weir/metrics"
)

var (
	errDraining = errors.New("server: the server is stopping")
	errLoading  = errors.New("server: no model yet")
	errFailed   = errors.New("server: the engine has ended")
	errStalled  = errors.New("server: the engine makes no progress")
)

// statusGone is what the log says of a request whose client did not wait; the
// number is nginx's. Nobody receives it.
const statusGone = 499

// errorTable says what the client is told of every error that another room, or
// another part of this one, returns, and what a refusal for it counts as. An error that is not here is a fault of
// ours: 500, and the log has the rest.
var errorTable = []struct {
	is     error
	answer func(s *Server, err error) *api.Error
	counts metrics.Reason // "": as nothing, the request or its client is at fault
}{
	{errGone, func(*Server, error) *api.Error {
		return &api.Error{Status: statusGone, Code: statusGone, Type: "ClientClosedRequest", Message: "The client has left."}
	}, ""},
	{errTooLarge, func(s *Server, _ error) *api.Error { return api.ErrTooLarge(s.cfg.MaxBody) }, ""},
	{errSlowBody, func(*Server, error) *api.Error {
		return httpError(fasthttp.StatusRequestTimeout, "The request did not arrive in time.")
	}, ""},
	{errBrokenBody, func(*Server, error) *api.Error {
		return httpError(fasthttp.StatusBadRequest, "The request body is incomplete, or its framing is broken.")
	}, ""},
	{errMemory, unavailable("The server holds too many request bodies. Please try again later."), metrics.Memory},
	{errQueueFull, unavailable("The server is full: too many requests are waiting. Please try again later."), metrics.QueueFull},
	{errDraining, unavailable("The server is stopping."), metrics.Stopping},
	{errLoading, func(s *Server, _ error) *api.Error {
		return api.ErrUnavailable("The server is not ready: " + *s.progress.Load())
	}, metrics.Loading},
	{errFailed, unavailable("The engine has failed; the server has to be restarted."), metrics.Dead},
	{errStalled, unavailable("The engine makes no progress."), ""},
	{engine.ErrFull, unavailable("The engine is full: too many requests are running or waiting. Please try again later."), metrics.EngineFull},
	{engine.ErrLoading, unavailable("The model is still loading."), metrics.Loading},
	{engine.ErrStopped, unavailable("The engine has stopped."), metrics.Stopping},
	// The request's doing, although the model has to run to find it: asked again
	// it fails again, which is what clients do after a 5xx.
	{engine.ErrNoToken, func(*Server, error) *api.Error {
		return badRequest("", "The request's constraints (allowed_token_ids, bad_words, logit_bias, min_tokens) leave no token to draw.")
	}, ""},
	{engine.ErrInvalid, func(_ *Server, err error) *api.Error {
		return badRequest("", "%v", err)
	}, ""},
}

func unavailable(text string) func(*Server, error) *api.Error {
	return func(*Server, error) *api.Error { return api.ErrUnavailable(text) }
}

// httpError is an error of the transport, below what a function of ours checks.
func httpError(status int, text string) *api.Error {
	return &api.Error{Status: status, Code: status, Type: fasthttp.StatusMessage(status), Message: text}
}

// badRequest refuses what only a server with limits of its own refuses.
func badRequest(param, format string, args ...any) *api.Error {
	e := &api.Error{Status: 400, Code: 400, Type: api.TypeBadRequest, Message: fmt.Sprintf(format, args...)}
	if param != "" {
		e.Param = &param
	}
	return e
}

// apiError is what the client is told of err.
func (s *Server) apiError(err error) *api.Error {
	if e := (*api.Error)(nil); errors.As(err, &e) {
		return e
	}
	for _, row := range errorTable {
		if errors.Is(err, row.is) {
			return row.answer(s, err)
		}
	}
	return api.ErrInternal()
}

// fail answers with err.
func (s *Server) fail(c *call, err error) {
	e := s.apiError(err)
	s.logFailure(c, e, err)
	s.failWith(c.RequestCtx, e)
}

func (s *Server) failWith(rc *fasthttp.RequestCtx, e *api.Error) {
	rc.SetStatusCode(e.Status)
	rc.SetContentType("application/json")
	rc.SetBody(e.AppendJSON(nil))
	if e.Status == fasthttp.StatusServiceUnavailable {
		rc.Response.Header.Set("Retry-After", strconv.Itoa(s.retryAfter()))
	}
	if e.Status == statusGone {
		rc.SetConnectionClose()
	}
}

// retryAfter is in whole seconds: the header knows no others.
func (s *Server) retryAfter() int {
	return int((s.cfg.RetryAfter + time.Second - 1) / time.Second)
}

func (s *Server) logFailure(c *call, e *api.Error, err error) {
	level := slog.LevelDebug
	if e.Status == fasthttp.StatusInternalServerError {
		level = slog.LevelError
	}
	c.account.failure = e.Type
	if c.account.path != "" && c.account.stream == nil {
		s.countRefusal(err)
	}
	s.log.Log(context.Background(), level, logFailed, "id", c.id, "project", c.project, "status", e.Status, "type", e.Type, "error", err, "took", s.now().Sub(c.begun))
}

// countRefusal counts a request that err has kept from the engine.
func (s *Server) countRefusal(err error) {
	for _, row := range errorTable {
		if row.counts != "" && errors.Is(err, row.is) {
			s.counts.Rejected(row.counts)
			return
		}
	}
}

// malformed answers what is not HTTP, or not in time; fasthttp then closes the
// connection.
func (s *Server) malformed(rc *fasthttp.RequestCtx, err error) {
	s.cfg.CORS.answer(rc)
	e := httpError(fasthttp.StatusBadRequest, "The request is not HTTP, or its headers are malformed.")
	small, ne := (*fasthttp.ErrSmallBuffer)(nil), net.Error(nil)
	switch {
	case errors.As(err, &small):
		e = httpError(fasthttp.StatusRequestHeaderFieldsTooLarge, "The request line and headers are larger than "+strconv.Itoa(s.cfg.MaxHeader)+" bytes.")
	case errors.As(err, &ne) && ne.Timeout():
		e = s.apiError(errSlowBody)
	}
	s.failWith(rc, e)
	if nc, ok := rc.Conn().(*conn); ok {
		nc.linger.Store(true)
	}
}
