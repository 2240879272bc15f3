package chat

import (
	"strings"
	"testing"

	"weir/api"
)

// TestGenerationPrompt: what add_generation_prompt and continue_final_message mean together
// (docs/interface/chat-completions.md, section 3.7 and C55).
func TestGenerationPrompt(t *testing.T) {
	r := newRenderer(t, of(chatml))
	msgs := []api.Message{text("user", "a"), text("assistant", "b")}
	const closed, open, prompt = "<|user|>\na<|end|>\n<|assistant|>\nb<|end|>\n", "<|user|>\na<|end|>\n<|assistant|>\nb", "<|assistant|>\n"
	for _, c := range []struct {
		add      *bool
		cont     bool
		want     string
		role     string
		echoable string
	}{
		{nil, false, closed + prompt, "assistant", "b"},
		{ptr(true), false, closed + prompt, "assistant", "b"},
		{ptr(false), false, closed, "assistant", "b"},
		{ptr(false), true, open, "assistant", "b"},
		{nil, true, open, "assistant", "b"}, // an absent field counts as false
	} {
		p := mustRender(t, r, Input{Messages: msgs, AddGenerationPrompt: c.add, ContinueFinalMessage: c.cont})
		if p.Text != c.want || p.ResponseRole != c.role || p.EchoText != c.echoable {
			t.Errorf("%v %v: %+v", c.add, c.cont, p)
		}
	}
	wantError(t, r, Input{Messages: msgs, AddGenerationPrompt: ptr(true), ContinueFinalMessage: true},
		"Cannot set both `continue_final_message` and `add_generation_prompt` to True.", ErrInvalid)
}

// TestResponseRole: the response role is the configured one if there is a generation
// prompt, otherwise that of the last message.
func TestResponseRole(t *testing.T) {
	cfg := of(chatml)
	cfg.ResponseRole = "bot"
	r := newRenderer(t, cfg)
	for _, c := range []struct {
		last string
		add  bool
		cont bool
		want string
	}{{"user", true, false, "bot"}, {"user", false, false, "user"}, {"user", false, true, "user"}, {"bot", true, false, "bot"}} {
		p := mustRender(t, r, Input{Messages: []api.Message{text(c.last, "x")}, AddGenerationPrompt: &c.add, ContinueFinalMessage: c.cont})
		if p.ResponseRole != c.want {
			t.Errorf("%+v: %s", c, p.ResponseRole)
		}
	}
}

// TestPrefill: where the text is cut if the last message is continued.
func TestPrefill(t *testing.T) {
	const (
		head = "<|user|>\nq<|end|>\n<|assistant|>\n"
		// spaced trims and writes a space of its own before the closing.
		spaced = `{% for m in messages %}<|{{ m.role }}|> {{ m.content | trim }} <|end|>{% endfor %}`
		// twice writes every message two times.
		twice = `{% for m in messages %}{{ m.content }}|{{ m.content }};{% endfor %}`
		// quoted writes content as JSON.
		quoted = `{% for m in messages %}{{ m.content | tojson }},{% endfor %}`
	)
	for _, c := range []struct {
		name, src, content, want string
	}{
		{"kept as it is", chatml, "The answer is", head + "The answer is"},
		{"white space at the end is kept", chatml, "The answer is \n", head + "The answer is \n"},
		{"white space at the start is kept", chatml, " x", head + " x"},
		{"empty", chatml, "", head},
		{"white space alone", chatml, " \n", head + " \n"},
		{"the template's own words", chatml, "<|end|>", head + "<|end|>"},
		{"the same as the question", chatml, "q", head + "q"},
		{"the mark itself", chatml, prefillMark, head + prefillMark},
		{"a longer mark", chatml, prefillMark + "_X", head + prefillMark + "_X"},
		{"the start of the mark at the end", chatml, "CONTINUE_FINAL_", head + "CONTINUE_FINAL_"},
		{"the mark with its tail", chatml, prefillMark + prefillTail, head + prefillMark + prefillTail},

		{"trimmed: nothing to trim", trimming, "x", head + "x"},
		{"trimmed at the end", trimming, "x \n ", head + "x"},
		{"trimmed at the start", trimming, "\n x", head + "x"},
		{"trimmed on both sides", trimming, " x y ", head + "x y"},
		{"trimmed: empty", trimming, "", head},
		{"trimmed: white space alone", trimming, " \n", head},

		{"trimmed with a space before the closing", spaced, "x ", "<|user|> q <|end|><|assistant|> x"},
		{"written twice: the last one counts", twice, "x", "q|q;x|x"},
		{"as JSON", quoted, "x", `"q","x`},
	} {
		p, err := newRenderer(t, of(c.src)).Render(Input{
			Messages: []api.Message{text("user", "q"), text("assistant", c.content)}, ContinueFinalMessage: true})
		if err != nil || p.Text != c.want {
			t.Errorf("%s: got %q, %v\nwant %q", c.name, p.Text, err, c.want)
		}
	}
}

