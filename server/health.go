package server

import (
	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/server/failure"
	"weir/server/transport"
)

// serving is the model that a new request is answered with, or why none is.
func (s *Server) serving() (*Model, error) {
	m := s.model.Load()
	switch {
	case s.failed.Load():
		return nil, failure.ErrEngineFailed
	case m == nil:
		return nil, failure.ErrLoading
	case s.http.Draining():
		return nil, failure.ErrDraining
	}
	return m, nil
}

// alive reports whether the engine can be expected to answer: it has not ended,
// and its newest step is not overly old. Steps begin only while there is work.
func (s *Server) alive() error {
	if s.failed.Load() {
		return failure.ErrEngineFailed
	}
	m := s.model.Load()
	if m == nil {
		return failure.ErrLoading
	}
	if began := m.Engine.Stats().StepBegan; !began.IsZero() && s.http.Now().Sub(began) > s.cfg.StallAfter {
		return failure.ErrStalled
	}
	return nil
}

// health answers GET /health and /ping: an empty 200 for a process that should
// go on, else 503 with the reason.
func (s *Server) health(c *transport.Call) {
	if err := s.alive(); err != nil {
		c.Fail(err)
		return
	}
	c.SetStatusCode(fasthttp.StatusOK)
}

// ready answers GET /ready: 200 for a server that should be sent requests.
func (s *Server) ready(c *transport.Call) {
	err := s.alive()
	if err == nil && s.http.Draining() {
		err = failure.ErrDraining
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.Answer(fasthttp.StatusOK, `{"status":"ready"}`)
}

// version answers GET /version.
func (s *Server) version(c *transport.Call) {
	c.Answer(fasthttp.StatusOK, string(api.AppendVersion(nil, s.cfg.Version)))
}
