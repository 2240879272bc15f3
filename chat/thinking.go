package chat

import (
	"strings"

	"weir/chat/jinja"
	"weir/chat/reasoning"
)

// Marks returns the marks by which reasoning is told apart with the model's own template.
func (r *Renderer) Marks() *reasoning.Marks {
	if r.cfg.Reasoning != reasoning.Auto {
		return r.marks(r.cfg.Reasoning)
	}
	if t := r.templates[defaultTemplate]; t != nil {
		return r.marks(r.kind(t))
	}
	return r.thinkTags
}

// marks are those of a kind, with the suffix of the vocabulary.
func (r *Renderer) marks(kind reasoning.Kind) *reasoning.Marks {
	if m := kind.Marks(); m != reasoning.Think {
		return m
	}
	return r.thinkTags
}

// kind is the one that is used with a template. One for tags with a suffix may put the suffix into them itself.
func (r *Renderer) kind(t *compiled) reasoning.Kind {
	switch {
	case r.cfg.Reasoning != reasoning.Auto:
		return r.cfg.Reasoning
	case t.thinking == reasoning.None && t.thinkTags && r.cfg.ThinkSuffix != "":
		return reasoning.Auto
	}
	return t.thinking
}

// Divides reports whether reasoning is told apart with the model's own template. A request
// that brings another template may differ (Prompt.Divided).
func (r *Renderer) Divides() bool {
	if r.cfg.Reasoning == reasoning.Auto {
		t := r.templates[defaultTemplate]
		return t != nil && r.kind(t) != reasoning.None
	}
	return r.cfg.Reasoning != reasoning.None
}

// think sets what concerns reasoning in p, which was rendered from c with the arguments a:
// what the output begins with, and which part of the echo is thought.
func (r *Renderer) think(t *compiled, vars *jinja.Dict, c *conversation, in Input, a *jinja.Dict, p *Prompt) {
	kind := r.kind(t)
	if kind == reasoning.None {
		return
	}
	m := r.marks(kind)
	p.Divided, p.Marks = true, m
	block := m.AtEnd(p.Text)
	if in.ContinueFinalMessage {
		block = r.continued(t, vars, c, p.Text, &in, m)
	}
	enabled, given := a.Get("enable_thinking")
	p.Output = kind.Start(block, given && enabled == false)
	if p.EchoText == "" {
		return
	}
	// The echo is split as if the model had just written it. The template may have opened
	// the block before the message.
	start := reasoning.Either
	if in.ContinueFinalMessage && block == reasoning.Opened || m.Ends(p.EchoText) {
		start = reasoning.Thought
	}
	thought, content := m.Split([]byte(p.EchoText), start)
	p.EchoThought, p.EchoText = string(thought), string(content)
}

// continued is the state of the think block where a message ends that is to be continued.
// The tags may be the message's own, or the template's in front of it. Tags in earlier
// messages do not count, so these are rendered alone to find out where the last one begins.
func (r *Renderer) continued(t *compiled, vars *jinja.Dict, c *conversation, text string, in *Input, m *reasoning.Marks) reasoning.Block {
	b := reasoning.Absent
	if m.Has(text) {
		from := 0
		if n := len(c.dicts) - 1; n > 0 {
			vars.Set("messages", jinja.NewList(c.dicts[:n]...))
			if before, err := r.run(t, vars, in); err == nil { // some templates want an answer after each question
				from = shared(before, text)
			}
		}
		b = m.Within(text, from)
	}
	if b == reasoning.Absent && strings.TrimSpace(contentOf(c.last)) != "" {
		return reasoning.Closed // an answer without thoughts has begun
	}
	return b
}

// shared returns the length of the common prefix of a and b.
func shared(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
