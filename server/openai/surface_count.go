package openai

import (
	"context"

	"weir/api"
	"weir/server/transport"
)

// CountPrompt answers with the number of tokens of the prompt that a request of another interface
// leads to. It may be more than the context of the model. answer appends the body.
func (s *Service) CountPrompt(c *transport.Call, surface Surface, answer func(dst []byte, tokens int) []byte) {
	w, err := prepareBody(s, c, toPrepare, func(ctx context.Context, m *Model, in *input) ([]byte, error) {
		n, err := s.countPrompt(ctx, m, in, surface)
		return answer(nil, n), err
	})
	if err != nil {
		surface.Fail(c, err)
		return
	}
	w.memory.keep(c.Memory(), int64(cap(w.made)))
	c.ReplyReserved(w.made)
}

func (s *Service) countPrompt(ctx context.Context, m *Model, in *input, surface Surface) (int, error) {
	body, a, err := surface.Translate(ctx, m, in.from, in.body)
	if err != nil {
		return 0, err
	}
	if !in.memory.translated(body) {
		return 0, context.Cause(ctx)
	}
	own := *in
	own.body = body
	own.take(a)
	q, bad := api.DecodeChat(body, s.limits(ctx))
	if bad != nil {
		return 0, bad
	}
	if bad := m.admits(q.Model, in.from.Who); bad != nil {
		return 0, bad
	}
	own.hideTools(q)
	if bad := s.check(m, q); bad != nil {
		return 0, bad
	}
	if own.past != nil && own.past.IDs != nil {
		_, tokens, bad := m.continued(ctx, q, &own, promptLimit{keep: -1})
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if bad != nil {
			return 0, bad
		}
		return len(tokens), nil
	}
	p, bad := m.render(ctx, q, &own)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if bad != nil {
		return 0, bad
	}
	if !own.memory.tokenize(len(p.Text)) {
		return 0, context.Cause(ctx)
	}
	tokens, err := m.Tokenizer.EncodeWithin(ctx.Done(), own.memory.tokenize, nil, p.Text, q.AddSpecialTokens)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		return 0, api.ErrTooComplex()
	}
	return len(tokens), nil
}
