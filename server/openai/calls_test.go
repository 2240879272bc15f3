package openai_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"weir/chat/reasoning"
	"weir/server/servertest"
)

// callTools are the tools of these tests.
var callTools = []any{
	map[string]any{"type": "function", "function": map[string]any{"name": "look_up", "parameters": json.RawMessage(`{"type":"object","properties":{"word":{"type":"string"}},"required":["word"]}`)}},
	map[string]any{"type": "function", "function": map[string]any{"name": "add", "parameters": json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}},"required":["a","b"]}`)}},
}

// calledCall is a call in an answer.
type calledCall struct {
	Index    int
	ID, Type string
	Function struct{ Name, Arguments string }
}

// called is the choice of an answer, whole or put together from a stream.
type called struct {
	content, thought *string
	calls            []calledCall
	finish           string
	ids              []int32
	logprobs         int
}

func (c *called) String() string {
	return fmt.Sprintf("%s %s %+v %s", text(c.thought), text(c.content), c.calls, c.finish)
}

// addDelta adds a delta of a stream.
func (c *called) addDelta(t *testing.T, delta map[string]any) {
	t.Helper()
	for key, value := range delta {
		switch key {
		case "content":
			join(&c.content, value.(string))
		case "reasoning":
			join(&c.thought, value.(string))
		case "tool_calls":
			c.add(t, value)
		}
	}
}

// call sends a request whole and as a stream, compares the two, and returns what they say.
func (st *scriptedServer) call(t *testing.T, fields map[string]any) (choices []called, header http.Header) {
	t.Helper()
	all := map[string]any{"tools": callTools, "max_tokens": 200, "return_token_ids": true, "logprobs": true}
	for k, v := range fields {
		all[k] = v
	}
	status, answer, header := st.Get("POST", servertest.ChatPath, servertest.Body(t, all))
	if status != 200 {
		t.Fatalf("%d: %s", status, answer)
	}
	var whole struct {
		Choices []struct {
			Message struct {
				Content, Reasoning *string
				ToolCalls          []calledCall `json:"tool_calls"`
			}
			FinishReason string  `json:"finish_reason"`
			TokenIDs     []int32 `json:"token_ids"`
			Logprobs     *servertest.Logprobs
		}
	}
	if err := json.Unmarshal([]byte(answer), &whole); err != nil {
		t.Fatal(err)
	}
	for _, c := range whole.Choices {
		one := called{content: c.Message.Content, thought: c.Message.Reasoning, calls: c.Message.ToolCalls, finish: c.FinishReason, ids: c.TokenIDs}
		if c.Logprobs != nil {
			one.logprobs = len(c.Logprobs.Content)
		}
		choices = append(choices, one)
	}
	streamed := make([]called, len(choices))
	for _, ev := range st.Streamed(t, all) {
		c := ev.Choices[0]
		to := &streamed[c.Index]
		to.addDelta(t, c.Delta)
		if c.FinishReason != nil {
			to.finish = *c.FinishReason
		}
		to.ids = append(to.ids, c.TokenIDs...)
		if c.Logprobs != nil {
			to.logprobs += len(c.Logprobs.Content)
		}
	}
	compareCalled(t, choices, streamed)
	return choices, header
}

// compareCalled compares the choices of a whole answer with those of a stream.
func compareCalled(t *testing.T, choices, streamed []called) {
	t.Helper()
	for i := range choices {
		s, w := &streamed[i], choices[i]
		if s.content != nil && *s.content == "" && w.content == nil {
			s.content = nil // the chunk with the role has it
		}
		if fmt.Sprint(s.ids, s.logprobs) != fmt.Sprint(w.ids, w.logprobs) || len(s.ids) != s.logprobs {
			t.Errorf("choice %d: %d tokens and %d log-probabilities in a stream, %d and %d as a whole", i, len(s.ids), s.logprobs, len(w.ids), w.logprobs)
		}
		w.calls = append([]calledCall(nil), w.calls...)
		for j := range w.calls {
			w.calls[j].Index = j
			if j < len(s.calls) && (s.calls[j].ID == w.calls[j].ID || !strings.HasPrefix(s.calls[j].ID, "call_")) {
				t.Errorf("the id of call %d is %q, and %q in another answer", j, w.calls[j].ID, s.calls[j].ID)
			}
			if j < len(s.calls) {
				w.calls[j].ID = s.calls[j].ID
			}
		}
		if s.String() != w.String() {
			t.Errorf("choice %d as a stream: %s\nas a whole: %s", i, s, &w)
		}
	}
}

func join(to **string, s string) {
	if *to != nil {
		s = **to + s
	}
	*to = &s
}

// add takes in the calls of a chunk, of which the first of each call has its id, type and name.
func (c *called) add(t *testing.T, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var deltas []calledCall
	if err := json.Unmarshal(text, &deltas); err != nil {
		t.Fatal(err)
	}
	for _, d := range deltas {
		first := d.Index == len(c.calls)
		if d.Index > len(c.calls) || first != (d.ID != "") || first != (d.Type == "function") || first != (d.Function.Name != "") {
			t.Errorf("a delta of call %d after %d: %s", d.Index, len(c.calls), text)
			return
		}
		if first {
			c.calls = append(c.calls, d)
			continue
		}
		c.calls[d.Index].Function.Arguments += d.Function.Arguments
	}
}

// says checks a choice: its content, "null" for none, and its calls as name and arguments.
func (c *called) says(t *testing.T, what, finish, content string, calls ...string) {
	t.Helper()
	var got []string
	for _, call := range c.calls {
		got = append(got, call.Function.Name+call.Function.Arguments)
	}
	if fmt.Sprint(got) != fmt.Sprint(calls) || text(c.content) != content || c.finish != finish {
		t.Errorf("%s: %s %s %v, want %s %s %v", what, c.finish, text(c.content), got, finish, content, calls)
	}
}

const (
	lookUp = `<tool_call>
{"name": "look_up", "arguments": {"word": "weir"}}
</tool_call>`
	addUp = `<tool_call>
{"name": "add", "arguments": {"a": 1, "b": 2}}
</tool_call>`
)

// hermes is a template of a model that calls tools as Hermes does, and may think.
const hermes = `{{ tools }}{# <tool_call> "arguments" #}{% for m in messages %}{{ m.role }}: {{ m.content }}{% endfor %}`

// TestToolCalls (docs/interface/chat-completions.md, section 9.2): calls are taken out of the
// content, whole and in a stream, with text before and after them, and with thoughts.
func TestToolCalls(t *testing.T) {
	st := newScripted(t, withTemplate(hermes, reasoning.DeepSeekR1))
	for _, script := range []func(string) any{func(s string) any { return s }, func(s string) any { return letters(s) }} {
		output := func(s string) { st.setOutput(script("Hm</think>"+s), servertest.EndOfTurn) }
		for _, c := range []struct {
			output, finish, content string
			calls                   []string
		}{
			{lookUp, "tool_calls", "null", []string{`look_up{"word": "weir"}`}},
			{"Let me see.\n" + lookUp, "tool_calls", `"Let me see."`, []string{`look_up{"word": "weir"}`}},
			{lookUp + "\n" + addUp, "tool_calls", "null", []string{`look_up{"word": "weir"}`, `add{"a": 1, "b": 2}`}},
			{"No call.", "stop", `"No call."`, nil},
		} {
			output(c.output)
			choices, header := st.call(t, nil)
			choices[0].says(t, c.output, c.finish, c.content, c.calls...)
			if choices[0].thought == nil || *choices[0].thought != "Hm" || header.Get("X-Tools-Not-Parsed") != "" {
				t.Errorf("%s, %v", &choices[0], header)
			}
		}
	}
}

// TestToolCallCut: a call that max_tokens cuts is there as far as it was written, and the answer
// says that it was cut.
func TestToolCallCut(t *testing.T) {
	st := newScripted(t, withTemplate(hermes, reasoning.None))
	ids := st.setOutput(`<tool_call>`+"\n"+`{"name": "look_up", "arguments": {"word": "we`, servertest.EndOfTurn)
	choices, _ := st.call(t, map[string]any{"max_tokens": len(ids) - 1})
	choices[0].says(t, "cut", "length", "null", `look_up{"word": "we`)
	choices, _ = st.call(t, map[string]any{"max_tokens": 3})
	if len(choices[0].calls) != 0 || choices[0].finish != "length" || choices[0].content == nil {
		t.Errorf("cut in the head: %s", &choices[0])
	}
}

// TestToolChoices: none leaves calls in the text, a named function ends by stop.
func TestToolChoices(t *testing.T) {
	st := newScripted(t, withTemplate(hermes, reasoning.None))
	st.setOutput(lookUp, servertest.EndOfTurn)
	for _, c := range []struct {
		choice  any
		finish  string
		content string
		calls   []string
	}{
		{"none", "stop", fmt.Sprintf("%q", lookUp), nil},
		{"auto", "tool_calls", "null", []string{`look_up{"word": "weir"}`}},
		{"required", "tool_calls", "null", []string{`look_up{"word": "weir"}`}},
		{map[string]any{"type": "function", "function": map[string]any{"name": "look_up"}}, "stop", "null", []string{`look_up{"word": "weir"}`}},
	} {
		choices, _ := st.call(t, map[string]any{"tool_choice": c.choice})
		choices[0].says(t, fmt.Sprint(c.choice), c.finish, c.content, c.calls...)
	}
}

// TestToolConstraint: a model that draws at random calls a tool where it has to, with arguments
// that obey the schema, and response_format holds for the content beside.
func TestToolConstraint(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) { withTemplate(hermes, reasoning.None)(s) })
	pick := map[string]any{"type": "function", "function": map[string]any{"name": "pick", "strict": true,
		"parameters": json.RawMessage(`{"type":"object","properties":{"of":{"enum":["red","green"]}},"required":["of"]}`)}}
	yes := map[string]any{"type": "json_schema", "json_schema": map[string]any{"name": "x", "schema": json.RawMessage(`{"type":"object","properties":{"ok":{"const":true}},"required":["ok"]}`)}}
	for seed := range 12 {
		for _, c := range []struct {
			choice any
			format any
			calls  bool // there has to be one
		}{
			{"required", nil, true},
			{"required", yes, true},
			{map[string]any{"type": "function", "function": map[string]any{"name": "pick"}}, nil, true},
			{"auto", yes, false},
		} {
			got := h.Complete(t, map[string]any{"tools": []any{pick}, "tool_choice": c.choice, "response_format": c.format, "seed": seed, "temperature": 1, "max_tokens": 400, "parallel_tool_calls": false})
			ch := &got.Choices[0]
			switch {
			case len(ch.Message.ToolCalls) == 0 && c.calls, len(ch.Message.ToolCalls) > 1:
				t.Errorf("%v, seed %d: %d calls, %s", c.choice, seed, len(ch.Message.ToolCalls), text(ch.Message.Content))
			case len(ch.Message.ToolCalls) == 1:
				f := ch.Message.ToolCalls[0].Function
				var args struct{ Of string }
				if err := json.Unmarshal([]byte(f.Arguments), &args); err != nil || f.Name != "pick" || args.Of != "red" && args.Of != "green" {
					t.Errorf("%v, seed %d: %+v", c.choice, seed, f)
				}
			default:
				var content struct{ OK bool }
				if err := json.Unmarshal([]byte(*ch.Message.Content), &content); err != nil || !content.OK {
					t.Errorf("%v, seed %d: %s", c.choice, seed, *ch.Message.Content)
				}
			}
		}
	}
}

