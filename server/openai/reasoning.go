package openai

import (
	"weir/api"
	"weir/chat/reasoning"
)

// divide splits the text of a chunk into reasoning, content and calls, and reports
// whether the chunk is sent (docs/interface/chat-completions.md, sections 7.4, 9.1 and
// 12.3):
//
//   - A chunk that has no text after the split, like that of a tag, is not sent, unless
//     it is the last of its choice or carries token ids or log-probabilities. Then it has
//     "delta":{}. (vLLM loses such log-probabilities.) After the thoughts, chunks without
//     text have "content":"" as in any other stream.
//   - With include_reasoning false, chunks without content are not sent, but for the last
//     one. No chunk has token ids or log-probabilities then.
//
// Text that is held back, because it may be the beginning of a tag or of a stop string,
// comes with a later chunk, so that text and ids of one chunk need not correspond. The
// usage counts all tokens, also those that are not shown.
func (e *chatEncoder) divide(c *api.Chunk, text []byte) bool {
	d := &e.split[c.Choice]
	if d.plain() {
		return true
	}
	thought, content, deltas := d.next(text, c.Finish != "")
	if d.parser != nil {
		content, c.Calls = d.joined(e.a.calls, c.Choice, deltas)
	}
	c.Content, c.NoContent = view(content), len(content) == 0
	if !e.a.hideThoughts {
		c.Reasoning = view(thought)
	}
	if c.Finish != "" && d.called {
		c.Finish = e.a.calls.finish(c.Finish)
	}
	return c.Finish != "" || !c.NoContent || c.Reasoning != "" || len(c.Calls) > 0 || c.HasLogprobs || e.r.form.TokenIDs && !e.r.form.HideOutputIDs && len(c.TokenIDs) > 0
}

// divide splits the text of a whole choice into reasoning, content and calls, each of the texts
// after its part of the echo. nil is null: there is no reasoning, or no content beside the
// reasoning or the calls.
func (a *chatAnswer) divide(c *api.Choice, text []byte) {
	split := a.marks.New(a.output)
	if a.calls != nil {
		split.KeepCalls()
	}
	thought, content := split.Next(text, true)
	if a.calls != nil {
		content, c.Calls = a.calls.split(c.Index, content)
	}
	if a.hideThoughts {
		thought = nil
	}
	if s := a.echoThought + string(thought); s != "" {
		c.Reasoning = &s
	}
	plain := a.output == reasoning.Content || a.output == reasoning.Either && len(text) == 0
	if s := a.echo + string(content); s != "" || plain && len(c.Calls) == 0 {
		c.Content = &s
	}
}

// special returns those of some marks that are special tokens of the vocabulary. The engine
// leaves special tokens out of the text by default, but whoever takes the text apart needs
// these.
func (m *Model) special(marks []string) (tags []int32) {
	for _, tag := range marks {
		if id, ok := m.Tokenizer.ID(tag); ok && m.Tokenizer.IsSpecial(id) {
			tags = append(tags, id)
		}
	}
	return tags
}
