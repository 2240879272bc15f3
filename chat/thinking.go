package chat

import (
	"strings"

	"weir/chat/jinja"
	"weir/chat/reasoning"
)

// think fills in what p, rendered from c with the arguments a, says of
// reasoning: what the output begins with, and which part of the echo is thought.
func (r *Renderer) think(t *compiled, vars *jinja.Dict, c *conversation, continues bool, a *jinja.Dict, p *Prompt) {
	kind := r.cfg.Reasoning
	if kind == reasoning.Auto {
		kind = t.thinking
	}
	if kind == reasoning.None {
		return
	}
	block := reasoning.AtEnd(p.Text)
	if continues {
		block = r.continued(t, vars, c, p.Text)
	}
	enabled, given := a.Get("enable_thinking")
	p.Output = kind.Start(block, given && enabled == false)
	if p.EchoText == "" {
		return
	}
	// The echo is told apart as if the model had just written it. The block may
	// have been opened by the template, in front of the message.
	start := reasoning.Either
	if continues && block == reasoning.Opened || strings.Contains(p.EchoText, reasoning.Close) {
		start = reasoning.Thought
	}
	thought, content := reasoning.Split([]byte(p.EchoText), start)
	p.EchoThought, p.EchoText = string(thought), string(content)
}

// continued is the block that the final message leaves when it is continued,
// be it with its own tags or with the template's in front of it. Tags in the
// messages before it do not count, so those are rendered alone to see where the
// final one begins.
func (r *Renderer) continued(t *compiled, vars *jinja.Dict, c *conversation, text string) reasoning.Block {
	b := reasoning.Absent
	if strings.Contains(text, reasoning.Open) || strings.Contains(text, reasoning.Close) {
		from := 0
		if n := len(c.dicts) - 1; n > 0 {
			vars.Set("messages", jinja.NewList(c.dicts[:n]...))
			if before, err := r.run(t, vars); err == nil { // some templates want an answer behind each question
				from = shared(before, text)
			}
		}
		b = reasoning.Within(text, from)
	}
	if b == reasoning.Absent && strings.TrimSpace(contentOf(c.last)) != "" {
		return reasoning.Closed // an answer without thoughts has begun
	}
	return b
}

// shared is the length of the beginning that a and b share.
func shared(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}
