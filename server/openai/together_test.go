package openai_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"weir/chat/reasoning"
	"weir/server/servertest"
)

// together is one combination of what a request may demand of an answer.
type together struct {
	choice any // tool_choice
	format string
	thinks bool
	given  bool // a message is continued
	n      int
}

// demands are what each constraint is, what is given of it, and what the content must match.
var demands = map[string]struct {
	fields map[string]any
	given  string
	whole  *regexp.Regexp
}{
	"nothing": {nil, "So ", regexp.MustCompile(`(?s).*`)},
	"schema": {map[string]any{"response_format": map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "x",
		"schema": json.RawMessage(`{"type":"object","properties":{"ok":{"const":true}},"required":["ok"],"additionalProperties":false}`)}}},
		`{"ok"`, regexp.MustCompile(`^\s*\{\s*"ok"\s*:\s*true\s*\}\s*$`)},
	"regex": {map[string]any{"structured_outputs": map[string]any{"regex": "(yes|yet) [0-9]"}}, "ye", regexp.MustCompile(`^(yes|yet) [0-9]$`)},
}

// TestEverythingTogether: thoughts, calls, constraints, several choices and a message that is
// continued are one grammar, so that whatever a model that draws at random writes, the answer obeys
// all of them, in every combination.
func TestEverythingTogether(t *testing.T) {
	named := map[string]any{"type": "function", "function": map[string]any{"name": "add"}}
	for _, thinks := range []bool{false, true} {
		kind := reasoning.None
		if thinks {
			kind = reasoning.DeepSeekR1
		}
		h := newServer(t, withTemplate(hermes, kind))
		for _, choice := range []any{"none", "auto", "required", named} {
			for format := range demands {
				for _, given := range []bool{false, true} {
					for n := 1; n <= 2; n++ {
						checkTogether(t, h, together{choice, format, thinks, given, n})
					}
				}
			}
		}
	}
}

func checkTogether(t *testing.T, h *testServer, c together) {
	t.Helper()
	demand := demands[c.format]
	fields := map[string]any{"tools": callTools, "tool_choice": c.choice, "n": c.n, "temperature": 1, "seed": 5, "max_tokens": 150}
	for k, v := range demand.fields {
		fields[k] = v
	}
	if c.thinks {
		fields["thinking_token_budget"] = 4
	}
	before := ""
	if c.given {
		before = demand.given
		text := before
		if c.thinks {
			text = "Hm.</think>" + before
		}
		fields["messages"] = append(servertest.UserSays("Hi"), map[string]any{"role": "assistant", "content": text})
		fields["continue_final_message"] = true
	}
	status, answer := h.Chat(fields)
	calls := c.choice != "none" && c.choice != "auto"
	if calls && c.given && demand.fields != nil { // no call begins with the message
		servertest.Refused(t, status, answer, 400, "")
		return
	}
	if status != 200 {
		t.Errorf("%+v: %d %s", c, status, answer)
		return
	}
	got := servertest.CompletionOf(t, answer)
	if len(got.Choices) != c.n {
		t.Errorf("%+v: %d choices", c, len(got.Choices))
	}
	for i := range got.Choices {
		m := &got.Choices[i].Message
		for _, call := range m.ToolCalls {
			checkCall(t, fmt.Sprintf("%+v", c), call.Function.Name, call.Function.Arguments, got.Choices[i].FinishReason == "length")
		}
		content := before
		if m.Content != nil {
			content += *m.Content
		}
		switch {
		case c.thinks && !c.given && (m.Reasoning == nil || *m.Reasoning == ""):
			t.Errorf("%+v: no thoughts", c)
		case calls && (len(m.ToolCalls) == 0 || m.Content != nil), c.choice == "none" && len(m.ToolCalls) > 0:
			t.Errorf("%+v: %s, %d calls", c, text(m.Content), len(m.ToolCalls))
		case len(m.ToolCalls) == 0 && got.Choices[i].FinishReason == "stop" && !demand.whole.MatchString(content):
			t.Errorf("%+v: %q", c, content)
		case c.format != "nothing" && len(m.ToolCalls) > 0 && m.Content != nil:
			t.Errorf("%+v: %q beside calls", c, *m.Content)
		}
	}
}

// checkCall checks a call of one of callTools, which cut says may have no end.
func checkCall(t *testing.T, what, name, arguments string, cut bool) {
	t.Helper()
	var args map[string]any
	err := json.Unmarshal([]byte(arguments), &args)
	if cut && err != nil {
		return
	}
	want := map[string][]string{"look_up": {"word"}, "add": {"a", "b"}}[name]
	for _, key := range want {
		if args[key] == nil {
			err = fmt.Errorf("no %s", key)
		}
	}
	if err != nil || !slices.Contains([]string{"look_up", "add"}, name) {
		t.Errorf("%s: %s(%s): %v", what, name, arguments, err)
	}
}
