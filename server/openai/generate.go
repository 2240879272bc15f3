package openai

import (
	"context"
	"slices"

	"weir/api"
	"weir/auth"
	"weir/server/transport"
)

// A preparation turns the body of a request into a T. It runs on a worker of the
// preparation queue.
type preparation[T any] func(ctx context.Context, m *Model, body []byte, from sender) (T, error)

// prepareBody reads the body of a JSON request and has a worker prepare it. If it returns
// false, it has already answered with an error.
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

	// If the client leaves, Do returns while the worker goes on. Therefore the worker gets
	// copies, and its results are read only after Do has said that it is done.
	var made T
	var bad error
	ctx, body, from := c.Context(), c.Body(), sender{c.RequestID, c.Project, c.Who}
	turn := c.Turn()
	turn.Size = len(body)
	if err := s.http.Queue().Do(c.Context(), turn, func() { made, bad = prepare(ctx, m, body, from) }); err != nil {
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

// generate prepares a request, submits it to the engine and answers with what that
// generates.
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
	if bad := done.checkEdits(m.VocabSize); bad != nil {
		c.Fail(bad)
		return
	}
	if err := done.reserve(c.Context(), c.Memory(), m.VocabSize); err != nil {
		c.Fail(err)
		return
	}
	if err := s.constrain(c, m, done); err != nil {
		c.Fail(err)
		return
	}
	for i := range done.requests {
		done.requests[i].Arrived = c.Begun
		done.requests[i].Tenant, done.requests[i].Project = c.Tenant(), c.Project
	}
	if done.reply.stream {
		done.reply.budget = s.unread.open(done.reply.unreadSize())
		done.requests[0].Budget = done.reply.budget
	}
	st, err := m.Engine.SubmitAll(done.requests)
	if err != nil {
		done.reply.budget.close()
		c.Fail(err)
		return
	}
	c.Accepted(done.reply.meta.ID, done.reply.answer.promptTokens(), st)
	handedOver := false
	defer func() {
		if !handedOver { // there was a panic, so that nobody reads the stream any more
			st.Cancel()
			done.reply.budget.close()
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

// mayRecord reports whether the sender of a request has the right to have its answer
// recorded, if the request itself asks for that. Recordings that the operator has set up
// need no right.
func mayRecord(who *auth.Identity, m *Model, r *reply) bool {
	if r.recorded == nil {
		return true
	}
	model, asked := r.recorded.recording.Asked()
	return !asked || who.Rights&auth.Write != 0 && (slices.Contains(m.Names, model) || who.MayUse(model))
}
