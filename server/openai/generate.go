package openai

import (
	"context"
	"slices"
	"strconv"
	"time"

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
	place  *engine.Place // nil: the engine does not compute it
	wait   time.Duration // see engine.Queueing.MaxWait
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
	if w.wait, err = s.maxWait(c); err != nil {
		return w, err
	}
	body, err := admitBody(c, what)
	if err != nil {
		return w, err
	}
	held := c.Holds()
	if !s.fits(preparingSize(body) + held) {
		return w, failure.ErrBodyMemory
	}

	// If the client leaves, Do returns while the worker goes on. Therefore the worker gets
	// copies, and its results are read only after Do has said that it is done.
	ctx, stop := context.WithCancelCause(c.Context())
	defer stop(nil)
	if what == toCompute {
		if w.place, err = s.reserve(c, w.model, what.tokens(len(body)), w.wait, stop); err != nil {
			return w, err
		}
	}
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

// admitBody counts the request for its key and reads its body.
func admitBody(c *transport.Call, what purpose) ([]byte, error) {
	length := c.Request.Header.ContentLength()
	if err := c.Admit(what.tokens(length)); err != nil {
		return nil, err
	}
	if err := c.ReadBody(); err != nil {
		return nil, err
	}
	body := c.Body()
	if length < 0 { // only now it is known
		return body, c.Expect(what.tokens(len(body)), 0, 0)
	}
	return body, nil
}

// reserve takes a place of the engine for a request, until it is submitted or its call ends. If the
// place is lost, lost is called.
func (s *Service) reserve(c *transport.Call, m *Model, tokens int64, wait time.Duration, lost func(error)) (*engine.Place, error) {
	var r engine.Request
	account(c, &r)
	place, err := m.Engine.Reserve(engine.Reservation{
		Tenant: r.Tenant, Project: r.Project, Weight: r.Weight, ProjectWeight: r.ProjectWeight, Priority: r.Priority,
		Tokens: int(tokens), Arrived: r.Arrived, MaxWait: wait, Lost: lost,
	})
	if err == nil {
		c.AtEnd(place.Release)
	}
	return place, err
}

// maxWait is how long the request may wait until something of it is computed: as long as the server
// lets it, or less if it says so in a header. What is computed in the background has no limit.
func (s *Service) maxWait(c *transport.Call) (time.Duration, error) {
	if c.Background() {
		return 0, nil
	}
	most := s.cfg.MaxQueueTime
	text := string(c.Request.Header.Peek("X-Max-Queue-Time"))
	if text == "" {
		return most, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if err != nil || !(seconds > 0 && seconds <= longestWait) {
		return 0, failure.BadRequest("", "X-Max-Queue-Time must be a number of seconds above 0 and at most %d, got %q.", longestWait, text)
	}
	asked := max(1, time.Duration(seconds*float64(time.Second)))
	if most > 0 {
		asked = min(asked, most)
	}
	return asked, nil
}

// longestWait bounds X-Max-Queue-Time, in seconds.
const longestWait = 86_400

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

// operation says in the span of a call, if there is one, what it asks of the model, in the words of
// OpenTelemetry's conventions for generative AI.
func operation(c *transport.Call, name string) {
	if span := c.Span(); span != nil {
		span.Operation = name
	}
}

// describe tells the span of a call, if there is one, what was asked for.
func (p *prepared) describe(c *transport.Call) {
	span := c.Span()
	if span == nil {
		return
	}
	r := &p.requests[0]
	span.Model, span.Stream, span.Drawn, span.Choices = p.asked, p.reply.stream, true, max(1, r.N)
	span.Temperature, span.TopP, span.TopK = r.Sampling.Temperature, r.Sampling.TopP, r.Sampling.TopK
	if p.bounded {
		span.MaxTokens = r.Limits.MaxTokens
	}
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
	done.describe(c)
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
		done.requests[i].MaxWait = w.wait
	}
	if err := s.move(c, m, done); err != nil {
		fail(c, err)
		return
	}
	if done.reply.stream {
		done.reply.budget = s.unread.open(done.reply.unreadSize())
		done.requests[0].Budget = done.reply.budget
	}
	done.requests[0].Place = w.place
	st, err := m.Engine.SubmitAll(done.requests)
	if err != nil {
		done.reply.budget.close()
		fail(c, err)
		return
	}
	c.Accepted(done.reply.meta.ID, done.reply.meta.Model, done.reply.answer.promptTokens(), st)
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
