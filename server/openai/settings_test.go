package openai_test

import (
	"strings"
	"testing"

	"weir/server/openai"
	"weir/server/servertest"
)

// TestPromptDetails: NoPromptDetails leaves the cached tokens out of the usage, of whole
// answers and of streams.
func TestPromptDetails(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.NoPromptDetails = true })
	_, whole := h.Chat(nil)
	if !strings.Contains(whole, `"prompt_tokens_details":null`) {
		t.Errorf("whole: %s", whole)
	}
	_, stream := h.Chat(map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true}})
	if strings.Contains(stream, "prompt_tokens_details") || !strings.Contains(stream, `"prompt_tokens":`) {
		t.Errorf("stream: %s", stream)
	}
}

// TestToolSettings: ExcludeTools hides tools from the template if the choice is "none", not if
// it is absent.
func TestToolSettings(t *testing.T) {
	t.Parallel()
	prompt := func(tools openai.Tools, choice any) int {
		h := newServer(t, func(s *servertest.Setup) { s.Config.Tools = tools })
		fields := map[string]any{"tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "lookup"}}}}
		if choice != nil {
			fields["tool_choice"] = choice
		}
		status, answer := h.Chat(fields)
		if status == 400 {
			return -1
		}
		return servertest.CompletionOf(t, answer).Usage.Prompt
	}
	with := prompt(openai.Tools{}, nil)
	for _, c := range []struct {
		tools  openai.Tools
		choice any
		shown  bool
		status int
	}{
		{openai.Tools{}, "none", true, 200},
		{openai.Tools{}, "auto", true, 200},
		{openai.Tools{}, "any", true, 400},
		{openai.Tools{ExcludeTools: true}, "none", false, 200},
		{openai.Tools{ExcludeTools: true}, nil, true, 200},
	} {
		n := prompt(c.tools, c.choice)
		if (n < 0) != (c.status == 400) || n >= 0 && (n == with) != c.shown {
			t.Errorf("%+v, tool_choice %v: %d tokens of prompt; %d with tools", c.tools, c.choice, n, with)
		}
	}
}

// TestSeedSetting: with Config.Seed, the same requests in the same order have the same
// answers, and different ones among each other; a request's own seed still counts.
func TestSeedSetting(t *testing.T) {
	t.Parallel()
	answers := func(seed uint64) (texts []string) {
		h := newServer(t, func(s *servertest.Setup) { s.Config.Seed = &seed })
		for range 3 {
			texts = append(texts, *h.Complete(t, map[string]any{"temperature": 1, "max_tokens": 12, "ignore_eos": true}).Choices[0].Message.Content)
		}
		return append(texts, *h.Complete(t, map[string]any{"temperature": 1, "max_tokens": 12, "ignore_eos": true, "seed": 7}).Choices[0].Message.Content)
	}
	a, b, c := answers(1), answers(1), answers(2)
	if strings.Join(a, "|") != strings.Join(b, "|") {
		t.Errorf("the same seed: %q and %q", a, b)
	}
	if a[0] == a[1] || a[1] == a[2] || a[0] == c[0] || a[1] == c[0] {
		t.Errorf("different requests have the same answer: %q, %q", a, c)
	}
	if a[3] != c[3] {
		t.Errorf("the request's own seed: %q and %q", a[3], c[3])
	}
}

// TestConstrainedSettings: NoWhitespace makes constrained JSON compact although no request
// says so, and with InThoughts the output begins with the constraint.
func TestConstrainedSettings(t *testing.T) {
	t.Parallel()
	schema := map[string]any{"temperature": 1, "max_tokens": 60, "structured_outputs": map[string]any{"json": map[string]any{"type": "object",
		"properties": map[string]any{"a": map[string]any{"type": "boolean"}}, "required": []any{"a"}}}}
	spaced := 0
	for _, compact := range []bool{false, true} {
		h := newServer(t, func(s *servertest.Setup) { s.Config.NoWhitespace = compact })
		for seed := range 20 {
			schema["seed"] = seed
			if strings.ContainsAny(*h.Complete(t, schema).Choices[0].Message.Content, " \n\t") {
				if spaced++; compact {
					t.Error("an answer has white space")
				}
			}
		}
	}
	if spaced == 0 {
		t.Error("no answer has white space without the setting: the test shows nothing")
	}
}

// TestOneOfAny: with OneOfAny a oneOf that cannot be kept exactly is read as anyOf.
func TestOneOfAny(t *testing.T) {
	t.Parallel()
	fields := map[string]any{"max_tokens": 60, "structured_outputs": map[string]any{"json": `{"type":"array","items":{"enum":[1,2]},"oneOf":[{"uniqueItems":true},{"maxItems":4}]}`}}
	for _, relaxed := range []bool{false, true} {
		h := newServer(t, func(s *servertest.Setup) { s.Config.OneOfAny = relaxed })
		status, answer := h.Chat(fields)
		if relaxed {
			if status != 200 {
				t.Errorf("%d %s", status, answer)
			}
			continue
		}
		if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "uniqueItems cannot be negated") {
			t.Errorf("%s", answer)
		}
	}
}

// TestConstraintInThoughts: with InThoughts the output of a model that thinks first begins
// with the constraint.
func TestConstraintInThoughts(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.InThoughts = true })
	for seed := range 6 {
		m := h.Complete(t, with(structured("choice", []string{"yes", "no"}), "seed", seed, "temperature", 1,
			"chat_template_kwargs", map[string]any{"enable_thinking": true})).Choices[0].Message
		said := ""
		for _, part := range []*string{m.Reasoning, m.Content} {
			if part != nil {
				said += *part
			}
		}
		if said != "yes" && said != "no" {
			t.Errorf("seed %d: %q", seed, said)
		}
	}
}
