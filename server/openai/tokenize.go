package openai

import (
	"context"

	"weir/api"
	"weir/server/transport"
	"weir/tokenizer"
)

// prepareJSON answers with the JSON that prepare makes of the request. The memory of the
// answer is kept until the client has read it.
func (s *Service) prepareJSON(c *transport.Call, prepare preparation[[]byte]) {
	w, err := prepareBody(s, c, toPrepare, prepare)
	if err != nil {
		c.Fail(err)
		return
	}
	w.memory.keep(c.Memory(), int64(cap(w.made)))
	c.ReplyReserved(w.made)
}

// Tokenize answers POST /tokenize with the tokens of a text, or of the prompt that the
// messages of a chat are rendered to. They may be more than the context of the model.
func (s *Service) Tokenize(c *transport.Call) {
	s.prepareJSON(c, s.tokenize)
}

func (s *Service) tokenize(ctx context.Context, m *Model, in *input) ([]byte, error) {
	q, bad := api.DecodeTokenize(in.body, s.limits(ctx))
	if bad != nil {
		return nil, bad
	}
	if bad := m.admits(q.Model, in.from.Who); bad != nil {
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
		p, bad := m.render(ctx, &q.ChatRequest, in)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if bad != nil {
			return nil, bad
		}
		text = p.Text
	}
	if !in.memory.tokenize(len(text)) {
		return nil, context.Cause(ctx)
	}
	tokens, err := m.Tokenizer.EncodeWithin(ctx.Done(), in.memory.tokenize, nil, text, q.AddSpecialTokens)
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
	size := a.Size()
	if !in.memory.answer(int64(size)) {
		return nil, context.Cause(ctx)
	}
	return api.AppendTokenized(make([]byte, 0, size), &a), nil
}

// Detokenize answers POST /detokenize with the text of tokens, including the names of
// special ones.
func (s *Service) Detokenize(c *transport.Call) {
	s.prepareJSON(c, s.detokenize)
}

func (s *Service) detokenize(ctx context.Context, m *Model, in *input) ([]byte, error) {
	q, bad := api.DecodeDetokenize(in.body, s.limits(ctx))
	if bad != nil {
		return nil, bad
	}
	if bad := m.admits(q.Model, in.from.Who); bad != nil {
		return nil, bad
	}
	tokens, outside := ids(q.Tokens, m.VocabSize)
	if outside != nil {
		return nil, api.ErrPromptIDs(outside, m.VocabSize)
	}
	// The text is first in a buffer that grows, and then by itself.
	length := int64(0)
	for _, id := range tokens {
		length += int64(len(tokenText(m.Tokenizer, id)))
	}
	if !in.memory.answer(4 * length) {
		return nil, context.Cause(ctx)
	}
	text := m.Tokenizer.Decode(tokens, tokenizer.DecodeOptions{})
	size := api.SizeDetokenized(text)
	if !in.memory.answer(int64(len(text) + size)) {
		return nil, context.Cause(ctx)
	}
	return api.AppendDetokenized(make([]byte, 0, size), text), nil
}
