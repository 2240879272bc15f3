package openai_test

import (
	"encoding/json"
	"testing"

	"weir/chat"
	"weir/chat/reasoning"
	"weir/server/servertest"
)

// TestFormatsServed (docs/interface/chat-completions.md, section 9.1, R-1 to R-12): an answer in
// another format than think tags is divided in a stream and without one, whether marks come in
// one token or in letters, and constraints begin after the thoughts.
func TestFormatsServed(t *testing.T) {
	const tail = `{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}{# `
	for _, c := range []struct {
		name, template, output, thought, content string
	}{
		{"mistral", "[THINK] [/THINK]", "[THINK]Hm[/THINK]7", "Hm", "7"},
		{"harmony", "<|start|><|channel|><|message|>", "<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>7", "Hm", "7"},
		{"cohere", "<|END_THINKING|>", "<|START_THINKING|>Hm<|END_THINKING|>7", "Hm", "7"},
		{"minimax", "</mm:think>", "<mm:think>Hm</mm:think>7", "Hm", "7"},
		{"plamo", "<|plamo:end_think:plamo|>", "<|plamo:begin_think:plamo|>Hm<|plamo:end_think:plamo|>7", "Hm", "7"},
		{"gemma", "<|channel> <channel|>", "<|channel>thought\nHm<channel|>7", "Hm", "7"},
	} {
		for _, script := range []any{c.output, letters(c.output)} {
			h := newReasoningServer(t, withTemplate(tail+c.template+` #}`, reasoning.Auto), script)
			for _, fields := range []map[string]any{nil, {"structured_outputs": map[string]any{"regex": "[0-9]"}}} {
				for _, ch := range h.wholeAndStreamed(t, thinking(fields)) {
					if ch.thought == nil || *ch.thought != c.thought || ch.content == nil || *ch.content != c.content {
						got, _ := json.Marshal([]*string{ch.thought, ch.content})
						t.Errorf("%s, %v: %s", c.name, fields, got)
					}
				}
			}
		}
	}
}

// TestThinkSuffixServed (docs/interface/chat-completions.md, section 9.1, R-12): think tags with a suffix divide an answer and constraints begin
// after them.
func TestThinkSuffixServed(t *testing.T) {
	h := newReasoningServer(t, func(s *servertest.Setup) {
		r, err := chat.New(chat.Config{Templates: []chat.Template{{Source: `{% for m in messages %}{{ m.content }}{% endfor %}{# '</think{}>' #}`}}, ThinkSuffix: ":opensource"})
		if err != nil {
			panic(err)
		}
		s.Model.Chat = r
	}, "<think:opensource>Hm</think></think:opensource>7")
	for _, fields := range []map[string]any{nil, {"structured_outputs": map[string]any{"regex": "[0-9]"}}} {
		for _, ch := range h.wholeAndStreamed(t, thinking(fields)) {
			if ch.thought == nil || *ch.thought != "Hm</think>" || ch.content == nil || *ch.content != "7" {
				got, _ := json.Marshal([]*string{ch.thought, ch.content})
				t.Errorf("%v: %s", fields, got)
			}
		}
	}
}
