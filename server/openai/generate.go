package openai

import (
	"context"
	"slices"

	"weir/api"
	"weir/auth"
	"weir/server/transport"
)

// preparation makes something of a request's body, on a worker.
type preparation[T any] func(ctx context.Context, m *Model, body []byte, from sender) (T, error)

// prepareBody reads the body of a JSON request and has a worker prepare it. If it
// reports false, it has answered already.
func prepareBody[T any](s *Service, c *transport.Call, prepare preparation[T]) (T, *Model, bool) {
	var none T
	m, err := s.Serving()
	if err != nil {
		c.Fail(err)
		return none, nil, false
	}
	if !api.IsJSON(string(c.Request.Header.ContentType())) {
		c.Fail(api.ErrContentType())
		return none, nil, false
	}
	if err := c.ReadBody(); err != nil {
		c.Fail(err)
		return none, nil, false
	}

	// The worker goes on alone if the client leaves, so it shares nothing with
	// this goroutine but what is handed over when it is done.
	var made T
	var bad error
	ctx, body, from := c.Context(), c.Body(), sender{c.RequestID, c.Project, c.Who}
	if err := s.http.Queue().Do(c.Context(), c.QueueKey, func() { made, bad = prepare(ctx, m, body, from) }); err != nil {
		c.Fail(err)
		return none, nil, false
	}
	if bad != nil {
		c.Fail(bad)
		return none, nil, false
	}
	c.FreeBody()
	return made, m, true
}

// generate answers with what the engine makes of a prepared request.
func (s *Service) generate(c *transport.Call, prepare preparation[*prepared]) {
	s.track(c)
	var h hints
	h.read(&c.Request.Header) // the body may overwrite them
	done, m, ok := prepareBody(s, c, prepare)
	if !ok {
		return
	}
	if bad := h.check(); bad != nil {
		c.Fail(bad)
		return
	}
	if !mayRecord(c.Who, m, &done.reply) {
		c.Fail(api.ErrPermission("The key may not record."))
		return
	}
	if err := s.constrain(c, m, done); err != nil {
		c.Fail(err)
		return
	}
	for i := range done.requests {
		done.requests[i].Arrived = c.Begun
	}
	st, err := m.Engine.SubmitAll(done.requests)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Accepted(done.reply.meta.ID, done.reply.answer.promptTokens(), st)
	handedOver := false
	defer func() {
		if !handedOver { // a panic: no one reads the stream any more
			st.Cancel()
		}
	}()
	s.log.Debug(transport.LogSubmitted, "id", done.reply.meta.ID, "project", c.Project, "prompts", len(done.requests), "n", done.reply.n, "stream", done.reply.stream)
	if done.reply.stream {
		s.stream(c, st, &done.reply)
	} else {
		s.complete(c, st, &done.reply)
		h.loadMetrics(c, m)
	}
	handedOver = true
}

// mayRecord reports whether who sent a request may have its answer recorded as it asks
// for. What the operator records needs no right.
func mayRecord(who *auth.Identity, m *Model, r *reply) bool {
	if r.recorded == nil {
		return true
	}
	model, asked := r.recorded.recording.Asked()
	return !asked || who.Rights&auth.Write != 0 && (slices.Contains(m.Names, model) || who.MayUse(model))
}
