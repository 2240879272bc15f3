package openai

import (
	"context"
	"slices"
	"strings"

	"weir/api"
	"weir/chat"
	"weir/server/transport"
	"weir/tokenizer"
)

// Past is the earlier part of a chat that goes on with exactly the tokens that the model has
// seen and written. Rendering the whole conversation again would make other tokens of it: a
// model does not write a text with the tokens that a tokenizer makes of it, and templates leave
// out thoughts of earlier turns.
type Past struct {
	// IDs are the tokens of the earlier prompt and of the answer to it. nil: there are none,
	// and the prompt is rendered as any other.
	IDs []int32
	// Messages is how many messages of the chat are earlier ones. The last of them is that
	// answer.
	Messages int
	// Outcome is set when the prompt is made.
	Outcome Outcome
}

// Outcome says how a prompt continues an earlier turn, in words; "": with its tokens, and these
// are what the template makes of it.
type Outcome string

const (
	// PastDiffers is a prompt with the tokens of the earlier turn that the template would have
	// rendered to another text.
	PastDiffers Outcome = "continued: the template would have rendered the earlier turns in another way"
	// PastRendered is a prompt without them, because the template does not tell where the
	// earlier turn ends.
	PastRendered Outcome = "rendered anew: the end of the earlier turn was not found in what the template makes of it"
)

// A SurfaceAnswer whose prompt goes on from an earlier one implements continuing.
type continuing interface {
	// Past returns the earlier turn; nil: there is none.
	Past() *Past
}

// continued makes the prompt of a chat that goes on from an earlier turn: the tokens of that and
// those of what the template renders after it.
//
// To find where that begins the conversation is rendered a second time, with a mark in place of
// the content of the earlier answer. What follows the next end-of-turn token after the mark is
// what comes after the turn, whatever the template does with thoughts and calls. That the second
// text begins as the first one is not needed, so that templates may treat the last turn
// differently from earlier ones.
func (m *Model) continued(ctx context.Context, q *api.ChatRequest, in *input, limit promptLimit) (chat.Prompt, []int32, *api.Error) {
	p, bad := m.render(ctx, q, in)
	if bad != nil {
		return p, nil, bad
	}
	rest, found, bad := m.after(ctx, q, in)
	if bad != nil || ctx.Err() != nil {
		return p, nil, bad
	}
	if !found || !strings.HasSuffix(p.Text, rest) {
		in.past.Outcome = PastRendered
		tokens, bad := m.encode(ctx, &q.Options, p.Text, limit, in)
		return p, tokens, bad
	}
	past := in.past.IDs
	seen := m.Tokenizer.Decode(past, tokenizer.DecodeOptions{})
	if seen != p.Text[:len(p.Text)-len(rest)] {
		in.past.Outcome = PastDiffers
	}
	// The last token is a part of the text that is tokenized, because some tokenizers put a
	// space in front of a text.
	last := past[len(past)-1]
	lead := ""
	if m.Tokenizer.IsSpecial(last) {
		lead = m.Tokenizer.Text(last)
	}
	tokens, bad := m.tokens(ctx, lead+rest, false, limit, in)
	if tokens == nil || bad != nil {
		return p, nil, bad
	}
	if lead != "" && len(tokens) > 0 && tokens[0] == last {
		tokens = tokens[1:]
	}
	tokens, bad = m.fit(slices.Concat(past, tokens), limit)
	return p, tokens, bad
}

// after returns the text that the template renders after the earlier turn. It begins with the
// token that ends the turn, if the earlier output has been cut before that.
func (m *Model) after(ctx context.Context, q *api.ChatRequest, in *input) (rest string, found bool, bad *api.Error) {
	n := in.past.Messages
	if n < 1 || n > len(q.Messages) || q.Messages[n-1].Role != "assistant" || len(in.past.IDs) == 0 {
		return "", false, nil
	}
	mark := "m" + transport.RandomHex(12)
	other := *q
	other.Messages = slices.Clone(q.Messages)
	answer := &other.Messages[n-1]
	answer.Content, answer.Reasoning = api.Content{Kind: api.ContentText, Text: mark}, nil
	p, bad := m.render(ctx, &other, in)
	if bad != nil {
		return "", false, nil //nolint:nilerr // the conversation itself was rendered
	}
	at := strings.LastIndex(p.Text, mark)
	if at < 0 {
		return "", false, nil
	}
	tail := p.Text[at+len(mark):]
	if last := in.past.IDs[len(in.past.IDs)-1]; m.Tokenizer.IsSpecial(last) {
		end := m.Tokenizer.Text(last)
		if i := strings.Index(tail, end); i >= 0 {
			return tail[i+len(end):], true, nil
		}
		// Some models end their last message with another token than the template has for
		// messages that are followed by others.
		if end, ok := m.specialAt(tail); ok {
			return tail[len(end):], true, nil
		}
		return "", false, nil
	}
	first := -1
	for _, id := range append([]int32{m.Generation.EOS}, m.Generation.Stop...) {
		if end := m.Tokenizer.Text(id); id >= 0 && end != "" {
			if i := strings.Index(tail, end); i >= 0 && (first < 0 || i < first) {
				first = i
			}
		}
	}
	if first < 0 {
		return "", false, nil
	}
	return tail[first:], true, nil
}

// specialAt returns the special token that a text begins with.
func (m *Model) specialAt(text string) (token string, found bool) {
	ids, err := m.Tokenizer.Encode(nil, text[:min(len(text), 64)], false)
	if err != nil || len(ids) == 0 || !m.Tokenizer.IsSpecial(ids[0]) {
		return "", false
	}
	token = m.Tokenizer.Text(ids[0])
	return token, strings.HasPrefix(text, token)
}