// TestToolsUnknown: where the form of calls is not known, none can be demanded, and the answer to
// a request that demands none says that none is read.
func TestToolsUnknown(t *testing.T) {
	st := newScripted(t, withTemplate(`{{ tools }}{{ messages[0].content }}`, reasoning.None))
	st.setOutput(lookUp, servertest.EndOfTurn)
	choices, header := st.call(t, nil)
	choices[0].says(t, "unknown", "stop", fmt.Sprintf("%q", lookUp))
	if !strings.Contains(header.Get("X-Tools-Not-Parsed"), "--tool-call-parser") {
		t.Error(header)
	}
	for _, choice := range []any{"required", map[string]any{"type": "function", "function": map[string]any{"name": "add"}}} {
		status, answer := st.Chat(map[string]any{"tools": callTools, "tool_choice": choice})
		servertest.Refused(t, status, answer, 400, "tool_choice")
	}
}

// TestToolsLoosened: a tool whose parameters the compiler refuses takes any object, which a
// header says, unless it is strict or has to be called. Later requests say so, too.
func TestToolsLoosened(t *testing.T) {
	h := newServer(t, func(s *servertest.Setup) {
		s.Script = [][]int32{servertest.Encode(lookUp, false)}
		withTemplate(hermes, reasoning.None)(s)
	})
	odd := func(name string, strict bool) any {
		return map[string]any{"type": "function", "function": map[string]any{"name": name, "strict": strict, "parameters": json.RawMessage(`{"type":"object","properties":{"x":{"$ref":"#/nowhere"}}}`)}}
	}
	for range 2 {
		status, answer, header := h.Get("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"tools": append(callTools[:2:2], odd("odd one", false)), "seed": servertest.ScriptSeed, "max_tokens": 100}))
		if status != 200 || header.Get("X-Tools-Loosened") != "odd+one" || !strings.Contains(answer, `"name":"look_up"`) {
			t.Errorf("%d %v %s", status, header, answer)
		}
	}
	for _, fields := range []map[string]any{
		{"tools": []any{odd("odd", true)}},
		{"tools": []any{odd("odd", false)}, "tool_choice": "required"},
	} {
		status, answer := h.Chat(fields)
		if f := servertest.Refused(t, status, answer, 400, "tools"); !strings.Contains(f.Message, `"odd"`) {
			t.Error(f.Message)
		}
	}
	// A constraint that cannot be used is refused in its own words.
	status, answer := h.Chat(map[string]any{"tools": callTools, "structured_outputs": map[string]any{"regex": "("}})
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.HasPrefix(f.Message, "Failed to transform regex") {
		t.Error(f.Message)
	}
	if _, _, header := h.Get("POST", servertest.ChatPath, servertest.Body(t, map[string]any{"tools": callTools})); header.Get("X-Tools-Loosened") != "" {
		t.Error(header)
	}
}

// TestParallelCalls: parallel_tool_calls false ends an answer after its first call.
func TestParallelCalls(t *testing.T) {
	st := newScripted(t, withTemplate(hermes, reasoning.None))
	for parallel, n := range map[bool]int{true: 2, false: 1} {
		st.setOutput(lookUp+"\n"+addUp, servertest.EndOfTurn)
		if !parallel {
			st.setOutput(lookUp, servertest.EndOfTurn)
		}
		choices, _ := st.call(t, map[string]any{"parallel_tool_calls": parallel, "tool_choice": "required"})
		if len(choices[0].calls) != n {
			t.Errorf("%v: %s", parallel, &choices[0])
		}
	}
	st.setOutput(lookUp+"\n"+addUp, servertest.EndOfTurn)
	if status, answer := st.Chat(map[string]any{"tools": callTools, "parallel_tool_calls": false, "tool_choice": "required", "max_tokens": 100}); status == 200 {
		t.Errorf("a second call was possible: %s", answer)
	}
}
