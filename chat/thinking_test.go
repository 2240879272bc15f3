package chat

import (
	"testing"

	"weir/api"
	"weir/chat/reasoning"
)

// thinker is a template that writes the thoughts of earlier messages, opens the block if
// the argument opens is true, and closes it if thinking is off.
const thinker = `{% for m in messages %}<|{{ m.role }}|>
{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}<|end|>
{% endfor %}{% if add_generation_prompt %}<|assistant|>
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% elif opens %}<think>
{% endif %}{% endif %}`

// silent never closes the block itself.
const silent = `{% for m in messages %}<|{{ m.role }}|>{{ m.content.split('</think>')[-1] }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}`

func thought(content, reasoning string) api.Message {
	m := text("assistant", content)
	m.Reasoning = &reasoning
	return m
}

// TestOutputBegins: what the output begins with (docs/interface/chat-completions.md,
// section 9.1).
func TestOutputBegins(t *testing.T) {
	user, off, opens := text("user", "Is <think> a tag?"), api.Raw(`{"enable_thinking":false}`), api.Raw(`{"opens":true}`)
	history := []api.Message{user, thought("Yes.", "hm"), text("user", "</think>")}
	for _, c := range []struct {
		rule         string
		template     string
		messages     []api.Message
		kwargs       api.Raw
		auto, r1, q3 reasoning.Start
	}{
		{"a template without tags", chatml, history, nil, reasoning.Content, reasoning.Thought, reasoning.Thought},
		{"the prompt leaves it open to the model", thinker, history, nil, reasoning.Either, reasoning.Thought, reasoning.Thought},
		{"the prompt opens the block", thinker, history, opens, reasoning.Thought, reasoning.Thought, reasoning.Thought},
		{"the prompt closes the block", thinker, history, off, reasoning.Content, reasoning.Content, reasoning.Content},
		{"thinking is off, the prompt says nothing", silent, history, off, reasoning.Either, reasoning.Thought, reasoning.Content},
		{"tags in what a user wrote", silent, []api.Message{user}, nil, reasoning.Either, reasoning.Thought, reasoning.Thought},
	} {
		for kind, want := range map[reasoning.Kind]reasoning.Start{
			reasoning.Auto: c.auto, reasoning.DeepSeekR1: c.r1, reasoning.Qwen3: c.q3, reasoning.None: reasoning.Content,
		} {
			cfg := of(c.template)
			cfg.Reasoning = kind
			p := mustRender(t, newRenderer(t, cfg), Input{Messages: c.messages, ChatTemplateKwargs: c.kwargs})
			if p.Output != want {
				t.Errorf("%s: kind %d: %d, want %d after %q", c.rule, kind, p.Output, want, p.Text)
			}
		}
	}
	// The server's default counts like the request's.
	cfg := of(silent)
	cfg.Reasoning, cfg.DefaultKwargs = reasoning.Qwen3, off
	r := newRenderer(t, cfg)
	if p := mustRender(t, r, Input{Messages: history}); p.Output != reasoning.Content {
		t.Errorf("off by default: %d", p.Output)
	}
	if p := mustRender(t, r, Input{Messages: history, ChatTemplateKwargs: api.Raw(`{"enable_thinking":true}`)}); p.Output != reasoning.Thought {
		t.Errorf("on by request: %d", p.Output)
	}
	// The template of the request counts, not the model's.
	cfg = of(thinker)
	cfg.TrustRequestTemplate = true
	if p := mustRender(t, newRenderer(t, cfg), Input{Messages: history, ChatTemplate: ptr(chatml)}); p.Output != reasoning.Content {
		t.Errorf("a template without tags in the request: %d", p.Output)
	}
}

