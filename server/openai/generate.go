package openai

import (
	"context"
	"slices"

	"weir/api"
	"weir/auth"
	"weir/engine"
	"weir/ratelimit"
	"weir/server/failure"
	"weir/server/transport"
)

// A preparation turns the body of a request into a T. It runs on a worker of the
// preparation queue.
type preparation[T any] func(ctx context.Context, m *Model, in *input) (T, error)

// A purpose says what a request is prepared for.
type purpose bool

const (
	toCompute purpose = true  // the engine computes it, and it uses tokens of its key
	toPrepare purpose = false // that is all: it is tokenized, or rendered
)

// work is what a preparation has made, and the memory that is reserved for it.
type work[T any] struct {
	made   T
	model  *Model
	memory *preparing
}

// prepareBody reads the body of a JSON request and has a worker prepare it. If it fails,
// nothing is reserved. Otherwise the caller gives the memory back, or keeps some of it.
func prepareBody[T any](s *Service, c *transport.Call, what purpose, prepare preparation[T]) (w work[T], err error) {
	if w.model, err = s.Serving(); err != nil {
		return w, err
	}
	if !api.IsJSON(string(c.Request.Header.ContentType())) {
		return w, api.ErrContentType()
	}
	if n := int64(c.Request.Header.ContentLength()); !s.fits(preparingByte*n + n) {
		return w, failure.ErrBodyMemory
	}
	if err := c.Admit(what.tokens(c.Request.Header.ContentLength())); err != nil {
		return w, err
	}
	if err := c.ReadBody(); err != nil {
		return w, err
	}
	body := c.Body()
	if c.Request.Header.ContentLength() < 0 { // only now its length is known
		if err := c.Expect(what.tokens(len(body)), 0, 0); err != nil {
			return w, err
		}
	}
	held := c.Holds()
	if !s.fits(preparingSize(body) + held) {
		return w, failure.ErrBodyMemory
	}

	// If the client leaves, Do returns while the worker goes on. Therefore the worker gets
	// copies, and its results are read only after Do has said that it is done.
	ctx, stop := context.WithCancelCause(c.Context())
	defer stop(nil)
	w.memory = newPreparing(s.http.Memory(), c.Tenant(), body, held, stop)
	in := &input{body: body, from: Sender{c.RequestID, c.Project, c.Who}, memory: w.memory}
	var bad error
	turn := c.Turn()
	turn.Size = len(body)
	// Many small requests may wait for a worker, and each has its memory then. A large one
	// takes so much that it gets its memory only from its worker, of which there are few:
	// otherwise those that wait for workers would take the memory of all others.
	large := len(body) >= transport.LargeBody
	if !large {
		err = w.memory.reserve(ctx)
	}
	made := new(T)
	if err == nil {
		err = s.http.Queue().Do(ctx, turn, func() {
			if !in.memory.begin() {
				return
			}
			defer in.memory.end()
			if large {
				bad = in.memory.reserve(ctx)
			}
			if bad == nil {
				*made, bad = prepare(ctx, w.model, in)
			}
		})
	}
	if err == nil {
		err = bad
	}
	if err != nil {
		w.memory.leave()
		return w, err
	}
	c.FreeBody()
	w.made = *made
	return w, nil
}

// tokens is about how many tokens a body of n bytes has, if they count; n below 0: it is not known.
func (p purpose) tokens(n int) int64 {
	if p == toPrepare {
		return 0
	}
	return int64(max(n, 0)) / ratelimit.BytesPerToken
}

// fits reports whether a body that takes n bytes, with itself, can be prepared at all, in an
// empty server.
func (s *Service) fits(n int64) bool { return n+preparingAny <= s.http.Memory().Limit() }

// failing answers with an error, in the form of the interface that was called.
type failing func(c *transport.Call, err error) failure.Failure

// generate prepares a request, submits it to the engine and answers with what that
// generates.
func (s *Service) generate(c *transport.Call, prepare preparation[*prepared]) {
	s.generateFor(c, prepare, (*transport.Call).Fail)
}

// generateFor is generate for an interface that has a form of its own for errors.
func (s *Service) generateFor(c *transport.Call, prepare preparation[*prepared], fail failing) {
	s.track(c)
	var h hints
	h.read(&c.Request.Header) // the body may overwrite them
	w, err := prepareBody(s, c, toCompute, detached(prepare))
	if err != nil {
		fail(c, err)
		return
	}
	done, m := w.made, w.model
	done.reply.fail = fail
	if err := h.checkPrepared(c, m, done); err != nil {
		w.memory.leave()
		fail(c, err)
		return
	}
	if err := done.expect(c); err != nil {
		w.memory.leave()
		fail(c, err)
		return
	}
	if err := done.reserve(c, w.memory, m.VocabSize); err != nil {
		fail(c, err)
		return
	}
	if err := s.constrain(c, m, done); err != nil {
		fail(c, err)
		return
	}
	if done.reply.postpone(c) {
		return
	}
	for i := range done.requests {
		account(c, &done.requests[i])
	}
	if done.reply.stream {
		done.reply.budget = s.unread.open(done.reply.unreadSize())
		done.requests[0].Budget = done.reply.budget
	}
	st, err := m.Engine.SubmitAll(done.requests)
	if err != nil {
		done.reply.budget.close()
		fail(c, err)
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
	done.reply.sendHeaders(c)
	if done.reply.stream {
		s.stream(c, st, &done.reply)
	} else {
		s.complete(c, st, &done.reply)
		h.loadMetrics(c, m)
	}
	handedOver = true
}

// expect says how many tokens the request may use.
func (p *prepared) expect(c *transport.Call) error {
	output := 0
	if p.bounded {
		output = p.requests[0].Limits.MaxTokens
	}
	return c.Expect(int64(p.reply.answer.promptTokens()), int64(p.reply.n), int64(output))
}

// account says for whom a request of a call is computed, and how urgent it is. Work in the
// background has the lowest priority that there is, whatever it asks for, and the others have
// what their keys allow.
func account(c *transport.Call, r *engine.Request) {
	r.Arrived, r.Tenant, r.Project = c.Begun, c.Tenant(), c.Project
	r.Weight, r.ProjectWeight = c.Weights()
	if r.Priority = c.Who.Priority(r.Priority); c.Background() {
		r.Priority = engine.Background
	}
}

// checkPrepared refuses a prepared request for reasons that are not only in its body.
func (h *hints) checkPrepared(c *transport.Call, m *Model, p *prepared) error {
	if bad := h.check(); bad != nil {
		return bad
	}
	if !mayRecord(c.Who, m, &p.reply) {
		return api.ErrPermission("The key may not record.")
	}
	if bad := p.checkEdits(m.VocabSize); bad != nil {
		return bad
	}
	return nil
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
