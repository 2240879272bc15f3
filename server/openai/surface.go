package openai

import (
	"context"

	"weir/api"
	"weir/engine"
	"weir/server/failure"
	"weir/server/transport"
)

// A Surface is another interface through which a chat is asked for and answered. Underneath
// it is a chat completion, so that everything else is the same: checks, limits, usage,
// recording, and what happens when a client leaves. An answer has one choice.
type Surface interface {
	// Translate returns the body of the chat completion that a request asks for, and the
	// form of its answer. It runs on a worker of the preparation queue, before everything
	// else, and sees the body as it was sent: size and content type are checked, JSON is
	// not. The chat has one choice and no echo. Body may be kept as long as the answer
	// lives only if the caller reserves memory for it; chat is let go before that.
	Translate(ctx context.Context, m *Model, from Sender, body []byte) (chat []byte, a SurfaceAnswer, err error)
	// Fail answers with an error in the interface's own form and returns what the log was
	// told, as transport.Call.Fail does for the interfaces that package failure knows.
	Fail(c *transport.Call, err error) failure.Failure
}

// SurfaceAnswer is the form of one answer. Its methods are called by one goroutine at a time;
// all but ID append to dst and return it.
type SurfaceAnswer interface {
	// ID makes the id of the answer from the id of its request.
	ID(request string) string
	// Whole appends the body of an answer that does not stream.
	Whole(dst []byte, w *Whole) []byte
	// Open appends the first events of a stream. Of w only Meta, PromptIDs, Warnings and
	// the prompt's part of Usage are set.
	Open(dst []byte, w *Whole) []byte
	// Delta appends the events of what a token has brought; d is valid until it returns.
	Delta(dst []byte, d *Delta) []byte
	// Close appends the last events.
	Close(dst []byte, w *Whole) []byte
	// Broken appends the events of an error in the middle of a stream, after which nothing
	// comes. Open may not have been called.
	Broken(dst []byte, f failure.Failure) []byte
	// Form returns the content type of a stream, and what is sent to keep a silent one
	// open, which may be the first bytes of it; "": nothing.
	Form() (contentType, heartbeat string)
}

// A SurfaceAnswer that has response headers of its own implements headed.
type headed interface {
	// Headers calls set for each of them.
	Headers(set func(name, value string))
}

// A SurfaceAnswer that keeps parts of its request until it has been sent implements holding.
type holding interface {
	// Held returns how many bytes those are, with the copies of them that the answer has.
	Held() int64
}

// A SurfaceAnswer of a request that may be computed later implements deferring.
type deferring interface {
	// Defer answers the call, once everything of its request has been checked, and nothing of it
	// is computed now. If it returns false, it has not, and the request goes on.
	Defer(c *transport.Call, meta *api.Meta) bool
}

// A SurfaceAnswer whose prompt is not, or not only, what the template renders implements plainly.
type plainly interface {
	// Plain returns how it is made; nil: the template renders it.
	Plain() *Plain
}

// A SurfaceAnswer that tells how long the prompt took implements timed.
type timed interface {
	// First is called when the first token of an answer is there that does not stream. Where it
	// streams, Open is.
	First()
}

// A SurfaceAnswer of a conversation in which tools come and go implements changing.
type changing interface {
	// Changed returns tools of the chat, by their indexes: those that the model is not shown in front of the messages,
	// because one of these shows them, and those that it may not call any more.
	Changed() (unlisted, uncallable []int)
}

// Whole is a chat's answer, as far as it is known. Thought and Content are nil where there is
// none.
type Whole struct {
	Meta             api.Meta
	Thought, Content *string
	Calls            []api.AnswerCall
	Finish           string // finish_reason of a chat completion: api.FinishStop, ...
	Stop             api.StopReason
	Usage            api.Usage
	PromptIDs, IDs   []int32 // tokens of the prompt and of the output, whether they were asked for or not
	Logprobs         []api.Logprob
	Warnings         []string // about the constraint of the request
}

// Delta is what the answer goes on with, in the order of its fields: calls come after the
// content. Content that follows a call is in a Delta of its own.
type Delta struct {
	Thought, Content []byte
	Calls            []api.CallDelta
	Logprobs         []api.Logprob // of IDs, if they were asked for
	IDs              []int32
}

// Serve answers a request of another interface, as ChatCompletions does for its own.
func (s *Service) Serve(c *transport.Call, surface Surface) {
	operation(c, "chat")
	s.generateFor(c, func(ctx context.Context, m *Model, in *input) (*prepared, error) {
		return s.prepareSurface(ctx, m, in, surface)
	}, surface.Fail)
}

