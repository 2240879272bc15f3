package openai

import (
	"context"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/server/transport"
	"weir/tokenizer"
)

// prepareJSON answers with the JSON that prepare makes of the request.
func (s *Service) prepareJSON(c *transport.Call, prepare preparation[[]byte]) {
	if body, _, ok := prepareBody(s, c, prepare); ok {
		c.SetStatusCode(fasthttp.StatusOK)
		c.SetContentType("application/json")
		c.Response.SetBodyRaw(body)
	}
}

// Tokenize answers POST /tokenize with the tokens of a text, or of the prompt that the
// messages of a chat are rendered to. They may be more than the context of the model.
func (s *Service) Tokenize(c *transport.Call) {
	s.prepareJSON(c, func(ctx context.Context, m *Model, body []byte, from sender) ([]byte, error) {
		q, bad := api.DecodeTokenize(body, s.limits(ctx))
		if bad != nil {
			return nil, bad
		}
		if bad := m.admits(q.Model, from.who); bad != nil {
			return nil, bad
		}
		text := ""
		if q.Prompt != nil {
			text = *q.Prompt
		} else {
			if bad := q.CheckPrompt(); bad != nil {
				return nil, bad
			}
			if q.HasMedia() {
				return nil, api.ErrNotMultimodal(m.Names[0])
			}
			p, bad := m.render(ctx, &q.ChatRequest)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if bad != nil {
				return nil, bad
			}
			text = p.Text
		}
		tokens, err := m.Tokenizer.EncodeUntil(ctx.Done(), nil, text, q.AddSpecialTokens)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, api.ErrTooComplex()
		}
		a := api.Tokenized{Tokens: tokens, MaxModelLen: m.MaxLen}
		if q.TokenStrs {
			a.Strs = m.Tokenizer.Token
		}
		return api.AppendTokenized(nil, &a), nil
	})
}

// Detokenize answers POST /detokenize with the text of tokens, including the names of
// special ones.
func (s *Service) Detokenize(c *transport.Call) {
	s.prepareJSON(c, func(ctx context.Context, m *Model, body []byte, from sender) ([]byte, error) {
		q, bad := api.DecodeDetokenize(body, s.limits(ctx))
		if bad != nil {
			return nil, bad
		}
		if bad := m.admits(q.Model, from.who); bad != nil {
			return nil, bad
		}
		tokens, outside := ids(q.Tokens, m.VocabSize)
		if outside != nil {
			return nil, api.ErrPromptIDs(outside, m.VocabSize)
		}
		return api.AppendDetokenized(nil, m.Tokenizer.Decode(tokens, tokenizer.DecodeOptions{})), nil
	})
}
