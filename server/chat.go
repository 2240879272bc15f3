package server

import (
	"weir/api"
	"weir/auth"
)

// The lines of the log that every request leaves, at Debug.
const (
	logSubmitted = "request submitted"
	logFinished  = "request finished"
	logFailed    = "request failed"
)

// chatCompletions answers POST /v1/chat/completions.
func (s *Server) chatCompletions(c *call) {
	m, err := s.serving()
	if err != nil {
		s.fail(c, err)
		return
	}
	if !api.IsJSON(string(c.Request.Header.ContentType())) {
		s.fail(c, api.ErrContentType())
		return
	}
	if err := c.body.read(c.RequestCtx, &s.cfg); err != nil {
		s.fail(c, err)
		return
	}
	c.bodyRead = true

	// The worker goes on alone if the client leaves, so it shares nothing with
	// this goroutine but what is handed over when it is done.
	var done *prepared
	var bad error
	ctx, body, id, project := c.ctx, c.body.bytes, c.id, c.project
	if err := s.queue.do(c.ctx, c.tenant, func() { done, bad = s.prepare(ctx, m, body, id, project) }); err != nil {
		s.fail(c, err)
		return
	}
	if bad != nil {
		s.fail(c, bad)
		return
	}
	c.body.free()
	if r := done.reply.recording; r != nil {
		if r.tenant = c.who.Tenant; r.asked && c.who.Rights&auth.Write == 0 {
			s.fail(c, api.ErrPermission("The key may not record."))
			return
		}
	}
	st, err := m.Engine.Submit(done.request)
	if err != nil {
		s.fail(c, err)
		return
	}
	handedOver := false
	defer func() {
		if !handedOver { // a panic: nobody reads the stream any more
			st.Cancel()
		}
	}()
	s.log.Debug(logSubmitted, "id", done.reply.meta.ID, "project", c.project, "prompt", len(done.request.Tokens), "n", done.reply.n, "stream", done.reply.stream)
	if done.reply.stream {
		s.stream(c, st, &done.reply)
	} else {
		s.complete(c, st, &done.reply)
	}
	handedOver = true
}
