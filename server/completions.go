package server

import (
	"context"
	"math/rand/v2"

	"weir/api"
	"weir/engine"
	"weir/server/failure"
	"weir/server/transport"
	"weir/tokenizer"
)

// texts is what the answer of /v1/completions has to know beside a reply.
type texts struct {
	n       int       // choices of each prompt
	prompts [][]int32 // ids
	echo    []string  // in front of the choices of each prompt; nil: not asked for
	only    bool      // the prompt is all of the answer: a token was drawn for nothing
	scored  bool      // choices have prompt_logprobs
}

// promptTokens counts the prompt tokens of all prompts.
func (r *reply) promptTokens() int {
	if r.texts == nil {
		return len(r.prompt)
	}
	n := 0
	for _, p := range r.texts.prompts {
		n += len(p)
	}
	return n
}

// completions answers POST /v1/completions.
func (s *Server) completions(c *transport.Call) { s.generate(c, s.prepareTexts) }

// prepareTexts is prepare for /v1/completions: a request of the engine for each
// prompt, all with the same parameters.
func (s *Server) prepareTexts(ctx context.Context, m *Model, body []byte, from sender) (*prepared, error) {
	q, bad := api.DecodeCompletion(body, s.cfg.Limits)
	if bad != nil {
		return nil, bad
	}
	if err := m.admit(ctx, &q.Options, &from); err != nil {
		return nil, err
	}
	if bad := q.CheckPrompt(); bad != nil {
		return nil, bad
	}
	if bad := s.checkOptions(m, &q.Options); bad != nil {
		return nil, bad
	}
	params, bad := s.sampling(m, &q.Options)
	if bad != nil {
		return nil, bad
	}
	room, bad := m.room(&q.Options)
	if bad != nil {
		return nil, bad
	}
	p := &prepared{reply: s.reply(m, &q.Options, from.id), options: &q.Options}
	t := &texts{n: q.N, only: q.PromptOnly, scored: q.PromptLogprobs != nil && !q.Stream}
	echoed, told := 0, 0
	for i := range q.Prompts {
		tokens, text, bad := m.textPrompt(ctx, q, &q.Prompts[i], room)
		if bad != nil {
			return nil, bad
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if i > 0 && q.Seed == nil {
			params.Seed = rand.Uint64()
		}
		r, bad := s.request(m, &q.Options, params, tokens, from)
		if bad != nil {
			return nil, bad
		}
		if q.Stream && !(q.Echo && q.Logprobs) { // a stream has no other place for them
			r.Prompt = nil
		}
		p.requests = append(p.requests, r)
		t.prompts = append(t.prompts, tokens)
		if q.Echo {
			t.echo = append(t.echo, text)
		}
		// Every choice repeats its prompt.
		echoed += q.N * len(text)
		if r.Prompt != nil {
			told += q.N * len(tokens) * (r.Prompt.Top + 1)
		}
	}
	if q.Echo && echoed > s.cfg.MaxBody {
		return nil, failure.BadRequest("", "The echo of %d bytes in all choices is larger than %d bytes.", echoed, s.cfg.MaxBody)
	}
	if told > maxTold {
		return nil, failure.BadRequest("", "The answer would hold %d log-probabilities of prompt tokens, more than %d.", told, maxTold)
	}
	p.reply.meta.ID = api.CompletionID(p.reply.meta.ID)
	p.reply.n = q.N * len(q.Prompts)
	p.reply.texts = t
	return p, nil
}

// maxTold bounds the log-probabilities of prompt tokens in an answer: each takes
// some 30 bytes, and a gigabyte is soon asked for.
const maxTold = 4 << 20

// textPrompt is the ids of a prompt, and its text if that is to be echoed.
func (m *Model) textPrompt(ctx context.Context, q *api.CompletionRequest, p *api.TextPrompt, room space) (tokens []int32, text string, bad *api.Error) {
	if p.IDs == nil {
		tokens, bad = m.encode(ctx, &q.Options, p.Text, room)
		if bad == nil && q.Echo && len(tokens) == room.keep { // it may have been cut
			return tokens, m.Tokenizer.Decode(tokens, tokenizer.DecodeOptions{}), nil
		}
		return tokens, p.Text, bad
	}
	tokens, strange := ids(p.IDs, m.VocabSize)
	if strange != nil {
		return nil, "", api.ErrPromptIDs(strange, m.VocabSize)
	}
	if tokens, bad = m.fit(tokens, room); bad == nil && q.Echo {
		text = m.Tokenizer.Decode(tokens, tokenizer.DecodeOptions{})
	}
	return tokens, text, bad
}

// echoed is the text and the scores in front of the choices of prompt i; scores
// are nil if they were not asked for.
func (r *reply) echoed(st *engine.Stream, i int) (string, *api.TextLogprobs) {
	t := r.texts
	if t.echo == nil {
		return "", nil
	}
	if !r.logprobs {
		return t.echo[i], nil
	}
	scores, prompt := st.PromptLogprobs(i), t.prompts[i]
	l := &api.TextLogprobs{Unscored: true, Entries: make([]api.Logprob, 1, len(prompt))}
	l.Entries[0].TokenLogprob = api.TokenLogprob{ID: prompt[0], Text: tokenText(r.tok, prompt[0])}
	for j := range scores {
		sc := &scores[j]
		ev := engine.Event{Token: sc.Token, Logprob: sc.Logprob, Top: sc.Top}
		entry, _ := r.logprob(&ev, nil)
		l.Entries = append(l.Entries, entry)
	}
	return t.echo[i], l
}

// completeTexts is complete's end for /v1/completions.
func (s *Server) completeTexts(c *transport.Call, st *engine.Stream, r *reply, choices []gathered) {
	t := r.texts
	resp := api.TextResponse{Choices: make([]api.TextChoice, len(choices)), Usage: api.Usage{Prompt: r.promptTokens(), Cached: st.Cached()}}
	for p, prompt := range t.prompts {
		echo, before := r.echoed(st, p)
		var told []api.PromptLogprob
		if t.scored {
			told = r.promptLogprobs(st.PromptLogprobs(p))
		}
		for i := p * t.n; i < (p+1)*t.n; i++ {
			g := &choices[i]
			if t.only {
				*g = gathered{finish: api.FinishLength}
			}
			resp.Usage.Completion += len(g.ids)
			resp.Choices[i] = api.TextChoice{
				Index: i, Text: echo + string(g.text), FinishReason: g.finish, StopReason: g.stop, TokenIDs: g.ids,
				PromptTokenIDs: prompt, PromptLogprobs: told, HasPromptLogprobs: t.scored,
			}
			if r.logprobs {
				resp.Choices[i].Logprobs = joined(before, g.logprobs)
			}
		}
	}
	c.SetContentType("application/json")
	c.Response.SetBodyRaw(api.AppendTextResponse(nil, r.meta, r.form, &resp))
}

// joined is the scores of a choice behind those of its prompt, if there are any.
func joined(before *api.TextLogprobs, own []api.Logprob) *api.TextLogprobs {
	if before == nil {
		return &api.TextLogprobs{Entries: own}
	}
	l := *before
	l.Entries = append(l.Entries[:len(l.Entries):len(l.Entries)], own...)
	return &l
}

// textEvents is the part of sse that is /v1/completions' own.
type textEvents struct {
	enc    *api.TextStream
	begun  []bool // by choice: an event has gone out
	offset []int  // by choice: characters that its scored tokens stand for
	scores api.TextLogprobs
	chunk  api.TextChoice
}

func newTextEvents(r *reply) *textEvents {
	return &textEvents{enc: api.NewTextStream(r.meta, r.form), begun: make([]bool, r.n), offset: make([]int, r.n)}
}

// textEvent appends an event of a choice. The first one brings the echo and the
// ids of the prompt along.
func (b *sse) textEvent(ev *engine.Event) {
	e, t, i := b.texts, b.r.texts, int(ev.Choice)
	prompt := t.prompts[i/t.n]
	c := &e.chunk
	*c = api.TextChoice{Index: i}
	c.FinishReason, c.StopReason = finish(ev)
	own := b.entry[:0]
	if t.only {
		c.FinishReason, c.StopReason = api.FinishLength, api.StopReason{}
	} else {
		c.Text = view(ev.Text)
		if ev.Token >= 0 {
			b.used[i]++
			b.id[0] = ev.Token
			c.TokenIDs = b.id[:]
			if b.r.logprobs {
				b.entry[0], b.alts = b.r.logprob(ev, b.alts[:0])
				own = b.entry[:]
			}
		}
	}
	var before *api.TextLogprobs
	if !e.begun[i] {
		e.begun[i] = true
		c.PromptTokenIDs = prompt
		var echo string
		if echo, before = b.r.echoed(b.st, i/t.n); echo != "" {
			c.Text = echo + c.Text
		}
	}
	if before != nil {
		c.Logprobs = joined(before, own)
	} else if len(own) > 0 {
		e.scores = api.TextLogprobs{Entries: own, Offset: e.offset[i]}
		c.Logprobs = &e.scores
	}
	if c.Logprobs != nil {
		e.offset[i] += c.Logprobs.Width()
	}
	b.buf = e.enc.AppendChunk(b.buf, c, api.Usage{Prompt: len(prompt), Completion: b.used[i]})
	if c.FinishReason != "" {
		b.ended()
	}
}