// TestPrefillThatDoesNotAppear: templates that leave out or rewrite the final message.
func TestPrefillThatDoesNotAppear(t *testing.T) {
	const want = "continue_final_message is set but the final message does not appear in the chat after applying the chat template! " +
		"This can happen if the chat template deletes portions of the final message. Please verify the chat template and final message " +
		"in your chat to ensure they are compatible."
	for _, src := range []string{
		`{% for m in messages[:-1] %}{{ m.content }}{% endfor %}`,
		`{% for m in messages %}{{ m.content.split('</think>')[-1] }}{% endfor %}`,
		`{% for m in messages %}{{ m.content | lower }}{% endfor %}`,
		`{% for m in messages %}{{ m.content[:5] }}{% endfor %}`,
	} {
		in := Input{Messages: []api.Message{text("user", "q"), text("assistant", "<think>Hm</think>A long answer")}, ContinueFinalMessage: true}
		wantError(t, newRenderer(t, of(src)), in, want, ErrContinue)
	}
}

// TestPrefillOfParts: the last part of a list is continued. Without any text there is
// nothing to continue.
func TestPrefillOfParts(t *testing.T) {
	r := newRenderer(t, of(parted))
	in := Input{Messages: []api.Message{text("user", "q"), parts("assistant", "a", "b ")}, ContinueFinalMessage: true}
	if got := mustRender(t, r, in).Text; got != "<user>[text:q]<assistant>[text:a][text:b " {
		t.Errorf("%q", got)
	}
	in.Messages[1] = text("assistant", "a")
	if got := mustRender(t, r, in).Text; got != "<user>[text:q]<assistant>[text:a" {
		t.Errorf("%q", got)
	}
	in.Messages[1] = api.Message{Role: "assistant"}
	wantError(t, r, in, "continue_final_message is set but we could not find any text to continue in the final message!", ErrContinue)

	// In the string format the parts are one text.
	r = newRenderer(t, of(chatml))
	in.Messages[1] = parts("assistant", "a", "b")
	if got := mustRender(t, r, in).Text; !strings.HasSuffix(got, "<|assistant|>\na\nb") {
		t.Errorf("%q", got)
	}
	in.Messages[1] = api.Message{Role: "assistant"}
	if got := mustRender(t, r, in).Text; !strings.HasSuffix(got, "<|assistant|>\n") {
		t.Errorf("%q", got)
	}
}

// TestPrefillKeepsTheOtherFields: an assistant message with tool calls and thoughts can be
// continued as well.
func TestPrefillKeepsTheOtherFields(t *testing.T) {
	r := newRenderer(t, of(`{% for m in messages %}{{ m.tool_calls | length if m.tool_calls }}{{ m.reasoning }}:{{ m.content }};{% endfor %}`))
	msg := text("assistant", "b")
	msg.Reasoning, msg.ToolCalls = ptr("hm"), []api.ToolCall{{ID: "1", Name: "f"}}
	if got := mustRender(t, r, Input{Messages: []api.Message{msg}, ContinueFinalMessage: true}).Text; got != "1hm:b" {
		t.Errorf("%q", got)
	}
}

// TestEcho: what echo puts in front of the answer (docs/interface/chat-completions.md,
// section 3.8).
func TestEcho(t *testing.T) {
	for _, c := range []struct {
		src  string
		last api.Message
		add  bool
		want string
	}{
		{chatml, text("user", "q"), true, ""},
		{chatml, text("user", "q"), false, "q"},
		{chatml, text("assistant", "a"), true, "a"},
		{chatml, text("assistant", "a"), false, "a"},
		{chatml, parts("assistant", "a", "b"), false, "a\nb"},
		{parted, parts("assistant", "a", "b"), false, "a\nb"},
		{chatml, api.Message{Role: "assistant"}, false, ""},
		{parted, api.Message{Role: "assistant"}, false, ""},
	} {
		p := mustRender(t, newRenderer(t, of(c.src)), Input{Messages: []api.Message{c.last}, AddGenerationPrompt: &c.add})
		if p.EchoText != c.want {
			t.Errorf("%+v: %q", c.last, p.EchoText)
		}
	}
}
