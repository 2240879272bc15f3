package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/api"
	"weir/chat"
	"weir/server/servertest"
)

// Rows of docs/interface/chat-completions.md, section 21.2 that are about the prompt, and section 3 there.

func render(t *testing.T, cfg chat.Config) *chat.Renderer {
	t.Helper()
	r, err := chat.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestC55Prefill(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	messages := []any{map[string]any{"role": "user", "content": "Hi"}, map[string]any{"role": "assistant", "content": "Well"}}
	status, answer := h.Chat(map[string]any{"messages": messages, "add_generation_prompt": true, "continue_final_message": true})
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "continue_final_message") {
		t.Error(answer)
	}
	prompt := func(fields map[string]any) string {
		fields["messages"], fields["return_token_ids"] = messages, true
		return decode(h.Complete(t, fields).PromptTokenIDs)
	}
	if got := prompt(map[string]any{"continue_final_message": true}); !strings.HasSuffix(got, "assistant\nWell") {
		t.Errorf("continue_final_message alone: %q", got)
	}
	if got := prompt(map[string]any{"continue_final_message": true, "add_generation_prompt": false}); !strings.HasSuffix(got, "assistant\nWell") {
		t.Errorf("%q", got)
	}
	if got := prompt(map[string]any{"add_generation_prompt": false}); !strings.HasSuffix(got, "Well<|im_end|>\n") {
		t.Errorf("no generation prompt: %q", got)
	}
}

// Every choice repeats the echo, so that the size of all echoes together is bounded.
func TestEchoIsBounded(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.MaxBody = 1 << 20 })
	fields := map[string]any{
		"messages":    []any{map[string]any{"role": "assistant", "content": strings.Repeat("long ", 100_000)}},
		"temperature": 1, "truncate_prompt_tokens": 100, "continue_final_message": true, "echo": true, "prompt_logprobs": 0,
	}
	fields["n"] = 2
	h.Complete(t, fields)
	fields["n"] = 3
	status, answer := h.Chat(fields)
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "echo") {
		t.Error(answer)
	}
	status, answer = h.Chat(map[string]any{"n": 129, "temperature": 1})
	servertest.Refused(t, status, answer, 400, "-")
}

func decode(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(servertest.TextOf(servertest.Tokenizer(), id))
	}
	return b.String()
}

func TestC58Templates(t *testing.T) {
	t.Parallel()
	own := map[string]any{"chat_template": "own template{{ messages[0].content }}"}
	inside := map[string]any{"chat_template_kwargs": own}
	h := newServer(t, nil)
	for _, fields := range []map[string]any{own, inside, {"chat_template": ""}} {
		status, answer := h.Chat(fields)
		if f := servertest.Refused(t, status, answer, 400, ""); f.Type != "BadRequestError" || !strings.Contains(f.Message, "--trust-request-chat-template is not set") {
			t.Error(answer)
		}
	}
	source := []chat.Template{{Source: "{{ raise_exception('not like this') if messages[0].content == 'Hi' }}{{ x }}"}}
	for name, c := range map[string]struct {
		cfg    chat.Config
		fields map[string]any
		status int
		want   string // of the prompt, or in the message
	}{
		"trusted":          {chat.Config{Templates: source, TrustRequestTemplate: true}, own, 200, "own templateHi"},
		"in the arguments": {chat.Config{Templates: source, TrustRequestTemplate: true}, inside, 200, "own templateHi"},
		"none":             {chat.Config{}, nil, 400, "you must provide a chat template"},
		"none, one sent":   {chat.Config{}, own, 200, "own templateHi"},
		"refuses":          {chat.Config{Templates: source}, nil, 400, "not like this"},
		"broken":           {chat.Config{}, map[string]any{"chat_template": "{% if %}"}, 400, "-"},
		"endless":          {chat.Config{}, map[string]any{"chat_template": "{% for i in range(99999) %}{% for j in range(99999) %}{{ i }}{% endfor %}{% endfor %}"}, 400, "-"},
		"empty prompt":     {chat.Config{}, map[string]any{"chat_template": "{{ '' }}"}, 400, "The decoder prompt cannot be empty"},
		"arguments":        {chat.Config{Templates: source, DefaultKwargs: api.Raw(`{"x": "from the server"}`)}, map[string]any{"messages": servertest.UserSays("y")}, 200, "from the server"},
		"own arguments":    {chat.Config{Templates: source, DefaultKwargs: api.Raw(`{"x": "s"}`)}, map[string]any{"messages": servertest.UserSays("y"), "chat_template_kwargs": map[string]any{"x": "from me"}}, 200, "from me"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newServer(t, func(s *servertest.Setup) { s.Model.Chat = render(t, c.cfg) })
			if c.status != 200 {
				status, answer := h.Chat(c.fields)
				if f := servertest.Refused(t, status, answer, c.status, ""); c.want != "-" && !strings.Contains(f.Message, c.want) {
					t.Error(answer)
				}
				return
			}
			all := map[string]any{"return_token_ids": true}
			for k, v := range c.fields {
				all[k] = v
			}
			if got := decode(h.Complete(t, all).PromptTokenIDs); got != c.want {
				t.Errorf("prompt %q, want %q", got, c.want)
			}
		})
	}
}

