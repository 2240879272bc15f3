package chat

import (
	"regexp"
	"strings"
	"testing"

	"weir/api"
	"weir/chat/toolcall"
)

// TestForeignCallIDs: the ids of calls of the history become those of the model's family, where
// it has a form of its own. A call and its result have the same, and the family's own stay.
func TestForeignCallIDs(t *testing.T) {
	id := func(s string) *string { return &s }
	messages := []api.Message{
		{Role: "user", Content: api.Content{Kind: api.ContentText, Text: "Hi"}},
		{Role: "assistant", ToolCalls: []api.ToolCall{{ID: "call_foreign", Name: "f"}, {ID: "aB3dE6gH9", Name: "g"}}},
		{Role: "tool", ToolCallID: id("aB3dE6gH9")},
		{Role: "tool", ToolCallID: id("call_foreign")},
		{Role: "tool", ToolCallID: id("lost")},
	}
	const template = `{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.id }} {% endfor %}{{ m.tool_call_id or '' }} {% endfor %}`
	for name, want := range map[string]string{
		"hermes":  `^call_foreign aB3dE6gH9 aB3dE6gH9 call_foreign lost$`,
		"mistral": `^(\w{9}) aB3dE6gH9 aB3dE6gH9 (\w{9}) \w{9}$`,
		"kimi_k2": `^(functions.f:0) functions.g:1 functions.g:1 (functions.f:0) functions.:2$`,
	} {
		f, ok := toolcall.Named(name)
		if !ok {
			t.Fatal(name)
		}
		r, err := New(Config{Templates: []Template{{Source: template}}, Calls: f})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the same each time, so that prefixes are shared
			p, err := r.Render(Input{Messages: messages})
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(strings.Fields(p.Text), " ")
			m := regexp.MustCompile(want).FindStringSubmatch(text)
			if m == nil || len(m) > 2 && m[1] != m[2] {
				t.Errorf("%s: %s, want %s", name, text, want)
			}
			want = "^" + regexp.QuoteMeta(text) + "$"
		}
	}
}
