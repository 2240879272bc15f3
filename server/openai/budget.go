package openai

import (
	"slices"

	"weir/api"
	"weir/chat/reasoning"
	"weir/engine"
	"weir/server/failure"
	"weir/tokenizer"
)

// thinkBudget ends the thoughts of one choice after a number of tokens, by forcing the tag
// that closes them, token by token (docs/interface/chat-completions.md, section 9.1). It
// implements engine.Forcer.
type thinkBudget struct {
	tok     *tokenizer.Tokenizer
	counter reasoning.Counter
	left    int     // tokens of thought that may come, before any has
	closing []int32 // the closing tag
	forcing bool
	at      int // closing[at] is forced next
}

// Force implements engine.Forcer.
func (b *thinkBudget) Force() int32 {
	if !b.forcing && b.counter.Thinking() && b.counter.Count() >= b.left {
		b.forcing, b.at = true, 0
	}
	if !b.forcing {
		return -1
	}
	return b.closing[b.at]
}

// Accept implements engine.Forcer.
func (b *thinkBudget) Accept(token int32) {
	b.counter.Next(b.tok.Bytes(token))
	switch {
	case b.forcing && token == b.closing[b.at] && b.at+1 < len(b.closing):
		b.at++ // also after the end of the thoughts, where the header of an answer follows
	case !b.counter.Thinking():
		b.forcing = false // the tag is complete, or the model has spelt it in another way
	case b.forcing:
		b.at = 0
	}
}

// think gives the choices of a request their budgets, if it asks for one. output is what
// they begin with.
func (m *Model) think(q *api.Options, r *engine.Request, output reasoning.Start, marks *reasoning.Marks) *api.Error {
	if q.ThinkingBudget == nil || output == reasoning.Content {
		return nil
	}
	closing, err := m.Tokenizer.Encode(nil, marks.Closing(), false)
	if err != nil || len(closing) == 0 || slices.ContainsFunc(closing, func(t int32) bool { return int(t) >= m.VocabSize }) {
		return failure.BadRequest("thinking_token_budget", "thinking_token_budget is set, but the vocabulary cannot spell %s.", marks.Closing())
	}
	left := *q.ThinkingBudget
	if output == reasoning.Thought {
		left -= max(0, m.thoughtIn(r.Tokens, marks))
	}
	for range max(1, r.N) {
		r.Forcers = append(r.Forcers, &thinkBudget{tok: m.Tokenizer, counter: marks.NewCounter(output), left: left, closing: closing})
	}
	return nil
}

// thoughtIn returns how many tokens of a prompt follow the tag that opens thoughts at its
// end; -1: it has none, or closes them.
func (m *Model) thoughtIn(prompt []int32, marks *reasoning.Marks) int {
	opening, err := m.Tokenizer.Encode(nil, marks.Opening(), false)
	if err != nil || len(opening) == 0 {
		return -1
	}
	closing, err := m.Tokenizer.Encode(nil, marks.Closing(), false)
	if opened := lastIndex(prompt, opening); err == nil && opened >= 0 && opened > lastIndex(prompt, closing) {
		return len(prompt) - opened - len(opening)
	}
	return -1
}

// lastIndex returns where part is in whole for the last time; -1: it is not.
func lastIndex(whole, part []int32) int {
	for i := len(whole) - len(part); i >= 0; i-- {
		if slices.Equal(whole[i:i+len(part)], part) {
			return i
		}
	}
	return -1
}

// textStart returns what the choices of a prompt of /v1/completions begin with, as far as
// thoughts matter.
func (m *Model) textStart(prompt []int32) reasoning.Start {
	if m.thoughtIn(prompt, m.Chat.Marks()) >= 0 {
		return reasoning.Thought
	}
	return reasoning.Either
}

// errNoThoughts refuses a budget where thoughts are not told apart.
func errNoThoughts() *api.Error {
	return failure.BadRequest("", "thinking_token_budget is set, but this server does not tell the thoughts of the model apart (--reasoning-parser).")
}
