package server

import (
	"context"
	"slices"

	"weir/api"
	"weir/auth"
)

// The lines of the log that every request leaves, at Debug unless Config.LogRequests
// wants the last.
const (
	logSubmitted = "request submitted"
	logFinished  = "request finished"
	logFailed    = "request failed"
)

// preparation makes something of a request's body, on a worker.
type preparation[T any] func(ctx context.Context, m *Model, body []byte, from sender) (T, error)

// atWork reads the body of a JSON request and has a worker prepare it. When it
// fails it has answered.
func atWork[T any](s *Server, c *call, prepare preparation[T]) (T, *Model, bool) {
	var none T
	m, err := s.serving()
	if err != nil {
		s.fail(c, err)
		return none, nil, false
	}
	if !api.IsJSON(string(c.Request.Header.ContentType())) {
		s.fail(c, api.ErrContentType())
		return none, nil, false
	}
	if err := c.body.read(c.RequestCtx, &s.cfg); err != nil {
		s.fail(c, err)
		return none, nil, false
	}
	c.bodyRead = true

	// The worker goes on alone if the client leaves, so it shares nothing with
	// this goroutine but what is handed over when it is done.
	var made T
	var bad error
	ctx, body, from := c.ctx, c.body.bytes, sender{c.id, c.project, c.who}
	if err := s.queue.do(c.ctx, c.tenant, func() { made, bad = prepare(ctx, m, body, from) }); err != nil {
		s.fail(c, err)
		return none, nil, false
	}
	if bad != nil {
		s.fail(c, bad)
		return none, nil, false
	}
	c.body.free()
	return made, m, true
}

// chatCompletions answers POST /v1/chat/completions.
func (s *Server) chatCompletions(c *call) { s.generate(c, s.prepare) }

// generate answers with what the engine makes of a prepared request.
func (s *Server) generate(c *call, prepare preparation[*prepared]) {
	s.track(c)
	done, m, ok := atWork(s, c, prepare)
	if !ok {
		return
	}
	if bad := c.hints.check(); bad != nil {
		s.fail(c, bad)
		return
	}
	if r := done.reply.recording; r != nil {
		if r.tenant = c.who.Tenant; r.asked && (c.who.Rights&auth.Write == 0 || !slices.Contains(m.Names, r.model) && !c.who.MayUse(r.model)) {
			s.fail(c, api.ErrPermission("The key may not record."))
			return
		}
	}
	if err := s.constrain(c, m, done); err != nil {
		s.fail(c, err)
		return
	}
	for i := range done.requests {
		done.requests[i].Arrived = c.begun
	}
	st, err := m.Engine.SubmitAll(done.requests)
	if err != nil {
		s.fail(c, err)
		return
	}
	c.account.accepted(st, &done.reply)
	handedOver := false
	defer func() {
		if !handedOver { // a panic: nobody reads the stream any more
			st.Cancel()
		}
	}()
	s.log.Debug(logSubmitted, "id", done.reply.meta.ID, "project", c.project, "prompts", len(done.requests), "n", done.reply.n, "stream", done.reply.stream)
	if done.reply.stream {
		s.stream(c, st, &done.reply)
	} else {
		s.complete(c, st, &done.reply)
		s.loadMetrics(c, m)
	}
	handedOver = true
}
