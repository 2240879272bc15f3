package openai

import (
	"context"

	"weir/api"
	"weir/engine"
	"weir/internal/longcopy"
	"weir/sampler"
	"weir/server/failure"
	"weir/server/transport"
	"weir/tokenizer"
)

// Completions answers POST /v1/completions.
func (s *Service) Completions(c *transport.Call) {
	operation(c, "text_completion")
	s.generate(c, s.prepareTexts)
}

// prepareTexts does for /v1/completions what prepareChat does for chats. It makes one
// request of the engine for each prompt, all with the same parameters.
func (s *Service) prepareTexts(ctx context.Context, m *Model, in *input) (*prepared, error) {
	from := in.from
	q, bad := api.DecodeCompletion(in.body, s.limits(ctx))
	if bad != nil {
		return nil, bad
	}
	if err := s.checkTexts(ctx, m, q, &from); err != nil {
		return nil, err
	}
	params, bad := s.sampling(ctx, m, &q.Options)
	if bad != nil {
		return nil, bad
	}
	limit, bad := m.promptLimit(&q.Options)
	if bad != nil {
		return nil, bad
	}
	p := &prepared{reply: s.reply(m, &q.Options, from.ID), options: &q.Options}
	s.ignore(&q.Options, &p.reply)
	if !in.memory.more(preparingPrompt * int64(len(q.Prompts)-preparingAny/preparingPrompt/2)) {
		return nil, context.Cause(ctx)
	}
	p.requests = make([]engine.Request, 0, len(q.Prompts))
	t := &textAnswer{n: q.N, only: q.PromptOnly, scored: q.PromptLogprobs != nil && !q.Stream}
	echoed, scores := 0, 0 // bytes and log-probabilities that repeat prompts
	for i := range q.Prompts {
		tokens, text, bad := m.textPrompt(ctx, q, &q.Prompts[i], limit, in)
		if bad != nil {
			return nil, bad
		}
		if q.ReturnTokenIDs { // the ids are the echo
			text = ""
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if i > 0 && q.Seed == nil {
			params.Seed = s.newSeed()
		}
		r, bad := s.textRequest(m, q, params, tokens, from)
		if bad != nil {
			return nil, bad
		}
		p.requests = append(p.requests, r)
		t.prompts = append(t.prompts, tokens)
		// Every choice repeats its prompt.
		echoed += q.N * len(text)
		if q.Echo && echoed <= s.cfg.MaxEcho && in.memory.answer(int64(echoed/q.N)) { // otherwise it is refused
			t.echo = append(t.echo, text)
		}
		if r.Prompt != nil {
			scores += q.N * len(tokens) * (r.Prompt.Top + 1)
		}
	}
	if bad := s.checkAnswerSize(q.Echo, echoed, scores); bad != nil {
		return nil, bad
	}
	for i, text := range t.echo {
		t.echo[i] = longcopy.Clone(text) // or it would keep the whole body in memory
	}
	p.reply.meta.ID = api.CompletionID(p.reply.meta.ID)
	p.reply.n = q.N * len(q.Prompts)
	p.reply.answer, p.reply.oneMore = t, true
	return p, nil
}

// textRequest makes the request of the engine for one prompt.
func (s *Service) textRequest(m *Model, q *api.CompletionRequest, params sampler.Params, tokens []int32, from Sender) (engine.Request, *api.Error) {
	r, bad := s.request(m, &q.Options, params, tokens, from)
	if bad != nil {
		return r, bad
	}
	if q.ThinkingBudget != nil {
		if !m.Chat.Divides() {
			return r, errNoThoughts()
		}
		if bad := m.think(&q.Options, &r, m.textStart(tokens), m.Chat.Marks()); bad != nil {
			return r, bad
		}
	}
	if q.Stream && !(q.Echo && q.Logprobs) { // a stream has no other field for them
		r.Prompt = nil
	}
	return r, nil
}

// limits returns the limits of a body, whose decoding ends when ctx does.
func (s *Service) limits(ctx context.Context) api.Limits {
	lim := s.cfg.Limits
	lim.Done = ctx.Done()
	return lim
}

// checkTexts refuses a request for reasons that can be found without tokenizing it: its
// fields, the model and the settings.
func (s *Service) checkTexts(ctx context.Context, m *Model, q *api.CompletionRequest, from *Sender) error {
	if err := m.admit(ctx, &q.Options, from); err != nil {
		return err
	}
	if bad := q.CheckPrompt(); bad != nil {
		return bad
	}
	if bad := s.checkOptions(m, &q.Options); bad != nil {
		return bad
	}
	return nil
}

// checkAnswerSize refuses a request whose answer would repeat too much of its prompts.
func (s *Service) checkAnswerSize(echo bool, echoed, scores int) *api.Error {
	if echo && echoed > s.cfg.MaxEcho {
		return failure.BadRequest("", "The echo of %d bytes in all choices is larger than %d bytes.", echoed, s.cfg.MaxEcho)
	}
	if scores > maxPromptScores {
		return failure.BadRequest("", "The answer would hold %d log-probabilities of prompt tokens, more than %d.", scores, maxPromptScores)
	}
	return nil
}

// maxPromptScores bounds the log-probabilities of prompt tokens in an answer. Each takes
// some 30 bytes, so that a short request could ask for a gigabyte.
const maxPromptScores = 4 << 20

// textPrompt returns the token ids of a prompt, and its text if that is to be echoed.
func (m *Model) textPrompt(ctx context.Context, q *api.CompletionRequest, p *api.TextPrompt, limit promptLimit, in *input) (tokens []int32, text string, bad *api.Error) {
	if p.IDs == nil {
		tokens, bad = m.encode(ctx, &q.Options, p.Text, limit, in)
		if bad == nil && q.Echo && len(tokens) == limit.keep { // it may have been cut
			return tokens, m.Tokenizer.Decode(tokens, tokenizer.DecodeOptions{}), nil
		}
		return tokens, p.Text, bad
	}
	tokens, outside := ids(p.IDs, m.VocabSize)
	if outside != nil {
		return nil, "", api.ErrPromptIDs(outside, m.VocabSize)
	}
	if tokens, bad = m.fit(tokens, limit); bad == nil && q.Echo {
		text = m.Tokenizer.Decode(tokens, tokenizer.DecodeOptions{})
	}
	return tokens, text, bad
}
