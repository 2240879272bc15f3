package openai

import (
	"context"
	"slices"

	"weir/api"
	"weir/chat"
)

// Plain says how a prompt is made that is not what the template makes of the messages alone.
type Plain struct {
	// Raw says that the text of the only message is the prompt, with the tokens that the
	// tokenizer puts around a text, and without a template. Nothing is told apart in its
	// output then, neither thoughts nor calls.
	Raw bool
	// Before are tokens that the prompt begins with. They are in the vocabulary.
	Before []int32
	// IDs are the tokens of the whole prompt, in the vocabulary and at least one, if they are given: the messages are
	// for records only. Nothing is told apart in its output, either.
	IDs []int32
}

// plain makes the prompt of a chat for which in has a Plain.
func (m *Model) plain(ctx context.Context, q *api.ChatRequest, in *input, limit promptLimit) (p chat.Prompt, tokens []int32, bad *api.Error) {
	if ids := in.plain.IDs; ids != nil {
		tokens, bad = m.fit(ids, limit)
		return chat.Prompt{ResponseRole: "assistant"}, tokens, bad
	}
	if in.plain.Raw {
		p = chat.Prompt{Text: q.Messages[len(q.Messages)-1].Content.Text, ResponseRole: "assistant"}
		q.AddSpecialTokens = true
	} else if p, bad = m.render(ctx, q, in); bad != nil {
		return p, nil, bad
	}
	before := in.plain.Before
	tokens, bad = m.tokens(ctx, p.Text, q.AddSpecialTokens, limit, in)
	if tokens == nil || bad != nil {
		return p, nil, bad
	}
	// A template that begins with the token for the beginning of a text does so once.
	if len(before) > 0 && len(tokens) > 0 && tokens[0] == before[0] && m.Tokenizer.IsSpecial(tokens[0]) && !slices.Contains(before[1:], tokens[0]) {
		tokens = tokens[1:]
	}
	tokens, bad = m.fit(slices.Concat(before, tokens), limit)
	return p, tokens, bad
}
