package openai

import (
	"weir/api"
	"weir/chat/reasoning"
	"weir/engine"
)

// chatAnswer is the answer of /v1/chat/completions.
type chatAnswer struct {
	prompt []int32 // token ids
	role   string
	output reasoning.Start  // what every choice begins with
	marks  *reasoning.Marks // around thoughts
	// echo is put before the content of every choice, echoThought before its reasoning;
	// "": nothing is.
	echo, echoThought string
	hideThoughts      bool     // include_reasoning false
	scored            bool     // prompt_logprobs
	calls             *calling // nil: nothing is called
}

func (a *chatAnswer) promptTokens() int { return len(a.prompt) }

func (a *chatAnswer) complete(dst []byte, r *reply, st *engine.Stream, choices []gathered) []byte {
	resp := api.Response{Choices: make([]api.Choice, r.n), PromptTokenIDs: a.prompt, KVTransferParams: r.transfer}
	resp.Usage = api.Usage{Prompt: len(a.prompt), Cached: st.Cached()}
	for i := range choices {
		resp.Usage.Completion += len(choices[i].ids)
		resp.Usage.Reasoning += a.thoughtTokens(r, choices[i].ids)
		resp.Choices[i] = a.choice(i, &choices[i], r.logprobs)
	}
	if a.scored {
		resp.HasPromptLogprobs, resp.PromptLogprobs = true, r.promptLogprobs(st.PromptLogprobs(0))
	}
	return api.AppendResponse(dst, r.meta, r.form, &resp)
}

// thoughtTokens returns how many of the tokens of a choice are thought.
func (a *chatAnswer) thoughtTokens(r *reply, ids []int32) int {
	if !a.marks.Rewrites(a.output) {
		return 0
	}
	c := a.marks.NewCounter(a.output)
	for _, id := range ids {
		c.Next(r.tok.Bytes(id))
	}
	return c.Count()
}

// choice returns choice i of an answer that is complete.
func (a *chatAnswer) choice(i int, g *gathered, logprobs bool) api.Choice {
	c := api.Choice{
		Index: i, Role: a.role,
		Logprobs: g.logprobs, HasLogprobs: logprobs,
		FinishReason: g.finish, StopReason: g.stop, TokenIDs: g.ids,
	}
	a.divide(&c, g.text)
	if len(c.Calls) > 0 {
		c.FinishReason = a.calls.finish(g.finish)
	}
	return c
}

func (a *chatAnswer) encoder(r *reply, st *engine.Stream) encoder {
	e := &chatEncoder{r: r, a: a, st: st, enc: api.NewStream(r.meta, r.form), chunks: newChunker(r)}
	thinks := a.marks.Rewrites(a.output)
	if thinks {
		e.counts = make([]reasoning.Counter, r.n)
	}
	for i := range e.counts {
		e.counts[i] = a.marks.NewCounter(a.output)
	}
	if thinks || a.calls != nil {
		e.split = make([]divider, r.n)
	}
	for i := range e.split {
		e.split[i] = a.divider()
	}
	return e
}

// chatEncoder writes a streaming chat.
type chatEncoder struct {
	events
	r   *reply
	a   *chatAnswer
	st  *engine.Stream
	enc *api.Stream

	opened int // events written so far that come before the first token
	chunks chunker
	counts []reasoning.Counter // of the tokens of each choice that are thought; nil: none are
	split  []divider           // of each choice; nil: all text is content

	chunk api.Chunk
}

// open appends the next event with a role, and after the roles the next with an echo. It
// appends one event at a time, because with prompt ids or an echo those of all choices
// together may be large.
func (e *chatEncoder) open(dst []byte) ([]byte, bool) {
	u := api.Usage{Prompt: len(e.a.prompt)}
	switch i, n := e.opened, e.r.n; {
	case i < n:
		dst = e.enc.AppendRole(dst, i, e.a.role, e.a.prompt, u)
	case i < 2*n && (e.a.echo != "" || e.a.echoThought != ""):
		dst = e.enc.AppendEcho(dst, i-n, e.a.echoThought, e.a.echo, u)
	default:
		return dst, false
	}
	e.opened++
	return dst, true
}

func (e *chatEncoder) event(dst []byte, ev *engine.Event) ([]byte, bool) {
	if e.counts != nil && ev.Token >= 0 {
		e.counts[ev.Choice].Next(e.r.tok.Bytes(ev.Token))
	}
	p, due := e.chunks.add(ev)
	if !due {
		return dst, false
	}
	c := &e.chunk
	*c = api.Chunk{
		Choice: int(ev.Choice), Content: view(p.text), TokenIDs: p.ids,
		Logprobs: p.entries, HasLogprobs: len(p.entries) > 0,
		Usage: api.Usage{Prompt: len(e.a.prompt), Completion: e.chunks.used[ev.Choice]},
	}
	if e.counts != nil {
		c.Usage.Reasoning = e.counts[ev.Choice].Count()
	}
	last := ev.Reason != engine.NotDone
	if last { // hardly ever: the two need not be written for every token
		c.Finish, c.Stop = finish(ev)
	}
	if e.split == nil || e.divide(c, p.text) {
		dst = e.enc.AppendChunk(dst, c)
	}
	return dst, last
}

func (e *chatEncoder) end(dst []byte) []byte {
	if e.r.usage {
		u := api.Usage{Prompt: len(e.a.prompt), Cached: e.st.Cached(), Completion: sum(e.chunks.used)}
		for i := range e.counts {
			u.Reasoning += e.counts[i].Count()
		}
		dst = e.enc.AppendUsage(dst, u)
	}
	return append(dst, api.Done...)
}

func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
