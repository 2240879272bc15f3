package server

import (
	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/server/transport"
)

// openAPI answers GET /openapi.json. The document lists the functions that are
// switched off, too, and says so of them.
func (s *Server) openAPI(c *transport.Call) {
	c.Answer(fasthttp.StatusOK, string(api.OpenAPI(s.cfg.Version)))
}
