package server

import (
	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/server/failure"
	"weir/server/transport"
)

// health answers GET /health and /ping: an empty 200 for a process that should
// go on, else 503 with the reason.
func (s *Server) health(c *transport.Call) {
	if err := s.openai.Alive(); err != nil {
		c.Fail(err)
		return
	}
	c.SetStatusCode(fasthttp.StatusOK)
}

// ready answers GET /ready: 200 for a server that should be sent requests.
func (s *Server) ready(c *transport.Call) {
	err := s.openai.Alive()
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
