package openai

import (
	"weir/api"
	"weir/chat/reasoning"
)

// divide splits the text of a chunk into reasoning and content, and reports
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
	s := &e.split[c.Choice]
	if s.Answering() {
		return true
	}
	thought, content := s.Next(text, c.Finish != "")
	c.Content, c.NoContent = view(content), len(content) == 0
	if !e.a.hideThoughts {
		c.Reasoning = view(thought)
	}
	return c.Finish != "" || !c.NoContent || c.Reasoning != "" || c.HasLogprobs || e.r.form.TokenIDs && !e.r.form.HideOutputIDs && len(c.TokenIDs) > 0
}

// divide splits the text of a whole choice into reasoning and content, each after its part
// of the echo. nil is null: there is no reasoning, or no content after the reasoning.
func (a *chatAnswer) divide(text []byte) (thought, content *string) {
	t, c := a.marks.Split(text, a.output)
	if a.hideThoughts {
		t = nil
	}
	if s := a.echoThought + string(t); s != "" {
		thought = &s
	}
	if s := a.echo + string(c); s != "" || a.output == reasoning.Content || a.output == reasoning.Either && len(text) == 0 {
		content = &s
	}
	return thought, content
}

// thinkTags returns the marks around thoughts that are special tokens of the vocabulary.
// The engine leaves special tokens out of the text by default, but the split needs these.
func (m *Model) thinkTags(marks *reasoning.Marks) (tags []int32) {
	for _, tag := range marks.Tokens() {
		if id, ok := m.Tokenizer.ID(tag); ok && m.Tokenizer.IsSpecial(id) {
			tags = append(tags, id)
		}
	}
	return tags
}
