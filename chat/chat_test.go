package chat

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"weir/api"
	"weir/chat/jinja"
)

// show is a template that prints all its arguments.
const show = `{% for m in messages %}{{ m | tojson }}
{% endfor %}tools={{ tools | tojson }} documents={{ documents | tojson }} prompt={{ add_generation_prompt | tojson }}`

// chatml is a template in the usual style. trimming is the same, but removes white space
// at both ends of every message.
const (
	chatml   = `{% for m in messages %}<|{{ m.role }}|>` + "\n" + `{{ m.content }}<|end|>` + "\n" + `{% endfor %}{% if add_generation_prompt %}<|assistant|>` + "\n{% endif %}"
	trimming = `{% for m in messages %}<|{{ m.role }}|>` + "\n" + `{{ m.content | trim }}<|end|>` + "\n" + `{% endfor %}{% if add_generation_prompt %}<|assistant|>` + "\n{% endif %}"
	// parted iterates over the content, so it expects a list.
	parted = `{% for m in messages %}<{{ m.role }}>{% for p in m.content %}[{{ p.type }}:{{ p.text }}]{% endfor %}{% endfor %}`
)

func newRenderer(t testing.TB, cfg Config) *Renderer {
	t.Helper()
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func of(source string) Config { return Config{Templates: []Template{{"", source}}} }

func text(role, content string) api.Message {
	return api.Message{Role: role, Content: api.Content{Kind: api.ContentText, Text: content}}
}

func parts(role string, texts ...string) api.Message {
	m := api.Message{Role: role, Content: api.Content{Kind: api.ContentParts}}
	for _, s := range texts {
		m.Content.Parts = append(m.Content.Parts, api.Part{Type: "text", Text: s})
	}
	return m
}

func ptr[T any](v T) *T { return &v }

func mustRender(t testing.TB, r *Renderer, in Input) Prompt {
	t.Helper()
	p, err := r.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// wantError checks the text that the client sees, and the reason.
func wantError(t *testing.T, r *Renderer, in Input, text string, reason error) {
	t.Helper()
	p, err := r.Render(in)
	var e *Error
	if !errors.As(err, &e) || e.Text != text || !errors.Is(err, reason) {
		t.Errorf("prompt %q, error %v\nwant %s (%v)", p.Text, err, text, reason)
	}
}

// TestMessageShapes: which fields of a message the template sees
// (docs/interface/chat-completions.md, section 3.1).
func TestMessageShapes(t *testing.T) {
	name, id, thought := "n", "call_1", "hm"
	r := newRenderer(t, of(show+`{# 'developer' #}`))
	for _, c := range []struct {
		msg  api.Message
		want string
	}{
		{text("user", "a"), `{"role": "user", "content": "a"}`},
		{api.Message{Role: "user", Content: text("", "a").Content, Name: &name}, `{"role": "user", "content": "a", "name": "n"}`},
		{text("", "a"), `{"role": "", "content": "a"}`},
		{text("narrator", "a"), `{"role": "narrator", "content": "a"}`},
		{api.Message{Role: "user"}, `{"role": "user", "content": ""}`},
		{api.Message{Role: "assistant"}, `{"role": "assistant", "content": ""}`},
		{api.Message{Role: "assistant", Reasoning: &thought, Content: text("", "a").Content},
			`{"role": "assistant", "content": "a", "reasoning": "hm", "reasoning_content": "hm"}`},
		{api.Message{Role: "assistant", ToolCalls: []api.ToolCall{}}, `{"role": "assistant", "content": ""}`},
		{api.Message{Role: "assistant", ToolCalls: []api.ToolCall{
			{ID: "1", Name: "f", Arguments: api.Raw(`{"b": 1.0, "a": [1, "é"]}`)}, {ID: "2", Name: "g"}, {ID: "3", Name: "h", Arguments: api.Raw(`"text"`)}, {ID: "4", Name: "i", Arguments: api.Raw(`null`)}}},
			`{"role": "assistant", "content": "", "tool_calls": [` +
				`{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"b": 1.0, "a": [1, "é"]}}}, ` +
				`{"id": "2", "type": "function", "function": {"name": "g", "arguments": {}}}, ` +
				`{"id": "3", "type": "function", "function": {"name": "h", "arguments": "text"}}, ` +
				`{"id": "4", "type": "function", "function": {"name": "i", "arguments": null}}]}`},
		{api.Message{Role: "tool", Content: text("", "r").Content, ToolCallID: &id}, `{"role": "tool", "content": "r", "tool_call_id": "call_1"}`},
		{text("tool", "r"), `{"role": "tool", "content": "r"}`},
		{text("developer", "d"), `{"role": "developer", "content": "d", "tools": null}`},
		{api.Message{Role: "developer", Content: text("", "d").Content, Tools: api.Raw(`[{"x": 1}]`)}, `{"role": "developer", "content": "d", "tools": [{"x": 1}]}`},
		// Fields of other roles are dropped.
		{api.Message{Role: "user", ToolCallID: &id, Reasoning: &thought, ToolCalls: []api.ToolCall{{ID: "1"}}, Tools: api.Raw(`[]`)}, `{"role": "user", "content": ""}`},
	} {
		got, _, _ := strings.Cut(mustRender(t, r, Input{Messages: []api.Message{c.msg}}).Text, "\n")
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// TestK8Developer: for a template that does not name the role developer its messages are
// the system's, and all of these are one message in front.
func TestK8Developer(t *testing.T) {
	knows := `{% if x == 'developer' %}{% endif %}` + show
	for _, c := range []struct {
		template string
		messages []api.Message
		want     string
	}{
		{knows, []api.Message{text("system", "a"), text("developer", "d")}, `{"role": "system", "content": "a"}` + "\n" + `{"role": "developer", "content": "d", "tools": null}` + "\n"},
		{show, []api.Message{text("system", "a"), text("user", "u"), text("system", "b")}, // no developer: as they were sent
			`{"role": "system", "content": "a"}` + "\n" + `{"role": "user", "content": "u"}` + "\n" + `{"role": "system", "content": "b"}` + "\n"},
		{show, []api.Message{{Role: "developer", Name: ptr("n"), Content: text("", "d").Content, Tools: api.Raw(`[]`)}, text("user", "u")},
			`{"role": "system", "content": "d", "name": "n"}` + "\n" + `{"role": "user", "content": "u"}` + "\n"},
		{show, []api.Message{text("user", "u"), text("developer", "d")}, `{"role": "system", "content": "d"}` + "\n" + `{"role": "user", "content": "u"}` + "\n"},
		{show, []api.Message{text("system", "a"), text("developer", ""), text("user", "u"), parts("system", "b", "", "c"), text("developer", "d")},
			`{"role": "system", "content": "a\n\nb\nc\n\nd"}` + "\n" + `{"role": "user", "content": "u"}` + "\n"},
		{show, []api.Message{text("developer", ""), text("developer", "")}, `{"role": "system", "content": ""}` + "\n"},
	} {
		got, _, _ := strings.Cut(mustRender(t, newRenderer(t, of(c.template)), Input{Messages: c.messages}).Text, "tools=")
		if got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	// A template that wants parts gets the merged text as it is, as from vLLM.
	got := mustRender(t, newRenderer(t, of(`{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}[{{ p.text }}]{% endfor %}{% endif %}{% endfor %}`)),
		Input{Messages: []api.Message{parts("system", "a", "b"), text("user", "u"), text("developer", "d")}}).Text
	if got != "<system>a\nb\n\nd<user>[u]" {
		t.Error(got)
	}
	// The message that is to be continued is the last one that is left.
	p := mustRender(t, newRenderer(t, of(chatml)), Input{Messages: []api.Message{text("user", "u"), text("assistant", "It is"), text("developer", "d")}, ContinueFinalMessage: true})
	if p.Text != "<|system|>\nd<|end|>\n<|user|>\nu<|end|>\n<|assistant|>\nIt is" {
		t.Errorf("%q", p.Text)
	}
}

// TestK6ReasoningEffort: an effort is an argument of the template, and says besides whether
// the model is to think at all, unless the request itself says that.
func TestK6ReasoningEffort(t *testing.T) {
	cfg := of(`{{ reasoning_effort | tojson }} {{ enable_thinking is defined and enable_thinking | tojson }}{{ messages }}`)
	cfg.DefaultKwargs = api.Raw(`{"enable_thinking": true}`)
	r := newRenderer(t, cfg)
	for effort, want := range map[string]string{"none": `"none" false`, "minimal": `"minimal" true`, "low": `"low" true`, "xhigh": `"xhigh" true`, "max": `"max" true`} {
		got := mustRender(t, r, Input{Messages: []api.Message{text("user", "u")}, ReasoningEffort: &effort}).Text
		if !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", effort, got, want)
		}
	}
	effort := "none"
	got := mustRender(t, r, Input{Messages: []api.Message{text("user", "u")}, ReasoningEffort: &effort, ChatTemplateKwargs: api.Raw(`{"enable_thinking": true}`)}).Text
	if !strings.HasPrefix(got, `"none" true`) {
		t.Errorf("chat_template_kwargs: %s", got)
	}
}

// TestAbsentContent: content that is null or absent is the empty string, or the empty list
// in the openai format, never null.
func TestAbsentContent(t *testing.T) {
	src := `{{ messages[0].content is none }} {{ messages[0].content | tojson }}`
	for format, want := range map[ContentFormat]string{FormatString: `False ""`, FormatOpenAI: `False []`} {
		cfg := of(src)
		cfg.ContentFormat = format
		if got := mustRender(t, newRenderer(t, cfg), Input{Messages: []api.Message{{Role: "assistant"}}}).Text; got != want {
			t.Errorf("format %d: %s", format, got)
		}
	}
}

// TestInvalidArguments: arguments of a call that are not JSON are refused with the text of
// Python's parser. (Package api lets none pass.)
func TestInvalidArguments(t *testing.T) {
	r := newRenderer(t, of(show))
	msg := api.Message{Role: "assistant", ToolCalls: []api.ToolCall{{ID: "1", Name: "f", Arguments: api.Raw(`{bad`)}}}
	wantError(t, r, Input{Messages: []api.Message{msg}},
		"Expecting property name enclosed in double quotes: line 1 column 2 (char 1)", ErrInvalid)
	msg.ToolCalls[0].Arguments = api.Raw(`x`)
	wantError(t, r, Input{Messages: []api.Message{msg}}, "Expecting value: line 1 column 1 (char 0)", ErrInvalid)
}

// TestConversations: a request needs a message, messages of one role are not merged, and
// the error for a role that the template refuses has the template's text.
func TestConversations(t *testing.T) {
	wantError(t, newRenderer(t, of(show)), Input{}, "messages must hold at least one message.", ErrInvalid)
	r := newRenderer(t, of(chatml))
	got := mustRender(t, r, Input{Messages: []api.Message{text("user", "a"), text("user", "b")}}).Text
	if want := "<|user|>\na<|end|>\n<|user|>\nb<|end|>\n<|assistant|>\n"; got != want {
		t.Errorf("%q", got)
	}
	strict := newRenderer(t, of(`{% for m in messages %}{% if m.role not in ['user', 'assistant'] %}{{ raise_exception('Unknown role: ' + m.role) }}{% endif %}{% endfor %}`))
	wantError(t, strict, Input{Messages: []api.Message{text("zorp", "a")}}, "Unknown role: zorp", jinja.ErrRaised)
}

// TestNamedTemplates: with tools the template tool_use is chosen, otherwise the default one
// (docs/interface/chat-completions.md, section 3.4).
func TestNamedTemplates(t *testing.T) {
	r := newRenderer(t, Config{Templates: []Template{{"default", "plain"}, {"tool_use", "tools"}, {"rag", "rag"}}})
	msgs := []api.Message{text("user", "a")}
	for _, c := range []struct {
		tools api.Raw
		want  string
	}{{nil, "plain"}, {api.Raw(`null`), "plain"}, {api.Raw(`[{"type": "function"}]`), "tools"}, {api.Raw(`[]`), "tools"}} {
		if got := mustRender(t, r, Input{Messages: msgs, Tools: c.tools}).Text; got != c.want {
			t.Errorf("tools %s: %s", c.tools, got)
		}
	}
	single := newRenderer(t, Config{Templates: []Template{{"", "only"}}})
	if got := mustRender(t, single, Input{Messages: msgs, Tools: api.Raw(`[{}]`)}).Text; got != "only" {
		t.Errorf("%s", got)
	}
	rag := newRenderer(t, Config{Templates: []Template{{"rag", "rag"}}})
	wantError(t, rag, Input{Messages: msgs}, textNoTemplate, ErrNoTemplate)
}

// TestUntrustedTemplate: without TrustRequestTemplate a template in the request is refused,
// as a field or as an argument, even an empty one (docs/interface/chat-completions.md, C58).
func TestUntrustedTemplate(t *testing.T) {
	const want = "Chat template is passed with request, but --trust-request-chat-template is not set. Refused request with untrusted chat template."
	r := newRenderer(t, of(chatml))
	msgs := []api.Message{text("user", "a")}
	for _, in := range []Input{
		{Messages: msgs, ChatTemplate: ptr("x")},
		{Messages: msgs, ChatTemplate: ptr("")},
		{Messages: msgs, ChatTemplate: ptr("{% broken")},
		{Messages: msgs, ChatTemplateKwargs: api.Raw(`{"chat_template": "x"}`)},
		{Messages: msgs, ChatTemplateKwargs: api.Raw(`{"chat_template": "auto"}`)},
		{Messages: msgs, ChatTemplateKwargs: api.Raw(`{"chat_template": 5}`)},
	} {
		wantError(t, r, in, want, ErrUntrustedTemplate)
	}
	in := Input{Messages: msgs, ChatTemplateKwargs: api.Raw(`{"chat_template": null}`)}
	if got := mustRender(t, r, in).Text; !strings.HasPrefix(got, "<|user|>") {
		t.Errorf("%q", got)
	}
}

// TestTrustedTemplate: with TrustRequestTemplate the request's template is used, the field
// before the argument. An empty one means the model's.
func TestTrustedTemplate(t *testing.T) {
	cfg := of("model")
	cfg.TrustRequestTemplate = true
	r := newRenderer(t, cfg)
	msgs := []api.Message{text("user", "a")}
	for _, c := range []struct {
		field  *string
		kwargs string
		want   string
	}{
		{ptr("field"), `{}`, "field"},
		{nil, `{"chat_template": "argument"}`, "argument"},
		{ptr("field"), `{"chat_template": "argument"}`, "field"},
		{ptr(""), `{}`, "model"},
		{nil, `{"chat_template": ""}`, "model"},
		{nil, `{}`, "model"},
	} {
		in := Input{Messages: msgs, ChatTemplate: c.field, ChatTemplateKwargs: api.Raw(c.kwargs)}
		if got := mustRender(t, r, in).Text; got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	wantError(t, r, Input{Messages: msgs, ChatTemplate: ptr("{{ x")}, "unexpected end of template, expected 'end of print statement'.", jinja.ErrSyntax)
	wantError(t, r, Input{Messages: msgs, ChatTemplateKwargs: api.Raw(`{"chat_template": 5}`)},
		"chat_template_kwargs: chat_template must be a string.", ErrInvalid)
}

// TestModelWithoutTemplate: a template in the request is accepted if the model has none. If
// neither has one, the error has the text of transformers.
func TestModelWithoutTemplate(t *testing.T) {
	r := newRenderer(t, Config{})
	msgs := []api.Message{text("user", "a")}
	if got := mustRender(t, r, Input{Messages: msgs, ChatTemplate: ptr("own {{ messages[0].content }}")}).Text; got != "own a" {
		t.Errorf("%q", got)
	}
	if got := mustRender(t, r, Input{Messages: msgs, ChatTemplateKwargs: api.Raw(`{"chat_template": "own"}`)}).Text; got != "own" {
		t.Errorf("%q", got)
	}
	const want = "As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the tokenizer does not define one."
	wantError(t, r, Input{Messages: msgs}, want, ErrNoTemplate)
	wantError(t, r, Input{Messages: msgs, ChatTemplate: ptr("")}, want, ErrNoTemplate)
}

// TestVariables: the variables of every template (docs/interface/chat-completions.md,
// section 3.5).
func TestVariables(t *testing.T) {
	tokens := jinja.NewDict(0)
	tokens.Set("bos_token", "<s>")
	tokens.Set("additional_special_tokens", jinja.NewList("<a>", "<b>"))
	cfg := of(`{{ bos_token }}{{ eos_token is defined }}{{ additional_special_tokens }} {{ tools }} {{ documents }} {{ add_generation_prompt }} ` +
		`{{ raise_exception is callable }}{{ strftime_now is callable }} {{ 'é<' | tojson }} {{ continue_final_message is defined }}`)
	cfg.SpecialTokens = tokens
	in := Input{Messages: []api.Message{text("user", "a")}}
	if got, want := mustRender(t, newRenderer(t, cfg), in).Text, `<s>False['<a>', '<b>'] None None True TrueTrue "é<" False`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestToolsAndDocuments: tools and documents keep the order of keys, and int and float stay
// what they are, so that a template prints them as in Python.
func TestToolsAndDocuments(t *testing.T) {
	in := Input{Messages: []api.Message{text("user", "a")},
		Tools:     api.Raw(`[{"type":"function","function":{"name":"f","z":1.0,"a":1,"e":1e5,"d":"é"},"extra":true}]`),
		Documents: api.Raw(`[{"title":"t","text":5}]`)}
	got := mustRender(t, newRenderer(t, of(show)), in).Text
	want := `{"role": "user", "content": "a"}` + "\n" + `tools=[{"type": "function", "function": {"name": "f", "z": 1.0, "a": 1, "e": 100000.0, "d": "é"}, "extra": true}] ` +
		`documents=[{"title": "t", "text": 5}] prompt=true`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	// The fields of a document may have any values, and a document that the template does
	// not use has no effect (docs/interface/chat-completions.md, C59).
	in.Documents = api.Raw(`[{"text":5}]`)
	if got := mustRender(t, newRenderer(t, of(chatml)), in).Text; got != "<|user|>\na<|end|>\n<|assistant|>\n" {
		t.Errorf("%q", got)
	}
}

// TestArgumentOrder: which argument overrides which, and which values count as given
// (docs/interface/chat-completions.md, section 3.5).
func TestArgumentOrder(t *testing.T) {
	src := `{{ x | default('-') }} {{ enable_thinking | default('-') }} {{ add_generation_prompt }} {{ reasoning_effort | default('-') }} {{ documents }} {{ tools }} {{ bos_token }}`
	tokens := jinja.NewDict(0)
	tokens.Set("bos_token", "<s>")
	for _, c := range []struct {
		defaults string
		in       Input
		want     string
	}{
		{`{}`, Input{}, "- - True - None None <s>"},
		{`{"x": 1, "reasoning_effort": "low"}`, Input{}, "1 - True low None None <s>"},
		{`{"x": 1}`, Input{ChatTemplateKwargs: api.Raw(`{"x": 2}`)}, "2 - True - None None <s>"},
		// null and "auto" in the request's arguments leave the default.
		{`{"x": 1}`, Input{ChatTemplateKwargs: api.Raw(`{"x": null, "enable_thinking": "auto"}`)}, "1 - True - None None <s>"},
		{`{}`, Input{ChatTemplateKwargs: api.Raw(`{"enable_thinking": false}`)}, "- False True - None None <s>"},
		// The top-level default true overrides the argument.
		{`{}`, Input{ChatTemplateKwargs: api.Raw(`{"add_generation_prompt": false}`)}, "- - True - None None <s>"},
		{`{"add_generation_prompt": false}`, Input{}, "- - True - None None <s>"},
		{`{}`, Input{AddGenerationPrompt: ptr(false), ChatTemplateKwargs: api.Raw(`{"add_generation_prompt": true}`)}, "- - False - None None <s>"},
		{`{}`, Input{ReasoningEffort: ptr("high"), ChatTemplateKwargs: api.Raw(`{"reasoning_effort": "low"}`)}, "- True True high None None <s>"},
		{`{}`, Input{ReasoningEffort: ptr("auto"), ChatTemplateKwargs: api.Raw(`{"reasoning_effort": "low"}`)}, "- True True low None None <s>"},
		{`{}`, Input{Documents: api.Raw(`[1]`), ChatTemplateKwargs: api.Raw(`{"documents": [2], "tools": [3]}`)}, "- - True - [1] [3] <s>"},
		{`{}`, Input{Documents: api.Raw(`null`), ChatTemplateKwargs: api.Raw(`{"documents": [2]}`)}, "- - True - [2] None <s>"},
		{`{"tools": [1]}`, Input{Tools: api.Raw(`[2]`)}, "- - True - None [2] <s>"},
		{`{}`, Input{Tools: api.Raw(`[2]`), ChatTemplateKwargs: api.Raw(`{"tools": [3]}`)}, "- - True - None [3] <s>"},
		{`{}`, Input{ChatTemplateKwargs: api.Raw(`{"bos_token": "<x>"}`)}, "- - True - None None <x>"},
		{`{}`, Input{ChatTemplateKwargs: api.Raw(`null`)}, "- - True - None None <s>"},
	} {
		cfg := of(src)
		cfg.SpecialTokens, cfg.DefaultKwargs = tokens, api.Raw(c.defaults)
		c.in.Messages = []api.Message{text("user", "a")}
		if got := mustRender(t, newRenderer(t, cfg), c.in).Text; got != c.want {
			t.Errorf("defaults %s, %+v:\ngot  %s\nwant %s", c.defaults, c.in, got, c.want)
		}
	}
}

// TestUnknownArguments: an argument that the template does not read is dropped, and so are
// those that transformers uses itself (padding, ...). messages cannot be replaced.
func TestUnknownArguments(t *testing.T) {
	src := `{% macro m() %}{{ kwargs }}{% endmacro %}{{ m() }}{{ padding is defined }}{{ continue_final_message is defined }}{{ known }}`
	r := newRenderer(t, of(src))
	in := Input{Messages: []api.Message{text("user", "a")},
		ChatTemplateKwargs: api.Raw(`{"unknown": 1, "known": 2, "padding": true, "continue_final_message": true, "range": 5}`)}
	if got := mustRender(t, r, in).Text; got != "{}FalseFalse2" {
		t.Errorf("%s", got)
	}
	// A function of the environment is not replaced either.
	if got := mustRender(t, newRenderer(t, of(`{{ range(2) | list }}`)), in).Text; got != "[0, 1]" {
		t.Errorf("%s", got)
	}
	in.ChatTemplateKwargs = api.Raw(`{"messages": []}`)
	wantError(t, r, in, "chat_template_kwargs must not hold messages.", ErrInvalid)
	in.ChatTemplateKwargs = api.Raw(`[1]`)
	wantError(t, r, in, "chat_template_kwargs: must be an object", ErrInvalid)
	in.ChatTemplateKwargs = api.Raw(`{`)
	wantError(t, r, in, "chat_template_kwargs: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)", ErrInvalid)
}

// TestExceptions: the error for an exception while rendering has the text of the exception.
func TestExceptions(t *testing.T) {
	msgs := []api.Message{text("user", "a")}
	wantError(t, newRenderer(t, of(`{{ messages.x.y }}`)), Input{Messages: msgs}, "'list object' has no attribute 'x'", jinja.ErrRender)
	wantError(t, newRenderer(t, of(`{{ messages[0].content + none }}`)), Input{Messages: msgs}, `can only concatenate str (not "NoneType") to str`, jinja.ErrRender)
	wantError(t, newRenderer(t, of(`{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`)), Input{Messages: msgs}, "maximum recursion depth exceeded", jinja.ErrLimit)
	cfg := of(`{% for i in range(1000) %}{% endfor %}`)
	cfg.Limits.Steps = 100
	wantError(t, newRenderer(t, cfg), Input{Messages: msgs}, "chat template exceeded its limit of steps", jinja.ErrLimit)
}

// TestContentFormat: detection of the content format, and the two formats
// (docs/interface/chat-completions.md, section 3.6).
func TestContentFormat(t *testing.T) {
	msgs := []api.Message{text("system", "s"), parts("user", "a", "", "b"), {Role: "assistant"}, parts("user")}
	const inParts = "<system>[text:s]<user>[text:a][text:][text:b]<assistant><user>"
	const asText = "<|system|>\ns<|end|>\n<|user|>\na\nb<|end|>\n<|assistant|>\n<|end|>\n<|user|>\n<|end|>\n"
	for _, c := range []struct {
		src    string
		format ContentFormat
		want   string
	}{
		{parted, FormatAuto, inParts},
		{parted, FormatOpenAI, inParts},
		{chatml, FormatAuto, asText},
		{chatml, FormatString, asText},
		{`{% for m in messages %}{{ m.content | tojson }}{% endfor %}`, FormatOpenAI,
			`[{"type": "text", "text": "s"}][{"type": "text", "text": "a"}, {"type": "text", "text": ""}, {"type": "text", "text": "b"}][][]`},
		{`{% for m in messages %}{% for c in m.content %}{{ c }}{% endfor %}|{% endfor %}`, FormatString, "s|a\nb|||"},
	} {
		cfg := of(c.src)
		cfg.ContentFormat = c.format
		if got := mustRender(t, newRenderer(t, cfg), Input{Messages: msgs, AddGenerationPrompt: ptr(false)}).Text; got != c.want {
			t.Errorf("format %d: got %q\nwant %q", c.format, got, c.want)
		}
	}
}

// TestFormatOfTheChosenTemplate: the format is detected for the template that is used.
func TestFormatOfTheChosenTemplate(t *testing.T) {
	r := newRenderer(t, Config{Templates: []Template{{"default", chatml}, {"tool_use", parted}}, TrustRequestTemplate: true})
	msgs := []api.Message{parts("user", "a", "b")}
	if got := mustRender(t, r, Input{Messages: msgs, Tools: api.Raw(`[{}]`)}).Text; got != "<user>[text:a][text:b]" {
		t.Errorf("%q", got)
	}
	if got := mustRender(t, r, Input{Messages: msgs, ChatTemplate: ptr(parted)}).Text; got != "<user>[text:a][text:b]" {
		t.Errorf("%q", got)
	}
	if got := mustRender(t, r, Input{Messages: msgs}).Text; got != "<|user|>\na\nb<|end|>\n<|assistant|>\n" {
		t.Errorf("%q", got)
	}
}

// TestNew: errors of a wrong configuration.
func TestNew(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{of("{% if %}"), "chat: template \"default\": jinja: line 1: TemplateSyntaxError: Expected an expression, got 'end of statement block'"},
		{Config{Templates: []Template{{"", "a"}, {"default", "b"}}}, `chat: two templates are named "default"`},
		{Config{DefaultKwargs: api.Raw(`[]`)}, "chat: default chat template kwargs: must be an object"},
		{Config{DefaultKwargs: api.Raw(`{`)}, "chat: default chat template kwargs: jinja: invalid JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"},
		{Config{DefaultKwargs: api.Raw(`{"chat_template": "x"}`)}, "chat: default chat template kwargs must not hold chat_template"},
		{Config{DefaultKwargs: api.Raw(`{"messages": []}`)}, "chat: default chat template kwargs must not hold messages"},
		{Config{ContentFormat: 9}, "chat: unknown content format 9"},
	} {
		if _, err := New(c.cfg); err == nil || err.Error() != c.want {
			t.Errorf("error %v\nwant  %s", err, c.want)
		}
	}
	if _, err := New(of("{% if %}")); !errors.Is(err, jinja.ErrSyntax) {
		t.Errorf("error %v", err)
	}
}

func TestParseContentFormat(t *testing.T) {
	for s, want := range map[string]ContentFormat{"auto": FormatAuto, "string": FormatString, "openai": FormatOpenAI} {
		if got, err := ParseContentFormat(s); err != nil || got != want {
			t.Errorf("%s: %d, %v", s, got, err)
		}
	}
	if _, err := ParseContentFormat("text"); err == nil {
		t.Error("no error")
	}
}

// TestConcurrent shares a renderer and its cache between goroutines, for the race detector.
func TestConcurrent(t *testing.T) {
	cfg := of(chatml)
	cfg.TrustRequestTemplate = true
	cfg.DefaultKwargs = api.Raw(`{"x": [1, 2]}`)
	r := newRenderer(t, cfg)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				own := fmt.Sprintf("%d {{ messages[0].content }}{{ x }}", j%40)
				in := Input{Messages: []api.Message{text("user", "a"), text("assistant", "b")}}
				if i%2 == 0 {
					in.ChatTemplate = &own
				}
				p, err := r.Render(in)
				want := fmt.Sprintf("%d a[1, 2]", j%40)
				if i%2 == 1 {
					want = "<|user|>\na<|end|>\n<|assistant|>\nb<|end|>\n<|assistant|>\n"
				}
				if err != nil || p.Text != want {
					t.Errorf("%q, %v", p.Text, err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkRender(b *testing.B) {
	r := newRenderer(b, of(chatml))
	in := Input{Messages: []api.Message{text("system", "Be nice."), text("user", "Hi"), text("assistant", "Hello!"), text("user", "And now?")}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.Render(in); err != nil {
			b.Fatal(err)
		}
	}
}
