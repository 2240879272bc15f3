package chat

import (
	"testing"

	"weir/api"
	"weir/chat/reasoning"
)

// harmony has what the published template of gpt-oss does with an assistant's messages.
const harmony = `{% for m in messages %}{% if m.role == 'assistant' %}{% if loop.last and not add_generation_prompt %}` +
	`{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}{% endif %}` +
	`<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}` +
	`{% if add_generation_prompt %}<|start|>assistant{% endif %}`

// TestHarmonyHistory: docs/interface/chat-completions.md, section 9.1, R-9.
func TestHarmonyHistory(t *testing.T) {
	r := newRenderer(t, of(harmony))
	history := []api.Message{text("user", "Hi"), thought("Yes.", "hm"), text("user", "And?")}
	p := mustRender(t, r, Input{Messages: history})
	want := "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|end|><|start|>user<|message|>And?<|end|><|start|>assistant"
	if p.Text != want || p.Output != reasoning.Either || p.Marks != reasoning.Harmony || !p.Divided {
		t.Errorf("%+v", p)
	}
	p = mustRender(t, r, Input{Messages: history[:2], ContinueFinalMessage: true})
	want = "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Yes."
	if p.Text != want || p.Output != reasoning.Content || p.EchoText != "Yes." {
		t.Errorf("%+v", p)
	}
}
