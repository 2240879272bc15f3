package responsesapi_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// loopTools are tools of the three kinds.
var loopTools = []any{
	object{"type": "function", "name": "add", "strict": true, "parameters": object{
		"type": "object", "properties": object{"a": object{"type": "integer"}, "b": object{"type": "integer"}}, "required": []any{"a", "b"}, "additionalProperties": false,
	}},
	object{"type": "namespace", "name": "team", "description": "Others.", "tools": []any{object{"type": "function", "name": "spawn", "parameters": object{"type": "object"}}}},
	object{"type": "custom", "name": "patch", "description": "Changes a file."},
}

// TestToolLoop: a loop of calls and results, with the whole conversation sent each time, and with
// previous_response_id. Both give the model the same calls, results and tools
// (docs/interface/responses-api.md, P-10, P-14, P-23, P-24 and P-30).
func TestToolLoop(t *testing.T) {
	h := newServer(t, nil,
		"I add.<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1, \"b\": 2}}\n</tool_call>\n<tool_call>\n{\"name\": \"team__spawn\", \"arguments\": {\"n\": 3}}\n</tool_call>",
		"<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"a\\nb\"}}\n</tool_call>",
		"Done.")
	fields := object{"input": "Add 1 and 2.", "tools": loopTools}
	one := ask(t, h, 0, fields)
	items := one["output"].([]any)
	if len(items) != 3 || outputText(one) != "I add." {
		t.Fatalf("%v", items)
	}
	add, spawn := items[1].(object), items[2].(object)
	if add["type"] != "function_call" || add["name"] != "add" || decoded(t, add["arguments"].(string))["b"] != 2.0 || add["call_id"] == "" || add["namespace"] != nil {
		t.Errorf("%v", add)
	}
	if spawn["name"] != "spawn" || spawn["namespace"] != "team" || spawn["call_id"] == add["call_id"] {
		t.Errorf("%v", spawn)
	}
	// The stream has the same items, but for their ids.
	events := stream(t, h, 0, fields)
	var done []any
	arguments := map[any]string{}
	for _, e := range events {
		switch e.name {
		case "response.output_item.done":
			done = append(done, e.data["item"])
		case "response.function_call_arguments.delta":
			arguments[e.data["output_index"]] += e.data["delta"].(string)
		}
	}
	last := events[len(events)-1].data["response"].(object)["output"]
	if encoded(t, done) != encoded(t, last) || len(done) != 3 {
		t.Errorf("%v\nthe response has\n%v", done, last)
	}
	if arguments[1.0] != add["arguments"] || arguments[2.0] != spawn["arguments"] {
		t.Errorf("%v", arguments)
	}

	results := []any{
		object{"type": "function_call_output", "call_id": add["call_id"], "output": "3"},
		object{"type": "function_call_output", "call_id": spawn["call_id"], "output": "started"},
	}
	resent := append([]any{object{"role": "user", "content": "Add 1 and 2."}}, items...)
	two := ask(t, h, 1, object{"input": append(resent, results...), "tools": loopTools})
	continued := ask(t, h, 1, object{"input": results, "tools": loopTools, "previous_response_id": one["id"]})
	for _, r := range []object{two, continued} {
		patch := r["output"].([]any)[0].(object)
		if patch["type"] != "custom_tool_call" || patch["input"] != "a\nb" || patch["name"] != "patch" {
			t.Errorf("%v", patch)
		}
	}
	patch := continued["output"].([]any)[0].(object)
	three := ask(t, h, 2, object{"input": []any{object{"type": "custom_tool_call_output", "call_id": patch["call_id"], "output": "ok"}}, "tools": loopTools, "previous_response_id": continued["id"]})
	if outputText(three) != "Done." {
		t.Errorf("%v", three["output"])
	}
	// Its prompt has the results behind exactly the earlier tokens.
	used := func(r object, name string) int { return int(r["usage"].(object)[name].(float64)) }
	rest := len(servertest.Encode("\n<|im_start|>tool\nok<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", false))
	if got, want := used(three, "input_tokens"), used(continued, "input_tokens")+used(continued, "output_tokens")+rest; got != want {
		t.Errorf("%d tokens of prompt, want %d", got, want)
	}
}

// TestP17Forced: a tool that is chosen is called (docs/interface/responses-api.md, P-15 and P-17).
func TestP17Forced(t *testing.T) {
	h := newServer(t, nil)
	for _, c := range []struct {
		choice     any
		kind, name string
	}{
		{object{"type": "function", "name": "pick"}, "function_call", "pick"},
		{object{"type": "custom", "name": "code"}, "custom_tool_call", "code"},
		{object{"type": "allowed_tools", "mode": "required", "tools": []any{object{"type": "custom", "name": "code"}}}, "custom_tool_call", "code"},
	} {
		r := ask(t, h, 500, object{"input": "x", "tool_choice": c.choice, "tools": []any{
			object{"type": "function", "name": "pick", "strict": true, "parameters": object{"type": "object", "properties": object{"x": object{"enum": []any{"left"}}}, "required": []any{"x"}, "additionalProperties": false}},
			object{"type": "custom", "name": "code", "format": object{"type": "grammar", "syntax": "regex", "definition": "[ab]-[0-9]"}},
		}})
		call := r["output"].([]any)[0].(object)
		if call["type"] != c.kind || call["name"] != c.name {
			t.Errorf("%v: %v", c.choice, call)
			continue
		}
		switch c.name {
		case "pick":
			if decoded(t, call["arguments"].(string))["x"] != "left" {
				t.Errorf("%v", call)
			}
		case "code":
			if in := call["input"].(string); len(in) != 3 || !strings.Contains("ab", in[:1]) || in[1] != '-' {
				t.Errorf("%q", in)
			}
		}
	}
}
