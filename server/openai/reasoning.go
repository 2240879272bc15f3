package openai

import (
	"weir/api"
	"weir/chat/reasoning"
)

// divide splits the text of a chunk into reasoning and content, and reports
// whether the chunk is sent (docs/interface/chat-completions.md, sections 7.4, 9.1 and
// 12.3):
//
//   - Where the split gives no text, as for the tags themselves, there is no
//     chunk, except a choice's last, and one that has token ids or logprobs to
//     carry: these have "delta":{}. (The reference loses such logprobs.) Behind
//     the thoughts, chunks without text have "content":"" as they always do.
//   - With include_reasoning false, chunks without content are not sent, with
//     all they carry; the last one is, without what it carries. Until it is clear
//     whether the output begins with a tag its tokens are not taken for thoughts.
//
// What is held back as the beginning of a tag, or of a stop string, comes with a
// later chunk: text and ids of one chunk need not correspond. Tokens count in
// the usage wherever they go.
func (e *chatEncoder) divide(c *api.Chunk, text []byte) bool {
	s := &e.split[c.Choice]
	if s.Answering() {
		return true
	}
	thought, content := s.Next(text, c.Finish != "")
	c.Content, c.NoContent = view(content), len(content) == 0
	if !e.a.hideThoughts {
		c.Reasoning = view(thought)
	} else if c.NoContent && !s.Undecided() {
		c.Logprobs, c.HasLogprobs, c.TokenIDs = nil, false, nil
	}
	return c.Finish != "" || !c.NoContent || c.Reasoning != "" || c.HasLogprobs || e.r.form.TokenIDs && len(c.TokenIDs) > 0
}

// divide is the reasoning and the content of a whole choice, the echo in front.
// nil is null: there is no reasoning, or nothing after it.
func (a *chatAnswer) divide(text []byte) (thought, content *string) {
	t, c := reasoning.Split(text, a.output)
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

// thinkTags are the tags of thoughts that the vocabulary has as special tokens.
// Those are hidden from the text by default, where the split has to see them.
func (m *Model) thinkTags() (tags []int32) {
	for _, tag := range []string{reasoning.Open, reasoning.Close} {
		if id, ok := m.Tokenizer.ID(tag); ok && m.Tokenizer.IsSpecial(id) {
			tags = append(tags, id)
		}
	}
	return tags
}
