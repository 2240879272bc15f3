package openai_test

import (
	"strings"
	"testing"

	"weir/api"
	"weir/server/servertest"
)

// continued adds to a constraint that the final message, of a role, is to be continued.
func continued(fields map[string]any, role, text string) map[string]any {
	return with(fields, "continue_final_message", true, "messages", []any{
		map[string]any{"role": "user", "content": "Hi"}, map[string]any{"role": role, "content": text}})
}

// With continue_final_message, the message and what the model adds to it satisfy the constraint
// together, whatever the order and the spelling of what is given (C82).
func TestC82Continued(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	const schema = `{"type":"object","properties":{"a":{"type":"integer","minimum":0,"maximum":999},"b":{"enum":["p","q"]},
		"c":{"type":"object","properties":{"x":{"type":"boolean"},"y":{"type":"boolean"}},"required":["x","y"],"additionalProperties":false}},
		"required":["a","b","c"],"additionalProperties":false}`
	valid := compileSchema(t, schema)
	for _, given := range []string{
		`{`, `{"a": 12`, `{"b"`, "{\n\n\n\n\"c\" :{\"y\": tru", `{"c":{"y":true,"x":false},"a":1e1`, `{"\u0062":"\u0070"`, `{"b":"p","c":{"y":true,"x":false},"a":7}`, "\n {",
	} {
		h.everyWay(t, continued(schemaFormat(schema), "assistant", given), func(content, finish string) {
			if err := validateText(valid, given+content); err != nil || finish != api.FinishStop {
				t.Errorf("%q and %q, finish %s: %v", given, content, finish, err)
			}
		})
	}
	a := h.Complete(t, with(continued(schemaFormat(schema), "assistant", `{"b":"q",`), "n", 3, "temperature", 1, "seed", 5, "max_tokens", 300, "echo", true))
	for _, c := range a.Choices {
		if err := validateText(valid, *c.Message.Content); err != nil || !strings.HasPrefix(*c.Message.Content, `{"b":"q",`) {
			t.Errorf("choice %d: %q: %v", c.Index, *c.Message.Content, err)
		}
	}
	for _, c := range []struct {
		fields map[string]any
		given  string
		want   []string // what may follow
	}{
		{map[string]any{"structured_outputs": map[string]any{"disable_any_whitespace": true,
			"json": `{"type":"object","properties":{"city":{"const":"Paris"},"population":{"type":"integer","minimum":0}},"required":["city"]}`}},
			`{ "population": 2.1e6, "ci`, []string{`ty":"Paris"}`}},
		{structured("choice", []string{"yes", "no", "yes and no"}), "ye", []string{"s", "s and no"}},
		{structured("choice", []string{"yes", "no"}), "no", []string{""}},
		{structured("regex", `a{3}|b`), "aa", []string{"a"}},
		{structured("grammar", `root ::= "x" ("y" | "z")`), "x", []string{"y", "z"}},
		{structured("json_object", true), `{"k": {}`, nil},
	} {
		h.everyWay(t, continued(c.fields, "assistant", c.given), func(content, finish string) {
			ok := c.want == nil
			for _, w := range c.want {
				ok = ok || content == w && finish == api.FinishStop
			}
			if !ok {
				t.Errorf("%q and %q, finish %s", c.given, content, finish)
			}
		})
	}
}

// What a request with a message that is continued holds is given back.
func TestContinuedMemory(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	const schema = `{"type":"object","properties":{"a":{"type":"integer"},"s":{"type":"string"}},"required":["a","s"],"additionalProperties":false}`
	for _, given := range []string{`{"a":1`, `{"s":"` + strings.Repeat(`\u0061`, 300), `{"s":1`} {
		h.Chat(with(continued(schemaFormat(schema), "assistant", given), "n", 2, "temperature", 1))
	}
	servertest.WaitFor(t, "the memory of the requests", func() bool { return h.Instance.Transport().Held().Memory == 0 })
	if s := h.Instance.Transport().Memory().Stats(); s.Cached == 0 {
		t.Errorf("no grammar is kept: %+v", s)
	}
}

// A message with which no valid output begins is refused, and the answer says where it goes
// wrong. Only a message of the assistant is a part of the output.
func TestC82ContinuedRefused(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	const schema = `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"boolean"}},"required":["a"],"additionalProperties":false}`
	for _, c := range []struct {
		fields      map[string]any
		given, want string
	}{
		{schemaFormat(schema), `Here it is: {"a":1`, "at byte 0 "},
		{schemaFormat(schema), `{"b":true,"a":"x"`, "at byte 14 "},
		{schemaFormat(schema), `{"b":true,"c":`, `at byte 14 of the given text: the property \"c\" is not allowed here`},
		{schemaFormat(schema), `{"b":true,"b":`, "at byte 10 "},
		{schemaFormat(schema), `{"b":1,"a":2`, `at byte 5 of the given text: the value of the property \"b\" does not satisfy the schema`},
		{structured("regex", `a{3}`), "ab", "at byte 1 "},
		{structured("choice", []string{"yes"}), "yes!", "at byte 3 "},
	} {
		for _, stream := range []bool{false, true} {
			status, answer := h.Chat(with(continued(c.fields, "assistant", c.given), "stream", stream))
			servertest.Refused(t, status, answer, 400, "")
			if !strings.Contains(answer, "continue_final_message is set but") || !strings.Contains(answer, c.want) {
				t.Errorf("%q: %s", c.given, answer)
			}
		}
		if status, answer := h.Chat(continued(c.fields, "user", c.given)); status != 200 {
			t.Errorf("%q of the user: %d %s", c.given, status, answer)
		}
	}
}

// Thoughts are no part of what the constraint holds for, given or not.
func TestContinuedThoughts(t *testing.T) {
	t.Parallel()
	constraint := func() map[string]any {
		return thinking(schemaFormat(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"],"additionalProperties":false}`))
	}
	for _, c := range []struct{ given, script, thought, content string }{
		{`<think>Hm</think>{"b":1`, `,"a":2}`, `null`, `",\"a\":2}"`},
		{"<think>Hm</think>\n\n{\"b\":1", `,"a":2}`, `null`, `",\"a\":2}"`},
		{`<think>Hm`, `m</think>{"a":2,"b":1}`, `"m"`, `"{\"a\":2,\"b\":1}"`},
		{`{"b":1`, `,"a":2}`, `null`, `",\"a\":2}"`},
	} {
		h := newReasoningServer(t, nil, c.script, c.script)
		for _, got := range h.wholeAndStreamed(t, continued(with(constraint(), "n", 2), "assistant", c.given)) {
			if shown(got.thought) != c.thought || shown(got.content) != c.content {
				t.Errorf("%q: reasoning %s, content %s", c.given, shown(got.thought), shown(got.content))
			}
		}
	}
	h := newServer(t, func(s *servertest.Setup) { s.Config.InThoughts = true })
	status, answer := h.Chat(continued(constraint(), "assistant", `<think>Hm</think>{"b":1`))
	servertest.Refused(t, status, answer, 400, "")
	if !strings.Contains(answer, "at byte 0 ") {
		t.Errorf("with the constraint in thoughts: %s", answer)
	}
}