// prepareSurface is prepareChat for the request of another interface.
func (s *Service) prepareSurface(ctx context.Context, m *Model, in *input, surface Surface) (*prepared, error) {
	body, a, err := surface.Translate(ctx, m, in.from, in.body)
	if err != nil {
		return nil, err
	}
	if !in.memory.translated(body) {
		return nil, context.Cause(ctx)
	}
	own := *in
	own.body, own.id = body, a.ID
	own.take(a)
	p, err := s.prepareChat(ctx, m, &own)
	if err != nil {
		return nil, err
	}
	if p.reply.n != 1 {
		return nil, failure.BadRequest("n", "n must be 1 here, got %d.", p.reply.n)
	}
	chat := p.reply.answer.(*chatAnswer)
	p.reply.answer, p.reply.whole = &surfaceAnswer{chatAnswer: chat, form: a}, p.reply.stream
	if f, ok := a.(timed); ok {
		p.reply.first = f.First
	}
	if d, ok := a.(deferring); ok {
		p.reply.later = d.Defer
	}
	if h, ok := a.(headed); ok {
		h.Headers(p.reply.setHeader)
	}
	return p, nil
}

// take takes what an answer says about its prompt.
func (in *input) take(a SurfaceAnswer) {
	in.tools, _ = a.(changing)
	if a, ok := a.(continuing); ok {
		in.past = a.Past()
	}
	if a, ok := a.(plainly); ok {
		in.plain = a.Plain()
	}
}

// surfaceAnswer is the answer of a Surface.
type surfaceAnswer struct {
	*chatAnswer
	form SurfaceAnswer
}

func (a *surfaceAnswer) complete(dst []byte, r *reply, st *engine.Stream, choices []gathered) []byte {
	w := a.whole(r, st, &choices[0])
	return a.form.Whole(dst, &w)
}

// begun is what is known when the first token is there.
func (a *surfaceAnswer) begun(r *reply, st *engine.Stream) Whole {
	return Whole{Meta: r.meta, PromptIDs: a.prompt, Warnings: r.form.Warnings, Usage: api.Usage{Prompt: len(a.prompt), Cached: st.Cached()}}
}

// whole is what is known at the end.
func (a *surfaceAnswer) whole(r *reply, st *engine.Stream, g *gathered) Whole {
	w := a.begun(r, st)
	c := a.choice(0, g, r.logprobs)
	w.Thought, w.Content, w.Calls, w.Finish, w.Stop, w.IDs = c.Reasoning, c.Content, c.Calls, c.FinishReason, c.StopReason, c.TokenIDs
	if r.logprobs {
		w.Logprobs = g.logprobs
	}
	w.Usage.Completion = len(g.ids)
	w.Usage.Reasoning = a.thoughtTokens(r, g.ids)
	return w
}

func (a *surfaceAnswer) encoder(r *reply, st *engine.Stream) encoder {
	return &surfaceEncoder{r: r, a: a, st: st, chunks: newChunker(r), split: a.chatAnswer.divider()}
}

// surfaceEncoder writes the stream of a Surface.
type surfaceEncoder struct {
	r  *reply
	a  *surfaceAnswer
	st *engine.Stream

	opened bool
	chunks chunker
	split  divider
	all    gathered
	delta  Delta
}

func (e *surfaceEncoder) form() (contentType, heartbeat string) { return e.a.form.Form() }

// open appends the first events, once.
func (e *surfaceEncoder) open(dst []byte) ([]byte, bool) {
	if e.opened {
		return dst, false
	}
	e.opened = true
	w := e.a.begun(e.r, e.st)
	return e.a.form.Open(dst, &w), true
}

func (e *surfaceEncoder) event(dst []byte, ev *engine.Event) ([]byte, bool) {
	last := e.all.add(e.r, ev)
	p, due := e.chunks.add(ev)
	if !due {
		return dst, last
	}
	thought, content, deltas := e.split.next(p.text, last)
	d := &e.delta
	*d = Delta{Thought: thought, Content: content, Calls: d.Calls[:0]}
	if e.a.hideThoughts {
		d.Thought = nil
	}
	if !e.r.form.HideOutputIDs {
		d.IDs, d.Logprobs = p.ids, p.entries
	}
	for i := range deltas {
		c := &deltas[i]
		if c.Text == nil {
			d.Calls = append(d.Calls, e.split.call(e.a.calls, 0, c))
			continue
		}
		if len(d.Calls) > 0 { // text comes before calls in a Delta
			dst = e.delta.flush(dst, e.a.form)
		}
		if d.Content == nil {
			d.Content = c.Text[:len(c.Text):len(c.Text)]
		} else {
			d.Content = append(d.Content, c.Text...)
		}
	}
	return d.flush(dst, e.a.form), last
}

// flush appends the events of d, if there is something in it, and empties it.
func (d *Delta) flush(dst []byte, form SurfaceAnswer) []byte {
	if len(d.Thought)+len(d.Content)+len(d.Calls)+len(d.IDs) > 0 {
		dst = form.Delta(dst, d)
	}
	*d = Delta{Calls: d.Calls[:0]}
	return dst
}

func (e *surfaceEncoder) end(dst []byte) []byte {
	w := e.a.whole(e.r, e.st, &e.all)
	return e.a.form.Close(dst, &w)
}

func (e *surfaceEncoder) broken(dst []byte, f failure.Failure) []byte {
	return e.a.form.Broken(dst, f)
}
