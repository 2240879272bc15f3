package server

import (
	"errors"
	"io"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/server/failure"
	"weir/server/transport"
	"weir/store"
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
	if err := s.Ready(); err != nil {
		c.Fail(err)
		return
	}
	c.Answer(fasthttp.StatusOK, `{"status":"ready"}`)
}

// Alive is what GET /health answers: nil if the process should go on.
func (s *Server) Alive() error { return s.openai.Alive() }

// Ready is what GET /ready answers: nil if the server should be sent requests.
func (s *Server) Ready() error {
	if err := s.openai.Alive(); err != nil {
		return err
	}
	if s.http.Leaving() {
		return failure.ErrDraining
	}
	return s.unopenable()
}

// WriteMetrics writes what GET /metrics answers to somebody who may see all projects.
func (s *Server) WriteMetrics(w io.Writer) error {
	return s.counts.WriteText(w, func(string) bool { return true })
}

// unopenable says why a database cannot be opened, if that is so. One that is being opened
// or has not been needed yet, and a full or failing disk, are no reason to send a server no
// requests: those pass, or reads go on. One that is damaged, or that another server uses,
// stays closed until somebody does something about it, and meanwhile this server answers
// everything about its records with 503.
func (s *Server) unopenable() error {
	var errs []error
	if b := s.cfg.Feedback; b != nil {
		errs = append(errs, b.Err())
	}
	if a := s.cfg.Trajectories.Archive; a != nil {
		errs = append(errs, a.Err())
	}
	for _, err := range errs {
		for _, final := range []error{store.ErrDamaged, store.ErrFormat, store.ErrUnopened, store.ErrLocked} {
			if errors.Is(err, final) {
				return err
			}
		}
	}
	return nil
}

// version answers GET /version.
func (s *Server) version(c *transport.Call) {
	c.Answer(fasthttp.StatusOK, string(api.AppendVersion(nil, s.cfg.Version)))
}