// TestContinuedThoughts: the last tag of an answer that is continued decides how it goes
// on, whatever tags earlier messages have. The echo is split by the same rule.
func TestContinuedThoughts(t *testing.T) {
	user := text("user", "Is <think> a tag?")
	for _, c := range []struct {
		rule     string
		messages []api.Message
		kind     reasoning.Kind
		output   reasoning.Start
		thought  string
		echo     string
	}{
		{"in the block", []api.Message{user, text("assistant", "<think>I th")}, reasoning.Auto, reasoning.Thought, "I th", ""},
		{"after the block", []api.Message{user, text("assistant", "<think>I think</think>It i")}, reasoning.Auto, reasoning.Content, "I think", "It i"},
		{"after the end tag alone", []api.Message{user, text("assistant", "I think</think>It i")}, reasoning.Auto, reasoning.Content, "I think", "It i"},
		{"after the template's block", []api.Message{user, thought("It i", "I think")}, reasoning.Auto, reasoning.Content, "", "It i"},
		{"an answer without thoughts", []api.Message{user, text("assistant", "It i")}, reasoning.Auto, reasoning.Content, "", "It i"},
		{"of a model that always thinks", []api.Message{user, text("assistant", "It i")}, reasoning.DeepSeekR1, reasoning.Content, "", "It i"},
		{"nothing yet", []api.Message{user, text("assistant", "")}, reasoning.DeepSeekR1, reasoning.Thought, "", ""},
		{"nothing yet, auto", []api.Message{user, text("assistant", "")}, reasoning.Auto, reasoning.Either, "", ""},
		{"the first message", []api.Message{text("assistant", "<think>I th")}, reasoning.Auto, reasoning.Thought, "I th", ""},
		{"the parser is off", []api.Message{user, text("assistant", "<think>I th")}, reasoning.None, reasoning.Content, "", "<think>I th"},
	} {
		cfg := of(thinker)
		cfg.Reasoning = c.kind
		p := mustRender(t, newRenderer(t, cfg), Input{Messages: c.messages, ContinueFinalMessage: true})
		if p.Output != c.output || p.EchoThought != c.thought || p.EchoText != c.echo {
			t.Errorf("%s: %+v", c.rule, p)
		}
	}
	// With a generation prompt the last message has ended and is only echoed.
	p := mustRender(t, newRenderer(t, of(thinker)), Input{Messages: []api.Message{user, text("assistant", "Yes.")}, ChatTemplateKwargs: api.Raw(`{"opens":true}`)})
	if p.Output != reasoning.Thought || p.EchoText != "Yes." || p.EchoThought != "" {
		t.Errorf("%+v", p)
	}
	// This template opens the block before the message.
	opener := of(`{% for m in messages %}{{ m.role }}: {% if m.role == 'assistant' %}<think>{% endif %}{{ m.content }}{% if 0 %}</think>{% endif %};{% endfor %}`)
	p = mustRender(t, newRenderer(t, opener), Input{Messages: []api.Message{user, text("assistant", "I th")}, ContinueFinalMessage: true})
	if p.Output != reasoning.Thought || p.EchoText != "" || p.EchoThought != "I th" {
		t.Errorf("%+v", p)
	}
	// This template fails if it gets only the messages before the last one.
	strict := of(`{% if messages[-1].role == 'user' and not add_generation_prompt %}{{ raise_exception('no') }}{% endif %}{% for m in messages %}{{ m.content }}{% endfor %}{# </think> #}`)
	p = mustRender(t, newRenderer(t, strict), Input{Messages: []api.Message{text("user", "Hi"), text("assistant", "<think>I th")}, ContinueFinalMessage: true})
	if p.Output != reasoning.Thought || p.EchoThought != "I th" {
		t.Errorf("%+v", p)
	}
}

// TestThinkSuffix (docs/interface/chat-completions.md, section 9.1, R-12): tags with the suffix of the vocabulary are the marks, by
// name and by a template that puts the suffix in itself; and only then.
func TestThinkSuffix(t *testing.T) {
	const hunyuan = `{%- set s = ':opensource' %}{%- set end = '</think{}>'.format(s) %}{% for m in messages %}<｜hy_User｜>{{ m.content }}{% endfor %}` +
		`<｜hy_Assistant｜>{{ '<think{}>'.format(s) }}{% if not enable_thinking %}{{ end }}{% endif %}`
	history := []api.Message{text("user", "Hi")}
	parse := func(name string) reasoning.Kind {
		kind, err := reasoning.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		return kind
	}
	for _, name := range []string{"auto", "hy_v3", "hy_v4", "qwen3"} {
		cfg := of(hunyuan)
		cfg.Reasoning, cfg.ThinkSuffix = parse(name), ":opensource"
		r := newRenderer(t, cfg)
		if !r.Divides() || r.Marks().Opening() != "<think:opensource>" || r.Marks().Closing() != "</think:opensource>" {
			t.Errorf("%s: divides %v by %s %s", name, r.Divides(), r.Marks().Opening(), r.Marks().Closing())
		}
		for kwargs, want := range map[string]reasoning.Start{`{"enable_thinking":true}`: reasoning.Thought, `{"enable_thinking":false}`: reasoning.Content} {
			p := mustRender(t, r, Input{Messages: history, ChatTemplateKwargs: api.Raw(kwargs)})
			if !p.Divided || p.Output != want || p.Marks != r.Marks() {
				t.Errorf("%s, %s: divided %v, output %d after %q", name, kwargs, p.Divided, p.Output, p.Text)
			}
		}
	}
	cfg := of(hunyuan)
	if r := newRenderer(t, cfg); r.Divides() {
		t.Error("a template without tags divides")
	}
	cfg = of(`{{ messages[0].content }}`)
	cfg.ThinkSuffix = ":opensource"
	if r := newRenderer(t, cfg); r.Divides() {
		t.Error("a template that never thinks divides")
	}
	cfg.Reasoning = parse("mistral")
	if r := newRenderer(t, cfg); r.Marks() != reasoning.Brackets {
		t.Error("other marks have a suffix")
	}
}
