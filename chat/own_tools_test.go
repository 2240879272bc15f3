package chat

import (
	"testing"

	"weir/api"
)

// ownTools is a template of our own that reads tools as Phi-4-mini's does.
const ownTools = `{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.role == 'system' and 'tools' in m and m['tools'] is not none %}<|tool|>{{ m['tools'] }}<|/tool|>{% endif %}<|end|>{% endfor %}<|assistant|>`

// TestOwnTools: where a template reads tools in the system message only, those of the request are
// written there as the model's card has them, also when there is no system message.
func TestOwnTools(t *testing.T) {
	const tools = `[{"type":"function","function":{"name":"add","description":"Adds é.","parameters":{"type":"object"}}},{"type":"function","function":{"name":"now"}}]`
	const list = `<|tool|>[{"name": "add", "description": "Adds é.", "parameters": {"type": "object"}}, {"name": "now"}]<|/tool|>`
	user, system := api.Message{Role: "user", Content: api.Content{Kind: api.ContentText, Text: "Hi"}}, api.Message{Role: "system", Content: api.Content{Kind: api.ContentText, Text: "Be brief."}}
	for _, c := range []struct {
		template string
		messages []api.Message
		tools    string
		want     string
	}{
		{ownTools, []api.Message{user}, tools, "<|system|>" + list + "<|end|><|user|>Hi<|end|><|assistant|>"},
		{ownTools, []api.Message{system, user}, tools, "<|system|>Be brief." + list + "<|end|><|user|>Hi<|end|><|assistant|>"},
		{ownTools, []api.Message{user}, "", "<|user|>Hi<|end|><|assistant|>"},
		{ownTools, []api.Message{user}, "[]", "<|user|>Hi<|end|><|assistant|>"},
		{"{{ tools | length }} " + ownTools, []api.Message{user}, tools, "2 <|user|>Hi<|end|><|assistant|>"}, // it reads those of the request
	} {
		r, err := New(Config{Templates: []Template{{Source: c.template}}})
		if err != nil {
			t.Fatal(err)
		}
		in := Input{Messages: c.messages}
		if c.tools != "" {
			in.Tools = api.Raw(c.tools)
		}
		p, err := r.Render(in)
		if err != nil || p.Text != c.want {
			t.Errorf("%.30s: %q, %v, want %q", c.template, p.Text, err, c.want)
		}
	}
}