func TestC63C64C142K7K10Messages(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	call := func(arguments any) []any {
		return []any{
			map[string]any{"role": "user", "content": "Hi"},
			map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{map[string]any{
				"id": "c1", "type": "function", "function": map[string]any{"name": "f", "arguments": arguments}}}},
			map[string]any{"role": "tool", "tool_call_id": "c1", "content": "42"},
		}
	}
	prompt := func(arguments any) string {
		return decode(h.Complete(t, map[string]any{"messages": call(arguments), "return_token_ids": true}).PromptTokenIDs)
	}
	for _, good := range []any{"", nil, "{bad", "[1]"} { // K7: the last two count as {}
		if got, want := prompt(good), prompt("{}"); got != want || got == prompt(`{"a":1}`) {
			t.Errorf("%v: %q, want %q", good, got, want)
		}
	}
	status, answer := h.Chat(map[string]any{"messages": call(map[string]any{})})
	servertest.Refused(t, status, answer, 400, "")
	if _, answer := h.Chat(nil); strings.Contains(answer, "tool_calls") { // K10
		t.Error(answer)
	}
	plain := h.Complete(t, nil)
	tools := map[string]any{"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "lookup", "parameters": map[string]any{"type": "object"}}}}, "return_token_ids": true}
	with := h.Complete(t, tools)
	if with.Usage.Prompt <= plain.Usage.Prompt || !strings.Contains(decode(with.PromptTokenIDs), "lookup") || with.Choices[0].FinishReason == "tool_calls" {
		t.Errorf("tools are not in the prompt: %q", decode(with.PromptTokenIDs))
	}
	// docs/interface/chat-completions.md, section 3.6: special tokens in a user's text are special tokens, as in vLLM.
	typed := h.Complete(t, map[string]any{"messages": servertest.UserSays("<|im_end|>"), "return_token_ids": true})
	if n := strings.Count(decode(typed.PromptTokenIDs), "<|im_end|>"); n != 2 {
		t.Errorf("%q", decode(typed.PromptTokenIDs))
	}
}

// What a template shows of the tools is what json.dumps of Python makes of vLLM's dump of the
// same request (made with pydantic 2.13).
func TestK9ToolsInThePrompt(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) {
		s.Model.Chat = render(t, chat.Config{Templates: []chat.Template{{Source: "{% for t in tools %}{{ t | tojson }}\n{% endfor %}{{ messages[0].content }}"}}})
	})
	const tools = `[{"function":{"parameters":{"type":"object","properties":{"zip":{"type":"string","description":"\u00e9 \"q\" <b>"},"n":{"type":"number","minimum":1.0,"maximum":1e3}},"required":["zip"]},"name":"lookup","x":1},"y":2},` +
		`{"type":"function","function":{"name":"now","description":"the time"}}]`
	const want = `{"type": "function", "function": {"name": "lookup", "description": null, "parameters": {"type": "object", "properties": {"zip": {"type": "string", "description": "é \"q\" <b>"}, "n": {"type": "number", "minimum": 1.0, "maximum": 1000.0}}, "required": ["zip"]}}}
{"type": "function", "function": {"name": "now", "description": "the time", "parameters": null}}
`
	_, answer := h.Chat(map[string]any{"messages": servertest.UserSays("Hi"), "tools": json.RawMessage(tools), "return_prompt_text": true})
	if quoted := string(api.AppendString([]byte(`"prompt_text":`), want+"Hi")); !strings.Contains(answer, quoted) {
		t.Errorf("got  %s\nwant %s", answer, quoted)
	}
}

// docs/interface/chat-completions.md, section 2.1: defaults from the model's generation_config.
func TestModelDefaults(t *testing.T) {
	t.Parallel()
	value := func(x float64) *float64 { return &x }
	number := func(x int) *int { return &x }
	greedy := newServer(t, func(s *servertest.Setup) { s.Model.Generation.Temperature = value(0) })
	want := *greedy.Complete(t, nil).Choices[0].Message.Content
	for _, temperature := range []any{nil, servertest.Remove} {
		if got := *greedy.Complete(t, map[string]any{"temperature": temperature}).Choices[0].Message.Content; got != want {
			t.Errorf("temperature %v: %q, want the greedy %q", temperature, got, want)
		}
	}
	status, answer := greedy.Chat(map[string]any{"n": 2, "temperature": nil})
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "greedy") {
		t.Error(answer)
	}
	h := newServer(t, func(s *servertest.Setup) {
		g := &s.Model.Generation
		g.TopK, g.TopP, g.MinP, g.RepetitionPenalty = number(1), value(0.5), value(0.1), value(1.5)
		g.MaxNewTokens, g.MaxTokens = number(7), number(9)
	})
	one := h.Complete(t, map[string]any{"temperature": 2, "repetition_penalty": 1, "max_tokens": nil, "ignore_eos": true})
	if one.Usage.Completion != 7 {
		t.Errorf("default max_new_tokens: %+v", one.Usage)
	}
	if got := h.Complete(t, map[string]any{"repetition_penalty": 1, "max_tokens": 7, "ignore_eos": true}); *got.Choices[0].Message.Content != *one.Choices[0].Message.Content {
		t.Error("top_k 1 of the model does not hold at temperature 2")
	}
	if c := h.Complete(t, map[string]any{"max_tokens": 100, "ignore_eos": true}); c.Usage.Completion != 9 {
		t.Errorf("cap: %+v", c.Usage)
	}
	status, answer = h.Chat(map[string]any{"max_tokens": 100, "min_tokens": 10})
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "max_tokens=9") {
		t.Error(answer)
	}
}
